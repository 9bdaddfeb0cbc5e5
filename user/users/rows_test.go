package users

import (
	"slices"
	"testing"

	"sluice"
	"sluice/user"
)

// A user who takes over a user of another partition must still exist when that
// is committed. Two users who are merged into each other at one moment would
// both be gone.
func TestWhoTakesOverMustStay(t *testing.T) {
	m := newModel(t, 4)
	a, b := pair(4)
	m.add(set(external(a), `{"n":1}`))
	m.add(set(external(b), `{"n":2}`))
	m.settle()
	for goes, stays := range map[string]string{a: b, b: a} { // neither sees what the other does
		id, _ := m.who(external(stays))
		p := external(goes).Partition(4)
		m.add(mergeInto(external(goes), external(stays)))
		r, err := Apply(t.Context(), m, nil, 4, m.now, m.logs[p][m.read[p]:])
		if err != nil || !slices.Equal(r.Changes.Stay, []user.ID{id}) {
			t.Errorf("%v must stay, %v; want %v", r.Changes.Stay, err, id)
		}
	}
}

// The numbers of what is forwarded rise, also after a database was restored and
// has forgotten them. The log that it goes to has seen them, and would leave a
// repeated number out.
func TestForwardsOfADatabaseThatWasPutBack(t *testing.T) {
	m := newModel(t, 4)
	a, b := pair(4)
	from, to := external(a).Partition(4), external(b).Partition(4)
	m.add(set(external(a), `{"n":1}`))
	m.add(set(external(b), `{"n":2}`))
	m.settle()
	m.add(mergeInto(external(a), external(b)))
	m.settle()
	last := int64(0)
	for range 3 {
		for range 2 {
			m.add(set(external(a), `{"n":{"inc":1}}`)) // which is for the other by now
		}
		m.step(10, from)
		if len(m.forwards) != 2 {
			t.Fatalf("%d are forwarded, want 2", len(m.forwards))
		}
		for _, f := range m.forwards {
			if f.ID <= last {
				t.Errorf("%d comes after %d", f.ID, last)
			}
			last = f.ID
		}
		m.deliver(from, to)
		m.numbers[from] = user.Numbers{User: m.numbers[from].User}
	}
}

// A user active in the last days of all times leaves the month after them. That
// is counted nowhere, since no database takes it.
func TestActiveAtTheEndOfAllTimes(t *testing.T) {
	m := newModel(t, 1)
	m.add(did(external("ann"), "e", sluice.MaxEventTimeMillis))
	r, err := Apply(t.Context(), m, nil, 1, m.now, m.logs[0])
	if err != nil {
		t.Fatal(err)
	}
	in := 0
	for i := range r.Counts {
		c := &r.Counts[i]
		if err := c.Check(); err != nil {
			t.Errorf("%s: %v", c.Name, err)
		}
		if c.Name == MonthIn {
			in++
		}
	}
	if in != 1 {
		t.Errorf("counts: %+v", r.Counts)
	}
}

// The sums of those who come in and leave, up to a day, are how many were
// active in the last 30 days. On a day itself each counts once, also where two
// turn out to be one.
func TestWhoIsActive(t *testing.T) {
	const first = 19_000 // days since 1970
	m := newModel(t, 1)
	byDay := map[string]map[int64]int64{NewUser: {}, ActiveDay: {}, MonthIn: {}, MonthOut: {}}
	apply := func(up user.Update) {
		t.Helper()
		m.add(up)
		r, err := Apply(t.Context(), m, nil, 1, m.now, m.logs[0][m.read[0]:])
		if err != nil {
			t.Fatal(err)
		}
		m.read[0] = len(m.logs[0])
		m.write(&r)
		for _, c := range r.Counts {
			byDay[c.Name][c.TimeMillis/dayMillis-first] += c.By
		}
	}
	active := func(name string, day int64) { apply(did(external(name), "e", (first+day)*dayMillis+5)) }
	for _, day := range []int64{0, 0, 10, 50, 20} {
		active("ann", day)
	}
	apply(set(external("also"), `{"n":1}`))
	apply(mergeInto(external("ann"), external("also")))
	active("also", 50)
	month := int64(0)
	for day := range int64(100) {
		month += byDay[MonthIn][day] - byDay[MonthOut][day]
		today, inMonth := int64(0), int64(0)
		if day == 0 || day == 10 || day == 50 { // that of day 20 came too late
			today = 1
		}
		if day < 40 || day >= 50 && day < 80 {
			inMonth = 1
		}
		if byDay[ActiveDay][day] != today || month != inMonth {
			t.Errorf("day %d: %d are active, %d in the month; want %d and %d", day, byDay[ActiveDay][day], month, today, inMonth)
		}
	}
}
