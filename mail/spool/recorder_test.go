package spool

import (
	"slices"
	"testing"

	"sluice/flow"
)

// Sends are marked and attempted in the order of their lane, which is not that of
// the texts of its entries' ids.
func TestPlacesAreOrderedAsInTheirLane(t *testing.T) {
	want := []string{"999-0", "1000-0", "1000-9", "1000-10", "1000-11", "1001-0", "1001-2"}
	var places []*flow.LanePlace
	for _, entry := range []string{"1001-2", "1000-11", "1000-9", "999-0", "1001-0", "1000-10", "1000-0"} {
		places = append(places, &flow.LanePlace{Batch: &flow.LaneBatch{Lane: "high", Entry: entry}})
	}
	slices.SortFunc(places, comparePlaces)
	for i, s := range places {
		if s.Batch.Entry != want[i] {
			t.Errorf("place %d: %s, want %s", i, s.Batch.Entry, want[i])
		}
	}
}
