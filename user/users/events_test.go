package users

import (
	"testing"

	"sluice"
	"sluice/user"
)

// Events that have their rows count for who is there, once, and make nobody.
func TestEventsWithRows(t *testing.T) {
	m := newModel(t, 4)
	k := external("u-1")
	p := k.Partition(4)
	m.add(set(k, `{"n":1}`))
	seen := func(op user.Op, k user.Key, id string, millis int64) {
		m.add(user.Update{Op: op, Key: k, Name: "e", TimeMillis: millis, Body: map[user.Op]string{user.OpBought: `{"currency":"EUR","price":2.5,"quantity":2}`}[op]})
		log := m.logs[k.Partition(4)]
		if id != "" {
			log[len(log)-1].Event = sluice.EventKey{Millis: millis, ID: id}
		}
	}
	day := int64(24 * 60 * 60 * 1000)
	r, err := Apply(t.Context(), m, nil, 4, m.now, m.logs[p])
	if err != nil {
		t.Fatal(err)
	}
	m.write(&r)
	m.logs[p] = m.logs[p][:0]
	for _, id := range []string{"", "", "a", "b", "b", "stored-a"} { // the last two have a row from before
		seen(user.OpSeen, k, id, 10*day)
	}
	seen(user.OpSeen, k, "a", 20*day) // another event, since its time is another
	seen(user.OpBought, k, "", 10*day)
	r, err = Apply(t.Context(), m, nil, 4, m.now, m.logs[p])
	if err != nil || len(r.Events) != 0 || r.Ignored != 0 {
		t.Fatalf("%+v %v", r, err)
	}
	m.write(&r)
	if _, got := m.who(k); len(got.Events) != 1 || got.Events[0].Count != 5 || got.Events[0].FirstMillis != 10*day || got.Events[0].LastMillis != 20*day || len(got.Purchases) != 1 || len(got.Revenue) != 1 {
		t.Errorf("%s", got.Append(nil))
	}
	nobody := external("nobody")
	seen(user.OpSeen, nobody, "x", day)
	r, err = Apply(t.Context(), m, nil, 4, m.now, m.logs[nobody.Partition(4)][len(m.logs[nobody.Partition(4)])-1:])
	if err != nil || len(r.Changes.Put)+len(r.Changes.AddKeys) != 0 || r.Ignored != 0 {
		t.Errorf("of nobody: %+v %v", r, err)
	}
}

// A repeat counts once also in the transaction that makes its user.
func TestEventRepeatedBesideItsUser(t *testing.T) {
	m := newModel(t, 4)
	k := external("u-2")
	p := k.Partition(4)
	m.add(set(k, `{"n":1}`))
	for range 2 {
		m.add(user.Update{Op: user.OpSeen, Key: k, Name: "e", TimeMillis: 1000})
		m.logs[p][len(m.logs[p])-1].Event = sluice.EventKey{Millis: 1000, ID: "a"}
	}
	r, err := Apply(t.Context(), m, nil, 4, m.now, m.logs[p])
	if err != nil {
		t.Fatal(err)
	}
	m.write(&r)
	if _, got := m.who(k); len(got.Events) != 1 || got.Events[0].Count != 1 {
		t.Errorf("it counts %+v, want once", got.Events)
	}
}
