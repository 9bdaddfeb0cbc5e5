package sqlstore_test

import (
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"sluice"
	"sluice/store"
	"sluice/store/sqlstore"
	"sluice/test/storetest"
)

// databasesOfAllKinds opens an empty database of each kind, with our schema.
func databasesOfAllKinds(t *testing.T) map[string]*sqlstore.Store {
	t.Helper()
	name := newDatabase(t)
	if err := postgres.CreateDatabase(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	all := map[string]*sqlstore.Store{
		"sqlite":   open(t, "sqlite:"+filepath.Join(t.TempDir(), "dump.db"), sqlstore.Options{}),
		"mysql":    open(t, mariadb.SocketURL(name), sqlstore.Options{}),
		"postgres": open(t, postgres.SocketURL(name), sqlstore.Options{}),
	}
	for _, s := range all {
		if err := s.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// A dump of any database goes into any other, and is the same there.
func TestRestoreAcrossDatabases(t *testing.T) {
	all := databasesOfAllKinds(t)
	storetest.Fill(t, all["sqlite"])
	dump := storetest.Dump(t, all["sqlite"])
	for _, name := range []string{"postgres", "mysql", "sqlite"} {
		r, err := all[name].BeginRestore(t.Context(), name == "sqlite")
		if err != nil {
			t.Fatal(err)
		}
		storetest.PutBack(t, r, dump)
		if err := r.Finish(t.Context(), nil, nil); err != nil {
			t.Fatal(err)
		}
		got := storetest.Dump(t, all[name])
		for table := range dump {
			if !storetest.Raised(table) && !sameRows(dump[table], got[table]) {
				t.Errorf("%s: table %s came back as\n%.1500v\nit was\n%.1500v", name, table, got[table], dump[table])
			}
		}
		dump = got // and on to the next
	}
}

// A text that the other database does not store comes as it stores such texts.
func TestRestoreOfWhatIsNotStoredElsewhere(t *testing.T) {
	all := databasesOfAllKinds(t)
	p, err := all["sqlite"].Prepare(&store.Effect{Dead: []sluice.DeadLetter{{Source: "list:q", Reason: "a\x00b", Payload: []byte{0}}}})
	if err == nil {
		_, err = all["sqlite"].Apply(t.Context(), p)
	}
	if err != nil {
		t.Fatal(err)
	}
	r, err := all["postgres"].BeginRestore(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	storetest.PutBack(t, r, storetest.Dump(t, all["sqlite"]))
	letters, err := all["postgres"].DeadLetters(t.Context(), 0, 10)
	if err != nil || len(letters) != 1 || letters[0].Reason != "a\uFFFDb" {
		t.Errorf("dead letters: %+v, %v", letters, err)
	}
}

// sameRows compares cells as a multiset: collations order keys differently.
func sameRows(a, b []store.Cell) bool {
	order := func(x, y store.Cell) int { return strings.Compare(x.Text, y.Text) }
	a, b = slices.Clone(a), slices.Clone(b)
	slices.SortFunc(a, order)
	slices.SortFunc(b, order)
	return reflect.DeepEqual(a, b)
}

// No table and no column that a migration makes is forgotten by dumps: enter
// it in standardTables.
func TestStandardTablesAreAllTables(t *testing.T) {
	all := databasesOfAllKinds(t)
	for name, statement := range map[string]string{
		"sqlite":   "SELECT m.name, c.name FROM sqlite_master m, pragma_table_xinfo(m.name) c WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite_%' AND NOT (m.name = 'users' AND c.name = 'id')",
		"mysql":    "SELECT TABLE_NAME, COLUMN_NAME FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE()",
		"postgres": "SELECT c.relname::text, a.attname::text FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition AND a.attnum > 0 AND NOT a.attisdropped",
	} {
		var got, want []string
		for _, row := range sqlstore.QueryReads(t, all[name], statement) {
			if row[0] != "schema_version" && row[0] != "schema_readable" {
				got = append(got, row[0]+"."+row[1])
			}
		}
		for _, table := range sqlstore.StandardTables() {
			for _, c := range table.Columns {
				want = append(want, table.Name+"."+c.Name)
			}
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s has the columns\n%v\nstandardTables lists\n%v", name, got, want)
		}
	}
}
