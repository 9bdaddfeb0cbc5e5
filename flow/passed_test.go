package flow

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice"
)

// written is a batch with one item that is nothing but a text.
func written(text string) []byte {
	return sluice.AppendItem(sluice.NewBatch(0), sluice.ItemEvent, func(b []byte) []byte { return append(b, text...) })
}

// texts returns the texts of batches behind a cursor, in their order.
func (m *moved) texts(l *Log, cursor sluice.Position) (all []string) {
	m.t.Helper()
	batches, err := l.Read(m.t.Context(), cursor, 100, 0)
	if err != nil {
		m.t.Fatal(err)
	}
	for _, b := range batches {
		r, err := sluice.ReadBatch(b.Data)
		if err != nil {
			m.t.Fatal(err)
		}
		for r.Next() {
			if r.Item.Kind == sluice.ItemEvent {
				all = append(all, string(r.Item.Payload))
			}
		}
	}
	return all
}

// besides are two masters of one log: what both have is stored. More was written to each
// since, and what the old one got is stored as well.
func (m *moved) besides(between func(l *Log)) (l *Log, both, cursor sluice.Position) {
	m.t.Helper()
	p := Partitions(1)[0]
	old := NewLog(m.dial(m.here.Addr()), p)
	first, err := old.Append(m.t.Context(), "source", "", "1", written("both"), false)
	if err != nil {
		m.t.Fatal(err)
	}
	m.detach(p.logKey(), 1)
	r := m.dial(m.there.Addr())
	r.RaiseBy(slog.New(slog.DiscardHandler), func(context.Context, []int) (map[int]sluice.Position, error) {
		return map[int]sluice.Position{0: first.Position}, nil
	})
	l = NewLog(r, p)
	m.append(l, 1, "new 1", "new 2")
	if between != nil {
		between(l)
	}
	last, err := l.Last(m.t.Context())
	if err != nil {
		m.t.Fatal(err)
	}
	return l, first.Position, sluice.Position{Major: last.Major + 500}
}

func (m *moved) append(l *Log, seq int, texts ...string) {
	m.t.Helper()
	for i, text := range texts {
		if _, err := l.Append(m.t.Context(), "source", fmt.Sprint(seq+i), fmt.Sprint(seq+i+1), written(text), false); err != nil {
			m.t.Fatal(err)
		}
	}
}

// TestWhatACursorPassedOverIsRead: two Redis are masters for some time, and the cursor is
// of the one that is gone. What the other one has taken meanwhile is read, in its order,
// once, whether it was written to since or not.
func TestWhatACursorPassedOverIsRead(t *testing.T) {
	for _, since := range []bool{false, true} {
		t.Run(fmt.Sprint("written since: ", since), func(t *testing.T) {
			t.Parallel()
			m := replicated(t)
			l, both, cursor := m.besides(nil)
			want := []string{"new 1", "new 2"}
			if since { // behind the cursor
				if _, err := l.Raise(t.Context(), sluice.Position{Major: cursor.Major + 500}); err != nil {
					t.Fatal(err)
				}
				m.append(l, 3, "new 3")
				want = append(want, "new 3")
			}
			begun, err := l.Begin(t.Context(), cursor)
			if err != nil || begun.Moved < int64(len(want)) || begun.Passed != 0 {
				t.Fatalf("%+v, %v; want %d entries to have moved at least", begun, err, len(want))
			}
			again, err := l.Begin(t.Context(), cursor)                  // a session that fails at once
			if again.Raised = false; err != nil || again != (Begun{}) { // its ids may be ahead of the clock, here
				t.Errorf("another session has found %+v, %v; want nothing", again, err)
			}
			for _, from := range []sluice.Position{cursor, both} {
				if got := m.texts(l, from); !slices.Equal(got, want) {
					t.Errorf("behind %s are %q, want %q", from, got, want)
				}
			}
			m.append(l, 2+len(want)-1, "last") // the source stands where it stood
			if got := m.texts(l, cursor); !slices.Equal(got, append(want, "last")) {
				t.Errorf("behind the cursor are %q", got)
			}
		})
	}
}

// TestWhatMayBeAppliedIsNotReadAgain: a session of the store has begun on the new Redis
// before the cursor came from the old one. What may have been applied is counted.
func TestWhatMayBeAppliedIsNotReadAgain(t *testing.T) {
	t.Parallel()
	m := replicated(t)
	l, _, cursor := m.besides(func(l *Log) {
		if _, err := l.Begin(t.Context(), sluice.Position{}); err != nil {
			t.Fatal(err)
		}
	})
	for range 2 {
		begun, err := l.Begin(t.Context(), cursor)
		if err != nil || begun.Moved != 0 || begun.Passed < 2 {
			t.Fatalf("%+v, %v; want 2 entries passed over at least", begun, err)
		}
	}
	if gap, err := l.StandsAt(t.Context(), cursor); err != nil || gap == nil || gap.Passed < 2 {
		t.Errorf("it stands at %v, %v; want 2 entries passed over at least", gap, err)
	}
	gap := l.PassedOver(cursor, 2)
	if gap, err := l.StandsAt(t.Context(), gap.Start); err != nil || gap != nil {
		t.Errorf("behind it is a gap: %v, %v", gap, err)
	}
	if !strings.Contains(gap.Error(), "2 entries") {
		t.Error(gap)
	}
	for _, at := range []sluice.Position{gap.Start, {Major: cursor.Major + uint64(time.Hour.Milliseconds())}} {
		if begun, err := l.Begin(t.Context(), at); err != nil || begun.Moved+begun.Passed != 0 {
			t.Errorf("at %s: %+v, %v; want nothing passed over", at, begun, err)
		}
	}
}

// TestNothingIsPassedOverByItsOwnCursor: cursors of this log, and one from before a Redis
// that has gone back, pass over nothing, whatever was trimmed.
func TestNothingIsPassedOverByItsOwnCursor(t *testing.T) {
	l := NewLog(dial(t), Partitions(1)[0])
	m := &moved{t: t}
	if _, err := l.Append(t.Context(), "source", "", "1", written("0"), false); err != nil {
		t.Fatal(err)
	}
	var at []sluice.Position
	for i := range 4 {
		m.append(l, 1+i, fmt.Sprint(i))
		last, err := l.Last(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		at = append(at, last)
	}
	do(t, l.redis, "XTRIM", l.partition.logKey(), "MINID", at[2].String())
	cursors := append([]sluice.Position{{}}, at...)
	for _, cursor := range append(cursors, sluice.Position{Major: at[0].Major - 1}) {
		if begun, err := l.Begin(t.Context(), cursor); err != nil || begun.Moved+begun.Passed != 0 {
			t.Errorf("at %s: %+v, %v; want nothing passed over", cursor, begun, err)
		}
	}
}
