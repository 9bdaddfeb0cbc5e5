package engine

import (
	"context"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"sluice"
	"sluice/config"
	"sluice/flow"
	"sluice/ingest"
	"sluice/test/clocktest"
	"sluice/test/tables"
)

// TestAListIsHandedOverBesideASlowOne: of two lists one follower has ended, and the other
// has work in hand for as long as it may. Another process can have the first at once.
func TestAListIsHandedOverBesideASlowOne(t *testing.T) {
	cfg := config.Default()
	cfg.Data, cfg.Partitions, cfg.Redis = t.TempDir(), 2, config.RedisEmbedded
	file := filepath.Join(t.TempDir(), "sluice.db")
	tables.Make(t, file)
	cfg.Database = config.URL("sqlite:" + file)
	cfg.Lists = []config.List{{Name: "slow", Take: config.TakeLeft}, {Name: "quick", Take: config.TakeLeft}}
	c, err := openCore(t.Context(), cfg, slog.New(slog.DiscardHandler), flow.NewClock(sluice.SystemClock{}))
	if err != nil {
		t.Fatal(err)
	}
	began, done := make(chan struct{}), make(chan struct{})
	c.inputs[0].run = func(_, work context.Context) { // it commits something large
		close(began)
		select {
		case <-done:
		case <-work.Done():
		}
	}
	c.start()
	held := func() map[int]*flow.Lease {
		held, _ := c.leases.Held(ingest.ListRole)
		return held
	}
	for len(held()) < 2 {
		clocktest.Rest(time.Now())
	}
	<-began // one that has not begun when the stop comes has nothing in hand
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	stopped := make(chan error, 1)
	go func() { stopped <- c.stop(ctx) }()
	for held()[1] != nil && ctx.Err() == nil {
		clocktest.Rest(time.Now())
	}
	if ctx.Err() != nil || held()[0] == nil {
		t.Errorf("it holds %v of both lists, its time: %v", held(), ctx.Err())
	}
	close(done)
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}
