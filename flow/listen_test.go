package flow

import (
	"context"
	"strings"
	"testing"
	"time"

	"sluice"
)

// waitingReader reads a list that has nothing, with waits of an hour between the
// looks once Redis listens, and returns what it reads.
func waitingReader(t *testing.T, r *Redis) (l *List, read <-chan string) {
	t.Helper()
	l, lease := newList(t, r, Left)
	l.listenFor = time.Hour
	reader, err := l.Open(t.Context(), lease, sluice.Position{})
	if err != nil {
		t.Fatal(err)
	}
	pages := make(chan string, 1)
	go func() { // ends with the test's context
		for {
			page, err := reader.Next(t.Context(), true)
			if err != nil {
				close(pages)
				return
			}
			pages <- strings.Join(page.Elements, " ")
		}
	}()
	return l, pages
}

// listening is the number of the connection that Redis tells of changes; empty:
// there is none.
func listening(t *testing.T, r *Redis) string {
	t.Helper()
	text, err := r.client.Do(t.Context(), r.client.B().ClientList().Build()).ToString()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(text) {
		var id string
		for _, field := range strings.Fields(line) {
			name, value, _ := strings.Cut(field, "=")
			switch {
			case name == "id":
				id = value
			case name == "flags" && strings.Contains(value, "t"):
				return id
			}
		}
	}
	return ""
}

func TestPushWakesAnEmptyList(t *testing.T) {
	r := dial(t)
	_, read := waitingReader(t, r)
	for _, element := range []string{"a", "b"} {
		eventually(t, "redis is asked to tell", func() bool { return listening(t, r) != "" })
		if err := r.Push(t.Context(), "pepi_queue", []string{element}); err != nil {
			t.Fatal(err)
		}
		if got := <-read; got != element {
			t.Fatalf("read %q, want %q", got, element)
		}
	}
}

func TestListIsLookedAtWhenTheConnectionIsLost(t *testing.T) {
	r := dial(t)
	_, read := waitingReader(t, r)
	eventually(t, "redis is asked to tell", func() bool { return listening(t, r) != "" })
	// Redis forgets which client is to be told, and another client is told
	// next.
	first := listening(t, r)
	do(t, r, "CLIENT", "KILL", "ID", first)
	eventually(t, "redis is asked again", func() bool {
		id := listening(t, r)
		return id != "" && id != first
	})
	if err := r.Push(t.Context(), "pepi_queue", []string{"a"}); err != nil {
		t.Fatal(err)
	}
	if got := <-read; got != "a" {
		t.Fatalf("read %q, want a", got)
	}
}

// A server that does not tell is looked at, as often as without.
func TestListOfAServerThatDoesNotTell(t *testing.T) {
	r := dial(t)
	do(t, r, "ACL", "SETUSER", "default", "-client|tracking")
	t.Cleanup(func() {
		if err := r.client.Do(context.Background(), r.client.B().Arbitrary("ACL", "SETUSER", "default", "+client|tracking").Build()).Error(); err != nil {
			t.Error(err)
		}
	})
	l, read := waitingReader(t, r)
	eventually(t, "redis has refused", func() bool { return l.deafUntil.Load() > 0 })
	if err := r.Push(t.Context(), "pepi_queue", []string{"a"}); err != nil {
		t.Fatal(err)
	}
	if got := <-read; got != "a" {
		t.Fatalf("read %q, want a", got)
	}
}
