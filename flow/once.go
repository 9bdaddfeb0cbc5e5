package flow

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"sluice"
)

// Once remembers the first value that was given under a name, for ttl from then
// on. It returns that value to every caller with the same name, whatever value
// they bring. One command of Redis looks and writes (SET with NX and GET), so
// of two that come at once one is first. sluice.ErrFull: Redis takes nothing
// in.
func (r *Redis) Once(ctx context.Context, name, value string, ttl time.Duration) (first string, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	c := r.client
	first, err = c.Do(ctx, c.B().Set().Key(onceKey(name)).Value(value).Nx().Get().Px(ttl).Build()).ToString()
	if rueidis.IsRedisNil(err) {
		return value, nil
	}
	return first, r.wrap("remember a request", err)
}

// OnceOf returns what Once remembers under a name; empty: nothing.
func (r *Redis) OnceOf(ctx context.Context, name string) (first string, err error) {
	return Ask(ctx, r, "look for a request", r.B().Get().Key(onceKey(name)).Build(), Text)
}

// forgetKeys is about how many keys one call of ForgetOnce looks at.
const forgetKeys = 1000

// ForgetOnce removes all that Redis remembers for a while of what was done under a name:
// of requests, links and replays in so many partitions. It is for a Redis whose logs are
// emptied: what a repeat is taken for is no longer there. Nothing lists these names, so
// all keys of each server are looked through.
func (r *Redis) ForgetOnce(ctx context.Context, partitions int) error {
	const verb = "forget names of requests"
	tags := make(map[string]bool, partitions)
	for _, p := range Partitions(partitions) {
		tags[p.tag] = true
	}
	for _, m := range r.masters(ctx) {
		if m.err != nil {
			return r.wrap(verb, m.err)
		}
		server := &Redis{client: m.client, name: r.name}
		for cursor := uint64(0); ; {
			page, err := Ask(ctx, server, verb, r.B().Scan().Cursor(cursor).Match(prefix+"*").Count(forgetKeys).Build(), rueidis.RedisResult.AsScanEntry)
			if err != nil {
				return err
			}
			var drops rueidis.Commands
			for _, key := range page.Elements {
				if remembersOnce(key, tags) {
					drops = append(drops, r.B().Unlink().Key(key).Build())
				}
			}
			if err := r.Do(ctx, verb, drops...); err != nil {
				return err
			}
			if cursor = page.Cursor; cursor == 0 {
				break
			}
		}
	}
	return r.Do(ctx, verb, r.B().Del().Key(namesKey()).Build())
}

// TokensPerHour bounds the tokens that Redis remembers of one hour: 18 a second, with
// some 100 bytes each.
const TokensPerHour = 65_536

// FirstWith remembers, for all processes, with what a token came first. The token was made
// at a time, and is forgotten ttl after the last of its hour came. Beyond TokensPerHour a
// token is not remembered, and new is all that is known of it: known is false then.
func (r *Redis) FirstWith(ctx context.Context, made time.Time, token, with string, ttl time.Duration) (first string, known bool, err error) {
	args := []string{token, with, strconv.Itoa(TokensPerHour), strconv.FormatInt(ttl.Milliseconds(), 10)}
	first, err = run(ctx, r, "remember a token", "token", []string{tokensKey(made.Unix() / 3600)}, args, rueidis.RedisResult.ToString)
	return first, first != "", err
}

// ErrOtherBody says that another body was written under this name before.
// Nothing was written.
var ErrOtherBody = errors.New("another body came under this name")

// appendOnce writes batches under a name that is remembered for ttl; a repeat
// with the same print writes nothing. It returns how many entries the log has.
func (l *Log) appendOnce(ctx context.Context, name, print string, batches []Part, ttl time.Duration) (entries int, err error) {
	args := make([]string, 0, 3+len(batches))
	args = append(args, rueidis.BinaryString(sluice.NewBatch(0)), print, strconv.FormatInt(ttl.Milliseconds(), 10))
	for i := range batches {
		args = append(args, rueidis.BinaryString(batches[i].Items))
	}
	answer, err := l.writeTexts(ctx, "append to log once", "append_once",
		[]string{l.partition.logKey(), l.partition.sourcesKey(), l.partition.onceKey(name)}, args)
	if err != nil {
		return 0, err
	}
	if answer[0] == "-1" {
		return 0, ErrOtherBody
	}
	return strconv.Atoi(answer[1])
}

// WriteOnce writes items to one partition, in batches of their own, once. A
// repeat under the same name within ttl writes nothing and gets the same
// answer. The name and the batches are written in one step, so a caller that
// got no answer may repeat. print tells bodies apart: ErrOtherBody if another
// came under the name. Other errors are those of Write.
func (w *Writer) WriteOnce(ctx context.Context, part Part, name, print string, ttl time.Duration) error {
	if !w.enter() {
		return ErrClosed
	}
	defer w.leave()
	if err := w.room(ctx, part.Partition); err != nil {
		return err
	}
	batches, logs := part.cut(nil), w.logs[part.Partition:part.Partition+1]
	on, err := w.Replicas.server(ctx, logs)
	if err != nil {
		return fmt.Errorf("write %d bytes: %w", len(part.Items), err)
	}
	entries, err := logs[0].appendOnce(ctx, name, print, batches, ttl)
	if err != nil {
		return fmt.Errorf("write %d bytes: %w", len(part.Items), err)
	}
	w.open[part.Partition].noteAppended(entries, len(part.Items)/len(batches))
	return w.Replicas.await(ctx, logs, on)
}

// Named is the name of some items of a Part: those behind the ones of the name
// before, up to End.
type Named struct {
	Name string
	End  int
}

// WriteEach writes items to one partition, in batches of their own, those of
// each name once. Items written under their name for the same request within
// ttl are left out, and the others are written. A name and its items are
// written in one step, so a caller that got no answer may repeat, with more
// names or fewer. fresh is how many names were new, also with an error. Errors
// are those of Write.
func (w *Writer) WriteEach(ctx context.Context, part Part, request string, names []Named, ttl time.Duration) (fresh int, err error) {
	if !w.enter() {
		return 0, ErrClosed
	}
	defer w.leave()
	if err := w.room(ctx, part.Partition); err != nil {
		return 0, err
	}
	logs := w.logs[part.Partition : part.Partition+1]
	l := logs[0]
	on, err := w.Replicas.server(ctx, logs)
	if err != nil {
		return 0, fmt.Errorf("write %d bytes: %w", len(part.Items), err)
	}
	head := []string{rueidis.BinaryString(sluice.NewBatch(0)), strconv.FormatInt(ttl.Milliseconds(), 10), strconv.Itoa(sluice.MaxBatchBytes), strconv.Itoa(sluice.MaxBatchItems)}
	args, from, began := head, 0, 0
	for i, n := range names {
		pieces := cutItems(nil, part.Partition, part.Items[from:n.End])
		args = append(args, n.Name, strconv.Itoa(len(pieces)))
		for j := range pieces {
			args = append(args, rueidis.BinaryString(pieces[j].Items), strconv.Itoa(pieces[j].Count))
		}
		if from = n.End; i < len(names)-1 && from-began < maxCallBytes {
			continue
		}
		answer, err := l.writeTexts(ctx, "append each to log once", "append_each",
			[]string{l.partition.logKey(), l.partition.sourcesKey(), l.partition.takenKey(request)}, args)
		if err != nil {
			return fresh, fmt.Errorf("write %d bytes of %d: %w", from-began, len(part.Items), err)
		}
		entries, err := strconv.Atoi(answer[0])
		if err != nil {
			return fresh, fmt.Errorf("read how many entries a log has: %w", err)
		}
		written, err := strconv.Atoi(answer[1])
		if err != nil {
			return fresh, fmt.Errorf("read how many names of a request are new: %w", err)
		}
		fresh += written
		w.open[part.Partition].noteAppended(entries, min(from-began, sluice.MaxBatchBytes))
		args, began = head, from
	}
	return fresh, w.Replicas.await(ctx, logs, on)
}

// Taken returns those of some names that WriteEach has written to a partition for a
// request, within its ttl.
func (w *Writer) Taken(ctx context.Context, partition int, request string, names []string) ([]string, error) {
	l := w.logs[partition]
	answers, err := Ask(ctx, l.redis, "read what of a request is taken", l.redis.B().Hmget().Key(l.partition.takenKey(request)).Field(names...).Build(), rueidis.RedisResult.ToArray)
	if err != nil {
		return nil, err
	}
	var taken []string
	for i := range answers {
		if !answers[i].IsNil() {
			taken = append(taken, names[i])
		}
	}
	return taken, nil
}
