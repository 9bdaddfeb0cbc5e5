package bench

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"strconv"
	"sync/atomic"
	"time"

	"sluice/flow"
	"sluice/ingest"
	"sluice/journey"
	"sluice/journey/plan"
	moving "sluice/journey/run"
	"sluice/mail"
	"sluice/store"
	"sluice/store/sqlstore"
	"sluice/user"
	"sluice/user/rule"

	"golang.org/x/sync/errgroup"
)

// `bench journey`: ten million people wait at one step of a journey and are due at one
// second; each takes the first of eleven branches whose rule holds. Then they are due
// again, in the steps behind the branches.
//
// The old designs move fewer people, and are compared by the time for a person: one job
// for each person and branch in a sorted set (before the fix), and sets popped a hundred
// at a time (the fix). They read the same profiles, and ask the same rules.
const (
	journeyUsers, journeyUsersQuick = 10_000_000, 200_000
	jobUsers, jobUsersQuick         = 4_000, 1_000
	setUsers, setUsersQuick         = 100_000, 20_000
	journeyPartitions               = 16
	journeyBranches                 = 11
	journeyWorkers                  = 20
	journeyEnters                   = 32_000 // people of one partition a commit
	journeyWithin                   = 20 * time.Minute

	// What is promised, of 10,000,000 people.
	wantVsJobs      = 100
	wantVsRelease   = 5
	wantVsSets      = 3
	wantRecoverS    = 10
	wantJourneyMB   = 270
	wantSluiceMB    = 500
	wantPersonBytes = 17
)

// wantTotalS are the seconds for a wave, by the kind of database.
var wantTotalS = map[string]float64{"sqlite": 60, "mariadb": 80, "postgres": 100}

// journeyName is the bench that moves people.
const journeyName = "journey"

var journeyParts = []string{"sqlite", "mariadb", "postgres", "spread", "many", "wakes", "baselines", "mails"}

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
	name  string // of the database
	users int64
	store *sqlstore.Store
	redis *flow.Redis
	logs  []*flow.Log

	lonely     int       // the number of the journey that few are in
	lonelyFrom time.Time // they are due in the seconds behind it
}

// runJourney is `sluice-bench journey`.
func runJourney(ctx context.Context, r *run) (err error) {
	e, err := openEnv(ctx, r, r.does("mariadb") || r.does("mails"))
	defer func() { err = errors.Join(err, e.close()) }()
	if err != nil {
		return err
	}
	users := pick(r, int64(journeyUsers), journeyUsersQuick)
	if r.users > 0 {
		users = int64(r.users)
	}
	r.report.Settings["users"] = fmt.Sprintf("%d in %d partitions, %d branches, profiles of %d bytes; the old designs have fewer people and are compared by the time for one", users, journeyPartitions, journeyBranches, len(journeyProfile(users/2)))
	for _, part := range []struct {
		name string
		open func() (database, error)
	}{
		{"sqlite", func() (database, error) { return openSQLite(e) }},
		{"mariadb", func() (database, error) { return e.maria, nil }},
		{"postgres", func() (database, error) { return openPostgres(ctx, e) }},
	} {
		if !r.does(part.name) {
			continue
		}
		db, err := part.open()
		if err == nil {
			b := &journeyBench{env: e, name: part.name, users: users}
			err = b.measure(ctx, db)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
		scaled := float64(users) / journeyUsers
		r.report.limit(part.name+"_total_s", part.name+"_total", wantTotalS[part.name]*scaled)
		r.report.limit(part.name+"_second_to_first", part.name+"_second_to_first", 1.5)
		r.report.limit(part.name+"_recover_s", part.name+"_recover", max(wantRecoverS*scaled, 1))
		r.report.limit(part.name+"_redis_mb", part.name+"_redis", wantJourneyMB*scaled)
		r.report.limit(part.name+"_bytes_per_person", part.name+"_person", wantPersonBytes)
		r.report.limit(part.name+"_sluice_mb", part.name+"_memory", wantSluiceMB)
	}
	if r.does("mails") {
		return journeyOfMails(ctx, e)
	}
	return nil
}

// benchClock is one that the bench moves on.
type benchClock struct{ ahead atomic.Int64 }

// Now implements sluice.Clock.
func (c *benchClock) Now() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) }

// measure fills a database and Redis, moves everybody twice, and runs the old designs.
func (b *journeyBench) measure(ctx context.Context, db database) (err error) {
	if err := errors.Join(db.fresh(ctx), b.env.redis.Clear(ctx)); err != nil {
		return err
	}
	if b.store, err = sqlstore.Open(ctx, db.url(), sqlstore.Options{}); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.store.Close()) }()
	if err := b.store.Migrate(ctx); err != nil {
		return err
	}
	if b.redis, err = flow.Dial(ctx, b.redisURL); err != nil {
		return err
	}
	defer b.redis.Close()
	for _, p := range flow.Partitions(journeyPartitions) {
		b.logs = append(b.logs, flow.NewLog(b.redis, p))
	}
	if err := b.fill(ctx); err != nil {
		return err
	}
	number, err := b.publish(ctx, "wave")
	if err != nil {
		return err
	}
	empty, err := b.usedMB(ctx, "used_memory")
	if err != nil {
		return err
	}
	clock := &benchClock{}
	leases := flow.NewLeases(b.redis, b.store, slog.New(slog.DiscardHandler))
	leases.AddPartitions(moving.Role, b.redis, flow.Partitions(journeyPartitions))
	leases.AddPartitions(ingest.StoreRole, b.redis, flow.Partitions(journeyPartitions))
	leasing, stop := context.WithCancel(ctx)
	left := make(chan error, 1)
	go func() { left <- leases.Run(leasing) }() // until stop
	defer func() { stop(); err = errors.Join(err, <-left) }()
	defer b.storing(ctx, leasing, leases, clock)()
	if err := b.enter(ctx, leases, number, clock); err != nil {
		return err
	}
	full, err := b.usedMB(ctx, "used_memory")
	if err != nil {
		return err
	}
	b.add("person", "a person inside", "bytes", (full-empty)*1e6/float64(b.users))
	if err := b.waves(ctx, leases, clock, empty); err != nil {
		return err
	}
	for _, part := range []struct {
		name string
		run  func(context.Context, *flow.Leases) error
	}{{"spread", b.spread}, {"many", b.many}, {"wakes", b.wakes}} {
		if !b.run.does(part.name) {
			continue
		}
		if err := part.run(ctx, leases); err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
	}
	if b.run.does("baselines") {
		return b.baselines(ctx)
	}
	return nil
}

// storing runs the store follower, which takes the counts out of the logs, until stop is
// called.
func (b *journeyBench) storing(ctx, leasing context.Context, leases *flow.Leases, clock *benchClock) (stop func()) {
	f := &ingest.StoreFollower{Logs: b.logs, Leases: leases, Store: b.store, Users: b.store, Journeys: b.store, Clock: clock, Log: slog.New(slog.DiscardHandler), Stats: &ingest.Stats{}, MarginBytes: 64 << 20}
	fetch, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() { defer close(done); f.Run(fetch, leasing) }() // until stop
	return func() { cancel(); <-done }
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
func (b *journeyBench) fill(ctx context.Context) error {
	b.run.say("%s: store %d people", b.name, b.users)
	now := time.Now().UnixMilli()
	for i := int64(0); i < b.users; {
		changes := &user.Changes{}
		for ; len(changes.Put) < ruleStep && i < b.users; i++ {
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

// noEnv has nothing beside the journey.
type noEnv struct{}

func (noEnv) Template(string, int) (mail.Class, bool, error) { return 0, false, nil }
func (noEnv) Segment(string) (string, bool, error)           { return "", false, nil }
func (noEnv) Journey(string) (bool, error)                   { return false, nil }

// publish stores a journey with an id, and makes a version of it.
func (b *journeyBench) publish(ctx context.Context, id string) (number int64, err error) {
	_, p, err := plan.LoadYAML(journeyDocument(id), noEnv{})
	if err != nil {
		return 0, err
	}
	j, err := b.store.AddJourney(ctx, store.Journey{ID: p.ID, Status: journey.StatusDraft, Draft: p.Canonical()})
	if err != nil {
		return 0, err
	}
	j.Status = journey.StatusLive
	_, _, err = b.store.Publish(ctx, j, p.Canonical(), p.Names())
	return j.Number, err
}

// enter writes the records of people who wait at the first step: all due at one second.
// In which order people came changes nothing: a record stands at the place of its
// number.
func (b *journeyBench) enter(ctx context.Context, leases *flow.Leases, number int64, clock *benchClock) error {
	b.run.say("%s: everybody enters", b.name)
	held, err := b.hold(ctx, leases)
	if err != nil {
		return err
	}
	due := uint32(clock.Now().Add(time.Hour).Unix())
	r := journey.Record{Step: 0, State: journey.StateInside, Version: 1, Due: due, Entered: due - 3600}
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
func (b *journeyBench) hold(ctx context.Context, leases *flow.Leases) (map[int]*flow.Lease, error) {
	held, changed := leases.Held(moving.Role)
	for len(held) < journeyPartitions {
		select {
		case <-changed:
			held, changed = leases.Held(moving.Role)
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

// waves starts what moves people, and lets an hour pass, twice.
func (b *journeyBench) waves(ctx context.Context, leases *flow.Leases, clock *benchClock, empty float64) error {
	at := clock.Now().Add(time.Hour + time.Minute).Truncate(time.Second)
	if err := b.enterLonely(ctx, leases, at); err != nil {
		return err
	}
	f := b.follower(leases, clock)
	began := time.Now()
	defer runs(ctx, f)()
	if err := until(ctx, journeyWithin, func() bool { return f.Stats.Opened.Load() == journeyPartitions }); err != nil {
		return fmt.Errorf("wait for the records to be read: %w", err)
	}
	b.add("recover", "all records read, and who is due when", "s", time.Since(began).Seconds())
	var took [2]float64
	for n := range took {
		b.run.say("%s: wave %d", b.name, n+1)
		cpu, err := cpuTimeOf(os.Getpid())
		if err != nil {
			return err
		}
		began := time.Now()
		clock.ahead.Store(int64(time.Until(at)))
		at = at.Add(time.Hour + time.Minute)
		var lonely errgroup.Group
		if n == 0 {
			lonely.Go(func() error { return b.watchLonely(ctx, clock) })
		}
		want := int64(n+1) * b.users
		if err := until(ctx, journeyWithin, func() bool { return f.Stats.Moved.Load() >= want }); err != nil {
			return fmt.Errorf("wait for wave %d: %d of %d have moved: %w", n+1, f.Stats.Moved.Load(), want, err)
		}
		took[n] = time.Since(began).Seconds()
		after, err := cpuTimeOf(os.Getpid())
		if err := errors.Join(err, lonely.Wait()); err != nil {
			return err
		}
		b.add("cpu", "Sluice's computing for a person", "µs", float64((after-cpu).Microseconds())/float64(b.users))
	}
	b.add("total", "everybody decided about, and where they are written", "s", took[0])
	b.add("second_to_first", "the step behind it, to the first", "1", took[1]/took[0])
	peak, err := b.usedMB(ctx, "used_memory_peak")
	if err != nil {
		return err
	}
	rss, err := b.usedMB(ctx, "used_memory_rss")
	if err != nil {
		return err
	}
	b.add("redis", "Redis at its peak, over an empty one", "MB", peak-empty)
	b.add("redis_rss", "Redis, resident", "MB", rss)
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	b.add("memory", "this process, which has what moves people", "MB", float64(m.Sys)/1e6)
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

// baselines runs the old designs on the same profiles and rules.
func (b *journeyBench) baselines(ctx context.Context) error {
	var rules []*rule.Rule
	for i := range journeyBranches {
		x, err := rule.Compile(fmt.Sprintf(`{"and":[{"attribute":"score","is":"greater_than_or_equal_to","value":%d},{"field":"country","is":"equals","value":"AT"}]}`, 950-i*90))
		if err != nil {
			return err
		}
		rules = append(rules, x)
	}
	set, err := rule.NewSet(rules...)
	if err != nil {
		return err
	}
	match := func(profile string, number int64) (uint64, error) {
		var out [1]uint64
		_, err := set.Match([]string{profile}, []uint64{b.id(number).Hash()}, time.Now().UnixMilli(), out[:])
		return out[0], err
	}
	jobs, people := pick(b.run, int64(jobUsers), jobUsersQuick), pick(b.run, int64(setUsers), setUsersQuick)
	b.run.say("%s: %d people as jobs", b.name, jobs)
	if err := b.env.redis.AddJobs(ctx, jobs, journeyBranches); err != nil {
		return err
	}
	began := time.Now()
	if _, err := b.env.redis.WorkJobs(ctx, journeyWorkers, b.read, match); err != nil {
		return err
	}
	b.add("jobs", "one job for each person and branch", "µs/person", float64(time.Since(began).Microseconds())/float64(jobs))
	b.run.say("%s: %d people in sets", b.name, people)
	if err := b.env.redis.AddBuffered(ctx, people, journeyBranches); err != nil {
		return err
	}
	began = time.Now()
	if _, err := b.env.redis.PopBuffered(ctx, 0); err != nil {
		return err
	}
	b.add("sets_release", "sets, popped by 100, one branch of eleven", "µs/person", float64(time.Since(began).Microseconds())/float64(people))
	if err := b.env.redis.AddBuffered(ctx, people, journeyBranches); err != nil {
		return err
	}
	began = time.Now()
	if _, err := b.env.redis.WorkBuffered(ctx, journeyWorkers, journeyBranches, b.read, match); err != nil {
		return err
	}
	b.add("sets", "sets, popped by 100 and decided", "µs/person", float64(time.Since(began).Microseconds())/float64(people))
	r := b.run.report
	each := func(id string) float64 { return r.value(b.name+"_"+id) * 1e6 / float64(b.users) }
	r.judge(target{ratio: b.name + "_vs_jobs", value: wantVsJobs}, r.value(b.name+"_jobs")/each("total"))
	r.judge(target{ratio: b.name + "_vs_sets_release", value: wantVsRelease}, journeyBranches*r.value(b.name+"_sets_release")/each("recover"))
	r.judge(target{ratio: b.name + "_vs_sets_total", value: wantVsSets}, r.value(b.name+"_sets")/each("total"))
	return nil
}

// id is the user of a number from 1 on.
func (b *journeyBench) id(number int64) user.ID {
	return user.ID{Partition: int((number - 1) % journeyPartitions), Number: (number-1)/journeyPartitions + 1}
}

// read reads profiles, by one statement.
func (b *journeyBench) read(ctx context.Context, numbers []int64) ([]string, error) {
	ids := make([]user.ID, len(numbers))
	for i, n := range numbers {
		ids[i] = b.id(n)
	}
	a, err := b.store.Users(ctx, user.Query{IDs: ids})
	profiles := make([]string, len(numbers))
	for i, id := range ids {
		profiles[i] = a.Users[id].Profile
	}
	return profiles, err
}
