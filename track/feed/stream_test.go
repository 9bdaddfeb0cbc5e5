package feed

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice"
	"sluice/store"
	"sluice/store/sqlstore"
	"sluice/test/clocktest"
	"sluice/test/tables"
)

const follower = "store"

// kit is a database with events.
type kit struct {
	t     *testing.T
	store *sqlstore.Store
	clock *clocktest.Clock
	at    map[int]sluice.Position
	all   []string
}

func newKit(t *testing.T) *kit {
	t.Helper()
	clock := clocktest.At(time.UnixMilli(1_780_000_000_000))
	s := tables.Open(t, sqlstore.Options{Clock: clock})
	k := &kit{t: t, store: s, clock: clock}
	at, err := s.Cursors(t.Context(), follower, []int{0, 1})
	if err != nil {
		t.Fatal(err)
	}
	k.at = at
	return k
}

// put stores n events of a partition, of times that fall.
func (k *kit) put(part, n int, name, app string) {
	k.t.Helper()
	from := k.at[part]
	to := sluice.Position{Major: uint64(k.clock.Now().UnixMilli()), Minor: from.Minor + 1}
	var events []store.StoredEvent
	for i := range n {
		id := fmt.Sprint("e", len(k.all))
		k.all = append(k.all, id)
		events = append(events, store.StoredEvent{Place: sluice.Place{Partition: part, Position: to, Index: i},
			Event: sluice.Event{Kind: sluice.KindCustom, Name: name, App: app, User: "u1", ID: id, TimeMillis: 1_700_000_000_000 - int64(len(k.all))}})
	}
	p, err := k.store.Prepare(&store.Effect{Events: events, Moves: []store.Move{{Follower: follower, Partition: part, From: from, To: to}}})
	if err == nil {
		_, err = k.store.Apply(k.t.Context(), p)
	}
	if err != nil {
		k.t.Fatal(err)
	}
	k.at[part] = to
	k.clock.Move(Every) // what was asked before is too old
}

func (k *kit) stream(filter Filter, id string, all bool) *Stream {
	k.t.Helper()
	s := &Stream{Heads: &Heads{Store: k.store, Follower: follower, Clock: k.clock}, Filter: filter}
	if err := s.Begin(k.t.Context(), id, all); err != nil {
		k.t.Fatal(err)
	}
	return s
}

// read reads until there is no more; steps: so many parts at most.
func (k *kit) read(s *Stream, steps int) (ids []string, missed int64) {
	k.t.Helper()
	for range steps {
		p, err := s.Next(k.t.Context())
		if err != nil {
			k.t.Fatal(err)
		}
		missed += p.Missed
		for i := range p.Events {
			ids = append(ids, p.Events[i].ID)
		}
		if !p.More {
			break
		}
	}
	return ids, missed
}

// A stream begins at the present, at the oldest or at an id, and has all from there, once.
func TestStream(t *testing.T) {
	k := newKit(t)
	k.put(0, 3, "a", "shop")
	live, whole := k.stream(Filter{}, "", false), k.stream(Filter{}, "", true)
	if got, _ := k.read(live, 100); len(got) != 0 {
		t.Errorf("before it began: %v", got)
	}
	k.put(1, 450, "b", "blog")
	k.put(0, 2, "a", "shop")
	if got, _ := k.read(live, 100); !sameSet(got, k.all[3:]) {
		t.Errorf("live: %d of %d", len(got), len(k.all)-3)
	}
	if got, _ := k.read(whole, 100); !sameSet(got, k.all) {
		t.Errorf("whole: %d of %d", len(got), len(k.all))
	}
	for _, c := range []struct {
		filter Filter
		want   int
	}{{Filter{Types: []string{"custom.a"}}, 5}, {Filter{Types: []string{"mail", "custom.b"}}, 450}, {Filter{Types: []string{"custom"}, App: "blog"}, 450}, {Filter{User: "u1"}, 455}, {Filter{User: "u2"}, 0}, {Filter{Types: []string{"mail.a"}}, 0}} {
		if got, _ := k.read(k.stream(c.filter, "", true), 100); len(got) != c.want {
			t.Errorf("%+v: %d events, want %d", c.filter, len(got), c.want)
		}
	}
}

func sameSet(a, b []string) bool {
	a, b = slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b))
	return slices.Equal(a, b)
}

// Wherever a stream ends, another one goes on from its id, and both together have all.
func TestResume(t *testing.T) {
	k := newKit(t)
	k.put(0, 500, "a", "shop")
	k.put(1, 300, "b", "shop")
	for steps := range 6 {
		first := k.stream(Filter{}, "", true)
		got, _ := k.read(first, steps)
		k.put(1, 1, "b", "shop")
		k.clock.Move(24 * time.Hour) // however long it was away
		more, missed := k.read(k.stream(Filter{}, first.ID(), false), 100)
		if all := append(got, more...); missed != 0 || !sameSet(all, k.all) {
			t.Errorf("after %d parts: %d and %d events, %d missed, want %d", steps, len(got), len(more), missed, len(k.all))
		}
	}
	for _, id := range []string{"x", "AA", strings.Repeat("_", 100), "AQ5", (&Stream{at: map[int]sluice.Place{7: {Partition: 7}}}).ID()} {
		s := &Stream{Heads: &Heads{Store: k.store, Follower: follower, Clock: k.clock}}
		if err := s.Begin(t.Context(), id, false); !IsIDError(err) {
			t.Errorf("%q: %v", id, err)
		}
	}
}

// A live stream that has not caught up for too long skips to the present and is told what
// it missed, of what it asked for; together it is all.
func TestSlow(t *testing.T) {
	k := newKit(t)
	s := k.stream(Filter{Types: []string{"custom.a"}}, "", false)
	k.put(0, 700, "a", "shop")
	k.put(1, 250, "a", "shop")
	k.put(1, 50, "b", "shop")
	got, missed := k.read(s, 2)
	if missed != 0 || len(got) == 0 {
		t.Fatalf("%d events, %d missed", len(got), missed)
	}
	k.clock.Move(Behind + time.Second)
	more, missed := k.read(s, 100)
	if n := int64(len(got)+len(more)) + missed; n != 950 || missed == 0 || len(more) != 0 || s.Heads.Streams.Missed.Load() != missed {
		t.Errorf("%d and %d events, %d missed: %d of 950", len(got), len(more), missed, n)
	}
	k.put(0, 1, "a", "shop")
	if got, missed := k.read(s, 100); len(got) != 1 || missed != 0 {
		t.Errorf("afterwards: %v, %d missed", got, missed)
	}
	k.clock.Move(time.Hour) // nothing happens: nobody is late
	k.put(0, 1, "a", "shop")
	if got, missed := k.read(s, 100); len(got) != 1 || missed != 0 {
		t.Errorf("after a quiet hour: %v, %d missed", got, missed)
	}
}

// What is no JSON object is shown as a text, and an event is always one line.
func TestAppend(t *testing.T) {
	e := sluice.Event{Kind: sluice.KindMail, Name: "opened", ID: "x", TimeMillis: 1_780_000_000_123, Properties: "{\n \"a\": 1 }"}
	for properties, want := range map[string]string{
		"{\n \"a\": \"<b>\" }": `{"event_id":"x","type":"mail.opened","time":"2026-05-28T20:26:40.123Z","kind":"mail","name":"opened","properties":{"a":"<b>"}}`,
		"{bad":                 `{"event_id":"x","type":"mail.opened","time":"2026-05-28T20:26:40.123Z","kind":"mail","name":"opened","properties":"{bad"}`,
		"":                     `{"event_id":"x","type":"mail.opened","time":"2026-05-28T20:26:40.123Z","kind":"mail","name":"opened"}`,
	} {
		e.Properties = properties
		if got := string(Append([]byte("."), &e)); got != "."+want {
			t.Errorf("got  %s\nwant .%s", got, want)
		}
	}
}
