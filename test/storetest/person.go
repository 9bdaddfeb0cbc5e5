package storetest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"sluice"
	"sluice/store"
	"sluice/user"
)

const personDay = int64(86_400_000) // in milliseconds

// testPersonEvents: the events of a person are found by their places, backwards, in pages
// of any size, over stretches of nothing and whatever time events say.
func testPersonEvents(t *testing.T, f *fixture) {
	f.start(t)
	s, ok := f.store.(store.PersonStore)
	if !ok {
		t.Fatal("the store finds no events of people")
	}
	base := int64(1_760_000_000_000)
	var all []store.StoredEvent
	add := func(id string, kind sluice.EventKind, name string, accepted, happened int64) {
		e := event(len(all))
		e.ID, e.Kind, e.User, e.Name, e.TimeMillis = id, kind, name, "n", happened
		e.Place = sluice.Place{Partition: 2, Position: sluice.Position{Major: uint64(accepted), Minor: 3}, Index: len(all)}
		all = append(all, e)
	}
	add("oldest", sluice.KindCustom, "u1", base-400*personDay, base-400*personDay)
	add("former", sluice.KindPurchase, "was1", base-399*personDay, base-399*personDay)
	for i := range 2 * store.PersonPiece { // others, in one day
		add(fmt.Sprint("other", i), sluice.KindCustom, "u2", base-100*personDay+int64(i), base-100*personDay+int64(i))
	}
	add("same 1", sluice.KindCustom, "u1", base-100*personDay+5000, base-100*personDay)
	add("same 2", sluice.KindCustom, "u1", base-100*personDay+5000, base-100*personDay)
	add("a mail", sluice.KindMail, "u1", base, base)
	add("late", sluice.KindCustom, "u1", base+1, base-300*personDay)
	add("capital", sluice.KindCustom, "U1", base+2, base+2)
	add("newest", sluice.KindPurchase, "u1", base+3, base+3)
	f.apply(t, store.Effect{Events: all}, len(all), 0)
	want := []string{"newest", "late", "same 2", "same 1", "former", "oldest"}
	for _, limit := range []int{1, 2, 5, 100} {
		at, done := sluice.Place{Position: sluice.Position{Major: uint64(base + personDay)}}, false
		var got []string
		for looks := 0; !done; looks++ {
			if looks > 20 {
				t.Fatalf("limit %d: no end, at %+v", limit, at)
			}
			p, err := s.PersonEvents(f.ctx, store.PersonAsked{Partition: 2, Names: []string{"u1", "was1"}, Before: at, Limit: limit})
			must(t, err)
			if len(p.Events) > limit {
				t.Errorf("limit %d: %d events", limit, len(p.Events))
			}
			for _, e := range p.Events {
				got = append(got, e.ID)
			}
			at, done = p.End, p.Done
		}
		if !slices.Equal(got, want) {
			t.Errorf("limit %d: got %v, want %v", limit, got, want)
		}
	}
	p, err := s.PersonEvents(f.ctx, store.PersonAsked{Partition: 2, Names: []string{"u1"}, Before: all[len(all)-1].Place, Limit: 1})
	if err != nil || len(p.Events) != 1 || p.Events[0].TimeMillis != base-300*personDay || p.Events[0].Place != all[len(all)-3].Place {
		t.Errorf("one event: %+v, %v", p, err)
	}
	if p, err = s.PersonEvents(f.ctx, store.PersonAsked{Partition: 3, Names: []string{"u1"}, Before: all[0].Place, Limit: 1}); err != nil || !p.Done || len(p.Events) != 0 {
		t.Errorf("a partition without events: %+v, %v", p, err)
	}
}

// testKeysFrom: keys are found by how they begin, in their order, byte by byte.
func testKeysFrom(t *testing.T, f *fixture) {
	f.start(t)
	s, ok := f.store.(user.Finder)
	if !ok {
		t.Fatal("the store finds no keys by their beginning")
	}
	names := []string{"a", "ab", "ab_", "ab%", "abä", "ab\U0010FFFF", "ac", "Ab", "b", "\U0010FFFFx", "\uD7FFy"}
	change := &user.Changes{}
	for i, name := range names {
		id := user.ID{Partition: i % 3, Number: int64(i + 1)}
		change.Put = append(change.Put, user.Row{ID: id, Profile: "{}"})
		change.AddKeys = append(change.AddKeys, user.KeyRow{Key: external(name), ID: id})
		change.AddAddress = append(change.AddAddress, user.KeyRow{Key: email(name), ID: id}, user.KeyRow{Key: email("ab"), ID: id})
	}
	f.change(t, change)
	for _, tt := range []struct {
		kind   user.KeyKind
		prefix string
		limit  int
		want   string
	}{
		{user.KeyExternal, "ab", 100, "ab ab% ab_ abä ab\U0010FFFF"},
		{user.KeyExternal, "ab", 2, "ab ab%"},
		{user.KeyExternal, "ab%", 9, "ab%"},
		{user.KeyExternal, "Ab", 9, "Ab"},
		{user.KeyExternal, "x", 9, ""},
		{user.KeyExternal, "\uD7FF", 9, "\uD7FFy"},
		{user.KeyExternal, "\U0010FFFF", 9, ""}, // nothing is behind it
		{user.KeyAlias, "ab", 9, ""},
		{user.KeyEmail, "ab", 3, "ab ab ab"},
		{user.KeyEmail, "ac", 9, "ac"},
		{user.KeyPhone, "a", 9, ""},
	} {
		rows, err := s.KeysFrom(f.ctx, tt.kind, tt.prefix, tt.limit)
		must(t, err)
		var got []string
		for _, r := range rows {
			got = append(got, r.Key.Name)
			if r.Key.Kind != tt.kind || r.ID.IsZero() {
				t.Errorf("%d %q: %+v", tt.kind, tt.prefix, r)
			}
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("%d %q, %d: got %q, want %q", tt.kind, tt.prefix, tt.limit, got, tt.want)
		}
	}
	if _, err := s.KeysFrom(f.ctx, user.KeyUser, "a", 1); err == nil {
		t.Error("keys of numbers were looked for")
	}
}
