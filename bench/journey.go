package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"sluice"
	"sluice/flow"
	"sluice/ingest"
	"sluice/journey"
	"sluice/journey/plan"
	moving "sluice/journey/run"
	"sluice/mail"
	"sluice/mail/spool"
	"sluice/store"
	"sluice/store/sqlstore"
	"sluice/user"

	"golang.org/x/sync/errgroup"
)

// `bench journey`: ten million people wait at one step of a journey and are due at one
// second; each takes the first of eleven branches whose rule holds. Then they are due
// again, in the steps behind the branches. Beside it is measured what else journeys
// promise (journey_figures.go), in parts, on one kind of database after the other.
//
// The old designs move fewer people, and are compared by the time for a person: one job
// for each person and branch in a sorted set (before the fix), and sets popped a hundred
// at a time (the fix). They read the same profiles, and ask the same rules.
const (
	journeyUsers, journeyUsersQuick = 10_000_000, 200_000
	jobUsers, jobUsersQuick         = 4_000, 500
	setUsers, setUsersQuick         = 100_000, 10_000
	journeyPartitions               = 16
	journeyBranches                 = 11
	journeyWorkers                  = 20
	journeyWithin                   = 20 * time.Minute
	releasedEvery                   = 5 * time.Millisecond   // is looked whether all partitions move people
	redisEvery                      = 200 * time.Millisecond // is looked at Redis's memory
)

// journeyName is the bench that moves people.
const journeyName = "journey"

// journeyKinds are the kinds of databases.
var journeyKinds = []string{"sqlite", "mariadb", "postgres"}

// The parts of `bench journey`. All but the last two share the people.
const (
	partWave      = "wave"      // everybody is due at one second, twice; and who comes meanwhile
	partSaved     = "saved"     // checkpoints, Redis lost, and a wave with and without checkpoints
	partSpread    = "spread"    // what a person takes where few are, and in a further journey
	partMany      = "many"      // as many people in 1, 10 and 50 journeys
	partWakes     = "wakes"     // people who are due one by one
	partBaselines = "baselines" // the old designs
	partFacts     = "facts"     // events that journeys wait for
	partMails     = "mails"     // a message step
)

var journeyParts = []string{partWave, partSaved, partSpread, partMany, partWakes, partBaselines, partFacts, partMails}

// journeyDocument is the journey: a pause, the branches, and a pause behind each.
func journeyDocument(id string) string {
	text := "id: " + id + "\nentry: {when: {api: true}}\nsteps:\n  - {id: pause, delay: {for: 1h}, next: split}\n  - id: split\n    audiences:\n      paths:\n"
	for i := range journeyBranches {
		text += fmt.Sprintf("        - {name: b%d, if: {and: [{attribute: score, is: greater_than_or_equal_to, value: %d}, {field: country, is: equals, value: AT}]}, next: after-%d}\n", i, 950-i*90, i)
	}
	text += "      otherwise: rest\n  - {id: rest, delay: {for: 1h}}\n"
	for i := range journeyBranches {
		text += fmt.Sprintf("  - {id: after-%d, delay: {for: 1h}}\n", i)
	}
	return text
}

// journeyProfile is the i-th person's, of some 350 bytes.
func journeyProfile(i int64) string {
	return fmt.Sprintf(`{"external_id":"user-%d","created":1700000000000,"active":20500,"fields":{"country":"%s","email":"user-%d@example.com","first_name":"Ada","time_zone":"Europe/Vienna"},"custom":{"city":"Wien","plan":"gold","renewal":"2026-05-01","score":%d,"tags":["a","b"]},"events":{"login":[5,1700000000000,1710000000000]},"groups":{"news":["subscribed",1700000000000]}}`,
		i, []string{"AT", "FR"}[i%2], i, i*7919%1000)
}

type journeyBench struct {
	*env
	name   string // of the database
	users  int64
	store  *sqlstore.Store
	redis  *flow.Redis
	logs   []*flow.Log
	clock  *benchClock
	leases *flow.Leases
	stop   func() error // ends what holds the leases and stores the logs

	lonely     int       // the number of the journey that few are in
	lonelyFrom time.Time // they are due in the seconds behind it
}

// checkKinds takes the kinds of databases from --database. What is left there is a URL.
func (r *run) checkKinds(bench string) error {
	if bench != journeyName {
		return nil
	}
	switch {
	case r.database == "" && r.quick:
		r.kinds = journeyKinds[:1]
	case r.database == "":
		r.kinds = journeyKinds
	case strings.Contains(r.database, "://"):
		r.kinds = []string{"mariadb"}
		return nil
	default:
		r.kinds, r.database = strings.Split(r.database, ","), ""
	}
	for _, kind := range r.kinds {
		if !slices.Contains(journeyKinds, kind) {
			return fmt.Errorf("--database: there is no kind %q, there are %s", kind, strings.Join(journeyKinds, ", "))
		}
	}
	return nil
}

// runJourney is `sluice-bench journey`.
func runJourney(ctx context.Context, r *run) (err error) {
	sluice.WriteNewForms() // nobody moves before mails can say of which journey they are
	users := pick(r, int64(journeyUsers), journeyUsersQuick)
	if r.users > 0 {
		users = int64(r.users)
	}
	r.report.Settings["users"] = fmt.Sprintf("%d in %d partitions, %d branches, profiles of %d bytes; the old designs have fewer people and are compared by the time for one", users, journeyPartitions, journeyBranches, len(journeyProfile(users/2)))
	r.report.Settings["sqlite_file"] = "read once before each part, so that the system has it in memory"
	r.report.Settings["aof"] = "Redis rewrites its append-only file at the beginning of the second wave"
	if err := r.goOn(); err != nil {
		return err
	}
	r.report.whole = len(r.parts) == 0
	for _, kind := range r.kinds {
		began := time.Now()
		if failed := journeyOn(ctx, r, kind, users); failed != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", kind, failed))
		}
		r.report.Settings["run "+began.UTC().Format(time.RFC3339)] = fmt.Sprintf("%s, parts %s, %.0f s", kind, cmp.Or(strings.Join(r.parts, ","), "all"), time.Since(began).Seconds())
	}
	for _, kind := range journeyKinds {
		r.report.judgeJourney(kind, users, slices.Contains(r.kinds, kind))
	}
	return err
}

// journeyOn measures on one kind of database, with a Redis of its own.
func journeyOn(ctx context.Context, r *run, kind string, users int64) (err error) {
	e, err := openEnv(ctx, r, kind == "mariadb")
	defer func() { err = errors.Join(err, e.close()) }()
	if err != nil {
		return err
	}
	if err := r.watchBusy(ctx); err != nil {
		return err
	}
	var db database = e.maria
	switch kind {
	case "sqlite":
		db, err = openSQLite(e)
	case "postgres":
		db, err = openPostgres(ctx, e)
	}
	if err != nil {
		return err
	}
	b := &journeyBench{env: e, name: kind, users: users, clock: &benchClock{}}
	if b.people() > 0 || r.does(partSpread) {
		err = b.measure(ctx, db)
	}
	for _, part := range []struct {
		name string
		run  func(context.Context, *env, database, string) error
	}{{partFacts, journeyFacts}, {partMails, journeyOfMails}} {
		if !r.does(part.name) || ctx.Err() != nil {
			continue
		}
		if failed := part.run(ctx, e, db, kind); failed != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", part.name, failed))
		}
	}
	return errors.Join(err, e.redis.Clear(context.WithoutCancel(ctx)))
}

// people is how many people must be stored for the parts that are wanted.
func (b *journeyBench) people() (n int64) {
	if b.run.does(partWave) || b.run.does(partWakes) {
		return b.users
	}
	if b.run.does(partSaved) {
		n = b.users / savedOf
	}
	if b.run.does(partMany) {
		n = max(n, b.users/manyOf)
	}
	if b.run.does(partBaselines) {
		n = max(n, setUsers)
	}
	return n
}

// benchClock is one that the bench moves on.
type benchClock struct{ ahead atomic.Int64 }

// Now implements sluice.Clock.
func (c *benchClock) Now() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) }

// measure fills a database and measures the parts that share the people. One that fails
// keeps no other from being measured.
func (b *journeyBench) measure(ctx context.Context, db database) (err error) {
	closed, err := b.open(ctx, db)
	defer func() { err = errors.Join(err, closed()) }()
	if err != nil {
		return err
	}
	if err := b.fill(ctx, b.people()); err != nil {
		return err
	}
	if err := b.settle(ctx, db); err != nil {
		return err
	}
	b.stop = b.begin(ctx)
	defer func() { err = errors.Join(err, b.stop()) }()
	for _, part := range []struct {
		name string
		run  func(context.Context) error
	}{{partWave, b.wave}, {partSpread, b.spread}, {partMany, b.many}, {partWakes, b.wakes}, {partBaselines, b.baselines}, {partSaved, b.saved}} {
		if !b.run.does(part.name) || ctx.Err() != nil {
			continue
		}
		failed := b.alone(ctx, db)
		if failed == nil {
			failed = part.run(ctx)
		}
		if failed != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", part.name, failed))
		}
	}
	return err
}

// alone removes where other parts have left people, from Redis and from checkpoints, so that a
// part measures the same in a run of all as in one of its own. A file of SQLite is read once:
// some systems take from memory what nobody has read for a minute, and the filling takes one.
// The other databases have their tables in memory of their own.
func (b *journeyBench) alone(ctx context.Context, db database) error {
	remove := "TRUNCATE TABLE "
	if s, ok := db.(*sqliteStore); ok {
		remove = "DELETE FROM "
		if err := s.readAll(); err != nil {
			return err
		}
	}
	return b.empty(ctx, func() (err error) {
		for _, table := range []string{"journey_blocks", "journey_checkpoints"} {
			if err == nil {
				_, err = db.handle().ExecContext(ctx, remove+table)
			}
		}
		return err
	})
}

// empty empties Redis, and what f empties, while nothing uses them, and begins anew.
func (b *journeyBench) empty(ctx context.Context, f func() error) error {
	stop := b.stop
	b.stop = func() error { return nil }
	if err := stop(); err != nil {
		return err
	}
	if err := errors.Join(f(), b.env.redis.Clear(ctx)); err != nil {
		return err
	}
	b.stop = b.begin(ctx)
	return nil
}

// open empties a database and Redis and connects to them, until closed is called.
func (b *journeyBench) open(ctx context.Context, db database) (closed func() error, err error) {
	closed = func() error { return nil }
	if err := errors.Join(db.fresh(ctx), b.env.redis.Clear(ctx)); err != nil {
		return closed, err
	}
	if b.store, err = sqlstore.Open(ctx, db.url(), sqlstore.Options{}); err != nil {
		return closed, err
	}
	closed = b.store.Close
	if err := b.store.Migrate(ctx); err != nil {
		return closed, err
	}
	if b.redis, err = flow.Dial(ctx, b.redisURL); err != nil {
		return closed, err
	}
	for _, p := range flow.Partitions(journeyPartitions) {
		b.logs = append(b.logs, flow.NewLog(b.redis, p))
	}
	return func() error { b.redis.Close(); return b.store.Close() }, nil
}

// lease leases all partitions until unlease is called.
func (b *journeyBench) lease(ctx context.Context) (leasing context.Context, unlease func() error) {
	leases := flow.NewLeases(b.redis, b.store, slog.New(slog.DiscardHandler))
	leases.AddPartitions(moving.Role, b.redis, flow.Partitions(journeyPartitions))
	leases.AddPartitions(ingest.StoreRole, b.redis, flow.Partitions(journeyPartitions))
	leases.AddPartitions(spool.Role, b.redis, flow.Partitions(journeyPartitions))
	leasing, stop := context.WithCancel(ctx)
	left := make(chan error, 1)
	go func() { left <- leases.Run(leasing) }() // until unlease
	b.leases = leases
	return leasing, func() error { stop(); return <-left }
}

// begin leases all partitions and stores their logs, until stop is called.
func (b *journeyBench) begin(ctx context.Context) (stop func() error) {
	leasing, unlease := b.lease(ctx)
	f := &ingest.StoreFollower{Logs: b.logs, Leases: b.leases, Store: b.store, Users: b.store, Journeys: b.store, Clock: b.clock, Log: slog.New(slog.DiscardHandler), Stats: &ingest.Stats{}, MarginBytes: 64 << 20,
		Queue: &spool.Queuer{Lanes: b.lanes(), Logs: b.logs, Suppress: everybody{}, Clock: sluice.SystemClock{}, Log: slog.New(slog.DiscardHandler)}}
	fetch, cancel := context.WithCancel(ctx)
	stored := make(chan struct{})
	go func() { defer close(stored); f.Run(fetch, leasing) }() // until stop
	return func() error {
		cancel()
		<-stored
		return unlease()
	}
}

func (b *journeyBench) add(id, label, unit string, value float64) {
	b.run.report.add(b.name+"_"+id, b.name+", "+label, unit, value)
}

// usedMB reads a member of Redis's memory section.
func (b *journeyBench) usedMB(ctx context.Context, member string) (float64, error) {
	info, err := b.redis.Info(ctx, "memory")
	if err != nil {
		return 0, err
	}
	bytes, err := strconv.ParseFloat(info[member], 64)
	return bytes / 1e6, err
}

// fill stores the people.
func (b *journeyBench) fill(ctx context.Context, people int64) error {
	b.run.say("%s: store %d people", b.name, people)
	now := time.Now().UnixMilli()
	for i := int64(0); i < people; {
		changes := &user.Changes{}
		for ; len(changes.Put) < ruleStep && i < people; i++ {
			id := user.ID{Partition: int(i % journeyPartitions), Number: i/journeyPartitions + 1}
			changes.Put = append(changes.Put, user.Row{ID: id, UpdatedMillis: now, Profile: journeyProfile(i)})
		}
		p, err := b.store.Prepare(&store.Effect{Users: changes})
		if err == nil {
			_, err = b.store.Apply(ctx, p)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// settle has PostgreSQL do with what was just loaded what its manual asks for ("Populating a
// Database"), and write it to its files. Else it does that by itself, for minutes, beside
// what is measured.
func (b *journeyBench) settle(ctx context.Context, db database) error {
	if _, ok := db.(*postgresStore); !ok {
		return nil
	}
	b.run.report.Settings["postgres_loaded"] = "VACUUM (ANALYZE) and CHECKPOINT when the people are stored, and before anything is measured"
	for _, statement := range []string{"VACUUM (ANALYZE)", "CHECKPOINT"} {
		if _, err := db.handle().ExecContext(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

// noEnv has nothing beside the journey.
type noEnv struct{}

func (noEnv) Template(string, int) (mail.Class, bool, error) { return 0, false, nil }
func (noEnv) Segment(string) (string, bool, error)           { return "", false, nil }
func (noEnv) Journey(string) (bool, error)                   { return false, nil }

// publish stores a journey with an id, and makes a version of it.
func (b *journeyBench) publish(ctx context.Context, id string) (number int64, err error) {
	return publish(ctx, b.store, journeyDocument(id), noEnv{})
}

// publish stores a journey of a document, and makes a version of it.
func publish(ctx context.Context, db store.JourneyStore, text string, env plan.Env) (number int64, err error) {
	_, p, err := plan.LoadYAML(text, env)
	if err != nil {
		return 0, err
	}
	j, err := db.AddJourney(ctx, store.Journey{ID: p.ID, Status: journey.StatusDraft, Draft: p.Canonical()})
	if err != nil {
		return 0, err
	}
	j.Status = journey.StatusLive
	_, _, err = db.Publish(ctx, j, p.Canonical(), p.Names())
	return j.Number, err
}

// enter writes the records of people who wait at the first step: all due at one second.
// In which order people came changes nothing: a record stands at the place of its
// number.
func (b *journeyBench) enter(ctx context.Context, number int64, due time.Time) error {
	b.run.say("%s: everybody enters", b.name)
	held, err := b.hold(ctx)
	if err != nil {
		return err
	}
	r := waiting(due, due.Add(-time.Hour))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for p := range journeyPartitions {
		group.Go(func() error {
			return b.enterOne(ctx, held[p], p, int(number), b.lastOf(p), func(int64) journey.Record { return r })
		})
	}
	return group.Wait()
}

// hold waits until all leases are held.
func (b *journeyBench) hold(ctx context.Context) (map[int]*flow.Lease, error) {
	held, changed := b.leases.Held(moving.Role)
	for len(held) < journeyPartitions {
		select {
		case <-changed:
			held, changed = b.leases.Held(moving.Role)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return held, nil
}

// lastOf is the number of the last person of a partition.
func (b *journeyBench) lastOf(partition int) int64 {
	return (b.users-1-int64(partition))/journeyPartitions + 1
}

// enterOne enters people of one partition up to a number with the records that of returns.
func (b *journeyBench) enterOne(ctx context.Context, lease *flow.Lease, partition, number int, last int64, of func(person int64) journey.Record) error {
	records := b.logs[partition].Records(number)
	if err := records.Load(ctx, nil); err != nil {
		return err
	}
	at, err := b.logs[partition].Cursor(ctx, journeyName)
	if err != nil {
		return err
	}
	for first := int64(1); first <= last; first += flow.ChunkRecords {
		chunk := records.Of(first)
		units := records.Divide(chunk)
		for _, u := range units {
			for n := u.First(); n < u.First()+int64(u.Span()) && n <= last; n++ {
				if r := of(n); r.State != journey.StateNone {
					var raw flow.Record
					r.Append(raw[:0])
					u.Set(n, raw)
				}
			}
		}
		next := at
		next.Major++
		if _, err := b.logs[partition].Commit(ctx, lease, &flow.Commit{Follower: journeyName, From: at, To: next, Operations: records.Operations(append(units, chunk))}, 1); err != nil {
			return err
		}
		at = next
	}
	return nil
}

// until waits for a condition.
func until(ctx context.Context, within time.Duration, met func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for !met() {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
