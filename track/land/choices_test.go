package land

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"sluice"
	"sluice/ingest/spill"
	"sluice/test/clocktest"
	"sluice/user"
)

// redis takes what people choose, or does not.
type redis struct {
	err   error
	hangs bool
	tries atomic.Int64
	wrote atomic.Int64
}

func (r *redis) Record(ctx context.Context, _ user.Key, _ []sluice.Event, _ []user.Update, _ string, _ time.Duration) (bool, error) {
	r.tries.Add(1)
	if r.hangs {
		<-ctx.Done()
		return false, ctx.Err()
	}
	if r.err == nil {
		r.wrote.Add(1)
	}
	return r.err == nil, r.err
}

// What stops mail is done within 250 ms, in Redis or in a file that holds all of it; what
// has mail come again is an error while Redis is away, and in no file. With neither Redis
// nor a disk nothing counts as done.
func TestChoices(t *testing.T) {
	key := user.Key{Kind: user.KeyEmail, Name: "ann@example.com"}
	event := func(name string) []sluice.Event {
		return []sluice.Event{{Kind: sluice.KindMail, Origin: sluice.OriginOwn, TimeMillis: 1_700_000_000_000, ID: "x", Name: name, Email: key.Name}}
	}
	update := func(op user.Op, body string) []user.Update {
		return []user.Update{{Op: op, Key: key, TimeMillis: 1_700_000_000_000, Name: "g", Body: body}}
	}
	for name, x := range map[string]struct {
		err     error
		hangs   bool
		disk    bool
		events  []sluice.Event
		updates []user.Update
		done    bool
		inFile  bool
	}{
		"redis answers":      {nil, false, true, event(sluice.EventUnsubscribed), update(user.OpSubscribe, "unsubscribed"), true, false},
		"it hangs":           {nil, true, true, event(sluice.EventUnsubscribed), update(user.OpSubscribe, "unsubscribed"), true, true},
		"it refuses":         {errors.New("away"), false, true, nil, update(user.OpGroup, "unsubscribed"), true, true},
		"mail comes again":   {errors.New("away"), false, true, event(sluice.EventSubscribed), update(user.OpSubscribe, "subscribed"), false, false},
		"a group is taken":   {errors.New("away"), false, true, nil, append(update(user.OpGroup, "unsubscribed"), update(user.OpGroup, "subscribed")...), false, false},
		"there is no disk":   {errors.New("away"), false, false, event(sluice.EventUnsubscribed), update(user.OpSubscribe, "unsubscribed"), false, false},
		"nobody is named":    {errors.New("away"), false, true, event(sluice.EventUnsubscribed), nil, false, false},
		"something else too": {errors.New("away"), false, true, nil, update(user.OpDelete, "unsubscribed"), false, false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "spill")
			if !x.disk {
				dir = filepath.Join("/dev/null", "spill")
			}
			to := &redis{err: x.err, hangs: x.hangs}
			c := NewChoices()
			c.To, c.Clock, c.Log, c.Ping = to, clocktest.At(time.Now()), slog.New(slog.NewTextHandler(io.Discard, nil)), func(context.Context) error { return nil }
			c.Spill = spill.OpenItems(dir, "4711", c.Clock)
			began := time.Now()
			for range 3 {
				written, err := c.Record(t.Context(), key, x.events, x.updates, "once", time.Second)
				if written != x.done || (err == nil) != x.done {
					t.Errorf("%v %v", written, err)
				}
			}
			if took := time.Since(began); took > 3*time.Minute || x.hangs && to.tries.Load() != 1 {
				t.Errorf("three took %s and %d tries", took, to.tries.Load())
			}
			if c.Away() != (x.err != nil || x.hangs) {
				t.Errorf("away: %v", c.Away())
			}
			c.Clock = clocktest.At(time.Now().Add(fileQuiet))
			c.release(t.Context())
			if c.Away() && x.inFile {
				t.Error("redis answers, and is not asked")
			}
			found := 0
			files, err := spill.List(dir)
			if x.disk && err != nil {
				t.Fatal(err)
			}
			for _, f := range files {
				r, err := spill.OpenFile(f.Path)
				if err != nil {
					t.Fatal(err)
				}
				for line, err := r.Next(); err != io.EOF; line, err = r.Next() {
					b, broken := sluice.ReadBatch(append(sluice.NewBatch(0), line.Text...))
					if err != nil || broken != nil || !r.Header.Items {
						t.Fatal(err, broken)
					}
					n := 0
					for b.Next() {
						n++
					}
					if n != len(x.events)+len(x.updates) {
						t.Errorf("a record of %d items", n)
					}
					found++
				}
				_ = r.Close()
			}
			if want := map[bool]int{true: 3}[x.inFile]; found != want || c.Spilled() != int64(want) || to.wrote.Load() != map[bool]int64{true: 3}[x.err == nil && !x.hangs] {
				t.Errorf("%d records in files, want %d; %d counted, %d in redis", found, want, c.Spilled(), to.wrote.Load())
			}
		})
	}
}
