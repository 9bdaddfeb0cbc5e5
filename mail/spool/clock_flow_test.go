package spool_test

import (
	"bytes"
	"sync/atomic"
	"testing"
	"time"

	"sluice/mail"
	"sluice/test/spooltest"
)

// wrong is a clock that is ahead of the machine's, and counts who asks it.
type wrong struct {
	by    time.Duration
	asked atomic.Int64
}

func (w *wrong) Now() time.Time {
	w.asked.Add(1)
	return time.Now().Add(w.by)
}

// TestAWrongClockReleasesNothing: the clock of a process is a week ahead or
// behind. No mail leaves before it is due, and none fails because its time were
// over; what is due leaves as ever. So it is when others take up what that
// process took in.
func TestAWrongClockReleasesNothing(t *testing.T) {
	for name, by := range map[string]time.Duration{"ahead": 7 * 24 * time.Hour, "behind": -7 * 24 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			clock := &wrong{by: by}
			b.clock = clock
			w := newWire(nil)
			taker := b.open(&spooltest.OneRoute{Transport: w}, nil) // takes in, and sends nothing
			taker.submit(draft("other@example.com", mail.PriorityNormal, mail.ClassTransactional))
			taker.stop()

			o := b.start(w, nil)
			tomorrow := draft("tomorrow@example.com", mail.PriorityNormal, mail.ClassMarketing)
			tomorrow.DueMillis = time.Now().Add(24 * time.Hour).UnixMilli()
			soon := draft("soon@example.com", mail.PriorityHigh, mail.ClassTransactional)
			soon.ExpiresMillis = time.Now().Add(24 * time.Hour).UnixMilli()
			o.submit(tomorrow, soon, draft("now@example.com", mail.PriorityNormal, mail.ClassTransactional))
			b.eventually("what is due has left", func() bool { return o.totals() == "waiting 1, sent 3" })
			asked := clock.asked.Load()
			b.eventually("it was looked for what is due, in each partition, several times", func() bool { return clock.asked.Load() > asked+100 })
			if came := w.came(); len(came) != 3 {
				t.Errorf("%v left", came)
			}

			taker = b.open(&spooltest.OneRoute{Transport: w}, nil)
			taker.submit(draft("last@example.com", mail.PriorityNormal, mail.ClassTransactional))
			o.stop()
			b.clock = nil // of a process whose clock is right
			o = b.start(w, nil)
			b.eventually("it has left, the other one waits", func() bool { return o.totals() == "waiting 1, sent 4" })
		})
	}
}

// A process whose clock is a week behind takes in a mail whose content is large. Until its
// send is stored, that content is not taken for one that nobody needs.
func TestBodiesOfAClockThatIsBehindStay(t *testing.T) {
	b := newBed(t)
	b.clock = &wrong{by: -7 * 24 * time.Hour}
	w := newWire(nil)
	o := b.open(&spooltest.OneRoute{Transport: w}, nil) // takes in, and stores nothing
	large := draft("large@example.com", mail.PriorityNormal, mail.ClassTransactional)
	large.Content = append(large.Content, bytes.Repeat([]byte("x"), 5_000)...)
	o.submit(large)
	if n, err := o.store.DropOrphans(t.Context(), time.Now().Add(-time.Hour).UnixMilli()); n != 0 || err != nil {
		t.Errorf("%d bodies were removed, %v", n, err)
	}
	o.stop()
	b.clock = nil
	o = b.start(w, nil)
	b.eventually("it is sent", func() bool { return o.totals() == "sent 1" })
}
