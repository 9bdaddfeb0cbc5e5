package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"sluice"
)

// migration is one file of schema/DIALECT/: NNNN_name.sql. A file that has
// been released is never changed. A line "-- Readable from version N" names the
// first version of the program that can use the schema after the migration.
// Such a program goes on running while newer ones start. Without that line it
// is the migration's own version, and all older programs are refused. On MySQL
// each statement commits by itself, so every statement must be harmless when
// repeated (IF NOT EXISTS).
type migration struct {
	version    int
	name       string
	statements []string
	readable   int // from which version on
}

// pretended are migrations that a test's build has beyond those of the files.
var pretended func(last int) []migration

// readableMark begins the line that says from which version on.
const readableMark = "-- Readable from version "

// readableFrom reads that line of the text of a migration.
func readableFrom(text string, version int) (int, error) {
	_, rest, found := strings.Cut(text, readableMark)
	if !found {
		return version, nil
	}
	digits, _, _ := strings.Cut(rest, "\n")
	from, err := strconv.Atoi(strings.TrimSpace(digits))
	if err != nil || from < 1 || from > version {
		return 0, fmt.Errorf("%s%s: want a number from 1 to %d", readableMark, digits, version)
	}
	return from, nil
}

// firstDayMark stands in a migration for Store.firstDay.
const firstDayMark = "$FIRST_DAY"

// migrations returns a dialect's migrations; the one at index i has version i+1.
func migrations(d dialect) ([]migration, error) {
	files, err := migrationFiles(d)
	if err != nil {
		return nil, fmt.Errorf("read migrations: %w", err)
	}
	var list []migration
	for _, file := range files {
		digits, name, ok := strings.Cut(strings.TrimSuffix(path.Base(file), ".sql"), "_")
		version, err := strconv.Atoi(digits)
		if !ok || err != nil || version != len(list)+1 {
			return nil, fmt.Errorf("read migrations: %s is not the file %04d_NAME.sql", file, len(list)+1)
		}
		text, err := fs.ReadFile(schemaFiles, file)
		if err != nil {
			return nil, fmt.Errorf("read migrations: %w", err)
		}
		from, err := readableFrom(string(text), version)
		if err != nil {
			return nil, fmt.Errorf("read migrations: %s: %w", file, err)
		}
		list = append(list, migration{version: version, name: name, statements: statements(d.expand(d.types().Replace(string(text)))), readable: from})
	}
	if pretended != nil {
		list = append(list, pretended(len(list))...)
	}
	return list, nil
}

// migrationFiles returns the files of a dialect in the order of their numbers: its own,
// and those of schema/all, which are for all dialects. Those name the types of columns
// by marks ($TEXT, $NUMBER, $POSITION, $TIME, $BYTES), and end a table by $TABLE.
func migrationFiles(d dialect) (files []string, err error) {
	for _, dir := range []string{d.name(), "all"} {
		of, err := fs.Glob(schemaFiles, path.Join("schema", dir, "*.sql"))
		if err != nil {
			return nil, err
		}
		files = append(files, of...)
	}
	slices.SortFunc(files, func(a, b string) int { return strings.Compare(path.Base(a), path.Base(b)) })
	return files, nil
}

// types are those marks as a dialect writes them. A text that is part of a key has at
// most 256 characters in MariaDB: $KEY.
func (d *mysqlDialect) types() *strings.Replacer {
	return strings.NewReplacer("$KEY", "VARCHAR(256)", "$TEXT", "LONGTEXT", "$NUMBER", "BIGINT", "$POSITION", "BIGINT UNSIGNED", "$TIME", "DATETIME(3)", "$BYTES", "LONGBLOB",
		"$TABLE", "ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=$BIN")
}

func (d *postgresDialect) types() *strings.Replacer {
	return strings.NewReplacer("$KEY", `text COLLATE "C"`, "$TEXT", `text COLLATE "C"`, "$NUMBER", "bigint", "$POSITION", "bigint", "$TIME", "timestamptz(3)", "$BYTES", "bytea", " $TABLE", "")
}

func (d *sqliteDialect) types() *strings.Replacer {
	return strings.NewReplacer("$KEY", "TEXT", "$TEXT", "TEXT", "$NUMBER", "INTEGER", "$POSITION", "INTEGER", "$TIME", "INTEGER", "$BYTES", "BLOB", "$TABLE", "STRICT, WITHOUT ROWID")
}

// statements cuts a migration at the semicolons that end a line.
func statements(text string) []string {
	var list []string
	for statement := range strings.SplitSeq(text, ";\n") {
		if statement = strings.TrimSpace(statement); statement != "" {
			list = append(list, statement)
		}
	}
	return list
}

// Migrate brings the schema to this program's version, one process at a time.
func (s *Store) Migrate(ctx context.Context) error {
	return s.failed(s.migrate(ctx), "migrate")
}

func (s *Store) migrate(ctx context.Context) error {
	list, err := migrations(s.d)
	if err != nil {
		return err
	}
	// Most starts find nothing to do, and need no lock to see it.
	if version, err := s.version(ctx, s.reads); err == nil && version >= len(list) {
		return s.newer(ctx, s.reads, version, len(list))
	}
	if s.d.transactionalDDL() {
		return s.write(ctx, func(tx *txn) error {
			for _, statement := range s.d.unlimited() {
				if _, err := tx.conn.ExecContext(ctx, statement); err != nil {
					return fmt.Errorf("%s: %w", statement, err)
				}
			}
			return s.migrateOn(ctx, tx.conn, list)
		})
	}
	if s.options.ReadOnly {
		return fmt.Errorf("it was opened read-only")
	}
	conn, done, err := s.d.migrationConn(ctx, s)
	if err != nil {
		return err
	}
	defer done()
	return s.migrateOn(ctx, conn, list)
}

func (s *Store) migrateOn(ctx context.Context, conn *sql.Conn, list []migration) error {
	for _, table := range []string{"version_table", "readable_table"} {
		if _, err := conn.ExecContext(ctx, query(s.d, table)); err != nil {
			return fmt.Errorf("create the tables of the schema's version: %w", err)
		}
	}
	version, err := s.version(ctx, conn)
	if err != nil {
		return err
	}
	if version > len(list) {
		return s.newer(ctx, conn, version, len(list))
	}
	for _, m := range list[version:] {
		if err := s.applyMigration(ctx, conn, m); err != nil {
			return fmt.Errorf("apply migration %04d_%s: %w", m.version, m.name, err)
		}
		if err := s.noteReadable(ctx, conn, m); err != nil {
			return fmt.Errorf("note migration %04d_%s: %w", m.version, m.name, err)
		}
		if _, err := conn.ExecContext(ctx, query(s.d, "version_add"), m.version, m.name, s.now()); err != nil {
			return fmt.Errorf("note migration %04d_%s: %w", m.version, m.name, err)
		}
	}
	return nil
}

// noteReadable notes from which version on the schema can be used behind a
// migration, before the migration itself is noted.
func (s *Store) noteReadable(ctx context.Context, conn *sql.Conn, m migration) error {
	_, err := conn.ExecContext(ctx, query(s.d, "readable_drop"), m.version)
	if err == nil {
		_, err = conn.ExecContext(ctx, query(s.d, "readable_add"), m.version, m.readable)
	}
	return err
}

func (s *Store) applyMigration(ctx context.Context, conn *sql.Conn, m migration) error {
	day := ""
	if slices.ContainsFunc(m.statements, func(text string) bool { return strings.Contains(text, firstDayMark) }) {
		var err error
		if day, err = s.firstDay(ctx, conn); err != nil {
			return err
		}
	}
	for _, statement := range m.statements {
		if _, err := conn.ExecContext(ctx, strings.ReplaceAll(statement, firstDayMark, day)); err != nil {
			return err
		}
	}
	return nil
}

// newer returns nil if a program that knows the schema up to a version can use
// one of another version, else why not.
func (s *Store) newer(ctx context.Context, q querier, version, known int) error {
	if version <= known {
		return nil
	}
	from, err := s.readable(ctx, q, version)
	if err != nil {
		return err
	}
	if from <= known {
		return nil
	}
	return fmt.Errorf("its schema has version %d, which programs that know version %d can use; this program knows up to %d: %w; run that one", version, from, known, sluice.ErrNewer)
}

// readable returns from which version on the schema can be used.
func (s *Store) readable(ctx context.Context, q querier, version int) (int, error) {
	var noted, from int
	err := q.QueryRowContext(ctx, query(s.d, "readable_get")).Scan(&noted, &from)
	if err != nil && s.d.noTable(err) {
		return version, nil // a program that did not know the table was the last
	}
	if err != nil {
		return 0, fmt.Errorf("read from which version on the schema can be used: %w", err)
	}
	if noted < version {
		return version, nil
	}
	return from, nil
}

type querier interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// Pending returns what Migrate would do. have is the version of the schema, 0
// if there is none. want is the version that Migrate brings it to. The third is
// the version from which a program can use the schema after that.
func (s *Store) Pending(ctx context.Context) (have, want, from int, err error) {
	list, err := migrations(s.d)
	if err != nil {
		return 0, 0, 0, err
	}
	if have, err = s.version(ctx, s.reads); err != nil {
		return 0, 0, 0, err
	}
	for _, m := range list[min(have, len(list)):] {
		from = max(from, m.readable)
	}
	return have, len(list), from, nil
}

// SchemaVersion returns the version of the schema, 0 if there is none yet, and
// the one that this program brings it to.
func (s *Store) SchemaVersion(ctx context.Context) (have, want int, err error) {
	have, want, _, err = s.Pending(ctx)
	return have, want, err
}

// version reads the schema's version; 0: there is none yet.
func (s *Store) version(ctx context.Context, q querier) (int, error) {
	var version int
	err := q.QueryRowContext(ctx, query(s.d, "version_get")).Scan(&version)
	if err != nil && s.d.noTable(err) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read schema version: %w", err)
	}
	return version, nil
}

// Ping reports whether the database answers and has this program's schema. It is asked
// all the time, and so reads no migration.
func (s *Store) Ping(ctx context.Context) error {
	want, err := newest(s.d)
	if err != nil {
		return err
	}
	version, err := s.version(ctx, s.reads)
	if err == nil {
		err = s.newer(ctx, s.reads, version, want)
	}
	if err == nil && version < want {
		err = fmt.Errorf("its schema has version %d, this program needs %d: migrate it", version, want)
	}
	return s.failed(err, "ping")
}

// newest is the version that the migrations lead to.
func newest(d dialect) (int, error) {
	files, err := migrationFiles(d)
	if err != nil {
		return 0, fmt.Errorf("read migrations: %w", err)
	}
	version := len(files)
	if pretended != nil {
		version += len(pretended(version))
	}
	return version, nil
}
