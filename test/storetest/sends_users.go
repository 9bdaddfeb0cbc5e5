package storetest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	"sluice"
	"sluice/mail"
	"sluice/store"
	"sluice/user"
)

// sendTo makes a send that names a user.
func sendTo(n int, user string) mail.StoredSend {
	s := aSend(n, 0, 1)
	s.User = user
	return s
}

// testSendsOfUsers: a send has the user that it names and that is there when its row is
// written, by either path. It keeps that user until the user is erased.
func testSendsOfUsers(t *testing.T, f *fixture) {
	f.start(t)
	a, b := user.ID{Partition: 3, Number: 1}, user.ID{Partition: 255, Number: user.MaxNumber}
	long := strings.Repeat("x", sluice.MaxReferenceBytes+1)
	keyOf := func(name string, id user.ID) []user.KeyRow {
		return []user.KeyRow{{Key: external(name), ID: id}}
	}
	is := func(n int, want user.ID) {
		t.Helper()
		s := aSend(n, 0, 1)
		if got := f.row(t, &s).UserID; got != want {
			t.Errorf("send %d is of user %v, want %v", n, got, want)
		}
	}
	names := []string{"ann'", "", b.String(), "nobody", user.ID{Partition: 255, Number: 2}.String(), "ann", "ann'\xff", "ann'\x00", long, "Ann'", "ann'"}
	var sends []mail.StoredSend
	for n, name := range names {
		sends = append(sends, sendTo(n, name))
	}
	f.apply(t, store.Effect{Sends: sends, Users: &user.Changes{ // users and their mail in one transaction
		Put:        []user.Row{{ID: a, Profile: `{"external_id":"ann'"}`}, {ID: b, Profile: "{}"}},
		AddKeys:    append(keyOf("ann'", a), keyOf(long, a)...),
		AddAddress: []user.KeyRow{{Key: email("to-0@example.com"), ID: a}},
	}}, len(sends), 0)
	for n := range names {
		is(n, map[int]user.ID{0: a, 2: b, 10: a}[n])
	}
	want(t, "users", f.count(t, "users"), 2)
	want(t, "without a user", f.one(t, "SELECT COUNT(*) FROM sends WHERE user_part IS NULL AND user_number IS NULL"), len(names)-3)

	// Two are merged: what is there stays, also when it is read again and goes on.
	f.change(t, &user.Changes{Put: []user.Row{{ID: a, MergedInto: b}}, MoveKeys: keyOf("ann'", b)})
	sent, later := anOutcome(&sends[0], mail.SendWaiting, mail.SendSent, 1), sendTo(20, "ann'")
	f.record(t, append(sends, later), []mail.StoredOutcome{sent}, 1)
	is(0, a)
	is(20, b)
	restored := sendTo(21, "ann'")
	again := anOutcome(&restored, mail.SendWaiting, mail.SendSent, 1)
	again.Restored = true
	f.apply(t, store.Effect{Outcomes: []mail.StoredOutcome{again}}, 1, 0)
	is(21, b)
	bad := event(1)
	bad.Kind = 99
	f.refuse(t, store.Effect{Sends: []mail.StoredSend{sendTo(22, "ann'")}, Events: []store.StoredEvent{bad}}, 1, 0, 1)
	is(22, b)

	for user, list := range map[user.ID]string{a: "10 0", b: "22 21 20 2", {Partition: 1}: ""} {
		want(t, "sends of "+user.String(), f.userSends(t, user), list)
	}

	f.newestSends(t)

	// Mail that names a deleted user, or the address that another user has now, is of nobody.
	c := user.ID{Partition: 3, Number: 2}
	f.change(t, &user.Changes{Drop: []user.ID{b}, DropKeys: keyOf("ann'", b), Put: []user.Row{{ID: c, Profile: "{}"}}, AddAddress: []user.KeyRow{{Key: email("to-0@example.com"), ID: c}}})
	f.record(t, []mail.StoredSend{sendTo(30, "ann'"), sendTo(31, "")}, nil, 2)
	is(30, user.ID{})
	is(31, user.ID{})
	for _, id := range []user.ID{a, b} {
		rows, err := f.sends(t).UserSends(f.ctx, id, mail.SendKey{}, 10)
		must(t, err)
		must(t, f.store.(store.RetentionStore).EraseSends(f.ctx, rows))
	}
	want(t, "of erased users", f.one(t, "SELECT COUNT(*) FROM sends WHERE user_part IS NOT NULL OR user_number IS NOT NULL"), 0)
}

// newestSends: all sends are listed by when they were accepted, page by page, whatever their
// ids say, as those of journeys do.
func (f *fixture) newestSends(t *testing.T) {
	t.Helper()
	late := sendTo(40, "")
	late.AcceptedMillis += 3_600_000
	late.Message = "00" + late.Message[2:] // as of a person who entered years before
	same := late
	same.Message = "01" + late.Message[2:] // at the same moment, by a greater id
	f.record(t, []mail.StoredSend{late, same}, nil, 2)
	newest, err := f.sends(t).NewestSends(f.ctx, mail.SendPlace{}, 100)
	must(t, err)
	order := func(a, b mail.SendRow) int {
		return cmp.Or(cmp.Compare(b.AcceptedMillis, a.AcceptedMillis), b.Key().Compare(a.Key()))
	}
	if len(newest) < 7 || !slices.IsSortedFunc(newest, order) || newest[0].Message != same.Message || newest[1].Message != late.Message {
		t.Errorf("the newest of all sends: %d rows, the first %s %s, want %s %s", len(newest), newest[0].Message, newest[1].Message, same.Message, late.Message)
	}
	for before, i := (mail.SendPlace{}), 0; i <= len(newest); i++ {
		page, err := f.sends(t).NewestSends(f.ctx, before, 1)
		must(t, err)
		if i == len(newest) && len(page) > 0 || i < len(newest) && (len(page) != 1 || page[0].Key() != newest[i].Key()) {
			t.Fatalf("page %d of the newest sends: %v", i, page)
		}
		if len(page) > 0 {
			before = page[0].Place()
		}
	}
}

// userSends lists the sends of a user, page by page: by when they were accepted, or
// ended if they were restored.
func (f *fixture) userSends(t *testing.T, user user.ID) string {
	t.Helper()
	var all []string
	for before, more := (mail.SendKey{}), true; more; {
		page, err := f.sends(t).UserSends(f.ctx, user, before, 1)
		must(t, err)
		for _, r := range page {
			before = mail.SendKey{Message: r.Message, Number: r.Number}
			all = append(all, fmt.Sprint(r.AcceptedMillis%sendTime%1000))
		}
		more = len(page) > 0
	}
	return strings.Join(all, " ")
}
