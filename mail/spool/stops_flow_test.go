package spool_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/redis/rueidis"

	"sluice"
	"sluice/mail"
	"sluice/mail/route"
	"sluice/mail/spool"
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
				b.must(r.Look(b.Context()))
				return r
			}
			stopped := func(r *route.Router, want ...string) {
				t.Helper()
				b.must(r.Look(b.Context()))
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
