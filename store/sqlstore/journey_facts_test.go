package sqlstore_test

import (
	"path/filepath"
	"strings"
	"testing"

	"sluice"
	"sluice/journey"
	"sluice/store"
	"sluice/store/sqlstore"
	"sluice/user"
)

// Rows of facts that are read at once are bounded by their bytes, too: by those who read them,
// and by an erasure.
func TestRowsOfLargeFacts(t *testing.T) {
	s := migrated(t, "sqlite:"+filepath.Join(t.TempDir(), "facts.db"), sqlstore.Options{})
	e := effectTo(1, nil)
	for i := range 20 {
		e.JourneyFacts = append(e.JourneyFacts, journey.Fact{Place: sluice.Place{Position: sluice.Position{Major: uint64(i + 1)}}, Number: 1,
			Kind: journey.FactEvent, Name: "e", TimeMillis: 1, Body: strings.Repeat("x", sluice.MaxElementBytes)})
	}
	must(t, apply(t.Context(), s, e))
	n, err := sqlstore.FactRows(t.Context(), s)
	must(t, err)
	if want := store.FactsBytes / sluice.MaxElementBytes; n != want {
		t.Errorf("%d rows of 1 MiB are read at once, want %d", n, want)
	}
}

// An item with more facts than are read at once is an error: no facts would mean that there
// are none, and those behind it would never be told.
func TestAnItemOfTooManyFacts(t *testing.T) {
	s := migrated(t, "sqlite:"+filepath.Join(t.TempDir(), "facts.db"), sqlstore.Options{})
	e := effectTo(1, nil)
	const many = store.MinFacts + 1
	for i := range many {
		e.JourneyFacts = append(e.JourneyFacts, journey.Fact{Place: sluice.Place{Position: sluice.Position{Major: 1}}, Number: int64(i + 1), Kind: journey.FactEvent, Name: "e", TimeMillis: 1})
	}
	must(t, apply(t.Context(), s, e))
	if facts, err := s.Facts(t.Context(), 0, sluice.Place{Index: -1}, store.MinFacts); err == nil {
		t.Errorf("%d facts of an item that has %d are no error", len(facts), many)
	}
	facts, err := s.Facts(t.Context(), 0, sluice.Place{Index: -1}, many)
	must(t, err)
	if len(facts) != many {
		t.Errorf("%d facts, want %d", len(facts), many)
	}
}

// An erasure writes no pack over what another one, or the store, has made of it meanwhile.
func TestErasureOfAPackThatHasChanged(t *testing.T) {
	for name, between := range map[string]func(s *sqlstore.Store) (left int, err error){
		"erased": func(s *sqlstore.Store) (int, error) {
			_, err := s.EraseFacts(t.Context(), []store.Erasure{{Name: user.ID{Number: 1}.String()}})
			return 10, err
		},
		"read": func(s *sqlstore.Store) (int, error) {
			e := effectTo(2, nil)
			e.FactsUpTo = map[int]sluice.Place{0: {Position: sluice.Position{Major: 20}}}
			return 0, apply(t.Context(), s, e)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := migrated(t, "sqlite:"+filepath.Join(t.TempDir(), "facts.db"), sqlstore.Options{})
			e := effectTo(1, nil)
			for i := range 20 {
				e.JourneyFacts = append(e.JourneyFacts, journey.Fact{Place: sluice.Place{Position: sluice.Position{Major: uint64(i + 1)}}, Number: int64(1 + i%2), Kind: journey.FactEvent, Name: "e", TimeMillis: 1})
			}
			must(t, apply(t.Context(), s, e))
			want := 0
			again, err := sqlstore.EraseLate(t.Context(), s, 2, func() (err error) {
				want, err = between(s)
				return err
			})
			must(t, err)
			left, err := s.Facts(t.Context(), 0, sluice.Place{Index: -1}, store.MinFacts)
			must(t, err)
			if !again || len(left) != want || want > 0 && left[0].Number != 2 {
				t.Errorf("to be read again: %v; %d facts are left, want %d: %+v", again, len(left), want, left)
			}
		})
	}
}
