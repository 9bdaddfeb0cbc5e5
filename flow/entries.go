package flow

import (
	"context"
	"strconv"

	"sluice"
)

// EntryLimit is how many people may enter a journey within a period: a day, or ever.
type EntryLimit struct {
	Name   string
	Period string // of another one all counts begin anew
	Most   int64
}

// Enter takes room for people who enter a journey that limits them, in all partitions and
// processes together, and returns how many of those who want to may. Nobody wants to: it
// only gives back what another session has taken for the same commit.
//
// The idea. Room is counted in Redis when it is taken, which is before the commit by which
// the people enter: never more than the limit enter. The count says by which commit of the
// partition it was taken, by number and session. A session that ends before that commit
// has taken room for nobody. Its successor makes a commit of the same number, and that
// room is given back first.
//
// What was dropped. Shares for each partition: what one does not use the others miss.
// Counting behind the commit: two partitions would let the last person in.
//
// If Redis goes back, so do count and records, which are decided again. In a cluster they
// may be of two servers: then as many more may enter as have entered since.
func (l *Log) Enter(ctx context.Context, journey int64, commit sluice.Position, want int, limits []EntryLimit) (int, error) {
	args := []string{strconv.Itoa(l.Partition()), strconv.FormatUint(commit.Major, 10), strconv.FormatUint(commit.Minor, 10), strconv.Itoa(want)}
	for _, l := range limits {
		args = append(args, l.Name, l.Period, strconv.FormatInt(l.Most, 10))
	}
	room, err := l.redis.callInt(ctx, "take room in a journey", "enter", []string{entriesKey(journey)}, args)
	return int(room), err
}
