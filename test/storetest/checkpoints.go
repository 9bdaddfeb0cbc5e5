package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math"
	"testing"

	"sluice"
	"sluice/journey"
	"sluice/store"
)

func (f *fixture) checkpoints(t *testing.T) store.CheckpointStore {
	t.Helper()
	return f.store.(store.CheckpointStore)
}

// aUnit is a row of a unit, of which the records are those of a number.
func aUnit(journey, unit int64, slot int, number uint64) store.Unit {
	data := make([]byte, 8176)
	for i := range data {
		data[i] = byte(uint64(i)*7 + uint64(unit) + number)
	}
	return store.Unit{UnitRow: store.UnitRow{UnitKey: store.UnitKey{Journey: journey, Unit: unit}, Slot: slot, Number: number, Hash: math.MinInt64 + int64(number)}, Data: data}
}

// wantUnits compares the valid units of a checkpoint: each is named by its number.
func (f *fixture) wantUnits(t *testing.T, c store.Checkpoint, numbers map[store.UnitKey]uint64) {
	t.Helper()
	found := make(map[store.UnitKey]uint64)
	must(t, f.checkpoints(t).EachUnit(f.ctx, c, func(u *store.Unit) error {
		if want := aUnit(u.Journey, u.Unit, u.Slot, u.Number); !bytes.Equal(u.Data, want.Data) {
			t.Errorf("the records of %+v came back as others", u.UnitRow)
		}
		found[u.UnitKey] = u.Number
		return nil
	}))
	if !maps.Equal(found, numbers) {
		t.Fatalf("units: got %v, want %v", found, numbers)
	}
}

// testCheckpoints: what is written counts from the moment when its checkpoint is
// finished, all at once, however many transactions it took.
func testCheckpoints(t *testing.T, f *fixture) {
	db := f.checkpoints(t)
	c, err := db.ClaimCheckpoint(f.ctx, 3)
	must(t, err)
	if c.Partition != 3 || !c.At.IsZero() || c.Notes != "" {
		t.Fatalf("a checkpoint that was never written is %+v", c)
	}
	few, block := store.UnitKey{Journey: 7, Unit: 0}, store.UnitKey{Journey: 7, Unit: 34}
	for _, u := range []store.Unit{aUnit(7, 34, 0, 5), aUnit(7, 0, 0, 5)} {
		c, err = db.PutUnits(f.ctx, c, []store.Unit{u})
		must(t, err)
	}
	f.wantUnits(t, c, map[store.UnitKey]uint64{})
	c.At, c.Notes, c.SavedMillis = sluice.Position{Major: 5, Minor: math.MaxUint64}, `{"@facts":"1-2/3","7":"2 ä🌍"}`, 1_760_000_000_123
	c, err = db.FinishCheckpoint(f.ctx, c)
	must(t, err)
	f.wantUnits(t, c, map[store.UnitKey]uint64{few: 5, block: 5})

	var many []store.Unit
	next := map[store.UnitKey]uint64{few: 9}
	for unit := int64(100); unit < 180; unit++ {
		many = append(many, aUnit(8, unit, 0, 9))
		next[store.UnitKey{Journey: 8, Unit: unit}] = 9
	}
	gone := aUnit(7, 34, 1, 9)
	gone.Data = nil
	c, err = db.PutUnits(f.ctx, c, append(many, aUnit(7, 0, 1, 9), gone))
	must(t, err)
	f.wantUnits(t, c, map[store.UnitKey]uint64{few: 5, block: 5})
	rows, err := db.UnitRows(f.ctx, 3)
	must(t, err)
	if len(rows) != len(many)+4 || rows[0] != aUnit(7, 0, 0, 5).UnitRow || rows[3] != gone.UnitRow {
		t.Errorf("%d rows, the first %+v", len(rows), rows[:4])
	}
	before := c
	c.At = sluice.Position{Major: 9, Minor: 1}
	c, err = db.FinishCheckpoint(f.ctx, c)
	must(t, err)
	f.wantUnits(t, c, next)
	c, err = db.PutUnits(f.ctx, c, []store.Unit{aUnit(7, 0, 0, 12)}) // over the row that does not count any more
	must(t, err)
	f.wantUnits(t, c, next)
	all, err := db.Checkpoints(f.ctx)
	must(t, err)
	if one := (store.Checkpoint{Partition: 3, At: c.At, Notes: before.Notes, SavedMillis: before.SavedMillis, Stamp: c.Stamp}); len(all) != 1 || all[0] != one {
		t.Errorf("checkpoints: got %+v, want %+v", all, one)
	}
}

// testCheckpointClaims: who was replaced writes nothing, in no step.
func testCheckpointClaims(t *testing.T, f *fixture) {
	db := f.checkpoints(t)
	first, err := db.ClaimCheckpoint(f.ctx, 0)
	must(t, err)
	first, err = db.PutUnits(f.ctx, first, []store.Unit{aUnit(1, 1, 0, 4)})
	must(t, err)
	first.At.Major = 4
	first, err = db.FinishCheckpoint(f.ctx, first)
	must(t, err)
	second, err := db.ClaimCheckpoint(f.ctx, 0)
	must(t, err)
	want(t, "number", second.At, sluice.Position{Major: 4})
	if _, err = db.PutUnits(f.ctx, first, []store.Unit{aUnit(1, 1, 0, 4), aUnit(1, 2, 0, 4)}); !errors.Is(err, sluice.ErrConflict) {
		t.Errorf("who was replaced writes units: %v", err)
	}
	first.At.Major = 99
	if _, err = db.FinishCheckpoint(f.ctx, first); !errors.Is(err, sluice.ErrConflict) {
		t.Errorf("who was replaced finishes: %v", err)
	}
	f.wantUnits(t, second, map[store.UnitKey]uint64{{Journey: 1, Unit: 1}: 4})
	want(t, "rows", f.count(t, "journey_blocks"), 1)
	stale := second
	second, err = db.PutUnits(f.ctx, second, []store.Unit{aUnit(1, 1, 1, 6)})
	must(t, err)
	if _, err = db.FinishCheckpoint(f.ctx, stale); !errors.Is(err, sluice.ErrConflict) { // as if what came between had gone with the database
		t.Errorf("finished over a transaction that was not known: %v", err)
	}
	if _, err = db.FinishCheckpoint(f.ctx, second); err != nil {
		t.Error(err)
	}
	other, err := db.ClaimCheckpoint(f.ctx, 1)
	must(t, err)
	want(t, "another partition's", fmt.Sprint(other.At, other.Notes), fmt.Sprint(sluice.Position{}, ""))
}

// testHolds: journeys that are live, and webhooks that are on, stand behind a restore, and
// say why, until somebody decides. Others stay as they are.
func testHolds(t *testing.T, f *fixture) {
	db := f.journeys(t)
	for id, status := range map[string]string{"live": journey.StatusLive, "paused": journey.StatusPaused, "draft": journey.StatusDraft} {
		j := aJourney(id)
		j.Status = status
		_, err := db.AddJourney(f.ctx, j)
		must(t, err)
	}
	c, err := f.checkpoints(t).ClaimCheckpoint(f.ctx, 3)
	must(t, err)
	c, err = f.checkpoints(t).PutUnits(f.ctx, c, []store.Unit{aUnit(1, 1, 0, 5)})
	must(t, err)
	c.At.Major = 5
	_, err = f.checkpoints(t).FinishCheckpoint(f.ctx, c)
	must(t, err)
	hooks := f.store.(fed)
	for id, status := range map[string]string{"on": store.WebhookOn, "off": store.WebhookOff} {
		must(t, hooks.AddWebhook(f.ctx, store.Webhook{ID: id, URL: "https://example.com", Types: []string{"mail"}, Format: "standard", Batch: 1, Status: status,
			Secret: 1, CreatedMillis: 1_760_000_000_001, UpdatedMillis: 1_760_000_000_002}, follower))
	}
	dump := Dump(t, f.store.(store.DumpStore))
	r, err := f.store.(store.DumpStore).BeginRestore(f.ctx, true)
	must(t, err)
	PutBack(t, r, dump)
	must(t, r.Finish(f.ctx, nil, nil))
	for id, status := range map[string]string{"on": store.WebhookRestored, "off": store.WebhookOff} {
		w, err := hooks.Webhook(f.ctx, id)
		if err != nil || w.Status != status || (w.Reason != "") != (id == "on") {
			t.Errorf("webhook %s is %s because %q, %v; want %s", id, w.Status, w.Reason, err, status)
		}
	}
	all, err := f.checkpoints(t).Checkpoints(f.ctx)
	must(t, err)
	want(t, "checkpoints of the backup", len(all), 1)
	f.wantUnits(t, all[0], map[store.UnitKey]uint64{{Journey: 1, Unit: 1}: 5})
	wantStatus := func(id, status string, held bool) (j store.Journey) {
		t.Helper()
		j, err := db.Journey(f.ctx, id)
		must(t, err)
		if j.Status != status || (j.Hold != "") != held {
			t.Fatalf("journey %s is %s and stands because %q; want %s, %v", id, j.Status, j.Hold, status, held)
		}
		return j
	}
	wantStatus("paused", journey.StatusPaused, false)
	wantStatus("draft", journey.StatusDraft, false)
	j := wantStatus("live", journey.StatusPaused, true)
	n, err := db.Held(f.ctx)
	must(t, err)
	want(t, "journeys that stand", n, 1)
	list, err := db.Journeys(f.ctx, "", 10)
	must(t, err)
	want(t, "why, in the list", list[1].Hold, j.Hold)
	must(t, db.PutJourney(f.ctx, j)) // its draft is changed meanwhile
	j = wantStatus("live", journey.StatusPaused, true)
	j.Status = journey.StatusLive
	_, err = db.PutStatus(f.ctx, j)
	must(t, err)
	wantStatus("live", journey.StatusLive, false)
}
