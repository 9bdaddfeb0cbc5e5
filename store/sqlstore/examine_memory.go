package sqlstore

import (
	"context"
	"database/sql"
	"fmt"

	"sluice/lib/doctor"
)

// Where to say how much of its tables a server keeps in memory.
const (
	mysqlMemory    = "innodb_buffer_pool_size in my.cnf: of a machine of its own about 70 % of the memory, beside other programs as much as users take and half as much again"
	postgresMemory = "ALTER SYSTEM SET shared_buffers, and restart it: about a quarter of the memory of a machine of its own, or as much as users take and half as much again"
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
	e.Fine(doctor.CheckDatabaseMemory, "it keeps %d MB of all tables in memory, users take %d MB", keeps/mb, users/mb)
}
