package sqlstore_test

import (
	"path/filepath"
	"strings"
	"testing"

	"sluice"
	"sluice/journey"
	"sluice/store"
	"sluice/store/sqlstore"
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
