package baseline

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// Count does what a producer of the time series does, many times in one round
// trip: HINCRBY key field 1, then SADD dirty key.
func (r *Redis) Count(ctx context.Context, dirty, field string, keys []string) error {
	commands := make(rueidis.Commands, 0, 2*len(keys))
	for _, key := range keys {
		commands = append(commands,
			r.client.B().Hincrby().Key(key).Field(field).Increment(1).Build(),
			r.client.B().Sadd().Key(dirty).Member(key).Build())
	}
	for _, answer := range r.client.DoMulti(ctx, commands...) {
		if err := answer.Error(); err != nil {
			return fmt.Errorf("count: %w", err)
		}
	}
	return nil
}

// CreateSeries is the published document, one row for each of its fields:
// {app_id, name, date} and a field per hour.
const CreateSeries = "CREATE TABLE published_series (hash VARCHAR(190) NOT NULL, hour VARCHAR(2) NOT NULL, n BIGINT NOT NULL, PRIMARY KEY (hash, hour)) ENGINE=InnoDB"

// flushEvery is how often the published flush looks at a server.
const flushEvery = time.Second

// FlushCounters is the published flush of one server, until the context ends.
// Every second each dirty hash is read, deleted and added to its document by
// one statement, as $inc does. It loses what it has deleted and not added when
// it dies; its authors say so.
func FlushCounters(ctx context.Context, r *Redis, db *sql.DB, dirty string) error {
	tick := time.NewTicker(flushEvery)
	defer tick.Stop()
	for {
		if err := flushOnce(context.WithoutCancel(ctx), r, db, dirty); err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return flushOnce(context.WithoutCancel(ctx), r, db, dirty)
		}
	}
}

func flushOnce(ctx context.Context, r *Redis, db *sql.DB, dirty string) error {
	c := r.client
	for {
		key, err := c.Do(ctx, c.B().Spop().Key(dirty).Build()).ToString()
		if rueidis.IsRedisNil(err) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("take a dirty key: %w", err)
		}
		answers := c.DoMulti(ctx, c.B().Multi().Build(), c.B().Hgetall().Key(key).Build(), c.B().Del().Key(key).Build(), c.B().Exec().Build())
		exec, err := answers[3].ToArray()
		if err != nil {
			return fmt.Errorf("take hash %s: %w", key, err)
		}
		fields, err := exec[0].AsStrMap()
		if err != nil {
			return fmt.Errorf("read hash %s: %w", key, err)
		}
		if len(fields) == 0 {
			continue
		}
		args := make([]any, 0, 3*len(fields))
		for hour, n := range fields {
			args = append(args, key, hour, n)
		}
		_, err = db.ExecContext(ctx, "INSERT INTO published_series (hash, hour, n) VALUES (?, ?, ?)"+strings.Repeat(", (?, ?, ?)", len(fields)-1)+
			" ON DUPLICATE KEY UPDATE n = n + VALUES(n)", args...)
		if err != nil {
			return fmt.Errorf("add hash %s: %w", key, err)
		}
	}
}
