package spool_test

import (
	"testing"
	"time"

	"sluice"
	"sluice/lib/faults"
	"sluice/mail"
)

// The program of 0.1 had taken in a request with a name, by other partitions. A
// repeat after the upgrade is not sent once more, even if that program had
// taken in only half of the request.
func TestARequestThatAnOlderVersionHasTaken(t *testing.T) {
	b := newBed(t)
	w := newWire(nil)
	w.window = 64
	o := b.start(w, nil)
	first := time.Now()
	named := func(name string, when time.Time) []mail.Draft {
		drafts := bulk(2, 50, 10)
		for i := range drafts {
			drafts[i].ID = sluice.NamedMessageID(when.UnixMilli(), name, i)
		}
		return drafts
	}
	o.intake.Moved = first.Add(time.Hour) // all goes as before
	whole, half := named("whole", first), named("half", first)
	must(o.intake.Submit(t.Context(), "whole", whole))
	disarm := must(faults.Arm("submit-part=error,2"))
	if _, err := o.intake.Submit(t.Context(), "half", half); err == nil {
		t.Error("the failpoint was not met")
	}
	disarm()
	o.intake.Moved = first.Add(time.Second) // the upgrade
	late := named("late", first.Add(time.Minute))
	for range 2 {
		must(o.intake.Submit(t.Context(), "whole", whole))
		must(o.intake.Submit(t.Context(), "half", half))
		must(o.intake.Submit(t.Context(), "late", late))
	}
	o.awaitTotals("sent 300")
	if n := len(w.times()); n != 300 {
		t.Errorf("%d sends went out", n)
	}
	for send, n := range w.times() {
		if n != 1 {
			t.Errorf("%s went %d times", send, n)
		}
	}
	for _, d := range late {
		for _, r := range must(o.store.MessageSends(t.Context(), d.ID)) {
			if want := mail.SendPartition(r.To, testPartitions); r.Partition != want {
				t.Errorf("%s is in partition %d, its person's is %d", r.To, r.Partition, want)
			}
		}
	}
}
