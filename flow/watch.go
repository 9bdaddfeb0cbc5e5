package flow

import (
	"context"
	"strconv"
	"strings"
	"time"
)

// Watched is which processes live and what they hold, as seen by a process that
// takes no part.
type Watched struct {
	Live  int // processes that count up their beat
	Roles []WatchedRole
}

// WatchedRole is one role of those that were added.
type WatchedRole struct {
	Name   string
	Places int
	Free   []string // places that no living process holds: "partition 3", "list q"
}

// watchEvery is how often a watcher looks at the beats.
const watchEvery = beatEvery / 2

// Watch looks at the beats and at the leases of the roles that were added, and
// writes nothing. It returns as soon as every process has been seen to live. At
// the latest it returns after LeaseTimeout, when a process not seen by then is
// dead. An error says which leases could not be read; the rest is still right.
func (l *Leases) Watch(ctx context.Context) (Watched, error) {
	alive, err := l.watchBeats(ctx)
	if err != nil {
		return Watched{}, err
	}
	w := Watched{Live: len(alive)}
	state, err := l.look(ctx, l.roles)
	for _, r := range l.roles {
		role := WatchedRole{Name: r.name, Places: len(r.places)}
		for i, s := range state[r] {
			if s != nil && (s.token == "" || !alive[s.owner]) {
				role.Free = append(role.Free, r.places[i].String())
			}
		}
		w.Roles = append(w.Roles, role)
	}
	return w, err
}

// watchBeats returns the processes that live.
func (l *Leases) watchBeats(ctx context.Context) (map[string]bool, error) {
	first, err := l.home.beats(ctx)
	if err != nil {
		return nil, err
	}
	alive := make(map[string]bool)
	if len(first) == 0 {
		return alive, nil
	}
	err = l.home.watchBeats(ctx, watchEvery, time.Now().Add(LeaseTimeout), func(now map[string]string) bool {
		for id, beat := range now {
			if before, known := first[id]; !known || before != beat {
				alive[id], first[id] = true, beat
			}
		}
		for id := range first {
			if _, there := now[id]; !there { // it has left
				delete(first, id)
				delete(alive, id)
			}
		}
		return len(alive) >= len(first)
	})
	return alive, err
}

// String names a place for people.
func (p *place) String() string {
	if _, list, ok := strings.Cut(p.numbered, ":"); ok {
		return "list " + list
	}
	return "partition " + strconv.Itoa(p.partition)
}
