package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"

	"sluice/lib/nearest"
	"sluice/store"
)

// class is what a column is to the cells that go into it.
type class uint8

const (
	classText    class = iota // takes every cell as its text
	classNumber               // takes booleans as 1 and 0
	classBit                  // a MySQL BIT: a number that a text must be cast to
	classInteger              // a SQLite INTEGER or NUMERIC: 64 bits, or refused
	classAny                  // a SQLite column without a type: as it was written
)

// target is a table as rows go into it.
type target struct {
	name    string   // quoted
	columns []string // quoted
	dedupe  bool     // rows whose id is there already are duplicates
	keys    []key    // the unique keys which say so
	foreign bool     // it is not of this program: its texts may be of another character set
}

// key is a unique key.
type key struct {
	name    string
	columns []string
}

// uniqueKeys reads rows of an index and one of its columns, in their order.
func uniqueKeys(ctx context.Context, d dialect, db *sql.DB, args ...any) (keys []key, err error) {
	err = eachOf(ctx, d, db, rawQuery(d, "unique_keys"), args, func(scan scanner) error {
		var index, col string
		err := scan(&index, &col)
		if len(keys) == 0 || keys[len(keys)-1].name != index {
			keys = append(keys, key{name: index})
		}
		k := &keys[len(keys)-1]
		k.columns = append(k.columns, col) // "" (an expression) is no mapped column
		return err
	})
	return keys, err
}

// table is a user's table that the store has looked at.
type table struct {
	target
	spec    store.TableSpec
	classes []class
}

// Spec returns what OpenTable was given.
func (t *table) Spec() store.TableSpec { return t.spec }

var eventColumns = columnNames(standardTableOf("events").columns)

// eventTarget is the table events, whose key tells repeats: an event whose time and
// id are stored already is left out. Each dialect does that in its load: by
// INSERT IGNORE or LOAD DATA and their warnings (mysql_load.go, bulk), by ON CONFLICT
// DO NOTHING (postgres_load.go, onConflict; sqlite_load.go, insertStatement). What is
// left out is counted in store.Applied.Duplicates.
var eventTarget = &target{
	name: "events", columns: eventColumns, dedupe: true,
	keys: []key{{name: "PRIMARY", columns: []string{"time", "event_id"}}},
}

var deadColumns = columnNames(standardTableOf("dead_letters").columns[1:]) // the database gives them their ids

var deadTarget = &target{name: "dead_letters", columns: deadColumns}

// OpenTable looks at a user's table.
func (s *Store) OpenTable(ctx context.Context, spec store.TableSpec) (store.Table, error) {
	err := checkSpec(spec)
	if err == nil {
		var t *table
		if t, err = s.d.inspect(ctx, s.reads, spec); err == nil {
			return t, nil
		}
	}
	return nil, s.failed(err, "open table %q in", spec.Table)
}

func checkSpec(spec store.TableSpec) error {
	if spec.Table == "" || len(spec.Columns) == 0 {
		return fmt.Errorf("name the table and at least one column")
	}
	for i, c := range spec.Columns {
		if slices.ContainsFunc(spec.Columns[:i], func(o string) bool { return strings.EqualFold(o, c) }) {
			return fmt.Errorf("column %q is named twice", c)
		}
	}
	if spec.Dedupe != "" && !slices.Contains(spec.Columns, spec.Dedupe) {
		return fmt.Errorf("the column %q that holds the event's id is not among the columns", spec.Dedupe)
	}
	return nil
}

// column is what a database says about one.
type column struct {
	name      string
	class     class
	generated bool
	nullable  bool
	required  bool // NOT NULL and without a default
}

// mapColumns finds the columns a spec names and says what is wrong with them.
func mapColumns(spec store.TableSpec, columns []column) ([]class, error) {
	classes := make([]class, len(spec.Columns))
	names := make([]string, len(columns))
	for i := range columns {
		names[i] = columns[i].name
	}
	for i, name := range spec.Columns {
		at := slices.IndexFunc(names, func(n string) bool { return strings.EqualFold(n, name) })
		if at < 0 {
			return nil, fmt.Errorf("it has no column %q; the nearest is %q", name, nearest.Closest(name, names))
		}
		if columns[at].generated {
			return nil, fmt.Errorf("its column %q is computed by the database: leave it out", name)
		}
		classes[i] = columns[at].class
	}
	for _, c := range columns {
		mapped := slices.ContainsFunc(spec.Columns, func(n string) bool { return strings.EqualFold(n, c.name) })
		if c.required && !c.generated && !mapped {
			return nil, fmt.Errorf("its column %q is NOT NULL without a default and nothing is mapped to it: map it, or give it a default", c.name)
		}
	}
	return classes, nil
}

// judge compares a table with its spec. keys reads the unique keys, if they matter;
// advice is the statement that adds one.
func (t *table) judge(columns []column, keys func() ([]key, error), advice func() string) (*table, error) {
	var err error
	if t.classes, err = mapColumns(t.spec, columns); err != nil {
		return nil, err
	}
	if t.dedupe = t.spec.Dedupe != ""; !t.dedupe {
		return t, nil
	}
	unique, err := keys()
	if err == nil {
		t.keys, err = dedupeKeys(t.spec, unique, columns)
	}
	if err == nil && len(t.keys) == 0 {
		err = fmt.Errorf("no unique key tells its rows apart by %q: %s", t.spec.Dedupe, advice())
	}
	if err != nil {
		return nil, err
	}
	return t, nil
}

// dedupeKeys picks the unique keys that tell duplicates by the event's id: they
// hold that column, and no other but mapped ones. It returns none if there is
// none, and fails if all of them let repeats in. NULL equals nothing, so a key
// is blind to rows in which another of its columns is NULL. (Beside one that
// sees, the blind ones stay: a row that violates them is a repeat too.)
func dedupeKeys(spec store.TableSpec, keys []key, columns []column) ([]key, error) {
	same := func(name string) func(string) bool {
		return func(o string) bool { return strings.EqualFold(o, name) }
	}
	var fit []key
	var blind string // the column for which the last key is
	sees := false
	for _, k := range keys {
		foreign := slices.ContainsFunc(k.columns, func(c string) bool { return !slices.ContainsFunc(spec.Columns, same(c)) })
		if foreign || !slices.ContainsFunc(k.columns, same(spec.Dedupe)) {
			continue
		}
		fit = append(fit, k)
		at := slices.IndexFunc(columns, func(c column) bool {
			return c.nullable && !strings.EqualFold(c.name, spec.Dedupe) && slices.ContainsFunc(k.columns, same(c.name))
		})
		if at < 0 {
			sees = true
		} else {
			blind = columns[at].name
		}
	}
	if len(fit) > 0 && !sees {
		return nil, fmt.Errorf("its unique key over %s lets repeats in: %q may be NULL, and NULL equals nothing: make that column NOT NULL, or add a UNIQUE key over %q alone",
			strings.Join(fit[len(fit)-1].columns, ", "), blind, spec.Dedupe)
	}
	return fit, nil
}
