// Package examine looks at an installation as a whole for `sluice doctor`.
package examine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"sluice"
	"sluice/flow"
	"sluice/ingest"
	"sluice/lib/doctor"
	"sluice/ops/retention"
	"sluice/ops/series"
)

// Installation looks at what runs, or does not, for `sluice doctor`: from outside,
// by what Redis and the database say, so it sees all processes. What only a
// process knows of itself (why a follower fails) that process has to be asked.
type Installation struct {
	Redis      *flow.Redis  // nil: it does not answer
	Store      CursorStore  // nil: the database does not answer
	Partitions int          // 0: not known, since the database does not answer
	Lists      []*flow.List // and hashes that were drained before
	Mirrors    bool         // the series are mirrored
	Alone      bool         // the database is for one process only
	Empty      bool         // Store is nil because the database has no tables yet
	Clock      sluice.Clock
}

var _ doctor.Examiner = (*Installation)(nil)

// CursorStore is what an Installation asks of the database.
type CursorStore interface {
	AllCursors(ctx context.Context) ([]doctor.Cursor, error)
	CountDeadLetters(ctx context.Context) (int64, error)
	Held(ctx context.Context) (int64, error) // journeys
}

// How far a follower may be behind.
const (
	lagWarnSeconds  = 60
	lagErrorSeconds = 15 * 60
)

// Examine implements doctor.Examiner.
func (x *Installation) Examine(ctx context.Context) doctor.Examination {
	e := doctor.Examination{Where: "this installation"}
	x.deadLetters(ctx, &e)
	x.journeys(ctx, &e)
	live := x.processes(ctx, &e)
	cursors, err := x.cursors(ctx)
	if err != nil {
		if x.Empty && x.Redis != nil { // which may have been another's all the same
			x.deployment(ctx, &e, nil)
		} else {
			e.Unknown(err, doctor.CheckDeployment)
		}
		e.Unknown(err, doctor.CheckLag, doctor.CheckGaps)
		return e
	}
	x.deployment(ctx, &e, cursors)
	x.logs(ctx, &e, cursors, live)
	x.lists(ctx, &e, cursors, live)
	return e
}

var (
	errNoRedis    = errors.New("the main Redis does not answer")
	errNoDatabase = errors.New("the database does not answer, or has no tables of Sluice yet")

	errNoPartitions = errors.New("only the database says how many partitions there are, and it does not answer; name the number (partitions) to do without it")
)

// cursors returns where all stand, if there is also a Redis to compare it with.
func (x *Installation) cursors(ctx context.Context) ([]doctor.Cursor, error) {
	switch {
	case x.Redis == nil:
		return nil, errNoRedis
	case x.Store == nil:
		return nil, errNoDatabase
	}
	return x.Store.AllCursors(ctx)
}

func (x *Installation) deadLetters(ctx context.Context, e *doctor.Examination) {
	if x.Store == nil {
		e.Unknown(errNoDatabase, doctor.CheckDeadLetters)
		return
	}
	switch n, err := x.Store.CountDeadLetters(ctx); {
	case err != nil:
		e.Unknown(err, doctor.CheckDeadLetters)
	case n > 0:
		e.Warn(doctor.CheckDeadLetters, "`sluice dead list` says why; mend it and `sluice dead replay`, or `sluice dead drop`", "%d items could not be stored", n)
	default:
		e.Fine(doctor.CheckDeadLetters, "there are none")
	}
}

// journeys looks whether journeys stand until an operator has decided.
func (x *Installation) journeys(ctx context.Context, e *doctor.Examination) {
	if x.Store == nil {
		e.Unknown(errNoDatabase, doctor.CheckJourneys)
		return
	}
	switch n, err := x.Store.Held(ctx); {
	case err != nil:
		e.Unknown(err, doctor.CheckJourneys)
	case n > 0:
		e.Warn(doctor.CheckJourneys, "`sluice journey status ID` says why; resume each, or stop it", "%d journeys stand until somebody decides, since a backup was restored, a run of them is late, or too much of their mail came back: nobody enters or goes on, and none of their mail leaves", n)
	default:
		e.Fine(doctor.CheckJourneys, "none stands until somebody decides")
	}
}

func (x *Installation) deployment(ctx context.Context, e *doctor.Examination, cursors []doctor.Cursor) {
	refused, err := x.Redis.Match(ctx, cursors, x.Partitions)
	switch {
	case err != nil:
		e.Unknown(err, doctor.CheckDeployment)
	case refused != nil:
		e.Fail(doctor.CheckDeployment, "name the Redis, the database and the number of partitions that belong together; until then nothing starts", "%s", refused)
	default:
		e.Fine(doctor.CheckDeployment, "Redis, the database and the number of partitions belong together")
	}
}

// processes looks which processes live and what they hold. It returns how many
// live; -1: that is not known.
func (x *Installation) processes(ctx context.Context, e *doctor.Examination) int {
	if x.Redis == nil {
		e.Unknown(errNoRedis, doctor.CheckProcesses, doctor.CheckLeases)
		return -1
	}
	leases := flow.NewLeases(x.Redis, nil, nil)
	if partitions := flow.Partitions(x.Partitions); len(partitions) > 0 {
		leases.AddPartitions(ingest.StoreRole, x.Redis, partitions)
		leases.AddPartitions(retention.Role, x.Redis, partitions[:1])
		if x.Mirrors {
			leases.AddPartitions(series.MirrorRole, x.Redis, partitions[:1])
		}
	}
	if len(x.Lists) > 0 {
		leases.AddLists(ingest.ListRole, x.Lists)
	}
	seen, err := leases.Watch(ctx)
	if err != nil && seen.Roles == nil {
		e.Unknown(err, doctor.CheckProcesses, doctor.CheckLeases)
		return -1
	}
	switch {
	case seen.Live == 0:
		e.Warn(doctor.CheckProcesses, "start it: sluice serve", "no sluice lives: what comes in waits in Redis")
		e.Unknown(errors.New("no sluice process lives"), doctor.CheckLeases)
		return 0
	case seen.Live > 1 && x.Alone:
		e.Fail(doctor.CheckProcesses, "stop all but one, or use MariaDB, MySQL or PostgreSQL", "%d processes live, and the database is SQLite, which is for one", seen.Live)
	default:
		e.Fine(doctor.CheckProcesses, "processes that live: %d", seen.Live)
	}
	for _, role := range seen.Roles {
		if len(role.Free) > 0 {
			e.Fail(doctor.CheckLeases, "after a kill others take over within seconds: ask again; else start a process with the role, and the same lists",
				"role %s: no living process holds %s", role.Name, someOf(role.Free))
		} else if err == nil {
			e.Fine(doctor.CheckLeases, "role %s: all %d leases are held by processes that live", role.Name, role.Places)
		}
	}
	if x.Partitions == 0 {
		e.Unknown(errNoPartitions, doctor.CheckLeases)
	}
	if err != nil {
		e.Unknown(err, doctor.CheckLeases)
	}
	return seen.Live
}

// someOf lists a few names.
func someOf(names []string) string {
	const most = 8
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}

// logs looks at what of each partition's log is not stored.
func (x *Installation) logs(ctx context.Context, e *doctor.Examination, cursors []doctor.Cursor, live int) {
	nowMillis, err := x.Redis.TimeMillis(ctx) // ids of the logs are its times
	if err != nil {
		e.Unknown(err, doctor.CheckLag, doctor.CheckGaps)
		return
	}
	positions := make(map[int]sluice.Position)
	for _, c := range cursors {
		if c.Follower == ingest.StoreRole {
			positions[c.Partition] = c.Position
		}
	}
	worstMillis, gaps, behind, unread := int64(0), 0, 0, 0
	for _, p := range flow.Partitions(x.Partitions) {
		at := doctor.Examination{Where: fmt.Sprintf("partition %d", p.Number)}
		next, err := readOn(ctx, flow.NewLog(x.Redis, p), positions[p.Number])
		switch {
		case errors.Is(err, sluice.ErrGap):
			gaps++
			at.Fail(doctor.CheckGaps, gapRemedy, "%s", err)
		case err != nil:
			unread++
			at.Unknown(err, doctor.CheckLag, doctor.CheckGaps)
		case len(next) > 0:
			late := max(0, nowMillis-int64(next[0].Position.Major))
			worstMillis = max(worstMillis, late)
			if judgeLag(&at, live, late, "its log has batches that are not stored, the oldest for %s", lasting(late)) {
				behind++
			}
		}
		e.Findings = append(e.Findings, at.Findings...)
		if ctx.Err() != nil {
			return // what is missing is one finding, not one for each partition
		}
	}
	if gaps+unread == 0 {
		e.Fine(doctor.CheckGaps, "the logs of all %d partitions go on from their cursors", x.Partitions)
	}
	if behind+gaps+unread == 0 {
		e.Fine(doctor.CheckLag, "the logs of all %d partitions are stored; the most that one is behind is %s", x.Partitions, lasting(worstMillis))
	}
}

// readOn reads the first entry behind the cursor of a log. A gap is one behind the cursor,
// or one of entries below it that may not have been applied.
func readOn(ctx context.Context, log *flow.Log, cursor sluice.Position) ([]flow.Batch, error) {
	gap, err := log.StandsAt(ctx, cursor)
	if err != nil {
		return nil, err
	}
	if gap != nil {
		return nil, gap
	}
	return log.Read(ctx, cursor, 1, 0)
}

const gapRemedy = "if the database or Redis was restored, restore the other too (docs/backup.md); or `sluice gaps accept`: what is missing is lost"

func lasting(millis int64) time.Duration {
	return (time.Duration(millis) * time.Millisecond).Round(100 * time.Millisecond)
}

// judgeLag tells of a follower that is behind for too long.
func judgeLag(e *doctor.Examination, live int, millis int64, format string, args ...any) (told bool) {
	remedy := "see `followers` above and the program's log; if it gets on, the database is too slow or too little of it runs"
	if live == 0 {
		remedy = "start it: sluice serve"
	}
	switch {
	case millis >= lagErrorSeconds*1000:
		e.Fail(doctor.CheckLag, remedy, format, args...)
	case millis >= lagWarnSeconds*1000:
		e.Warn(doctor.CheckLag, remedy, format, args...)
	default:
		return false
	}
	return true
}

// lists looks at what of each list is held and not stored.
func (x *Installation) lists(ctx context.Context, e *doctor.Examination, cursors []doctor.Cursor, live int) {
	own := make(map[string]doctor.Cursor)
	for _, c := range cursors {
		own[c.Follower] = c
	}
	for _, l := range x.Lists {
		at := doctor.Examination{Where: l.String()}
		held, err := l.Remaining(ctx)
		waiting := int64(0)
		if err == nil {
			waiting, err = l.Waiting(ctx)
		}
		cursor, has := own[l.Source()] // a list that goes to the logs has none
		if err == nil && has {
			err = x.listGap(ctx, &at, l, cursor.Position)
		}
		if err != nil {
			at.Unknown(err, doctor.CheckLag, doctor.CheckGaps)
			e.Findings = append(e.Findings, at.Findings...)
			continue
		}
		text := fmt.Sprintf("%d items wait in it, %d are held and not stored", waiting, held)
		late := int64(0)
		if has && held+waiting > 0 {
			late = max(0, x.Clock.Now().UnixMilli()-cursor.UpdatedMillis)
		}
		// A list that was empty for long has an old cursor too: what just came
		// waits, and is held within a moment.
		if held == 0 && live != 0 {
			late = 0
		}
		if !judgeLag(&at, live, late, "%s; its follower last got on %s ago", text, lasting(late)) {
			at.Fine(doctor.CheckLag, "%s", text)
		}
		e.Findings = append(e.Findings, at.Findings...)
	}
}

func (x *Installation) listGap(ctx context.Context, at *doctor.Examination, l *flow.List, cursor sluice.Position) error {
	resume, err := l.Resume(ctx, cursor)
	if err == nil && resume != cursor {
		at.Fail(doctor.CheckGaps, gapRemedy, "%s: it is stored up to %s, Redis holds from %s on", sluice.ErrGap, cursor, resume)
	}
	return err
}
