package braze

import (
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// LimitName names a limit; the calls that have the same share it.
type LimitName int

// The limits, each with the window in which Braze counts.
const (
	LimitTrack    LimitName = iota // /users/track: 3 seconds
	LimitSync                      // /users/track/sync: a minute
	LimitIdentity                  // delete, alias, identify, merge: a minute
	LimitExport                    // /users/export/ids: a minute
	LimitGroups                    // setting states in subscription groups: a minute
	LimitLists                     // lists of names: an hour
	LimitOther                     // everything else: an hour
	LimitNone                      // what is never slowed down, not even by the bound of its key
	limitCount
)

// windows are how long each limit counts.
var windows = [limitCount]time.Duration{
	LimitTrack: 3 * time.Second, LimitSync: time.Minute, LimitIdentity: time.Minute,
	LimitExport: time.Minute, LimitGroups: time.Minute, LimitLists: time.Hour, LimitOther: time.Hour,
	LimitNone: time.Hour,
}

// Unlimited is the limit that replies name where there is none. It does not
// slow down a client that spreads its calls over what remains.
const Unlimited = 1_000_000_000

// Limits are calls a window, by LimitName; 0: as many as there may be.
type Limits [limitCount]int

// Limiter counts the calls to this process, all keys together: windows follow
// each other without a gap, as the header X-RateLimit-Reset promises.
type Limiter struct{ counts [limitCount]count }

type count struct {
	limit  int
	header []string

	mu   sync.Mutex
	ends int64 // of the window, in seconds since the epoch
	used int

	reset atomic.Pointer[resetHeader]
}

// resetHeader is kept for a window: most calls of it say the same.
type resetHeader struct {
	at   int64
	text []string
}

// NewLimiter returns one with nothing counted.
func NewLimiter(limits Limits) *Limiter {
	l := &Limiter{}
	for i := range l.counts {
		c := &l.counts[i]
		c.limit = limits[i]
		c.header = []string{strconv.Itoa(Unlimited)}
		if c.limit > 0 {
			c.header[0] = strconv.Itoa(c.limit)
		}
	}
	return l
}

// Taken is what a reply says about its limit: the values of its headers, which
// are shared and must not be changed.
type Taken struct {
	OK                      bool // the call may go on
	Limit, Remaining, Reset []string
	Wait                    time.Duration // until the window ends
}

// Take counts a call, if it may go on.
func (l *Limiter) Take(name LimitName, now time.Time) Taken { return l.look(name, now, 1) }

// Look says what Take would, and counts nothing.
func (l *Limiter) Look(name LimitName, now time.Time) Taken { return l.look(name, now, 0) }

func (l *Limiter) look(name LimitName, now time.Time, calls int) Taken {
	c := &l.counts[name]
	width := int64(windows[name] / time.Second)
	ends := now.Unix() - now.Unix()%width + width
	t := Taken{OK: true, Limit: c.header, Remaining: c.header, Reset: c.resetText(ends), Wait: time.Unix(ends, 0).Sub(now)}
	if c.limit == 0 {
		return t
	}
	c.mu.Lock()
	if c.ends != ends {
		c.ends, c.used = ends, 0
	}
	t.OK = c.used < c.limit
	if t.OK {
		c.used += calls
	}
	left := c.limit - c.used
	c.mu.Unlock()
	t.Remaining = []string{strconv.Itoa(left)}
	return t
}

func (c *count) resetText(at int64) []string {
	if r := c.reset.Load(); r != nil && r.at == at {
		return r.text
	}
	r := &resetHeader{at, []string{strconv.FormatInt(at, 10)}}
	c.reset.Store(r)
	return r.text
}
