package sqlstore_test

import (
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"sluice"
	"sluice/store/sqlstore"
	"sluice/user"
)

// TestUsersAreFoundByTheirIDs: in SQLite part and number of users are computed. A statement
// that asks for them, and not for the id, would read or sort all users.
func TestUsersAreFoundByTheirIDs(t *testing.T) {
	file := filepath.Join(t.TempDir(), "s.db")
	s := migrated(t, "sqlite:"+file, sqlstore.Options{})
	db := bypass(t, "sqlite", file)
	all := sqlstore.UserStatements(t, s)
	for _, name := range []string{"dump", "send_users", "user_by_key", "user_by_address", "user_chain", "user_profiles", "user_profiles_of", "user_put", "users_lock", "user_drop"} {
		if all[name] == "" {
			t.Errorf("%s is not among the statements that name users", name)
		}
	}
	const byID = "USING INTEGER PRIMARY KEY"
	for name, statement := range all {
		rows, err := db.QueryContext(t.Context(), "EXPLAIN QUERY PLAN "+strings.ReplaceAll(statement, "?", "1"))
		must(t, err)
		var plan []string
		for rows.Next() {
			var id, parent, unused int
			var detail string
			must(t, rows.Scan(&id, &parent, &unused, &detail))
			plan = append(plan, detail)
		}
		must(t, errors.Join(rows.Err(), rows.Close()))
		switch name {
		case "dump":
			if !slices.Equal(plan, []string{"SCAN users"}) { // in the order of the ids
				t.Errorf("%s: %s\n%s", name, plan, statement)
			}
			continue
		case "user_put":
			continue // an INSERT has no plan
		}
		if !strings.Contains(strings.Join(plan, "\n"), byID) {
			t.Errorf("%s looks nobody up: %s\n%s", name, plan, statement)
		}
		for _, step := range plan {
			of, users := strings.CutPrefix(strings.Replace(step, " users ", " u ", 1), "SEARCH u ")
			if users && !strings.HasPrefix(of, byID) || strings.HasPrefix(step, "SCAN u") || strings.Contains(step, "ORDER BY") {
				t.Errorf("%s: %s\n%s", name, step, statement)
			}
		}
	}
}

// oldUsers are users as schema 36 has them, at the edges of what the id takes.
var oldUsers = []user.Row{
	{ID: user.ID{Partition: 0, Number: 1}, UpdatedMillis: 1_760_000_000_001, Profile: `{"external_id":"ä"}`},
	{ID: user.ID{Partition: 0, Number: 1<<40 - 1}, UpdatedMillis: 2, Profile: `{"n":1}`},
	{ID: user.ID{Partition: 1, Number: 1}, UpdatedMillis: 3, MergedInto: user.ID{Partition: 0, Number: 1}},
	{ID: user.ID{Partition: 255, Number: 1<<40 - 1}, UpdatedMillis: 4, Profile: `{"n":2}`},
}

// beforeIDs makes a database of schema 36 that has oldUsers.
func beforeIDs(t *testing.T) (*sqlstore.Store, *sql.DB) {
	file := filepath.Join(t.TempDir(), "s.db")
	s := open(t, "sqlite:"+file, sqlstore.Options{})
	sqlstore.MigrateTo(t, s, 36)
	db := bypass(t, "sqlite", file)
	for _, u := range slices.Backward(oldUsers) {
		_, err := db.ExecContext(t.Context(), "INSERT INTO users (part, number, updated, to_part, to_number, profile) VALUES (?, ?, ?, ?, ?, ?)",
			u.ID.Partition, u.ID.Number, u.UpdatedMillis, u.MergedInto.Partition, u.MergedInto.Number, u.Profile)
		must(t, err)
	}
	return s, db
}

// TestUsersGetIDs: the migration takes all users along, and leaves an operator's view of
// them as it is.
func TestUsersGetIDs(t *testing.T) {
	s, db := beforeIDs(t)
	exec(t, db, "CREATE VIEW people AS SELECT part, number FROM users WHERE to_number = 0")
	const rows = "SELECT part, number, updated, to_part, to_number, profile FROM users ORDER BY part, number"
	before := queryTexts(t, db, rows)
	must(t, s.Migrate(t.Context()))
	if after := queryTexts(t, db, rows); len(after) != len(oldUsers) || !reflect.DeepEqual(after, before) {
		t.Errorf("before:\n%v\nafter:\n%v", before, after)
	}
	if got := queryTexts(t, db, "SELECT COUNT(*) FROM people"); got[0][0] != "3" {
		t.Errorf("the view shows %v", got)
	}
	var q user.Query
	for _, u := range oldUsers {
		q.IDs = append(q.IDs, u.ID)
	}
	a, err := s.Users(t.Context(), q)
	must(t, err)
	for _, u := range oldUsers {
		if a.Users[u.ID] != u {
			t.Errorf("user %s is %+v, want %+v", u.ID, a.Users[u.ID], u)
		}
	}
}

// TestUserWithoutIDEndsTheMigration: one who does not fit ends it, and all is as before.
func TestUserWithoutIDEndsTheMigration(t *testing.T) {
	s, db := beforeIDs(t)
	exec(t, db, "INSERT INTO users (part, number, updated, to_part, to_number, profile) VALUES (3, 1 << 40, 5, 0, 0, '{}')")
	if err := s.Migrate(t.Context()); err == nil || !strings.Contains(err.Error(), "0037") {
		t.Fatalf("migrate: %v", err)
	}
	if have, _, err := s.SchemaVersion(t.Context()); have != 36 || err != nil {
		t.Errorf("the schema has version %d: %v", have, err)
	}
	if got := queryTexts(t, db, "SELECT (SELECT COUNT(*) FROM users), (SELECT COUNT(*) FROM sqlite_master WHERE name = 'users_by_id')"); fmt.Sprint(got) != "[[5 0]]" {
		t.Errorf("users, and tables of the migration: %v", got)
	}
	exec(t, db, "DELETE FROM users WHERE number = 1 << 40")
	must(t, s.Migrate(t.Context()))
	if got := queryTexts(t, db, "SELECT COUNT(*) FROM users WHERE id = 255 << 40 | 1099511627775"); got[0][0] != "1" {
		t.Errorf("after another attempt: %v", got)
	}
}

// TestForeignKeyToUsersEndsTheMigration: with the old table it would delete rows of a table
// of an operator, and later no user could be deleted.
func TestForeignKeyToUsersEndsTheMigration(t *testing.T) {
	s, db := beforeIDs(t)
	exec(t, db, "CREATE TABLE notes (p INTEGER, n INTEGER, FOREIGN KEY (p, n) REFERENCES Users (part, number) ON DELETE CASCADE)")
	exec(t, db, "INSERT INTO notes VALUES (0, 1)")
	if err := s.Migrate(t.Context()); err == nil || !strings.Contains(err.Error(), "a foreign key of another table is to users, drop it") {
		t.Errorf("migrate: %v", err)
	}
	if got := queryTexts(t, db, "SELECT (SELECT COUNT(*) FROM users), (SELECT COUNT(*) FROM notes)"); fmt.Sprint(got) != "[[4 1]]" {
		t.Errorf("users and notes: %v", got)
	}
	exec(t, db, "DROP TABLE notes")
	must(t, s.Migrate(t.Context()))
}

// TestUserBeyondTheIDIsNobody: who does not fit is refused, and is never taken for another.
func TestUserBeyondTheIDIsNobody(t *testing.T) {
	s := migrated(t, "sqlite:"+filepath.Join(t.TempDir(), "s.db"), sqlstore.Options{})
	other := user.Row{ID: user.ID{Partition: 1, Number: 5}, UpdatedMillis: 1, Profile: "{}"}
	e := effectTo(1, nil)
	e.Users = &user.Changes{Put: []user.Row{other}}
	must(t, apply(t.Context(), s, e))
	beyond := user.ID{Partition: 0, Number: 1<<40 | 5}
	for _, id := range []user.ID{beyond, {Partition: 1 << 23, Number: 1}, {Partition: 1, Number: -1}} {
		e := effectTo(2, nil)
		e.Users = &user.Changes{Put: []user.Row{{ID: id, UpdatedMillis: 1, Profile: "{}"}}}
		if err := apply(t.Context(), s, e); err == nil || !strings.Contains(err.Error(), "SQLite takes users up to number 1099511627775") {
			t.Errorf("user %d of partition %d: %v", id.Number, id.Partition, err)
		}
	}
	a, err := s.Users(t.Context(), user.Query{IDs: []user.ID{beyond}})
	if err != nil || len(a.Users) != 0 {
		t.Errorf("looked for one beyond, found %+v: %v", a.Users, err)
	}
	e = effectTo(2, nil)
	e.Users = &user.Changes{Stay: []user.ID{beyond}}
	if err := apply(t.Context(), s, e); !errors.Is(err, sluice.ErrConflict) {
		t.Errorf("one beyond stays: %v", err)
	}
	e = effectTo(2, nil)
	e.Users = &user.Changes{Drop: []user.ID{beyond}}
	must(t, apply(t.Context(), s, e))
	for part, want := range []int{0, 1} {
		for _, after := range []int64{0, -1, 4, 5, 1<<40 - 1, 1 << 40, 1<<63 - 1} {
			var found []int64
			must(t, s.EachProfile(t.Context(), part, after, 10, func(number int64, _ string) bool {
				found = append(found, number)
				return true
			}))
			if there := want == 1 && after < 5; there != slices.Equal(found, []int64{5}) || !there && len(found) > 0 {
				t.Errorf("partition %d after %d: %d", part, after, found)
			}
		}
	}
}
