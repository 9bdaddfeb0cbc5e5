package transfer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"sluice/flow"
	"sluice/store"
)

// What is looked at before anything is emptied: a restore that is refused must leave
// things as they were.

// NobodyRuns refuses to work under a program that runs. inUse: the database is
// somebody's, so one may run whose beats went with the rest of Redis.
func NobodyRuns(ctx context.Context, redis *flow.Redis, inUse bool) error {
	living, err := flow.Living(ctx, redis, inUse)
	if err != nil {
		return err
	}
	if living > 0 {
		return fmt.Errorf("%d processes of sluice run on redis %s: stop them all first", living, redis)
	}
	return nil
}

// checkLogs refuses to overwrite logs that belong to somebody.
func (r *Restore) checkLogs(ctx context.Context) error {
	id, err := r.Redis.Deployment(ctx)
	if err != nil {
		return err
	}
	if r.Logs && id != 0 && !r.Replace {
		return fmt.Errorf("redis %s has the logs of deployment %x, which would be lost: restore into an empty one, say --only database to keep them, or --replace", r.Redis, id)
	}
	return nil
}

// checkOwnTables decides on the cursors of lists that fill tables of the
// user's own, which are no part of a backup. Where this database has a cursor,
// its table is here, as it is now, and the cursor stays. Where it has none, the
// table comes from elsewhere: the cursor of the backup is right only if the
// table is as it was when the backup was taken, or empty. A later table would
// get what it has a second time, and an earlier one would lack rows. Nobody but
// the operator knows.
func (r *Restore) checkOwnTables(cursors, kept []store.DumpCursor) ([]store.DumpCursor, error) {
	var others []store.DumpCursor
	var unknown []string
	for _, c := range cursors {
		here := slices.ContainsFunc(kept, func(k store.DumpCursor) bool {
			return k.Follower == c.Follower && k.Partition == c.Partition
		})
		switch {
		case !c.OwnTable():
			others = append(others, c)
		case here || c.Position.IsZero():
		case r.ListCursors:
			others = append(others, c)
		default:
			unknown = append(unknown, strings.TrimPrefix(c.Follower, "list:"))
		}
	}
	if len(unknown) > 0 {
		return nil, fmt.Errorf("the lists %s fill tables of your own, which no backup of sluice has: put these tables back as they were at %s, or empty, and say --list-cursors; "+
			"a later table would get rows a second time, an earlier one would lack some", strings.Join(unknown, ", "), r.Archive.Snapshot.Format(timeLayout))
	}
	return others, nil
}

// checkTables refuses a backup of a newer program, before what is here is emptied for
// it. Its logs may have what this program does not read, so it is refused for them alone
// as well.
func (r *Restore) checkTables() error {
	have := r.Database.DumpTables()
	var errs []error
	for _, t := range r.Archive.Tables {
		errs = append(errs, checkTable(have, t.DumpTable))
	}
	return errors.Join(errs...)
}

// checkTable wants a table that this program has, with all of its columns.
func checkTable(have []store.DumpTable, t store.DumpTable) error {
	at := slices.IndexFunc(have, func(h store.DumpTable) bool { return h.Name == t.Name })
	if at < 0 {
		return fmt.Errorf("the backup has a table %s, which this program does not know: it is of a newer one, run that", t.Name)
	}
	for _, c := range t.Columns {
		if !slices.Contains(have[at].Columns, c) {
			return fmt.Errorf("the backup has a column %s.%s (%s), which this program does not know: it is of a newer one, run that", t.Name, c.Name, c.Kind)
		}
	}
	return nil
}

// checkLists refuses to take lists and hashes from an installation that may still run.
//
// Who only looks at a backup, beside the installation that it is of, would get what is
// pushed from then on, and that installation would stand still. Lists know whose they are,
// and by their leases that a process of the owner drains them, or that it died. Which of
// both, nobody can tell from here. Where the Redis is the owner's, it is known that nobody
// runs (NobodyRuns): the beats are there. A database may be a copy of the owner's.
//
// It is called again when the lists are taken, minutes later: the owner may have been
// stopped for an upgrade meanwhile, or before.
func (r *Restore) checkLists(ctx context.Context, owners []uint64) error {
	if r.TakeLists {
		return nil
	}
	elsewhere := slices.DeleteFunc(slices.Clone(owners), func(id uint64) bool { return id == 0 || id == owners[1] })
	for _, l := range r.Lists {
		held, err := l.HeldFor(ctx, elsewhere)
		if err != nil {
			return err
		}
		if held {
			return fmt.Errorf("%s is drained by a process of the installation that the backup, or the database, is of; or that process died, or a restore was broken off. A restore takes the list away from it. "+
				"To look at a backup, restore with a configuration without lists and hashes; if that process will not come back, as in a restore of your own installation, say --take-lists", l)
		}
	}
	return nil
}
