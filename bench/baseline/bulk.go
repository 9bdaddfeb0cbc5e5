package baseline

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"
)

// LoadFile is the yardstick on MariaDB and MySQL. The server loads a file of
// its own (LOAD DATA INFILE, not LOCAL) in one statement, with its default
// settings. It returns how long the statement took and how many rows it says it
// wrote.
func LoadFile(ctx context.Context, db *sql.DB, file, table string, columns []string) (time.Duration, int64, error) {
	statement := "LOAD DATA INFILE '" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(file) + "' INTO TABLE " + table +
		` CHARACTER SET utf8mb4 FIELDS TERMINATED BY '\t' ESCAPED BY '\\' LINES TERMINATED BY '\n' (` + strings.Join(columns, ", ") + ")"
	started := time.Now()
	result, err := db.ExecContext(ctx, statement)
	if err != nil {
		return 0, 0, fmt.Errorf("load file into %s: %w: the server must be able to read it, and its user must have FILE", table, err)
	}
	took := time.Since(started)
	rows, err := result.RowsAffected()
	return took, rows, err
}

// CopyFile is LoadFile for PostgreSQL: COPY from a file of the server's.
func CopyFile(ctx context.Context, db *sql.DB, file, table string, columns []string) (time.Duration, int64, error) {
	statement := "COPY " + table + " (" + strings.Join(columns, ", ") + ") FROM '" + strings.ReplaceAll(file, "'", "''") + "'"
	started := time.Now()
	result, err := db.ExecContext(ctx, statement)
	if err != nil {
		return 0, 0, fmt.Errorf("copy file into %s: %w: the server must be able to read it, and its user must be a superuser", table, err)
	}
	took := time.Since(started)
	rows, err := result.RowsAffected()
	return took, rows, err
}

// InsertPrepared is the yardstick on SQLite, which has no bulk load. One
// prepared INSERT of one row is executed for every row inside one transaction,
// through database/sql as anybody would. fill sets the values of the next rows
// and returns how many; 0 ends it. The time of fill does not count.
func InsertPrepared(ctx context.Context, db *sql.DB, table string, columns []string, fill func(rows [][]any) int) (took time.Duration, err error) {
	const rowsAtOnce = 10_000
	rows := make([][]any, rowsAtOnce)
	for i := range rows {
		rows[i] = make([]any, len(columns))
	}
	n := fill(rows)
	started := time.Now()
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return 0, fmt.Errorf("begin: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, tx.Rollback())
		}
	}()
	stmt, err := tx.PrepareContext(ctx, "INSERT INTO "+table+" ("+strings.Join(columns, ", ")+") VALUES (?"+strings.Repeat(", ?", len(columns)-1)+")")
	if err != nil {
		return 0, fmt.Errorf("prepare: %w", err)
	}
	// The driver starts a goroutine for each statement whose context can end.
	plain := context.WithoutCancel(ctx)
	for n > 0 {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		for _, row := range rows[:n] {
			if _, err := stmt.ExecContext(plain, row...); err != nil {
				return 0, fmt.Errorf("insert: %w", err)
			}
		}
		took += time.Since(started)
		n = fill(rows)
		started = time.Now()
	}
	if err := stmt.Close(); err != nil {
		return 0, fmt.Errorf("close statement: %w", err)
	}
	if err := tx.Commit(); err != nil {
		return 0, fmt.Errorf("commit: %w", err)
	}
	return took + time.Since(started), nil
}
