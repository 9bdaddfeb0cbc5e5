package storetest

import (
	"strconv"
	"strings"
	"testing"

	"sluice"
	"sluice/store"
)

func testRowTexts(t *testing.T, f *fixture) {
	f.start(t)
	table := f.table(t, "n BIGINT, a VARCHAR(200), b TEXT", store.TableSpec{Table: "texts", Columns: []string{"n", "a", "b"}})
	var rows [][]store.Cell
	var expected [][]string
	hard, refused := f.texts()
	for i, s := range hard {
		rows = append(rows, []store.Cell{num(strconv.Itoa(i)), text(s), text(s)})
		expected = append(expected, []string{s, s})
	}
	rows = append(rows, []store.Cell{num("1000"), null, null})
	expected = append(expected, []string{"NULL", "NULL"})
	long := strings.Repeat("0123456789\t\\", 5000)
	rows = append(rows, []store.Cell{num("1001"), text("long"), text(long)})
	expected = append(expected, []string{"long", long})
	f.apply(t, effectOf(rowsOf(table, rows...)), len(rows), 0)
	f.wantRows(t, "SELECT a, b FROM texts ORDER BY n", expected...)

	for _, bad := range append(refused, "\xff", "a\xc3", "\xed\xa0\x80", "tail \xf0\x9f\x98") {
		letters := f.refuse(t, effectOf(rowsOf(table, []store.Cell{num("1"), text(bad), null})), 0, 0, 1)
		want(t, "payload", string(letters[0].Payload), "element 0")
	}
}

func testSingleColumn(t *testing.T, f *fixture) {
	f.start(t)
	table := f.table(t, "a VARCHAR(20)", store.TableSpec{Table: "one", Columns: []string{"a"}})
	f.apply(t, effectOf(rowsOf(table, []store.Cell{text("")}, []store.Cell{null}, []store.Cell{text("x")}, []store.Cell{text("")})), 4, 0)
	f.wantRows(t, "SELECT COUNT(*), COUNT(a) FROM one", []string{"4", "3"})
}

func testRowNumbers(t *testing.T, f *fixture) {
	f.start(t)
	table := f.table(t, "n BIGINT, d DECIMAL(20,4), f DOUBLE PRECISION, s VARCHAR(80)",
		store.TableSpec{Table: "numbers", Columns: []string{"n", "d", "f", "s"}})
	same := func(n, d, fl, s string) []store.Cell { return []store.Cell{num(n), num(d), num(fl), num(s)} }
	huge := "123456789012345678901234567890.5"
	f.apply(t, effectOf(rowsOf(table,
		same("-9223372036854775808", "0.5", "1e3", "-9223372036854775809"),
		same("-1", "-1.25", "-0.5", "18446744073709551616"),
		same("0", "0", "0", "1.10"),
		same("9223372036854775807", "1234567890.5", "0.25", huge),
	)), 4, 0)
	f.wantRows(t, "SELECT n, s FROM numbers ORDER BY n",
		[]string{"-9223372036854775808", "-9223372036854775809"}, []string{"-1", "18446744073709551616"},
		[]string{"0", "1.10"}, []string{"9223372036854775807", huge})
	f.wantRows(t, "SELECT COUNT(*) FROM numbers WHERE (n = -1 AND d = -1.25 AND f = -0.5) OR (n < -1 AND d = 0.5 AND f = 1000) OR (n > 1 AND d = 1234567890.5)",
		[]string{"3"})
}

func testRowNumbersRefused(t *testing.T, f *fixture) {
	f.start(t)
	table := f.table(t, "n BIGINT, s VARCHAR(80)", store.TableSpec{Table: "numbers", Columns: []string{"n", "s"}})
	bad := []store.Cell{num("9223372036854775808"), num("-9223372036854775809"), num("123456789012345678901234567890"), text("9223372036854775808")}
	if f.StrictTypes {
		bad = append(bad, text("twelve"), text(""), text("1x"))
	}
	for _, cell := range bad {
		f.Exec(t, "DELETE FROM numbers")
		letters := f.refuse(t, effectOf(rowsOf(table, []store.Cell{num("1"), num("1")}, []store.Cell{cell, text("x")}, []store.Cell{num("2"), text("2")})), 2, 0, 1)
		l := letters[0]
		want(t, "payload", string(l.Payload), "element 1")
		want(t, "source", l.Source, "list:test")
		want(t, "form", l.Form, sluice.FormElement)
		want(t, "place", l.Place, sluice.Place{Partition: 3, Position: sluice.Position{Major: 1 << 40, Minor: 9}, Index: 1})
		f.wantRows(t, "SELECT n FROM numbers ORDER BY n", []string{"1"}, []string{"2"})
	}
	if f.StrictTypes {
		letters := f.refuse(t, effectOf(rowsOf(table, []store.Cell{num("1"), text(strings.Repeat("x", 81))})), 0, 0, 1)
		if !strings.Contains(letters[0].Reason, "too long") {
			t.Fatalf("the reason is not the server's: %q", letters[0].Reason)
		}
	}
}

func testBooleans(t *testing.T, f *fixture) {
	f.start(t)
	table := f.table(t, "n BIGINT, i INT, b BOOLEAN, s VARCHAR(20), j TEXT",
		store.TableSpec{Table: "bools", Columns: []string{"n", "i", "b", "s", "j"}})
	doc := store.Cell{Kind: store.CellJSON, Text: `{"a":[1,"\t",null]}`}
	f.apply(t, effectOf(rowsOf(table,
		[]store.Cell{num("1"), boolean(true), boolean(true), boolean(true), doc},
		[]store.Cell{num("2"), boolean(false), boolean(false), boolean(false), boolean(false)},
	)), 2, 0)
	f.wantRows(t, "SELECT i, b, s, j FROM bools ORDER BY n", []string{"1", "1", "true", doc.Text}, []string{"0", "0", "false", "false"})
}

func testNullRefused(t *testing.T, f *fixture) {
	f.start(t)
	table := f.table(t, "n BIGINT NOT NULL, s VARCHAR(20) NOT NULL, d VARCHAR(20) NOT NULL DEFAULT 'x', CHECK (n < 100)",
		store.TableSpec{Table: "strict_rows", Columns: []string{"n", "s"}})
	letters := f.refuse(t, effectOf(rowsOf(table,
		[]store.Cell{null, text("a")},
		[]store.Cell{num("1"), text("b")},
		[]store.Cell{num("2"), null},
		[]store.Cell{num("100"), text("checked")},
		[]store.Cell{num("3"), text("c")},
	)), 2, 0, 3)
	for i, element := range []string{"element 0", "element 2", "element 3"} {
		want(t, "payload", string(letters[i].Payload), element)
	}
	f.wantRows(t, "SELECT n, s, d FROM strict_rows ORDER BY n", []string{"1", "b", "x"}, []string{"3", "c", "x"})
}

func testDedupe(t *testing.T, f *fixture) {
	f.start(t)
	table := f.table(t, "id VARCHAR(40) PRIMARY KEY, n BIGINT", store.TableSpec{Table: "ids", Columns: []string{"id", "n"}, Dedupe: "id"})
	row := func(id, n string) []store.Cell { return []store.Cell{text(id), num(n)} }
	f.apply(t, effectOf(rowsOf(table, row("a", "1"), row("b", "2"), row("a", "3"))), 2, 1)
	f.apply(t, effectOf(rowsOf(table, row("b", "4"), row("c", "5"))), 1, 1)
	// A bad row among duplicates is refused, not lost among them.
	letters := f.refuse(t, effectOf(rowsOf(table, row("c", "6"), row("d", "99999999999999999999"), row("e", "7"))), 1, 1, 1)
	want(t, "payload", string(letters[0].Payload), "element 1")
	f.wantRows(t, "SELECT id, n FROM ids ORDER BY id", []string{"a", "1"}, []string{"b", "2"}, []string{"c", "5"}, []string{"e", "7"})
}

func testDedupeTwoColumns(t *testing.T, f *fixture) {
	f.start(t)
	table := f.table(t, "id VARCHAR(40), day BIGINT NOT NULL, n BIGINT, UNIQUE (day, id)",
		store.TableSpec{Table: "ids", Columns: []string{"id", "day", "n"}, Dedupe: "id"})
	row := func(id, day string) []store.Cell { return []store.Cell{text(id), num(day), num("0")} }
	f.apply(t, effectOf(rowsOf(table, row("a", "1"), row("a", "2"), row("a", "1"))), 2, 1)
}

func testUniqueWithoutDedupe(t *testing.T, f *fixture) {
	f.start(t)
	table := f.table(t, "id BIGINT PRIMARY KEY, s VARCHAR(20)", store.TableSpec{Table: "uniques", Columns: []string{"id", "s"}})
	letters := f.refuse(t, effectOf(rowsOf(table, []store.Cell{num("1"), text("a")}, []store.Cell{num("1"), text("b")})), 1, 0, 1)
	want(t, "payload", string(letters[0].Payload), "element 1")
	f.wantRows(t, "SELECT s FROM uniques", []string{"a"})
}

func testOtherUniqueKey(t *testing.T, f *fixture) {
	f.start(t)
	table := f.table(t, "id VARCHAR(40) NOT NULL UNIQUE, mail VARCHAR(40) UNIQUE",
		store.TableSpec{Table: "two_keys", Columns: []string{"id", "mail"}, Dedupe: "id"})
	f.apply(t, effectOf(rowsOf(table, []store.Cell{text("a"), text("x")})), 1, 0)
	letters := f.refuse(t, effectOf(rowsOf(table,
		[]store.Cell{text("a"), text("y")}, // was there already
		[]store.Cell{text("b"), text("x")}, // violates another key: a bad row
		[]store.Cell{text("c"), text("for key 'id'")},
	)), 1, 1, 1)
	want(t, "payload", string(letters[0].Payload), "element 1")
}

func testManyTables(t *testing.T, f *fixture) {
	f.start(t)
	one := f.table(t, "n BIGINT", store.TableSpec{Table: "one", Columns: []string{"n"}})
	two := f.table(t, "id BIGINT PRIMARY KEY, n BIGINT", store.TableSpec{Table: "two", Columns: []string{"n", "id"}, Dedupe: "id"})
	f.apply(t, store.Effect{
		Events: []store.StoredEvent{event(1), event(1)},
		Rows: []store.TableRows{
			rowsOf(one, []store.Cell{num("1")}, []store.Cell{num("2")}),
			rowsOf(two, []store.Cell{num("7"), num("1")}, []store.Cell{num("8"), num("1")}),
			rowsOf(one),
		},
		Dead: []sluice.DeadLetter{{Source: "log", Form: sluice.FormBatch, Reason: "r"}},
	}, 4, 2)
	f.wantRows(t, "SELECT n, id FROM two", []string{"7", "1"})
	want(t, "rows", f.count(t, "one"), 2)

	// What is refused in the last table takes the others back.
	bad := store.Effect{
		Events: []store.StoredEvent{event(2)},
		Rows:   []store.TableRows{rowsOf(one, []store.Cell{num("3")}), rowsOf(two, []store.Cell{num("1"), num("9")}, []store.Cell{num("1e99"), num("99999999999999999999")})},
	}
	_, err := f.store.Apply(f.ctx, f.prepare(t, f.step(bad)))
	wantError(t, err, sluice.ErrRefused)
	want(t, "rows", f.count(t, "one"), 2)
	want(t, "events", f.count(t, "events"), 1)
	f.refuse(t, bad, 3, 0, 1)
}

func testOpenTable(t *testing.T, f *fixture) {
	f.Exec(t, "CREATE TABLE looked_at (id VARCHAR(20), event_name VARCHAR(20), needed BIGINT NOT NULL)")
	f.Exec(t, "CREATE VIEW seen AS SELECT id FROM looked_at")
	all := []string{"id", "event_name", "needed"}
	for _, c := range []struct {
		name  string
		spec  store.TableSpec
		parts []string // of the error
	}{
		{"no table", store.TableSpec{Table: "nowhere", Columns: all}, []string{"nowhere", "create it"}},
		{"no columns", store.TableSpec{Table: "looked_at"}, []string{"at least one column"}},
		{"no column", store.TableSpec{Table: "looked_at", Columns: []string{"id", "evnt_nam", "needed"}}, []string{`"evnt_nam"`, `"event_name"`}},
		{"twice", store.TableSpec{Table: "looked_at", Columns: []string{"id", "ID", "needed"}}, []string{"twice"}},
		{"unmapped", store.TableSpec{Table: "looked_at", Columns: []string{"id"}}, []string{`"needed"`, "default"}},
		{"view", store.TableSpec{Table: "seen", Columns: []string{"id"}}, []string{"view"}},
		{"dedupe without key", store.TableSpec{Table: "looked_at", Columns: all, Dedupe: "id"}, []string{"UNIQUE", "looked_at", "id"}},
		{"dedupe not mapped", store.TableSpec{Table: "looked_at", Columns: []string{"needed"}, Dedupe: "id"}, []string{`"id"`, "columns"}},
	} {
		_, err := f.store.OpenTable(f.ctx, c.spec)
		if err == nil {
			t.Errorf("%s: was not refused", c.name)
			continue
		}
		for _, part := range c.parts {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: the error lacks %q: %v", c.name, part, err)
			}
		}
	}
	// NULL equals nothing: a key that it may stand in would let repeats in.
	f.Exec(t, "CREATE UNIQUE INDEX id_event_name ON looked_at (id, event_name)")
	_, err := f.store.OpenTable(f.ctx, store.TableSpec{Table: "looked_at", Columns: all, Dedupe: "id"})
	for _, part := range []string{`"event_name"`, "NULL", "NOT NULL", `"id" alone`} {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("dedupe by a key that NULL may stand in: the error lacks %q: %v", part, err)
		}
	}
	f.Exec(t, "CREATE UNIQUE INDEX id_needed ON looked_at (id, needed)")
	if _, err := f.store.OpenTable(f.ctx, store.TableSpec{Table: "looked_at", Columns: all, Dedupe: "id"}); err != nil {
		t.Error(err)
	}
}
