package flow

import (
	"context"
	"fmt"
	"strconv"

	"github.com/redis/rueidis"

	"sluice"
)

// Bounds of one commit, so that the script never holds Redis for long.
const (
	// A batch of sends that are all scheduled for another time takes the most: one
	// for each of sluice.MaxBatchItems, some 10 ms. Else it is three or four.
	maxCommitOperations = sluice.MaxBatchItems + 64

	maxCommitBytes  = 1 << 20
	maxCommandWords = 1000
)

// Commit is an effect inside Redis: a follower's cursor moves and its
// operations run in one script, in the partition's slot.
type Commit struct {
	Follower   string
	From, To   sluice.Position
	Operations []Operation
	Log        []byte // items to append to the log with it
}

// Operation is one Redis command. Keys lists the keys it touches; they must be
// keys of the partition.
type Operation struct {
	Keys  []string
	Words []string // the command and its arguments, keys included
}

// Commit carries out c under the lease. An operation that fails becomes a dead
// letter in the partition's log; how many did is returned. Repeating a commit
// whose answer was lost changes nothing. ErrConflict: the cursor stood
// elsewhere; ErrLeaseLost: another process holds the lease.
func (l *Log) Commit(ctx context.Context, lease *Lease, c *Commit, nowMillis int64) (dead int64, err error) {
	if len(c.Operations) > maxCommitOperations {
		return 0, fmt.Errorf("commit %s: %d operations, at most %d fit one commit", c.Follower, len(c.Operations), maxCommitOperations)
	}
	p := l.partition
	keys := []string{lease.key, p.cursorsKey(), p.logKey(), p.sourcesKey()}
	args := []string{lease.token, c.Follower, c.From.String(), c.To.String(),
		strconv.FormatInt(nowMillis, 10), "commit:" + c.Follower, rueidis.BinaryString(c.Log), strconv.Itoa(len(c.Operations))}
	size := len(c.Log)
	for i, op := range c.Operations {
		if len(op.Words) == 0 || len(op.Words) > maxCommandWords {
			return 0, fmt.Errorf("commit %s: operation %d has %d words, want 1 to %d", c.Follower, i, len(op.Words), maxCommandWords)
		}
		keys = append(keys, op.Keys...)
		args = append(args, strconv.Itoa(len(op.Words)))
		args = append(args, op.Words...)
		for _, w := range op.Words {
			size += len(w)
		}
	}
	if size > maxCommitBytes {
		return 0, fmt.Errorf("commit %s: %d bytes, at most %d fit one commit", c.Follower, size, maxCommitBytes)
	}
	answer, err := l.writeTexts(ctx, "commit", "commit", keys, args)
	if err != nil {
		return 0, err
	}
	if answer[0] == "-1" {
		return 0, fmt.Errorf("commit %s in partition %d: %w: its cursor is at %s, not %s", c.Follower, p.Number, sluice.ErrConflict, answer[1], c.From)
	}
	return strconv.ParseInt(answer[1], 10, 64)
}

// Cursor returns the position of a follower whose effect is in Redis, zero if
// it never committed.
func (l *Log) Cursor(ctx context.Context, follower string) (sluice.Position, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	c := l.redis.client
	at, err := c.Do(ctx, c.B().Hget().Key(l.partition.cursorsKey()).Field(follower).Build()).ToString()
	if rueidis.IsRedisNil(err) {
		return sluice.Position{}, nil
	}
	if err != nil {
		return sluice.Position{}, l.redis.wrap("read cursor of "+follower, err)
	}
	return sluice.ParsePosition(at)
}
