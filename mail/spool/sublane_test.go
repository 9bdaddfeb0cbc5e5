package spool

import (
	"fmt"
	"slices"
	"testing"

	"sluice/flow"
)

// What comes to a sublane while it is being removed is read from the beginning
// of the new one. What is on its way keeps it from being removed.
func TestSublanesThatAreNeededAgain(t *testing.T) {
	const lane = "normal-marketing"
	p := &part{queues: make(map[string]*queue)}
	for _, domain := range []string{"a.example", otherDomains} {
		name := flow.Sublane(lane, domain)
		moved := func() *queue { // a send is on its way
			t.Helper()
			if got := p.sublaneFor(lane, domain); got != name {
				t.Fatalf("it goes to %s, want %s", got, name)
			}
			return p.queues[name]
		}
		closing := func(want ...string) {
			t.Helper()
			if got := p.closing(); !slices.Equal(got, want) {
				t.Fatalf("%v are being removed, want %v", got, want)
			}
		}
		q := moved()
		closing()
		p.arrived(name)
		q.after = "7-0" // and has left it
		closing(name)
		moved()
		p.haveClosed([]string{name}, []bool{true})
		if fresh := p.queues[name]; fresh == nil || fresh == q || fresh.after == q.after || fresh.coming != 1 || len(fresh.domains) != len(q.domains) {
			t.Fatalf("what comes while it is removed is read of %+v", p.queues[name])
		}
		closing()
		p.arrived(name)
		q = p.queues[name]
		closing(name)
		p.haveClosed([]string{name}, []bool{false})
		if p.queues[name] != q {
			t.Fatal("one with something in it was removed")
		}
		closing(name)
		p.haveClosed([]string{name}, []bool{true})
		if len(p.queues) != 0 {
			t.Fatalf("%d sublanes are left", len(p.queues))
		}
	}
}

// As long as something of a domain may wait among the others, more of it goes
// there. That is so too where it is not known what there is.
func TestWhoseMailMayWaitAmongOthers(t *testing.T) {
	const lane = "normal-marketing"
	others := flow.Sublane(lane, otherDomains)
	p := newPart(nil, 0, nil, nil, flow.LaneState{Sublanes: []string{others}}, false)
	if got := p.sublaneFor(lane, "a.example"); got != others {
		t.Errorf("another process may have moved some of it there, and it goes to %s", got)
	}
	p.queues[others].found = false
	if got := p.sublaneFor(lane, "b.example"); got == others {
		t.Error("nothing of it is among the others, and it goes there")
	}
	for i := range maxOthers {
		p.queues[others].domains[fmt.Sprint(i)] = true
	}
	if got := p.sublaneFor(lane, "c.example"); got != others {
		t.Errorf("it is not known whether some of it is among the others, and it goes to %s", got)
	}
}
