package imports

import (
	"testing"
	"time"

	"sluice"
	"sluice/flow"
	"sluice/store"
	"sluice/test/clocktest"
)

// What an operator imports is trusted with consent, also if it was exported.
func TestImportsAreTrusted(t *testing.T) {
	into := Into{Logs: make([]*flow.Log, 1), Clock: clocktest.At(time.UnixMilli(1_780_000_000_000))}
	for _, exported := range []bool{false, true} {
		im := into.Import(&store.ImportOptions{Kind: store.ImportEvents, Exported: exported})
		e, _, err := im.Try(store.Line{Number: 1, Text: `{"event_id":"a","kind":"mail","name":"subscribed","time":"2026-03-01T00:00:00.000Z","email":"ann@example.com"}`})
		if err != nil || e.Name != sluice.EventSubscribed || e.Origin != sluice.OriginTrusted {
			t.Errorf("exported %v: %+v, %v", exported, e, err)
		}
	}
}
