package consent

import (
	"hash/maphash"
	"sync"
	"time"
)

// lookedAt bounds how many entries are looked at to make room for one.
const lookedAt = 64

// limiter bounds, in this process, how often something may happen to each of
// many. Each has so many times at once, which come back evenly over an hour. It
// keeps one number for each: when all of them will have come back. Those with
// nothing used are forgotten first. When strangers have filled it, it looks at
// some of the others and forgets the one that has used least.
type limiter struct {
	most int
	seed maphash.Seed

	mu   sync.Mutex
	full map[uint64]int64 // nanoseconds since 1970
}

func newLimiter(most int) *limiter {
	return &limiter{most: most, seed: maphash.MakeSeed(), full: make(map[uint64]int64)}
}

// take uses one of perHour, or says how long until there is one; 0: there was.
func (l *limiter) take(name string, perHour int, now time.Time) (wait time.Duration) {
	if perHour == 0 {
		return 0
	}
	each := time.Hour / time.Duration(perHour)
	key := maphash.String(l.seed, name)
	l.mu.Lock()
	defer l.mu.Unlock()
	used, known := l.full[key]
	used = max(used, now.UnixNano())
	if wait := time.Duration(used-now.UnixNano()) - (time.Hour - each); wait > 0 {
		return wait
	}
	if !known {
		l.makeRoom(now.UnixNano())
	}
	l.full[key] = used + int64(each)
	return 0
}

// giveBack takes one back that was used for nothing, as far as is known: what failed may have
// been written all the same. So the caller bounds how often.
func (l *limiter) giveBack(name string, perHour int) {
	if perHour == 0 {
		return
	}
	key := maphash.String(l.seed, name)
	l.mu.Lock()
	defer l.mu.Unlock()
	if used, known := l.full[key]; known {
		l.full[key] = used - int64(time.Hour/time.Duration(perHour))
	}
}

// makeRoom lets go of entries, if it is full.
func (l *limiter) makeRoom(now int64) {
	if len(l.full) < l.most {
		return
	}
	var least uint64
	left := lookedAt
	for key, used := range l.full {
		if used <= now {
			delete(l.full, key)
		} else if left == lookedAt || used < l.full[least] {
			least = key
		}
		if left--; left == 0 {
			break
		}
	}
	if len(l.full) >= l.most {
		delete(l.full, least)
	}
}
