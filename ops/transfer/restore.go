package transfer

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"sluice"
	"sluice/flow"
	"sluice/lib/faults"
	"sluice/lib/jsonscan"
	"sluice/mail"
	"sluice/store"
)

// Restore puts an archive back: the database, the logs, or both.
//
// The order makes it safe to kill. The database is marked before anything of it
// is changed, and the mark goes with the transaction that sets the cursors, the
// last step of all; Redis belongs to no deployment from before its logs are
// emptied. Until the end no program starts on either (flow.Identify), and a new
// restore begins again from the start.
//
// A restore makes a new deployment, whose id both get: a Redis or a process of
// before, which has gone on from where the backup was taken, is then another's,
// and refused. Lease numbers are raised beyond any that were given out.
//
// Cursors into the logs are set to what the logs still hold. What lies between a
// cursor and the beginning of its log is lost, and reported.
//
// Lanes are in no backup: what waited then has been sent since, or nobody knows.
// Those that are there stay with the database's restore, since they are what has
// not been sent; with the logs' they go, and nothing of the logs is queued anew.
// Either way lanes and ledger are compared before anything is sent again.
type Restore struct {
	Database Database
	Redis    *flow.Redis
	Archive  *Archive

	// Tables and Logs say what is put back; the other is taken as it is.
	Tables, Logs bool

	// Replace empties what has something in it.
	Replace bool

	// ListCursors says that the tables of the user's own are as they were when
	// the backup was taken, or empty: see checkOwnTables.
	ListCursors bool

	// EventsFromMillis leaves out older events; 0: none.
	EventsFromMillis int64

	// LogFollowers are the followers whose cursors are positions in the logs.
	LogFollowers []string

	// LaneFollower is the follower that moves sends from the logs to the lanes,
	// whose cursor is in Redis.
	LaneFollower string

	// Lists are the foreign lists and hashes of the configuration (checkLists).
	Lists     []*flow.List
	TakeLists bool

	// Passphrase opens the secrets of the archive, if they are sealed. WithoutSecrets
	// leaves them out.
	Passphrase     string
	WithoutSecrets bool

	// Progress, if set, is told now and then what is being done.
	Progress func(what string)
}

// Restored is what a restore did.
type Restored struct {
	Rows         map[string]int64
	LeftOut      int64 // events that were too old
	Entries      int64 // of the logs
	Elements     int64 // held of lists
	HeldLeftOut  int64 // the same, that may have been stored since the backup
	Gaps         []Gap
	SendsWaiting int64              // in the database
	InLanes      int64              // sends in Redis
	KeptCursors  []store.DumpCursor // of users' own tables
}

// Gap is what is lost of a log, entries behind From up to To, whose Majors are
// milliseconds; or of a list, whose Majors are numbers of chunks.
type Gap struct {
	Follower  string
	Partition int
	From, To  sluice.Position
}

// Bounds of one transaction.
const (
	restoreRows  = 10_000
	restoreBytes = 4 << 20
)

// stopsTable has what is stopped, for a Redis that does not know.
const stopsTable = "mail_stops"

// Run does it.
func (r *Restore) Run(ctx context.Context) (*Restored, error) {
	done := &Restored{Rows: make(map[string]int64)}
	if err := r.run(ctx, done); err != nil {
		return nil, fmt.Errorf("restore: %w", err)
	}
	return done, nil
}

func (r *Restore) run(ctx context.Context, done *Restored) error {
	owners, err := r.owners(ctx)
	if err != nil {
		return err
	}
	if err := errors.Join(NobodyRuns(ctx, r.Redis, owners[0] != 0), r.checkLists(ctx, owners), r.checkTables()); err != nil {
		return err
	}
	if !r.Tables {
		return r.runLogs(ctx, owners, done)
	}
	cursors, leases, err := r.positions()
	if err != nil {
		return err
	}
	if done.KeptCursors, err = r.Database.OwnTableCursors(ctx); err != nil {
		return err
	}
	if cursors, err = r.checkOwnTables(cursors, done.KeptCursors); err != nil {
		return err
	}
	if err := r.checkLogs(ctx); err != nil {
		return err
	}
	if err := r.openSecrets(); err != nil {
		return err
	}
	into, err := r.Database.BeginRestore(ctx, r.Replace)
	if err != nil {
		return err
	}
	if r.Logs {
		if err := r.putBackLogs(ctx, done); err != nil {
			return err
		}
		if err := r.putBackHeld(ctx, append(slices.Clone(cursors), done.KeptCursors...), false, done); err != nil {
			return err
		}
	}
	stopsStay := false // what is stopped now is in the Redis, which stays
	if !r.Logs {
		if stopsStay, err = r.Redis.KnowsStops(ctx); err != nil {
			return err
		}
	}
	for _, table := range r.Archive.Tables {
		if table.Name == "cursors" || table.Name == "leases" {
			continue // Finish writes them
		}
		if table.Name == stopsTable && stopsStay {
			continue
		}
		if table.Name == secretsTable && r.WithoutSecrets {
			continue
		}
		if err := r.putBackTable(ctx, into, table, done); err != nil {
			return err
		}
	}
	if cursors, err = r.adjust(ctx, cursors, done); err != nil {
		return err
	}
	to, err := r.join(ctx, owners, done)
	if err != nil {
		return err
	}
	return into.Finish(ctx, append(append(cursors, done.KeptCursors...), to.Cursor()), leases)
}

// owners are the deployments whose lists are ours: of the Redis, of the
// database, of the archive.
func (r *Restore) owners(ctx context.Context) ([]uint64, error) {
	there, err := flow.DeploymentOf(ctx, r.Database)
	if err != nil {
		return nil, err
	}
	id, err := r.Redis.Deployment(ctx)
	if err != nil {
		return nil, err
	}
	archived, err := strconv.ParseUint(r.Archive.Deployment, 16, 64)
	if err != nil {
		return nil, fmt.Errorf("the deployment of the backup is %q: %w", r.Archive.Deployment, err)
	}
	return []uint64{there.ID, id, archived}, nil
}

// join makes Redis and the lists those of a new deployment, if nobody has begun to
// run, and counts what waits to be sent. The database is next, and last.
func (r *Restore) join(ctx context.Context, owners []uint64, done *Restored) (to flow.Deployment, err error) {
	if err := errors.Join(NobodyRuns(ctx, r.Redis, false), r.checkLists(ctx, owners)); err != nil {
		return to, err
	}
	to.Partitions = r.Archive.Partitions
	if to.ID, err = flow.NewDeploymentID(); err != nil {
		return to, err
	}
	if err := errors.Join(r.Redis.Join(ctx, to.ID), r.Redis.ForgetStopsAt(ctx), flow.Gaps{Redis: r.Redis}.Clear(ctx)); err != nil {
		return to, err
	}
	for _, l := range r.Lists {
		if err := l.HandOver(ctx, owners, to.ID); err != nil {
			return to, err
		}
	}
	now, err := r.Redis.TimeMillis(ctx)
	if err != nil {
		return to, err
	}
	if r.Archive.hasCheckpoints() {
		now = 0 // facts behind a checkpoint are told again, also where it is of before anybody came
	}
	for _, p := range flow.Partitions(r.Archive.Partitions) {
		log := flow.NewLog(r.Redis, p)
		if err := errors.Join(log.Lanes().CompareAgain(ctx), log.ClearJourneys(ctx, now)); err != nil {
			return to, err
		}
	}
	if err := faults.Hit("restore-finish"); err != nil {
		return to, err
	}
	return to, r.countSends(ctx, done)
}

// countSends counts what waits to be sent, in the database and in Redis.
func (r *Restore) countSends(ctx context.Context, done *Restored) error {
	totals, err := r.Database.SendTotals(ctx)
	if err != nil {
		return err
	}
	for _, t := range totals {
		if t.State == mail.SendWaiting {
			done.SendsWaiting += t.Count
		}
	}
	for _, p := range flow.Partitions(r.Archive.Partitions) {
		lanes, err := flow.NewLog(r.Redis, p).Lanes().Waiting(ctx)
		if err != nil {
			return err
		}
		for _, n := range lanes {
			done.InLanes += n
		}
	}
	return nil
}

// runLogs restores the logs under a database that stays.
func (r *Restore) runLogs(ctx context.Context, owners []uint64, done *Restored) error {
	half, err := r.Database.Restoring(ctx)
	if err != nil {
		return err
	}
	if half {
		return errors.New("the database is half restored: restore it as well")
	}
	there, err := flow.DeploymentOf(ctx, r.Database)
	if err != nil {
		return err
	}
	if there.Partitions != 0 && there.Partitions != r.Archive.Partitions {
		return fmt.Errorf("the database has %d partitions, the backup %d", there.Partitions, r.Archive.Partitions)
	}
	if err := r.checkLogs(ctx); err != nil {
		return err
	}
	if err := r.putBackLogs(ctx, done); err != nil {
		return err
	}
	own, err := r.Database.OwnTableCursors(ctx)
	if err != nil {
		return err
	}
	cursors, err := r.logCursors(ctx)
	if err != nil {
		return err
	}
	moved, err := r.movedSince(cursors)
	if err != nil {
		return err
	}
	if err := r.putBackHeld(ctx, own, moved, done); err != nil {
		return err
	}
	before := slices.Clone(cursors)
	after, err := r.adjust(ctx, cursors, done)
	if err != nil {
		return err
	}
	to, err := r.join(ctx, owners, done)
	if err != nil {
		return err
	}
	return flow.Rejoin(ctx, r.Database, there, to, before, after)
}

func allPartitions(count int) []int {
	all := make([]int, count)
	for i := range all {
		all[i] = i
	}
	return all
}

// positions reads the cursors and leases of the archive.
func (r *Restore) positions() (cursors []store.DumpCursor, leases []store.DumpLease, err error) {
	err = r.Archive.Lines("sql/cursors", func(line string) error {
		var c store.DumpCursor
		err := readFields(line, map[string]any{"follower": &c.Follower, "part": &c.Partition, "pos_major": &c.Position.Major, "pos_minor": &c.Position.Minor, "updated": nil})
		if c.Follower != "deployment" && c.Follower != "restoring" {
			cursors = append(cursors, c)
		}
		return err
	})
	if err == nil {
		err = r.Archive.Lines("sql/leases", func(line string) error {
			var l store.DumpLease
			err := readFields(line, map[string]any{"role": &l.Role, "part": &l.Partition, "number": &l.Number, "taken_at": nil})
			leases = append(leases, l)
			return err
		})
	}
	return cursors, leases, err
}

// readFields reads the members of a line into what they are given; nil: it is
// passed over.
func readFields(line string, fields map[string]any) (err error) {
	m := jsonscan.Read(line)
	for m.Next() {
		to, known := fields[m.Key]
		if !known {
			return fmt.Errorf("it has the field %q, which this program does not know", m.Key)
		}
		text := m.Value.Text()
		switch to := to.(type) {
		case nil:
		case *string:
			*to = text
		case *int:
			*to, err = strconv.Atoi(text)
		case *uint64:
			*to, err = strconv.ParseUint(text, 10, 64)
		}
		if err != nil {
			return fmt.Errorf("field %s: %w", m.Key, err)
		}
	}
	return m.Err()
}

// adjust moves cursors that stand before what the logs hold.
func (r *Restore) adjust(ctx context.Context, cursors []store.DumpCursor, done *Restored) ([]store.DumpCursor, error) {
	from, lostTo := make(map[int]sluice.Position), make(map[int]sluice.Position)
	for _, p := range flow.Partitions(r.Archive.Partitions) {
		log := flow.NewLog(r.Redis, p)
		start, _, err := log.Span(ctx)
		if err != nil {
			return nil, err
		}
		from[p.Number] = start
		if lostTo[p.Number], err = log.LostUpTo(ctx); err != nil {
			return nil, err
		}
	}
	lost := make(map[int]sluice.Position) // by partition with a gap
	for i, c := range cursors {
		start, err := r.startOf(ctx, c, from)
		if err != nil {
			return nil, err
		}
		if !c.Position.Before(start) {
			continue
		}
		done.Gaps = append(done.Gaps, Gap{Follower: c.Follower, Partition: c.Partition, From: c.Position, To: start})
		cursors[i].Position = start
		if slices.Contains(r.LogFollowers, c.Follower) {
			lost[c.Partition] = lostTo[c.Partition]
		}
	}
	slices.SortFunc(done.Gaps, func(a, b Gap) int { return a.Partition - b.Partition })
	return withLost(cursors, lost), nil
}

// withLost returns the cursors with those that say, by partition, up to where
// outcomes of a log may speak of lost rows.
func withLost(cursors []store.DumpCursor, lost map[int]sluice.Position) []store.DumpCursor {
	for i, c := range cursors {
		if to, is := lost[c.Partition]; is && c.Follower == flow.LostRowsFollower {
			if c.Position.Before(to) {
				cursors[i].Position = to
			}
			delete(lost, c.Partition)
		}
	}
	for p, to := range lost {
		cursors = append(cursors, store.DumpCursor{Follower: flow.LostRowsFollower, Partition: p, Position: to})
	}
	return cursors
}

// startOf returns where a cursor goes on.
func (r *Restore) startOf(ctx context.Context, c store.DumpCursor, logs map[int]sluice.Position) (sluice.Position, error) {
	if slices.Contains(r.LogFollowers, c.Follower) {
		return logs[c.Partition], nil
	}
	for _, l := range r.Lists {
		if l.Source() == c.Follower {
			return l.Resume(ctx, c.Position)
		}
	}
	return c.Position, nil
}

// emptied are the logs of all partitions, with nothing in them and in lanes.
func (r *Restore) emptied(ctx context.Context) (map[int]*flow.Log, error) {
	logs := make(map[int]*flow.Log)
	for _, p := range flow.Partitions(r.Archive.Partitions) {
		l := flow.NewLog(r.Redis, p)
		if err := errors.Join(l.Clear(ctx), l.ClearLanes(ctx)); err != nil {
			return nil, err
		}
		logs[p.Number] = l
	}
	return logs, nil
}

// putBackLogs empties logs and lanes, forgets names of requests, and fills the logs from the archive.
func (r *Restore) putBackLogs(ctx context.Context, done *Restored) error {
	if err := faults.Hit("restore-logs"); err != nil {
		return err
	}
	if err := errors.Join(r.Redis.LeaveDeployment(ctx), r.Redis.ForgetOnce(ctx, r.Archive.Partitions)); err != nil {
		return err
	}
	logs, err := r.emptied(ctx)
	if err != nil {
		return err
	}
	ends := make(map[int]sluice.Position)
	for _, l := range r.Archive.Logs {
		end, err := sluice.ParsePosition(l.To)
		if err != nil {
			return err
		}
		ends[l.Partition] = end
	}
	pending := make(map[int][]flow.Batch)
	bytes := 0
	flush := func() error {
		for _, p := range slices.Sorted(maps.Keys(pending)) {
			if err := logs[p].PutBack(ctx, pending[p]); err != nil {
				return err
			}
		}
		clear(pending)
		bytes = 0
		return nil
	}
	err = r.Archive.Lines("log", func(line string) error {
		b, err := readEntry(line)
		if err != nil || ends[b.Partition].Before(b.Position) {
			return err
		}
		if logs[b.Partition] == nil {
			return fmt.Errorf("it has an entry of partition %d of %d", b.Partition, r.Archive.Partitions)
		}
		pending[b.Partition] = append(pending[b.Partition], b)
		done.Entries++
		if bytes += len(b.Data); bytes >= restoreBytes {
			return flush()
		}
		return nil
	})
	if err == nil {
		err = flush()
	}
	if err != nil {
		return err
	}
	for p, end := range ends { // what comes back was in a lane once, and may have been sent
		if logs[p] == nil {
			continue
		}
		if err := logs[p].SkipTo(ctx, r.LaneFollower, end); err != nil {
			return err
		}
	}
	return r.putBackSources(ctx, logs)
}

func (r *Restore) putBackSources(ctx context.Context, logs map[int]*flow.Log) error {
	sources := make(map[int]map[string]string)
	err := r.Archive.Lines("sources", func(line string) error {
		var p int
		var source, value string
		err := readFields(line, map[string]any{"partition": &p, "source": &source, "value": &value})
		if sources[p] == nil {
			sources[p] = make(map[string]string)
		}
		sources[p][source] = value
		return err
	})
	if err != nil {
		return err
	}
	for p, of := range sources {
		if logs[p] == nil {
			return fmt.Errorf("it has sources of partition %d of %d", p, r.Archive.Partitions)
		}
		if err := logs[p].PutBackSources(ctx, of); err != nil {
			return err
		}
	}
	return nil
}

func readEntry(line string) (b flow.Batch, err error) {
	var id, prev, batch string
	if err := readFields(line, map[string]any{"partition": &b.Partition, "id": &id, "prev": &prev, "batch": &batch}); err != nil {
		return b, err
	}
	var errs [3]error
	b.Position, errs[0] = sluice.ParsePosition(id)
	b.Prev, errs[1] = sluice.ParsePosition(prev)
	b.Data, errs[2] = base64.StdEncoding.DecodeString(batch)
	return b, errors.Join(errs[:]...)
}
