package flow

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice"
	"sluice/test/servers"
)

// withReplica starts a master and a replica of it that follows it.
func withReplica(t testing.TB) (r *Redis, replica *servers.Redis) {
	t.Helper()
	var pair [2]*servers.Redis
	for i := range pair {
		options := servers.RedisOptions{Dir: filepath.Join(t.TempDir(), fmt.Sprint(i)), Listen: "tcp", Extra: []string{"--repl-diskless-sync-delay", "0", "--enable-debug-command", "yes"}}
		if i > 0 {
			_, port, _ := strings.Cut(pair[0].Addr(), ":")
			options.Extra = append(options.Extra, "--replicaof", "127.0.0.1 "+port)
		}
		one, err := servers.StartRedis(t.Context(), options)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = one.Kill() })
		pair[i] = one
	}
	r, err := Dial(t.Context(), pair[0].URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	for {
		info, err := r.Info(t.Context(), "replication")
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(info["slave0"], "state=online") {
			return r, pair[1]
		}
		<-time.After(10 * time.Millisecond)
	}
}

// TestReplicasAreWaitedFor: with a replica that answers, each way to write is answered. With
// one that does not, each is told so, and has written all the same.
func TestReplicasAreWaitedFor(t *testing.T) {
	r, replica := withReplica(t)
	logs := []*Log{NewLog(r, Partitions(1)[0])}
	ways := []struct {
		name  string
		write func(w *Writer, name string) error
	}{
		{"Write", func(w *Writer, _ string) error { return w.Write(t.Context(), Part{0, eventOf(1), 1}) }},
		{"WriteOnce", func(w *Writer, name string) error {
			return w.WriteOnce(t.Context(), Part{0, eventOf(1), 1}, name, "print", time.Minute)
		}},
		{"WriteEach", func(w *Writer, name string) error {
			item := eventOf(1)
			_, err := w.WriteEach(t.Context(), Part{0, item, 1}, name, []Named{{"a", len(item)}}, time.Minute)
			return err
		}},
	}
	asks := []struct {
		least  int
		paused bool
		want   error
	}{{0, true, nil}, {1, false, nil}, {1, true, ErrReplicas}, {2, false, ErrReplicas}, {1, false, nil}}
	for i, ask := range asks {
		do := replica.Continue
		if ask.paused {
			do = replica.Pause
		}
		if err := do(); err != nil {
			t.Fatal(err)
		}
		within := 20 * time.Second
		if ask.want != nil {
			within = 50 * time.Millisecond
		}
		for _, way := range ways {
			w := NewWriter(logs, fmt.Sprint(way.name, i), testBacklogBytes)
			w.Replicas = Replicas{Least: ask.least, Within: within}
			before, err := logs[0].Entries(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if err := way.write(w, fmt.Sprint(way.name, i)); !errors.Is(err, ask.want) {
				t.Errorf("%s with %d replicas asked for, paused %v: %v, want %v", way.name, ask.least, ask.paused, err, ask.want)
			}
			if after, err := logs[0].Entries(t.Context()); err != nil || after != before+1 {
				t.Errorf("%s with %d replicas asked for, paused %v: %d entries more, want 1 (%v)", way.name, ask.least, ask.paused, after-before, err)
			}
		}
	}
}

// TestReplicasOfFirstWrites: a write to logs of which this process has written to none yet,
// or to one alone, is answered as any other.
func TestReplicasOfFirstWrites(t *testing.T) {
	r, _ := withReplica(t)
	var logs []*Log
	for _, p := range Partitions(4) {
		logs = append(logs, NewLog(r, p))
	}
	w, item := NewWriter(logs, "api:1", testBacklogBytes), eventOf(1)
	w.Replicas = Replicas{Least: 1, Within: 20 * time.Second}
	if err := w.Write(t.Context(), Part{0, item, 1}); err != nil {
		t.Errorf("the first write to one: %v", err)
	}
	if err := w.Write(t.Context(), Part{0, item, 1}, Part{1, item, 1}); err != nil {
		t.Errorf("a write to one that was written to and one that was not: %v", err)
	}
	if err := w.WriteOnce(t.Context(), Part{2, item, 1}, "name", "print", time.Minute); err != nil {
		t.Errorf("the first write under a name: %v", err)
	}
	if _, err := w.WriteEach(t.Context(), Part{3, item, 1}, "request", []Named{{"a", len(item)}}, time.Minute); err != nil {
		t.Errorf("the first write of names: %v", err)
	}
}

// TestReplicasOfAnotherRedisDoNotCount: what was promoted since confirms its own writes.
func TestReplicasOfAnotherRedisDoNotCount(t *testing.T) {
	r, _ := withReplica(t)
	logs := []*Log{NewLog(r, Partitions(1)[0])}
	w := NewWriter(logs, "api:1", testBacklogBytes)
	if err := w.Write(t.Context(), Part{0, eventOf(1), 1}); err != nil {
		t.Fatal(err)
	}
	n, on := Replicas{Least: 1, Within: 20 * time.Second}, r.floors.server(logs)
	if err := n.await(t.Context(), logs, on); err != nil {
		t.Errorf("on the same: %v", err)
	}
	before, err := n.From(t.Context(), logs[0])
	if err != nil {
		t.Fatal(err)
	}
	do(t, r, "DEBUG", "CHANGE-REPL-ID")
	if err := n.await(t.Context(), logs, on); !errors.Is(err, ErrReplicas) || !errors.Is(err, sluice.ErrConflict) {
		t.Errorf("on another: %v", err)
	}
	if err := before(t.Context()); !errors.Is(err, ErrReplicas) {
		t.Errorf("from the one before: %v", err)
	}
	if wait, err := n.From(t.Context(), logs[0]); err != nil {
		t.Errorf("a try that appends nothing: %v", err)
	} else if err := wait(t.Context()); err != nil {
		t.Errorf("from another, and nothing is appended: %v", err)
	}
	r.floors.raised(0, "another")
	if err := n.await(t.Context(), logs, on); !errors.Is(err, ErrReplicas) {
		t.Errorf("on one that the process knows to be another: %v", err)
	}
}

// BenchmarkReplicas compares writes of 32 callers that wait for no replica and for one.
func BenchmarkReplicas(b *testing.B) {
	r, _ := withReplica(b)
	var logs []*Log
	for _, p := range Partitions(16) {
		logs = append(logs, NewLog(r, p))
	}
	const callers = 32
	for least := range 2 {
		b.Run(fmt.Sprint("wait=", least), func(b *testing.B) {
			w := NewWriter(logs, "bench"+newToken(), testBacklogBytes<<10)
			w.Replicas = Replicas{Least: least, Within: 10 * time.Second}
			item := eventOf(200)
			var all sync.WaitGroup
			for caller := range callers {
				all.Go(func() {
					for n := caller; n < b.N; n += callers {
						if err := w.Write(b.Context(), Part{n % len(logs), item, 1}); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			all.Wait()
		})
	}
}
