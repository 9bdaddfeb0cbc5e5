package ingest

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"sluice"
	"sluice/store"
)

func newMapper(t testing.TB, dedupe string, fields ...string) *RowMapper {
	t.Helper()
	var columns []RowColumn
	for i, field := range fields {
		columns = append(columns, RowColumn{fmt.Sprintf("c%d", i), field})
	}
	m, err := NewRowMapper(columns, dedupe)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestRowMapper(t *testing.T) {
	text := func(s string) store.Cell { return store.Cell{Kind: store.CellText, Text: s} }
	num := func(s string) store.Cell { return store.Cell{Kind: store.CellNumber, Text: s} }
	object := func(s string) store.Cell { return store.Cell{Kind: store.CellJSON, Text: s} }
	truth := func(s string) store.Cell { return store.Cell{Kind: store.CellBool, Text: s} }
	null := store.Cell{}
	for _, tt := range []struct {
		fields, raw string
		want        []store.Cell
	}{
		{"id event", sampleElement(1), []store.Cell{num("1000000002"), text("click")}},
		{"b a", `{"a":"\u00e9\n","b":-1.50E+3}`, []store.Cell{num("-1.50E+3"), text("é\n")}},
		{"a b c d e", `{"a":true,"b":false,"c":null,"d":[1, 2],"e":{}}`, []store.Cell{truth("true"), truth("false"), null, object("[1, 2]"), object("{}")}},
		{"a a none", `{"a":9007199254740993}`, []store.Cell{num("9007199254740993"), num("9007199254740993"), null}},
		{"a", `{"a":1,"a":1e400}`, []store.Cell{num("1e400")}},
		{"a", `{"a":1,"a":null}`, []store.Cell{null}},
		{"a", `{"a":""}`, []store.Cell{text("")}},
		{"$ a", " {\"a\":1}\n", []store.Cell{object(`{"a":1}`), num("1")}},
		{"a.b a", `{"a":{"b":{"c":1}}}`, []store.Cell{object(`{"c":1}`), object(`{"b":{"c":1}}`)}},
		{"a.b.c", `{"a":{"b":{"c":"x"}}}`, []store.Cell{text("x")}},
		{"a.b.c", `{"a":{"b.c":"y","b":{"c":"x"}}}`, []store.Cell{text("y")}},
		{"a.b.c k", `{"k":1,"a":{"b.c":null,"b":{"c":"x"}}}`, []store.Cell{null, num("1")}},
		{"a.b.c k", `{"k":1,"a.b":{"c":"x"}}`, []store.Cell{null, num("1")}},
		{"a.b", `{"a.b":1,"a":{"b":2}}`, []store.Cell{num("1")}},
		{"a.b", `{"a":{"b":2},"a.b":1}`, []store.Cell{num("1")}},
		{"a.b", `{"a.b":null,"a":{"b":2}}`, []store.Cell{null}},
		{"a.b", `{"a":{"b":2},"a":{"b":3}}`, []store.Cell{num("3")}},
		{"a.b k", `{"k":1,"a":{"b":2},"a":{}}`, []store.Cell{null, num("1")}},
		{"a.b", `{"a":{"b":1,"b":2}}`, []store.Cell{num("2")}},
		{"a.b k", `{"k":null,"a":[{"b":2}]}`, []store.Cell{null, null}},
		{"a.b k", `{"k":1,"a":"b"}`, []store.Cell{null, num("1")}},
		{". a. .a", `{"":{"":1,"a":2},"a":{"":3}}`, []store.Cell{num("1"), num("3"), num("2")}},
		{"$ a", `{}`, []store.Cell{object(`{}`), null}},
	} {
		before := []store.Cell{text("before")}
		// What lies behind the end of cells must not shine through.
		dirty := append(before, truth("old"), truth("old"), truth("old"), truth("old"), truth("old"))
		got, err := newMapper(t, "", strings.Fields(tt.fields)...).Append(tt.raw, dirty[:1])
		if want := append(before, tt.want...); err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s of %s: got %v, %v, want %v", tt.fields, tt.raw, got, err, want)
		}
	}
}

// An element that fills no column is refused: its row would say nothing.
func TestRowMapperOfNothing(t *testing.T) {
	m := newMapper(t, "", "id", "shop.name")
	for _, raw := range []string{`{}`, `{"ID":1,"name":"x"}`, `{"shop":{}}`, `{"shop":"x"}`} {
		if got, err := m.Append(raw, nil); err == nil || err.Error() != "none of the mapped fields is there: id, shop.name" || len(got) > 0 {
			t.Errorf("%s: %v, %v", raw, got, err)
		}
	}
	for _, raw := range []string{`{"id":null}`, `{"shop":{"name":null}}`} {
		if _, err := m.Append(raw, nil); err != nil {
			t.Errorf("%s: a field that is null is there: %v", raw, err)
		}
	}
}

func TestRowMapperManyColumns(t *testing.T) {
	var fields, members []string
	for i := range MaxRowColumns {
		fields = append(fields, fmt.Sprintf("f%d.x", i))
		members = append(members, fmt.Sprintf(`"f%d":{"x":%d}`, i, i))
		if i%2 == 0 {
			members = append(members, fmt.Sprintf(`"f%d.x":"%d"`, i, i))
		}
	}
	m := newMapper(t, "", fields...)
	for _, raw := range []string{"{" + strings.Join(members, ",") + "}"} {
		row, err := m.Append(raw, nil)
		if err != nil {
			t.Fatal(err)
		}
		for i, c := range row {
			want := store.CellText
			if i%2 == 1 {
				want = store.CellNumber
			}
			if c.Text != fmt.Sprint(i) || c.Kind != want {
				t.Errorf("column %d: %+v", i, c)
			}
		}
	}
}

func TestRowMapperRefused(t *testing.T) {
	m := newMapper(t, "m.id", "a", "m.id")
	for _, tt := range []struct{ raw, reason string }{
		{`{"m":{"id":1}`, "not JSON: "},
		{`{"m":{"id":1},"b":01}`, "not JSON: "},
		{"{\"m\":{\"id\":1},\"b\":\"\xff\"}", "not JSON: want UTF-8"},
		{`[1]`, "not an object: it is an array"},
		{strings.Repeat(`{"m":`, 100_000), "nested too deep: "},
		{`{"m":{"id":1},"pad":"` + strings.Repeat("x", sluice.MaxElementBytes) + `"}`, "too large: "},
		{`{"a":1}`, "dedupe field m.id is missing"},
		{`{"m":{"id":null}}`, "dedupe field m.id is missing"},
		{`{"m":{"id":" "}}`, "dedupe field m.id is missing"},
		{`{"m":{"id":false}}`, "dedupe field m.id is a boolean"},
		{`{"m":{"id":[]}}`, "dedupe field m.id is an array"},
		{`{"m":{"id":{}}}`, "dedupe field m.id is an object"},
	} {
		cells := make([]store.Cell, 3, 10)
		got, err := m.Append(tt.raw, cells)
		if err == nil || !strings.HasPrefix(err.Error(), tt.reason) {
			t.Errorf("%.60q: got %v, want %s", tt.raw, err, tt.reason)
		}
		if len(got) != len(cells) {
			t.Errorf("%.60q: %d cells are left, want %d", tt.raw, len(got), len(cells))
		}
	}
	for _, tt := range []struct {
		dedupe  string
		columns []RowColumn
	}{
		{"", nil}, {"", make([]RowColumn, MaxRowColumns+1)}, {"", []RowColumn{{"a", ""}}}, {"", []RowColumn{{"", "a"}}},
		{"b", []RowColumn{{"b", "a"}}}, {"$", []RowColumn{{"a", "$"}}},
	} {
		if _, err := NewRowMapper(tt.columns, tt.dedupe); err == nil {
			t.Errorf("%d columns %.20v, dedupe %q: no error", len(tt.columns), tt.columns, tt.dedupe)
		}
	}
}

func TestRowMapperNoAllocations(t *testing.T) {
	m := newMapper(t, "id", "id", "event", "a.b")
	raw := sampleElement(1)
	cells := make([]store.Cell, 0, 3)
	got := testing.AllocsPerRun(100, func() {
		if _, err := m.Append(raw, cells); err != nil {
			t.Fatal(err)
		}
	})
	if got != 0 {
		t.Errorf("%v allocations, want none", got)
	}
}

// FuzzRowMapper compares with maps of encoding/json.
func FuzzRowMapper(f *testing.F) {
	for _, s := range oddElements() {
		f.Add(s, "event", "a.b")
		f.Add(s, "id", "$")
	}
	f.Fuzz(func(t *testing.T, raw, one, two string) {
		m, err := NewRowMapper([]RowColumn{{"one", one}, {"two", two}, {"whole", "$"}}, "")
		if err != nil {
			return
		}
		row, err := m.Append(raw, nil)
		if err != nil {
			return // FuzzScan compares what is refused
		}
		if len(row) != 3 || row[2] != (store.Cell{Kind: store.CellJSON, Text: strings.Trim(raw, " \t\r\n")}) {
			t.Fatalf("%q: got %v", raw, row)
		}
		for i, field := range []string{one, two} {
			if want := cellByMap(t, raw, field); field != "$" && row[i] != want {
				t.Fatalf("%q, field %q: got %+v, want %+v", raw, field, row[i], want)
			}
		}
	})
}

// cellByMap is what RowMapper does, by encoding/json.
func cellByMap(t *testing.T, raw, path string) store.Cell {
	var members map[string]json.RawMessage
	if json.Unmarshal([]byte(raw), &members) != nil {
		return store.Cell{} // no object
	}
	v, ok := members[path]
	if !ok {
		head, rest, dotted := strings.Cut(path, ".")
		if !dotted || members[head] == nil {
			return store.Cell{}
		}
		return cellByMap(t, string(members[head]), rest)
	}
	switch s := string(v); s[0] {
	case 'n':
		return store.Cell{}
	case 't', 'f':
		return store.Cell{Kind: store.CellBool, Text: s}
	case '{', '[':
		return store.Cell{Kind: store.CellJSON, Text: s}
	case '"':
		var text string
		if err := json.Unmarshal(v, &text); err != nil {
			t.Fatal(err)
		}
		return store.Cell{Kind: store.CellText, Text: text}
	default:
		return store.Cell{Kind: store.CellNumber, Text: s}
	}
}

func BenchmarkRowMapper(b *testing.B) {
	var raws []string
	for i := range 1024 {
		raws = append(raws, sampleElement(i))
	}
	for _, bench := range []struct{ name, fields string }{
		{"2 columns", "id event"}, {"7 columns", "id event email timestamp ip ua campaign"},
	} {
		b.Run(bench.name, func(b *testing.B) {
			m := newMapper(b, "id", strings.Fields(bench.fields)...)
			var cells []store.Cell
			b.SetBytes(int64(len(raws[0])))
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				var err error
				if cells, err = m.Append(raws[i&1023], cells[:0]); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
