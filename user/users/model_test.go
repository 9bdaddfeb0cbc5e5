package users

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"sluice"
	"sluice/journey"
	"sluice/store"
	"sluice/user"
	"sluice/user/profile"
)

// model is a store and its logs in memory, to try many orders in little time.
// That the stores do what it does is shown by their conformance suite, and on
// the real ones by the flow tests of package ingest.
type model struct {
	t        *testing.T
	users    map[user.ID]user.Row
	keys     map[user.Key]user.ID
	address  map[user.KeyRow]bool
	numbers  map[int]user.Numbers
	logs     [][]Update
	read     []int // up to where each log was applied
	forwards []user.Forward
	counts   map[string]int64
	events   []store.StoredEvent
	erased   map[string]bool
	dead     []Dead
	now      int64

	registered *journey.Registered
	facts      []journey.Fact
}

func newModel(t *testing.T, partitions int) *model {
	return &model{t: t, users: map[user.ID]user.Row{}, keys: map[user.Key]user.ID{}, address: map[user.KeyRow]bool{},
		numbers: map[int]user.Numbers{}, logs: make([][]Update, partitions), read: make([]int, partitions), counts: map[string]int64{}, erased: map[string]bool{}, now: 1_700_000_000_000}
}

// Stored says that events whose ids begin with "stored" have rows.
func (m *model) Stored(_ context.Context, events []sluice.EventKey) (map[sluice.EventKey]bool, error) {
	found := map[sluice.EventKey]bool{}
	for _, k := range events {
		if strings.HasPrefix(k.ID, "stored") {
			found[k] = true
		}
	}
	return found, nil
}

func (m *model) Users(_ context.Context, q user.Query) (user.Answer, error) {
	a := user.Answer{ByKey: map[user.Key][]user.ID{}, Users: map[user.ID]user.Row{}, Numbers: map[int]user.Numbers{}}
	give := func(k user.Key, id user.ID) {
		a.ByKey[k] = append(a.ByKey[k], id)
		if row, ok := m.users[id]; ok {
			a.Users[id] = row
		}
	}
	for _, k := range q.Keys {
		if id, ok := m.keys[k]; ok {
			give(k, id)
		}
		for r := range m.address {
			if r.Key == k {
				give(k, r.ID)
			}
		}
		slices.SortFunc(a.ByKey[k], user.ID.Compare)
	}
	for _, id := range q.IDs {
		if row, ok := m.users[id]; ok {
			a.Users[id] = row
		}
	}
	for _, row := range maps.Clone(a.Users) {
		for ok := true; ok && !row.MergedInto.IsZero(); {
			if row, ok = m.users[row.MergedInto]; ok {
				a.Users[row.ID] = row
			}
		}
	}
	for _, p := range q.Numbers {
		a.Numbers[p] = m.numbers[p]
	}
	return a, nil
}

// add appends an update to the log that its key belongs to.
func (m *model) add(u user.Update) {
	p := u.Key.Partition(len(m.logs))
	m.addTo(p, u)
}

func (m *model) addTo(p int, u user.Update) {
	if u.TimeMillis == 0 {
		u.TimeMillis = m.now
	}
	m.logs[p] = append(m.logs[p], Update{Update: u, Place: sluice.Place{Partition: p, Index: len(m.logs[p])}})
}

// step applies up to n updates of some logs in one transaction.
func (m *model) step(n int, partitions ...int) {
	m.t.Helper()
	m.now++
	var unit []Update
	for _, p := range partitions {
		end := min(len(m.logs[p]), m.read[p]+n)
		unit = append(unit, m.logs[p][m.read[p]:end]...)
		m.read[p] = end
	}
	if len(unit) == 0 {
		return
	}
	r, err := Apply(context.Background(), m, m.registered, len(m.logs), m.now, unit)
	if err != nil {
		m.t.Fatal(err)
	}
	m.write(&r)
}

func (m *model) write(r *Result) {
	m.t.Helper()
	c := r.Changes
	for _, id := range c.Stay { // a store refuses it, and would each time it is tried again
		if row, ok := m.users[id]; !ok || !row.MergedInto.IsZero() {
			m.t.Fatalf("%v must stay and is not there, or is merged", id)
		}
	}
	for _, id := range c.Drop {
		delete(m.users, id)
	}
	for _, k := range c.DropKeys {
		if m.keys[k.Key] == k.ID {
			delete(m.keys, k.Key)
		}
	}
	for _, a := range c.DropAddress {
		delete(m.address, a)
	}
	for _, row := range c.Put {
		m.users[row.ID] = row
	}
	for _, k := range c.MoveKeys {
		m.keys[k.Key] = k.ID
	}
	for _, k := range c.AddKeys {
		if owner, ok := m.keys[k.Key]; ok {
			m.t.Fatalf("%v is claimed for %v and belongs to %v", k.Key, k.ID, owner)
		}
		m.keys[k.Key] = k.ID
	}
	for _, a := range c.AddAddress {
		m.address[a] = true
	}
	maps.Copy(m.numbers, c.Numbers)
	m.forwards = append(m.forwards, c.Forward...)
	for _, n := range r.Counts {
		m.counts[n.Name] += n.By
	}
	m.events = append(m.events, r.Events...)
	for _, name := range c.Erase {
		m.erased[name] = true
	}
	m.dead = append(m.dead, r.Dead...)
	m.facts = append(m.facts, r.Facts...)
}

// deliver appends what is on its way between two partitions, the oldest first.
func (m *model) deliver(from, to int) {
	m.t.Helper()
	left := m.forwards[:0]
	for _, f := range m.forwards {
		if f.From != from || f.To != to {
			left = append(left, f)
			continue
		}
		r, err := sluice.ReadBatch(append(sluice.NewBatch(0), f.Items...))
		if err != nil {
			m.t.Fatal(err)
		}
		for r.Next() {
			var u user.Update
			if err := user.DecodeUpdate(r.Item.Payload, &u); err != nil {
				m.t.Fatal(err)
			}
			m.addTo(to, u)
		}
	}
	m.forwards = left
}

// settle applies and delivers until nothing is left.
func (m *model) settle() {
	m.t.Helper()
	for range 100 {
		busy := len(m.forwards) > 0
		for from := range m.logs {
			for to := range m.logs {
				m.deliver(from, to)
			}
			busy = busy || m.read[from] < len(m.logs[from])
			m.step(1000, from)
		}
		if !busy {
			m.check()
			return
		}
	}
	m.t.Fatal("updates go round in circles")
}

// check looks for what must never be. That is a key of nobody, a user that its
// address does not find, and an address that finds a user without it.
func (m *model) check() {
	m.t.Helper()
	for k, id := range m.keys {
		row, ok := m.users[id]
		for ok && !row.MergedInto.IsZero() {
			row, ok = m.users[row.MergedInto]
		}
		if !ok {
			m.t.Fatalf("%v is a key of %v, which is gone", k, id)
		}
	}
	for id, row := range m.users {
		if !row.MergedInto.IsZero() {
			continue
		}
		p := m.profileOf(row)
		for _, k := range addresses(p) {
			if k.Name != "" && !m.address[user.KeyRow{Key: k, ID: id}] {
				m.t.Fatalf("user %v is not found by %v", id, k)
			}
		}
	}
	for a := range m.address {
		row, ok := m.users[a.ID]
		if !ok || !row.MergedInto.IsZero() || !slices.Contains([]user.Key{addresses(m.profileOf(row))[0], addresses(m.profileOf(row))[1]}, a.Key) {
			m.t.Fatalf("%v is found by %v, which it does not have", a.ID, a.Key)
		}
	}
}

func (m *model) profileOf(row user.Row) *profile.Profile {
	m.t.Helper()
	p, err := profile.Parse(row.Profile)
	if err != nil {
		m.t.Fatal(err)
	}
	return p
}

// who returns the profile behind a key, or nil.
func (m *model) who(k user.Key) (user.ID, *profile.Profile) {
	m.t.Helper()
	id, ok := m.keys[k]
	if !ok {
		return id, nil
	}
	row := m.users[id]
	for !row.MergedInto.IsZero() {
		id = row.MergedInto
		row = m.users[id]
	}
	return id, m.profileOf(row)
}

func external(name string) user.Key {
	return user.Key{Kind: user.KeyExternal, Name: name}
}

// pair returns external ids of two partitions out of `partitions`.
func pair(partitions int) (a, b string) {
	a = "a"
	for i := range 1000 {
		if b = fmt.Sprint("b", i); external(b).Partition(partitions) != external(a).Partition(partitions) {
			return a, b
		}
	}
	panic("one partition")
}
