package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"sluice"
	"sluice/store"
)

func testDeadLetters(t *testing.T, f *fixture) {
	f.start(t)
	var e store.Effect
	for i := range 5 {
		e.Dead = append(e.Dead, sluice.DeadLetter{
			Source: fmt.Sprintf("list:%d", i), Form: sluice.FormCommand, Reason: "because",
			Place:   sluice.Place{Partition: 255, Position: sluice.Position{Major: 1<<64 - 1, Minor: 1<<64 - 1}, Index: i},
			Payload: []byte{byte(i), 0, '\n'}, TimeMillis: 1_760_000_000_123,
		})
	}
	f.apply(t, e, 0, 0)
	n, err := f.store.CountDeadLetters(f.ctx)
	must(t, err)
	want(t, "count", n, 5)
	first, err := f.store.DeadLetters(f.ctx, 0, 2)
	must(t, err)
	rest, err := f.store.DeadLetters(f.ctx, first[1].ID, 100)
	must(t, err)
	list := append(first, rest...)
	want(t, "listed", len(list), 5)
	for i, l := range list {
		if l.Payload != nil {
			t.Fatal("the list has payloads")
		}
		whole, err := f.store.DeadLetter(f.ctx, l.ID)
		must(t, err)
		if !bytes.Equal(whole.Payload, e.Dead[i].Payload) {
			t.Fatalf("payload %q, want %q", whole.Payload, e.Dead[i].Payload)
		}
		whole.Payload = nil
		l.Payload, e.Dead[i].Payload, e.Dead[i].ID = nil, nil, l.ID
		want(t, "listed letter", fmt.Sprint(l), fmt.Sprint(e.Dead[i]))
		want(t, "read letter", fmt.Sprint(whole), fmt.Sprint(l))
	}
	must(t, f.store.DropDeadLetter(f.ctx, list[0].ID))
	must(t, f.store.DropDeadLetter(f.ctx, list[0].ID))
	_, err = f.store.DeadLetter(f.ctx, list[0].ID)
	var e2 *sluice.Error
	if !errors.As(err, &e2) || e2.Code != sluice.CodeNotFound {
		t.Fatalf("a dropped letter gave the error %v", err)
	}
	n, err = f.store.CountDeadLetters(f.ctx)
	must(t, err)
	want(t, "count", n, 4)
}

// testDeadTexts: a dead letter is never refused, whatever is in it.
func testDeadTexts(t *testing.T, f *fixture) {
	f.start(t)
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	e := store.Effect{Dead: []sluice.DeadLetter{
		{Source: "s", Form: sluice.FormItem, Reason: strings.Repeat("é\xff\x00\t", 30_000), Payload: every},
		{Source: strings.Repeat("ü", 300), Form: sluice.Form(strings.Repeat("f", 99)), Reason: "\xff", Payload: nil},
		{Place: sluice.Place{Partition: -1, Index: -1}, TimeMillis: 1 << 62, Payload: bytes.Repeat([]byte{'\\', 'N', 0xff, 0}, 1<<18)},
	}}
	for _, s := range hardTexts {
		e.Dead = append(e.Dead, sluice.DeadLetter{Source: s, Form: sluice.FormElement, Reason: s, Payload: []byte(s)})
	}
	f.apply(t, e, 0, 0)
	list, err := f.store.DeadLetters(f.ctx, 0, 1000)
	must(t, err)
	want(t, "listed", len(list), len(e.Dead))
	for i, l := range list {
		whole, err := f.store.DeadLetter(f.ctx, l.ID)
		must(t, err)
		if !bytes.Equal(whole.Payload, e.Dead[i].Payload) {
			t.Fatalf("letter %d: payload %.100q, want %.100q", i, whole.Payload, e.Dead[i].Payload)
		}
		if i >= 3 {
			reason := e.Dead[i].Reason // the source is the same
			if f.NoNUL {
				reason = strings.ReplaceAll(reason, "\x00", "\uFFFD")
			}
			want(t, "reason", l.Reason, reason)
			want(t, "source", l.Source, reason)
		}
		if l.TimeMillis <= 0 {
			t.Fatalf("letter %d has no time", i)
		}
	}
}

func testDeadLarge(t *testing.T, f *fixture) {
	f.start(t)
	const mib = 1 << 20
	sizes := []int{17 * mib, mib - 1, mib, mib + 1, 2 * mib, 2*mib + 1}
	var e store.Effect
	for i, size := range sizes {
		payload := make([]byte, size)
		for n := range payload {
			payload[n] = byte(n*7 + n>>10 + i)
		}
		e.Dead = append(e.Dead, sluice.DeadLetter{Source: "log", Form: sluice.FormBatch, Reason: fmt.Sprint(size), Payload: payload})
	}
	f.apply(t, e, 0, 0)
	list, err := f.store.DeadLetters(f.ctx, 0, 100)
	must(t, err)
	want(t, "listed", len(list), len(sizes))
	for _, l := range list {
		whole, err := f.store.DeadLetter(f.ctx, l.ID)
		must(t, err)
		for i := range e.Dead {
			if e.Dead[i].Reason == l.Reason && !bytes.Equal(whole.Payload, e.Dead[i].Payload) {
				t.Fatalf("the payload of %s bytes came back as another of %d", l.Reason, len(whole.Payload))
			}
		}
		must(t, f.store.DropDeadLetter(f.ctx, l.ID))
	}
	want(t, "pieces left", f.count(t, "dead_chunks"), 0)
}

func testDeadFlood(t *testing.T, f *fixture) {
	f.start(t)
	const n = 51_000 // more than one LOAD DATA gets
	e := store.Effect{Dead: make([]sluice.DeadLetter, n)}
	for i := range e.Dead {
		e.Dead[i] = sluice.DeadLetter{Source: "list:flood", Form: sluice.FormElement, Reason: "it is not JSON", Payload: fmt.Appendf(nil, "{element %d", i)}
	}
	f.apply(t, e, 0, 0)
	count, err := f.store.CountDeadLetters(f.ctx)
	must(t, err)
	want(t, "count", count, n)
}
