package ingest_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"sluice"
	"sluice/ingest"
	"sluice/user"
)

// An update that no database may take in one statement is in no log: what brings it is
// told, and nothing is written of what comes with it.
func TestLargeUpdatesAreRefused(t *testing.T) {
	in := &ingest.Intake{Partitions: 1, Clock: sluice.SystemClock{}, Stats: &ingest.Stats{}} // it has nowhere to write to
	updates := []user.Update{attributes(external(1), "{}"), attributes(external(2), `{"a":"`+strings.Repeat("x", 4*sluice.MaxElementBytes)+`"}`)}
	for name, write := range map[string]func() error{
		"Update":     func() error { return in.Update(t.Context(), updates) },
		"UpdateOnce": func() error { return in.UpdateOnce(t.Context(), &ingest.Request{IdempotencyKey: "k"}, updates) },
		"Record": func() error {
			_, err := in.Record(t.Context(), external(1), nil, updates, "name", time.Hour)
			return err
		},
	} {
		if e, ok := errors.AsType[*sluice.Error](write()); !ok || e.Code != sluice.CodeTooLarge {
			t.Errorf("%s: %v", name, e)
		}
	}
}
