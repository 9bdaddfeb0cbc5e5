package bench

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"sluice/bench/baseline"
	"sluice/store/sqlstore"
)

// mariaStore is MariaDB or MySQL.
type mariaStore struct {
	address string
	db      *sql.DB
	files   string // directory of the files that the server loads
	bare    bool   // fresh leaves the tables to the program, which may be older than this one
}

var _ database = (*mariaStore)(nil)

func (s *mariaStore) url() string         { return s.address }
func (s *mariaStore) handle() *sql.DB     { return s.db }
func (s *mariaStore) placeholder() string { return "?" }
func (s *mariaStore) millis(ms int64) any { return datetime(ms) }

func datetime(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01-02 15:04:05.000") }

func (s *mariaStore) tables(ctx context.Context) ([]string, error) {
	rows, err := s.db.QueryContext(ctx, "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE()")
	if err != nil {
		return nil, fmt.Errorf("look into the database: %w", err)
	}
	defer rows.Close()
	var names []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, fmt.Errorf("look into the database: %w", err)
		}
		names = append(names, name)
	}
	return names, rows.Err()
}

func (s *mariaStore) fresh(ctx context.Context) error {
	names, err := s.tables(ctx)
	if err != nil {
		return err
	}
	for _, name := range names {
		if _, err := s.db.ExecContext(ctx, "DROP TABLE `"+name+"`"); err != nil {
			return fmt.Errorf("drop table %s: %w", name, err)
		}
	}
	if s.bare {
		return nil
	}
	return createTables(ctx, s.address, s.db)
}

// createTables makes the standard tables as the program makes them, and the
// tables of its users.
func createTables(ctx context.Context, address string, db *sql.DB) error {
	program, err := sqlstore.Open(ctx, address, sqlstore.Options{})
	if err != nil {
		return err
	}
	if err := errors.Join(program.Migrate(ctx), program.Close()); err != nil {
		return err
	}
	for _, statement := range []string{createPepiEvent, createPepiLive} {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("create table: %w", err)
		}
	}
	return nil
}

func (s *mariaStore) bulk(ctx context.Context, t *table, elements elements) (time.Duration, error) {
	file := filepath.Join(s.files, t.name+".tsv")
	if err := writeRows(file, t, elements); err != nil {
		return 0, err
	}
	defer os.Remove(file)
	took, rows, err := baseline.LoadFile(ctx, s.db, file, t.name, t.columns)
	if err == nil && rows != elements.count {
		err = fmt.Errorf("load file into %s: it wrote %d rows of %d", t.name, rows, elements.count)
	}
	return took, err
}

// writeRows writes a file for LOAD DATA, synced, so that its writing is over
// when its loading begins.
func writeRows(file string, t *table, elements elements) error {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("write the file to load: %w", err)
	}
	w := bufio.NewWriterSize(f, 1<<20)
	buf := make([]byte, 0, 1024)
	for i := elements.first; i < elements.first+elements.count; i++ {
		x := at(i)
		buf = append(t.appendRow(buf[:0], &x), '\n')
		if _, err := w.Write(buf); err != nil {
			return errors.Join(fmt.Errorf("write the file to load: %w", err), f.Close())
		}
	}
	if err := errors.Join(w.Flush(), f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("write the file to load: %w", err)
	}
	return nil
}

// sqliteStore is a SQLite file, a new one for each run.
type sqliteStore struct {
	dir  string
	n    int
	file string
	db   *sql.DB
}

var _ database = (*sqliteStore)(nil)

func openSQLite(e *env) (*sqliteStore, error) {
	s := &sqliteStore{dir: filepath.Join(e.dir, "sqlite")}
	if err := os.Mkdir(s.dir, 0o700); err != nil {
		return nil, fmt.Errorf("make a directory for sqlite: %w", err)
	}
	e.closers = append(e.closers, s.close)
	e.run.report.Settings["sqlite"] = baseline.SQLitePragmas
	return s, nil
}

func (s *sqliteStore) close() error {
	if s.db == nil {
		return nil
	}
	return s.db.Close()
}

func (s *sqliteStore) url() string         { return "sqlite:" + s.file }
func (s *sqliteStore) handle() *sql.DB     { return s.db }
func (s *sqliteStore) placeholder() string { return "?" }
func (s *sqliteStore) millis(ms int64) any { return ms }

// readAll reads the whole file, which has the system keep it in memory.
func (s *sqliteStore) readAll() (err error) {
	f, err := os.Open(s.file)
	if err != nil {
		return fmt.Errorf("read the sqlite database: %w", err)
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if _, err := io.Copy(io.Discard, f); err != nil {
		return fmt.Errorf("read the sqlite database: %w", err)
	}
	return nil
}

func (s *sqliteStore) fresh(ctx context.Context) error {
	if err := s.close(); err != nil {
		return fmt.Errorf("close the last sqlite database: %w", err)
	}
	if s.file != "" {
		for _, suffix := range []string{"", "-wal", "-shm"} {
			if err := os.Remove(s.file + suffix); err != nil && !errors.Is(err, os.ErrNotExist) {
				return fmt.Errorf("remove the last sqlite database: %w", err)
			}
		}
	}
	s.n++
	s.file = filepath.Join(s.dir, fmt.Sprintf("bench-%d.db", s.n))
	db, err := baseline.OpenSQLite(s.file)
	if err != nil {
		return err
	}
	s.db = db
	return createTables(ctx, s.url(), db)
}

func (s *sqliteStore) bulk(ctx context.Context, t *table, elements elements) (time.Duration, error) {
	next, end := elements.first, elements.first+elements.count
	buf := make([]byte, 0, 1024)
	return baseline.InsertPrepared(ctx, s.db, t.name, t.columns, func(rows [][]any) int {
		n := 0
		for ; n < len(rows) && next < end; n, next = n+1, next+1 {
			x := at(next)
			t.setRow(rows[n], &x, buf)
		}
		return n
	})
}
