package api

import (
	"math"
	"strconv"
	"sync"
	"time"

	"sluice"
	"sluice/lib/key"
)

// rateBurst is how long a key may have saved up what it did not use.
const rateBurst = 5 * time.Second

// rates bounds how much each key may send: a token bucket a key, in this
// process. The items of a request are counted when it has been read. So a
// request is let in while the bucket holds anything, and may leave it in debt,
// as may those read at the same time. Requests that arrive until the debt is
// paid are refused before they are read. The root key is not bounded: it is the
// operator's own.
type rates struct {
	perSecond float64 // items; 0: nobody is bounded
	clock     sluice.Clock

	mu      sync.Mutex
	buckets map[string]bucket // by the key's id, at most maxKnownKeys
}

// bucket is what a key had at a moment.
type bucket struct {
	items float64
	at    time.Time
}

func newRates(itemsPerSecond int, clock sluice.Clock) *rates {
	return &rates{perSecond: float64(itemsPerSecond), clock: clock, buckets: make(map[string]bucket)}
}

// admit returns nil, or a *tooFast, if a key is in debt.
func (r *rates) admit(who key.Identity) error {
	if r.perSecond == 0 || who.ID == key.RootID {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if have := r.now(who.ID).items; have <= 0 {
		// One more than nothing is enough to be let in again.
		return &tooFast{after: time.Duration((1 - have) / r.perSecond * float64(time.Second)), perSecond: int(r.perSecond)}
	}
	return nil
}

// spend takes a request's items out of a key's bucket.
func (r *rates) spend(who key.Identity, items int) {
	if r.perSecond == 0 || who.ID == key.RootID {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	b := r.now(who.ID)
	b.items -= float64(items)
	if _, ok := r.buckets[who.ID]; !ok {
		makeRoom(r.buckets, maxKnownKeys)
	}
	r.buckets[who.ID] = b
}

// now is what a key has by now. One that is not remembered has a full bucket.
func (r *rates) now(id string) bucket {
	now, most := r.clock.Now(), r.perSecond*rateBurst.Seconds()
	b, ok := r.buckets[id]
	if !ok {
		return bucket{most, now}
	}
	return bucket{min(most, b.items+r.perSecond*max(0, now.Sub(b.at).Seconds())), now}
}

// tooFast is the refusal of a key that is in debt: 429 (RFC 6585, 4).
type tooFast struct {
	after     time.Duration
	perSecond int
	why       string // if it is another bound than that of a key
}

// Error says how much the key may send.
func (e *tooFast) Error() string {
	if e.why != "" {
		return e.why
	}
	return "this key may send " + strconv.Itoa(e.perSecond) + " items a second; nothing was taken in, send it again after Retry-After"
}

// retryAfter is in whole seconds, at least one.
func (e *tooFast) retryAfter() string {
	return strconv.Itoa(max(1, int(math.Ceil(e.after.Seconds()))))
}
