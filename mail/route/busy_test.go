package route

import "testing"

// Mail of a route whose workers are all at work, as in a relay that hangs, is
// moved aside. Any transport that asks moves it, after a moment, and only then.
func TestBusyRoute(t *testing.T) {
	a, b, c := named("a"), named("b"), named("c")
	a.Domains = []string{"a.example", "both.example"}
	b.Domains = []string{"both.example"}
	c.Domains = []string{"c.example"}
	r := newBed(t, Options{Routes: []Settings{a, b, c}})
	of := func(name string) Take {
		return r.Takes(r.byName("c").transport, mailTo("x@"+name+".example"), nil, r.clock.Now())
	}
	busy := func(name string, yes bool) { r.Busy(r.byName(name).transport, yes, r.clock.Now()) }
	want := func(when, domain, lane string) {
		t.Helper()
		if take := of(domain); take.OK || take.Lane != lane || take.Wait <= 0 || take.Wait > maxWait {
			t.Errorf("%s: mail to %s: %+v, want it apart with %q", when, domain, take, lane)
		}
	}
	want("a is free", "a", "")
	busy("a", true)
	want("a has just become busy", "a", "")
	r.clock.Move(busyAfter)
	want("a is busy", "a", "a")
	want("a is busy, and b is not", "both", "")
	busy("b", true)
	r.clock.Move(busyAfter)
	want("both are busy", "both", "a+b")
	busy("a", false)
	want("a is free again", "a", "")
	want("a is free again", "both", "")
	r.wantTaker("a", "x@a.example")
	if take := r.Takes(r.sink.transport, mailTo("x@a.example"), nil, r.clock.Now()); take.OK || take.Lane != "" {
		t.Errorf("the mailboxes: %+v", take)
	}
}

// What no route takes because a domain of a direct one is paused waits with its
// domain, whatever transport asks.
func TestPausedDomainIsMovedByAny(t *testing.T) {
	direct, other := named("direct"), named("other")
	direct.Direct, other.Domains = true, []string{"other.example"}
	direct.Except = []string{"other.example"}
	r := newBed(t, Options{Routes: []Settings{direct, other}})
	for range openAfter {
		r.report("direct", "x@down.example", untried)
	}
	for _, name := range []string{"direct", "other"} {
		if take := r.Takes(r.byName(name).transport, mailTo("x@down.example"), nil, r.clock.Now()); take.OK || take.Lane != "down.example" {
			t.Errorf("%s: %+v", name, take)
		}
	}
}
