package sqlstore_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"sluice"
	"sluice/journey"
	"sluice/store"
	"sluice/store/sqlstore"
)

// Where no more journeys are possible the refusal says what still is: an archived one is never
// used again.
func TestJourneysAtTheirBound(t *testing.T) {
	s := migrated(t, "sqlite:"+filepath.Join(t.TempDir(), "journeys.db"), sqlstore.Options{})
	add := func(n int) error {
		_, err := s.AddJourney(t.Context(), store.Journey{ID: fmt.Sprint("j", n), Name: "j", Status: journey.StatusArchived, Draft: "{}", CreatedMillis: 1, UpdatedMillis: 1})
		return err
	}
	for n := range store.MaxJourneys {
		must(t, add(n))
	}
	err := add(store.MaxJourneys)
	e, ok := errors.AsType[*sluice.Error](err)
	if !ok || e.Code != sluice.CodeInvalid {
		t.Fatalf("%v", err)
	}
	for _, want := range []string{"there are 1000 journeys, archived ones included", "the draft of one that is a draft, live or paused"} {
		if !strings.Contains(e.Message, want) {
			t.Errorf("%s: want %q in it", e.Message, want)
		}
	}
}
