package flow

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"sluice"
)

// What a commit should hold at most, so that the script never holds Redis for
// long. A follower whose entry brings more commits it in pieces (Commit.Items).
// Commit itself refuses nothing for its size: a refused follower could only try
// the same again, and its partition would stand still for ever.
const (
	// CommitBytes is how many bytes of items, and up to an item more.
	CommitBytes = 512 << 10

	// CommitItems is how many items: sends that are all scheduled for another time
	// take an operation each, some 10 ms together.
	CommitItems = sluice.MaxBatchItems

	// maxCommandWords bounds one command: a script cannot unpack more than some
	// 8,000 values. Callers that make operations divide them (inPieces).
	maxCommandWords = 1000
)

// Commit is an effect inside Redis: a follower's cursor moves and its
// operations run in one script, in the partition's slot.
type Commit struct {
	Follower string
	From, To Reached

	Operations []Operation
	Log        []byte // items to append to the log with it

	// Appended is set by Commit: the position of the entry that has these items, and dead
	// letters of operations that failed. Zero if there are none, or a repeat has found the commit done.
	Appended sluice.Position

	// Before is set with it: the position of the entry before that one.
	Before sluice.Position
}

// Reached is the progress of a follower in a log: it has finished all entries
// up to Position. If Items is not 0, it has finished only so many of the first
// items of the entry at Position, and all entries before.
type Reached struct {
	sluice.Position
	Items int
}

// String returns MAJOR-MINOR, or MAJOR-MINOR/ITEMS.
func (r Reached) String() string {
	if r.Items == 0 {
		return r.Position.String()
	}
	return r.Position.String() + "/" + strconv.Itoa(r.Items)
}

// ParseReached reads what String wrote. The empty text stands before everything.
func ParseReached(s string) (r Reached, err error) {
	at, items, inside := strings.Cut(s, "/")
	if r.Position, err = sluice.ParsePosition(at); err != nil || !inside {
		return r, err
	}
	if r.Items, err = strconv.Atoi(items); err == nil && (r.Items < 1 || at == "") {
		err = strconv.ErrRange
	}
	if err != nil {
		return Reached{}, fmt.Errorf("parse position %q: want MAJOR-MINOR/ITEMS: %w", s, err)
	}
	return r, nil
}

// inPieces makes operations of a command, a key and words: one for each
// maxCommandWords in all. Pairs of words stay together.
func inPieces(command, key string, words []string) (all []Operation) {
	for len(words) > 0 {
		n := min(len(words), maxCommandWords-2)
		all = append(all, Operation{Keys: []string{key}, Words: slices.Concat([]string{command, key}, words[:n])})
		words = words[n:]
	}
	return all
}

// Operation is one Redis command. Keys lists the keys it touches; they must be
// keys of the partition.
type Operation struct {
	Keys  []string
	Words []string // the command and its arguments, keys included
}

// Commit carries out c under the lease. An operation that fails becomes a dead
// letter in the partition's log. Commit returns how many did. Repeating a
// commit whose answer was lost changes nothing. ErrConflict: the cursor stood
// elsewhere; ErrLeaseLost: another process holds the lease.
func (l *Log) Commit(ctx context.Context, lease *Lease, c *Commit, nowMillis int64) (dead int64, err error) {
	p := l.partition
	keys := []string{lease.key, p.cursorsKey(), p.logKey(), p.sourcesKey()}
	args := []string{lease.token, c.Follower, c.From.String(), c.To.String(),
		strconv.FormatInt(nowMillis, 10), "commit:" + c.Follower, rueidis.BinaryString(c.Log), strconv.Itoa(len(c.Operations))}
	for i, op := range c.Operations {
		if len(op.Words) == 0 || len(op.Words) > maxCommandWords {
			return 0, fmt.Errorf("commit %s: operation %d has %d words, want 1 to %d", c.Follower, i, len(op.Words), maxCommandWords)
		}
		keys = append(keys, op.Keys...)
		args = append(args, strconv.Itoa(len(op.Words)))
		args = append(args, op.Words...)
	}
	answer, err := l.writeTexts(ctx, "commit", "commit", keys, args)
	if err != nil {
		return 0, err
	}
	if answer[0] == "-1" {
		return 0, fmt.Errorf("commit %s in partition %d: %w: its cursor is at %s, not %s", c.Follower, p.Number, sluice.ErrConflict, answer[1], c.From)
	}
	if c.Appended, err = sluice.ParsePosition(answer[2]); err != nil {
		return 0, fmt.Errorf("commit %s in partition %d: read where its items are: %w", c.Follower, p.Number, err)
	}
	if c.Before, err = sluice.ParsePosition(answer[3]); err != nil {
		return 0, fmt.Errorf("commit %s in partition %d: read what is before its items: %w", c.Follower, p.Number, err)
	}
	return strconv.ParseInt(answer[1], 10, 64)
}

// Cursor returns the position of a follower whose effect is in Redis, zero if
// it never committed.
func (l *Log) Cursor(ctx context.Context, follower string) (Reached, error) {
	at, err := Ask(ctx, l.redis, "read cursor of "+follower, l.redis.B().Hget().Key(l.partition.cursorsKey()).Field(follower).Build(), Text)
	if err != nil {
		return Reached{}, err
	}
	return ParseReached(at)
}
