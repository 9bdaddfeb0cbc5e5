package storetest

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"strings"
	"testing"

	"sluice"
	"sluice/mail"
	"sluice/store"
)

func groupsOf(t *testing.T, f *fixture) store.GroupStore {
	t.Helper()
	groups, ok := f.store.(store.GroupStore)
	if !ok {
		t.Fatal("the store keeps no subscription groups")
	}
	return groups
}

// testGroups: groups are listed by their order, a second one of an id replaces the
// first but for when it was made, and there are so many at most.
func testGroups(t *testing.T, f *fixture) {
	s := groupsOf(t, f)
	weekly := store.Group{ID: "weekly ä/%", Name: "Weekly <news>", Description: "Each Monday.", Public: true, Order: 2, CreatedMillis: 1_700_000_000_123, UpdatedMillis: 1_700_000_000_123}
	first := store.Group{ID: "zz", Name: "First", Order: 1, CreatedMillis: 1_700_000_000_000, UpdatedMillis: 1_700_000_000_000}
	also := store.Group{ID: "a", Name: "Also", Order: 2, CreatedMillis: 1, UpdatedMillis: 1}
	for _, g := range []store.Group{weekly, first, also} {
		must(t, s.PutGroup(f.ctx, g))
	}
	changed := weekly
	changed.Name, changed.Public, changed.CreatedMillis, changed.UpdatedMillis = "Weekly", false, 9, 1_700_000_000_999
	must(t, s.PutGroup(f.ctx, changed))
	must(t, s.PutGroup(f.ctx, changed)) // a repeat is no error
	changed.CreatedMillis = weekly.CreatedMillis
	if all, err := s.Groups(f.ctx); err != nil || !reflect.DeepEqual(all, []store.Group{first, also, changed}) {
		t.Errorf("%+v %v", all, err)
	}
	for name, bad := range map[string]store.Group{
		"no id": {Name: "n", Order: 1}, "no name": {ID: "x", Name: " ", Order: 1}, "a line break": {ID: "x", Name: "a\nb", Order: 1}, "no order": {ID: "x", Name: "n"},
		"a long id": {ID: strings.Repeat("ä", store.MaxGroupIDRunes+1), Name: "n", Order: 1}, "no UTF-8": {ID: "x", Name: "\xff", Order: 1},
	} {
		if err := s.PutGroup(f.ctx, bad); err == nil {
			t.Errorf("%s is taken", name)
		} else {
			wantCode(t, err, sluice.CodeInvalid)
		}
	}
	longest := store.Group{ID: strings.Repeat("ä", store.MaxGroupIDRunes), Name: "n", Order: store.MaxGroupOrder}
	must(t, s.PutGroup(f.ctx, longest))
	for n := 4; n < store.MaxGroups; n++ {
		must(t, s.PutGroup(f.ctx, store.Group{ID: fmt.Sprint("g", n), Name: "n", Order: 1}))
	}
	wantCode(t, s.PutGroup(f.ctx, store.Group{ID: "one more", Name: "n", Order: 1}), sluice.CodeInvalid)
	must(t, s.PutGroup(f.ctx, changed)) // the last may still be changed
	must(t, s.DropGroup(f.ctx, "zz"))
	wantCode(t, s.DropGroup(f.ctx, "zz"), sluice.CodeNotFound)
	must(t, s.PutGroup(f.ctx, store.Group{ID: "one more", Name: "n", Order: 1}))
}

// testStops: what is stopped is kept as it was kept last.
func testStops(t *testing.T, f *fixture) {
	s := f.store.(mail.StopStore)
	for epoch, want := range []map[string]string{nil, {"all": "", "tag:ä\"%": "2026-01-02T03:04:05Z ä\n"}, {"marketing": "x"}, {}} {
		if want != nil {
			must(t, s.KeepStops(f.ctx, want, uint64(epoch)))
			must(t, s.KeepStops(f.ctx, want, uint64(epoch)))
		}
		if got, of, err := s.KeptStops(f.ctx); err != nil || !maps.Equal(got, want) || of != uint64(epoch) {
			t.Errorf("%v, %d, %v; want %v, %d", got, of, err, want, epoch)
		}
		if want == nil {
			continue
		}
		if err := s.KeepStops(f.ctx, map[string]string{"of an old master": ""}, uint64(epoch-1)); !errors.Is(err, sluice.ErrConflict) {
			t.Errorf("an earlier epoch is kept: %v", err)
		}
		if got, _, err := s.KeptStops(f.ctx); err != nil || !maps.Equal(got, want) {
			t.Errorf("an earlier epoch has overwritten it: %v, %v", got, err)
		}
	}
}

// fillGroups fills the tables of groups, links and stops.
func (f *fixture) fillGroups(t *testing.T) {
	t.Helper()
	must(t, f.store.(mail.StopStore).KeepStops(f.ctx, map[string]string{"tag:ä": "2026-01-02T03:04:05Z ä"}, 1))
	must(t, linksOf(t, f).PutLinks(f.ctx, map[string]string{"hash": "https://shop.example/ä"}))
	must(t, groupsOf(t, f).PutGroup(f.ctx, store.Group{ID: "filled ä", Name: "Filled", Description: "ä", Public: true, Order: 7, CreatedMillis: 1_760_000_000_001, UpdatedMillis: 1_760_000_000_002}))
}
