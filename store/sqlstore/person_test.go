package sqlstore_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sluice"
	"sluice/store"
	"sluice/store/sqlstore"
	"sluice/user"
)

// peopleWith are people with events, 500 a partition.
func peopleWith(many int) (e store.Effect) {
	e.Moves, e.Users = effectTo(1, nil).Moves, &user.Changes{}
	for i := range many {
		at := 1_760_000_000_000 + int64(i)*1000
		id := user.ID{Partition: i % 4, Number: int64(i + 1)}
		name := fmt.Sprintf("u-%d", i)
		e.Users.Put = append(e.Users.Put, user.Row{ID: id, Profile: "{}"})
		e.Users.AddKeys = append(e.Users.AddKeys, user.KeyRow{Key: user.Key{Kind: user.KeyExternal, Name: name}, ID: id})
		e.Users.AddAddress = append(e.Users.AddAddress, user.KeyRow{Key: user.Key{Kind: user.KeyEmail, Name: name + "@example.com"}, ID: id})
		e.Events = append(e.Events, store.StoredEvent{
			Place: sluice.Place{Partition: i % 4, Position: sluice.Position{Major: uint64(at)}, Index: i},
			Event: sluice.Event{Kind: sluice.KindCustom, Name: "order", User: name, TimeMillis: at},
		})
	}
	return e
}

// What is asked about one person is found by a range of an index, whatever the database:
// no table is read whole.
func TestPeopleAreFoundByIndex(t *testing.T) {
	e := peopleWith(8000)
	maria, pg, file := newDatabase(t), newPostgresDatabase(t), filepath.Join(t.TempDir(), "s.db")
	span := []string{"2", "1760004000000", "1760004000000", "0", "0", "9", "1760001000000"}
	for _, c := range []struct{ url, driver, dsn, explain, analyze string }{
		{"sqlite:" + file, "sqlite", file, "EXPLAIN QUERY PLAN ", "ANALYZE "},
		{postgres.SocketURL(pg), "pgx", postgres.SocketURL(pg), "EXPLAIN ", "ANALYZE "},
		{mariadb.SocketURL(maria), "mysql", mariadb.DSN(maria), "EXPLAIN ", "ANALYZE TABLE "},
	} {
		s := migrated(t, c.url, sqlstore.Options{})
		must(t, apply(t.Context(), s, &e))
		db := bypass(t, c.driver, c.dsn)
		for _, table := range []string{"events", "user_keys", "user_addresses"} {
			exec(t, db, c.analyze+table)
		}
		for query, values := range map[string][]string{
			"person_piece":        append(span[:7:7], "2000"),
			"person_events":       append(span[:7:7], "1760001000000", "0", "0", "5", "'u-2002'"),
			"person_newest":       {"2", "1760004000000"},
			"user_keys_from":      {"1", "'u-77'", "'u-78'", "50"},
			"user_addresses_from": {"3", "'u-77'", "'u-78'", "50"},
		} {
			text, err := os.ReadFile(filepath.Join("query", query+".sql"))
			must(t, err)
			statement := strings.NewReplacer("$WINDOW", "", "$NAMES", "?").Replace(string(text))
			for _, value := range values {
				statement = strings.Replace(statement, "?", value, 1)
			}
			plan := fmt.Sprint(queryTexts(t, db, c.explain+statement))
			// A sort is of the rows of the range, which are few: PostgreSQL may prefer it.
			byIndex := strings.Contains(plan, "log_position") || strings.Contains(plan, "part_pos_major") || strings.Contains(plan, "PRIMARY") || strings.Contains(plan, "_pkey")
			if !byIndex || strings.Contains(plan, "Seq Scan on events_before") || strings.Contains(plan, "Seq Scan on user_") || strings.Contains(plan, "SCAN events") || strings.Contains(plan, "SCAN user_") {
				t.Errorf("%s on %s: %s", query, c.driver, plan)
			}
			if c.driver == "mysql" && strings.Contains(plan, "filesort") && query != "person_piece" { // its outer part sorts places
				t.Errorf("%s on %s: %s", query, c.driver, plan)
			}
		}
	}
}
