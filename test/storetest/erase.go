package storetest

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"sluice"
	"sluice/mail"
	"sluice/store"
	"sluice/user"
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
	keep := f.store.(store.RetentionStore)
	f.change(t, &user.Changes{Erase: []string{"b", "a", "ä'\\"}})
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
	must(t, keep.Erased(f.ctx, []store.Erasure{{Name: "a"}, {Name: "b"}}, 1)) // they were written since
	want(t, "kept", fmt.Sprint(names("", 0, now, 9)), "[a b ä'\\]")
	must(t, keep.Erased(f.ctx, []store.Erasure{{Name: "a"}, {Name: "ä'\\"}, {Name: "gone"}}, now))
	want(t, "left", fmt.Sprint(names("", 0, now, 9)), "[b]")
}

// testEraseEvents: of the named users, and of no others, only the rows stay.
// Events accepted long after are not theirs. Pieces are bounded.
func testEraseEvents(t *testing.T, f *fixture) {
	f.start(t)
	keep := f.store.(store.RetentionStore)
	const many = 4500
	of := func(n int, user string, when time.Time) store.StoredEvent {
		e := at(n, sluice.KindCustom, when)
		e.User, e.Email, e.Message, e.Properties = user, user+"@example.com", "m", `{"a":1}`
		return e
	}
	var e store.Effect
	for i := range many { // half of them at one moment
		e.Events = append(e.Events, of(i, "gone", midnight(-2).Add(time.Duration(i/2250*i)*time.Millisecond)))
	}
	e.Events = append(e.Events, of(many, "Gone", midnight(-2)), of(many+1, "gone", midnight(-1)), of(many+2, "other'", midnight(-2)), of(many+3, "stays", midnight(-2)),
		at(many+4, sluice.KindMail, midnight(-2)))
	f.apply(t, e, len(e.Events), 0)
	f.makeDays(t, keep)
	accepted := int64(f.one(t, "SELECT MIN(pos_major) FROM events"))
	count := func(where string) int { t.Helper(); return f.one(t, "SELECT COUNT(*) FROM events WHERE "+where) }
	erase := func(names ...store.Erasure) (pieces []int) {
		t.Helper()
		for at := (sluice.EventKey{Millis: midnight(-3).UnixMilli()}); at.Millis < midnight(-1).UnixMilli(); {
			n, next, err := keep.EraseEvents(f.ctx, names, at, midnight(-1).UnixMilli())
			must(t, err)
			pieces, at = append(pieces, n), next
		}
		return pieces
	}
	early := accepted - store.ErasureMarginMillis - 1
	want(t, "of somebody who had the name before", fmt.Sprint(erase(store.Erasure{Name: "gone", CreatedMillis: early})), "[0 0 0]")
	want(t, "pieces", fmt.Sprint(erase(store.Erasure{Name: "gone", CreatedMillis: accepted}, store.Erasure{Name: "nobody", CreatedMillis: accepted}, store.Erasure{Name: "other'", CreatedMillis: accepted})), "[2000 2000 501]")
	want(t, "rows", count("1 = 1"), many+5)
	want(t, "erased rows", count("user_ref IS NULL AND email IS NULL AND message_ref IS NULL AND properties IS NULL AND kind = 'custom'"), many+1)
	want(t, "those of others", count("user_ref IN ('Gone', 'stays') AND email IS NOT NULL AND message_ref = 'm' AND properties IS NOT NULL"), 2)
	want(t, "those outside the range", count("user_ref = 'gone'"), 1)
	want(t, "once more", fmt.Sprint(erase(store.Erasure{Name: "gone", CreatedMillis: accepted})), "[0]")
	want(t, "by an address", fmt.Sprint(erase(store.Erasure{Name: store.AddressErasure("gone@example.com"), CreatedMillis: accepted}, store.Erasure{Name: store.AddressErasure("none@example.com"), CreatedMillis: accepted})), "[1]")
	want(t, "of which case is all the same", count("user_ref = 'Gone'"), 0)
	eraseBeyondASCII(t, f, keep)
}

// eraseBeyondASCII: of addresses the case is all the same beyond ASCII, too, and nothing of
// others is erased that look alike.
func eraseBeyondASCII(t *testing.T, f *fixture, keep store.RetentionStore) {
	t.Helper()
	var e store.Effect
	for n, address := range []string{"Ärger@bücher.example", "ärger@bücher.example", "ÄRGER@bücher.example", "Örger@bücher.example", "ärgern@bücher.example"} {
		event := at(6000+n, sluice.KindCustom, midnight(-5))
		event.Email = address
		e.Events = append(e.Events, event)
		send := mail.Send{Message: fmt.Sprintf("%012x%020x", 1_750_000_000_000, n), Recipients: 1, Priority: mail.PriorityHigh, Class: mail.ClassMarketing, AcceptedMillis: 1, From: "shop@example.com", To: address}
		e.Sends = append(e.Sends, mail.StoredSend{Send: send})
	}
	f.apply(t, store.Effect{Events: e.Events}, len(e.Events), 0)
	f.apply(t, store.Effect{Sends: e.Sends}, len(e.Sends), 0)
	names := []store.Erasure{{Name: store.AddressErasure("ärger@bücher.example"), CreatedMillis: time.Now().Add(365 * 24 * time.Hour).UnixMilli()}}
	for n := range store.MaxErasures - 1 {
		names = append(names, store.Erasure{Name: store.AddressErasure(fmt.Sprintf("ö%d@example.com", n)), CreatedMillis: 1})
	}
	n, _, err := keep.EraseEvents(f.ctx, names, sluice.EventKey{Millis: midnight(-6).UnixMilli()}, midnight(-4).UnixMilli())
	must(t, err)
	want(t, "events beyond ASCII", n, 3)
	sends, _, err := keep.SendsOf(f.ctx, names, "")
	must(t, err)
	want(t, "sends beyond ASCII", len(sends), 3)
}

// testEraseLastDay: a pass through all events, by ranges as the erasure makes it, also
// erases what is of the last day and millisecond that an event can have, and ends. The
// end of that day is in the year 10000.
func testEraseLastDay(t *testing.T, f *fixture) {
	f.start(t)
	var e store.Effect
	lastDay := time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)
	for n, when := range []time.Time{lastDay, time.UnixMilli(sluice.MaxEventTimeMillis), time.UnixMilli(sluice.MaxEventTimeMillis)} {
		event := at(n, sluice.KindCustom, when)
		event.User = []string{"gone", "gone", "stays"}[n]
		event.Email = event.User + "@example.com"
		e.Events = append(e.Events, event)
	}
	f.apply(t, e, len(e.Events), 0)
	keep, names := f.store.(store.RetentionStore), []store.Erasure{{Name: "gone", CreatedMillis: time.Now().UnixMilli()}}
	days := 0
	for from := int64(0); days < 3; days++ {
		next, ok, err := keep.NextEvent(f.ctx, from)
		must(t, err)
		if !ok {
			break
		}
		from = next + day.Milliseconds()
		for at := (sluice.EventKey{Millis: next}); at.Millis < from; {
			_, at, err = keep.EraseEvents(f.ctx, names, at, from)
			must(t, err)
		}
	}
	want(t, "days with events", days, 1)
	f.wantRows(t, "SELECT event_id, user_ref, email FROM events ORDER BY event_id",
		[]string{"e0", "NULL", "NULL"}, []string{"e1", "NULL", "NULL"}, []string{"e2", "stays", "stays@example.com"})
}

// testEraseSends: of the named users, by their names or addresses, and of no
// others, the rows stay in their states and tell nothing.
func testEraseSends(t *testing.T, f *fixture) {
	f.start(t)
	keep := f.store.(store.RetentionStore)
	const at = 1_760_000_000_000
	var e store.Effect
	add := func(n, number int, to, user string, accepted int64, sent bool) {
		s := mail.Send{Message: fmt.Sprintf("%012x%020x", at+n, n), Number: number, Recipients: 2, Priority: mail.PriorityHigh, Class: mail.ClassMarketing, AcceptedMillis: accepted,
			From: "shop@example.com", To: to, User: user, App: "shop", Tags: "autumn", Metadata: `{"who":"ann"}`}
		e.Sends = append(e.Sends, mail.StoredSend{Send: s})
		if sent {
			e.Outcomes = append(e.Outcomes, mail.StoredOutcome{Outcome: mail.Outcome{Message: s.Message, Number: number, Recipients: 2, Was: mail.SendWaiting, State: mail.SendSent,
				Event: sluice.EventSent, TimeMillis: at + 1, Attempts: 1, Route: "relay", Remote: "mx.ann.example", Code: 250, Reply: "2.0.0 <ann@example.com> ok"}})
		}
	}
	add(1, 0, "other@example.com", "gone", at, true)
	add(1, 1, "Ann@Example.com", "", at, false)
	add(2, 0, "bob@example.com", "stays'", at, true)
	add(3, 0, "ann@example.com", "stays'", at, true)
	add(4, 0, "late@example.com", "gone", at+store.ErasureMarginMillis+1, true)
	add(5, 0, "bob@example.com", "Gone", at, false)
	f.apply(t, e, len(e.Sends), 0)
	names := []store.Erasure{{Name: "gone", CreatedMillis: at}, {Name: store.AddressErasure("ann@example.com"), CreatedMillis: at}}
	find := func(names ...store.Erasure) (sends []mail.SendRow, ids string) {
		t.Helper()
		for after := ""; ; {
			piece, next, err := keep.SendsOf(f.ctx, names, after)
			must(t, err)
			for _, s := range piece {
				ids += fmt.Sprintf("%s.%d ", s.Message[30:], s.Number)
			}
			if sends = append(sends, piece...); next == "" {
				return sends, ids
			}
			after = next
		}
	}
	found, ids := find(names...)
	want(t, "found", ids, "01.0 01.1 03.0 ")
	_, ids = find(names[1])
	want(t, "by the address alone", ids, "01.1 03.0 ")
	_, ids = find(store.Erasure{Name: "stays'", CreatedMillis: at - store.ErasureMarginMillis - 1})
	want(t, "of somebody who had the name before", ids, "")
	want(t, "states", fmt.Sprint(found[0].State, found[1].State), "sent waiting")
	totals := fmt.Sprint(f.Query(t, "SELECT class, state, SUM(count) FROM send_totals GROUP BY class, state ORDER BY state"))
	must(t, keep.EraseSends(f.ctx, append(found, mail.SendRow{Message: strings.Repeat("f", sluice.MessageIDBytes)})))
	_, ids = find(names...)
	want(t, "found again", ids, "")
	want(t, "erased rows", f.one(t, "SELECT COUNT(*) FROM sends WHERE to_address = '' AND user_ref = '' AND metadata = '' AND reply = '' AND tags = 'autumn' AND app_id = 'shop'"), 3)
	want(t, "that tell of her", f.one(t, "SELECT COUNT(*) FROM sends WHERE life LIKE '%ann%' AND to_address = ''"), 0)
	want(t, "and of what happened", f.one(t, "SELECT COUNT(*) FROM sends WHERE life LIKE '%\"sent\"%' AND to_address = ''"), 2)
	want(t, "those of others", f.one(t, "SELECT COUNT(*) FROM sends WHERE to_address <> '' AND metadata <> ''"), 3)
	want(t, "the totals", fmt.Sprint(f.Query(t, "SELECT class, state, SUM(count) FROM send_totals GROUP BY class, state ORDER BY state")), totals)
	want(t, "the states", fmt.Sprint(f.Query(t, "SELECT state, COUNT(*) FROM sends GROUP BY state ORDER BY state")), "[[sent 4] [waiting 2]]")
}
