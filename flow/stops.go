package flow

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"sluice"
)

// What is stopped is a hash that all processes read twice a second. Operators stop mail
// without the database. But a Redis can go back in time, be emptied, or be another one,
// and what was stopped would go on. So the processes that send copy the hash into the
// database (mail/route/keep.go). Where a Redis is not the one on which the hash was last
// known to be complete, by its replication id, it gets what the database has.
//
// Each time that happens an epoch begins, one above the last that Redis and the database know
// of. A process that a network has cut off beside an old master has a lower one than those
// beside its successor, and does not overwrite what these have kept.

// Stops returns everything that is stopped in all processes, by name, with its
// note.
func (r *Redis) Stops(ctx context.Context) (map[string]string, error) {
	return Ask(ctx, r, "read what is stopped", r.B().Hgetall().Key(stopsKey()).Build(), rueidis.RedisResult.AsStrMap)
}

// StopsHere is Stops, with the epoch in which they are complete on this Redis: since it is
// the one that it is, StopAgain has added what the database has. 0: it has not.
func (r *Redis) StopsHere(ctx context.Context) (names map[string]string, epoch uint64, err error) {
	const verb = "read what is stopped"
	answer, err := r.callTexts(ctx, verb, "stops", []string{stopsKey(), stopsAtKey()}, nil)
	if err != nil {
		return nil, 0, err
	}
	if len(answer)%2 == 0 {
		return nil, 0, fmt.Errorf("%s: redis %s: %d texts are no answer of the script", verb, r.name, len(answer))
	}
	names = make(map[string]string, len(answer)/2)
	for i := 1; i < len(answer); i += 2 {
		names[answer[i]] = answer[i+1]
	}
	if epoch, err = strconv.ParseUint(answer[0], 10, 64); err != nil {
		return nil, 0, fmt.Errorf("%s: redis %s: read their epoch: %w", verb, r.name, err)
	}
	return names, epoch, nil
}

// StopAgain stops what was stopped before this Redis became the one that it is, and notes
// that all of it is there now, in an epoch above that of the database. It works in a full
// Redis as well.
func (r *Redis) StopAgain(ctx context.Context, names map[string]string, epoch uint64) error {
	args := []string{strconv.FormatUint(epoch, 10)}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		args = append(args, name, names[name])
	}
	_, err := r.callInt(ctx, "stop again what was stopped", "stop_again", []string{stopsKey(), stopsAtKey()}, args)
	return err
}

// KnowsStops reports whether this Redis, or the one that it was before, has had all of them.
func (r *Redis) KnowsStops(ctx context.Context) (bool, error) {
	n, err := Ask(ctx, r, "read whether stops are known", r.B().Exists().Key(stopsAtKey()).Build(), rueidis.RedisResult.AsInt64)
	return n > 0, err
}

// ForgetStopsAt has processes add what the database has: it is another one.
func (r *Redis) ForgetStopsAt(ctx context.Context) error {
	return r.Do(ctx, "have stops read from the database", r.B().Del().Key(stopsAtKey()).Build())
}

// Stop stops something in all processes until Unstop. note says by whom (the
// operator), when and why. Beyond most names with one of the words of beside before
// their colon nothing more of these is stopped: ErrFull. Without beside nothing is refused.
func (r *Redis) Stop(ctx context.Context, name, note string, most int, beside ...string) error {
	n, err := r.callInt(ctx, "stop "+name, "stop", []string{stopsKey()}, append([]string{name, note, strconv.Itoa(most)}, beside...))
	if err == nil && n == 0 {
		err = fmt.Errorf("stop %s: %w: %d stops by %s exist already; lift some", name, sluice.ErrFull, most, strings.Join(beside, " and "))
	}
	return err
}

// Unstop lets it go on, and reports whether it was stopped.
func (r *Redis) Unstop(ctx context.Context, name string) (bool, error) {
	n, err := Ask(ctx, r, "let "+name+" go on", r.B().Hdel().Key(stopsKey()).Field(name).Build(), rueidis.RedisResult.AsInt64)
	return n > 0, err
}
