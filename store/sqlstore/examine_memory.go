package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"strings"

	"sluice/lib/doctor"
)

// Where to say how much of its tables a server keeps in memory.
const (
	mysqlMemory    = "innodb_buffer_pool_size in my.cnf: of a machine of its own about 70 % of the memory, beside other programs as much as users take and half as much again"
	postgresMemory = "ALTER SYSTEM SET shared_buffers, and restart it: about a quarter of the memory of a machine of its own, or as much as users take and half as much again"
)

// How large a redo log has to be of which a doctor says nothing: an eighth of what is kept in
// memory, from 1 GB on. With 2 GB and the 96 MB of MariaDB's packages, storing an event took an
// eighth more of the processors than with 1 GB (docs/operate.md).
const (
	redoFrom  = 1 << 30
	redoLeast = 8
	mysqlRedo = "innodb_log_file_size in my.cnf (MariaDB 10.9 and newer also SET GLOBAL; MySQL: innodb_redo_log_capacity): about a quarter of innodb_buffer_pool_size"
)

// tableMemory compares what the server keeps of all tables in memory with what users take.
// People who move, and those who change, lie anywhere among all: their profiles are read one
// by one. A server reads 16 KiB for one that it has not in memory. With 10,000,000 people, and
// the 128 MB of the packages, 100,000 a second were 15 s late after 30 s; with 6 GB 3 s.
func tableMemory(ctx context.Context, e *doctor.Examination, conn *sql.Conn, d dialect, remedy string) {
	var keeps, users int64
	if err := conn.QueryRowContext(ctx, query(d, "memory")).Scan(&keeps, &users); err != nil {
		e.Unknown(fmt.Errorf("ask how much memory it has for its tables: %w", err), doctor.CheckDatabaseMemory)
		return
	}
	const mb = 1 << 20
	if users > keeps {
		e.Warn(doctor.CheckDatabaseMemory, remedy, "it keeps %d MB of all tables in memory, and users alone take %d MB: journeys and updates of people wait for the disk", keeps/mb, users/mb)
		return
	}
	if mysql, ok := d.(*mysqlDialect); ok && keeps >= redoFrom {
		redo, err := redoBytes(ctx, mysql, conn)
		if err != nil {
			e.Unknown(fmt.Errorf("ask how large its redo log is: %w", err), doctor.CheckDatabaseMemory)
			return
		}
		if redo < keeps/redoLeast {
			e.Warn(doctor.CheckDatabaseMemory, mysqlRedo, "it keeps %d MB of all tables in memory, and its redo log has %d MB: under load it writes the same pages again and again", keeps/mb, redo/mb)
			return
		}
	}
	e.Fine(doctor.CheckDatabaseMemory, "it keeps %d MB of all tables in memory, users take %d MB", keeps/mb, users/mb)
}

// redoBytes is how large the redo log of a server is. MySQL says so since 8.0.30: its capacity
// stays what it is by itself where only the files have a size, which then counts. MariaDB has
// one file since 10.5.
func redoBytes(ctx context.Context, d *mysqlDialect, conn *sql.Conn) (int64, error) {
	sizes := map[string]int64{"innodb_log_files_in_group": 1}
	for _, name := range []string{"redo", "redo_now"} {
		err := eachOf(ctx, d, conn, query(d, name), nil, func(scan scanner) error {
			var name string
			var n int64
			err := scan(&name, &n)
			sizes[strings.ToLower(name)] = n
			return err
		})
		if err != nil {
			return 0, err
		}
	}
	files := sizes["innodb_log_file_size"] * sizes["innodb_log_files_in_group"]
	return cmp.Or(sizes["innodb_redo_log_capacity_resized"], sizes["innodb_redo_log_capacity"], files), nil
}
