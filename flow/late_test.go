package flow

import (
	"slices"
	"testing"

	"sluice"
	"sluice/mail"
)

// TestWhatComesLateCountsOnce: the process of a mark was taken for dead, and says
// after all what has become of its sends.
func TestWhatComesLateCountsOnce(t *testing.T) {
	r, l, lease, log := lanesOf(t)
	var cursor sluice.Position
	queue(t, log, lease, &cursor, "low", 0, "kept", "again", "deferred", "attempted", "alive")
	b := &readAll(t, l, "low")[0]
	mark(t, l, lease, "one", b, 0, 1, 2, 3, 4)
	doubt := func(i int, keep bool) (Recorded, Packed) {
		rec := recorded(b, i, "one")
		rec.Given, rec.Packed, rec.Item = true, 0, mail.AppendSend(nil, &mail.Send{Message: "x"})
		rec.Log = mail.AppendOutcome(nil, &mail.Outcome{Message: "x", Was: mail.SendWaiting, State: mail.SendInDoubt})
		if keep {
			return rec, Packed{Doubt: true}
		}
		return rec, Packed{Lane: "low", Second: 5000}
	}
	write := func(packed []Packed, sends ...Recorded) int {
		t.Helper()
		n, refused, err := l.Record(t.Context(), packed, sends)
		if err != nil || len(refused) != 0 {
			t.Fatalf("record: %v, %v", refused, err)
		}
		return n
	}
	for i, keep := range []bool{true, false, false, false} {
		rec, packed := doubt(i, keep)
		if n := write([]Packed{packed}, rec); n != 1 {
			t.Fatalf("give up %d: %d recorded", i, n)
		}
	}
	late := func(i int, evidence string) Recorded {
		rec := recorded(b, i, evidence)
		rec.Late = true
		rec.Log = mail.AppendOutcome(nil, &mail.Outcome{Message: "late", Was: mail.SendInDoubt, State: mail.SendSent})
		return rec
	}
	do(t, r, "HDEL", l.log.partition.givenKey(), recorded(b, 3, "one").ID) // another attempt is recorded
	if n := write(nil, late(0, "one"), late(1, "one"), late(3, "one"), late(4, "one")); n != 2 {
		t.Errorf("%d late ones count, want those that were given up and not recorded since", n)
	}
	if n := write(nil, late(0, "one"), late(1, "one")); n != 0 {
		t.Errorf("%d count a second time", n)
	}
	again := late(2, "one") // it was not sent, and its second attempt waits
	again.Packed, again.Item = 0, mail.AppendSend(nil, &mail.Send{Message: "x"})
	if n := write([]Packed{{Lane: "low", Second: 9000}}, again); n != 1 {
		t.Errorf("%d recorded, want 1", n)
	}
	cancelled, err := l.Cancelled(t.Context(), []string{recorded(b, 0, "").ID, recorded(b, 1, "").ID, recorded(b, 2, "").ID})
	if err != nil || !slices.Equal(cancelled, []bool{false, true, false}) {
		t.Errorf("not to be attempted: %v, %v; want the second alone", cancelled, err)
	}
	kept, err := l.Doubts(t.Context(), []string{recorded(b, 0, "").ID})
	if err != nil || kept[0] != nil {
		t.Errorf("what was sent is still kept in doubt: %v", err)
	}
	if n := do(t, r, "EXISTS", l.log.partition.givenKey(), l.log.partition.laterKey(9000)); n != "0" {
		t.Errorf("%s keys are left of what was given up, or what waits already waits twice", n)
	}
	s, err := l.Begin(t.Context(), lease, 1000)
	if err != nil || s.Letters(b) != "ddddm" || len(s.Marks) != 1 {
		t.Errorf("%+v, %v; want the one that was not given up marked as before", s, err)
	}
}

// TestANewerAttemptIsNotOverruled: what was given up and has been recorded since
// is not changed by what its first process says.
func TestANewerAttemptIsNotOverruled(t *testing.T) {
	_, l, lease, log := lanesOf(t)
	var cursor sluice.Position
	queue(t, log, lease, &cursor, "low", 0, "a")
	b := &readAll(t, l, "low")[0]
	mark(t, l, lease, "one", b, 0)
	given := recorded(b, 0, "one")
	given.Given, given.Packed, given.Item, given.Log = true, 0, mail.AppendSend(nil, &mail.Send{Message: "a"}), []byte("x")
	if n, _, err := l.Record(t.Context(), []Packed{{Lane: "low"}}, []Recorded{given}); err != nil || n != 1 {
		t.Fatal(n, err)
	}
	second := &readAll(t, l, "low")[0]
	if _, err := l.Mark(t.Context(), lease, serverOf(t, l, lease), "two", []LanePlace{{Batch: second}}, []string{given.ID}); err != nil {
		t.Fatal(err)
	}
	done := Recorded{LanePlace: LanePlace{Batch: second}, ID: given.ID, Evidence: "two", Packed: -1, Log: []byte("y")}
	if n, _, err := l.Record(t.Context(), nil, []Recorded{done}); err != nil || n != 1 {
		t.Fatal(n, err)
	}
	late := recorded(b, 0, "one")
	late.Late, late.Log = true, []byte("z")
	if n, _, err := l.Record(t.Context(), nil, []Recorded{late}); err != nil || n != 0 {
		t.Errorf("%d recorded, %v; want none", n, err)
	}
}
