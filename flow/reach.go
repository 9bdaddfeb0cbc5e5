package flow

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"
)

// Limits of giving up what needs the database, in lease timeouts.
const (
	// A process that cannot reach the database while another one can gives up
	// after 6/5 of a timeout, 3 s. It takes part again when it has reached the
	// database for as long.
	apartTimeoutsOf5 = 6

	// A question to the database has 2/5 of a timeout, 1 s.
	reachTimeoutsOf5 = 2
)

// reachWord is what a beat says of the database: reachYes, or something else.
const (
	reachWord = "db"
	reachYes  = "1"
)

// reach is whether this process reaches the database, and which roles it has left
// because of that.
//
// The idea. A process that is cut off from the database holds leases that others
// could make use of: nothing of its partitions is stored. So it leaves the
// groups of the roles that need the database, in its beat. Its share is zero
// then, and it gives back its leases. But it does so only while another process
// of that role says in its beat that it reaches the database. If the database
// is away for all, nothing moves.
type reach struct {
	probe func(context.Context) error
	roles []string

	mu    sync.Mutex
	yes   bool
	since time.Time           // since when it is so
	apart map[*role]apartness // roles for which another process reaches it
}

// apartness is of a role that others could run and this process cannot.
type apartness struct {
	since time.Time
	left  bool
}

// Reach has this process look whether it reaches the database, and leave roles
// while it does not and others do. probe must end with its context. Call it before
// Run.
func (l *Leases) Reach(probe func(context.Context) error, roles ...string) {
	l.reach = &reach{probe: probe, roles: roles, yes: true, apart: make(map[*role]apartness)}
	l.Say(reachWord, l.reach.word)
}

// word is what the beat says.
func (r *reach) word() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.yes {
		return reachYes
	}
	return "0"
}

// left reports whether this process takes no part in a role.
func (r *reach) left(role *role) bool {
	if r == nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.apart[role].left
}

// lookForDatabase is one look whether the database is reached.
func (l *Leases) lookForDatabase(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, l.Timeout*reachTimeoutsOf5/5)
	defer cancel()
	err := l.reach.probe(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.judgeReach(err == nil, time.Now())
	return err
}

// judgeReach decides which roles this process leaves, or takes part in again.
// l.mu is held.
func (l *Leases) judgeReach(yes bool, now time.Time) {
	r, limit := l.reach, l.Timeout*apartTimeoutsOf5/5
	r.mu.Lock()
	defer r.mu.Unlock()
	if yes != r.yes || r.since.IsZero() {
		r.yes, r.since = yes, now
	}
	for _, role := range l.roles {
		if !slices.Contains(r.roles, role.name) {
			continue
		}
		a, known := r.apart[role]
		switch {
		case yes && known && (!a.left || now.Sub(r.since) >= limit):
			delete(r.apart, role)
		case yes || a.left:
		case !l.othersReach(role, now):
			delete(r.apart, role)
		case !known:
			r.apart[role] = apartness{since: now}
		case now.Sub(a.since) >= limit:
			l.log.Warn("this process cannot reach the database, and another process can: leases are given up", "role", role.name)
			r.apart[role] = apartness{since: a.since, left: true}
		}
	}
}

// othersReach reports whether another living process of a role says that it
// reaches the database. One that has not beaten since this one could not look says
// nothing: it may be dead, and what it said is old. One that has other places open counts:
// it takes of ours what it can, and here nothing gets on. l.mu is held.
func (l *Leases) othersReach(r *role, now time.Time) bool {
	return l.members.sure(now) && slices.ContainsFunc(l.members.living("", now), func(id string) bool {
		other := l.members.all[id]
		shares := slices.ContainsFunc(other.groups, func(group string) bool { return strings.HasPrefix(group, r.name+"/") })
		return shares && id != l.id && other.fresh && other.words[reachWord] == reachYes
	})
}
