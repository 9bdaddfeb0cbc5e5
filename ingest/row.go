package ingest

import (
	"fmt"
	"slices"
	"strings"

	"sluice/lib/jsonscan"
	"sluice/store"
)

// MaxRowColumns bounds how many columns a RowMapper fills.
const MaxRowColumns = 256

// RowColumn is a column of a user's table and the field that fills it.
type RowColumn struct {
	Column string

	// Field is a member's name. "$" is the whole element. If no member has the
	// name and it contains dots, it is a path: "a.b" is the member b of the
	// object a.
	Field string
}

// RowMapper makes rows of elements. It holds nothing of what it reads, so any
// number of goroutines may use one.
type RowMapper struct {
	columns []RowColumn
	dedupe  int   // the column of the element's own id; -1: none
	whole   []int // columns of "$"

	// The fields as they are looked up: a hash table, open addressing, at most
	// a quarter full, of places in fields plus 1. Go's map takes twice as
	// long for the few short keys that are asked here, most of them in vain.
	table  []uint16
	fields []rowField
}

// rowField is a member that fills columns.
type rowField struct {
	name  string
	exact []int     // columns that are filled from this name
	paths []rowPath // columns that have a path beginning here
}

type rowPath struct {
	column int
	rest   string // of the path
}

// NewRowMapper makes a mapper for the columns, in this order. dedupe is the
// field that holds the element's own id, empty if none does.
func NewRowMapper(columns []RowColumn, dedupe string) (*RowMapper, error) {
	if len(columns) == 0 || len(columns) > MaxRowColumns {
		return nil, fmt.Errorf("map rows: %d columns, want 1 to %d", len(columns), MaxRowColumns)
	}
	m := &RowMapper{columns: slices.Clone(columns), dedupe: -1}
	for i, c := range columns {
		if c.Column == "" || c.Field == "" {
			return nil, fmt.Errorf("map rows: column %d: want a column and a field, got %q and %q", i+1, c.Column, c.Field)
		}
		if c.Field == dedupe && m.dedupe < 0 {
			m.dedupe = i
		}
		if c.Field == "$" {
			m.whole = append(m.whole, i)
			continue
		}
		f := m.field(c.Field)
		f.exact = append(f.exact, i)
		if head, rest, dotted := strings.Cut(c.Field, "."); dotted {
			f := m.field(head)
			f.paths = append(f.paths, rowPath{i, rest})
		}
	}
	if dedupe == "$" || dedupe != "" && m.dedupe < 0 {
		return nil, fmt.Errorf("map rows: dedupe field %s fills no column; map one to it", dedupe)
	}
	m.buildTable()
	return m, nil
}

// field returns the entry of a member's name, making it if need be.
func (m *RowMapper) field(name string) *rowField {
	for i := range m.fields {
		if m.fields[i].name == name {
			return &m.fields[i]
		}
	}
	m.fields = append(m.fields, rowField{name: name})
	return &m.fields[len(m.fields)-1]
}

func (m *RowMapper) buildTable() {
	size := 16
	for size < 4*len(m.fields) {
		size *= 2
	}
	m.table = make([]uint16, size)
	for i := range m.fields {
		at := hashKey(m.fields[i].name) & (size - 1)
		for m.table[at] != 0 {
			at = (at + 1) & (size - 1)
		}
		m.table[at] = uint16(i + 1)
	}
}

// hashKey looks at the length and three bytes, which tells column names apart
// well enough: those in the table are from the configuration.
func hashKey(key string) int {
	if key == "" {
		return 0
	}
	n := len(key)
	return n + int(key[0])*7 + int(key[n/2])*31 + int(key[n-1])*61
}

// find returns the entry of a member's name, or nil.
func (m *RowMapper) find(key string) *rowField {
	for at := hashKey(key); ; at++ {
		i := m.table[at&(len(m.table)-1)]
		if i == 0 {
			return nil
		}
		if f := &m.fields[i-1]; f.name == key {
			return f
		}
	}
}

// Append appends the row that an element makes, one cell a column. What the
// element does not have is null; of a repeated key the last one counts. The
// cells share memory with raw, but for strings with escapes.
//
// The error is the reason of a dead letter, as of ParseEvent; cells are then
// returned as they were.
func (m *RowMapper) Append(raw string, cells []store.Cell) ([]store.Cell, error) {
	if err := checkSize(raw); err != nil {
		return cells, err
	}
	base := len(cells)
	cells = slices.Grow(cells, len(m.columns))[:base+len(m.columns)]
	row := cells[base:]
	clear(row)
	if err := m.fill(raw, row); err != nil {
		return cells[:base], err
	}
	return cells, nil
}

func (m *RowMapper) fill(raw string, row []store.Cell) error {
	var exact [MaxRowColumns / 64]uint64 // columns filled by the name as a whole
	there := len(m.whole) > 0            // a mapped field is
	members := jsonscan.Read(raw)
	for members.Next() {
		f := m.find(members.Key)
		if f == nil {
			continue
		}
		there = there || len(f.exact) > 0
		for _, c := range f.exact {
			row[c] = cellOf(&members.Value)
			exact[c/64] |= 1 << (c % 64)
		}
		for _, p := range f.paths {
			if exact[p.column/64]&(1<<(p.column%64)) == 0 {
				v := reach(members.Value, p.rest)
				row[p.column] = cellOf(&v)
				there = there || v.Kind != jsonscan.None
			}
		}
	}
	if err := members.Err(); err != nil {
		return err
	}
	for _, c := range m.whole {
		row[c] = store.Cell{Kind: store.CellJSON, Text: strings.Trim(raw, " \t\r\n")}
	}
	if m.dedupe >= 0 {
		return m.checkID(&row[m.dedupe])
	}
	if !there {
		return m.nothing()
	}
	return nil
}

// nothing refuses an element that fills no column: the row would say nothing, and
// what the element says would be lost. A mapped field that is null fills its column.
func (m *RowMapper) nothing() error {
	names := make([]string, 0, len(m.columns))
	for _, c := range m.columns {
		names = append(names, c.Field)
	}
	return fmt.Errorf("none of the mapped fields is there: %s", strings.Join(names[:min(len(names), 10)], ", "))
}

// checkID refuses a row without an id of its own. A null counts as new each
// time. An empty text or a boolean counts as a repeat of the row that had it
// before.
func (m *RowMapper) checkID(c *store.Cell) error {
	kind := [...]jsonscan.Kind{
		store.CellNull: jsonscan.Null, store.CellText: jsonscan.String, store.CellNumber: jsonscan.Number,
		store.CellBool: jsonscan.Bool, store.CellJSON: jsonscan.Object,
	}[c.Kind]
	if kind == jsonscan.Object && c.Text[0] == '[' {
		kind = jsonscan.Array
	}
	field := m.columns[m.dedupe].Field
	if err := checkDedupe(field, kind); err != nil {
		return err
	}
	if trim(c.Text) == "" {
		return errNoDedupe(field)
	}
	return nil
}

// cellOf returns a value as a cell.
func cellOf(v *jsonscan.Value) store.Cell {
	switch v.Kind {
	case jsonscan.String:
		return store.Cell{Kind: store.CellText, Text: v.Text()}
	case jsonscan.Number:
		return store.Cell{Kind: store.CellNumber, Text: v.Raw}
	case jsonscan.Bool:
		return store.Cell{Kind: store.CellBool, Text: v.Raw}
	case jsonscan.Object, jsonscan.Array:
		return store.Cell{Kind: store.CellJSON, Text: v.Raw}
	}
	return store.Cell{}
}

// reach follows a path of dots into a value, and returns what is there or the
// zero Value. As with whole elements, a member named like the whole path goes
// before one that is its first part. The value is known to be valid.
func reach(v jsonscan.Value, path string) jsonscan.Value {
	for v.Kind == jsonscan.Object {
		head, rest, dotted := strings.Cut(path, ".")
		var exact, first jsonscan.Value
		m := jsonscan.Read(v.Raw)
		for m.Next() {
			if m.Key == path {
				exact = m.Value
			} else if dotted && m.Key == head {
				first = m.Value
			}
		}
		if exact.Kind != jsonscan.None || !dotted {
			return exact
		}
		v, path = first, rest
	}
	return jsonscan.Value{}
}
