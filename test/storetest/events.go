package storetest

import (
	"maps"
	"strconv"
	"strings"
	"testing"

	"sluice"
	"sluice/store"
)

func testEvents(t *testing.T, f *fixture) {
	f.start(t)
	full := event(1)
	full.Kind, full.Name, full.App = sluice.KindPurchase, "bought", "shop"
	full.Email, full.User, full.Message, full.Properties = "a@example.com", "u1", "m1", `{"price":1.5,"path":"C:\\x"}`
	full.Place = sluice.Place{Partition: 255, Position: sluice.Position{Major: 1<<64 - 1, Minor: 1<<32 - 1}, Index: 4095}
	first, last := event(2), event(3)
	first.TimeMillis, last.TimeMillis = sluice.MinEventTimeMillis, sluice.MaxEventTimeMillis
	first.Kind, last.Kind = sluice.KindCustom, sluice.KindSystem
	first.Place.Position = sluice.Position{}
	f.apply(t, store.Effect{Events: []store.StoredEvent{full, first, last}}, 3, 0)

	f.wantRows(t, "SELECT event_id, kind, name, app_id, email, user_ref, message_ref, properties, part, pos_minor, item FROM events ORDER BY event_id",
		[]string{"e1", "purchase", "bought", "shop", "a@example.com", "u1", "m1", `{"price":1.5,"path":"C:\\x"}`, "255", "4294967295", "4095"},
		[]string{"e2", "custom", "opened", "app", "NULL", "NULL", "NULL", "NULL", "2", "0", "2"},
		[]string{"e3", "system", "opened", "app", "NULL", "NULL", "NULL", "NULL", "2", "1", "3"})
	f.wantRows(t, "SELECT time FROM "+f.ReadableEvents+" ORDER BY event_id",
		[]string{"2025-10-09 08:53:20.001"}, []string{"1970-01-01 00:00:00.000"}, []string{"9999-12-31 23:59:59.999"})
}

func testEventTexts(t *testing.T, f *fixture) {
	f.start(t)
	var e store.Effect
	texts, refused := f.texts()
	for i, s := range texts {
		ev := event(0) // one time: the ids must tell them apart
		ev.ID, ev.Name, ev.App, ev.Email, ev.User, ev.Message, ev.Properties = s, s, s, s, s, s, s
		if len(s) > sluice.MaxAppIDBytes {
			ev.App = ""
		}
		ev.Place.Index = i
		e.Events = append(e.Events, ev)
	}
	f.apply(t, e, len(texts), 0)
	got := f.Query(t, "SELECT event_id, name, app_id, email, user_ref, message_ref, properties FROM events ORDER BY item")
	for i, s := range texts {
		for c, cell := range got[i] {
			expected := s
			switch {
			case c == 0 && s == "":
				expected = "2-1760000000000-1-0"
			case c == 2 && len(s) > sluice.MaxAppIDBytes:
				expected = ""
			case c > 2 && s == "":
				expected = "NULL"
			}
			want(t, "text "+strconv.Quote(s)+" in column "+strconv.Itoa(c), cell, expected)
		}
	}
	for _, s := range refused {
		bad := event(5000)
		bad.Properties = s
		f.refuse(t, store.Effect{Events: []store.StoredEvent{bad}}, 0, 0, 1)
	}
}

func testEventDuplicates(t *testing.T, f *fixture) {
	f.start(t)
	again := event(1)
	again.Name = "other"
	f.apply(t, store.Effect{Events: []store.StoredEvent{event(1), again, event(2)}}, 2, 1)
	other := event(1)
	other.TimeMillis++ // the same id at another time is another event
	f.apply(t, store.Effect{Events: []store.StoredEvent{event(2), event(3), other, event(1)}}, 2, 2)
	f.wantRows(t, "SELECT name FROM events WHERE event_id = 'e1' ORDER BY time", []string{"opened"}, []string{"opened"})

	// The same in ApplyEach, which a refused event leads to.
	bad := event(9)
	bad.Kind = 99
	f.refuse(t, store.Effect{Events: []store.StoredEvent{event(3), event(4), bad, event(4)}}, 1, 2, 1)

	// A whole effect once more, as after a restore of the cursor.
	var e store.Effect
	for i := range 3000 {
		e.Events = append(e.Events, event(100+i))
	}
	f.apply(t, e, 3000, 0)
	f.apply(t, e, 0, 3000)
}

func testEventNamedByPlace(t *testing.T, f *fixture) {
	f.start(t)
	unnamed := event(0)
	unnamed.ID = ""
	unnamed.Place = sluice.Place{Partition: 12, Position: sluice.Position{Major: 1 << 63, Minor: 34}, Index: 56}
	e := store.Effect{Events: []store.StoredEvent{unnamed}}
	f.apply(t, e, 1, 0)
	f.apply(t, e, 0, 1)
	f.wantRows(t, "SELECT event_id FROM events", []string{"12-9223372036854775808-34-56"})
}

func testEventsRefused(t *testing.T, f *fixture) {
	f.start(t)
	for name, spoil := range map[string]func(*store.StoredEvent){
		"kind":          func(e *store.StoredEvent) { e.Kind = 0 },
		"time before":   func(e *store.StoredEvent) { e.TimeMillis = -1 },
		"time after":    func(e *store.StoredEvent) { e.TimeMillis = sluice.MaxEventTimeMillis + 1 },
		"id":            func(e *store.StoredEvent) { e.ID = strings.Repeat("x", sluice.MaxEventIDBytes+1) },
		"name":          func(e *store.StoredEvent) { e.Name = strings.Repeat("x", sluice.MaxNameBytes+1) },
		"app":           func(e *store.StoredEvent) { e.App = strings.Repeat("x", sluice.MaxAppIDBytes+1) },
		"email":         func(e *store.StoredEvent) { e.Email = strings.Repeat("x", sluice.MaxEmailBytes+1) },
		"user":          func(e *store.StoredEvent) { e.User = strings.Repeat("x", sluice.MaxReferenceBytes+1) },
		"message":       func(e *store.StoredEvent) { e.Message = strings.Repeat("x", sluice.MaxReferenceBytes+1) },
		"utf-8":         func(e *store.StoredEvent) { e.Properties = "{\"a\":\"\xff\xfe\"}" },
		"cut character": func(e *store.StoredEvent) { e.Name = "x\xe6" },
		"minor":         func(e *store.StoredEvent) { e.Place.Position.Minor = 1 << 32 },
	} {
		t.Run(name, func(t *testing.T) {
			before := f.count(t, "events")
			n := int(f.at.Major) * 10
			bad := event(n + 1)
			bad.Place.Position.Major++ // placed by the test
			spoil(&bad)
			letters := f.refuse(t, store.Effect{Events: []store.StoredEvent{event(n), bad, event(n + 2)}}, 2, 0, 1)
			want(t, "events", f.count(t, "events"), before+2)
			l := letters[0]
			want(t, "source", l.Source, "log")
			want(t, "form", l.Form, sluice.FormItem)
			if name != "minor" {
				want(t, "place", l.Place, bad.Place)
			}
			// What is kept can be appended to a batch again.
			r, err := sluice.ReadBatch(append(sluice.NewBatch(0), l.Payload...))
			must(t, err)
			var back sluice.Event
			if !r.Next() || r.Item.Kind != sluice.ItemEvent {
				t.Fatalf("the payload is no item: %v", r.Err())
			}
			must(t, sluice.DecodeEvent(r.Item.Payload, &back))
			wanted := bad.Event
			wanted.Apart = true // replayed, it counts for no profile a second time
			want(t, "event", back, wanted)
		})
	}
}

func testLargeEffect(t *testing.T, f *fixture) {
	f.start(t)
	const n = 20_000
	var e store.Effect
	for i := range n {
		ev := event(i)
		ev.Email, ev.Properties = "user@example.com", `{"ip":"10.0.0.1","ua":"Mozilla/5.0"}`
		e.Events = append(e.Events, ev)
	}
	f.apply(t, e, n, 0)
	want(t, "events", f.count(t, "events"), n)
	// Half of them are known already, the others are not.
	for i := range e.Events {
		if i%2 == 1 {
			e.Events[i].TimeMillis += n
		}
	}
	f.apply(t, e, n/2, n/2)
}

// testEventsStored: which events have rows is known by their times and ids.
func testEventsStored(t *testing.T, f *fixture) {
	f.start(t)
	db := f.users(t)
	var e store.Effect
	var keys []sluice.EventKey
	wanted := make(map[sluice.EventKey]bool)
	for i := range 1200 {
		ev := event(i)
		ev.ID = strconv.Itoa(i/2) + "ä'" // two times each
		k := sluice.EventKey{Millis: ev.TimeMillis, ID: ev.ID}
		keys = append(keys, k)
		if i%3 > 0 {
			e.Events = append(e.Events, ev)
			wanted[k] = true
		}
	}
	keys = append(keys, sluice.EventKey{Millis: keys[1].Millis + 1, ID: keys[1].ID}, sluice.EventKey{Millis: keys[1].Millis, ID: keys[1].ID + " "})
	f.apply(t, e, len(e.Events), 0)
	got, err := db.Stored(f.ctx, keys)
	if err != nil || !maps.Equal(got, wanted) {
		t.Errorf("%d of %d events have rows, want %d: %v", len(got), len(keys), len(wanted), err)
	}
	if got, err := db.Stored(f.ctx, nil); err != nil || len(got) != 0 {
		t.Errorf("of no events: %v, %v", got, err)
	}
}
