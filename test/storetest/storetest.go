// Package storetest is the conformance suite of store.Store. Every store runs
// it, on its real server, from its own tests:
//
//	storetest.Run(t, func(t *testing.T) storetest.Env { ... })
//
// A store that passes keeps the contract; nothing else in the program may lean
// on what is not tested here.
package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"sluice"
	"sluice/store"
	"sluice/test/proxy"
)

// Env is a database of a test's own.
type Env struct {
	// Open opens a store on the database, without migrating it, and closes it
	// when the test ends.
	Open func(t *testing.T) store.Store

	// OpenThrough opens a store whose connections pass a proxy; nil for a
	// database that is not behind a network.
	OpenThrough func(t *testing.T) (store.Store, *proxy.Proxy)

	// Commit is in what the store sends to commit, and in nothing else.
	Commit []byte

	// Exec runs a statement on the database, past the store.
	Exec func(t *testing.T, statement string)

	// Query returns rows as texts, NULL as "NULL".
	Query func(t *testing.T, statement string) [][]string

	// StrictTypes: the database refuses a text in a column of numbers.
	StrictTypes bool

	// NoNUL: a text with U+0000 is refused, and replaced in a dead letter's
	// reason and source.
	NoNUL bool

	// Divided: the table events has partitions.
	Divided bool

	// Waiting is a query for how many statements wait for a lock; empty for a database
	// of one writer.
	Waiting string

	// ReadableEvents is the table or view that has the events' times as texts.
	ReadableEvents string
}

// suite is what a store has to do.
var suite = []struct {
	name string
	test func(*testing.T, *fixture)
}{
	{"LeaseNumbersRise", testLeases},
	{"Cursors", testCursors},
	{"Conflict", testConflict},
	{"ConflictOfOneAmongMany", testConflictOfOne},
	{"EffectsNoCallerShouldMake", testNonsense},
	{"RaceForACursor", testRace},
	{"PrepareWhileApplying", testPrepareWhileApplying},
	{"Events", testEvents},
	{"EventTexts", testEventTexts},
	{"EventDuplicates", testEventDuplicates},
	{"EventNamedByItsPlace", testEventNamedByPlace},
	{"EventsRefused", testEventsRefused},
	{"LargeEffect", testLargeEffect},
	{"RowTexts", testRowTexts},
	{"RowSingleColumn", testSingleColumn},
	{"RowNumbers", testRowNumbers},
	{"RowNumbersRefused", testRowNumbersRefused},
	{"RowBooleansAndJSON", testBooleans},
	{"RowNullRefused", testNullRefused},
	{"RowDedupe", testDedupe},
	{"RowDedupeByTwoColumns", testDedupeTwoColumns},
	{"RowUniqueWithoutDedupe", testUniqueWithoutDedupe},
	{"RowOtherUniqueKey", testOtherUniqueKey},
	{"RowsWithinOneEffect", testManyTables},
	{"BadOnesAmongMany", testBadAmongMany},
	{"OpenTableRefusals", testOpenTable},
	{"DeadLetters", testDeadLetters},
	{"DeadLetterTexts", testDeadTexts},
	{"DeadLetterLarge", testDeadLarge},
	{"DeadLetterFlood", testDeadFlood},
	{"Keys", testKeys},
	{"Secrets", testSecrets},
	{"Accounts", testAccounts},
	{"LastAccount", testLastAccount},
	{"PasswordBesideSession", testPasswordBesideSession},
	{"FirstAccount", testFirstAccount},
	{"Audit", testAudit},
	{"Counts", testCounts},
	{"CountTexts", testCountTexts},
	{"CountsAreBounded", testCountsBounded},
	{"CountsOfManyStores", testCountsOfManyStores},
	{"EventsAreCounted", testEventsCounted},
	{"EventsOfASetBackCursor", testEventsCountedAgain},
	{"NamesAreBounded", testNamesBounded},
	{"ReadSeries", testReadSeries},
	{"MirrorChanges", testMirrorChanges},
	{"MirrorTotals", testMirrorTotals},
	{"MirrorBegins", testMirrorBegins},
	{"Users", testUsers},
	{"EventsStored", testEventsStored},
	{"UserKeysConflict", testUserKeysConflict},
	{"ManyUsers", testManyUsers},
	{"UsersByBytes", testUsersByBytes},
	{"MergeChains", testMergeChains},
	{"SharedAddresses", testSharedAddresses},
	{"Forwards", testForwards},
	{"EachProfile", testEachProfile},
	{"Segments", testSegments},
	{"Sends", testSends},
	{"SendRepeats", testSendRepeats},
	{"SendsThatCannotBe", testSendsThatCannotBe},
	{"SendBodies", testBodies},
	{"SendOrphans", testOrphans},
	{"SendsInDoubt", testInDoubt},
	{"SendsOfUsers", testSendsOfUsers},
	{"SendsWaiting", testSendsWaiting},
	{"Suppressions", testSuppressions},
	{"SuppressionsGoneBack", testSuppressionsGoneBack},
	{"SuppressionsInOrder", testSuppressionOrder},
	{"SoftBounces", testSoftBounces},
	{"RouteDays", testRouteDays},
	{"Templates", testTemplates},
	{"TemplateVersionsAtOnce", testTemplateVersionsAtOnce},
	{"SendsOfAnyLife", testAnyOutcomes},
	{"TemplateBounds", testTemplateBounds},
	{"Schedules", testSchedules},
	{"SchedulesRestored", testSchedulesRestored},
	{"Journeys", testJourneys},
	{"PutStatus", testPutStatus},
	{"PutHold", testPutHold},
	{"Publish", testPublish},
	{"PublishRestored", testPublishRestored},
	{"Facts", testFacts},
	{"FactsGoInPieces", testFactsGoInPieces},
	{"Feed", testFeed},
	{"FeedLarge", testFeedLarge},
	{"FeedWindows", testFeedWindows},
	{"PersonEvents", testPersonEvents},
	{"KeysFrom", testKeysFrom},
	{"Webhooks", testWebhooks},
	{"Groups", testGroups},
	{"Stops", testStops},
	{"Links", testLinks},
	{"Checkpoints", testCheckpoints},
	{"CheckpointClaims", testCheckpointClaims},
	{"Holds", testHolds},
	{"FactsAtRandom", testFactsAtRandom},
	{"EraseFacts", testEraseFacts},
	{"ErasedPackOfFactsGoes", testErasedPackGoes},
	{"Contexts", testContexts},
	{"MailFacts", testMailFacts},
	{"ReactionsOfMessages", testReactionsOfMessages},
	{"PeopleAndMachines", testPeopleAndMachines},
	{"ReactionCounts", testReactionCounts},
	{"ReactionsOnce", testReactionsOnce},
	{"ReactionsOfTwoTellers", testReactionsOfTwoTellers},
	{"ReactionsAreBounded", testReactionsBounded},
	{"ReactionsOfManyStores", testReactionsOfManyStores},
	{"ReadReactions", testReadReactions},
	{"MailKnown", testMailKnown},
	{"MailCounts", testMailCounts},
	{"StaleNames", testStaleNames},
	{"FrozenAtPublish", testFrozenAtPublish},
	{"PublishBesideStores", testPublishBesideStores},
	{"DumpAndRestore", testDump},
	{"EventDays", testEventDays},
	{"Imported", testImported},
	{"FileImports", testFileImports},
	{"Quarters", testQuarters},
	{"DeleteEvents", testDeleteEvents},
	{"ForgetAddresses", testForgetAddresses},
	{"DeleteSeries", testDeleteSeries},
	{"DeleteDeadLetters", testDeleteDeadLetters},
	{"DeleteSends", testDeleteSends},
	{"Erasures", testErasures},
	{"EraseEvents", testEraseEvents},
	{"EraseLastDay", testEraseLastDay},
	{"EraseSends", testEraseSends},
	{"EraseSoftBounces", testEraseSoftBounces},
	{"EraseAudit", testEraseAudit},
	{"EraseAuditPieces", testEraseAuditPieces},
	{"KeepersTogether", testKeepersTogether},
	{"DaysWaitForReaders", testDaysWait},
	{"CommitUnknown", testCommitUnknown},
	{"ConnectionLost", testConnectionLost},
	{"MigrateTwice", testMigrateTwice},
	{"MigrateTogether", testMigrateTogether},
	{"MigrateFromVersion1", testMigrateFrom1},
	{"NewerSchema", testNewerSchema},
}

// bulk are the tests of the suite that show how a store writes many rows. They have each
// kind that has a path of its own, with all texts and types, and repeats. They have rows
// that are refused, many rows and large ones. The last ones are a restore, and
// transactions that conflict or are cut off.
var bulk = []string{
	"Conflict", "ConflictOfOneAmongMany", "EffectsNoCallerShouldMake", "RaceForACursor", "PrepareWhileApplying",
	"Events", "EventTexts", "EventDuplicates", "EventNamedByItsPlace", "EventsRefused", "LargeEffect", "EventsAreCounted", "EventsOfASetBackCursor", "EventsStored", "EventDays",
	"RowTexts", "RowSingleColumn", "RowNumbers", "RowNumbersRefused", "RowBooleansAndJSON", "RowNullRefused", "RowDedupe", "RowDedupeByTwoColumns", "RowUniqueWithoutDedupe", "RowOtherUniqueKey", "RowsWithinOneEffect", "BadOnesAmongMany",
	"DeadLetters", "DeadLetterTexts", "DeadLetterLarge", "DeadLetterFlood",
	"Users", "UserKeysConflict", "ManyUsers", "MergeChains", "SharedAddresses",
	"Sends", "SendRepeats", "SendsThatCannotBe", "SendsOfAnyLife", "Facts", "FactsGoInPieces", "MailFacts",
	"DumpAndRestore", "CommitUnknown", "ConnectionLost",
}

// Run runs the suite; newEnv makes an empty database.
func Run(t *testing.T, newEnv func(t *testing.T) Env) {
	for _, c := range suite {
		run(t, newEnv, c.name, c.test)
	}
}

// RunBulk runs the part of the suite that is about writing many rows: on a store that
// has passed the whole, and now writes them by another of its paths.
func RunBulk(t *testing.T, newEnv func(t *testing.T) Env) {
	left := slices.Clone(bulk)
	for _, c := range suite {
		if i := slices.Index(left, c.name); i >= 0 {
			left = slices.Delete(left, i, i+1)
			run(t, newEnv, c.name, c.test)
		}
	}
	if len(left) > 0 {
		t.Errorf("the suite has no %v", left)
	}
}

func run(t *testing.T, newEnv func(t *testing.T) Env, name string, test func(*testing.T, *fixture)) {
	t.Run(name, func(t *testing.T) {
		f := &fixture{Env: newEnv(t), ctx: t.Context()}
		if !strings.HasPrefix(name, "Migrate") {
			f.store = f.Open(t)
			must(t, f.store.Migrate(f.ctx))
		}
		test(t, f)
	})
}

const follower = "store"

// fixture is an Env with a migrated store.
type fixture struct {
	Env
	ctx   context.Context
	store store.Store
	at    sluice.Position // of the cursor in partition 0
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantError(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("got error %v, want %v", err, want)
	}
}

func want[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Fatalf("%s: got %v, want %v", what, got, want)
	}
}

// start creates the cursor of partition 0.
func (f *fixture) start(t *testing.T) {
	t.Helper()
	cursors, err := f.store.Cursors(f.ctx, follower, []int{0})
	must(t, err)
	f.at = cursors[0]
}

// step gives an effect the next step of the cursor in partition 0. Its events
// get places of their own, unless a test has placed them.
func (f *fixture) step(e store.Effect) *store.Effect {
	next := sluice.Position{Major: f.at.Major + 1, Minor: 7}
	e.Events = slices.Clone(e.Events)
	for i := range e.Events {
		if place := &e.Events[i].Place; place.Position == eventPosition {
			place.Position.Minor += f.at.Major
		}
	}
	e.Moves = []store.Move{{Follower: follower, From: f.at, To: next}}
	return &e
}

func (f *fixture) prepare(t *testing.T, e *store.Effect) store.Prepared {
	t.Helper()
	p, err := f.store.Prepare(e)
	must(t, err)
	if p.Effect() != e {
		t.Fatal("Prepared.Effect is not the effect that was prepared")
	}
	return p
}

// apply applies an effect as the next step and wants it to succeed.
func (f *fixture) apply(t *testing.T, e store.Effect, rows, duplicates int) {
	t.Helper()
	effect := f.step(e)
	applied, err := f.store.Apply(f.ctx, f.prepare(t, effect))
	must(t, err)
	want(t, "applied", applied, store.Applied{Rows: rows, Duplicates: duplicates, Dead: len(e.Dead)})
	f.at = effect.Moves[0].To
	f.wantCursor(t)
}

// refuse wants Apply to refuse an effect and write nothing. It wants ApplyEach
// to take the effect with so many dead letters, which it returns with their
// payloads.
func (f *fixture) refuse(t *testing.T, e store.Effect, rows, duplicates, dead int) []sluice.DeadLetter {
	t.Helper()
	effect := f.step(e)
	p := f.prepare(t, effect)
	before := f.lastLetter(t)
	_, err := f.store.Apply(f.ctx, p)
	wantError(t, err, sluice.ErrRefused)
	f.wantCursor(t)
	applied, err := f.store.ApplyEach(f.ctx, p)
	must(t, err)
	want(t, "applied row by row", applied, store.Applied{Rows: rows, Duplicates: duplicates, Dead: dead})
	f.at = effect.Moves[0].To
	f.wantCursor(t)
	list, err := f.store.DeadLetters(f.ctx, before, dead+1)
	must(t, err)
	want(t, "new dead letters", len(list), dead)
	for i := range list {
		list[i], err = f.store.DeadLetter(f.ctx, list[i].ID)
		must(t, err)
		if list[i].Reason == "" || list[i].TimeMillis == 0 {
			t.Fatalf("dead letter without reason or time: %+v", list[i])
		}
	}
	return list
}

func (f *fixture) lastLetter(t *testing.T) (id int64) {
	t.Helper()
	for {
		list, err := f.store.DeadLetters(f.ctx, id, 1000)
		must(t, err)
		if len(list) == 0 {
			return id
		}
		id = list[len(list)-1].ID
	}
}

// wantCursor checks that the cursor of partition 0 is where it should be.
func (f *fixture) wantCursor(t *testing.T) {
	t.Helper()
	cursors, err := f.store.Cursors(f.ctx, follower, []int{0})
	must(t, err)
	want(t, "cursor", cursors[0], f.at)
}

// patience bounds waits, also on a machine that is very busy.
const patience = 3 * time.Minute

// until waits for a condition.
func (f *fixture) until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain until %s", what)
		}
		<-time.After(5 * time.Millisecond)
	}
}

// count returns the number of rows of a table.
func (f *fixture) count(t *testing.T, table string) int {
	t.Helper()
	n, err := strconv.Atoi(f.Query(t, "SELECT COUNT(*) FROM "+table)[0][0])
	must(t, err)
	return n
}

// wantRows checks the result of a query.
func (f *fixture) wantRows(t *testing.T, query string, rows ...[]string) {
	t.Helper()
	got := f.Query(t, query)
	if len(got) != len(rows) {
		t.Fatalf("%s: got %d rows, want %d: %.300q", query, len(got), len(rows), got)
	}
	for i := range rows {
		for c := range rows[i] {
			if got[i][c] != rows[i][c] {
				t.Fatalf("%s: row %d, column %d: got %.200q, want %.200q", query, i, c, got[i][c], rows[i][c])
			}
		}
	}
}

// table creates a table of the user's own and opens it.
func (f *fixture) table(t *testing.T, definition string, spec store.TableSpec) store.Table {
	t.Helper()
	f.Exec(t, "CREATE TABLE "+spec.Table+" ("+definition+")")
	opened, err := f.store.OpenTable(f.ctx, spec)
	must(t, err)
	if got := opened.Spec(); got.Table != spec.Table || got.Dedupe != spec.Dedupe {
		t.Fatalf("Spec returned %+v, OpenTable was given %+v", got, spec)
	}
	return opened
}

// rowsOf makes rows of cells; each row's element is its index as a text.
func rowsOf(table store.Table, rows ...[]store.Cell) store.TableRows {
	r := store.TableRows{Table: table, Source: "list:test"}
	for i, cells := range rows {
		r.Cells = append(r.Cells, cells...)
		r.Raw = append(r.Raw, fmt.Sprintf("element %d", i))
		r.Places = append(r.Places, sluice.Place{Partition: 3, Position: sluice.Position{Major: 1 << 40, Minor: 9}, Index: i})
	}
	return r
}

func effectOf(rows ...store.TableRows) store.Effect { return store.Effect{Rows: rows} }

func text(s string) store.Cell { return store.Cell{Kind: store.CellText, Text: s} }
func num(s string) store.Cell  { return store.Cell{Kind: store.CellNumber, Text: s} }
func boolean(b bool) store.Cell {
	return store.Cell{Kind: store.CellBool, Text: strconv.FormatBool(b)}
}

var null = store.Cell{Kind: store.CellNull}

// texts are the hard texts that the database stores as they are; those that it
// does not are refused.
func (f *fixture) texts() (stored, refused []string) {
	for _, s := range hardTexts {
		if f.NoNUL && strings.Contains(s, "\x00") {
			refused = append(refused, s)
		} else {
			stored = append(stored, s)
		}
	}
	return stored, refused
}

// event makes an event that differs by n.
func event(n int) store.StoredEvent {
	return store.StoredEvent{
		Event: sluice.Event{
			Kind: sluice.KindMail, TimeMillis: 1_760_000_000_000 + int64(n), ID: "e" + strconv.Itoa(n),
			Name: sluice.EventOpened, App: "app",
		},
		Place: sluice.Place{Partition: 2, Position: eventPosition, Index: n},
	}
}

// eventPosition is where the events of an effect stand, before they are applied.
var eventPosition = sluice.Position{Major: 1_760_000_000_000, Minor: 1}

// hardTexts are texts that a bulk path must not stumble over.
var hardTexts = []string{
	"", " ", "a", "a ", " a", "A", `\N`, `\\N`, `\`, `ends with \`, "NULL", "null", "tab\there", "line\nbreak", "carriage\r\nreturn",
	"nul\x00byte", "\x00", "nul and digits \x0012", "quote ' and \" and `", "percent % under_score", "ctrl-z \x1a \b", "æøå ß", "汉字", "\U0001F600 four bytes",
	"\uFEFFmark", "e\u0301", "; DROP TABLE events --", "?", ":a @b $1", strings.Repeat("é", 60),
}
