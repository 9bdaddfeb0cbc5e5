package storetest

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"sluice"
	"sluice/store"
	"sluice/user"
)

func (f *fixture) users(t *testing.T) user.Store {
	t.Helper()
	u, ok := f.store.(user.Store)
	if !ok {
		t.Fatal("the store keeps no users")
	}
	return u
}

// change applies changes as the next step.
func (f *fixture) change(t *testing.T, u *user.Changes) {
	t.Helper()
	f.apply(t, store.Effect{Users: u}, 0, 0)
}

func external(name string) user.Key {
	return user.Key{Kind: user.KeyExternal, Name: name}
}
func email(name string) user.Key { return user.Key{Kind: user.KeyEmail, Name: name} }

// testUsers: users are found by all that they are called, and by nothing else.
func testUsers(t *testing.T, f *fixture) {
	f.start(t)
	db := f.users(t)
	a, b := user.ID{Partition: 3, Number: 1}, user.ID{Partition: 255, Number: user.MaxNumber}
	alias := user.AliasKey("la\"bel", "näme 🌍 O'Neil\\")
	remembered := user.Key{Kind: user.KeyRememberedEmail, Name: "x@example.com"}
	rowA := user.Row{ID: a, UpdatedMillis: 1_700_000_000_123, Profile: `{"external_id":"u-1","custom":{"x":"ä🌍'\\n"}}`}
	rowB := user.Row{ID: b, UpdatedMillis: 1_700_000_000_124, Profile: `{}`}
	f.change(t, &user.Changes{
		Put:        []user.Row{rowB, rowA},
		AddKeys:    []user.KeyRow{{Key: external("u-1"), ID: a}, {Key: alias, ID: a}, {Key: external("U-1"), ID: b}, {Key: remembered, ID: b}},
		AddAddress: []user.KeyRow{{Key: email("x@example.com"), ID: b}, {Key: email("x@example.com"), ID: a}},
		Numbers:    map[int]user.Numbers{3: {User: 1, Forward: 7}, 255: {User: user.MaxNumber}},
	})
	got, err := db.Users(f.ctx, user.Query{
		Keys:    []user.Key{external("u-1"), alias, external("u-1 "), external("none"), email("x@example.com"), email("X@example.com"), remembered, {Kind: user.KeyRememberedPhone, Name: "x@example.com"}},
		IDs:     []user.ID{b, {Partition: 3, Number: 2}},
		Numbers: []int{3, 4, 255},
	})
	want := user.Answer{
		ByKey:   map[user.Key][]user.ID{external("u-1"): {a}, alias: {a}, email("x@example.com"): {a, b}, remembered: {b}},
		Users:   map[user.ID]user.Row{a: rowA, b: rowB},
		Numbers: map[int]user.Numbers{3: {User: 1, Forward: 7}, 4: {}, 255: {User: user.MaxNumber}},
		Bytes:   len(rowA.Profile) + len(rowB.Profile),
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("got %+v, %v\nwant %+v", got, err, want)
	}

	// Numbers that were given are never taken back.
	f.change(t, &user.Changes{Numbers: map[int]user.Numbers{3: {User: 2, Forward: 6}, 255: {User: 1}}})
	got, err = db.Users(f.ctx, user.Query{Numbers: []int{3, 255}})
	if want := map[int]user.Numbers{3: {User: 2, Forward: 7}, 255: {User: user.MaxNumber}}; err != nil || !reflect.DeepEqual(got.Numbers, want) {
		t.Errorf("the last numbers are %v, %v, want %v", got.Numbers, err, want)
	}

	stay := func(ids ...user.ID) error {
		_, err := f.store.Apply(f.ctx, f.prepare(t, f.step(store.Effect{Users: &user.Changes{Stay: ids}})))
		return err
	}

	// b is merged into a: b's key moves, b's profile is empty.
	rowA.Profile = `{"external_id":"u-1"}`
	f.change(t, &user.Changes{
		Put:         []user.Row{{ID: b, UpdatedMillis: 5, MergedInto: a}, rowA},
		MoveKeys:    []user.KeyRow{{Key: external("U-1"), ID: a}},
		DropKeys:    []user.KeyRow{{Key: alias, ID: a}, {Key: external("u-1"), ID: b}},
		AddAddress:  []user.KeyRow{{Key: email("x@example.com"), ID: a}},
		DropAddress: []user.KeyRow{{Key: email("x@example.com"), ID: b}},
	})
	got, err = db.Users(f.ctx, user.Query{Keys: []user.Key{external("U-1"), alias, email("x@example.com")}, IDs: []user.ID{b}})
	must(t, err)
	wantKeys := map[user.Key][]user.ID{external("U-1"): {a}, email("x@example.com"): {a}}
	if !reflect.DeepEqual(got.ByKey, wantKeys) || got.Users[b].MergedInto != a || got.Users[a] != rowA {
		t.Errorf("after the merge: %+v", got)
	}
	wantError(t, stay(a, b), sluice.ErrConflict)
	wantError(t, stay(user.ID{Partition: 9, Number: 9}), sluice.ErrConflict)
	f.change(t, &user.Changes{Stay: []user.ID{a, a}})
	f.change(t, &user.Changes{Drop: []user.ID{a}, DropKeys: []user.KeyRow{{Key: external("u-1"), ID: a}}, Erase: []string{"u-1", "u-1"}})
	got, err = db.Users(f.ctx, user.Query{Keys: []user.Key{external("u-1"), external("U-1")}, IDs: []user.ID{a}})
	if err != nil || len(got.Users) > 0 || !reflect.DeepEqual(got.ByKey, map[user.Key][]user.ID{external("U-1"): {a}}) {
		t.Errorf("after b was dropped: %+v, %v", got, err)
	}
	f.wantRows(t, "SELECT name FROM erasures", []string{"u-1"})
}

// testUserKeysConflict: a key has one owner, and the second caller changes
// nothing, by either path.
func testUserKeysConflict(t *testing.T, f *fixture) {
	f.start(t)
	first := user.ID{Partition: 0, Number: 1}
	f.change(t, &user.Changes{Put: []user.Row{{ID: first, Profile: "{}"}}, AddKeys: []user.KeyRow{{Key: external("a"), ID: first}}})
	second := user.ID{Partition: 1, Number: 1}
	late := &user.Changes{Put: []user.Row{{ID: second, Profile: "{}"}}, AddKeys: []user.KeyRow{{Key: external("b"), ID: second}, {Key: external("a"), ID: second}}}
	effect := f.step(store.Effect{Users: late})
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
	u := &user.Changes{}
	q := user.Query{}
	for i := range n {
		id := user.ID{Partition: 2, Number: int64(n - i)}
		row := user.Row{ID: id, UpdatedMillis: int64(i), Profile: fmt.Sprintf(`{"created":%d}`, i+1)}
		if i%100 == 0 {
			row.Profile, row.MergedInto = "", user.ID{Partition: 9, Number: 9}
		}
		key := external(fmt.Sprint("u", i))
		u.Put, u.AddKeys, q.Keys = append(u.Put, row), append(u.AddKeys, user.KeyRow{Key: key, ID: id}), append(q.Keys, key)
	}
	f.change(t, u)
	got, err := store.Users(f.ctx, q)
	must(t, err)
	for i, row := range u.Put {
		if got.Users[row.ID] != row || !reflect.DeepEqual(got.ByKey[q.Keys[i]], []user.ID{row.ID}) {
			t.Fatalf("user %d is %+v", i, got.Users[row.ID])
		}
	}
	seen, after := 0, int64(0)
	for {
		before := seen
		must(t, store.EachProfile(f.ctx, 2, after, 500, func(number int64, text string) bool {
			if row := &u.Put[n-number]; number <= after || text != row.Profile || !row.MergedInto.IsZero() {
				t.Fatalf("after %d came %d: %s", after, number, text)
			}
			after = number
			seen++
			return true
		}))
		if seen == before {
			break
		}
	}
	want(t, "users on pages", seen, n-13)
}

// testUsersByBytes: profiles are read up to a bound of bytes, by whatever their users are
// found. One who is found twice counts once.
func testUsersByBytes(t *testing.T, f *fixture) {
	f.start(t)
	store := f.users(t)
	const n = 7
	u := &user.Changes{}
	var ids []user.ID
	var names, addresses []user.Key
	total := 0
	for i := range n {
		id := user.ID{Partition: i % 2, Number: int64(i + 1)}
		row := user.Row{ID: id, UpdatedMillis: 1, Profile: `{"custom":{"x":"` + strings.Repeat("x", 1000*(i+1)) + `"}}`}
		u.Put, ids, total = append(u.Put, row), append(ids, id), total+len(row.Profile)
		names, addresses = append(names, external(fmt.Sprint("u", i))), append(addresses, email(fmt.Sprintf("u%d@example.com", i)))
		u.AddKeys, u.AddAddress = append(u.AddKeys, user.KeyRow{Key: names[i], ID: id}), append(u.AddAddress, user.KeyRow{Key: addresses[i], ID: id})
	}
	merged := user.ID{Partition: 2, Number: 1}
	chain := external("merged")
	u.Put, u.AddKeys = append(u.Put, user.Row{ID: merged, UpdatedMillis: 1, MergedInto: ids[0]}), append(u.AddKeys, user.KeyRow{Key: chain, ID: merged})
	f.change(t, u)
	for what, c := range map[string]struct {
		q     user.Query
		bytes int
	}{
		"names":     {user.Query{Keys: names}, total},
		"addresses": {user.Query{Keys: addresses}, total},
		"ids":       {user.Query{IDs: ids}, total},
		"all":       {user.Query{Keys: slices.Concat(names, addresses, []user.Key{chain}), IDs: ids}, total},
		"a merge":   {user.Query{Keys: []user.Key{chain}}, len(u.Put[0].Profile)},
	} {
		for _, most := range []int{0, c.bytes} {
			c.q.MaxBytes = most
			if got, err := store.Users(f.ctx, c.q); err != nil || got.Bytes != c.bytes {
				t.Errorf("%s, at most %d bytes: %d are read, %v; want %d", what, most, got.Bytes, err, c.bytes)
			}
		}
		c.q.MaxBytes = c.bytes - 1
		_, err := store.Users(f.ctx, c.q)
		wantError(t, err, user.ErrTooManyBytes)
	}
}

// testForwards: what is on its way stays until it has arrived.
func testForwards(t *testing.T, f *fixture) {
	f.start(t)
	store := f.users(t)
	all := []user.Forward{{From: 1, To: 2, ID: 1, Items: []byte{0, 255, '\''}}, {From: 1, To: 3, ID: 2, Items: []byte("b")}, {From: 1, To: 2, ID: 3, Items: []byte("c")}}
	f.change(t, &user.Changes{Forward: append(all, user.Forward{From: 4, To: 1, ID: 1, Items: []byte("d")})})
	for _, some := range []struct {
		to    int
		after int64
		want  []user.Forward
	}{{2, 0, []user.Forward{all[0], all[2]}}, {2, 1, all[2:]}, {3, 0, all[1:2]}, {user.AnyPartition, 1, all[1:]}, {0, 0, nil}} {
		got, err := store.Forwards(f.ctx, user.ForwardQuery{From: 1, To: some.to, After: some.after}, 10)
		if err != nil || !reflect.DeepEqual(got, some.want) {
			t.Errorf("to %d after %d: got %+v, %v, want %+v", some.to, some.after, got, err, some.want)
		}
	}
	for _, step := range []struct {
		to   int
		id   int64
		left []user.Forward
	}{{0, 0, all}, {2, 1, all[1:]}, {2, 9, all[1:2]}, {3, 2, nil}} {
		must(t, store.Forwarded(f.ctx, 1, step.to, step.id))
		got, err := store.Forwards(f.ctx, user.ForwardQuery{From: 1, To: user.AnyPartition}, 10)
		if err != nil || !reflect.DeepEqual(got, step.left) {
			t.Fatalf("got %+v, %v, want %+v", got, err, step.left)
		}
	}
	// Those that bring profiles are read a few at a time.
	large := make([]byte, 4<<20)
	for id := range int64(4) {
		f.change(t, &user.Changes{Forward: []user.Forward{{From: 1, To: 2, ID: id + 1, Items: large}}})
	}
	for _, want := range []int{2, 2, 0} {
		got, err := store.Forwards(f.ctx, user.ForwardQuery{From: 1, To: 2}, 10)
		if err != nil || len(got) != want {
			t.Fatalf("%d large ones at once, %v, want %d", len(got), err, want)
		}
		if want > 0 {
			must(t, store.Forwarded(f.ctx, 1, 2, got[want-1].ID))
		}
	}
}

// testMergeChains: a merged user is found over as many merges as there were,
// more than the servers follow in one statement. An erased one is not.
func testMergeChains(t *testing.T, f *fixture) {
	f.start(t)
	const n = 1203
	id := func(i int) user.ID { return user.ID{Partition: i % 3, Number: int64(i + 1)} }
	u := &user.Changes{}
	for i := range n {
		u.Put = append(u.Put, user.Row{ID: id(i), UpdatedMillis: 5, MergedInto: id(i + 1)})
	}
	last := user.Row{ID: id(n), UpdatedMillis: 6, Profile: `{"external_id":"z"}`}
	lost := user.Row{ID: id(n + 1), UpdatedMillis: 7, MergedInto: user.ID{Partition: 9, Number: 9}}
	u.Put = append(u.Put, last, lost)
	u.AddKeys = []user.KeyRow{{Key: external("a"), ID: id(0)}, {Key: external("b"), ID: id(1)}}
	f.change(t, u)
	for _, q := range []user.Query{{IDs: []user.ID{id(0), lost.ID, id(700)}}, {Keys: []user.Key{external("b"), external("a")}}} {
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
	const n = 3*user.MaxSharing + 50
	u := &user.Changes{}
	var all []user.ID
	q := user.Query{}
	for i := range n {
		id := user.ID{Partition: i / 200, Number: int64(i + 1)}
		all = append(all, id)
		own := email(fmt.Sprintf("%d@example.com", i))
		u.Put = append(u.Put, user.Row{ID: id, UpdatedMillis: int64(n - i), Profile: fmt.Sprintf(`{"created":%d}`, i+1)})
		u.AddAddress = append(u.AddAddress, user.KeyRow{Key: own, ID: id}, user.KeyRow{Key: email("all@example.com"), ID: id})
		q.Keys = append(q.Keys, own)
		if i < user.MaxSharing+1 {
			u.AddAddress = append(u.AddAddress, user.KeyRow{Key: email("more@example.com"), ID: id})
		}
		if i < user.MaxSharing {
			u.AddAddress = append(u.AddAddress, user.KeyRow{Key: email("most@example.com"), ID: id})
		}
	}
	f.change(t, u)
	q.Keys = append(q.Keys, email("all@example.com"), email("more@example.com"), email("most@example.com"), email("none@example.com"))
	got, err := f.users(t).Users(f.ctx, q)
	must(t, err)
	for i, id := range all {
		if !reflect.DeepEqual(got.ByKey[q.Keys[i]], []user.ID{id}) || got.Users[id] != u.Put[i] {
			t.Fatalf("beside a shared address, %v is %v", q.Keys[i], got.ByKey[q.Keys[i]])
		}
	}
	for _, name := range []string{"all", "more", "most"} {
		k := email(name + "@example.com")
		if !reflect.DeepEqual(got.ByKey[k], all[:user.MaxSharing]) || got.Shared[k] != (name != "most") {
			t.Errorf("%v: %d users, the first is %v; shared %v", k, len(got.ByKey[k]), got.ByKey[k][0], got.Shared[k])
		}
	}
	want(t, "addresses found", len(got.ByKey), n+3)
	var listed []user.ID
	for after := (user.ID{}); ; after = listed[len(listed)-1] {
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
