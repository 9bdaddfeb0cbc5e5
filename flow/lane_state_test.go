package flow

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"sluice"
	"sluice/mail"
)

// TestNothingIsMarkedOnAnotherRedis: nothing is marked before a process has
// read the state there, which tells it that this Redis is another.
func TestNothingIsMarkedOnAnotherRedis(t *testing.T) {
	r, l, lease, log := lanesOf(t)
	var cursor sluice.Position
	queue(t, log, lease, &cursor, "low", 0, "a", "b")
	b := &readAll(t, l, "low")[0]
	first, err := l.Begin(t.Context(), lease, 1000)
	if err != nil || first.Server == "" || !first.Moved.IsZero() || !first.Compared {
		t.Fatalf("lanes that were not worked on: %+v, %v", first, err)
	}
	if _, err := l.Mark(t.Context(), lease, "another", "one", []LanePlace{{Batch: b}}, []string{"x"}); !errors.Is(err, sluice.ErrConflict) {
		t.Fatalf("marked out of lanes of another redis: %v", err)
	}
	if s, err := l.Begin(t.Context(), lease, 1000); err != nil || len(s.States) != 0 || len(s.Marks) != 0 {
		t.Fatalf("%+v, %v; want nothing marked", s, err)
	}
	do(t, r, "HSET", l.log.partition.standingKey(), "server", "another") // what a replica has of its master
	moved, err := l.Begin(t.Context(), lease, 5000)
	if err != nil || moved.Server != first.Server || !moved.Moved.Equal(time.UnixMilli(5000)) || moved.Compared {
		t.Fatalf("%+v, %v; want it to have moved", moved, err)
	}
	if err := l.Compared(t.Context(), lease, "another", "{}"); !errors.Is(err, sluice.ErrConflict) {
		t.Fatalf("compared on another: %v", err)
	}
	if err := l.Compared(t.Context(), lease, first.Server, `{"at":1}`); err != nil {
		t.Fatal(err)
	}
	again, err := l.Begin(t.Context(), lease, 9000)
	if err != nil || !again.Compared || !again.Moved.Equal(moved.Moved) {
		t.Fatalf("%+v, %v; want the same move, compared", again, err)
	}
	if found, at, due, err := l.Found(t.Context()); err != nil || due || found != `{"at":1}` || !at.Equal(moved.Moved) {
		t.Fatalf("found %q at %v, due %v, %v", found, at, due, err)
	}
	if err := l.CompareAgain(t.Context()); err != nil {
		t.Fatal(err)
	}
	if s, err := l.Begin(t.Context(), lease, 9500); err != nil || s.Compared {
		t.Fatalf("%+v, %v; want it to be compared again", s, err)
	}
	if err := log.ClearLanes(t.Context()); err != nil {
		t.Fatal(err)
	}
	known := *lease
	known.Number = 2
	if s, err := l.Begin(t.Context(), &known, 9900); err != nil || s.Compared || s.Moved.IsZero() {
		t.Fatalf("%+v, %v; want an emptied redis to be another one", s, err)
	}
}

// TestAForgottenMarkIsRecorded: in a Redis that has gone back in time the send
// waits, and the process that attempted it knows better. A process that has
// marked it since is not overruled. On the same Redis, neither is one that has
// recorded that it was not attempted.
func TestAForgottenMarkIsRecorded(t *testing.T) {
	r, l, lease, log := lanesOf(t)
	var cursor sluice.Position
	queue(t, log, lease, &cursor, "low", 0, "a", "b", "c")
	b := &readAll(t, l, "low")[0]
	mark(t, l, lease, "one", b, 0, 1, 2)
	do(t, r, "DEL", l.log.partition.statesKey())
	do(t, r, "DEL", l.log.partition.marksKey())
	mark(t, l, lease, "two", b, 1)
	first, second, third := recorded(b, 0, "one"), recorded(b, 1, "one"), recorded(b, 2, "one")
	first.Log = mail.AppendOutcome(nil, &mail.Outcome{Message: "a", State: mail.SendSent})
	second.Log = mail.AppendOutcome(nil, &mail.Outcome{Message: "b", State: mail.SendSent})
	third.Waits = true
	if n, _, err := l.Record(t.Context(), nil, []Recorded{first, second, third}); err != nil || n != 0 {
		t.Fatalf("record on the same redis: %d, %v; want nothing", n, err)
	}
	first.Server, second.Server, third.Server = "another", "another", "another"
	n, refused, err := l.Record(t.Context(), nil, []Recorded{first, second, third})
	if err != nil || n != 1 || len(refused) != 0 {
		t.Fatalf("record: %d, %v, %v; want the one that waits and has an end", n, refused, err)
	}
	s, err := l.Begin(t.Context(), lease, 1000)
	if err != nil || s.Letters(b) != "dmw" {
		t.Fatalf("%+v, %v", s, err)
	}
	if n, _, err := l.Record(t.Context(), nil, []Recorded{first}); err != nil || n != 0 {
		t.Fatalf("record again: %d, %v", n, err)
	}
	batches, err := log.Read(t.Context(), sluice.Position{}, 10, 0)
	if err != nil || len(batches) != 1 || string(batches[0].Data[1:]) != string(first.Log) {
		t.Fatalf("the log has %v, %v; want the outcome, once", batches, err)
	}
}

// TestWalk: every batch is met, wherever it waits. Those that wait for a time
// come after the others.
func TestWalk(t *testing.T) {
	_, l, lease, log := lanesOf(t)
	var cursor sluice.Position
	var want []string
	for _, lane := range []string{"low", "high", "normal-marketing"} {
		for i := range 2*walkBatches + 1 {
			m := lane + string(rune('a'+i))
			want = append(want, m)
			queue(t, log, lease, &cursor, lane, 0, m)
		}
	}
	for second := range int64(5) {
		want = append(want, "later"+string(rune('a'+second)))
		queue(t, log, lease, &cursor, "low", 100+second, "later"+string(rune('a'+second)))
	}
	b := &readAll(t, l, "low")[0]
	mark(t, l, lease, "one", b, 0)
	aside := recorded(b, 0, "one")
	aside.Packed, aside.Item = 0, mail.AppendSend(nil, &mail.Send{Message: "aside"})
	if _, _, err := l.Record(t.Context(), []Packed{{Lane: Sublane("low", "example.com")}}, []Recorded{aside}); err != nil {
		t.Fatal(err)
	}
	want = append(slices.DeleteFunc(want, func(m string) bool { return m == "lowa" }), "aside")
	var got []string
	late := false
	err := l.Walk(t.Context(), func(b *LaneBatch, later bool) error {
		if late && !later {
			t.Errorf("a batch of %s came after those that wait for a time", b.Lane)
		}
		late = later
		got = append(got, messagesOf(t, []LaneBatch{*b})...)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("met %v, want %v", got, want)
	}
}

// TestClearLanes: of lanes and log no key is left, wherever sends wait and whatever is
// counted of them. Only the lease stays.
func TestClearLanes(t *testing.T) {
	r, l, lease, log := lanesOf(t)
	var cursor sluice.Position
	queue(t, log, lease, &cursor, "low", 0, "a", "b")
	queue(t, log, lease, &cursor, "high", 100, "c")
	for _, o := range l.Owe(map[string]mail.Load{fmt.Sprint("key|", time.Now().UnixMilli()/(24*60*60*1000)): {Sends: 3, Bytes: 300}}) {
		do(t, r, o.Words...)
	}
	b := &readAll(t, l, "low")[0]
	mark(t, l, lease, "one", b, 0, 1)
	aside := recorded(b, 0, "one")
	aside.Packed, aside.Item = 0, mail.AppendSend(nil, &mail.Send{Message: "aside"})
	if _, _, err := l.Record(t.Context(), []Packed{{Lane: Sublane("low", "example.com")}}, []Recorded{aside}); err != nil {
		t.Fatal(err)
	}
	fillLog(t, log, "api:x", 0, 2)
	if err := errors.Join(log.ClearLanes(t.Context()), log.Clear(t.Context())); err != nil {
		t.Fatal(err)
	}
	left, err := Ask(t.Context(), r, "list keys", r.B().Keys().Pattern(prefix+"{"+log.partition.tag+"}:*").Build(), rueidis.RedisResult.AsStrSlice)
	if err != nil || !slices.Equal(left, []string{lease.key}) {
		t.Errorf("left are %q, %v", left, err)
	}
}
