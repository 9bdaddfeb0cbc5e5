package baseline

import (
	"context"
	"database/sql"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
	"golang.org/x/sync/errgroup"
)

// Queue is a list to be drained into a table.
type Queue struct {
	Redis *Redis
	List  string
	DB    *sql.DB
	Table Table
	Count int // elements that the list holds
}

// Sizes of the old designs, as published.
const (
	workers    = 10
	batchItems = 100

	// queuedStatements is how many statements may wait for the one inserter:
	// some for each worker, so that it never waits for them.
	queuedStatements = 10 * workers

	popTimeoutSeconds = 1
)

// OneAtATime is the daemon before the published one. It has ten workers, each
// with a connection to Redis and one to the database of its own. A worker takes
// one element by BLPOP, decodes it and inserts one row in a transaction of its
// own. It assumes what is not published: autocommit, and the values in the
// statement's text, which is how Perl's DBD::mysql sends placeholders. The
// workers here are goroutines, which cost less than Perl's processes did.
//
// It returns the time from the first take to the last row committed. An
// element is lost if it dies between BLPOP and INSERT.
func OneAtATime(ctx context.Context, q Queue) (time.Duration, error) {
	ctx, drained := context.WithCancel(ctx)
	defer drained()
	var committed atomic.Int64
	var took time.Duration
	group, ctx := errgroup.WithContext(ctx)
	started := time.Now()
	for range workers {
		group.Go(func() error {
			conn, err := q.DB.Conn(ctx)
			if err != nil {
				return fmt.Errorf("connect to the database: %w", err)
			}
			defer conn.Close()
			for committed.Load() < int64(q.Count) {
				done, err := q.moveOne(ctx, conn)
				if err != nil && committed.Load() == int64(q.Count) {
					return nil // it was waiting in BLPOP for what never comes
				}
				if err != nil {
					return err
				}
				if done && committed.Add(1) == int64(q.Count) {
					took = time.Since(started)
					drained()
				}
			}
			return nil
		})
	}
	err := group.Wait()
	return took, err
}

func (q *Queue) moveOne(ctx context.Context, conn *sql.Conn) (bool, error) {
	popped, err := q.Redis.client.Do(ctx, q.Redis.client.B().Blpop().Key(q.List).Timeout(popTimeoutSeconds).Build()).AsStrSlice()
	if rueidis.IsRedisNil(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("pop from %s: %w", q.List, err)
	}
	statement, err := q.Table.Tuple([]byte(q.Table.Insert), popped[1], Place{})
	if err != nil {
		return false, err
	}
	if _, err := conn.ExecContext(ctx, string(statement)); err != nil {
		return false, fmt.Errorf("insert: %w", err)
	}
	return true, nil
}

// takeBatch is the script of the published design.
const takeBatch = `local items = redis.call('LRANGE', KEYS[1], 0, ARGV[1] - 1)
redis.call('LTRIM', KEYS[1], ARGV[1], -1)
return items`

// Published is the design as it was published (SYSTEMS: event tracking). A
// script, loaded once and called by EVALSHA, takes 100 elements in one atomic
// call. Ten goroutines decode them and build one INSERT of many rows each. A
// channel carries the statements to one goroutine that executes them.
//
// It returns the time from the first take to the last row committed. A batch
// is lost if it dies between the take and the INSERT.
func Published(ctx context.Context, q Queue) (time.Duration, error) {
	sha, err := q.Redis.client.Do(ctx, q.Redis.client.B().ScriptLoad().Script(takeBatch).Build()).ToString()
	if err != nil {
		return 0, fmt.Errorf("load the script: %w", err)
	}
	conn, err := q.DB.Conn(ctx)
	if err != nil {
		return 0, fmt.Errorf("connect to the database: %w", err)
	}
	defer conn.Close()
	statements := make(chan string, queuedStatements)
	group, ctx := errgroup.WithContext(ctx)
	started := time.Now()
	var batches atomic.Int64
	var building sync.WaitGroup
	for range workers {
		building.Add(1)
		group.Go(func() error {
			defer building.Done()
			return q.buildBatches(ctx, sha, &batches, statements)
		})
	}
	group.Go(func() error {
		building.Wait()
		close(statements)
		return nil
	})
	group.Go(func() error {
		for statement := range statements {
			if _, err := conn.ExecContext(ctx, statement); err != nil {
				return fmt.Errorf("insert batch: %w", err)
			}
		}
		return nil
	})
	err = group.Wait()
	return time.Since(started), err
}

// buildBatches is one of the ten goroutines. It ends when the list is empty;
// the daemon would have looked again.
func (q *Queue) buildBatches(ctx context.Context, sha string, batches *atomic.Int64, statements chan<- string) error {
	size := fmt.Sprint(batchItems)
	buf := make([]byte, 0, batchItems*256)
	for {
		items, err := q.Redis.client.Do(ctx, q.Redis.client.B().Evalsha().Sha1(sha).Numkeys(1).Key(q.List).Arg(size).Build()).AsStrSlice()
		if err != nil {
			return fmt.Errorf("take a batch from %s: %w", q.List, err)
		}
		if len(items) == 0 {
			return nil
		}
		place := Place{Batch: batches.Add(1)}
		buf = append(buf[:0], q.Table.Insert...)
		for i, item := range items {
			if i > 0 {
				buf = append(buf, ',')
			}
			place.Item = i
			if buf, err = q.Table.Tuple(buf, item, place); err != nil {
				return err
			}
		}
		select {
		case statements <- string(buf):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
