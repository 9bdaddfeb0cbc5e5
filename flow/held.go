package flow

import (
	"context"

	"github.com/redis/rueidis"
)

// Remaining returns how many elements are held and not applied. The chunks are
// measured a moment after they are looked up, so the number is a near one while
// the list is being drained.
func (l *List) Remaining(ctx context.Context) (int64, error) {
	verb, c := "measure what is held of "+l.String(), l.redis.client
	at, _, err := l.lookAt(ctx)
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var commands rueidis.Commands
	for chunk := at.done.Major; chunk <= at.last && len(commands) <= maxHeldChunks; chunk = at.after(chunk) {
		commands = append(commands, c.B().Llen().Key(l.keys.heldKey(chunk)).Build())
	}
	total := int64(0)
	for i, answer := range c.DoMulti(ctx, commands...) {
		n, err := answer.AsInt64()
		if err != nil {
			return 0, l.redis.wrap(verb, err)
		}
		if i == 0 { // of it a part is applied, of which something may be kept
			applied := at.done.Minor
			if at.done.Major == at.first {
				applied -= at.base
			}
			n = max(0, n-int64(applied))
		}
		total += n
	}
	return total, nil
}
