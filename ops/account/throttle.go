package account

import (
	"hash/maphash"
	"net/netip"
	"sync"
	"time"

	"sluice"
	"sluice/lib/connlimit"
)

// Bounds of attempts to sign in, in this process.
const (
	throttleWindow  = 15 * time.Minute
	triesOfBoth     = 10  // of one name from one network that fail: of IPv6 a /48, which a site may have
	triesOfName     = 100 // of one name from all networks that fail: strangers from a few do not lock it
	triesOfAddress  = 40  // of one network that fail: an IPv4 address, or a /64 of IPv6
	throttleCounter = 1 << 15
)

// throttle counts failed attempts by name and network, by name, and by network. It is a table of counters that
// are found by a hash with a secret seed. So memory is bounded, and nobody drives a
// count out by attempts under other names. Two names with one counter share it.
type throttle struct {
	seed maphash.Seed

	mu     sync.Mutex
	counts [3][throttleCounter]attempts // by name and network, by name, by network
}

type attempts struct {
	failed int32
	since  int64 // ms since 1970
}

func newThrottle() *throttle { return &throttle{seed: maphash.MakeSeed()} }

// of returns the counters of an attempt; the caller has the lock. That of a network is
// the last; the only one if there is no name.
func (t *throttle) of(name string, from netip.Addr, now time.Time) []*attempts {
	var found []*attempts
	for i, text := range []string{name + " " + connlimit.Network(from, 48), name, connlimit.Network(from, 64)} { // no name has a space
		if name == "" && i < 2 {
			continue
		}
		a := &t.counts[i][maphash.String(t.seed, text)%throttleCounter]
		if age := now.UnixMilli() - a.since; age < 0 || age >= throttleWindow.Milliseconds() {
			*a = attempts{since: now.UnixMilli()}
		}
		found = append(found, a)
	}
	return found
}

// begin refuses an attempt if too many have failed, and else counts it as one that has:
// many at once are not all let in before the first has failed. An empty name: it is
// counted by its network alone.
func (t *throttle) begin(name string, from netip.Addr, now time.Time) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	counters := t.of(name, from, now)
	most := []int32{triesOfBoth, triesOfName, triesOfAddress}
	for i, a := range counters {
		if a.failed >= most[len(most)-len(counters)+i] {
			return sluice.Refuse(sluice.CodeTooFast, "too many attempts to sign in; try again in %d minutes", int(throttleWindow.Minutes()))
		}
	}
	for _, a := range counters {
		a.failed++
	}
	return nil
}

// succeeded takes back what begin has counted of a name, and forgets the failures of the
// name from this network.
func (t *throttle) succeeded(name string, from netip.Addr, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.takeBack(name, from, now)[0].failed = 0
}

// undo takes back what begin has counted, of an attempt that was not decided: the database
// did not answer, or too many signed in. Else people are kept out for the whole window
// after the database is back.
func (t *throttle) undo(name string, from netip.Addr, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.takeBack(name, from, now)
}

// takeBack lowers the counters of an attempt and returns them; the caller has the lock.
func (t *throttle) takeBack(name string, from netip.Addr, now time.Time) []*attempts {
	counters := t.of(name, from, now)
	for _, a := range counters {
		a.failed = max(0, a.failed-1)
	}
	return counters
}
