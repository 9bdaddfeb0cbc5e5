package run

import (
	"context"
	"log/slog"
	"strconv"
	"sync"
	"testing"
	"time"

	"sluice"
	"sluice/flow"
	"sluice/journey"
	"sluice/store"
	"sluice/user"
)

// heard is what a follower has told of itself.
type heard struct {
	mu     sync.Mutex
	failed error
}

func (h *heard) Fine(string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.failed = nil
}

func (h *heard) Lasts(name string, _ time.Time) { h.Fine(name) }

func (h *heard) Failed(_ string, err error, _ time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.failed = err
}

func (h *heard) err() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.failed
}

// A partition whose records cannot be read says so, and the other goes on; when they can
// be read, it goes on too.
func TestABrokenPartitionStopsNoOther(t *testing.T) {
	b := newBed(t, 1)
	b.apply(&store.Effect{Users: &user.Changes{Put: []user.Row{{ID: user.ID{Partition: 1, Number: 1}, Profile: profileOf(2)}}}})
	j := b.publish(`
id: hello
entry: {when: {event: signup}}
steps:
  - {id: hello, message: {template: x}}
`)
	for p := range bedPartitions {
		b.apply(&store.Effect{JourneyFacts: []journey.Fact{{Place: sluice.Place{Partition: p, Position: sluice.Position{Major: 1, Minor: 1}}, Number: 1, Kind: journey.FactEvent, Name: "signup", TimeMillis: 1}}})
	}
	broken := flow.NewLog(b.redis, flow.Partitions(bedPartitions)[1])
	key, field := broken.Note("any", "").Words[1], strconv.FormatInt(j.Number, 10)
	set := func(words ...string) {
		t.Helper()
		if err := b.redis.Do(t.Context(), "break a partition", b.redis.B().Arbitrary(words[0]).Keys(words[1]).Args(words[2:]...).Build()); err != nil {
			t.Fatal(err)
		}
	}
	set("HSET", key, field, "no number")

	told := &heard{}
	f := &Follower{Logs: []*flow.Log{b.log, broken}, Leases: b.leases, Store: b.store, Clock: b.clock, Log: slog.New(slog.DiscardHandler), Health: told, Loader: b.loader()}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); f.Run(ctx, ctx) }()
	defer func() { stop(); <-done }()
	await := func(what string, holds func() bool) {
		t.Helper()
		deadline := time.After(3 * time.Minute)
		for tick := time.Tick(5 * time.Millisecond); !holds(); {
			select {
			case <-tick:
			case <-deadline:
				t.Fatalf("waited in vain until %s", what)
			}
		}
	}
	await("the first partition has its mail", func() bool { return f.Stats.Told.Load() == 1 && len(b.read().sends) == 1 })
	await("the other has said what is wrong", func() bool { return told.err() != nil })
	set("HDEL", key, field)
	await("it goes on", func() bool { return f.Stats.Told.Load() == 2 })
}
