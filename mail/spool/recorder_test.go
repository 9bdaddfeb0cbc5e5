package spool

import (
	"log/slog"
	"slices"
	"strings"
	"testing"

	"sluice"
	"sluice/flow"
	"sluice/mail"
)

// What was given up of what was not attempted waits once more, as it was to: also what was to
// wait elsewhere, or until later. Nothing is said of what was in doubt before.
func TestWhatWasNotAttemptedIsNotInDoubt(t *testing.T) {
	const now, later = 1_000, 9_000
	again := &mail.Send{Message: "m", DueMillis: later}
	for name, x := range map[string]struct {
		finished
		due int64
	}{
		"waits":       {finished{waits: true}, now},
		"aside":       {finished{aside: "normal@example.com"}, now},
		"until later": {finished{verdict: verdict{again: again}}, later},
	} {
		for _, doubted := range []bool{false, true} {
			x.item = &item{send: mail.Send{Message: "m", Doubted: doubted}}
			late := lateOnes([]finished{x.finished}, now)
			if doubted {
				if len(late) != 0 {
					t.Errorf("%s, in doubt before: %+v is said late", name, late[0].verdict.outcome)
				}
				continue
			}
			if len(late) != 1 || !late[0].late || late[0].aside != x.aside {
				t.Errorf("%s: %+v", name, late)
				continue
			}
			o, send := late[0].verdict.outcome, late[0].verdict.again
			if o.Was != mail.SendInDoubt || o.State != mail.SendWaiting || o.DueMillis != x.due || send == nil || send.DueMillis != x.due {
				t.Errorf("%s: outcome %+v, again %+v", name, o, send)
			}
		}
	}
}

// Sends are marked and attempted in the order of their lane, which is not that of
// the texts of its entries' ids.
func TestPlacesAreOrderedAsInTheirLane(t *testing.T) {
	want := []string{"999-0", "1000-0", "1000-9", "1000-10", "1000-11", "1001-0", "1001-2"}
	var places []*flow.LanePlace
	for _, entry := range []string{"1001-2", "1000-11", "1000-9", "999-0", "1001-0", "1000-10", "1000-0"} {
		places = append(places, &flow.LanePlace{Batch: &flow.LaneBatch{Lane: "high", Entry: entry}})
	}
	slices.SortFunc(places, comparePlaces)
	for i, s := range places {
		if s.Batch.Entry != want[i] {
			t.Errorf("place %d: %s, want %s", i, s.Batch.Entry, want[i])
		}
	}
}

// All marks of windows whose answers were lost are taken back, also while the recorder has its
// hands full: up to a bound, so that what fails again and again does not fill the memory.
func TestAllLostMarksAreTakenBack(t *testing.T) {
	s := &Sender{flying: make(map[string]int), recorders: make(map[int]*recorder), Log: slog.New(slog.DiscardHandler)}
	r, p := newRecorder(s, nil), &part{}
	s.recorders[0] = r
	lose := func(mark string, n int) {
		items := make([]*item, n)
		for i := range items {
			items[i] = &item{part: p, mark: mark}
		}
		s.fly(mark, n)
		s.takeBack(t.Context(), p, items)
	}
	const window, windows = 256, 6
	for range windows {
		lose("some", window)
	}
	lose("too many", takenBackSends)
	if n := s.flying["some"]; n != windows*window {
		t.Errorf("%d sends are on their way to the recorder, want %d", n, windows*window)
	}
	if n := s.flying["too many"]; n != 0 {
		t.Errorf("%d sends beyond the bound are on their way to the recorder", n)
	}
	for range windows * window {
		if f := <-r.results; !f.waits || f.item.mark != "some" {
			t.Fatalf("%+v was handed on", f)
		}
	}
	s.takingBack.Wait()
	if n := r.takenBack.Load(); n != 0 {
		t.Errorf("%d sends are counted that nobody hands on", n)
	}
}

// A process says the smallest number of its marks that is on its way, and which it has next
// while there is none.
func TestOldestMark(t *testing.T) {
	s := &Sender{Process: "p", Clock: sluice.SystemClock{}, flying: make(map[string]int)}
	want := func(when, number string) {
		t.Helper()
		if got := s.oldestMark(); got != number {
			t.Errorf("%s: it says %s, want %s", when, got, number)
		}
	}
	want("before the first mark", "1")
	first, second := s.newMark("wire", "ffffff", 2), s.newMark("wire", "ffffff", 1)
	want("two marks", "1")
	s.fly(second, -1)
	s.fly(first, -1)
	want("one mail is on its way", "1")
	third := s.newMark("wire", "ffffff", 1)
	s.fly(first, -1)
	want("the first has ended", "3")
	s.fly(third, -1)
	want("none is on its way", "4")
	s.Leases = flow.NewLeases(nil, nil, s.Log)
	if s.landed(evidence{process: "of an older program"}) {
		t.Error("a process that says nothing has said that a mark is on its way no more")
	}
}

// Marks of older programs have no history, and those read marks that have one.
func TestEvidence(t *testing.T) {
	mark := evidence{process: "p", millis: 5, route: "wire", number: 7, history: historyOf("a1b2c3d4e5f60718293a4b5c6d7e8f9001122334")}
	if got, err := parseEvidence(mark.String()); err != nil || got != mark || mark.history != 0xa1b2c3 {
		t.Errorf("%s is read as %+v, %v; want %+v", mark, got, err, mark)
	}
	older := evidence{process: "p", millis: 5, route: "wire", number: 7}
	if got, err := parseEvidence("p|5|wire|7"); err != nil || got != older {
		t.Errorf("the mark of an older program is read as %+v, %v; want %+v", got, err, older)
	}
	if fields := strings.Split(mark.String(), "|"); len(fields) != 4 || fields[1] != "5" {
		t.Errorf("%s: older programs want PROCESS|MS|ROUTE|NUMBER", mark)
	}
}
