package ingest_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"sluice"
	"sluice/flow"
	"sluice/lib/faults"
	"sluice/store"
	"sluice/user"
)

// target is a table with a column of each sort that matters.
func makeTarget(b *bed) {
	b.Helper()
	b.exec(`CREATE TABLE target (seq BIGINT AUTO_INCREMENT PRIMARY KEY, id BIGINT NOT NULL, name VARCHAR(32) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin, big DECIMAL(40,0), price DECIMAL(10,2), flag TINYINT, note TEXT CHARACTER SET utf8mb4, doc TEXT CHARACTER SET utf8mb4, at DATETIME) ENGINE=InnoDB`,
		`CREATE TABLE target (seq INTEGER PRIMARY KEY, id INTEGER NOT NULL, name TEXT CHECK (length(name) <= 32), big TEXT, price REAL, flag INTEGER, note TEXT, doc TEXT, at TEXT CHECK (length(at) <= 19)) STRICT`)
}

var targetColumns = columns("id", "id", "name", "event", "big", "big", "price", "price", "flag", "flag", "note", "note", "doc", "doc", "at", "at")

func tableList(side flow.Side) listSetup {
	return listSetup{name: "q", table: "target", columns: targetColumns, side: side}
}

func TestTableTakesValuesAsTheyWereWritten(t *testing.T) {
	onEach(t, func(b *bed) {
		makeTarget(b)
		elements := []string{
			`{"id":1,"event":"open","price":12.5,"flag":true,"note":"a\tb\\c\nd","doc":{"a": [1, 2]},"at":"2026-01-02 03:04:05"}`,
			`{"id":"2","event":"Ünïcödé 😀","price":"12.5","flag":false,"note":true,"doc":[]}`,
			`{"id":3,"event":null,"note":"","doc":"\\N","extra":1}`,
			`{"id":9007199254740993,"big":9007199254740993,"note":9007199254740993}`,
			`{"id":-9223372036854775808,"big":"1234567890123456789012345678901234567890","note":12345678901234567890123}`,
			` {"note":"a\u0000b","id":6} `,
		}
		b.push("q", elements...)
		e := start(b, setup{lists: []listSetup{tableList("")}})
		b.awaitSum("target", len(elements))
		e.stop()
		b.checkCounts("target", len(elements), 0)
		null := "<null>"
		want := []string{
			"1|open|" + null + "|12.5|1|a\tb\\c\nd|{\"a\": [1, 2]}|2026-01-02 03:04:05",
			"2|Ünïcödé 😀|" + null + "|12.5|0|true|[]|" + null,
			"3|" + strings.Join([]string{null, null, null, null, "", `\N`, null}, "|"),
			"9007199254740993|" + strings.Join([]string{null, "9007199254740993", null, null, "9007199254740993", null, null}, "|"),
			"-9223372036854775808|" + strings.Join([]string{null, "1234567890123456789012345678901234567890", null, null, "12345678901234567890123", null, null}, "|"),
			"6|" + strings.Join([]string{null, null, null, null, "a\x00b", null, null}, "|"),
		}
		at := "at"
		if b.dialect == "mariadb" {
			at = "CAST(at AS CHAR)"
		}
		got := b.query("SELECT id, name, big, price + 0, flag, note, doc, " + at + " FROM target ORDER BY seq")
		for i := range got {
			got[i] = strings.Replace(got[i], "12.50", "12.5", 1) // a DECIMAL(10,2)
			if got[i] != want[i] {
				b.Errorf("row %d:\n got %q\nwant %q", i, got[i], want[i])
			}
		}
	})
}

func TestTableKeepsTheOrderOfTheList(t *testing.T) {
	const n = 5000
	for _, side := range []flow.Side{flow.Left, flow.Right} {
		t.Run(string(side), func(t *testing.T) {
			onEach(t, func(b *bed) {
				makeTarget(b)
				push := map[flow.Side]string{flow.Left: "RPUSH", flow.Right: "LPUSH"}[side]
				e := start(b, setup{lists: []listSetup{tableList(side)}})
				for from := 0; from < n; from += 250 { // while it runs: many chunks
					var some []string
					for i := range 250 {
						some = append(some, fmt.Sprintf(`{"id":%d}`, from+i))
					}
					b.pushBy(push, "q", some...)
				}
				b.awaitSum("target", n)
				e.stop()
				b.checkCounts("target", n, 0)
				for i, id := range b.query("SELECT id FROM target ORDER BY seq") {
					if id != strconv.Itoa(i) {
						b.Fatalf("row %d holds element %s", i, id)
					}
				}
			})
		})
	}
}

// badElement is one that no way takes, or that the table does not.
type badElement struct {
	name, raw string
	reason    string // begins the reason
}

// badAnyway are the bad elements of both ways.
func badAnyway() []badElement {
	return []badElement{
		{"empty", "", "not JSON"},
		{"text", "hello", "not JSON"},
		{"cut short", `{"id":7,"event":"op`, "not JSON"},
		{"two values", `{"id":7} {"id":8}`, "not JSON"},
		{"array", `[{"id":7}]`, "not an object"},
		{"number", `17`, "not an object"},
		{"string", `"open"`, "not an object"},
		{"null", `null`, "not an object"},
		{"invalid UTF-8", "{\"id\":7,\"event\":\"\xff\xfe\"}", "not JSON"},
		{"invalid UTF-8 elsewhere", "{\"id\":7,\"event\":\"open\",\"zzz\":\"\xc3\"}", "not JSON"},
		{"NUL byte", "{\"id\":7,\"event\":\"a\x00b\"}", "not JSON"},
		{"binary", "\x00\x01\x02\xff\n\t\\", "not JSON"},
		{"3 MB", `{"id":7,"event":"` + strings.Repeat("x", 3<<20) + `"}`, "too large"},
		{"3 MB, other", `{"id":8,"event":"` + strings.Repeat("y", 3<<20) + `"}`, "too large"},
		{"deep", `{"id":7,"event":"open","a":` + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + `}`, "nested too deep"},
		{"deep objects", strings.Repeat(`{"a":`, 100_000) + "1" + strings.Repeat(`}`, 100_000), "nested too deep"},
	}
}

// checkLetters checks that each bad element is a dead letter, whole, with its
// reason, and that there is no other.
func checkLetters(b *bed, store store.Store, source string, bad []badElement) {
	b.Helper()
	letters := b.letters(store)
	for _, x := range bad {
		d, ok := letters[x.raw]
		switch {
		case !ok:
			b.Errorf("%s: no dead letter holds it whole (%d bytes, %x)", x.name, len(x.raw), sha256.Sum256([]byte(x.raw)))
		case !strings.HasPrefix(d.Reason, x.reason):
			b.Errorf("%s: reason %.200q, want it to begin with %q", x.name, d.Reason, x.reason)
		case d.Source != source || d.Form != sluice.FormElement:
			b.Errorf("%s: source %q, form %q; want %q, element", x.name, d.Source, d.Form, source)
		}
		delete(letters, x.raw)
	}
	for _, d := range letters {
		b.Errorf("a dead letter that was not pushed: %.100q, %.200s", d.Payload, d.Reason)
	}
}

// among puts one good element before and after each bad one.
func among(bad []badElement, good func(i int) string) (all []string, goods int) {
	all = append(all, good(0))
	for i, x := range bad {
		all = append(all, x.raw, good(i+1))
	}
	return all, len(bad) + 1
}

func TestTableBuriesWhatIsBad(t *testing.T) {
	onEach(t, func(b *bed) {
		makeTarget(b)
		bad := append(badAnyway(),
			badElement{"no number", `{"id":"abc"}`, ""},
			badElement{"beyond 64 bits", `{"id":9223372036854775808}`, ""},
			badElement{"far beyond 64 bits", `{"id":123456789012345678901234567890}`, ""},
			badElement{"too long", `{"id":7,"event":"` + strings.Repeat("x", 10_000) + `"}`, ""},
			badElement{"NOT NULL, missing", `{"event":"open"}`, ""},
			badElement{"NOT NULL, null", `{"id":null}`, ""},
			badElement{"object for a number", `{"id":{"a":1}}`, ""},
			badElement{"year 99999", `{"id":7,"at":"99999-01-01 00:00:00"}`, ""},
			badElement{"a number with a tail", `{"id":"12abc"}`, ""},
		)
		elements, goods := among(bad, func(i int) string { return fmt.Sprintf(`{"id":%d,"event":"open"}`, 1000+i) })
		b.push("q", elements...)
		e := start(b, setup{lists: []listSetup{tableList("")}})
		b.awaitSum("target", len(elements))
		checkLetters(b, e.store, "list:q", bad)
		b.eventually("nothing is held that is not stored", func() bool {
			n, err := e.lists[0].Remaining(b.Context())
			return err == nil && n == 0
		})
		e.stop()
		b.checkCounts("target", goods, len(bad))
		got := b.query("SELECT id FROM target ORDER BY seq")
		for i, id := range got {
			if id != strconv.Itoa(1000+i) {
				b.Fatalf("good element %d is row %s", i, id)
			}
		}
		if n := b.doInt("LLEN", "q"); n != 0 {
			b.Fatalf("%d elements left in the list", n)
		}
	})
}

// One bad row among many: the database refuses the transaction, and the rows
// are then written one by one.
func TestTableOneBadRowCostsOneRow(t *testing.T) {
	const n = 10_000
	onEach(t, func(b *bed) {
		makeTarget(b)
		elements := make([]string, n)
		for i := range elements {
			elements[i] = fmt.Sprintf(`{"id":%d,"event":"open"}`, i)
		}
		elements[n/2] = `{"id":5000,"event":"` + strings.Repeat("x", 33) + `"}`
		b.push("q", elements...)
		e := start(b, setup{lists: []listSetup{tableList("")}})
		b.awaitSum("target", n)
		checkLetters(b, e.store, "list:q", []badElement{{"the one", elements[n/2], ""}})
		place := sluice.Position{}
		for _, d := range b.letters(e.store) {
			place = d.Place.Position
		}
		e.stop()
		b.checkCounts("target", n-1, 1)
		if got := b.query("SELECT COUNT(DISTINCT id), MIN(id), MAX(id) FROM target"); got[0] != fmt.Sprintf("%d|0|%d", n-1, n-1) {
			b.Fatalf("ids: %s", got)
		}
		if e.stats.Refused.Load() == 0 || place.IsZero() {
			b.Fatalf("refused %d transactions, dead letter at %s; want at least 1, and its place in the list", e.stats.Refused.Load(), place)
		}
	})
}

// floodSize is how many good and how many bad elements a flood has.
const floodSize = 10_000

func flood(good func(i int) string) []string {
	all := make([]string, 0, 2*floodSize)
	for i := range floodSize {
		all = append(all, good(i), fmt.Sprintf("bad %d", i))
	}
	return all
}

func TestTableFloodOfBadElements(t *testing.T) {
	onEach(t, func(b *bed) {
		makeTarget(b)
		b.push("q", flood(func(i int) string { return fmt.Sprintf(`{"id":%d}`, i) })...)
		e := start(b, setup{lists: []listSetup{tableList("")}})
		b.awaitSum("target", 2*floodSize)
		e.stop()
		b.checkCounts("target", floodSize, floodSize)
		if got := b.query("SELECT COUNT(DISTINCT payload) FROM dead_letters"); got[0] != strconv.Itoa(floodSize) {
			b.Fatalf("%s different dead letters, want %d", got[0], floodSize)
		}
	})
}

// Half of a flood is refused by the database, not by us.
func TestTableFloodOfRefusedRows(t *testing.T) {
	const n = 8_000
	onEach(t, func(b *bed) {
		makeTarget(b)
		var elements []string
		for i := range n / 2 {
			elements = append(elements, fmt.Sprintf(`{"id":%d}`, i), fmt.Sprintf(`{"id":"no number %d"}`, i))
		}
		b.push("q", elements...)
		e := start(b, setup{lists: []listSetup{tableList("")}})
		b.awaitSum("target", n)
		e.stop()
		b.checkCounts("target", n/2, n/2)
	})
}

func TestTableDedupe(t *testing.T) {
	onEach(t, func(b *bed) {
		b.exec("CREATE TABLE own (id VARCHAR(64) COLLATE utf8mb4_bin UNIQUE, n BIGINT) ENGINE=InnoDB", "CREATE TABLE own (id TEXT UNIQUE, n INTEGER)")
		s := setup{lists: []listSetup{{name: "q", table: "own", columns: columns("id", "id", "n", "n"), dedupe: "id"}}}
		b.push("q", `{"id":"a","n":1}`, `{"id":"a","n":2}`, `{"id":"b","n":3}`, `{"n":4}`, `{"id":"","n":5}`, `{"id":7,"n":6}`, `{"id":"7","n":7}`)
		e := start(b, s)
		b.awaitSum("own", 5)
		b.push("q", `{"id":"a","n":8}`, `{"id":"c","n":9}`)
		b.awaitSum("own", 6)
		e.stop()
		b.push("q", `{"id":"b","n":10}`, `{"id":"d","n":11}`) // across a restart
		e2 := start(b, s)
		b.awaitSum("own", 7)
		e2.stop()
		b.checkCounts("own", 5, 2)
		if got, want := b.query("SELECT id, n FROM own ORDER BY n"), []string{"a|1", "b|3", "7|6", "c|9", "d|11"}; !slices.Equal(got, want) {
			b.Fatalf("rows %v, want %v", got, want)
		}
		if d := e.stats.Duplicates.Load() + e2.stats.Duplicates.Load(); d != 4 {
			b.Fatalf("%d repeats counted, want 4", d)
		}
	})
}

func TestTableWithoutDedupeStoresEqualElements(t *testing.T) {
	onEach(t, func(b *bed) {
		makeTarget(b)
		for range 3 {
			b.push("q", `{"id":1,"event":"open"}`, `{"id":1,"event":"open"}`)
		}
		e := start(b, setup{lists: []listSetup{tableList("")}})
		b.awaitSum("target", 6)
		e.stop()
		b.checkCounts("target", 6, 0)
	})
}

// slipping is a store that is away when a list first moves its cursor over a gap, before
// the step or, if late, behind it.
type slipping struct {
	store.Store
	store.JourneyStore
	usersToo
	late   bool
	failed atomic.Bool
}

func (s *slipping) Apply(ctx context.Context, p store.Prepared) (store.Applied, error) {
	e := p.Effect()
	if len(e.Rows) > 0 || len(e.Moves) != 1 || e.Moves[0].Follower != "list:q" || s.failed.Swap(true) {
		return s.Store.Apply(ctx, p)
	}
	if s.late {
		if applied, err := s.Store.Apply(ctx, p); err != nil {
			return applied, err
		}
	}
	return store.Applied{}, errAway
}

// An accepted gap of a list stays accepted until the list is behind it, also if the step
// over it fails; and is listed no more then, also if the answer to that step is lost.
func TestAGapStaysAcceptedUntilItIsPassed(t *testing.T) {
	for name, x := range map[string]struct {
		list  listSetup
		table string // where its elements go
		late  bool
	}{
		"table":                 {tableList(""), "target", false},
		"table, answer is lost": {tableList(""), "target", true},
		"events":                {eventList(""), "events", false},
	} {
		t.Run(name, func(t *testing.T) {
			b, db := newBed(t, "sqlite"), &slipping{late: x.late}
			makeTarget(b)
			for chunk := 1; chunk <= 2; chunk++ {
				b.hold("q", chunk, fmt.Sprintf(`{"event":"e","id":%d,"time":1700000000,"user_id":"u"}`, chunk))
			}
			b.do("DEL", "sluice:{q}:list:q:held:1")
			e := newEngine(b, setup{lists: []listSetup{x.list}, store: func(s store.Store) store.Store {
				db.Store, db.JourneyStore, db.usersToo = s, s.(store.JourneyStore), s.(user.Store)
				return db
			}})
			gaps := flow.Gaps{Redis: e.redis}
			b.must(gaps.Accept(b.Context(), &flow.Gap{What: e.lists[0].String(), Cursor: sluice.Position{Major: 1}, Start: sluice.Position{Major: 2}}))
			if x.table == "events" {
				disarm, err := faults.Arm("drop=error") // it has its position where its elements are
				b.must(err)
				defer disarm()
			}
			e.run()
			b.eventually("the list goes on", func() bool {
				if e.log.has("stands still") {
					b.Fatal("the gap is accepted no more")
				}
				return b.count(x.table) == 1
			})
			b.eventually("nothing is listed any more", func() bool { return b.doInt("HLEN", "sluice:{members}:gaps") == 0 })
			e.stop()
			b.checkCounts(x.table, 1, 0)
			if !e.log.has("follower failed") || strings.Count(e.log.String(), "gap accepted") != 1 {
				t.Error("no step failed, or it is not told once that the gap was accepted")
			}
		})
	}
}
