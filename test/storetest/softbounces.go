package storetest

import (
	"fmt"
	"testing"

	"sluice/mail"
	"sluice/store"
)

// testSoftBounces: days count and not mails, in whatever order they come. Only
// days of a span of time count, and only those after an address was let off.
func testSoftBounces(t *testing.T, f *fixture) {
	f.start(t)
	const hour, dayHours = 3_600_000, 24
	bounce := func(entry string, day, hours int) mail.SoftBounce {
		return mail.SoftBounce{Entry: entry, Source: fmt.Sprintf("event:%d", day), TimeMillis: sendTime + int64(day*dayHours+hours)*hour}
	}
	note := func(bounces ...mail.SoftBounce) {
		t.Helper()
		f.apply(t, store.Effect{SoftBounces: bounces}, 0, 0)
	}
	held := func(want ...string) {
		t.Helper()
		var rows [][]string
		for _, entry := range want {
			rows = append(rows, []string{entry, "soft_bounces", "all"})
		}
		f.wantRows(t, "SELECT entry, reason, scope FROM suppressions WHERE removed = 0 ORDER BY entry", rows...)
	}
	for range 2 { // a repeat changes nothing
		for day := range mail.SoftBounceDays - 1 {
			note(bounce("days@example.com", day, 0), bounce("days@example.com", day, 1), bounce("hours@example.com", 0, day))
		}
	}
	held()
	for day := range mail.SoftBounceDays { // the newest first, each in a transaction of its own
		note(bounce("back@example.com", mail.SoftBounceDays-1-day, 0))
	}
	held("back@example.com")
	// The last day in the middle, and beside it an address that has them all at
	// once.
	var at []mail.SoftBounce
	for day := range mail.SoftBounceDays {
		at = append(at, bounce("once@example.com", 9-day, 2), bounce("rare@example.com", day*20, 0))
	}
	note(append(at, bounce("days@example.com", 4, 0))...)
	held("back@example.com", "days@example.com", "once@example.com")
	last, err := f.store.(mail.SuppressionStore).SuppressionsOf(f.ctx, []string{"once@example.com"})
	must(t, err)
	want(t, "what it comes from", last[0].Source, "event:9")
	want(t, "when", last[0].TimeMillis, bounce("", 9, 2).TimeMillis)

	off := last[0]
	off.Removed, off.TimeMillis = true, bounce("", 10, 0).TimeMillis
	f.apply(t, store.Effect{Suppress: []mail.Suppression{off}, SoftBounces: []mail.SoftBounce{bounce("once@example.com", 8, 0)}}, 0, 0)
	for day := 11; day < 10+mail.SoftBounceDays; day++ {
		note(bounce("once@example.com", day, 0))
	}
	held("back@example.com", "days@example.com")
	note(bounce("once@example.com", 20, 0))
	held("back@example.com", "days@example.com", "once@example.com")

	keep := f.store.(store.RetentionStore)
	before := bounce("", 4, 0).TimeMillis
	before -= before % (dayHours * hour)
	deleted, next, err := keep.DeleteSoftBounces(f.ctx, "days@example.com", before)
	must(t, err)
	want(t, "old days of who comes after one", fmt.Sprintf("%d %q", deleted, next), `2 ""`)
	deleted, next, err = keep.DeleteSoftBounces(f.ctx, "", before)
	must(t, err)
	want(t, "old days of the others", fmt.Sprintf("%d %q", deleted, next), `8 ""`)
	testManySoftBounces(t, f, keep)
}

// testManySoftBounces: of more addresses than a piece has, all old days go, in pieces.
func testManySoftBounces(t *testing.T, f *fixture, keep store.RetentionStore) {
	const many, day = 6000, 24 * 3_600_000
	first := int64(sendTime - sendTime%day)
	var e store.Effect
	for n := range many {
		e.SoftBounces = append(e.SoftBounces, mail.SoftBounce{Entry: fmt.Sprintf("many%05d@example.com", n), Source: "event:1", TimeMillis: first + int64(n%2)*day})
	}
	f.apply(t, e, 0, 0)
	deleted, pieces := 0, 0
	for after := "many"; pieces == 0 || after != ""; pieces++ {
		n, next, err := keep.DeleteSoftBounces(f.ctx, after, first+day)
		must(t, err)
		deleted, after = deleted+n, next
	}
	want(t, "old days, in pieces", fmt.Sprint(deleted, pieces), fmt.Sprint(many/2, 2))
	f.wantRows(t, "SELECT COUNT(*) FROM soft_bounces WHERE entry LIKE 'many%'", []string{fmt.Sprint(many / 2)})
}

// testEraseSoftBounces: the days of named addresses go. Those of others stay,
// of users with the same name, and of the next user of the address.
func testEraseSoftBounces(t *testing.T, f *fixture) {
	f.start(t)
	const day = 24 * 3_600_000
	today := int64(sendTime - sendTime%day)
	var e store.Effect
	for _, entry := range []string{"gone@example.com", "stays@example.com", "user@example.com"} {
		for n := range int64(3) {
			e.SoftBounces = append(e.SoftBounces, mail.SoftBounce{Entry: entry, Source: "event:1", TimeMillis: today + n*day})
		}
	}
	f.apply(t, e, 0, 0)
	named := today + day + day/2
	erased, err := f.store.(store.RetentionStore).EraseSoftBounces(f.ctx, []store.Erasure{
		{Name: store.AddressErasure("gone@example.com"), CreatedMillis: named}, {Name: "user@example.com", CreatedMillis: named},
		{Name: store.AddressErasure("nobody@example.com"), CreatedMillis: named},
	})
	must(t, err)
	want(t, "erased", erased, 2)
	f.wantRows(t, "SELECT entry, COUNT(*) FROM soft_bounces GROUP BY entry ORDER BY entry",
		[]string{"gone@example.com", "1"}, []string{"stays@example.com", "3"}, []string{"user@example.com", "3"})
}
