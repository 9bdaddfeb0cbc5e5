package engine_test

import (
	"context"
	"path/filepath"
	"testing"

	"sluice/config"
	"sluice/flow"
	"sluice/test/servers"
)

// TestAnEmptiedRedisDoesNotChangeWhereMailGoes: since when mail goes to the partition of the
// person outlasts a Redis that is emptied under the database.
func TestAnEmptiedRedisDoesNotChangeWhereMailGoes(t *testing.T) {
	redis, err := servers.StartRedis(t.Context(), servers.RedisOptions{Dir: filepath.Join(t.TempDir(), "redis"), AppendFsync: "everysec"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = redis.Stop(context.Background()) })
	database := "sqlite:" + filepath.Join(t.TempDir(), "sluice.db")
	e := open(t, redis.URL(), database, 2)
	moved := e.Moved()
	if err := e.Stop(context.Background()); err != nil {
		t.Fatal(err)
	}
	r, err := flow.Dial(t.Context(), redis.URL())
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := r.Do(t.Context(), "empty redis", r.B().Flushall().Build()); err != nil {
		t.Fatal(err)
	}
	e = open(t, redis.URL(), database, 2, func(c *config.Config) { c.AcceptGaps = true })
	if again := e.Moved(); moved.IsZero() || !again.Equal(moved) {
		t.Errorf("mail goes to the partition of the person since %s, want %s", again, moved)
	}
}
