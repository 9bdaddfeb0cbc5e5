package consent

import (
	"fmt"
	"testing"
	"time"
)

// So many at once, then one for each that has come back; others are not touched.
func TestLimiter(t *testing.T) {
	l, now := newLimiter(100), time.Unix(1_700_000_000, 0)
	for i := range 3 {
		if wait := l.take("a", 3, now); wait != 0 {
			t.Fatalf("%d: wait %s", i, wait)
		}
	}
	if wait := l.take("a", 3, now); wait != 20*time.Minute {
		t.Errorf("the fourth waits %s, want 20m", wait)
	}
	if wait := l.take("b", 3, now); wait != 0 {
		t.Errorf("another waits %s", wait)
	}
	if wait := l.take("a", 3, now.Add(20*time.Minute-1)); wait != 1 {
		t.Errorf("just before: %s", wait)
	}
	now = now.Add(20 * time.Minute)
	if first, second := l.take("a", 3, now), l.take("a", 3, now); first != 0 || second != 20*time.Minute {
		t.Errorf("after 20 minutes: %s, then %s", first, second)
	}
	for i := range 1000 {
		if wait := l.take("a", 0, now); wait != 0 {
			t.Fatalf("%d: without a bound: %s", i, wait)
		}
	}
}

// However many strangers come, the memory is bounded. An entry that has used up
// its share is not the one forgotten.
func TestLimiterIsBounded(t *testing.T) {
	l, now := newLimiter(100), time.Unix(1_700_000_000, 0)
	for range 3 {
		l.take("a", 3, now)
	}
	for i := range 10_000 {
		l.take(fmt.Sprint(i), 3, now)
	}
	if len(l.full) > 100 || l.take("a", 3, now) == 0 {
		t.Errorf("%d entries; the one that had used all may ask again: %v", len(l.full), len(l.full) <= 100)
	}
	now = now.Add(2 * time.Hour)
	l.take("b", 3, now)
	if len(l.full) > 100-lookedAt+1 {
		t.Errorf("%d entries after all have come back", len(l.full))
	}
}
