package flow

import (
	"context"
	"fmt"
	"strconv"

	"github.com/redis/rueidis"
)

// Remaining returns how many elements are held and not dropped. The chunks are
// measured a moment after they are looked up, so the number is a near one while
// the list is being drained.
func (l *List) Remaining(ctx context.Context) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	verb, c := "measure what is held of "+l.String(), l.redis.client
	state, err := c.Do(ctx, c.B().Hmget().Key(l.keys.stateKey()).Field("first", "last", "hole", "raised").Build()).ToArray()
	if err != nil {
		return 0, l.redis.wrap(verb, err)
	}
	n := [4]uint64{1, 0, 0, 0}
	for i := range state {
		text, err := state[i].ToString()
		if rueidis.IsRedisNil(err) {
			continue
		}
		if err == nil {
			n[i], err = strconv.ParseUint(text, 10, 64)
		}
		if err != nil {
			return 0, fmt.Errorf("%s: its state %q cannot be read: %w", verb, text, err)
		}
	}
	chunks := ListReader{first: n[0], last: n[1], hole: n[2], raised: n[3]}
	var commands rueidis.Commands
	for chunk := chunks.first; chunk <= chunks.last && len(commands) < maxHeldChunks; chunk = chunks.after(chunk) {
		commands = append(commands, c.B().Llen().Key(l.keys.heldKey(chunk)).Build())
	}
	total := int64(0)
	for _, answer := range c.DoMulti(ctx, commands...) {
		n, err := answer.AsInt64()
		if err != nil {
			return 0, l.redis.wrap(verb, err)
		}
		total += n
	}
	return total, nil
}
