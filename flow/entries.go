package flow

import (
	"context"
	"fmt"
	"strconv"

	"github.com/redis/rueidis"

	"sluice"
)

// EntryLimit is how many people may enter a journey within a period: a day, or ever.
type EntryLimit struct {
	Name   string
	Period string // a newer one begins at none; one that is older than the last two has no room
	Most   int64
}

// EntryCount is how many people a partition has let into a journey, by commits, in the
// period of a limit.
type EntryCount struct {
	Partition    int
	Name, Period string
	Count        int64
}

// Enter takes room for people who enter a journey that limits them, in all partitions and
// processes together, and returns how many of those who want to may. ErrConflict: this
// session has not said yet what its partition has let in (CountEntered), or another has
// said it since, or Redis was emptied.
//
// The idea. Room is counted in Redis when it is taken, which is before the commit by which
// the people enter: never more than the limit enter. Beside it is counted what each
// partition has taken. The commit itself has what the partition has let in by then, as a
// note beside its records. A session that begins tells that: what the partition has taken
// beyond it was taken by a commit that never came, and is given back.
//
// The notes are in checkpoints. So where Redis was emptied the counts are made anew of what
// all partitions have noted, by the first one that comes.
//
// What was dropped. Shares for each partition: what one does not use the others miss.
// Counting behind the commit: two partitions would let the last person in. Counting the
// people in the records: they say nothing of days and runs, nor of who enters again.
//
// If Redis goes back, so do count and records, which are decided again. In a cluster they
// may be of two servers: then as many more may enter as have entered since.
func (l *Log) Enter(ctx context.Context, journey int64, session uint64, want int, limits []EntryLimit) (int, error) {
	args := []string{strconv.Itoa(l.Partition()), strconv.FormatUint(session, 10), strconv.Itoa(want)}
	for _, l := range limits {
		args = append(args, l.Name, l.Period, strconv.FormatInt(l.Most, 10))
	}
	room, err := l.redis.callInt(ctx, "take room in a journey", "enter", []string{entriesKey(journey)}, args)
	if err == nil && room < 0 {
		err = fmt.Errorf("take room in journey %d for partition %d: %w: another session has the partition, or redis was emptied", journey, l.Partition(), sluice.ErrConflict)
	}
	return int(room), err
}

// CountsEntered reports whether Redis has counts of who has entered a journey.
func (l *Log) CountsEntered(ctx context.Context, journey int64) (bool, error) {
	n, err := Ask(ctx, l.redis, "look for who has entered a journey", l.redis.B().Exists().Key(entriesKey(journey)).Build(), rueidis.RedisResult.AsInt64)
	return n > 0, err
}

// CountEntered says what partitions have let into a journey, the older period of a limit
// first. From now on the session may take room for this partition. What this partition has
// taken beyond that is given back. Counts of other partitions are taken if there are none.
func (l *Log) CountEntered(ctx context.Context, journey int64, session uint64, counts []EntryCount) error {
	args := []string{strconv.Itoa(l.Partition()), strconv.FormatUint(session, 10), "count"}
	for _, c := range counts {
		args = append(args, strconv.Itoa(c.Partition), c.Name, c.Period, strconv.FormatInt(c.Count, 10))
	}
	_, err := l.redis.callInt(ctx, "count who has entered a journey", "enter", []string{entriesKey(journey)}, args)
	return err
}
