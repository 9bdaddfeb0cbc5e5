package flow

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"sluice"
)

// TestLogsAreRaisedSideBySide: a log that waits for the database keeps no other waiting.
func TestLogsAreRaisedSideBySide(t *testing.T) {
	r := dial(t)
	logs := logsOf(r, 4)
	var asking sync.WaitGroup
	asking.Add(len(logs))
	r.RaiseBy(slog.New(slog.DiscardHandler), func(_ context.Context, partitions []int) (map[int]sluice.Position, error) {
		asking.Done()
		all := make(chan struct{})
		go func() { // ends with the test
			asking.Wait()
			close(all)
		}()
		select {
		case <-all:
			return nil, nil
		case <-time.After(3 * time.Minute): // ctx ends sooner than they come on a busy machine
			t.Errorf("partitions %v wait for the database alone", partitions)
			return nil, errors.New("it was asked for others")
		}
	})
	var group errgroup.Group
	for _, l := range logs {
		group.Go(func() error {
			_, err := l.Append(t.Context(), "source", "", "1", sluice.NewBatch(0), false)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
}

// TestADatabaseThatDoesNotAnswerRests: it is not asked for each log.
func TestADatabaseThatDoesNotAnswerRests(t *testing.T) {
	r := dial(t)
	logs := logsOf(r, 3)
	asked := 0
	r.RaiseBy(slog.New(slog.DiscardHandler), func(context.Context, []int) (map[int]sluice.Position, error) {
		asked++
		return nil, context.DeadlineExceeded
	})
	for i, failed := range []time.Time{{}, time.Now().Add(time.Hour), time.Now().Add(-time.Hour)} {
		r.floors.failed = failed
		if _, err := logs[i].Append(t.Context(), "source", "", "1", sluice.NewBatch(0), false); err != nil {
			t.Fatal(err)
		}
		if want := []int{1, 1, 2}[i]; asked != want {
			t.Errorf("after %d logs the database was asked %d times, want %d", i+1, asked, want)
		}
	}
}
