package run

import (
	"testing"
	"time"

	"sluice"
	"sluice/flow"
	"sluice/journey"
	"sluice/mail"
)

// gate is one that knows of the journeys as they are now.
func (b *bed) gate() *Gate {
	return &Gate{Logs: []*flow.Log{b.log}, Store: b.store, Loader: b.loader(), Clock: b.clock}
}

// sends are the mails that the log has.
func (b *bed) sends() (all []*mail.Send) {
	b.Helper()
	for at := (sluice.Position{}); ; {
		batches, err := b.log.Read(b.Context(), at, 100, 0)
		if err != nil {
			b.Fatal(err)
		}
		if len(batches) == 0 {
			return all
		}
		for i := range batches {
			at = batches[i].Position
			r, err := sluice.ReadBatch(batches[i].Data)
			if err != nil {
				b.Fatal(err)
			}
			for r.Next() {
				if r.Item.Kind == sluice.ItemSend {
					s := &mail.Send{}
					if err := mail.DecodeSend(r.Item.Payload, s); err != nil {
						b.Fatal(err)
					}
					all = append(all, s)
				}
			}
		}
	}
}

// Mail of a journey leaves unless its person was taken out of that occurrence, or is in a
// later one. It is asked about by its person's record alone, wherever that is: in a list,
// or in a block among others.
func TestGate(t *testing.T) {
	sluice.WriteNewForms()
	b := newBed(t, 2*flow.BlockRecords)
	b.publish(leaving)
	b.enterAll(2 * flow.BlockRecords)
	b.passes(b.open())
	sends := b.sends()
	if len(sends) != 2*flow.BlockRecords {
		t.Fatalf("%d mails", len(sends))
	}
	p := b.open()
	in := p.journeys[0]
	c := p.begin()
	want := make(map[int64]string)
	for n := int64(1); n <= 2*flow.BlockRecords; n++ {
		r, ok, err := c.record(t.Context(), in, n)
		if err != nil || !ok {
			t.Fatal(err)
		}
		switch n % 7 {
		case 1:
			r.State = journey.StateExited
			want[n] = "exited leaving/mail"
		case 2:
			r.State = journey.StateFinished
		case 3:
			r.Occurrence++
			want[n] = "exited leaving/mail"
		case 4:
			r = journey.Record{}
		default:
			continue
		}
		if err := c.set(t.Context(), in, n, &r); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	answers, err := b.gate().MayLeave(t.Context(), 0, sends)
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range sends {
		if answers[i].Cancel != want[s.Person] || answers[i].AgainMillis != 0 {
			t.Errorf("mail of person %d: %+v, want %q", s.Person, answers[i], want[s.Person])
		}
	}
}

const leaving = `
id: leaving
entry: {when: {event: signup}}
steps:
  - {id: mail, message: {template: x}, next: wait}
  - {id: wait, delay: {for: 30d}}
`

// Mail of a paused journey waits, and that of one that was stopped is cancelled. A process
// that slept asks anew. With Redis or the database away nothing is said.
func TestGateOfStatus(t *testing.T) {
	sluice.WriteNewForms()
	b := newBed(t, 3)
	j := b.publish(leaving)
	b.enterAll(3)
	b.passes(b.open())
	sends, g := b.sends(), b.gate()
	set := func(status string) mail.Leave {
		t.Helper()
		j, err := b.store.Journey(t.Context(), j.ID)
		if err != nil {
			t.Fatal(err)
		}
		j.Status = status
		if _, err := b.store.PutStatus(t.Context(), j); err != nil {
			t.Fatal(err)
		}
		g.asked = g.asked.Add(-2 * gateEvery) // it slept
		answers, err := g.MayLeave(t.Context(), 0, sends)
		if err != nil {
			t.Fatal(err)
		}
		return answers[2]
	}
	if got := set(journey.StatusPaused); got.Cancel != "" || got.AgainMillis <= b.clock.Now().UnixMilli() {
		t.Errorf("paused: %+v", got)
	}
	if ids, err := g.Paused(t.Context()); err != nil || len(ids) != 1 || ids[0] != j.ID {
		t.Errorf("paused: %v, %v", ids, err)
	}
	if got := set(journey.StatusLive); got != (mail.Leave{}) {
		t.Errorf("live: %+v", got)
	}
	if got := set(journey.StatusStopped); got.Cancel == "" {
		t.Errorf("stopped: %+v", got)
	}
	set(journey.StatusLive)
	if err := b.server.Kill(); err != nil {
		t.Fatal(err)
	}
	if answers, err := g.MayLeave(t.Context(), 0, sends); err == nil {
		t.Errorf("without redis: %+v", answers)
	}
	if err := b.store.Close(); err != nil {
		t.Fatal(err)
	}
	g.asked = time.Time{}
	if answers, err := g.MayLeave(t.Context(), 0, sends); err == nil {
		t.Errorf("without the database: %+v", answers)
	}
}
