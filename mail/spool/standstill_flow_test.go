package spool_test

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"sluice"
	"sluice/flow"
	"sluice/mail"
	"sluice/mail/spool"
	"sluice/test/spooltest"
)

// shut is a route that takes nothing, as if it had gone from the settings.
type shut struct{ spooltest.OneRoute }

func (*shut) Takes(mail.Transport, *mail.Send, []mail.Transport, time.Time) spool.Take {
	return spool.Take{Wait: 10 * time.Millisecond, Lane: "no-route"}
}

// TestWhatCannotBeReadNeedsNoRoute: it becomes a dead letter where nothing goes,
// and nothing of it is moved aside. What has expired there is in memory no more.
func TestWhatCannotBeReadNeedsNoRoute(t *testing.T) {
	b := newBed(t)
	w := newWire(nil)
	o := b.open(&shut{spooltest.OneRoute{Transport: w}}, nil)
	o.pack(0, "low-marketing", 1, sluice.AppendItem(sluice.NewBatch(64), sluice.ItemSend, func(b []byte) []byte { return append(b, "no send"...) }))
	o.run()
	d := draft("ann@example.com", mail.PriorityNormal, mail.ClassMarketing)
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

// meddling is a route that calls a function when the sender first asks for a transport by its
// name. At that time the sender has found a send in doubt, and has not recorded that yet.
type meddling struct {
	spooltest.OneRoute
	asked atomic.Int64
	do    func()
}

func (m *meddling) TransportOf(name string) mail.Transport {
	if m.asked.Add(1) == 1 {
		m.do()
	}
	return m.OneRoute.TransportOf(name)
}

// startOfDead is the beginning of a test in which a process that is held to be dead
// has marked a send. It returns the office that is to find it, and what of the send
// can be recorded.
func startOfDead(b *bed, routes spool.Routes, lane string) (*office, flow.Recorded) {
	b.Helper()
	o := b.open(routes, nil)
	s := mail.Send{Message: strings.Repeat("a", sluice.MessageIDBytes), Recipients: 1, Priority: mail.PriorityLow, Class: mail.ClassMarketing,
		Form: mail.ContentMIME, To: "ann@example.com", Content: "x", ExpiresMillis: time.Now().Add(time.Hour).UnixMilli()}
	o.pack(0, lane, 1, mail.AppendSend(sluice.NewBatch(64), &s))
	read, err := o.lanes[0].Read(b.Context(), map[string]string{lane: "0-0"}, 1, 0)
	b.must(err)
	r := flow.Recorded{LanePlace: flow.LanePlace{Batch: &read[lane][0]}, ID: s.ID(), Evidence: fmt.Sprintf("gone|%d|wire|1", time.Now().UnixMilli()), Packed: -1}
	o.leased(0, func(lease *flow.Lease) {
		start, err := o.lanes[0].Begin(b.Context(), lease, time.Now().UnixMilli())
		b.must(err)
		letters, err := o.lanes[0].Mark(b.Context(), lease, start.Server, r.Evidence, []flow.LanePlace{r.LanePlace}, []string{r.ID})
		if err != nil || letters != "m" {
			b.Fatalf("mark: %q, %v", letters, err)
		}
	})
	r.Item = mail.AppendSend(nil, &s)
	return o, r
}

// TestWhoWasDeadGoesOnAfterAll: a process stops for so long that its mail is
// held to be in doubt, and goes on just before that is recorded. If it moves
// the mail to a sublane, the mail is found there. If it says that the mail was
// not attempted, the mail waits.
func TestWhoWasDeadGoesOnAfterAll(t *testing.T) {
	const lane = "low-marketing"
	for name, change := range map[string]func(*flow.Recorded) []flow.Packed{
		"moved aside": func(r *flow.Recorded) []flow.Packed {
			r.Packed = 0
			return []flow.Packed{{Lane: flow.Sublane(lane, "example.com")}}
		},
		"not attempted": func(r *flow.Recorded) []flow.Packed {
			r.Waits, r.Item = true, nil
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			w := newWire(nil)
			routes := &meddling{OneRoute: spooltest.OneRoute{Transport: w}}
			o, r := startOfDead(b, routes, lane)
			routes.do = func() {
				n, _, err := o.lanes[0].Record(t.Context(), change(&r), []flow.Recorded{r})
				if err != nil || n != 1 {
					t.Errorf("record: %d, %v", n, err)
				}
			}
			o.run()
			b.eventually("nothing waits", func() bool { return o.waiting() == 0 })
			if came := w.came(); !slices.Equal(came, []string{"ann@example.com"}) {
				t.Errorf("attempted: %v", came)
			}
			for _, out := range b.outcomes() {
				if out.State == mail.SendInDoubt {
					t.Errorf("it was in doubt: %+v", out)
				}
			}
		})
	}
}

// TestLanesOfANewerProgram: what a newer program has put into a lane waits for
// one that reads it. It becomes no dead letter, and nothing behind it is taken.
func TestLanesOfANewerProgram(t *testing.T) {
	b := newBed(t)
	w := newWire(nil)
	o := b.open(&spooltest.OneRoute{Transport: w}, nil)
	raw := must(rueidis.NewClient(plainOption(b.redis)))
	defer raw.Close()
	forms := raw.B().Arbitrary("HSET").Keys("sluice:{members}:forms").Args("item", fmt.Sprint(int(sluice.ItemNext))).Build()
	b.must(raw.Do(t.Context(), forms).Error())
	s := mail.Send{Message: strings.Repeat("a", sluice.MessageIDBytes), Recipients: 1, Priority: mail.PriorityLow, Class: mail.ClassMarketing,
		Form: mail.ContentMIME, To: "ann@example.com", Content: "x", ExpiresMillis: time.Now().Add(time.Hour).UnixMilli()}
	batch := sluice.AppendItem(sluice.NewBatch(64), sluice.ItemNext, func(b []byte) []byte { return append(b, "of the next version"...) })
	o.pack(0, "low-marketing", 2, mail.AppendSend(batch, &s))
	o.run()
	elsewhere := inPartition(1)
	o.submit(draft(elsewhere, mail.PriorityNormal, mail.ClassMarketing))
	b.eventually("other partitions go on, and this one is tried again", func() bool {
		return o.waiting() == 2 && len(w.came()) == 1 && strings.Contains(b.log.String(), "a newer program has been here")
	})
	waiting := o.waiting()
	if dead, err := o.store.CountDeadLetters(t.Context()); err != nil || dead != 0 || waiting != 2 || !slices.Equal(w.came(), []string{elsewhere}) {
		t.Errorf("%d dead letters, %v; %d wait, attempted: %v", dead, err, waiting, w.came())
	}
}

// inPartition is an address of a partition.
func inPartition(partition int) string {
	for i := 0; ; i++ {
		if to := fmt.Sprintf("u%d@example.com", i); mail.SendPartition(to, testPartitions) == partition {
			return to
		}
	}
}
