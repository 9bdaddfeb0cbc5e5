package sqlstore

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"sluice/lib/doctor"
)

// sqliteChecks are what is unknown of a file that cannot be read.
var sqliteChecks = []doctor.Check{
	doctor.CheckDatabaseVersion, doctor.CheckDatabaseWritable, doctor.CheckDatabaseSchema, doctor.CheckDatabaseShared,
}

func (x *Examiner) sqlite(ctx context.Context, e *doctor.Examination, rest string) {
	path, err := sqliteFile(rest)
	if err != nil {
		e.Where = "database"
		e.Fail(doctor.CheckDatabaseReachable, urlForms, "%s", err)
		return
	}
	e.Where = path
	var version string
	s, err := x.openSQLite(ctx, rest, path)
	if err == nil {
		defer s.Close()
		err = s.reads.QueryRowContext(ctx, "SELECT sqlite_version() FROM sqlite_master UNION SELECT sqlite_version()").Scan(&version) // reads the file
	}
	if errors.Is(err, fs.ErrNotExist) {
		e.Warn(doctor.CheckDatabaseReachable, "start sluice, or run `sluice migrate`; or name another with --database or --data", "the file is not there yet")
		e.Unknown(errors.New("the file is not there yet"), sqliteChecks...)
		return
	}
	if err != nil {
		e.Fail(doctor.CheckDatabaseReachable, "see that the file is a SQLite database and this user may read it and write beside it", "%s", doctor.OneLine(err))
		e.Unknown(errNotAsked, sqliteChecks...)
		return
	}
	e.Fine(doctor.CheckDatabaseReachable, "it can be read")
	e.Fine(doctor.CheckDatabaseVersion, "SQLite %s is part of the program", version)
	if f, err := os.OpenFile(path, os.O_RDWR, 0); err != nil {
		e.Fail(doctor.CheckDatabaseWritable, "run sluice as the file's owner, or chown it", "this user may not write to it: %s", err)
	} else {
		_ = f.Close() // nothing was written
		e.Fine(doctor.CheckDatabaseWritable, "this user may write to it")
	}
	judgeFileSystem(e, fileSystem(filepath.Dir(path)))
	if !x.Brief {
		if complete := x.schema(ctx, e, s); complete {
			x.ledger(ctx, e, s)
		}
		x.ownTables(ctx, e, s)
	}
	e.Directory = filepath.Dir(path)
}

func (x *Examiner) openSQLite(ctx context.Context, rest, path string) (*Store, error) {
	if _, err := os.Stat(path); err != nil {
		return nil, err
	}
	return Open(ctx, "sqlite:"+rest, Options{ReadOnly: true, ReadConns: 1, Clock: x.Clock})
}

// judgeFileSystem: processes that share a SQLite database need locks and shared
// memory. Files of another machine have none (https://sqlite.org/wal.html,
// "does not work over a network filesystem").
func judgeFileSystem(e *doctor.Examination, network string) {
	if network == "" {
		e.Fine(doctor.CheckDatabaseShared, "its directory is on a disk of this machine")
		return
	}
	e.Fail(doctor.CheckDatabaseShared, "put it on a disk of this machine; for several machines use MariaDB, MySQL or PostgreSQL",
		"its directory is on a file system of the kind %s, where SQLite's locks do not hold", network)
}
