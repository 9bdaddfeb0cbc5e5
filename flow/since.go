package flow

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"sluice"
	"sluice/store"
)

// PartitionByPerson is the way in which events and sends go to the partition of the person
// whom they name.
const PartitionByPerson = "partition_by_person"

// Since returns since when something is done in a way that has this name, and whether
// nobody had asked before: then it is done so from now on. The database keeps it as a
// cursor of this name. A Redis that is emptied or replaced, as by a restore, would begin anew,
// while the processes that live go by what they know. An older program has noted it in Redis
// alone: so it is taken from there.
func Since(ctx context.Context, r *Redis, db store.Store, name string, now time.Time) (since time.Time, first bool, err error) {
	cursors, err := db.Cursors(ctx, name, []int{0})
	if err != nil {
		return time.Time{}, false, fmt.Errorf("read since when it is done this way: %w", err)
	}
	if at := cursors[0]; !at.IsZero() {
		return time.UnixMilli(int64(at.Major)), false, nil
	}
	if since, first, err = r.since(ctx, name, now); err != nil {
		return time.Time{}, false, err
	}
	if err := moveNote(ctx, db, name, sluice.Position{}, sluice.Position{Major: uint64(since.UnixMilli())}); err != nil {
		return time.Time{}, false, fmt.Errorf("write since when it is done this way: %w", err)
	}
	return since, first, nil
}

// since is Since of this Redis, which may be full.
func (r *Redis) since(ctx context.Context, name string, now time.Time) (since time.Time, first bool, err error) {
	const verb = "read since when it is done this way"
	answer, err := r.callTexts(ctx, verb, "since", []string{sinceKey()}, []string{name, strconv.FormatInt(now.UnixMilli(), 10)})
	if err != nil {
		return time.Time{}, false, err
	}
	millis, err := strconv.ParseInt(answer[0], 10, 64)
	if err != nil {
		return time.Time{}, false, fmt.Errorf("%s: %q is no time: %w", verb, answer[0], err)
	}
	return time.UnixMilli(millis), answer[1] == "1", nil
}
