package spool_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"

	"github.com/redis/rueidis"

	"sluice"
	"sluice/flow"
	"sluice/mail"
	"sluice/mail/route"
	"sluice/mail/spool"
	"sluice/test/servers"
)

// TestWhatIsStoppedOutlastsRedis: what operators have stopped stays so where Redis is
// emptied, or has gone back in time, for a process that runs and for one that starts then.
// What they have resumed goes on.
func TestWhatIsStoppedOutlastsRedis(t *testing.T) {
	const stops, at = "sluice:{members}:stops", "sluice:{members}:stops_at"
	marketing, tag := mail.Selector{By: mail.SelectClass, Value: "marketing"}, mail.Selector{By: mail.SelectTag, Value: "spring"}
	for name, lose := range map[string]func(o *office) []rueidis.Completed{
		"emptied": func(o *office) []rueidis.Completed {
			return []rueidis.Completed{o.redis.B().Del().Key(stops, at).Build()}
		},
		"gone back": func(o *office) []rueidis.Completed {
			return []rueidis.Completed{o.redis.B().Hdel().Key(stops).Field(tag.Name()).Build(), o.redis.B().Set().Key(at).Value("of another").Build()}
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t)
			o := b.open(nil, nil)
			process := func() *route.Router {
				t.Helper()
				r, err := route.New(route.Options{Mode: route.On, Sink: newWire(nil), Redis: o.redis, Kept: o.store, Clock: sluice.SystemClock{}})
				b.must(err)
				b.look(r)
				return r
			}
			stopped := func(r *route.Router, want ...string) {
				t.Helper()
				b.look(r)
				if got := slices.Sorted(maps.Keys(r.Stopped())); !slices.Equal(got, want) {
					t.Errorf("stopped are %q, want %q", got, want)
				}
			}
			running := process()
			api := &spool.Operator{Redis: o.redis, Kept: o.store, Clock: sluice.SystemClock{}}
			command := &spool.Operator{Redis: o.redis, Clock: sluice.SystemClock{}} // without the database
			b.must(command.Stop(b.Context(), tag, "by a command"))
			b.must(running.Keep(b.Context()))
			b.must(api.Stop(b.Context(), marketing, "by the API")) // is kept at once
			stopped(running, "marketing", "tag:spring")

			b.must(o.redis.Do(b.Context(), "lose what is stopped", lose(o)...))
			stopped(running, "marketing", "tag:spring") // before it has asked the database
			started := process()
			stopped(started, "marketing", "tag:spring")
			b.must(running.Keep(b.Context()))
			stopped(running, "marketing", "tag:spring")

			if was, err := command.Resume(b.Context(), tag); err != nil || !was {
				t.Errorf("resumed: %v, %v", was, err)
			}
			b.must(running.Keep(b.Context()))
			stopped(started, "marketing")
			b.must(o.redis.Do(b.Context(), "lose what is stopped", lose(o)...))
			stopped(process(), "marketing")
		})
	}
}

// look has a router look what is stopped, once more if a busy machine answers late.
func (b *bed) look(r *route.Router) {
	b.Helper()
	b.eventually("it is known what is stopped", func() bool {
		err := r.Look(b.Context())
		if !errors.Is(err, context.DeadlineExceeded) {
			b.must(err)
		}
		return err == nil
	})
}

// TestAnOldMasterKeepsNoStops: a process that was cut off beside an old master, whose place
// another Redis has taken, does not overwrite what those beside that one have kept, also if
// it starts there. An operator who stops mail by it hears that this does not hold.
func TestAnOldMasterKeepsNoStops(t *testing.T) {
	b := newBed(t)
	o := b.open(nil, nil)
	server, err := servers.StartRedis(t.Context(), servers.RedisOptions{Dir: t.TempDir(), AppendFsync: "no"})
	b.must(err)
	t.Cleanup(func() { _ = server.Kill() })
	old, err := flow.Dial(t.Context(), server.URL())
	b.must(err)
	t.Cleanup(old.Close)
	process := func(redis *flow.Redis) *route.Router {
		t.Helper()
		r, err := route.New(route.Options{Mode: route.On, Sink: newWire(nil), Redis: redis, Kept: o.store, Clock: sluice.SystemClock{}})
		b.must(err)
		b.look(r)
		return r
	}
	kept := func(want ...string) {
		t.Helper()
		names, _, err := o.store.KeptStops(b.Context())
		if got := slices.Sorted(maps.Keys(names)); err != nil || !slices.Equal(got, want) {
			t.Errorf("kept are %q, %v; want %q", got, err, want)
		}
	}
	tag := mail.Selector{By: mail.SelectTag, Value: "spring"}
	beside := &spool.Operator{Redis: old, Kept: o.store, Clock: sluice.SystemClock{}}
	before := process(old)
	b.must(beside.Stop(b.Context(), tag, ""))
	b.must(before.Keep(b.Context()))
	kept("tag:spring")

	now := process(o.redis) // it has taken that one's place
	b.must(now.Keep(b.Context()))
	b.must((&spool.Operator{Redis: o.redis, Kept: o.store, Clock: sluice.SystemClock{}}).Stop(b.Context(), mail.Selector{By: mail.SelectClass, Value: "marketing"}, ""))
	kept("marketing", "tag:spring")

	if err := process(old).Keep(b.Context()); !errors.Is(err, sluice.ErrConflict) {
		t.Errorf("a process that starts beside the old master keeps what that says: %v", err)
	}
	if was, err := beside.Resume(b.Context(), tag); err != nil || !was {
		t.Errorf("resumed: %v, %v", was, err)
	}
	if err := before.Keep(b.Context()); !errors.Is(err, sluice.ErrConflict) {
		t.Errorf("a process beside the old master keeps what that says: %v", err)
	}
	refused, is := errors.AsType[*sluice.Error](beside.Stop(b.Context(), tag, ""))
	if !is || refused.Code != sluice.CodeUnavailable {
		t.Errorf("mail that was stopped by the old master alone is said to be stopped: %v", refused)
	}
	kept("marketing", "tag:spring")
}
