package ingest_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"sluice"
	"sluice/flow"
	"sluice/ingest"
	"sluice/store"
)

// crashingStore dies between a replay and the drop of its dead letter.
type crashingStore struct{ store.Store }

var errCrash = errors.New("crash")

// DropDeadLetter implements store.Store.
func (crashingStore) DropDeadLetter(context.Context, int64) error { return errCrash }

func (e *engine) replayer(store store.Store) *ingest.Replayer {
	r := &ingest.Replayer{Store: store, Lists: make(map[string]*flow.List), Logs: e.logs}
	for _, l := range e.lists {
		r.Lists[l.Source()] = l
	}
	return r
}

// replay replays all dead letters, each after two tries that crashed.
func (b *bed) replay(e *engine) {
	b.Helper()
	for payload, d := range b.letters(e.store) {
		for range 2 {
			if err := e.replayer(crashingStore{e.store}).Replay(b.Context(), d.ID); !errors.Is(err, errCrash) {
				b.Fatalf("replay %.60q with a crash: %v", payload, err)
			}
		}
		b.must(e.replayer(e.store).Replay(b.Context(), d.ID))
	}
}

// Elements that a column did not hold are replayed after it was widened.
func TestReplayElements(t *testing.T) {
	for _, side := range []flow.Side{flow.Left, flow.Right} {
		t.Run(string(side), func(t *testing.T) {
			onEach(t, func(b *bed) {
				b.exec("CREATE TABLE own (id BIGINT, name VARCHAR(3)) ENGINE=InnoDB", "CREATE TABLE own (id INTEGER, name TEXT CHECK (length(name) <= 3))")
				s := setup{lists: []listSetup{{name: "q", table: "own", columns: columns("id", "id", "name", "name"), side: side}}}
				large := `{"id":3,"name":"` + strings.Repeat("z", 1<<20-20) + `"}`
				b.push("q", `{"id":1,"name":"abc"}`, `{"id":2,"name":"abcd"}`, large)
				e := start(b, s)
				b.awaitSum("own", 3)
				e.stop()
				b.checkCounts("own", 1, 2)

				b.exec("ALTER TABLE own MODIFY name LONGTEXT", "ALTER TABLE own RENAME TO narrow")
				if b.dialect == "sqlite" {
					b.exec("CREATE TABLE own (id INTEGER, name TEXT)", "")
					b.exec("INSERT INTO own SELECT * FROM narrow", "")
				}
				e = newEngine(b, s)
				b.push("q", `{"id":4}`)
				b.replay(e)
				b.checkCounts("own", 1, 0)
				if n := b.doInt("LLEN", "q"); n != 3 {
					b.Fatalf("%d elements in the list, want 3: 2 were replayed", n)
				}
				if first := b.do("LINDEX", "q", map[flow.Side]string{flow.Left: "0", flow.Right: "-1"}[side]); first != `{"id":4}` {
					b.Fatalf("%.40v is taken first, want what waited before the replay", first)
				}
				e.run()
				b.awaitSum("own", 4)
				e.stop()
				b.checkCounts("own", 4, 0)
				want := fmt.Sprintf("1|3 2|4 3|%d 4|<null>", 1<<20-20)
				if got := strings.Join(b.query("SELECT id, LENGTH(name) FROM own ORDER BY id"), " "); got != want {
					b.Fatalf("rows %s, want %s", got, want)
				}
				if left := fmt.Sprint(b.do("HGETALL", "sluice:{q}:list:q:state")); strings.Contains(left, "replayed") {
					b.Fatalf("the replay is still remembered: %s", left)
				}
			})
		})
	}
}

// An element of a list without a table, and items of a log.
func TestReplayEvents(t *testing.T) {
	onEach(t, func(b *bed) {
		b.exec("CREATE TRIGGER no_open BEFORE INSERT ON events FOR EACH ROW IF NEW.name = 'opened' THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'not today'; END IF",
			"CREATE TRIGGER no_open BEFORE INSERT ON events WHEN NEW.name = 'opened' BEGIN SELECT RAISE(ABORT, 'not today'); END")
		s := setup{lists: []listSetup{eventList("")}}
		e := start(b, s)
		bad := "soon"
		b.push("q",
			`{"event":"open","time":1700000000,"user_id":"u","i":1}`,
			`{"event":"click","time":1700000001,"user_id":"u","i":2}`,
			`{"event":"open","time":1700000002,"user_id":"v","i":3}`,
			bad)
		b.awaitSum("events", 4)
		e.stop()
		b.checkCounts("events", 1, 3)
		for payload, d := range b.letters(newEngine(b, s).store) {
			form, reason := sluice.FormItem, "not today"
			if payload == bad {
				form, reason = sluice.FormElement, "not JSON"
			}
			if d.Form != form || !strings.Contains(d.Reason, reason) {
				b.Errorf("%.40q: form %s, reason %q", payload, d.Form, d.Reason)
			}
		}
		b.exec("DROP TRIGGER no_open", "")
		e = newEngine(b, s)
		b.replay(e)
		b.checkCounts("events", 1, 0)
		e.run()
		b.awaitSum("events", 4)
		e.stop()
		b.checkCounts("events", 3, 1) // the element is as bad as it was
		if got := strings.Join(b.query("SELECT properties FROM events ORDER BY time"), " "); got != `{"i":1} {"i":2} {"i":3}` {
			b.Fatalf("events: %s", got)
		}
		for p := range testPartitions {
			for _, key := range b.do("KEYS", fmt.Sprintf("sluice:{p%d.*}:sources", p)).([]any) {
				if left := fmt.Sprint(b.do("HGETALL", key.(string))); strings.Contains(left, "dead:") {
					b.Fatalf("the replay is still remembered: %s", left)
				}
			}
		}
	})
}

// The first replay of an item was stored and trimmed before it was repeated.
func TestReplayRepeatedAfterItWasStored(t *testing.T) {
	onEach(t, func(b *bed) {
		b.exec("CREATE TRIGGER no_open BEFORE INSERT ON events FOR EACH ROW IF NEW.name = 'opened' THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'not today'; END IF",
			"CREATE TRIGGER no_open BEFORE INSERT ON events WHEN NEW.name = 'opened' BEGIN SELECT RAISE(ABORT, 'not today'); END")
		s := setup{lists: []listSetup{eventList("")}}
		e := start(b, s)
		b.push("q", `{"event":"open","time":1700000000,"user_id":"u"}`)
		b.awaitSum("events", 1)
		b.exec("DROP TRIGGER no_open", "")
		var id int64
		for _, d := range b.letters(e.store) {
			id = d.ID
		}
		if err := e.replayer(crashingStore{e.store}).Replay(b.Context(), id); !errors.Is(err, errCrash) {
			b.Fatal(err)
		}
		b.eventually("it is stored", func() bool { return b.count("events") == 1 })
		b.must(e.replayer(e.store).Replay(b.Context(), id))
		b.push("q", `{"event":"click","time":1700000001,"user_id":"u"}`)
		b.awaitSum("events", 2)
		e.stop()
		b.checkCounts("events", 2, 0)
	})
}

func TestReplayRefuses(t *testing.T) {
	onEach(t, func(b *bed) {
		s := setup{lists: []listSetup{eventList("")}}
		e := start(b, s)
		e.write(0, "test", []byte{9})
		b.push("q", "bad")
		b.awaitSum("events", 2)
		r := e.replayer(e.store)
		letters := b.letters(e.store)
		batch, element := letters["\x09"].ID, letters["bad"].ID
		if err := r.Replay(b.Context(), batch); err == nil || !strings.Contains(err.Error(), "a dead batch can only be shown or dropped") {
			b.Errorf("replay of a batch: %v", err)
		}
		delete(r.Lists, "list:q")
		if err := r.Replay(b.Context(), element); err == nil || !strings.Contains(err.Error(), "list:q is not among the lists") {
			b.Errorf("replay to a list that is not configured: %v", err)
		}
		var refused *sluice.Error
		if err := r.Replay(b.Context(), element+1000); !errors.As(err, &refused) || refused.Code != sluice.CodeNotFound {
			b.Errorf("replay of what is not there: %v", err)
		}
		b.checkCounts("events", 0, 2)
		for range 2 {
			b.must(e.store.DropDeadLetter(b.Context(), batch))
		}
		b.must(e.store.DropDeadLetter(b.Context(), element))
		e.stop()
		b.checkCounts("events", 0, 0)
	})
}
