package ingest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"
	"unicode/utf8"

	"sluice"
	"sluice/flow"
	"sluice/lib/faults"
	"sluice/mail"
	"sluice/store"
	"sluice/user"
	"sluice/user/users"
)

// resolve applies a transaction's updates of users to what is stored of them,
// and prepares it. It runs just before the transaction, and not while the one
// before is applied, as for events. The result of that one has to be read.
func (s *StoreFollower) resolve(ctx context.Context, u *storeUnit) error {
	if len(u.updates) == 0 {
		return nil
	}
	began := s.Clock.Now()
	now := began.UnixMilli()
	reader := &unitReader{Reader: s.Users, forwarded: s.forwarded}
	if u.batches > 1 { // fewer can be gathered
		reader.most = s.flush(mostProfiles)
	}
	done, err := users.Apply(ctx, reader, s.registered, len(s.Logs), now, u.updates)
	if errors.Is(err, user.ErrTooManyBytes) {
		s.halve(u.keys)
	}
	if err != nil {
		return err
	}
	s.weighed(u.keys, reader.bytes)
	s.Stats.Resolve.Observe(s.Clock.Now().Sub(began))
	u.ignored = done.Ignored
	effect := u.effect
	u.read = unresolved{len(effect.Events), len(effect.Counts), len(effect.Dead)}
	effect.Users = done.Changes
	effect.Events = append(effect.Events, done.Events...)
	effect.Counts = append(effect.Counts, done.Counts...)
	effect.JourneyFacts = done.Facts
	for _, d := range done.Dead {
		effect.Dead = append(effect.Dead, sluice.DeadLetter{
			Source: "log", Form: sluice.FormItem, Reason: d.Reason, Place: d.Update.Place, TimeMillis: now,
			Payload: user.AppendUpdate(nil, &d.Update.Update),
		})
	}
	u.kept = nil
	if s.registered.Any() || len(u.updates) <= keptUpdates {
		u.kept = u.updates
	}
	u.updates = nil // and their batches with them, while the transaction is written
	u.prepared, err = prepare(s.Store, s.Stats, effect)
	return err
}

// unresolved is how much of an effect there was before its updates were applied.
type unresolved struct{ events, counts, dead int }

// again takes back what resolve has made of a unit, and reports whether it can be made
// anew.
func (u *storeUnit) again() bool {
	switch {
	case u.many == 0:
		return true // it goes by no names
	case u.kept == nil:
		return false
	}
	u.updates, u.kept = u.kept, nil
	e := u.effect
	e.Users, e.JourneyFacts = nil, nil
	e.Events, e.Counts, e.Dead = e.Events[:u.read.events], e.Counts[:u.read.counts], e.Dead[:u.read.dead]
	return true
}

// commit resolves a unit and applies it. If names of journeys were published meanwhile,
// it reads them and does both again, with the updates that it has kept. A session that
// begins anew would wait up to a second for a read of the logs to end. The updates of a
// large unit are kept only where journeys are in use: else their memory would be needed
// for the first publish alone, which ends the session.
func (s *StoreFollower) commit(ctx context.Context, u *storeUnit) (err error) {
	for reloads := 0; ; reloads++ {
		if err := s.resolve(ctx, u); err != nil {
			return err
		}
		u.effect.Published, u.effect.MailNames = s.registered.Published(), s.registered.Names()
		u.effect.FactsUpTo, u.effect.Forwarded = s.factsUpTo(u.moves), s.forwarded
		done, err := apply(ctx, s.Store, s.Stats, s.Name(), u.prepared)
		u.forwarded = done.Forwarded > 0
		if err == nil && len(u.reported) > 0 {
			s.Reported(u.reported)
		}
		if !errors.Is(err, store.ErrPublished) || reloads == maxReloads || !u.again() {
			return err
		}
		s.Log.Info("the names that journeys ask for have changed: what was not stored is looked at again")
		if err := s.readNames(ctx); err != nil {
			return err
		}
	}
}

// factsUpTo returns up to where facts go in a transaction that moves some cursors: those
// of a few of its partitions, in turn. What goes is bounded by that.
func (s *StoreFollower) factsUpTo(moves []store.Move) map[int]sluice.Place {
	if s.FactsUpTo == nil {
		return nil
	}
	upTos := make(map[int]sluice.Place, factsPartitions)
	for range min(factsPartitions, len(moves)) {
		s.turn = (s.turn + 1) % len(moves)
		p := moves[s.turn].Partition
		if upTo, ok := s.FactsUpTo(p); ok {
			if !s.registered.Any() { // nobody reads those that are left
				upTo = sluice.Place{Partition: p, Position: sluice.Position{Major: uint64(s.Clock.Now().UnixMilli())}}
			}
			upTos[p] = upTo
		}
	}
	return upTos
}

// readNames reads the names that journeys ask for.
func (s *StoreFollower) readNames(ctx context.Context) (err error) {
	if s.Journeys != nil {
		s.registered, err = s.Journeys.Registered(ctx)
	}
	return err
}

// countFor has an event count for the profile of the user whom it names, if there is
// one. A row that no database takes does not count. A time to come counts as that of the
// acceptance, as in /users/track: the user would be active on no day before it.
func (t *storing) countFor(e *store.StoredEvent) {
	up := users.Update{Place: e.Place, Update: user.Update{
		Op: user.OpSeen, Key: user.Key{Kind: user.KeyExternal, Name: e.User},
		TimeMillis: min(e.TimeMillis, acceptedMillis(e.Place.Position)), Name: e.Name, App: e.App,
	}}
	switch e.Kind {
	case sluice.KindCustom:
		up.Body = e.Properties // for journeys
	case sluice.KindPurchase:
		up.Op, up.Body = user.OpBought, e.Properties
	default:
		return
	}
	for _, text := range [...]string{e.User, e.Name, e.App, up.Body} {
		if !utf8.ValidString(text) {
			return
		}
	}
	if e.TimeMillis < sluice.MinEventTimeMillis || e.TimeMillis > sluice.MaxEventTimeMillis {
		return
	}
	if e.ID != "" { // by the event's own time, as its row is
		up.Event = sluice.EventKey{Millis: e.TimeMillis, ID: e.ID}
	}
	t.updates = append(t.updates, up)
	t.keys[up.Key] = struct{}{}
	t.counted++
}

// unitReader reads the users of one transaction, with numbers of forwards that no log has
// seen, and up to a bound of bytes (profiles.go).
//
// The number of a forward is at least the time, and one more than the last that the
// database knows. A database that goes back forgets some, and the next process
// may have a clock behind the previous one's. Then a number is issued that a
// log has seen already, and the forward would be taken for one that arrived. So
// a session begins by asking the logs.
type unitReader struct {
	users.Reader
	forwarded map[int]int64 // by partition, the highest number that a log has of it
	bytes     int           // of profiles read
	most      int           // of these; 0: any
}

// Users implements users.Reader.
func (n *unitReader) Users(ctx context.Context, q user.Query) (user.Answer, error) {
	if n.most > 0 {
		q.MaxBytes = max(1, n.most-n.bytes)
	}
	a, err := n.Reader.Users(ctx, q)
	n.bytes += a.Bytes
	for p, numbers := range a.Numbers {
		numbers.Forward = max(numbers.Forward, n.forwarded[p])
		a.Numbers[p] = numbers
	}
	return a, err
}

// readForwarded asks all logs what they have seen of partitions' forwards.
func (s *StoreFollower) readForwarded(ctx context.Context, partitions []int) error {
	sources := make([]string, len(partitions))
	for i, p := range partitions {
		sources[i] = forwardSource(p)
	}
	all := make([]int, len(s.Logs))
	for i := range all {
		all[i] = i
	}
	seqs, failed := sideBySide(ctx, all, nil, func(ctx context.Context, p int) ([]string, error) { return s.Logs[p].SeqsOf(ctx, sources) })
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if unknown := slices.Sorted(maps.Keys(failed)); len(unknown) > 0 {
		err := failed[unknown[0]]
		if len(unknown) == len(all) {
			return fmt.Errorf("read the last forwards in the logs: %w", err) // a session that fails is told of now and then
		}
		// Nobody waits for these: nothing can be forwarded to them now.
		s.Log.Warn("the last forwards in some logs are not known: numbers of forwards go by the clock alone",
			"partitions", len(unknown), "first", unknown[0], "error", err)
	}
	s.forwarded = make(map[int]int64, len(partitions))
	for _, of := range seqs {
		for i, seq := range of {
			n, err := forwardNumber(seq)
			if err != nil {
				return fmt.Errorf("read the seq of %s: %w", sources[i], err)
			}
			s.forwarded[partitions[i]] = max(s.forwarded[partitions[i]], n)
		}
	}
	return nil
}

// forwardSource names, in logs, the source of what is forwarded from a partition.
func forwardSource(from int) string { return "forward:" + strconv.Itoa(from) }

// forwardNumber reads the seq of such a source.
func forwardNumber(seq string) (int64, error) {
	if seq == "" {
		return 0, nil
	}
	return strconv.ParseInt(seq, 10, 64)
}

const (
	// forwardRows bounds what is forwarded at once.
	forwardRows = 512

	// lateMillis is for how long a row of a partition to itself waits, and lateEvery
	// how often it is looked for such rows.
	lateMillis = mail.ClicksWindowMillis
	lateEvery  = time.Second

	// restsFor is for how long nothing is forwarded to a log that could not be written.
	// writtenFor is how long it may take to write one that could be, and triedFor one
	// that has rested: the store waits for its forwarder.
	restsFor   = 5 * time.Second
	writtenFor = 3 * time.Second
	triedFor   = 500 * time.Millisecond
)

// forwarder brings what the store has for the logs of other partitions there.
//
// A row of the table is appended under a source of its own partition, with its
// id as seq, and removed after that. So the log recognises by its seq what is
// repeated after a crash or by two processes at once. Ids only rise, so a row
// with a seq that the log has passed was appended before.
//
// Where replicas are waited for (wait_replicas), a row stays until they have it: it stands
// for what a caller was told is durable.
//
// In a cluster one log may be out of order while all others are well. Its rows wait, and
// those for others do not. They are written side by side, and read on behind the rows
// that wait, however many these are. Rows of a log that wait go first to it: its seq would
// pass over those with lower ids.
type forwarder struct {
	logs     []*flow.Log
	replicas flow.Replicas
	users    user.Store
	clock    sluice.Clock
	wake     chan []int    // partitions that have rows
	ended    chan struct{} // closed when run has ended: nobody reads wake any more
	late     map[int]int64 // of run: until when, in ms, a partition may have rows that wait
	log      *slog.Logger

	// Of run: until when no log is written that could not be, for which logs a partition
	// has rows that wait, and up to which id it has no others.
	rests  map[int]time.Time
	waits  map[int]map[int]bool
	passed map[int]int64
}

func newForwarder(s *StoreFollower) *forwarder {
	return &forwarder{
		logs: s.Logs, replicas: s.Replicas, users: s.Users, clock: s.Clock, wake: make(chan []int, 1), ended: make(chan struct{}), late: make(map[int]int64), log: s.Log,
		rests: make(map[int]time.Time), waits: make(map[int]map[int]bool), passed: make(map[int]int64),
	}
}

// tell says that partitions have rows. It waits while the forwarder is two
// transactions behind. It does not wait for one that has ended: a session whose leases
// have changed still stores what it has read, and the next one forwards what is left.
func (f *forwarder) tell(ctx context.Context, u *storeUnit) error {
	seen := make(map[int]bool)
	for i := 0; u.effect.Users != nil && i < len(u.effect.Users.Forward); i++ {
		seen[u.effect.Users.Forward[i].From] = true
	}
	if u.forwarded { // by some of the partitions in which something happened to mails
		for i := range u.effect.Reactions {
			seen[u.effect.Reactions[i].Place.Partition] = true
		}
		for i := range u.effect.Outcomes {
			seen[u.effect.Outcomes[i].Place.Partition] = true
		}
	}
	if len(seen) == 0 {
		return nil
	}
	select {
	case f.wake <- slices.Sorted(maps.Keys(seen)):
		return nil
	case <-f.ended:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// run forwards until ctx ends, at first what an earlier session has left.
func (f *forwarder) run(ctx context.Context, partitions []int) error {
	defer close(f.ended)
	tick := time.NewTicker(lateEvery)
	defer tick.Stop()
	told := partitions
	for {
		now := f.clock.Now().UnixMilli()
		for _, p := range told {
			f.late[p] = now + lateMillis + 2*lateEvery.Milliseconds()
		}
		for _, p := range partitions {
			if err := f.drain(ctx, p, now-lateMillis); err != nil {
				return fmt.Errorf("forward updates of users from partition %d: %w", p, err)
			}
		}
		select {
		case partitions = <-f.wake:
			told = partitions
		case <-tick.C:
			partitions, told = f.lates(now), nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// lates returns the partitions that may have rows that wait: to themselves, clicks to be
// judged (store/sqlstore/reactions.go), which leave when they are lateMillis old; or to
// a log that could not be written.
func (f *forwarder) lates(now int64) []int {
	maps.DeleteFunc(f.late, func(p int, until int64) bool { return until < now && len(f.waits[p]) == 0 })
	return slices.Sorted(maps.Keys(f.late))
}

// drain forwards what a partition has: what has waited for a log, then the rows behind.
func (f *forwarder) drain(ctx context.Context, partition int, ownBefore int64) error {
	if err := f.drainWaiting(ctx, partition, ownBefore); err != nil {
		return err
	}
	for after := f.passed[partition]; ; {
		rows, err := f.users.Forwards(ctx, user.ForwardQuery{From: partition, To: user.AnyPartition, After: after, OwnBefore: ownBefore}, forwardRows)
		if err != nil || len(rows) == 0 {
			return err
		}
		to := make(map[int][]user.Forward)
		for _, r := range rows {
			if !f.waits[partition][r.To] {
				to[r.To] = append(to[r.To], r)
			}
		}
		if err := f.forward(ctx, partition, to); err != nil {
			return err
		}
		after = rows[len(rows)-1].ID
		// Of later rows to the partition itself some are not asked for yet.
		f.passed[partition] = max(f.passed[partition], min(after, user.ForwardsBefore(ownBefore)-1))
	}
}

// drainWaiting forwards what has waited for logs whose rest is over.
func (f *forwarder) drainWaiting(ctx context.Context, partition int, ownBefore int64) error {
	for {
		to := make(map[int][]user.Forward)
		for p := range f.waits[partition] {
			if f.clock.Now().Before(f.rests[p]) {
				continue
			}
			rows, err := f.users.Forwards(ctx, user.ForwardQuery{From: partition, To: p, OwnBefore: ownBefore}, forwardRows)
			if err != nil {
				return err
			}
			if len(rows) == 0 {
				delete(f.waits[partition], p)
				continue
			}
			to[p] = rows
		}
		if len(to) == 0 {
			return nil
		}
		if err := f.forward(ctx, partition, to); err != nil {
			return err
		}
	}
}

// forward appends rows to their logs, side by side, and removes them. Those of a log that
// cannot be written wait for it.
func (f *forwarder) forward(ctx context.Context, from int, rows map[int][]user.Forward) error {
	failed := make([]error, len(f.logs))
	var group sync.WaitGroup // a goroutine a log
	for to := range rows {
		if to >= len(f.logs) {
			return fmt.Errorf("there is no partition %d", to)
		}
		if _, rested := f.rests[to]; f.clock.Now().Before(f.rests[to]) {
			failed[to] = &flow.PartitionError{Partition: to, Err: errRests}
		} else {
			group.Go(func() { failed[to] = f.append(ctx, from, to, rows[to], rested) })
		}
	}
	group.Wait()
	for _, to := range slices.Sorted(maps.Keys(rows)) {
		err := failed[to]
		if stuck, ok := errors.AsType[*flow.PartitionError](err); ok && ctx.Err() == nil {
			f.wait(from, to, stuck)
			continue
		}
		if err == nil {
			delete(f.rests, to)
			err = faults.Hit("forwarded")
		}
		if err == nil {
			err = f.users.Forwarded(ctx, from, to, rows[to][len(rows[to])-1].ID)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// errRests is of a log that is not tried now.
var errRests = errors.New("it could not be written a moment ago")

// wait notes that rows wait for a log.
func (f *forwarder) wait(from, to int, stuck error) {
	if f.waits[from] == nil {
		f.waits[from] = make(map[int]bool)
	}
	f.waits[from][to] = true
	now := f.clock.Now()
	f.late[from] = max(f.late[from], now.UnixMilli())
	if errors.Is(stuck, errRests) {
		return
	}
	if _, known := f.rests[to]; !known {
		f.log.Warn("nothing can be forwarded to a partition: what is for it waits in the database", "partition", to, "error", stuck)
	}
	f.rests[to] = now.Add(restsFor + f.replicas.Within)
}

// append appends rows to one log, which has rested or not. A PartitionError: that log
// cannot be written.
func (f *forwarder) append(ctx context.Context, from, to int, rows []user.Forward, rested bool) error {
	within := writtenFor
	if rested {
		within = triedFor
	}
	ctx, cancel := context.WithTimeout(ctx, within+f.replicas.Within)
	defer cancel()
	source := forwardSource(from)
	received, err := f.replicas.From(ctx, f.logs[to])
	if err != nil {
		return &flow.PartitionError{Partition: to, Err: err}
	}
	seq, err := f.logs[to].Seq(ctx, source)
	if err != nil {
		return &flow.PartitionError{Partition: to, Err: err}
	}
	arrived, err := forwardNumber(seq)
	if err != nil {
		return fmt.Errorf("read the seq of %s: %w", source, err)
	}
	for len(rows) > 0 {
		batch, ids := sluice.NewBatch(0), int64(0)
		for len(rows) > 0 && (ids == 0 || len(batch)+len(rows[0].Items) <= sluice.MaxBatchBytes) {
			if rows[0].ID > arrived {
				batch, ids = append(batch, rows[0].Items...), rows[0].ID
			}
			rows = rows[1:]
		}
		if ids == 0 {
			break
		}
		next := strconv.FormatInt(ids, 10)
		if _, err := f.logs[to].Append(ctx, source, seq, next, batch, true); errors.Is(err, sluice.ErrConflict) {
			return err
		} else if err != nil {
			return &flow.PartitionError{Partition: to, Err: err}
		}
		seq = next
	}
	if err := received(ctx); err != nil { // also of what an earlier try has written
		return &flow.PartitionError{Partition: to, Err: err}
	}
	return nil
}
