package flow

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/redis/rueidis"
)

// How leases are looked at.
//
// The idea. A server that hangs must not keep a process from the leases on others. Nobody
// can say before a look which server that is, or where in a cluster a slot is. So a look asks
// for the leases of all roles at once, each server by itself, and each slot of a cluster. What
// has answered counts. What has not is unknown: it is neither taken, nor dropped, nor
// given back. A part that has not answered in time is asked beside the turns from then on,
// which wait for it no more. Its answer counts in the turn after it has come, and then it is
// waited for again.
//
// The invariants. Of each part one look is under way, and none begins in a turn that uses
// an earlier answer. A place is taken only in a turn that has its answer. So no answer is
// older than the last take, and a process's own take is never seen as that of another.

// lookTimeout bounds a look at all leases.
const lookTimeout = time.Second

// part names the leases that are asked for together.
type part struct {
	redis *Redis
	slot  uint16 // of a cluster
}

// watchedPart is what a process knows of a part. Leases.looking guards it.
type watchedPart struct {
	under chan looked // has what a look saw when it has ended; nil: none is under way
	late  bool        // the last look had no answer in time
	err   error       // of the last look
}

// spot is a place of a role.
type spot struct {
	role *role
	at   int
}

// sight is what a look saw of a spot.
type sight struct {
	spot
	seen *seen // nil: it is not known
	err  error
}

// looked is what became of a look at a part.
type looked struct {
	saw  []sight
	late bool // its time was over
}

// seen is the content of a lease's hash. A list that another deployment drains
// is not taken. Its holder would lose the lease to a process whose follower is
// then refused, and again with every turn.
type seen struct {
	owner, token string
	foreign      bool
}

// look reads the leases of some roles, by role and place. nil stands for a lease that is
// not known, and the error says why.
func (l *Leases) look(ctx context.Context, roles []*role) (map[*role][]*seen, error) {
	l.looking.Lock()
	defer l.looking.Unlock()
	state := make(map[*role][]*seen, len(roles))
	spots := make(map[part][]spot)
	var parts []part // in a fixed order: errors that stay are told once
	for _, r := range roles {
		state[r] = make([]*seen, len(r.places))
		for i := range r.places {
			if r.places[i].redis == nil {
				continue
			}
			at := part{r.places[i].redis, r.places[i].redis.slotOf(r.places[i].key)}
			if spots[at] == nil {
				parts = append(parts, at)
			}
			spots[at] = append(spots[at], spot{r, i})
		}
	}
	answers := l.askParts(ctx, parts, spots)
	var errs []error
	for _, at := range parts {
		known, answer := l.parts[at], answers[at]
		switch {
		case known.under == nil:
			var failed []error
			for _, s := range answer.saw {
				if of, asked := state[s.role]; asked && s.at < len(of) {
					of[s.at] = s.seen
				}
				failed = append(failed, s.err)
			}
			known.late, known.err = answer.late, joinOnce(failed)
		case !known.late || known.err == nil:
			known.late, known.err = true, at.redis.wrap("read a lease", context.DeadlineExceeded)
		}
		errs = append(errs, known.err)
	}
	return state, joinOnce(errs)
}

// askParts begins looks at those parts that have none under way, waits for those that
// are not late, and returns what has come.
func (l *Leases) askParts(ctx context.Context, parts []part, spots map[part][]spot) map[part]looked {
	answers := make(map[part]looked, len(parts))
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	wait := make(map[part]bool)
	for _, at := range parts {
		known := l.parts[at]
		if known == nil {
			known = new(watchedPart)
			l.parts[at] = known
		}
		if known.under == nil {
			wait[at] = !known.late
			known.under = at.ask(ctx, spots[at])
		}
	}
	for _, at := range parts {
		known := l.parts[at]
		if wait[at] {
			select {
			case answers[at] = <-known.under:
				known.under = nil
				continue
			case <-ctx.Done():
			}
		}
		select {
		case answers[at] = <-known.under:
			known.under = nil
		default: // it is asked on, beside the turns
		}
	}
	return answers
}

// ask begins a look at a part. It outlasts the turn that begins it, for lookTimeout, and
// while the client connects.
func (at part) ask(ctx context.Context, spots []spot) chan looked {
	under := make(chan looked, 1)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookTimeout)
	go func() { // ends with ctx
		defer cancel()
		var calls rueidis.Commands
		for _, s := range spots {
			p := &s.role.places[s.at]
			calls = append(calls, at.redis.B().Hmget().Key(p.key).Field("owner", "token").Build())
			if p.list != nil {
				calls = append(calls, p.list.askOwner())
			}
		}
		answers := at.redis.client.DoMulti(ctx, calls...)
		saw := make([]sight, len(spots))
		for n, s := range spots {
			saw[n].spot = s
			saw[n].seen, answers, saw[n].err = s.role.places[s.at].seen(answers)
		}
		under <- looked{saw, ctx.Err() != nil}
	}()
	return under
}

// slotOf is the slot of a key in a cluster; on one server all keys have the same.
func (r *Redis) slotOf(key string) uint16 {
	if r.oneServer() {
		return 0
	}
	command := r.B().Get().Key(key).Build()
	return command.Slot()
}

// joinOnce is errors.Join that says the same once: when a server is away, all
// of its leases have the same to say.
func joinOnce(errs []error) error {
	said := make(map[string]bool)
	return errors.Join(slices.DeleteFunc(errs, func(err error) bool {
		if err == nil || said[err.Error()] {
			return true
		}
		said[err.Error()] = true
		return false
	})...)
}

// seen is a lease as it stood when Redis answered. The answers about the place come first,
// and rest are the others.
func (p *place) seen(answers []rueidis.RedisResult) (s *seen, rest []rueidis.RedisResult, err error) {
	lease, rest := answers[0], answers[1:]
	var foreign error
	if p.list != nil {
		foreign, rest = p.list.checkOwner(rest[0]), rest[1:]
	}
	v, err := lease.ToArray()
	if err != nil {
		return nil, rest, p.redis.wrap("read a lease", err)
	}
	if foreign != nil && !errors.Is(foreign, errForeign) {
		return nil, rest, foreign
	}
	owner, _ := v[0].ToString() // nil: none
	token, _ := v[1].ToString()
	return &seen{owner, token, foreign != nil}, rest, foreign
}
