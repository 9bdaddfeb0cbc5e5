package storetest

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice"
	"sluice/user"
)

// aSegment is one that was made at a second.
func aSegment(second int64, name string) user.Segment {
	return user.Segment{
		ID: sluice.NewUUID(time.Unix(second, 0)), Name: name, Definition: `{"attribute":"a","is":"equals","value":"ä🌍'\\n"}`,
		CreatedMillis: second * 1000, UpdatedMillis: second*1000 + 1,
	}
}

// testSegments: segments are kept as they are, listed in the order in which
// they were made, and no two have a name.
func testSegments(t *testing.T, f *fixture) {
	store, ok := f.store.(user.SegmentStore)
	if !ok {
		t.Fatal("the store keeps no segments")
	}
	refused := func(err error, code sluice.Code) {
		t.Helper()
		if e, ok := errors.AsType[*sluice.Error](err); !ok || e.Code != code {
			t.Errorf("got %v, want %s", err, code)
		}
	}
	list := func(q user.SegmentQuery, want ...user.Segment) {
		t.Helper()
		got, err := store.Segments(f.ctx, q)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%+v: got %+v, %v\nwant %+v", q, got, err, want)
		}
	}
	list(user.SegmentQuery{Limit: 10})
	first, second, third := aSegment(1_700_000_000, "gold 🌍"), aSegment(1_700_000_001, "Gold 🌍"), aSegment(1_700_000_002, "third")
	third.ArchivedMillis = 1_700_000_003_123
	for _, s := range []user.Segment{second, third, first} {
		must(t, store.AddSegment(f.ctx, s))
		got, err := f.Open(t).(user.SegmentStore).Segment(f.ctx, s.ID)
		if err != nil || got != s {
			t.Errorf("got %+v, %v, want %+v", got, err, s)
		}
	}
	again := aSegment(1_700_000_004, first.Name)
	refused(store.AddSegment(f.ctx, again), sluice.CodeInvalid)
	again.Name = third.Name // archived ones keep theirs
	refused(store.AddSegment(f.ctx, again), sluice.CodeInvalid)
	refused(store.PutSegment(f.ctx, again), sluice.CodeNotFound)
	_, err := store.Segment(f.ctx, "none")
	refused(err, sluice.CodeNotFound)

	list(user.SegmentQuery{Limit: 10}, first, second)
	list(user.SegmentQuery{Limit: 10, Archived: true}, first, second, third)
	list(user.SegmentQuery{Limit: 1, After: first.ID}, second)
	list(user.SegmentQuery{Limit: 2, Newest: true, Skip: 1, Archived: true}, second, first)

	changed := second
	changed.Name = first.Name
	refused(store.PutSegment(f.ctx, changed), sluice.CodeInvalid)
	changed.Name, changed.Definition, changed.UpdatedMillis, changed.ArchivedMillis = "new", `{}`, 1_700_000_009_000, 1_700_000_010_000
	must(t, store.PutSegment(f.ctx, changed))
	must(t, store.PutSegment(f.ctx, changed)) // the same again is no error
	third.ArchivedMillis = 0
	must(t, store.PutSegment(f.ctx, third))
	list(user.SegmentQuery{Limit: 10}, first, third)
	list(user.SegmentQuery{Limit: 10, Archived: true}, first, changed, third)
}

// testEachProfile: profiles come in the order of their users, and no further
// than is wanted.
func testEachProfile(t *testing.T, f *fixture) {
	f.start(t)
	store := f.users(t)
	u := &user.Changes{}
	for i := range int64(10) {
		for part := range 2 {
			row := user.Row{ID: user.ID{Partition: part, Number: i + 1}, UpdatedMillis: 1, Profile: fmt.Sprintf(`{"created":%d,"fields":{"city":"ä🌍"}}`, 100*int64(part)+i+1)}
			if i == 4 {
				row.Profile, row.MergedInto = "", user.ID{Partition: 0, Number: 1}
			}
			u.Put = append(u.Put, row)
		}
	}
	f.change(t, u)
	read := func(part int, after int64, limit, stop int) (numbers []int64) {
		t.Helper()
		must(t, store.EachProfile(f.ctx, part, after, limit, func(n int64, profile string) bool {
			want(t, "profile", profile, fmt.Sprintf(`{"created":%d,"fields":{"city":"ä🌍"}}`, 100*int64(part)+n))
			numbers = append(numbers, n)
			return len(numbers) != stop
		}))
		return numbers
	}
	for _, x := range []struct {
		part, after, limit, stop int
		want                     []int64
	}{
		{1, 0, 100, 0, []int64{1, 2, 3, 4, 6, 7, 8, 9, 10}},
		{0, 3, 3, 0, []int64{4, 6, 7}},
		{0, 3, 100, 2, []int64{4, 6}},
		{0, 10, 100, 0, nil},
		{2, 0, 100, 0, nil},
	} {
		if got := read(x.part, int64(x.after), x.limit, x.stop); !reflect.DeepEqual(got, x.want) {
			t.Errorf("%+v: got %v", x, got)
		}
	}
	for _, x := range []struct {
		part    int
		numbers []int64
		want    map[int64]string
	}{
		{1, []int64{3, 5, 9, 11}, map[int64]string{3: "103", 9: "109"}}, // 5 was merged, 11 is not there
		{0, []int64{7}, map[int64]string{7: "7"}},
		{2, []int64{1}, map[int64]string{}},
		{0, nil, map[int64]string{}},
	} {
		got := make(map[int64]string)
		must(t, store.ProfilesOf(f.ctx, x.part, x.numbers, func(n int64, profile string) bool {
			got[n] = strings.TrimSuffix(strings.TrimPrefix(profile, `{"created":`), `,"fields":{"city":"ä🌍"}}`)
			return true
		}))
		if !maps.Equal(got, x.want) {
			t.Errorf("profiles of %v in partition %d: %v, want %v", x.numbers, x.part, got, x.want)
		}
	}
	asked := 0
	must(t, store.ProfilesOf(f.ctx, 1, []int64{3, 9}, func(int64, string) bool { asked++; return false }))
	if asked != 1 {
		t.Errorf("%d profiles after the first was enough", asked)
	}
}
