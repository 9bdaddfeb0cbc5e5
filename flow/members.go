package flow

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// Limits of judging whether other processes live, in lease timeouts.
const (
	// maxGraceTimeouts is the longest time that a process gets to beat again
	// after this one could not look. A client that lost its connection needs
	// some seconds to get a new one.
	maxGraceTimeouts = 4

	// A look that comes later than half a timeout after the one before is a gap.
	gapsATimeout = 2
)

// returnWithin is within what time a process that lives beats again after Redis was
// emptied or away.
func returnWithin(timeout time.Duration) time.Duration { return maxGraceTimeouts * timeout }

// members is what this process knows of all processes from its own looks at
// their beats. It has no clock: times are handed in, and only compared with each
// other.
//
// The idea. A process is dead when this one has looked again and again for a
// whole timeout, without a gap, and its beat has not changed. A time in which
// this process could not look says nothing about others: an outage that hits
// all of them at once must age none.
//
// The invariants. A row of looks ends with a look that failed or came late, and
// with an answer from another Redis (its replication id). The next look begins a
// new row: every process counts as seen just then, and has a grace that grows with
// the gap. A look writes this process's own beat in the same step. So while no
// recent look has succeeded, its own life is unconfirmed as well, and no
// process is dead to it.
type members struct {
	self    string
	timeout time.Duration

	all    map[string]*member
	server string    // replication id of the Redis that the last look saw
	row    time.Time // when the first look of the unbroken row ended; zero: there is none
	began  time.Time // of the last look that succeeded
	ended  time.Time
	failed bool          // a look has failed since
	grace  time.Duration // of processes not seen to beat in this row
}

// member is what a process says of itself in its beat.
type member struct {
	beat   string            // the whole text, which changes with each beat
	groups []string          // the processes between which it shares the role (role.group)
	words  map[string]string // what else it says, by name
	since  time.Time         // when it was first seen with this beat
	fresh  bool              // its beat has changed in this row of looks
	away   bool              // its beat is gone since a gap
}

func newMembers(self string, timeout time.Duration) *members {
	return &members{self: self, timeout: timeout, all: make(map[string]*member)}
}

// beatText is what a process says: a number that rises, its groups, and words
// NAME=VALUE. A reader skips words that it does not know.
func beatText(count int64, groups []string, words map[string]string) string {
	text := strconv.FormatInt(count, 10)
	for _, group := range groups {
		text += " " + group
	}
	for _, name := range slices.Sorted(maps.Keys(words)) {
		text += " " + name + "=" + words[name]
	}
	return text
}

// heard reads what beatText wrote.
func heard(beat string, at time.Time) *member {
	m := &member{beat: beat, words: make(map[string]string), since: at}
	for i, word := range strings.Fields(beat) {
		if name, value, ok := strings.Cut(word, "="); ok {
			m.words[name] = value
		} else if i > 0 {
			m.groups = append(m.groups, word)
		}
	}
	return m
}

// miss notes that a look has failed.
func (m *members) miss() { m.failed = true }

// look takes what a look has seen: which Redis answered, and all beats.
func (m *members) look(began, ended time.Time, server string, beats map[string]string) {
	gap := ended.Sub(m.ended)
	first := m.ended.IsZero()
	broken := first || m.failed || server != m.server || gap > m.timeout/gapsATimeout
	if broken {
		m.row, m.grace = ended, m.timeout
		if !first {
			m.grace = min(m.timeout+2*gap, returnWithin(m.timeout))
		}
	}
	m.server, m.began, m.ended, m.failed = server, began, ended, false
	for id, beat := range beats {
		before := m.all[id]
		if before != nil && before.beat == beat {
			before.away = false
			if broken {
				before.since, before.fresh = ended, false
			}
			continue
		}
		now := heard(beat, ended)
		now.fresh = first || !broken
		m.all[id] = now
	}
	for id, other := range m.all {
		if _, there := beats[id]; there {
			continue
		}
		switch {
		case broken: // the Redis may have forgotten it
			other.since, other.fresh, other.away = ended, false, true
		case !other.away || m.dead(id, ended):
			delete(m.all, id) // it has left
		}
	}
}

// sure reports whether this process knows how things are: its own last beat was
// acknowledged, a moment ago.
func (m *members) sure(now time.Time) bool {
	return !m.ended.IsZero() && !m.failed && now.Sub(m.ended) <= m.timeout/gapsATimeout
}

// settled reports whether since the last gap every process has beaten again, or
// is dead.
func (m *members) settled(now time.Time) bool {
	if !m.sure(now) {
		return false
	}
	for id, other := range m.all {
		if id != m.self && !other.fresh && !m.dead(id, now) {
			return false
		}
	}
	return true
}

// dead reports whether a process is known to be dead. One that is not among the
// members has gone, or was forgotten: it is dead when it would have shown itself
// if it lived.
func (m *members) dead(id string, now time.Time) bool {
	if id == m.self || !m.sure(now) {
		return false
	}
	other := m.all[id]
	switch {
	case other == nil:
		return m.began.Sub(m.row) >= m.grace
	case other.fresh:
		return m.began.Sub(other.since) >= m.timeout
	}
	return m.began.Sub(other.since) >= m.grace
}

// forgotten are those that have been dead for so long that their beats are to be
// removed.
func (m *members) forgotten(now time.Time) (ids []string) {
	for id, other := range m.all {
		if m.dead(id, now) && m.began.Sub(other.since) > forgetAfter {
			ids = append(ids, id)
		}
	}
	return ids
}

// living are the processes that are not known to be dead, of one group ("": all).
// Their order is the same in every process, and another one for each group.
func (m *members) living(group string, now time.Time) []string {
	var ids []string
	for id, other := range m.all {
		if (group == "" || slices.Contains(other.groups, group)) && !m.dead(id, now) {
			ids = append(ids, id)
		}
	}
	rank := func(id string) uint64 {
		hash := fnv.New64a()
		_, _ = hash.Write([]byte(id + " " + group)) // never fails (hash.Hash)
		return hash.Sum64()
	}
	slices.SortFunc(ids, func(a, b string) int { return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a, b)) })
	return ids
}

// Member is a process as it shows itself to others.
type Member struct {
	ID    string
	Words map[string]string // what it says beside its life, by name (Leases.Say)
}

// Say has this process say something with each of its beats: a name and a value
// without blanks and "=". value is called before each beat and must not block.
// Called after Run has begun, it takes effect with the next beat.
func (l *Leases) Say(name string, value func() string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.says[name] = value
}

// Living returns the processes that are not known to be dead, this one
// included, with their words. sure is false if this process cannot know now.
// Its last look failed, or is too long ago, or one process has had no time to
// show itself since this one could not look. A caller that must know the
// abilities of all does nothing then.
func (l *Leases) Living() (all []Member, sure bool) {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, id := range l.members.living("", now) {
		all = append(all, Member{ID: id, Words: maps.Clone(l.members.all[id].words)})
	}
	return all, l.members.settled(now)
}

// Said returns what a process said by a name in the last of its beats that this one has
// heard. It is empty if the process does not know that name, or is not known.
func (l *Leases) Said(id, name string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if m := l.members.all[id]; m != nil {
		return m.words[name]
	}
	return ""
}

// watched is for how long this process has looked at the beats without a gap.
func (l *Leases) watched() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.members.began.Sub(l.members.row)
}

// Dead reports whether a process is known to be dead. This one has then looked
// for its beat without a gap for as long as Timeout, and has not seen it. While
// this process cannot look, or its own beat is not confirmed, no process is
// dead.
func (l *Leases) Dead(id string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.members.dead(id, time.Now())
}

// showLife counts up this process's beat and looks at those of the others, in one
// step.
func (l *Leases) showLife(ctx context.Context) error {
	l.beat++
	began := time.Now()
	text, stops := l.beatText()
	args := append([]string{l.id, text}, l.forgotten(began)...)
	answer, err := l.home.call(ctx, "beat", []string{membersKey()}, args).ToArray()
	var server string
	var at time.Time
	var beats map[string]string
	if err == nil {
		server, beats, at, err = readBeats(answer)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.members.miss()
		return l.home.wrap("show life", err)
	}
	ended := time.Now()
	before := l.sharers()
	l.members.look(began, ended, server, beats)
	l.awareness(stops)
	if l.sharers() != before {
		hurry(l.tendNow)
	}
	if l.Clock != nil {
		l.Clock.Heard(at, began, ended)
	}
	l.live = len(l.members.living("", l.members.ended))
	return nil
}

// beatText is what this process says now, and whether that is that it stops.
func (l *Leases) beatText() (text string, stops bool) {
	l.mu.Lock()
	says, stops := maps.Clone(l.says), l.stops
	var groups []string
	if l.left == nil && !stops { // else it shares nothing
		for _, r := range l.roles {
			if !l.reach.left(r) {
				groups = append(groups, r.group) // which changes when a place opens
			}
		}
	}
	l.mu.Unlock()
	words := make(map[string]string, len(says))
	for name, value := range says { // past the lock: they have locks of their own
		words[name] = value()
	}
	return beatText(l.beat, groups, words), stops
}

func (l *Leases) forgotten(now time.Time) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.members.forgotten(now)
}

// readBeats reads what beat.lua answers.
func readBeats(answer []rueidis.RedisMessage) (server string, beats map[string]string, at time.Time, err error) {
	if len(answer) != 3 {
		return "", nil, at, fmt.Errorf("the script answered %d values, want 3", len(answer))
	}
	if server, err = answer[0].ToString(); err != nil {
		return "", nil, at, err
	}
	millis, err := answer[2].AsInt64()
	if err != nil {
		return "", nil, at, err
	}
	beats, err = answer[1].AsStrMap()
	return server, beats, time.UnixMilli(millis), err
}
