package ingest_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"sluice"
	"sluice/flow"
	"sluice/ingest"
	"sluice/test/servers"
)

func TestWhenAFollowerCountsAsFailing(t *testing.T) {
	var s ingest.Stats
	at := time.Unix(1_700_000_000, 0)
	look := func(when time.Time, want string) {
		t.Helper()
		err, known := s.Followers(when)["f"]
		if !known || fmt.Sprint(err) == "<nil>" != (want == "") || !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	s.Fine("f")
	look(at, "")
	s.Failed("f", errors.New("one"), at)
	s.Failed("f", errors.New("two"), at.Add(time.Second))
	look(at.Add(time.Second), "") // a restart of a server looks like that
	s.Failed("f", errors.New("disk full"), at.Add(2*time.Second))
	look(at.Add(2*time.Second), "disk full (3 times in a row, since 2023-11-14T22:13:20Z)")
	look(at.Add(22*time.Second), "disk full")
	look(at.Add(23*time.Second), "")
	s.Fine("f")
	look(at.Add(3*time.Second), "")
	s.Failed("f", fmt.Errorf("list: %w", sluice.ErrGap), at)
	look(at, "list: ")
}

// A session that has run for a while is well, but for what it has itself told since: it
// outlasts a database that is away, and goes on.
func TestASessionThatOutlastsIsNotFine(t *testing.T) {
	for name, x := range map[string]struct {
		tells bool // within the session
		want  string
	}{"of the session before": {false, ""}, "of its own": {true, "the database is away"}} {
		var s ingest.Stats
		failed := func() {
			for range 3 {
				s.Failed("store", errAway, time.Now())
			}
		}
		ctx, stop := context.WithCancel(t.Context())
		sessions, lasted := 0, make(chan struct{})
		flow.Follow(ctx, ctx, "store", slog.New(slog.DiscardHandler), &told{&s, lasted}, func(fetch, _ context.Context) error {
			if sessions++; sessions == 1 {
				failed()
				return fmt.Errorf("read: %w", syscall.ECONNREFUSED) // the next one is well after half a second
			}
			if x.tells {
				failed()
			}
			<-lasted
			if err := s.Followers(time.Now())["store"]; fmt.Sprint(err) == "<nil>" != (x.want == "") || !strings.Contains(fmt.Sprint(err), x.want) {
				t.Errorf("%s: %v, want %q", name, err, x.want)
			}
			stop()
			return nil
		})
	}
}

// told is a Health that says when a session has run for a while.
type told struct {
	*ingest.Stats
	lasted chan struct{}
}

func (h *told) Lasts(follower string, began time.Time) {
	h.Stats.Lasts(follower, began)
	close(h.lasted)
}

// That the other partitions of a follower get on hides none that stands still.
func TestAPartitionThatStandsStillIsSeen(t *testing.T) {
	var s ingest.Stats
	at := time.Unix(1_700_000_000, 0)
	look := func(want string) {
		t.Helper()
		if err := s.Followers(at)["store"]; fmt.Sprint(err) == "<nil>" != (want == "") || !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	for n := range 8 {
		at = at.Add(7 * time.Second)
		s.Failed("store", &flow.PartitionError{Partition: n % 2, Err: errors.New("too large")}, at)
		s.Fine("store") // another partition's batch is stored
		if n < 4 {
			look("")
		}
	}
	look("partition 0 stands still: too large (4 times in a row")
	look("partition 1 stands still: too large (4 times in a row")
	at = at.Add(10 * time.Minute) // neither is tried any more
	look("")
}

// failing returns what a follower of an engine says, "" if it gets on.
func (e *engine) failing(follower string) string {
	if err := e.stats.Followers(time.Now())[follower]; err != nil {
		return err.Error()
	}
	return ""
}

// What an operator must see: a follower that stands still, and that it gets on
// again; nothing is lost and nothing doubled meanwhile.
func TestFollowersThatStandStillAreSeen(t *testing.T) {
	onEach(t, func(b *bed) {
		makeTarget(b)
		b.do("SET", "events", "no list")
		e := start(b, setup{lists: []listSetup{tableList(""), {name: "events"}}})
		b.push("q", `{"id":1}`)
		b.awaitSum("target", 1)
		b.eventually("the list that is none is seen", func() bool { return strings.Contains(e.failing("route:events"), "WRONGTYPE") })
		b.exec("ALTER TABLE target RENAME TO away", "")
		b.push("q", `{"id":2}`, `{"id":3}`)
		b.eventually("the table that is gone is seen", func() bool { return strings.Contains(e.failing("table:q"), "target") })
		if n, err := e.lists[0].Remaining(b.Context()); n != 2 || err != nil {
			b.Errorf("%d elements are held, %v; want 2", n, err)
		}
		key := ingest.LagKey{Follower: "list:q"}
		if since := e.stats.Lags()[key].Since; since.IsZero() {
			b.Error("it is not known since when they wait")
		}
		before := e.stats.Lags()[key].Since
		times := e.log.String()
		b.eventually("it has failed once more", func() bool {
			return strings.Count(e.log.String(), "follower=table:q") > strings.Count(times, "follower=table:q")
		})
		if since := e.stats.Lags()[key].Since; since != before {
			b.Errorf("they wait since %s, now since %s: the lag does not grow", before, since)
		}
		if e.failing("store") != "" {
			b.Errorf("the store follower is said to fail: %s", e.failing("store"))
		}
		b.exec("ALTER TABLE away RENAME TO target", "")
		b.do("DEL", "events")
		b.awaitSum("target", 3)
		b.push("events", `{"event":"open"}`)
		b.awaitSum("events", 1)
		b.eventually("both get on", func() bool { return e.failing("table:q") == "" && e.failing("route:events") == "" })
		e.stop()
		b.checkCounts("target", 3, 0)
	})
}

// A table that cannot roll back any more keeps the load that was refused. It
// must not get its rows again, one by one or in the next session.
func TestTableThatCannotRollBackAnyMore(t *testing.T) {
	b := newBed(t, "mariadb")
	makeTarget(b)
	e := start(b, setup{lists: []listSetup{tableList("")}})
	b.push("q", `{"id":1}`)
	b.awaitSum("target", 1)
	b.exec("ALTER TABLE target ENGINE=MyISAM", "")
	b.push("q", `{"id":2}`, `{"id":3}`, `{"id":"no number"}`)
	b.eventually("it is told", func() bool {
		return strings.Contains(e.failing("table:q"), "MyISAM cannot roll back") && strings.Contains(e.failing("table:q"), "ENGINE=InnoDB")
	})
	e.stop()
	if twice := b.query("SELECT id FROM target GROUP BY id HAVING COUNT(*) > 1"); len(twice) > 0 {
		b.Errorf("stored twice: %v", twice)
	}
	if n := b.count("dead_letters"); n != 0 {
		b.Errorf("%d dead letters", n)
	}
}

// While Redis is away for hours the log does not fill a disk: a session that fails is told
// of now and then, and not once for each partition.
func TestRedisAwayIsToldInFewLines(t *testing.T) {
	b := newBed(t, "sqlite")
	one, err := servers.StartRedis(t.Context(), servers.RedisOptions{Dir: filepath.Join(t.TempDir(), "redis"), Listen: "tcp"})
	b.must(err)
	t.Cleanup(func() { _ = one.Kill() })
	e := start(b, setup{redis: one.URL()})
	e.write(0, "one", named("1"))
	b.awaitSum("events", 1)
	b.must(one.Kill())
	killed := time.Now()
	b.eventually("sessions of the store have failed", func() bool { return manyTimes.MatchString(e.failing("store")) })
	lines := 0
	for line := range strings.Lines(e.log.String()) {
		if strings.Contains(line, "forwards") || strings.Contains(line, "follower=store") {
			lines++
		}
	}
	most := testPartitions + int(time.Since(killed)/(5*time.Second)) // one is told now and then
	if lines == 0 || lines > most {
		t.Errorf("%d lines, want %d at most, of %s\n%s", lines, most, e.failing("store"), e.log.String())
	}
	b.must(one.Restart(t.Context()))
	e.write(0, "two", named("2"))
	b.awaitSum("events", 2)
	e.stop()
}

var manyTimes = regexp.MustCompile(`\b([5-9]|\d\d+) times in a row`)
