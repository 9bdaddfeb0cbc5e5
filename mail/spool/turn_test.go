package spool

import (
	"slices"
	"testing"
	"time"

	"sluice/mail"
)

// elsewhere are routes of which another would take what one has turned away.
type elsewhere struct {
	Routes
	passed []mail.Transport // that it was asked without
}

func (e *elsewhere) Elsewhere(_ *mail.Send, passed []mail.Transport, _ time.Time) bool {
	e.passed = passed
	return true
}

// named is a transport that is told from others, and nothing else.
type named struct {
	mail.Transport
	name string
}

func (n *named) Name() string { return n.name }

// repeating knows mails again.
type repeating struct{ named }

func (*repeating) Repeatable() bool { return true }

// ways are routes by these transports. Nothing goes by them: sending is off.
type ways struct {
	Routes
	transports []mail.Transport
}

func (w *ways) Transports() []mail.Transport { return nil }

func (w *ways) TransportOf(name string) mail.Transport {
	for _, t := range w.transports {
		if t.Name() == name {
			return t
		}
	}
	return nil
}

// What is kept in doubt goes by any route if an operator decides so, however it came to that,
// unless it has asked for its route: also where that takes nothing now.
func TestWhatIsKeptIsBoundToNoRoute(t *testing.T) {
	routes := &ways{transports: []mail.Transport{&named{name: "plain"}, &repeating{named{name: "knows"}}}}
	r := &recorder{results: make(chan finished, 1)}
	s := &Sender{Routes: routes, recorders: map[int]*recorder{0: r}}
	for route, want := range map[string]string{"": "", "plain": "plain", "knows": "", "gone": ""} {
		send := &mail.Send{Route: route, Doubted: true, Class: mail.ClassMarketing}
		for how, v := range map[string]verdict{
			"it was refused": failed(send, mail.BlameMessage, 9), "it could not be made": fault(send, reasonRendering, "no such value", 9).verdict,
			"it is in doubt for good": inDoubt(send, "knows", true, 0, 1<<40, 1<<41), "it is aborted": aborted(send, ErrAborted, 9).verdict,
		} {
			s.hand(t.Context(), finished{item: &item{part: &part{}}, verdict: v})
			if f := <-r.results; f.verdict.kept == nil || f.verdict.kept.Route != want || !f.verdict.kept.Doubted || send.Route != route {
				t.Errorf("route %q, %s: kept %+v, want route %q", route, how, f.verdict.kept, want)
			}
		}
	}
}

// Only what a route surely has not taken, because it takes nothing now, goes by
// another. One that may have arrived waits, whatever a transport says of it.
func TestWhatAnotherRouteIsAskedFor(t *testing.T) {
	for _, kind := range mail.ResultKinds {
		for _, closed := range []bool{false, true} {
			s, it := &Sender{Routes: &elsewhere{}}, &item{}
			want := closed && (kind == mail.ResultUntried || kind == mail.ResultDeferred)
			if got := s.passOn(&named{}, it, &mail.Result{Kind: kind, Closed: closed}, time.Time{}); got != want || (len(it.passed) == 1) != want {
				t.Errorf("%s, closed: %v: it is passed on: %v, by %d; want %v", kind, closed, got, len(it.passed), want)
			}
		}
	}
}

// A turn has each route once. It ends when a route has a second turn, and when
// those that are left have had no room for a while. It ends when it does not
// end otherwise, too.
func TestTurns(t *testing.T) {
	routes := &elsewhere{}
	s, it, now := &Sender{Routes: routes}, &item{}, time.UnixMilli(1_760_000_000_000)
	first, second := &named{name: "first"}, &named{name: "second"}
	passOn := func(by *named, want ...mail.Transport) {
		t.Helper()
		if !s.passOn(by, it, &mail.Result{Kind: mail.ResultUntried, Closed: true}, now) {
			t.Fatal("it is not passed on")
		}
		if got := it.passedBy(now); !slices.Equal(got, want) || !slices.Equal(routes.passed, want) {
			t.Fatalf("%d have turned it away, and %d were left out; want %d", len(got), len(routes.passed), len(want))
		}
	}
	passOn(first, first)
	it.taken(second) // in the same turn
	passOn(second, first, second)
	it.taken(first)
	passOn(first, first)
	if it.passedBy(now.Add(turnFor-1)) == nil || it.passedBy(now.Add(turnFor)) != nil {
		t.Errorf("a turn does not last %s", turnFor)
	}
	it.untried = maxUntried
	if s.passOn(first, it, &mail.Result{Kind: mail.ResultUntried, Closed: true}, now) {
		t.Errorf("it is passed on after %d attempts that were none", maxUntried)
	}
}
