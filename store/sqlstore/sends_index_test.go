package sqlstore_test

import (
	"bytes"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"sluice/mail"
	"sluice/store/sqlstore"
	"sluice/user"
)

// indexesOf are the indexes of a table of MariaDB, with their columns.
func indexesOf(t *testing.T, database, table string) string {
	t.Helper()
	var list []string
	for _, row := range queryTexts(t, bypass(t, "mysql", mariadb.DSN(database)), "SELECT index_name, GROUP_CONCAT(column_name ORDER BY seq_in_index) FROM information_schema.statistics WHERE table_schema = DATABASE() AND table_name = '"+table+"' GROUP BY index_name ORDER BY index_name") {
		list = append(list, row[0]+"("+row[1]+")")
	}
	return strings.Join(list, " ")
}

// TestIndexOfSendsIsChanged: wherever the change was cut off, it is finished.
func TestIndexOfSendsIsChanged(t *testing.T) {
	const before, after = "PRIMARY(message,number) send_state(state)", "PRIMARY(message,number) send_accepted(accepted) send_state_part(state,part) send_user(user_part,user_number,message,number,accepted)"
	database := newDatabase(t)
	s := open(t, mariadb.SocketURL(database), sqlstore.Options{})
	sqlstore.MigrateTo(t, s, 16)
	if got := indexesOf(t, database, "sends"); got != before {
		t.Fatalf("indexes before: %s", got)
	}
	db := bypass(t, "mysql", mariadb.DSN(database))
	for _, cut := range []string{
		"CREATE INDEX send_state_part ON sends (state, part)",                                      // before the other one is dropped
		"DELETE FROM schema_version WHERE version >= 17",                                           // before it is noted
		"DELETE FROM schema_version WHERE version >= 17; DROP INDEX send_state_part ON sends",      // neither index, in some unknown way
		"DELETE FROM schema_version WHERE version >= 17; CREATE INDEX send_state ON sends (state)", // the same
		"DELETE FROM schema_version WHERE version >= 21; DROP INDEX send_user ON sends",            // the columns are there
		"DELETE FROM schema_version WHERE version >= 36",                                           // the last index is there
	} {
		for statement := range strings.SplitSeq(cut, "; ") {
			exec(t, db, statement)
		}
		must(t, s.Migrate(t.Context()))
		if got := indexesOf(t, database, "sends"); got != after {
			t.Errorf("after %s: %s", cut, got)
		}
	}
}

// TestDoubtsHaveTheirIndexes: sends in doubt that are attempted again are found
// without reading those of other partitions, or those that are not attempted
// again. The latter are counted without being read.
func TestDoubtsHaveTheirIndexes(t *testing.T) {
	accepted, outcomes := benchSends(0)
	accepted.Sends, accepted.Events = accepted.Sends[:4800], nil
	outcomes.Outcomes, outcomes.Events = outcomes.Outcomes[:4800], nil
	for i := range outcomes.Outcomes {
		outcomes.Outcomes[i].State = mail.SendInDoubt
	}
	accepted.Moves, outcomes.Moves = effectTo(1, nil).Moves, effectTo(2, nil).Moves
	name, file := newPostgresDatabase(t), filepath.Join(t.TempDir(), "s.db")
	for _, c := range []struct{ url, driver, dsn, explain string }{
		{"sqlite:" + file, "sqlite", file, "EXPLAIN QUERY PLAN "},
		{postgres.SocketURL(name), "pgx", postgres.SocketURL(name), "EXPLAIN "},
	} {
		s := migrated(t, c.url, sqlstore.Options{})
		must(t, apply(t.Context(), s, &accepted))
		must(t, apply(t.Context(), s, &outcomes))
		db := bypass(t, c.driver, c.dsn)
		exec(t, db, "ANALYZE sends")
		for query, want := range map[string]string{"sends_again": "send_again", "sends_lost": "send_undecided"} {
			text, err := os.ReadFile(filepath.Join("query", query+".sql"))
			must(t, err)
			for _, value := range map[string][]string{"sends_again": {"3", "'a'", "'a'", "1", "'g'", "'g'", "1", "50"}, "sends_lost": {"'lost'", "100"}}[query] {
				text = bytes.Replace(text, []byte("?"), []byte(value), 1)
			}
			if plan := fmt.Sprint(queryTexts(t, db, c.explain+string(text))); !strings.Contains(plan, want) {
				t.Errorf("%s on %s: %s", query, c.driver, plan)
			}
		}
	}
}

// Profiles of a partition are read in the order of its key also while PostgreSQL has no
// statistics, as for minutes after many were written.
func TestProfilesAreReadInOrder(t *testing.T) {
	name := newPostgresDatabase(t)
	migrated(t, postgres.SocketURL(name), sqlstore.Options{})
	db := bypass(t, "pgx", postgres.SocketURL(name))
	exec(t, db, "ALTER TABLE users SET (autovacuum_enabled = false)")
	exec(t, db, "INSERT INTO users (part, number, updated, to_part, to_number, profile) SELECT g % 16, g / 16 + 1, now(), 0, 0, repeat('x', 100) FROM generate_series(0, 199999) g")
	text, err := os.ReadFile(filepath.Join("query", "user_profiles.sql"))
	must(t, err)
	for _, value := range []string{"3", "100", "50"} {
		text = bytes.Replace(text, []byte("?"), []byte(value), 1)
	}
	if plan := fmt.Sprint(queryTexts(t, db, "EXPLAIN "+string(text))); !strings.Contains(plan, "Index Scan using users_pkey") || strings.Contains(plan, "Sort") {
		t.Error(plan)
	}
}

// TestSendsOfAUserHaveTheirIndex: they are read in its order. The newest of all are read in
// that of when they were accepted, so what is looked for by address (/v1/sends?to=) reads
// little more rows than it looks through: PostgreSQL sorts those of one moment.
func TestSendsOfAUserHaveTheirIndex(t *testing.T) {
	accepted, _ := benchSends(0)
	accepted.Sends, accepted.Events, accepted.Moves = accepted.Sends[:4800], nil, effectTo(1, nil).Moves
	accepted.Users = &user.Changes{}
	for i := range accepted.Sends {
		accepted.Sends[i].User = fmt.Sprint("u-", i/10)
		if id := (user.ID{Partition: 3, Number: int64(i/10 + 1)}); i%10 == 0 {
			accepted.Users.Put = append(accepted.Users.Put, user.Row{ID: id, Profile: "{}"})
			accepted.Users.AddKeys = append(accepted.Users.AddKeys, user.KeyRow{Key: user.Key{Kind: user.KeyExternal, Name: accepted.Sends[i].User}, ID: id})
		}
	}
	maria, pg, file := newDatabase(t), newPostgresDatabase(t), filepath.Join(t.TempDir(), "s.db")
	for _, c := range []struct{ url, driver, dsn, explain string }{
		{"sqlite:" + file, "sqlite", file, "EXPLAIN QUERY PLAN "},
		{postgres.SocketURL(pg), "pgx", postgres.SocketURL(pg), "EXPLAIN "},
		{mariadb.SocketURL(maria), "mysql", mariadb.DSN(maria), "EXPLAIN "},
	} {
		s := migrated(t, c.url, sqlstore.Options{})
		must(t, apply(t.Context(), s, &accepted))
		db := bypass(t, c.driver, c.dsn)
		if c.driver == "mysql" {
			exec(t, db, "ANALYZE TABLE sends")
		} else {
			exec(t, db, "ANALYZE sends")
		}
		later := map[string]string{"sqlite": "1900000000000", "pgx": "'2030-01-01T00:00:00Z'", "mysql": "'2030-01-01'"}[c.driver]
		for _, q := range []struct {
			name, want string
			values     []string
		}{
			{"sends_by_user", "send_user", []string{"3", "77", "'g'", "'g'", "0", "5"}},
			{"sends_newest", "send_accepted", []string{later, later, "'g'", "'g'", "0", "1000"}},
		} {
			text, err := os.ReadFile(filepath.Join("query", q.name+map[string]string{"pgx": ".postgres"}[c.driver]+".sql"))
			if err != nil {
				text, err = os.ReadFile(filepath.Join("query", q.name+".sql"))
			}
			must(t, err)
			for _, value := range q.values {
				text = bytes.Replace(text, []byte("?"), []byte(value), 1)
			}
			plan := fmt.Sprint(queryTexts(t, db, c.explain+strings.Replace(string(text), "$COLUMNS", "state", 1)))
			sorted := strings.Contains(strings.NewReplacer("Incremental Sort", "", "Presorted Key", "", "Sort Key", "").Replace(plan), "Sort")
			if !strings.Contains(plan, q.want) || strings.Contains(plan, "filesort") || sorted || strings.Contains(plan, "TEMP B-TREE") {
				t.Errorf("%s on %s: %s", q.name, c.driver, plan)
			}
		}
		wantHistoryByIndex(t, db, c.driver, c.explain)
	}
}

// wantHistoryByIndex: what people got is found by the index of sends by user, and what is
// counted since a time reads no rows of before.
func wantHistoryByIndex(t *testing.T, db *sql.DB, driver, explain string) {
	t.Helper()
	since := map[string]string{"sqlite": "1760000100000", "pgx": "'2025-10-09T09:00:00Z'", "mysql": "'2025-10-09 09:00:00'"}[driver]
	timed := map[string]string{"sqlite": "COVERING INDEX send_user", "pgx": "accepted >=", "mysql": "Using index condition"}[driver]
	counts := "mail_counts.sql"
	if driver == "sqlite" {
		counts = "mail_counts.sqlite.sql"
	}
	for _, c := range []struct {
		query  string
		values []string
		want   string
	}{{"mail_known.sql", []string{"3"}, "send_user"}, {counts, []string{"3", since, "'store'", "3"}, timed}} {
		text, err := os.ReadFile(filepath.Join("query", c.query))
		must(t, err)
		statement := strings.NewReplacer("$ANSWERS", ", MAX(CASE WHEN step = 'a' THEN 1 ELSE 0 END)", "$ANY", "step = 'a'", "$NAMES", "77, 78", "$SUMS", "COUNT(*) AS n0", "$COUNTS", "m.n0").Replace(string(text))
		for _, value := range c.values {
			statement = strings.Replace(statement, "?", value, 1)
		}
		plan := fmt.Sprint(queryTexts(t, db, explain+statement))
		if !strings.Contains(plan, "send_user") || !strings.Contains(plan, c.want) || driver == "pgx" && c.want == timed && !strings.Contains(plan, "Index Cond: ((user_part = 3) AND (user_number = ANY") {
			t.Errorf("%s on %s: %s", c.query, driver, plan)
		}
	}
}

// TestPagesOfSendsReadLittle: a page of one partition, or of those in doubt,
// reads rows of its own. Their number does not grow with the sends pending or
// in doubt in all others.
func TestPagesOfSendsReadLittle(t *testing.T) {
	const page, partitions, sends = 50, 16, 4800
	database := newDatabase(t)
	s := migrated(t, mariadb.SocketURL(database), sqlstore.Options{})
	accepted, outcomes := benchSends(0)
	accepted.Sends, accepted.Events = accepted.Sends[:sends], nil
	outcomes.Outcomes, outcomes.Events = outcomes.Outcomes[:sends/2], nil
	for i := range outcomes.Outcomes {
		outcomes.Outcomes[i].State = mail.SendInDoubt
	}
	accepted.Moves, outcomes.Moves = effectTo(1, nil).Moves, effectTo(2, nil).Moves
	must(t, apply(t.Context(), s, &accepted))
	must(t, apply(t.Context(), s, &outcomes))
	db := bypass(t, "mysql", mariadb.DSN(database))
	exec(t, db, "ANALYZE TABLE sends")
	reads := func() (n int) {
		for _, row := range queryTexts(t, db, "SHOW GLOBAL STATUS LIKE 'Handler_read%'") {
			more, err := strconv.Atoi(row[1])
			must(t, err)
			n += more
		}
		return n
	}
	own := -reads() + reads() // to ask reads something too
	middle := accepted.Sends[sends/4].Send.Key()
	for _, c := range []struct {
		name string
		most int
		read func() (int, error)
	}{
		{"keys that are in lanes, and those in doubt between them", 4 * page, func() (int, error) {
			keys, err := s.LaneKeys(t.Context(), 3, middle, page)
			return len(keys), err
		}},
		{"rows that wait", 2 * page, func() (int, error) {
			rows, err := s.WaitingSends(t.Context(), 3, middle, page)
			return len(rows), err
		}},
		{"rows in doubt", 5 * page * partitions, func() (int, error) {
			rows, err := s.InDoubt(t.Context(), middle.Message, middle.Number, page)
			return len(rows), err
		}},
	} {
		before := reads()
		n, err := c.read()
		must(t, err)
		if got := reads() - before - own; n != page || got > c.most {
			t.Errorf("%s: a page of %d among %d reads %d, want %d at most", c.name, n, sends, got, c.most)
		} else {
			t.Logf("%s: %d", c.name, got)
		}
	}
}
