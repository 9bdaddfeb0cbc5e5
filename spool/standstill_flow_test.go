package spool_test

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sluice"
	"sluice/flow"
	"sluice/spool"
)

// shut is a route that takes nothing, as if it had gone from the settings.
type shut struct{ spool.OneRoute }

func (*shut) Takes(sluice.Transport, *sluice.Send, []sluice.Transport, time.Time) spool.Take {
	return spool.Take{Wait: 10 * time.Millisecond, Lane: "no-route"}
}

// TestWhatCannotBeReadNeedsNoRoute: it becomes a dead letter where nothing goes,
// and nothing of it is moved aside. What has expired there is in memory no more.
func TestWhatCannotBeReadNeedsNoRoute(t *testing.T) {
	b := newBed(t)
	w := newWire(nil)
	o := b.open(&shut{spool.OneRoute{Transport: w}}, nil)
	o.pack(0, "low-marketing", 1, sluice.AppendItem(sluice.NewBatch(64), sluice.ItemSend, func(b []byte) []byte { return append(b, "no send"...) }))
	o.run()
	d := draft("ann@example.com", sluice.PriorityNormal, sluice.ClassMarketing)
	d.ExpiresMillis = time.Now().Add(2 * time.Second).UnixMilli()
	o.submit(d)
	b.eventually("it has failed", func() bool { return o.waiting() == 0 && o.totals() == "failed 1" })
	b.eventually("there is a dead letter", func() bool {
		n, err := o.store.CountDeadLetters(t.Context())
		b.must(err)
		return n == 1
	})
	if n := o.sender.Held(); n != 0 || len(w.came()) != 0 {
		t.Errorf("%d sends are held, attempted: %v", n, w.came())
	}
}

// meddling is a route, and somebody who does something when the sender asks for
// its transports for the second time: when it has found a send in doubt, and has
// not recorded that yet.
type meddling struct {
	spool.OneRoute
	asked atomic.Int64
	do    func()
}

func (m *meddling) Transports() []sluice.Transport {
	if m.asked.Add(1) == 2 {
		m.do()
	}
	return m.OneRoute.Transports()
}

// TestWhoWasDeadMovesItAsideAfterAll: a process that was stopped for so long that
// its mail is held to be in doubt goes on, and moves it to a sublane, just before
// that is recorded. It is found there.
func TestWhoWasDeadMovesItAsideAfterAll(t *testing.T) {
	b := newBed(t)
	w := newWire(nil)
	routes := &meddling{OneRoute: spool.OneRoute{Transport: w}}
	o := b.open(routes, nil)
	s := sluice.Send{Message: strings.Repeat("a", sluice.MessageIDBytes), Recipients: 1, Priority: sluice.PriorityLow, Class: sluice.ClassMarketing,
		Form: sluice.ContentMIME, To: "ann@example.com", Content: "x", ExpiresMillis: time.Now().Add(time.Hour).UnixMilli()}
	lane := "low-marketing"
	o.pack(0, lane, 1, sluice.AppendSend(sluice.NewBatch(64), &s))
	read, err := o.lanes[0].Read(t.Context(), map[string]string{lane: "0-0"}, 1, 0)
	b.must(err)
	spot := flow.Spot{Batch: &read[lane][0]}
	evidence := fmt.Sprintf("gone|%d|wire|1", time.Now().UnixMilli())
	o.leased(0, func(lease *flow.Lease) {
		start, err := o.lanes[0].Stand(t.Context(), lease, time.Now().UnixMilli())
		b.must(err)
		letters, err := o.lanes[0].Mark(t.Context(), lease, start.Server, evidence, []flow.Spot{spot}, []string{s.ID()})
		if err != nil || letters != "m" {
			t.Fatalf("mark: %q, %v", letters, err)
		}
	})
	routes.do = func() {
		n, _, err := o.lanes[0].Record(t.Context(), []flow.Packed{{Lane: flow.Sublane(lane, "example.com")}},
			[]flow.Recorded{{Spot: spot, ID: s.ID(), Evidence: evidence, Item: sluice.AppendSend(nil, &s)}})
		if err != nil || n != 1 {
			t.Errorf("record: %d, %v", n, err)
		}
	}
	o.run()
	b.eventually("nothing waits", func() bool { return o.waiting() == 0 })
	if came := w.came(); !slices.Equal(came, []string{"ann@example.com"}) {
		t.Errorf("attempted: %v", came)
	}
}
