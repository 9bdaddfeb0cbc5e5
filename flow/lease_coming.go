package flow

import (
	"fmt"
	"hash/fnv"
	"slices"
)

// How the places of lists open whose servers were away when the process began.
//
// The idea. A list has its place from the beginning, by its number in the configuration,
// so followers and their shares know it. A place without a server is not looked at, not
// taken, and not counted. Processes share a role fairly if they have the same places open:
// what the others of the group are expected to take they can take. So a process that
// reaches all lists takes those that another one does not, and gives none away to it.
//
// The invariants. Places are written by the goroutine that looks after the leases alone,
// and read by others where a lease of them is, or was, held. When a place opens the group is
// another one. Until a beat has said so the process keeps what it holds and takes nothing:
// in its old group the others count on it, in the new one nobody knows of it.

// comingList is a place that opens.
type comingList struct {
	role string
	at   int
	list *List
}

// AddList opens place i of a role that AddLists has left open. Run may have begun.
func (l *Leases) AddList(name string, i int, list *List) {
	l.mu.Lock()
	l.coming = append(l.coming, comingList{name, i, list})
	l.mu.Unlock()
	hurry(l.tendNow)
}

// openComing opens what has come. l.mu is held.
func (l *Leases) openComing() {
	for _, c := range l.coming {
		for _, r := range l.roles {
			if r.name == c.role {
				r.places[c.at] = placeOf(c.role, c.at, c.list)
				r.orphan++
				r.regroup()
			}
		}
	}
	if l.coming != nil {
		l.coming = nil
		hurry(l.beatNow)
	}
}

// regroup names the processes that share the role: those that have the same places open.
func (r *role) regroup() {
	hash := fnv.New32a()
	r.open = 0
	for i, p := range r.places {
		if p.redis == nil {
			_, _ = fmt.Fprintf(hash, "-%d", i) // never fails (hash.Hash); hashes of all servers have one key
			continue
		}
		_, _ = hash.Write([]byte(p.key))
		r.open++
	}
	r.group = fmt.Sprintf("%s/%d/%08x", r.name, r.open, hash.Sum32())
}

// said reports whether the others can know how this process takes part in a role: by its
// last beat, or since it has left the role. l.mu is held.
func (l *Leases) said(r *role) bool {
	self := l.members.all[l.id]
	return self == nil || slices.Contains(self.groups, r.group) || l.reach.left(r)
}
