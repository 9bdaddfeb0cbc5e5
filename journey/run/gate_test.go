package run

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"time"

	"sluice"
	"sluice/flow"
	"sluice/journey"
	"sluice/mail"
	"sluice/store"
	"sluice/test/clocktest"
	"sluice/user"
)

// gate is one that knows of the journeys as they are now.
func (b *bed) gate() *Gate {
	return b.gateOf(b.store)
}

// gateOf is one that asks another store than the test.
func (b *bed) gateOf(db Store) *Gate {
	g := NewGate([]*flow.Log{b.log, flow.NewLog(b.redis, flow.Partitions(bedPartitions)[1])}, db, b.loader(), b.clock, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan struct{})
	go func() { defer close(done); g.Run(ctx) }() // until the test ends
	b.Cleanup(func() { cancel(); <-done })
	return g
}

// sleeps makes a gate know what it knows for longer than it may.
func (g *Gate) sleeps() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.asked = g.asked.Add(-2 * gateEvery)
}

// mayLeave asks a gate about mails. It asks again while mail waits for a database that was too
// slow, as on a busy machine: a gate has a second for it. Mail of those who stay may wait.
func (b *bed) mayLeave(g *Gate, sends []*mail.Send, stay ...int64) []mail.Leave {
	b.Helper()
	for began := time.Now(); ; clocktest.Rest(began) {
		answers, err := g.MayLeave(b.Context(), 0, sends)
		b.attempts++
		slow := err != nil
		for i, a := range answers {
			slow = slow || a.AgainMillis == g.slowUntil().UnixMilli() && !slices.Contains(stay, sends[i].Person)
		}
		if !slow {
			return answers
		}
		if time.Since(began) > 3*time.Minute {
			b.Fatalf("the gate says for 3 min: %+v, %v", answers, err)
		}
	}
}

// paused are the journeys that a gate knows to be paused, once it has looked in time.
func (b *bed) paused(g *Gate) []string {
	b.Helper()
	for began := time.Now(); ; clocktest.Rest(began) {
		ids, err := g.Paused(b.Context())
		if err == nil {
			return ids
		}
		if !errors.Is(err, errGateSlow) || time.Since(began) > 3*time.Minute {
			b.Fatal(err)
		}
	}
}

// storeSends has the ledger know mails that the log has, those that are wanted, and returns how
// many these are.
func (b *bed) storeSends(wanted func(i int, s *mail.Send) bool) int {
	b.Helper()
	var rows []mail.StoredSend
	for i, s := range b.sends() {
		if wanted(i, s) {
			rows = append(rows, mail.StoredSend{Send: *s, Place: sluice.Place{Position: sluice.Position{Major: 1, Minor: 1}, Index: i}})
		}
	}
	b.apply(&store.Effect{Sends: rows})
	return len(rows)
}

func everyMail(int, *mail.Send) bool { return true }

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

// Mail of a journey leaves unless its person was taken out of that occurrence. It is asked about by its person's record alone, wherever that is: in a list,
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
			r.Occurrence++ // it is inside once more
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
	answers := b.mayLeave(b.gate(), sends)
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

// Mail belongs to the occurrence that made it: who was taken out of that one does not get
// it, also once the person is inside again, or has gone the way to its end by then.
func TestGateOfWhoEntersAgain(t *testing.T) {
	const signup, bought = "signup", "bought"
	for _, x := range []struct {
		name   string
		facts  []string
		cancel []bool // by occurrence
	}{
		{"inside", []string{signup}, []bool{false}},
		{"out", []string{signup, bought}, []bool{true}},
		{"inside again", []string{signup, bought, signup}, []bool{true, false}},
		{"out again", []string{signup, bought, signup, bought}, []bool{true, true}},
		{"inside a third time", []string{signup, bought, signup, bought, signup}, []bool{true, true, false}},
		{"finished, and inside again", []string{signup, "done", signup}, []bool{false, false}},
		{"out, finished, and inside again", []string{signup, bought, signup, "done", signup}, []bool{true, false, false}},
		{"finished, out, and inside again", []string{signup, "done", signup, bought, signup}, []bool{false, true, false}},
	} {
		t.Run(x.name, func(t *testing.T) {
			b := newBed(t, 1)
			b.publish(leavingAgain)
			for i, name := range x.facts {
				b.fact(uint64(i)+1, 1, journey.FactEvent, name, "")
			}
			b.passes(b.open())
			sends := b.sends()
			if len(sends) != len(x.cancel) {
				t.Fatalf("%d mails, want %d", len(sends), len(x.cancel))
			}
			answers := b.mayLeave(b.gate(), sends)
			for i, s := range sends {
				want := mail.Leave{}
				if x.cancel[s.Occurrence] {
					want.Cancel = "exited again/mail"
				}
				if answers[i] != want {
					t.Errorf("mail of occurrence %d: %+v, want %+v", s.Occurrence, answers[i], want)
				}
			}
		})
	}
}

const leavingAgain = `
id: again
entry: {when: {event: signup}, again_after: 0s}
steps:
  - {id: mail, message: {template: x}, next: wait}
  - {id: wait, wait_for: {within: 30d, paths: [{name: done, when: {event: done}, next: exit}], otherwise: exit}}
exit_when: {event: bought}
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
		g.sleeps()
		if status == journey.StatusPaused { // its mail waits as long as for a slow database
			b.paused(g)
			answers, err := g.MayLeave(t.Context(), 0, sends)
			if err != nil {
				t.Fatal(err)
			}
			return answers[2]
		}
		return b.mayLeave(g, sends)[2]
	}
	if got := set(journey.StatusPaused); got.Cancel != "" || got.AgainMillis <= b.clock.Now().UnixMilli() {
		t.Errorf("paused: %+v", got)
	}
	if ids := b.paused(g); len(ids) != 1 || ids[0] != j.ID {
		t.Errorf("paused: %v", ids)
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
	b.paused(g) // now it knows of the journeys, and asks Redis
	if answers, err := g.MayLeave(t.Context(), 0, sends); err == nil {
		t.Errorf("without redis: %+v", answers)
	}
	if err := b.store.Close(); err != nil {
		t.Fatal(err)
	}
	g.sleeps()
	answers, err := g.MayLeave(t.Context(), 0, sends)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range answers {
		if a.Cancel != "" || a.AgainMillis <= b.clock.Now().UnixMilli() {
			t.Errorf("without the database: %+v", a)
		}
	}
}

// Mail that has waited is asked about the hours without mail again, in the zone of its
// person: it waits for their end, or is left out. Mail that was just made is not, and
// that which ignores them neither.
func TestGateOfQuietHours(t *testing.T) {
	sluice.WriteNewForms()
	b := newBed(t, 2)
	b.apply(&store.Effect{Users: &user.Changes{Put: []user.Row{{ID: user.ID{Number: 2}, Profile: `{"external_id":"u2","fields":{"email":"u2@example.com","time_zone":"America/New_York"}}`}}}})
	for _, then := range []string{"wait", "skip"} {
		b.publish("\nid: " + then + "\nentry: {when: {event: signup}}\nsteps:\n  - {id: mail, message: {template: x, tags: " + then + "}, next: urgent}\n  - {id: urgent, message: {template: x, ignore_quiet: true}}\nquiet: {from: \"22:00\", to: \"08:00\", zone: user, then: " + then + "}\n")
	}
	b.enterAll(2) // 9:00 UTC
	b.clock.Move(6 * time.Hour)
	b.passes(b.open()) // 15:00 UTC, 10:00 in New York
	sends := b.sends()
	if len(sends) != 8 {
		t.Fatalf("%d mails", len(sends))
	}
	at := func(after time.Duration, want map[int64]mail.Leave, skipped map[int64]string) {
		t.Helper()
		b.clock.Move(after)
		answers := b.mayLeave(b.gate(), sends)
		for i, s := range sends {
			var is mail.Leave
			switch s.Tags {
			case "wait":
				is = want[s.Person]
			case "skip":
				is.Cancel = skipped[s.Person]
			}
			if answers[i] != is {
				t.Errorf("at %s, person %d, %s/%s: %+v, want %+v", b.clock.Now(), s.Person, s.Journey, s.Step, answers[i], is)
			}
		}
	}
	until := func(day, hour int) mail.Leave {
		return mail.Leave{AgainMillis: time.Date(2026, 3, day, hour, 0, 0, 0, time.UTC).UnixMilli()}
	}
	at(0, nil, nil)
	at(8*time.Hour, map[int64]mail.Leave{1: until(3, 8)}, map[int64]string{1: "quiet skip/mail"})                                        // 23:00 UTC, 18:00
	at(5*time.Hour, map[int64]mail.Leave{1: until(3, 8), 2: until(3, 13)}, map[int64]string{1: "quiet skip/mail", 2: "quiet skip/mail"}) // 4:00 UTC, 23:00
	at(4*time.Hour, map[int64]mail.Leave{2: until(3, 13)}, map[int64]string{2: "quiet skip/mail"})                                       // 8:00 UTC, 3:00
	for _, s := range sends {
		s.AcceptedMillis = b.clock.Now().Add(time.Minute - quietAfter).UnixMilli()
	}
	at(0, nil, nil)
}

// Transactional mail leaves in the hours without mail, also when the version that made it has
// ended: there the class of a template is not known.
func TestGateOfQuietHoursBehindTheEndOfAVersion(t *testing.T) {
	sluice.WriteNewForms()
	b := newBed(t, 1)
	for id, class := range map[string]mail.Class{"receipt": mail.ClassTransactional, "offer": mail.ClassMarketing} {
		if err := b.store.AddTemplate(t.Context(), mail.Template{ID: id, Name: id, Current: 1}, mail.TemplateVersion{Template: id, Version: 1, Class: class, Subject: "Hello", Text: "Hello", From: "us@example.org"}); err != nil {
			t.Fatal(err)
		}
	}
	text := "id: order\nentry: {when: {event: signup}}\nsteps:\n  - {id: receipt, message: {template: receipt}, next: offer}\n  - {id: offer, message: {template: offer}}\nquiet: {from: \"22:00\", to: \"08:00\", then: skip}\n"
	j := b.publish(text)
	b.enterAll(1)
	b.passes(b.open()) // 9:00 UTC
	sends := b.sends()
	if len(sends) != 2 {
		t.Fatalf("%d mails, want 2", len(sends))
	}
	b.publishAgain(j.ID, text)
	b.endVersion(j.Number, 1)
	b.clock.Move(14 * time.Hour)
	answers := b.mayLeave(b.gate(), sends)
	for i, s := range sends {
		want := mail.Leave{}
		if s.Step == "offer" {
			want.Cancel = "quiet order/offer"
		}
		if answers[i] != want {
			t.Errorf("%s: %+v, want %+v", s.Step, answers[i], want)
		}
	}
}
