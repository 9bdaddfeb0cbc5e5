package flow

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"sluice"
)

// How a process that stops hands its leases over.
//
// The idea. What waits in a partition waits for the holder of its lease. So a process that
// stops works on until its successors look out for its leases, and gives each back as soon
// as the follower of it has ended. It says in its beat that it shares no role any more, so
// the shares of others grow. A process that holds less than a share that has grown looks
// ten times as often. When every other process has beaten again it has read that.
//
// The invariants. It stays a member until all of its followers have ended: mail that it
// has on the wire is that of a living process, though its lease is another's. From Announce
// on it takes no lease, and a look gives none back: its followers still work. What it fails to give back it owes, and tries again with every beat
// and at its end. What is owed even then is freed as that of a dead process.
//
// What was dropped. Naming a successor in the lease: it may die before it looks. A message
// by PUBLISH: a beat that is lost is read half a second later, a message never.
const (
	// quickly is how many looks a process has in the time of one that lacks leases,
	// for lackTimeouts lease timeouts at most: a server may be away for long.
	quickly      = 10
	lackTimeouts = 4

	// announceBeats bounds how long a process that stops waits for the others, and looks
	// whether they know.
	announceBeats = 3
	announceLooks = 50 // in the time of a beat
)

// lack notes whether the process holds less of a role than its share, and since when that
// is so, or the share has grown. Leases.mu is held.
func (r *role) lack(want, mine int, now time.Time) {
	switch {
	case mine >= want:
		r.lacks = time.Time{}
	case r.lacks.IsZero() || want > r.want:
		r.lacks = now
	}
	r.want = want
}

// tendPause is how long it rests between two looks at the leases.
func (l *Leases) tendPause() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.roles {
		if !r.lacks.IsZero() && time.Since(r.lacks) < lackTimeouts*l.Timeout {
			return l.Beat / quickly
		}
	}
	return l.Beat
}

// beatPause is how long it rests between two beats.
func (l *Leases) beatPause() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Beat
}

// hurry has a turn come at once, if none was asked for yet.
func hurry(turn chan struct{}) {
	select {
	case turn <- struct{}{}:
	default:
	}
}

// Announce tells the other processes that this one stops. It returns when each of them
// has seen it, and looks out for leases that are given back, or with ctx, or after
// announceBeats. The process goes on with its work meanwhile, and takes no further lease.
func (l *Leases) Announce(ctx context.Context) {
	l.mu.Lock()
	l.stops = true
	l.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, announceBeats*l.Beat)
	defer cancel()
	for !l.allAware() {
		hurry(l.beatNow)
		if sluice.Pause(ctx, l.Beat/announceLooks) != nil {
			return
		}
	}
}

// allAware reports whether every other process has beaten since this one has said that
// it stops: a beat reads all others.
func (l *Leases) allAware() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.unaware != nil && len(l.unaware) == 0
}

// awareness notes what a look at the beats has shown of others that are to be aware. said: with
// this look the process has said that it stops. l.mu is held.
func (l *Leases) awareness(said bool) {
	if !said {
		return
	}
	living := l.members.living("", l.members.ended)
	if l.unaware == nil {
		l.unaware = make(map[string]string)
		for _, id := range living {
			if id != l.id {
				l.unaware[id] = l.members.all[id].beat
			}
		}
		return
	}
	maps.DeleteFunc(l.unaware, func(id, beat string) bool {
		return !slices.Contains(living, id) || l.members.all[id].beat != beat
	})
}

// sharers is which processes share which roles, as one text. l.mu is held.
func (l *Leases) sharers() string {
	var b strings.Builder
	for _, id := range l.members.living("", l.members.ended) {
		b.WriteString(id + " " + strings.Join(l.members.all[id].groups, " ") + "\n")
	}
	return b.String()
}

// GiveBack frees the leases of a role, so that a successor need not wait. Call it when the
// role's follower has ended, after Announce. After an error the process tries again with
// every beat, until Run ends.
func (l *Leases) GiveBack(name string) error { return l.giveBackOf(name, Share{}.has) }

// giveBackOf is GiveBack of some places of the role.
func (l *Leases) giveBackOf(name string, is func(place int) bool) error {
	ctx, cancel := context.WithTimeout(context.Background(), l.Timeout)
	defer cancel()
	l.mu.Lock()
	roles := slices.Clone(l.roles)
	l.mu.Unlock()
	var errs []error
	for _, r := range roles {
		if r.name == name {
			errs = append(errs, l.giveBackRole(ctx, r, is))
		}
	}
	return errors.Join(errs...)
}

func (l *Leases) giveBackRole(ctx context.Context, r *role, is func(place int) bool) error {
	l.mu.Lock()
	held, owed := slices.Sorted(maps.Keys(r.held)), maps.Clone(r.owed)
	l.mu.Unlock()
	held = slices.DeleteFunc(held, func(i int) bool { return !is(i) })
	return joinOnce([]error{each(held, func(i int) error { return l.giveBack(ctx, r, i) }), l.giveOwed(ctx, r, owed)})
}

// giveOwed frees leases of a role that are owed. Their tokens name them: what has another
// holder by now stays as it is.
func (l *Leases) giveOwed(ctx context.Context, r *role, owed map[int]*Lease) error {
	return each(slices.Sorted(maps.Keys(owed)), func(i int) error { return l.release(ctx, r, i, owed[i]) })
}

// giveAllOwed frees what is owed of all roles.
func (l *Leases) giveAllOwed(ctx context.Context, roles []*role) error {
	var errs []error
	for _, r := range roles {
		l.mu.Lock()
		owed := maps.Clone(r.owed)
		l.mu.Unlock()
		errs = append(errs, l.giveOwed(ctx, r, owed))
	}
	return joinOnce(errs)
}

// disown frees leases that stand in this process's name although it no longer
// holds them. Giving them back failed, or the answer to taking them was lost.
// No other process may take them while this one lives.
func (l *Leases) disown(ctx context.Context, r *role, places []int, state []*seen) error {
	var errs []error
	for _, i := range places {
		if s := state[i]; s.owner == l.id && s.token != "" {
			_, err := r.places[i].redis.callInt(ctx, "give a lease back", "release", []string{r.places[i].key}, []string{s.token})
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// giveBack ends this process's hold first, then frees the lease. What the
// follower still has in hand is refused, or done, at its commit.
func (l *Leases) giveBack(ctx context.Context, r *role, i int) error {
	l.mu.Lock()
	lease := r.held[i]
	l.mu.Unlock()
	if lease == nil {
		return nil
	}
	l.setHeld(r, i, nil, &r.changes.Returned)
	return l.release(ctx, r, i, lease)
}

// release frees a lease that this process no longer holds. It is owed while that fails.
func (l *Leases) release(ctx context.Context, r *role, i int, lease *Lease) error {
	_, err := r.places[i].redis.callInt(ctx, "give a lease back", "release", []string{lease.key}, []string{lease.token})
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		delete(r.owed, i)
		return nil
	}
	if r.owed == nil {
		r.owed = make(map[int]*Lease)
	}
	r.owed[i] = lease
	return err
}

// giveBackAll frees everything at the end, so that a successor need not wait.
func (l *Leases) giveBackAll() error {
	ctx, cancel := context.WithTimeout(context.Background(), l.Timeout)
	defer cancel()
	var errs []error
	for _, r := range l.roles {
		errs = append(errs, l.giveBackRole(ctx, r, Share{}.has))
	}
	c := l.home.client
	errs = append(errs, l.home.wrap("leave the members", c.Do(ctx, c.B().Hdel().Key(membersKey()).Field(l.id).Build()).Error()))
	return errors.Join(errs...)
}
