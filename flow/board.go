package flow

import (
	"context"
	"slices"
	"strings"

	"github.com/redis/rueidis"
)

// Fields of the board's hash.
const (
	boardPost = "post:" // and the process's id
	boardTold = "told"
)

// Board is one hash in the slot of partition 0, where the lease of the alerting
// role is. The processes write there what is wrong with them, and the process
// that alerts people writes what it has told. What a process wrote counts while
// it lives.
type Board struct {
	redis     *Redis
	partition Partition
	leases    *Leases
}

// NewBoard returns the board. partition is number 0: the holder of its lease of
// the role tells.
func NewBoard(redis *Redis, partition Partition, leases *Leases) *Board {
	return &Board{redis: redis, partition: partition, leases: leases}
}

// Post replaces what this process has written.
func (b *Board) Post(ctx context.Context, text string) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	c := b.redis.client
	return b.redis.wrap("post to the board of alerts", c.Do(ctx, c.B().Hset().Key(b.partition.alertsKey()).FieldValue().
		FieldValue(boardPost+b.leases.ID(), text).Build()).Error())
}

// Posts returns what the living processes have written, and removes what dead
// ones left.
func (b *Board) Posts(ctx context.Context) (map[string]string, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	c := b.redis.client
	all, err := c.Do(ctx, c.B().Hgetall().Key(b.partition.alertsKey()).Build()).AsStrMap()
	if err != nil {
		return nil, b.redis.wrap("read the board of alerts", err)
	}
	posts := make(map[string]string)
	var left []string
	for field, text := range all {
		id, ok := strings.CutPrefix(field, boardPost)
		switch {
		case !ok:
		case b.leases.Dead(id):
			left = append(left, field)
		default:
			posts[id] = text
		}
	}
	if len(left) > 0 {
		slices.Sort(left)
		err = c.Do(ctx, c.B().Hdel().Key(b.partition.alertsKey()).Field(left...).Build()).Error()
	}
	return posts, b.redis.wrap("clear the board of alerts", err)
}

// Keep writes what was told. sluice.ErrLeaseLost: another process tells now.
func (b *Board) Keep(ctx context.Context, lease *Lease, text string) error {
	_, err := b.redis.callInt(ctx, "keep what was told of alerts", "keep_alerts", []string{lease.key, b.partition.alertsKey()}, []string{lease.token, text})
	return err
}

// Kept returns what was told, "" if nothing was.
func (b *Board) Kept(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	c := b.redis.client
	text, err := c.Do(ctx, c.B().Hget().Key(b.partition.alertsKey()).Field(boardTold).Build()).ToString()
	if rueidis.IsRedisNil(err) {
		return "", nil
	}
	return text, b.redis.wrap("read what was told of alerts", err)
}
