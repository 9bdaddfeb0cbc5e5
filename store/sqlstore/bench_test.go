package sqlstore_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"sluice"
	"sluice/store"
	"sluice/store/sqlstore"
)

// effectRows is the size of the effects below, about what a store follower
// applies under load.
const effectRows = 20_000

// twoColumns makes rows of a number and a word.
func twoColumns(table store.Table) store.TableRows {
	words := []string{"opened", "clicked", "sent", "delivered"}
	rows := store.TableRows{Table: table, Source: "list:bench"}
	for i := range effectRows {
		rows.Cells = append(rows.Cells, store.Cell{Kind: store.CellNumber, Text: strconv.Itoa(1_000_000 + i)}, store.Cell{Kind: store.CellText, Text: words[i%4]})
		rows.Raw = append(rows.Raw, "")
	}
	return rows
}

func openTable(b *testing.B, s *sqlstore.Store, dedupe string) store.Table {
	b.Helper()
	table, err := s.OpenTable(b.Context(), store.TableSpec{Table: "pepi_event", Columns: []string{"id", "event_name"}, Dedupe: dedupe})
	must(b, err)
	return table
}

func mariadbStore(b *testing.B) *sqlstore.Store {
	database := newDatabase(b)
	s := migrated(b, mariadb.SocketURL(database), sqlstore.Options{})
	exec(b, bypass(b, "mysql", mariadb.DSN(database)), "CREATE TABLE pepi_event (id BIGINT, event_name VARCHAR(32))")
	return s
}

func sqliteStore(b *testing.B) (*sqlstore.Store, string) {
	file := filepath.Join(b.TempDir(), "bench.db")
	s := migrated(b, "sqlite:"+file, sqlstore.Options{})
	exec(b, bypass(b, "sqlite", file), "CREATE TABLE pepi_event (id BIGINT, event_name VARCHAR(32))")
	return s, file
}

func perRow(b *testing.B) {
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*effectRows), "ns/row")
}

func benchmarkPrepare(b *testing.B, s *sqlstore.Store, effect *store.Effect) {
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		p, err := s.Prepare(effect)
		must(b, err)
		sqlstore.Release(p)
	}
	perRow(b)
}

func BenchmarkPrepareRows(b *testing.B) {
	s := mariadbStore(b)
	benchmarkPrepare(b, s, &store.Effect{Rows: []store.TableRows{twoColumns(openTable(b, s, ""))}})
}

func BenchmarkPrepareEvents(b *testing.B) {
	benchmarkPrepare(b, mariadbStore(b), &store.Effect{Events: events(effectRows)})
}

// benchmarkApply applies the same rows again and again; next makes them new.
func benchmarkApply(b *testing.B, s *sqlstore.Store, next func(*store.Effect)) {
	b.ResetTimer()
	for i := range uint64(b.N) {
		effect := effectTo(i+1, nil)
		next(effect)
		must(b, apply(context.Background(), s, effect))
	}
	perRow(b)
}

func newEvents() func(*store.Effect) {
	list, millis := events(effectRows), int64(0)
	return func(e *store.Effect) {
		for i := range list {
			list[i].TimeMillis += 60_000
			list[i].Place.Position.Major++
			list[i].ID = fmt.Sprintf("e%015x", uint64(millis+int64(i))*0x9e3779b97f4a7c15>>4)
		}
		millis += effectRows
		e.Events = list
	}
}

func BenchmarkMariaDBRows(b *testing.B) {
	s := mariadbStore(b)
	rows := twoColumns(openTable(b, s, ""))
	benchmarkApply(b, s, func(e *store.Effect) { e.Rows = []store.TableRows{rows} })
}

func BenchmarkMariaDBRowsInsert(b *testing.B) {
	s := mariadbStore(b)
	sqlstore.ForbidInfile(s)
	rows := twoColumns(openTable(b, s, ""))
	benchmarkApply(b, s, func(e *store.Effect) { e.Rows = []store.TableRows{rows} })
}

func BenchmarkMariaDBEvents(b *testing.B) { benchmarkApply(b, mariadbStore(b), newEvents()) }

func BenchmarkMariaDBDead(b *testing.B) {
	s := mariadbStore(b)
	letters := make([]sluice.DeadLetter, effectRows)
	for i := range letters {
		letters[i] = sluice.DeadLetter{Source: "list:bench", Form: sluice.FormElement, Reason: "it is not JSON", Payload: []byte("{element that is cut")}
	}
	benchmarkApply(b, s, func(e *store.Effect) { e.Dead = letters })
}

func postgresStore(b *testing.B) (*sqlstore.Store, *sql.DB) {
	database := newPostgresDatabase(b)
	s := migrated(b, postgres.SocketURL(database), sqlstore.Options{})
	db := bypass(b, "pgx", postgres.SocketURL(database))
	exec(b, db, "CREATE TABLE pepi_event (id BIGINT, event_name VARCHAR(32))")
	return s, db
}

func BenchmarkPostgresRows(b *testing.B) {
	s, _ := postgresStore(b)
	rows := twoColumns(openTable(b, s, ""))
	benchmarkApply(b, s, func(e *store.Effect) { e.Rows = []store.TableRows{rows} })
}

// BenchmarkPostgresEvents compares the ways into a table with a key.
func BenchmarkPostgresEvents(b *testing.B) {
	b.Run("straight", func(b *testing.B) {
		s, _ := postgresStore(b)
		benchmarkApply(b, s, newEvents())
	})
	b.Run("through a temporary table", func(b *testing.B) {
		s, _ := postgresStore(b)
		next := newEvents()
		benchmarkApply(b, s, func(e *store.Effect) { sqlstore.LoadThrough(s); next(e) })
	})
	b.Run("jsonb", func(b *testing.B) {
		s, db := postgresStore(b)
		exec(b, db, "ALTER TABLE events ALTER properties TYPE jsonb USING properties::jsonb")
		benchmarkApply(b, s, newEvents())
	})
}

// BenchmarkPostgresPlain is what the store is measured against: COPY of the
// same rows from a file of the server's.
func BenchmarkPostgresPlain(b *testing.B) {
	for _, table := range []string{"pepi_event", "events"} {
		b.Run(table, func(b *testing.B) {
			s, db := postgresStore(b)
			file := filepath.Join(postgres.Dir(), table+".tsv")
			next := newEvents()
			b.ResetTimer()
			for i := range uint64(b.N) {
				b.StopTimer()
				effect := effectTo(i+1, nil)
				if table == "events" {
					next(effect)
				} else {
					effect.Rows = []store.TableRows{twoColumns(openTable(b, s, ""))}
				}
				p, err := s.Prepare(effect)
				must(b, err)
				columns, text := sqlstore.Encoded(p)
				must(b, os.WriteFile(file, text, 0o644))
				b.StartTimer()
				exec(b, db, "COPY "+table+" ("+columns+") FROM '"+file+"'")
			}
			perRow(b)
		})
	}
}

func BenchmarkSQLiteRows(b *testing.B) {
	for _, n := range []int{1, 8, 32, 64, 128} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			defer sqlstore.SetInsertValues(2 * n)()
			s, _ := sqliteStore(b)
			rows := twoColumns(openTable(b, s, ""))
			benchmarkApply(b, s, func(e *store.Effect) { e.Rows = []store.TableRows{rows} })
		})
	}
}

func BenchmarkSQLiteEvents(b *testing.B) {
	for _, n := range []int{1, 4, 8, 9, 16, 32} {
		b.Run(strconv.Itoa(n), func(b *testing.B) {
			defer sqlstore.SetInsertValues(13 * n)()
			s, _ := sqliteStore(b)
			benchmarkApply(b, s, newEvents())
		})
	}
}

// BenchmarkSQLitePlain is what the store is measured against: one prepared
// single-row INSERT, in one transaction, through database/sql.
func BenchmarkSQLitePlain(b *testing.B) {
	_, file := sqliteStore(b)
	db := bypass(b, "sqlite", "file:"+file+"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=wal_autocheckpoint(16384)")
	rows := twoColumns(nil)
	b.ResetTimer()
	for range b.N {
		tx, err := db.Begin()
		must(b, err)
		stmt, err := tx.Prepare("INSERT INTO pepi_event (id, event_name) VALUES (?, ?)")
		must(b, err)
		for i := range effectRows {
			var id driver.Value = int64(1_000_000 + i)
			if _, err := stmt.Exec(id, rows.Cells[2*i+1].Text); err != nil {
				b.Fatal(err)
			}
		}
		must(b, tx.Commit())
	}
	perRow(b)
}

// benchmarkOneBad applies events of which one is refused: what the bulk path
// does not take as a whole.
func benchmarkOneBad(b *testing.B, s *sqlstore.Store) {
	b.ResetTimer()
	next := newEvents()
	for i := range uint64(b.N) {
		effect := effectTo(i+1, nil)
		next(effect)
		effect.Events[effectRows/2].Kind = 99
		p, err := s.Prepare(effect)
		must(b, err)
		_, err = s.ApplyEach(b.Context(), p)
		must(b, err)
	}
	perRow(b)
}

func BenchmarkMariaDBOneBad(b *testing.B) { benchmarkOneBad(b, mariadbStore(b)) }

func BenchmarkPostgresOneBad(b *testing.B) {
	s, _ := postgresStore(b)
	benchmarkOneBad(b, s)
}

func BenchmarkSQLiteOneBad(b *testing.B) {
	s, _ := sqliteStore(b)
	benchmarkOneBad(b, s)
}
