package storetest

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"sluice"
)

// one is the number that a query returns.
func (f *fixture) one(t *testing.T, query string) int {
	t.Helper()
	n, err := strconv.Atoi(f.Query(t, query)[0][0])
	must(t, err)
	return n
}

// testErasures: names come in pieces, and go unless they were written again.
func testErasures(t *testing.T, f *fixture) {
	f.start(t)
	keep := f.store.(sluice.KeepStore)
	f.change(t, &sluice.UserChanges{Erase: []string{"b", "a", "ä'\\"}})
	now := time.Now().Add(time.Hour).UnixMilli()
	names := func(after string, from, to int64, limit int) (all []string) {
		t.Helper()
		got, err := keep.Erasures(f.ctx, after, from, to, limit)
		must(t, err)
		for _, e := range got {
			if e.CreatedMillis < now-2*time.Hour.Milliseconds() || e.CreatedMillis > now {
				t.Errorf("%s was written at %d", e.Name, e.CreatedMillis)
			}
			all = append(all, e.Name)
		}
		return all
	}
	want(t, "the first two", fmt.Sprint(names("", 0, now, 2)), "[a b]")
	want(t, "after them", fmt.Sprint(names("b", 0, now, 2)), "[ä'\\]")
	want(t, "to come", fmt.Sprint(names("", now, now+1, 9)), "[]")
	want(t, "long ago", fmt.Sprint(names("", 0, 1, 9)), "[]")
	must(t, keep.Erased(f.ctx, []sluice.Erasure{{Name: "a"}, {Name: "b"}}, 1)) // they were written since
	want(t, "kept", fmt.Sprint(names("", 0, now, 9)), "[a b ä'\\]")
	must(t, keep.Erased(f.ctx, []sluice.Erasure{{Name: "a"}, {Name: "ä'\\"}, {Name: "gone"}}, now))
	want(t, "left", fmt.Sprint(names("", 0, now, 9)), "[b]")
}

// testEraseEvents: of those who are named, and of nobody else, only the rows
// stay; what was accepted long after is not theirs; pieces are bounded.
func testEraseEvents(t *testing.T, f *fixture) {
	f.start(t)
	keep := f.store.(sluice.KeepStore)
	const many = 4500
	of := func(n int, user string, when time.Time) sluice.StoredEvent {
		e := at(n, sluice.KindCustom, when)
		e.User, e.Email, e.Message, e.Properties = user, user+"@example.com", "m", `{"a":1}`
		return e
	}
	var e sluice.Effect
	for i := range many { // half of them at one moment
		e.Events = append(e.Events, of(i, "gone", midnight(-2).Add(time.Duration(i/2250*i)*time.Millisecond)))
	}
	e.Events = append(e.Events, of(many, "Gone", midnight(-2)), of(many+1, "gone", midnight(-1)), of(many+2, "other'", midnight(-2)), of(many+3, "stays", midnight(-2)),
		at(many+4, sluice.KindMail, midnight(-2)))
	f.apply(t, e, len(e.Events), 0)
	f.makeDays(t, keep)
	accepted := int64(f.one(t, "SELECT MIN(pos_major) FROM events"))
	count := func(where string) int { t.Helper(); return f.one(t, "SELECT COUNT(*) FROM events WHERE "+where) }
	erase := func(names ...sluice.Erasure) (pieces []int) {
		t.Helper()
		for at := (sluice.EventKey{Millis: midnight(-3).UnixMilli()}); at.Millis < midnight(-1).UnixMilli(); {
			n, next, err := keep.EraseEvents(f.ctx, names, at, midnight(-1).UnixMilli())
			must(t, err)
			pieces, at = append(pieces, n), next
		}
		return pieces
	}
	early := accepted - sluice.ErasureMarginMillis - 1
	want(t, "of somebody who had the name before", fmt.Sprint(erase(sluice.Erasure{Name: "gone", CreatedMillis: early})), "[0 0 0]")
	want(t, "pieces", fmt.Sprint(erase(sluice.Erasure{Name: "gone", CreatedMillis: accepted}, sluice.Erasure{Name: "nobody", CreatedMillis: accepted}, sluice.Erasure{Name: "other'", CreatedMillis: accepted})), "[2000 2000 501]")
	want(t, "rows", count("1 = 1"), many+5)
	want(t, "erased rows", count("user_ref IS NULL AND email IS NULL AND message_ref IS NULL AND properties IS NULL AND kind = 'custom'"), many+1)
	want(t, "those of others", count("user_ref IN ('Gone', 'stays') AND email IS NOT NULL AND message_ref = 'm' AND properties IS NOT NULL"), 2)
	want(t, "those outside the range", count("user_ref = 'gone'"), 1)
	want(t, "once more", fmt.Sprint(erase(sluice.Erasure{Name: "gone", CreatedMillis: accepted})), "[0]")
}
