package route

import (
	"testing"
	"time"

	"sluice/mail"
)

// Mail of a domain that asks for a route waits apart from other mail of the domain: what
// may go by other routes does not wait behind it. What is stopped is told apart.
func TestWhereMailWaits(t *testing.T) {
	a, b := named("a"), named("b")
	a.PerDomain, b.PerDomain = Pace{PerSecond: 1}, Pace{PerSecond: 1}
	stops := map[string]string{"tag:spring": ""}
	bed := newBed(t, Options{Routes: []Settings{a, b}, Redis: noRedis{stops: stops}})
	for name, s := range map[string]*mail.Send{
		"example.com":   {},
		"example.com+a": {Route: "a"},
		"example.com+b": {Route: "b"},
		"tag:spring":    {Route: "a", Tags: "spring"},
	} {
		s.To, s.Class = "ann@example.com", mail.ClassTransactional
		var take Take
		for range 2 { // so that both routes have asked
			for _, x := range bed.routes {
				take = bed.Takes(x.transport, s, nil, bed.clock.Now())
			}
			bed.clock.Move(time.Millisecond)
		}
		if s.Route != "b" {
			take = bed.Takes(a.Transport, s, nil, bed.clock.Now())
		}
		if take.OK || take.Lane != name || take.Stopped != (name == "tag:spring") {
			t.Errorf("%s: %+v", name, take)
		}
	}
}
