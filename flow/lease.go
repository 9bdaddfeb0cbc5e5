package flow

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"sluice"
)

// Times of the lease protocol.
const (
	beatEvery = 500 * time.Millisecond

	// LeaseTimeout is how long a process may be silent before others take what
	// it held. Sessions of the database must end sooner than this (sqlstore),
	// or a stopped process blocks its successor.
	LeaseTimeout = 2500 * time.Millisecond

	// complainEvery is how often the same failure is logged again.
	complainEvery = 30 * time.Second

	// forgetAfter is when a silent member is removed from the list.
	forgetAfter = 10 * time.Minute
)

// Lease is the right of one process to run a role for one partition (or one
// foreign list). It is a hash in the slot of the partition or list that it
// guards. Every script that needs the right compares its token there, so a
// process that has lost the lease is refused whatever it believes.
type Lease struct {
	Role      string
	Partition int
	Number    uint64 // from SQL: rises with every take-over, also when Redis forgets
	key       string
	token     string
}

// numberStore issues lease numbers (store.Store does).
type numberStore interface {
	TakeLease(ctx context.Context, role string, partitions []int) (map[int]uint64, error)
}

// Leases shares out the roles among the living processes and keeps this
// process's share.
//
// The idea. One key a process would be enough to see which live, but comparing
// its time with a clock asks two machines to agree. Instead every process
// counts up a field of one hash, and watches the others' counts by its own
// monotonic clock. A process that has not counted for LeaseTimeout, while the
// watcher looked without a gap, is dead to the watcher (members.go). A wrong
// judgement costs work and no data. A lease changes only at take-over, by
// compare-and-set on its token, and what the old holder still does is refused
// at its commit.
//
// The invariants. A lease needs no renewal, so an idle process writes one small
// field every beat and nothing else. A process takes a lease only if it is free
// or its holder is dead to it, and only up to its fair share (fairShare). It
// takes none while its own beat is unconfirmed, or while others have had no
// time to beat again since it could not look. It gives back leases above its
// share. The number is taken from SQL before the token is written.
//
// What was dropped. Leases that expire by PX: after ten seconds without Redis
// all of them are gone although all processes live. Each renewal is also a
// write per partition.
type Leases struct {
	home    *Redis // where the beats are
	numbers numberStore
	log     *slog.Logger
	id      string

	// Beat and Timeout are beatEvery and LeaseTimeout; set before Run, and alike
	// in all processes, where tests have no time.
	Beat, Timeout time.Duration

	// Clock is told Redis's time with every beat; nil: it is not told.
	Clock *Clock

	beat  int64  // owned by the goroutine that beats
	reach *reach // nil: it does not look

	looking sync.Mutex // held during a look at the leases
	parts   map[part]*watchedPart

	mu      sync.Mutex
	members *members
	says    map[string]func() string // by name
	roles   []*role
	coming  []comingList  // places that open with the next look at the leases
	changed chan struct{} // closed and replaced at every change of held leases
	live    int
	beatErr error             // of the last beat
	tendErr error             // of the last look at the leases
	left    error             // why this process takes no leases any more; nil: it does
	stops   bool              // this process hands its leases over, and takes none any more
	unaware map[string]string // beats, by process, that knew nothing of it; nil: it was not said yet

	beatNow, tendNow chan struct{} // have a beat, or a look at the leases, come at once
}

// role is the places of one role, which are shared out together.
type role struct {
	name    string
	group   string // name and places: processes of one group share them fairly
	places  []place
	open    int            // places that have their server
	held    map[int]*Lease // by place; guarded by Leases.mu
	owed    map[int]*Lease // by place, given back, but not free yet; guarded by Leases.mu
	changes Changes        // guarded by Leases.mu
	orphan  int            // places without a living holder at the last look; guarded by Leases.mu

	freeSince time.Time // when its places were last all taken; guarded by Leases.mu
	taken     takenLeases
	want      int       // its share at the last look; guarded by Leases.mu
	lacks     time.Time // since when it has held less than a share that has grown; zero: it does not; guarded by Leases.mu
}

type place struct {
	redis     *Redis // nil: its list is not open (AddList)
	list      *List  // nil: a partition
	partition int
	key       string
	numbered  string // the name and partition under which SQL numbers it
	number    int
}

// NewLeases returns the lease keeper of a process. Call AddPartitions or
// AddLists for each role, then Run.
func NewLeases(home *Redis, numbers numberStore, log *slog.Logger) *Leases {
	id := newToken()
	return &Leases{
		home: home, numbers: numbers, log: log, id: id,
		Beat: beatEvery, Timeout: LeaseTimeout,
		members: newMembers(id, LeaseTimeout), says: make(map[string]func() string), parts: make(map[part]*watchedPart),
		changed: make(chan struct{}), beatNow: make(chan struct{}, 1), tendNow: make(chan struct{}, 1),
	}
}

// ID names this process among the members.
func (l *Leases) ID() string { return l.id }

// AddPartitions shares out a role over partitions.
func (l *Leases) AddPartitions(name string, redis *Redis, partitions []Partition) {
	r := &role{name: name, held: make(map[int]*Lease), taken: make(takenLeases)}
	for _, p := range partitions {
		r.places = append(r.places, place{redis: redis, partition: p.Number, key: p.leaseKey(name), numbered: name, number: p.Number})
	}
	l.add(r)
}

// AddLists shares out the draining of foreign lists; list i is place i of the role. One
// that is nil comes later (AddList).
func (l *Leases) AddLists(name string, lists []*List) {
	r := &role{name: name, held: make(map[int]*Lease), taken: make(takenLeases), places: make([]place, len(lists))}
	for i, list := range lists {
		if list != nil {
			r.places[i] = placeOf(name, i, list)
		}
	}
	l.add(r)
}

func placeOf(role string, i int, list *List) place {
	return place{redis: list.redis, list: list, partition: i, key: list.keys.leaseKey(), numbered: role + ":" + list.Name()}
}

func (l *Leases) add(r *role) {
	r.regroup()
	r.orphan = r.open // until it has been looked
	l.mu.Lock()
	defer l.mu.Unlock()
	l.roles = append(l.roles, r)
}

// Held returns the leases of a role that this process holds, by partition, and
// a channel that is closed when that changes.
func (l *Leases) Held(name string) (map[int]*Lease, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.roles {
		if r.name == name {
			return maps.Clone(r.held), l.changed
		}
	}
	return nil, l.changed
}

// Status is what the lease keeper knows of itself and others.
type Status struct {
	Live    int                // processes, this one included
	Held    map[string]int     // leases by role
	Free    map[string]int     // places by role that no living process holds
	Changes map[string]Changes // by role, since this process began
	Err     error              // of the last beat, and of the last look at the leases
}

// Changes counts how often leases came and went.
type Changes struct {
	Taken, Lost, Returned int64
}

// Status returns the state after the last beat.
func (l *Leases) Status() Status {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := Status{Live: l.live, Held: make(map[string]int), Free: make(map[string]int), Changes: make(map[string]Changes), Err: errors.Join(l.beatErr, l.tendErr)}
	for _, r := range l.roles {
		s.Held[r.name] = len(r.held)
		s.Free[r.name] = r.orphan
		s.Changes[r.name] = r.changes
	}
	return s
}

// WaitForChange waits until this process holds other leases of a role than
// those, or the context ends.
func (l *Leases) WaitForChange(ctx context.Context, name string, held map[int]*Lease) {
	Share{Leases: l}.WaitForChange(ctx, name, held)
}

// Run keeps the leases until the context ends, then gives all of them back.
// Beats are sent by a goroutine of its own. Taking a lease may have to wait for
// the database, and a waiting process is not dead.
func (l *Leases) Run(ctx context.Context) error {
	l.mu.Lock()
	l.members.timeout = l.Timeout
	l.mu.Unlock()
	var beating sync.WaitGroup
	beaten := make(chan struct{})
	first := sync.OnceFunc(func() { close(beaten) })
	beating.Go(func() {
		l.every(ctx, "show life", l.beatPause, l.beatNow, &l.beatErr, func(ctx context.Context) error {
			defer first()
			return l.showLife(ctx)
		})
	})
	if l.reach != nil {
		beating.Go(func() {
			var last error // readiness asks for itself
			l.every(ctx, "reach the database", func() time.Duration { return 2 * l.Beat }, nil, &last, l.lookForDatabase)
		})
	}
	select {
	case <-beaten: // without it no process is known to live, and the first look would be a beat late
	case <-ctx.Done():
	}
	l.every(ctx, "look after leases", l.tendPause, l.tendNow, &l.tendErr, l.tendAll)
	beating.Wait()
	return l.giveBackAll()
}

// every takes a turn again and again until the context ends, after a pause or when it is
// told to. What fails in the same way again and again is logged once in a while.
func (l *Leases) every(ctx context.Context, what string, pause func() time.Duration, now <-chan struct{}, last *error, turn func(context.Context) error) {
	var told string
	var toldAt time.Time
	for {
		turnCtx, cancel := context.WithTimeout(ctx, l.Timeout)
		err := turn(turnCtx)
		cancel()
		switch {
		case err == nil:
			told = ""
		case ctx.Err() == nil && (err.Error() != told || time.Since(toldAt) >= complainEvery):
			told, toldAt = err.Error(), time.Now()
			l.log.Warn(what+" failed, trying again", "error", err)
		}
		l.mu.Lock()
		*last = err
		l.mu.Unlock()
		timer := time.NewTimer(sluice.Rest(time.Now(), pause()))
		select {
		case <-timer.C:
		case <-now:
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			return
		}
	}
}

// tendAll looks after every role, once it is known which processes live.
func (l *Leases) tendAll(ctx context.Context) error {
	l.mu.Lock()
	l.openComing()
	roles, live, left, stops := slices.Clone(l.roles), l.live, l.left, l.stops
	l.mu.Unlock()
	if stops {
		return l.giveAllOwed(ctx, roles) // its followers end, and then their leases
	}
	if live == 0 {
		return nil // before the first beat
	}
	if left != nil {
		return errors.Join(left, l.abstain(ctx, roles))
	}
	state, err := l.look(ctx, roles)
	errs := []error{err}
	for _, r := range roles {
		errs = append(errs, l.tend(ctx, r, state[r]))
	}
	l.tellTaken(ctx, roles)
	return joinOnce(errs)
}

// tend looks after one role. It drops leases that others have taken, gives back
// those above the fair share, and takes free ones up to it. A refusal by one
// server does not keep the process from the places on others. While this
// process's own life is not confirmed it only drops, and gives back lists that another
// deployment drains. So it does in a turn in the middle
// of which the process begins to stop: its share is none then, and its followers still work.
// Of places that are not known (nil in state) it gives back none: nobody else could take
// them.
func (l *Leases) tend(ctx context.Context, r *role, state []*seen) error {
	var errs []error
	var free []int
	holds := make(map[string]int)
	orphans := 0
	for i, s := range state {
		l.mu.Lock()
		held := r.held[i]
		l.mu.Unlock()
		if s == nil {
			continue // it is not known
		}
		switch {
		case s.foreign:
			errs = append(errs, l.giveBack(ctx, r, i)) // taken before the other had opened it
			continue
		case held != nil && held.token != s.token:
			l.log.Warn("lease lost", "role", r.name, "partition", r.places[i].partition, "owner", s.owner)
			l.setHeld(r, i, nil, &r.changes.Lost)
		case held == nil && l.mayTake(s):
			free = append(free, i)
		}
		if s.token == "" || l.Dead(s.owner) {
			orphans++
		} else {
			holds[s.owner]++
		}
	}
	now := time.Now()
	l.mu.Lock()
	mine := slices.Sorted(maps.Keys(r.held))
	holds[l.id] = len(mine)
	sure, settled := l.members.sure(now) && !l.stops, l.members.settled(now)
	living := l.members.living(r.group, now)
	if sure {
		r.orphan = orphans
	}
	if len(free) == 0 || r.freeSince.IsZero() {
		r.freeSince = now
	}
	want := fairShare(r.open, living, holds, l.id, now.Sub(r.freeSince) > l.Timeout)
	if !l.said(r) {
		want = len(mine)
	}
	r.lack(want, len(mine), now)
	l.mu.Unlock()
	if !sure {
		return errors.Join(errs...)
	}
	if len(mine) > want {
		known := slices.DeleteFunc(slices.Clone(mine), func(i int) bool { return state[i] == nil })
		back := known[max(0, len(known)-(len(mine)-want)):]
		errs = append(errs, each(back, func(i int) error { return l.giveBack(ctx, r, i) }))
		mine = mine[:len(mine)-len(back)]
	}
	if len(free) > 0 && settled {
		// Not everybody begins at the same place, or all but one lose the race.
		start := max(slices.Index(living, l.id), 0) * len(free) / max(len(living), 1)
		free = append(free[start:], free[:start]...)
		room := min(max(want-len(mine), 0), len(free))
		errs = append(errs, l.take(ctx, r, free[:room], state), l.disown(ctx, r, free[room:], state))
	}
	return errors.Join(errs...)
}

// all returns the indexes of a role's places.
func (r *role) all() []int {
	all := make([]int, len(r.places))
	for i := range all {
		all[i] = i
	}
	return all
}

// mayTake reports whether a lease has no living holder that knows that it has it.
func (l *Leases) mayTake(s *seen) bool {
	return s.token == "" || s.owner == l.id || l.Dead(s.owner)
}

// fairShare is how many of a role's places a process is to hold. It is the
// number of places divided by the processes, rounded down, and one more if some
// are left over. A process that has one of the left over places keeps it. A
// free one goes to the first process without one, by their order. If it is late
// it goes to any: the first may be unable to take it.
func fairShare(places int, living []string, holds map[string]int, self string, late bool) int {
	if !slices.Contains(living, self) {
		return 0
	}
	each, left := places/len(living), places%len(living)
	before := 0 // processes before this one that hold one more, or that hold none more
	for _, id := range living {
		if holds[id] > each {
			left--
		}
	}
	for _, id := range living {
		if id == self {
			break
		}
		if (holds[id] > each) == (holds[self] > each) {
			before++
		}
	}
	switch {
	case holds[self] > each && before < places%len(living),
		holds[self] <= each && left > 0 && (late || before < left):
		return each + 1
	}
	return each
}

// take claims places: a number from SQL first, then the token in Redis.
func (l *Leases) take(ctx context.Context, r *role, places []int, state []*seen) error {
	byName := make(map[string][]int)
	for _, i := range places {
		byName[r.places[i].numbered] = append(byName[r.places[i].numbered], i)
	}
	var errs []error
	for name, indexes := range byName {
		var parts []int
		for _, i := range indexes {
			parts = append(parts, r.places[i].number)
		}
		numbers, err := l.numbers.TakeLease(ctx, name, parts)
		if err != nil {
			errs = append(errs, fmt.Errorf("take leases of role %s: %w", r.name, err))
			continue
		}
		claimed := make([]*Lease, len(state))
		errs = append(errs, each(indexes, func(i int) (err error) {
			claimed[i], err = l.claim(ctx, r, i, state[i], numbers[r.places[i].number])
			return err
		}))
		l.setTaken(r, claimed, state)
	}
	return errors.Join(errs...)
}

// each does something for some places, all at once: so a Redis that syncs its disk for
// each write does it once for many, and those of a server that hangs take no turn from
// others. There are as many goroutines as places.
func each(places []int, do func(i int) error) error {
	errs := make([]error, len(places))
	var group sync.WaitGroup
	for n, i := range places {
		group.Go(func() { errs[n] = do(i) })
	}
	group.Wait()
	return joinOnce(errs)
}

// claim takes one place, if nothing has changed since it was looked at; nil: it has.
func (l *Leases) claim(ctx context.Context, r *role, i int, before *seen, number uint64) (*Lease, error) {
	l.mu.Lock()
	may := l.members.sure(time.Now()) && !l.stops
	l.mu.Unlock()
	if !may || !l.mayTake(before) {
		return nil, nil // the database took its time for the number, and things have changed
	}
	p := r.places[i]
	lease := &Lease{Role: r.name, Partition: p.partition, Number: number, key: p.key, token: newToken()}
	n, err := p.redis.callInt(ctx, "take a lease", "claim", []string{p.key},
		[]string{before.token, l.id, strconv.FormatUint(number, 10), lease.token})
	if err != nil || n == 0 {
		return nil, err // 0: another process was faster
	}
	return lease, nil
}

// setTaken notes the places that a turn has claimed, all at once: their follower begins
// one session with all of them.
func (l *Leases) setTaken(r *role, claimed []*Lease, state []*seen) {
	l.mu.Lock()
	defer l.mu.Unlock()
	some := false
	for i, lease := range claimed {
		if lease == nil {
			continue
		}
		some, r.held[i] = true, lease
		r.changes.Taken++
		r.taken[state[i].owner] = append(r.taken[state[i].owner], lease.Partition)
	}
	if some {
		l.tellChange()
	}
}

// setHeld notes what this process holds of a place, and counts the change.
func (l *Leases) setHeld(r *role, i int, lease *Lease, change *int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	*change++
	if lease == nil {
		delete(r.held, i)
	} else {
		r.held[i] = lease
	}
	l.tellChange()
}

// tellChange wakes those who wait for other leases. l.mu is held.
func (l *Leases) tellChange() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// newToken returns 128 random bits in hex.
func newToken() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand)
	return hex.EncodeToString(b[:])
}
