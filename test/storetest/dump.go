package storetest

import (
	"bytes"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"sluice"
	"sluice/journey"
	"sluice/mail"
	"sluice/store"
	"sluice/user"
)

// Dump reads all standard tables of a store as they are now.
func Dump(t *testing.T, store store.DumpStore) map[string][]store.Cell {
	t.Helper()
	snapshot, err := store.Snapshot(t.Context())
	must(t, err)
	defer func() { must(t, snapshot.Close()) }()
	return rest(t, snapshot)
}

func rest(t *testing.T, snapshot store.Snapshot) map[string][]store.Cell {
	t.Helper()
	all := make(map[string][]store.Cell)
	for _, table := range snapshot.Tables() {
		must(t, snapshot.Rows(t.Context(), table.Name, func(cells []store.Cell) error {
			for _, c := range cells {
				c.Text = strings.Clone(c.Text)
				all[table.Name] = append(all[table.Name], c)
			}
			return nil
		}))
	}
	return all
}

// PutBack writes what Dump returned into the tables of a restore, but for those
// that Finish writes.
func PutBack(t *testing.T, r store.Restore, dump map[string][]store.Cell) {
	t.Helper()
	for _, table := range r.Tables() {
		if table.Name == "cursors" || table.Name == "leases" {
			continue
		}
		var columns []string
		for _, c := range table.Columns {
			columns = append(columns, c.Name)
		}
		must(t, r.Write(t.Context(), table.Name, columns, slices.Clone(dump[table.Name])))
	}
}

// Raised reports whether a restore sets, raises or empties what is in a table.
func Raised(table string) bool {
	return slices.Contains([]string{"cursors", "leases", "user_numbers", "journey_publish", "account_sessions", "account_setups"}, table)
}

// Fill writes rows into every standard table of a store. They have one of each
// kind of hard cell, as far as every database takes it.
func Fill(t *testing.T, db store.Store) {
	t.Helper()
	f := &fixture{Env: Env{NoNUL: true}, ctx: t.Context(), store: db}
	f.start(t)
	f.mirrored(t, db.(store.MirrorStore), 3)
	texts, _ := f.texts()
	var e store.Effect
	for i, s := range texts {
		ev := event(0)
		ev.ID, ev.Name, ev.Email, ev.User, ev.Message, ev.Properties = s, s, s, s, s, s
		ev.Place.Index = i
		e.Events = append(e.Events, ev)
	}
	first, last := event(2), event(3)
	first.TimeMillis, last.TimeMillis = sluice.MinEventTimeMillis, sluice.MaxEventTimeMillis
	last.Place = sluice.Place{Partition: 255, Position: sluice.Position{Major: 1<<64 - 1, Minor: 1<<32 - 1}, Index: 4095}
	e.Events = append(e.Events, first, last)
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	person := user.ID{Partition: 255, Number: user.MaxNumber}
	e.Users = &user.Changes{
		Put:        []user.Row{{ID: person, Profile: `{"custom":{"a":"ä🌍\\n\t'"}}`, MergedInto: person}},
		AddKeys:    []user.KeyRow{{Key: user.AliasKey("ä", `b"\`), ID: person}, {Key: external("u-ä"), ID: person}},
		AddAddress: []user.KeyRow{{Key: email("a@example.com"), ID: person}},
		Numbers:    map[int]user.Numbers{255: {User: 1 << 62, Forward: 3}},
		Forward:    []user.Forward{{From: 255, To: 1, ID: 3, Items: every}},
		Erase:      []string{"ä"},
	}
	e.Dead = []sluice.DeadLetter{
		{Source: "list:q", Form: sluice.FormElement, Reason: "because\n", Payload: every, TimeMillis: 1_760_000_000_123},
		{Source: "log", Form: sluice.FormItem, Payload: bytes.Repeat([]byte{'\\', 'N', 0xff, 0}, 3<<18), TimeMillis: 1},
	}
	for i, s := range texts {
		e.Counts = append(e.Counts, counted(time.Duration(i)*time.Hour, "app", s, int64(-i)))
	}
	e.Counts = append(e.Counts, counted(0, "app", "most", math.MaxInt64))
	e.Sends = []mail.StoredSend{aSend(1, 0, 2), aSend(1, 1, 2)}
	e.Sends[1].From, e.Sends[1].Metadata, e.Sends[1].DueMillis = "", "", 0
	e.Outcomes = []mail.StoredOutcome{anOutcome(&e.Sends[0], mail.SendWaiting, mail.SendFailed, 1)}
	e.Outcomes[0].Bounced, e.Outcomes[0].Tags = mail.ReactionBouncedHard, `ä🌍'\N"`
	must(t, db.(mail.SendStore).AddBodies(f.ctx, []mail.Body{{Message: e.Sends[0].Message, Recipients: 2, CreatedMillis: 1_760_000_000_123, Data: every}}))
	e.Suppress = []mail.Suppression{aSuppression("ä@example.com", mail.SuppressComplaint, 1), aSuppression(".example.org", mail.SuppressManual, 2)}
	e.Suppress[1].EndMillis, e.Suppress[1].App, e.Suppress[1].Removed, e.Suppress[1].Source = 1_760_000_000_123, "ä", true, "set:\\"
	e.SoftBounces = []mail.SoftBounce{{Entry: "ä@example.com", TimeMillis: 1_760_000_000_123}}
	e.JourneyFacts = append(factsOfOneRow(254, 20), aFact(255, 1<<64-1, 4095, 1<<63-1, journey.FactEvent))
	e.Contexts = []journey.Kept{{Partition: 255, Journey: 1<<63 - 1, Number: 1<<63 - 1, Entered: 1<<32 - 1, Occurrence: 1<<16 - 1, Body: `{"ä":"\n"}`}, {Journey: 1, Number: 1, Body: `{}`}, {Journey: 1, Number: 1, EndedMillis: 1_760_000_000_123}}
	f.apply(t, e, len(e.Events)+2, 0)
	f.fillJourneys(t)
	f.fillAccounts(t)
	keys := db.(store.KeyStore)
	must(t, keys.AddKey(f.ctx, store.APIKey{ID: "k1", Name: "für Ann", Permissions: []string{"events:write"}, Hash: every[128:160], CreatedMillis: 1_700_000_000_123}))
	must(t, keys.AddKey(f.ctx, store.APIKey{ID: "k2", Hash: every[:32], CreatedMillis: 1}))
	must(t, keys.RevokeKey(f.ctx, "k2"))
	must(t, db.(user.SegmentStore).AddSegment(f.ctx, aSegment(1_700_000_000, "für Ann")))
	message, version := aTemplate("welcome")
	must(t, db.(mail.TemplateStore).AddTemplate(f.ctx, message, version))
	must(t, db.(mail.ScheduleStore).AddSchedule(f.ctx, aSchedule("a", 4_000_000_000_123)))
	_, err := db.(store.SecretStore).Secret(f.ctx, "token", every[100:228])
	must(t, err)
	_, err = db.TakeLease(f.ctx, follower, []int{0, 3})
	must(t, err)
	_, err = db.Cursors(f.ctx, "list:mine", []int{0})
	must(t, err)
	p := f.prepare(t, &store.Effect{Moves: []store.Move{{Follower: "list:mine", To: sluice.Position{Major: 7, Minor: 100}}}})
	_, err = db.Apply(f.ctx, p)
	must(t, err)
}

// testDump: a snapshot sees what was there when it began, and a restore makes
// the tables what they were. An interrupted restore marks the database until
// the next one is done.
func testDump(t *testing.T, f *fixture) {
	db := f.store.(store.DumpStore)
	Fill(t, f.store)
	numbered, err := f.store.(mail.SuppressionStore).LastSuppression(f.ctx)
	must(t, err)
	snapshot, err := db.Snapshot(f.ctx)
	must(t, err)
	f.start(t)
	f.apply(t, store.Effect{Events: []store.StoredEvent{event(77)}, Dead: []sluice.DeadLetter{{Source: "late"}}}, 1, 0)
	dump := rest(t, snapshot)
	var seen []string
	must(t, snapshot.Events(f.ctx, store.EventFilter{FromMillis: 1, ToMillis: sluice.MaxEventTimeMillis, Kind: "mail", Name: "a"}, func(e *store.StoredEvent) error {
		seen = append(seen, e.ID)
		return nil
	}))
	want(t, "filtered events", strings.Join(seen, " "), "a")
	must(t, snapshot.Close())
	for _, table := range snapshot.Tables() {
		if len(dump[table.Name]) == 0 {
			t.Fatalf("table %s is empty: fill it here, or this test shows little", table.Name)
		}
	}
	for i, c := range dump["dead_letters"] {
		if c.Text == "late" {
			t.Fatalf("cell %d: the snapshot sees what came after it", i)
		}
	}

	if _, err := db.BeginRestore(f.ctx, false); err == nil || !strings.Contains(err.Error(), "--replace") {
		t.Fatalf("a database with rows was emptied unasked: %v", err)
	}
	broken, err := db.BeginRestore(f.ctx, true)
	must(t, err)
	made, err := f.store.(store.RetentionStore).MakeEventDays(f.ctx, midnight(0).UnixMilli())
	must(t, err)
	want(t, "days that the restore has left to make", made, 0)
	PutBack(t, broken, map[string][]store.Cell{"events": dump["events"]})
	half, err := db.Restoring(f.ctx)
	must(t, err)
	want(t, "restoring", half, true)

	r, err := db.BeginRestore(f.ctx, false)
	must(t, err)
	kept, err := db.OwnTableCursors(f.ctx)
	must(t, err)
	if len(kept) != 1 || kept[0].Follower != "list:mine" || kept[0].Position != (sluice.Position{Major: 7, Minor: 100}) {
		t.Fatalf("kept cursors: %+v", kept)
	}
	PutBack(t, r, dump)
	cursors := []store.DumpCursor{
		{Follower: follower, Partition: 3, Position: sluice.Position{Major: 1<<64 - 1, Minor: 5}},
		{Follower: "mirror", Position: sluice.Position{Major: 3, Minor: 1}}, // not restored: what was mirrored since is not known
	}
	must(t, r.Finish(f.ctx, append(cursors, kept...), []store.DumpLease{{Role: follower, Partition: 3, Number: 1 << 40}}))
	half, err = db.Restoring(f.ctx)
	must(t, err)
	want(t, "restoring", half, false)

	after := Dump(t, db)
	checkTables(t, dump, after)
	f.checkRestored(t)
	f.checkUserNumbers(t, dump["user_numbers"])
	last, err := f.store.(mail.SuppressionStore).LastSuppression(f.ctx)
	must(t, err)
	want(t, "number of the last suppression", last, numbered)
}

// checkTables: the tables are as they were dumped, but for those that a restore changes.
func checkTables(t *testing.T, dump, after map[string][]store.Cell) {
	t.Helper()
	for _, name := range []string{"account_sessions", "account_setups"} { // nobody is signed in by a copy
		want(t, "cells of "+name, len(after[name]), 0)
		delete(dump, name)
	}
	const lateColumns = 3 // a dump of before late_events says nothing of a partition: any of its events may be late
	want(t, "cells of late_events", len(after["late_events"]), len(dump["late_events"])+lateColumns)
	delete(dump, "late_events")
	for name := range dump {
		if !Raised(name) && !reflect.DeepEqual(after[name], dump[name]) {
			t.Errorf("table %s came back as\n%.2000v\nit was\n%.2000v", name, after[name], dump[name])
		}
	}
}

// checkUserNumbers: no user gets a number that another had after the dump, also
// where the dump knows of none.
func (f *fixture) checkUserNumbers(t *testing.T, dumped []store.Cell) {
	t.Helper()
	const columns = 3 // part, last_user, last_forward
	got, err := f.users(t).Users(f.ctx, user.Query{Numbers: []int{0, 3, 255}})
	must(t, err)
	for p, numbers := range got.Numbers {
		least := int64(1_000_000)
		for i := 0; i < len(dumped); i += columns {
			if dumped[i].Text == fmt.Sprint(p) {
				last, err := strconv.ParseInt(dumped[i+1].Text, 10, 64)
				must(t, err)
				least += last
			}
		}
		want(t, fmt.Sprint("last number of partition ", p), numbers.User, least)
	}
}

// checkRestored looks at what Finish set, and that numbers go on from there.
func (f *fixture) checkRestored(t *testing.T) {
	t.Helper()
	f.wantRows(t, "SELECT follower, part FROM cursors ORDER BY follower", []string{"list:mine", "0"}, []string{follower, "3"}, []string{"suppressions", "0"})
	numbers, err := f.store.TakeLease(f.ctx, follower, []int{3})
	must(t, err)
	if numbers[3] <= 1<<40 {
		t.Fatalf("lease number %d is below that of the dump", numbers[3])
	}
	numbers, err = f.store.TakeLease(f.ctx, follower, []int{0})
	must(t, err)
	if numbers[0] <= 1<<40 {
		t.Fatalf("lease number %d of a partition that the dump does not have was not raised", numbers[0])
	}
	before := f.lastLetter(t)
	f.start(t)
	f.apply(t, store.Effect{Dead: []sluice.DeadLetter{{Source: "new"}}}, 0, 0)
	if f.lastLetter(t) <= before {
		t.Fatal("a new dead letter got the number of an old one")
	}
}

// fillJourneys fills the tables of journeys.
func (f *fixture) fillJourneys(t *testing.T) {
	t.Helper()
	held, err := f.journeys(t).AddJourney(f.ctx, aJourney("held"))
	must(t, err)
	held.Status, held.Hold = journey.StatusPaused, "because ä"
	_, err = f.journeys(t).PutStatus(f.ctx, held)
	must(t, err)
	f.publish(t, "a", journey.Names{Events: []string{"ä"}})
	skipped, err := f.journeys(t).Journey(f.ctx, "a")
	must(t, err)
	skipped.SkipUntilMillis = 1_760_000_000_123
	_, err = f.journeys(t).PutStatus(f.ctx, skipped)
	must(t, err)
	c, err := f.checkpoints(t).ClaimCheckpoint(f.ctx, 1)
	must(t, err)
	c, err = f.checkpoints(t).PutUnits(f.ctx, c, []store.Unit{aUnit(1, 33, 0, math.MaxUint64)})
	must(t, err)
	c.At, c.Notes = sluice.Position{Major: math.MaxUint64, Minor: math.MaxUint64}, `{"@facts":"1-2/3 ä"}`
	_, err = f.checkpoints(t).FinishCheckpoint(f.ctx, c)
	must(t, err)
	f.fillWebhooks(t)
	f.fillGroups(t)
	f.fillImports(t)
}
