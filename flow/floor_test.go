package flow

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"log/slog"

	"github.com/redis/rueidis"

	"sluice"
	"sluice/test/proxy"
	"sluice/test/servers"
)

// moved is a log whose Redis is another one from some moment on. It is a
// replica that has heard nothing since, and whose clock is an hour behind the
// one that issued the earlier ids. (The clock is that of this machine; earlier
// ids are an hour ahead.)
type moved struct {
	t     *testing.T
	proxy *proxy.Proxy
	here  *servers.Redis
	there *servers.Redis
}

func replicated(t *testing.T) *moved {
	t.Helper()
	start := func(extra ...string) *servers.Redis {
		r, err := servers.StartRedis(t.Context(), servers.RedisOptions{Dir: filepath.Join(t.TempDir(), "r"), AppendFsync: "no", Listen: "tcp", Extra: extra})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = r.Kill() })
		return r
	}
	m := &moved{t: t, here: start()}
	host, port, _ := strings.Cut(m.here.Addr(), ":")
	m.there = start("--replicaof", host, port)
	var err error
	if m.proxy, err = proxy.New("tcp", m.here.Addr()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.proxy.Close() })
	return m
}

func (m *moved) dial(through string) *Redis {
	m.t.Helper()
	r, err := Dial(m.t.Context(), "redis://"+through)
	if err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(r.Close)
	return r
}

// detach makes the replica one of nothing, as soon as it has the log's entries.
func (m *moved) detach(key string, entries int) {
	m.t.Helper()
	there := m.dial(m.there.Addr())
	eventually(m.t, "the replica has the log", func() bool {
		n, err := there.client.Do(m.t.Context(), there.client.B().Xlen().Key(key).Build()).AsInt64()
		return err == nil && n == int64(entries)
	})
	do(m.t, there, "REPLICAOF", "NO", "ONE")
}

// promote puts the replica in the place of its master.
func (m *moved) promote() {
	m.t.Helper()
	m.proxy.Redirect("tcp", m.there.Addr())
	if err := m.here.Kill(); err != nil {
		m.t.Fatal(err)
	}
	m.proxy.Cut()
}

// again calls until the connection stands again.
func again[T any](t *testing.T, what string, call func() (T, error)) (got T) {
	t.Helper()
	eventually(t, what, func() (ok bool) {
		var err error
		got, err = call()
		return err == nil
	})
	return got
}

// TestNothingIsWrittenBelowTheCursor: a replica that lagged, and whose clock is
// behind, is promoted. Every write to a log on it, by whatever call, lands
// above the cursor. That holds for a process that has written before, one that
// has not, and one that knows more than SQL.
func TestNothingIsWrittenBelowTheCursor(t *testing.T) {
	m := replicated(t)
	p := Partitions(1)[0]
	var cursor sluice.Position // in SQL
	writer := func() *Log {
		r := m.dial(m.proxy.Addr())
		r.RaiseBy(slog.New(slog.DiscardHandler), func(context.Context, []int) (map[int]sluice.Position, error) {
			return map[int]sluice.Position{0: cursor}, nil
		})
		return NewLog(r, p)
	}
	busy, idle := writer(), writer()
	batch := sluice.NewBatch(0)
	for i, l := range []*Log{busy, idle} {
		if _, err := l.Append(t.Context(), fmt.Sprint("source", i), "", "1", batch, false); err != nil {
			t.Fatal(err)
		}
	}
	m.detach(p.logKey(), 2)
	hour := uint64(time.Now().Add(time.Hour).UnixMilli())
	if raised, err := busy.Raise(t.Context(), sluice.Position{Major: hour}); err != nil || !raised {
		t.Fatal(raised, err)
	}
	for n := 2; n < 6; n++ {
		done, err := busy.Append(t.Context(), "source0", fmt.Sprint(n-1), fmt.Sprint(n), batch, false)
		if err != nil {
			t.Fatal(err)
		}
		cursor = done.Position
	}
	m.promote()

	first := again(t, "who has written nothing of late writes", func() (Appended, error) {
		return idle.Append(t.Context(), "source1", "1", "2", batch, false)
	})
	if !cursor.Before(first.Position) {
		t.Errorf("written at %s, the cursor is at %s: it is never read", first.Position, cursor)
	}
	before, prev := first.Position, first.Position
	ways := map[string]func(l *Log) error{
		"append": func(l *Log) error {
			_, err := l.Append(t.Context(), "other", "", "1", batch, true)
			return err
		},
		"again": func(l *Log) error { return l.Again(t.Context(), "a dead letter", batch) },
		"append_once": func(l *Log) error {
			_, err := l.appendOnce(t.Context(), "name", "print", []Part{{Items: batch[1:], Count: 1}}, time.Minute)
			return err
		},
	}
	for name, write := range ways {
		write := func() (bool, error) { return true, write(writer()) }
		again(t, "a new process writes by "+name, write)
		last := again(t, "it tells the end", func() (sluice.Position, error) { return idle.Last(t.Context()) })
		if !before.Before(last) {
			t.Errorf("%s: the log ends at %s, it ended at %s", name, last, before)
		}
		before = last
	}
	read := again(t, "it reads", func() ([]Batch, error) { return idle.Read(t.Context(), cursor, 10, 0) })
	if len(read) != 5 || !slices.ContainsFunc(read, func(b Batch) bool { return b.Position == prev }) {
		t.Errorf("behind the cursor are %d batches; want the marker of who raised it and 4", len(read))
	}
}

// TestAnOpenTransactionIsPassed: the cursor in SQL is behind what a transaction
// that is still open moves it to. A process that has seen the clock of the old
// Redis writes above that, too.
func TestAnOpenTransactionIsPassed(t *testing.T) {
	m := replicated(t)
	p := Partitions(1)[0]
	r := m.dial(m.proxy.Addr())
	l := NewLog(r, p)
	batch := sluice.NewBatch(0)
	first, err := l.Append(t.Context(), "source", "", "1", batch, false)
	if err != nil {
		t.Fatal(err)
	}
	m.detach(p.logKey(), 1)
	stored := first.Position
	r.RaiseBy(slog.New(slog.DiscardHandler), func(context.Context, []int) (map[int]sluice.Position, error) {
		return map[int]sluice.Position{0: stored}, nil
	})
	// Another process has written meanwhile, by a clock that is an hour ahead.
	// This process has seen that clock in the answer for another log.
	hour := uint64(time.Now().Add(time.Hour).UnixMilli())
	r.floors.see(1, sluice.Position{Major: hour}, true)
	m.promote()
	done := again(t, "it writes", func() (Appended, error) { return l.Append(t.Context(), "source", "1", "2", batch, false) })
	if done.Position.Major < hour {
		t.Errorf("written at %s; want it at %d or later", done.Position, hour)
	}
	// The first call on a connection of before the promotion may still find it broken.
	read := again(t, "it reads", func() ([]Batch, error) { return l.Read(t.Context(), stored, 10, 0) })
	if len(read) != 2 || read[0].Prev != stored || read[1].Position != done.Position {
		t.Errorf("behind %s are %+v; want the marker and what was written, without a gap", stored, read)
	}
}

// TestWhoCannotAskForTheCursorWritesAllTheSame: writes go on while a database
// is away.
func TestWhoCannotAskForTheCursorWritesAllTheSame(t *testing.T) {
	r := dial(t)
	r.RaiseBy(slog.New(slog.DiscardHandler), func(context.Context, []int) (map[int]sluice.Position, error) {
		return nil, context.DeadlineExceeded
	})
	if _, err := NewLog(r, Partitions(1)[0]).Append(t.Context(), "source", "", "1", sluice.NewBatch(0), false); err != nil {
		t.Error(err)
	}
}

// Logs of one call that were raised on different servers are raised anew. A
// script that is not told the server writes nothing.
func TestNothingIsWrittenWithoutOneServer(t *testing.T) {
	t.Parallel()
	m := replicated(t)
	r := m.dial(m.proxy.Addr())
	var logs []*Log
	for _, p := range Partitions(2) {
		logs = append(logs, NewLog(r, p))
	}
	r.floors.raised(0, "one")
	r.floors.raised(1, "other")
	batch := rueidis.BinaryString(sluice.NewBatch(0))
	keys := []string{logs[0].partition.logKey(), logs[0].partition.sourcesKey(), logs[1].partition.logKey(), logs[1].partition.sourcesKey()}
	args := []string{"source", "", "1", batch, "", "1", batch}
	if err := r.call(t.Context(), "append", keys, append(slices.Clone(args), "")).Error(); err == nil || !strings.HasPrefix(err.Error(), "BEHIND") {
		t.Fatalf("a write on no server: %v", err)
	}
	answer, err := r.writeEnd(t.Context(), "append", logs, keys, args)
	if err == nil {
		err = answer.Error()
	}
	if err != nil {
		t.Fatal(err)
	}
	if server := r.floors.server(logs); len(server) != 40 {
		t.Errorf("the logs were raised on %q, want one server", server)
	}
}
