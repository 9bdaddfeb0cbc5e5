package storetest

import (
	"fmt"
	"reflect"
	"testing"

	"sluice"
)

func (f *fixture) users(t *testing.T) sluice.UserStore {
	t.Helper()
	u, ok := f.store.(sluice.UserStore)
	if !ok {
		t.Fatal("the store keeps no users")
	}
	return u
}

// change applies changes as the next step.
func (f *fixture) change(t *testing.T, u *sluice.UserChanges) {
	t.Helper()
	f.apply(t, sluice.Effect{Users: u}, 0, 0)
}

func external(name string) sluice.UserKey {
	return sluice.UserKey{Kind: sluice.KeyExternal, Name: name}
}
func email(name string) sluice.UserKey { return sluice.UserKey{Kind: sluice.KeyEmail, Name: name} }

// testUsers: users are found by all that they are called, and by nothing else.
func testUsers(t *testing.T, f *fixture) {
	f.start(t)
	store := f.users(t)
	a, b := sluice.UserID{Partition: 3, Number: 1}, sluice.UserID{Partition: 255, Number: 1 << 62}
	alias := sluice.AliasKey("la\"bel", "näme 🌍 O'Neil\\")
	remembered := sluice.UserKey{Kind: sluice.KeyRememberedEmail, Name: "x@example.com"}
	rowA := sluice.UserRow{ID: a, UpdatedMillis: 1_700_000_000_123, Profile: `{"external_id":"u-1","custom":{"x":"ä🌍'\\n"}}`}
	rowB := sluice.UserRow{ID: b, UpdatedMillis: 1_700_000_000_124, Profile: `{}`}
	f.change(t, &sluice.UserChanges{
		Put:        []sluice.UserRow{rowB, rowA},
		AddKeys:    []sluice.KeyRow{{Key: external("u-1"), ID: a}, {Key: alias, ID: a}, {Key: external("U-1"), ID: b}, {Key: remembered, ID: b}},
		AddAddress: []sluice.KeyRow{{Key: email("x@example.com"), ID: b}, {Key: email("x@example.com"), ID: a}},
		Numbers:    map[int]sluice.UserNumbers{3: {User: 1, Forward: 7}, 255: {User: 1 << 62}},
	})
	got, err := store.Users(f.ctx, sluice.UserQuery{
		Keys:    []sluice.UserKey{external("u-1"), alias, external("u-1 "), external("none"), email("x@example.com"), email("X@example.com"), remembered, {Kind: sluice.KeyRememberedPhone, Name: "x@example.com"}},
		IDs:     []sluice.UserID{b, {Partition: 3, Number: 2}},
		Numbers: []int{3, 4, 255},
	})
	want := sluice.UserAnswer{
		ByKey:   map[sluice.UserKey][]sluice.UserID{external("u-1"): {a}, alias: {a}, email("x@example.com"): {a, b}, remembered: {b}},
		Users:   map[sluice.UserID]sluice.UserRow{a: rowA, b: rowB},
		Numbers: map[int]sluice.UserNumbers{3: {User: 1, Forward: 7}, 4: {}, 255: {User: 1 << 62}},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("got %+v, %v\nwant %+v", got, err, want)
	}

	stay := func(ids ...sluice.UserID) error {
		_, err := f.store.Apply(f.ctx, f.prepare(t, f.step(sluice.Effect{Users: &sluice.UserChanges{Stay: ids}})))
		return err
	}

	// b is merged into a: b's key moves, b's profile is empty.
	rowA.Profile = `{"external_id":"u-1"}`
	f.change(t, &sluice.UserChanges{
		Put:         []sluice.UserRow{{ID: b, UpdatedMillis: 5, MergedInto: a}, rowA},
		MoveKeys:    []sluice.KeyRow{{Key: external("U-1"), ID: a}},
		DropKeys:    []sluice.KeyRow{{Key: alias, ID: a}, {Key: external("u-1"), ID: b}},
		AddAddress:  []sluice.KeyRow{{Key: email("x@example.com"), ID: a}},
		DropAddress: []sluice.KeyRow{{Key: email("x@example.com"), ID: b}},
	})
	got, err = store.Users(f.ctx, sluice.UserQuery{Keys: []sluice.UserKey{external("U-1"), alias, email("x@example.com")}, IDs: []sluice.UserID{b}})
	must(t, err)
	wantKeys := map[sluice.UserKey][]sluice.UserID{external("U-1"): {a}, email("x@example.com"): {a}}
	if !reflect.DeepEqual(got.ByKey, wantKeys) || got.Users[b].MergedInto != a || got.Users[a] != rowA {
		t.Errorf("after the merge: %+v", got)
	}
	wantError(t, stay(a, b), sluice.ErrConflict)
	wantError(t, stay(sluice.UserID{Partition: 9, Number: 9}), sluice.ErrConflict)
	f.change(t, &sluice.UserChanges{Stay: []sluice.UserID{a, a}})
	f.change(t, &sluice.UserChanges{Drop: []sluice.UserID{a}, DropKeys: []sluice.KeyRow{{Key: external("u-1"), ID: a}}, Erase: []string{"u-1", "u-1"}})
	got, err = store.Users(f.ctx, sluice.UserQuery{Keys: []sluice.UserKey{external("u-1"), external("U-1")}, IDs: []sluice.UserID{a}})
	if err != nil || len(got.Users) > 0 || !reflect.DeepEqual(got.ByKey, map[sluice.UserKey][]sluice.UserID{external("U-1"): {a}}) {
		t.Errorf("after b was dropped: %+v, %v", got, err)
	}
	f.wantRows(t, "SELECT name FROM erasures", []string{"u-1"})
}

// testUserKeysConflict: a key has one owner, and the second caller changes
// nothing, by either path.
func testUserKeysConflict(t *testing.T, f *fixture) {
	f.start(t)
	first := sluice.UserID{Partition: 0, Number: 1}
	f.change(t, &sluice.UserChanges{Put: []sluice.UserRow{{ID: first, Profile: "{}"}}, AddKeys: []sluice.KeyRow{{Key: external("a"), ID: first}}})
	second := sluice.UserID{Partition: 1, Number: 1}
	late := &sluice.UserChanges{Put: []sluice.UserRow{{ID: second, Profile: "{}"}}, AddKeys: []sluice.KeyRow{{Key: external("b"), ID: second}, {Key: external("a"), ID: second}}}
	effect := f.step(sluice.Effect{Users: late})
	_, err := f.store.Apply(f.ctx, f.prepare(t, effect))
	wantError(t, err, sluice.ErrConflict)
	_, err = f.store.ApplyEach(f.ctx, f.prepare(t, effect))
	wantError(t, err, sluice.ErrConflict)
	f.wantCursor(t)
	f.wantRows(t, "SELECT part, number FROM users", []string{"0", "1"})
	f.wantRows(t, "SELECT name, part FROM user_keys", []string{"a", "0"})
}

// testManyUsers: more than go into a statement, and the pages of a partition.
func testManyUsers(t *testing.T, f *fixture) {
	f.start(t)
	store := f.users(t)
	const n = 1203
	u := &sluice.UserChanges{}
	q := sluice.UserQuery{}
	for i := range n {
		id := sluice.UserID{Partition: 2, Number: int64(n - i)}
		row := sluice.UserRow{ID: id, UpdatedMillis: int64(i), Profile: fmt.Sprintf(`{"created":%d}`, i+1)}
		if i%100 == 0 {
			row.Profile, row.MergedInto = "", sluice.UserID{Partition: 9, Number: 9}
		}
		key := external(fmt.Sprint("u", i))
		u.Put, u.AddKeys, q.Keys = append(u.Put, row), append(u.AddKeys, sluice.KeyRow{Key: key, ID: id}), append(q.Keys, key)
	}
	f.change(t, u)
	got, err := store.Users(f.ctx, q)
	must(t, err)
	for i, row := range u.Put {
		if got.Users[row.ID] != row || !reflect.DeepEqual(got.ByKey[q.Keys[i]], []sluice.UserID{row.ID}) {
			t.Fatalf("user %d is %+v", i, got.Users[row.ID])
		}
	}
	seen, after := 0, int64(0)
	for {
		page, err := store.UserPage(f.ctx, 2, after, 500)
		must(t, err)
		if len(page) == 0 {
			break
		}
		for _, row := range page {
			if row.ID.Number <= after || row != u.Put[n-row.ID.Number] || !row.MergedInto.IsZero() {
				t.Fatalf("after %d came %+v", after, row)
			}
			after = row.ID.Number
			seen++
		}
	}
	want(t, "users on pages", seen, n-13)
}

// testForwards: what is on its way stays until it has arrived.
func testForwards(t *testing.T, f *fixture) {
	f.start(t)
	store := f.users(t)
	all := []sluice.Forward{{From: 1, To: 2, ID: 1, Items: []byte{0, 255, '\''}}, {From: 1, To: 3, ID: 2, Items: []byte("b")}, {From: 1, To: 2, ID: 3, Items: []byte("c")}}
	f.change(t, &sluice.UserChanges{Forward: append(all, sluice.Forward{From: 4, To: 1, ID: 1, Items: []byte("d")})})
	for _, step := range []struct {
		to   int
		id   int64
		left []sluice.Forward
	}{{0, 0, all}, {2, 1, all[1:]}, {2, 9, all[1:2]}, {3, 2, nil}} {
		must(t, store.Forwarded(f.ctx, 1, step.to, step.id))
		got, err := store.Forwards(f.ctx, 1, 10)
		if err != nil || !reflect.DeepEqual(got, step.left) {
			t.Fatalf("got %+v, %v, want %+v", got, err, step.left)
		}
	}
}

// testMergeChains: a merged user is found over as many merges as there were,
// more than the servers follow in one statement. An erased one is not.
func testMergeChains(t *testing.T, f *fixture) {
	f.start(t)
	const n = 1203
	id := func(i int) sluice.UserID { return sluice.UserID{Partition: i % 3, Number: int64(i + 1)} }
	u := &sluice.UserChanges{}
	for i := range n {
		u.Put = append(u.Put, sluice.UserRow{ID: id(i), UpdatedMillis: 5, MergedInto: id(i + 1)})
	}
	last := sluice.UserRow{ID: id(n), UpdatedMillis: 6, Profile: `{"external_id":"z"}`}
	lost := sluice.UserRow{ID: id(n + 1), UpdatedMillis: 7, MergedInto: sluice.UserID{Partition: 9, Number: 9}}
	u.Put = append(u.Put, last, lost)
	u.AddKeys = []sluice.KeyRow{{Key: external("a"), ID: id(0)}, {Key: external("b"), ID: id(1)}}
	f.change(t, u)
	for _, q := range []sluice.UserQuery{{IDs: []sluice.UserID{id(0), lost.ID, id(700)}}, {Keys: []sluice.UserKey{external("b"), external("a")}}} {
		got, err := f.users(t).Users(f.ctx, q)
		must(t, err)
		for _, from := range q.IDs {
			if row, ok := got.Owner(from); ok != (from != lost.ID) || ok && row != last {
				t.Errorf("%v was merged into %+v, %v", from, row, ok)
			}
		}
		for k, ids := range got.ByKey {
			if row, ok := got.Owner(ids[0]); !ok || row != last {
				t.Errorf("%v leads to %+v, %v", k, row, ok)
			}
		}
	}
}

// testSharedAddresses: of an address that very many users have, some are read,
// always the same, and all can be listed. Other users asked for beside it are
// returned as a whole.
func testSharedAddresses(t *testing.T, f *fixture) {
	f.start(t)
	const n = 3*sluice.MaxSharing + 50
	u := &sluice.UserChanges{}
	var all []sluice.UserID
	q := sluice.UserQuery{}
	for i := range n {
		id := sluice.UserID{Partition: i / 200, Number: int64(i + 1)}
		all = append(all, id)
		own := email(fmt.Sprintf("%d@example.com", i))
		u.Put = append(u.Put, sluice.UserRow{ID: id, UpdatedMillis: int64(n - i), Profile: fmt.Sprintf(`{"created":%d}`, i+1)})
		u.AddAddress = append(u.AddAddress, sluice.KeyRow{Key: own, ID: id}, sluice.KeyRow{Key: email("all@example.com"), ID: id})
		q.Keys = append(q.Keys, own)
		if i < sluice.MaxSharing+1 {
			u.AddAddress = append(u.AddAddress, sluice.KeyRow{Key: email("more@example.com"), ID: id})
		}
		if i < sluice.MaxSharing {
			u.AddAddress = append(u.AddAddress, sluice.KeyRow{Key: email("most@example.com"), ID: id})
		}
	}
	f.change(t, u)
	q.Keys = append(q.Keys, email("all@example.com"), email("more@example.com"), email("most@example.com"), email("none@example.com"))
	got, err := f.users(t).Users(f.ctx, q)
	must(t, err)
	for i, id := range all {
		if !reflect.DeepEqual(got.ByKey[q.Keys[i]], []sluice.UserID{id}) || got.Users[id] != u.Put[i] {
			t.Fatalf("beside a shared address, %v is %v", q.Keys[i], got.ByKey[q.Keys[i]])
		}
	}
	for _, name := range []string{"all", "more", "most"} {
		k := email(name + "@example.com")
		if !reflect.DeepEqual(got.ByKey[k], all[:sluice.MaxSharing]) || got.Shared[k] != (name != "most") {
			t.Errorf("%v: %d users, the first is %v; shared %v", k, len(got.ByKey[k]), got.ByKey[k][0], got.Shared[k])
		}
	}
	want(t, "addresses found", len(got.ByKey), n+3)
	var listed []sluice.UserID
	for after := (sluice.UserID{}); ; after = listed[len(listed)-1] {
		page, err := f.users(t).Sharing(f.ctx, email("all@example.com"), after, 99)
		must(t, err)
		if len(page) == 0 {
			break
		}
		listed = append(listed, page...)
	}
	if !reflect.DeepEqual(listed, all) {
		t.Errorf("%d of %d users are listed", len(listed), n)
	}
}
