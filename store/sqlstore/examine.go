package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"sluice"
	"sluice/lib/doctor"
	"sluice/store"
)

// Examiner looks at a database for `sluice doctor`, also at one that Open
// refuses.
type Examiner struct {
	URL    string
	Tables []store.TableSpec // of the user's own, that lists fill
	Keeps  bool              // what is too old is removed
	Clock  sluice.Clock

	// Processes returns how many processes live; nil: one is assumed. It is asked of
	// servers only.
	Processes func(ctx context.Context) int

	// Writers is how many each of them is configured to have, of so many Partitions
	// (Store.Writers). Partitions 0: more than writers.
	Writers, Partitions int

	// Brief leaves out the schema, rights, sums and tables: what a start finds out
	// by itself.
	Brief bool
}

var _ doctor.Examiner = (*Examiner)(nil)

// schemaTables are those that standardTables has not.
var schemaTables = []standardTable{
	{name: "schema_version", verbs: "S"},
	{name: "schema_readable", verbs: "S"}, // that it is not there is no finding: an older program was the last to migrate
}

// errNotAsked is why checks of a database that does not answer are unknown.
var errNotAsked = errors.New("the database could not be asked")

// Examine implements doctor.Examiner.
func (x *Examiner) Examine(ctx context.Context) doctor.Examination {
	var e doctor.Examination
	scheme, rest, err := splitURL(x.URL)
	if err != nil {
		e.Where = "database"
		e.Fail(doctor.CheckDatabaseReachable, urlForms, "%s", err)
		return e
	}
	switch scheme {
	case "sqlite":
		x.sqlite(ctx, &e, rest)
	case "postgres":
		x.postgres(ctx, &e)
	default:
		x.mysql(ctx, &e, rest)
	}
	return e
}

// judge says of a check that it is fine, or, by e.Fail or e.Warn, what is found instead.
func judge(e *doctor.Examination, ok bool, say func(check doctor.Check, remedy, format string, args ...any), check doctor.Check, remedy, found, fine string) {
	if ok {
		e.Fine(check, "%s", fine)
	} else {
		say(check, remedy, "%s", found)
	}
}

// schema compares the schema's version with the program's, and says whether
// all of our tables are there. If the version cannot be read they are: it is a
// right that is missing.
func (x *Examiner) schema(ctx context.Context, e *doctor.Examination, s *Store) (complete bool) {
	have, want, err := s.SchemaVersion(ctx)
	switch {
	case err != nil:
		e.Unknown(err, doctor.CheckDatabaseSchema)
	case have == 0:
		e.Warn(doctor.CheckDatabaseSchema, "start sluice, or run `sluice migrate`", "it has no tables of Sluice yet")
	case have < want:
		e.Warn(doctor.CheckDatabaseSchema, "start this program, or run `sluice migrate`; older programs may not be able to go on after that", "its schema has version %d, this program brings it to %d", have, want)
	case have > want && s.Ping(ctx) == nil:
		e.Fine(doctor.CheckDatabaseSchema, "its schema has version %d, this program knows %d and can use it: a newer program has been here", have, want)
	case have > want:
		e.Fail(doctor.CheckDatabaseSchema, "run the newer program that has been here", "its schema has version %d, this program knows up to %d and does not start", have, want)
	default:
		e.Fine(doctor.CheckDatabaseSchema, "its schema has version %d, as this program's", have)
	}
	return err != nil || have >= want
}

// judgeRights says which rights on our tables, and those of the user, are
// missing. may asks for one.
func (x *Examiner) judgeRights(e *doctor.Examination, may func(verb, table string, columns []string) (bool, error), complete bool) {
	var missing []string
	ask := func(verb, table string, columns []string) error {
		ok, err := may(verb, table, columns)
		if err == nil && !ok {
			missing = append(missing, verb+" on "+table)
		}
		return err
	}
	var errs []error
	if complete {
		for _, t := range slices.Concat(schemaTables, standardTables) {
			for _, verb := range t.verbs {
				errs = append(errs, ask(verbs[verb], t.name, nil))
			}
		}
	}
	if complete && x.Keeps {
		for _, table := range []string{"events", "series_hours", "series_days", "sends"} {
			errs = append(errs, ask("DELETE", table, nil))
		}
	}
	for _, t := range x.Tables {
		errs = append(errs, ask("INSERT", t.Table, t.Columns))
	}
	err := errors.Join(errs...)
	switch {
	case len(missing) > 0:
		e.Fail(doctor.CheckDatabaseRights, "as the database's owner: GRANT "+missing[0]+" TO the user, and so on", "its user lacks %s", strings.Join(missing, ", "))
	case err != nil:
		e.Unknown(err, doctor.CheckDatabaseRights)
	case complete:
		e.Fine(doctor.CheckDatabaseRights, "its user may do with the tables what the program does")
	}
}

// ownTables looks at the tables that lists fill, as a start does.
func (x *Examiner) ownTables(ctx context.Context, e *doctor.Examination, s *Store) {
	for _, spec := range x.Tables {
		of := doctor.Examination{Where: "table " + spec.Table}
		if _, err := s.OpenTable(ctx, spec); err != nil {
			of.Fail(doctor.CheckListTable, "mend the table, or the list's settings; until then nothing goes into it", "%s", doctor.OneLine(err))
		} else {
			of.Fine(doctor.CheckListTable, "it has the columns and keys that the configuration names")
		}
		e.Findings = append(e.Findings, of.Findings...)
	}
}

// clock compares the server's clock with ours.
func (x *Examiner) clock(ctx context.Context, e *doctor.Examination, d dialect, conn *sql.Conn) {
	e.CompareClocks(doctor.CheckDatabaseClock, x.Clock, func() (millis int64, err error) {
		if err := conn.QueryRowContext(ctx, query(d, "clock")).Scan(&millis); err != nil {
			return 0, fmt.Errorf("read the time of %s: %w", e.Where, err)
		}
		return millis, nil
	})
}
