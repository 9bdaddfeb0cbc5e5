package examine

import (
	"context"
	"slices"
	"strings"
	"testing"

	"sluice"
	"sluice/flow"
	"sluice/lib/doctor"
	"sluice/test/servers"
)

// database is one in which nothing has happened yet.
type database struct{}

func (database) AllCursors(context.Context) ([]doctor.Cursor, error) { return nil, nil }
func (database) CountDeadLetters(context.Context) (int64, error)     { return 0, nil }
func (database) Held(context.Context) (int64, error)                 { return 0, nil }

// A log that cannot be read is not known to be in order: nothing is said of all logs then.
func TestALogThatCannotBeRead(t *testing.T) {
	child, err := servers.StartRedis(t.Context(), servers.RedisOptions{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = child.Stop(context.Background()) })
	redis, err := flow.Dial(t.Context(), child.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(redis.Close)
	x := &Installation{Redis: redis, Store: database{}, Partitions: 2, Clock: sluice.SystemClock{}}
	said := func() (all []string) {
		for _, f := range x.Examine(t.Context()).Findings {
			if f.Check == doctor.CheckGaps || f.Check == doctor.CheckLag {
				all = append(all, string(f.Severity)+" "+string(f.Check)+" "+f.Where)
			}
		}
		slices.Sort(all)
		return all
	}
	if got, want := said(), []string{"ok gaps this installation", "ok lag this installation"}; !slices.Equal(got, want) {
		t.Errorf("all are in order: %q, want %q", got, want)
	}
	beside := strings.TrimSuffix(flow.Partitions(2)[1].AlertsKey(), "alerts")
	sources := beside + "sources" // of which the cursor has passed entries over that another master had
	if err := redis.Do(t.Context(), "set a gap for a test", redis.B().Hset().Key(sources).FieldValue().FieldValue("@passed", "0-0 2").Build()); err != nil {
		t.Fatal(err)
	}
	if got, want := said(), []string{"error gaps partition 1"}; !slices.Equal(got, want) {
		t.Errorf("one has passed entries over: %q, want %q", got, want)
	}
	if err := redis.Do(t.Context(), "spoil a log for a test", redis.B().Del().Key(sources).Build(), redis.B().Set().Key(beside+"log").Value("no stream").Build()); err != nil {
		t.Fatal(err)
	}
	if got, want := said(), []string{"unknown gaps partition 1", "unknown lag partition 1"}; !slices.Equal(got, want) {
		t.Errorf("one cannot be read: %q, want %q", got, want)
	}
}
