package bench

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"sluice/bench/baseline"
	"sluice/test/servers"
)

// postgresStore is a private PostgreSQL, default settings.
type postgresStore struct {
	address string
	db      *sql.DB
	files   string // directory of the files that the server loads
}

var _ database = (*postgresStore)(nil)

func openPostgres(ctx context.Context, e *env) (*postgresStore, error) {
	e.run.say("start a private PostgreSQL, default settings but for --database-memory")
	server, err := servers.StartPostgres(ctx, servers.PostgresOptions{Dir: filepath.Join(e.dir, "postgres"), Extra: e.run.ownMemory("-c", "shared_buffers=%dMB")})
	if err != nil {
		return nil, err
	}
	e.closers = append(e.closers, stopServer(server.Stop))
	if err := server.CreateDatabase(ctx, "bench"); err != nil {
		return nil, err
	}
	s := &postgresStore{address: server.URL("bench"), files: filepath.Join(e.dir, "postgres-files")}
	if err := os.Mkdir(s.files, 0o755); err != nil {
		return nil, fmt.Errorf("make a directory for the files to load: %w", err)
	}
	if s.db, err = baseline.OpenPostgres(s.address); err != nil {
		return nil, err
	}
	e.closers = append(e.closers, s.db.Close)
	var version, settings string
	err = s.db.QueryRowContext(ctx, "SELECT current_setting('server_version'), 'shared_buffers ' || current_setting('shared_buffers') || ', fsync ' || current_setting('fsync') || ', synchronous_commit ' || current_setting('synchronous_commit')").
		Scan(&version, &settings)
	if err != nil {
		return nil, fmt.Errorf("read the database's version: %w", err)
	}
	e.run.report.Versions["postgres"] = version
	e.run.report.Settings["postgres"] = settings
	return s, nil
}

func (s *postgresStore) url() string         { return s.address }
func (s *postgresStore) handle() *sql.DB     { return s.db }
func (s *postgresStore) placeholder() string { return "$1" }
func (s *postgresStore) millis(ms int64) any { return time.UnixMilli(ms).UTC() }

func (s *postgresStore) fresh(ctx context.Context) error {
	// The checkpoint writes what the run before has left, outside the clock.
	for _, statement := range []string{"DROP SCHEMA public CASCADE", "CREATE SCHEMA public", "CHECKPOINT"} {
		if _, err := s.db.ExecContext(ctx, statement); err != nil {
			return fmt.Errorf("make the database anew: %w", err)
		}
	}
	return createTables(ctx, s.address, s.db)
}

func (s *postgresStore) bulk(ctx context.Context, t *table, elements elements) (time.Duration, error) {
	file := filepath.Join(s.files, t.name+".tsv")
	if err := writeRows(file, t, elements); err != nil {
		return 0, err
	}
	defer os.Remove(file)
	took, rows, err := baseline.CopyFile(ctx, s.db, file, t.name, t.columns)
	if err == nil && rows != elements.count {
		err = fmt.Errorf("copy file into %s: it wrote %d rows of %d", t.name, rows, elements.count)
	}
	return took, err
}
