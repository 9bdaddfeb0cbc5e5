package flow

import (
	"context"
	"time"

	"github.com/redis/rueidis"
)

// Once remembers the first value that was given under a name, for ttl from
// then on, and returns it: the same to everybody who asks with the same name,
// whatever value they bring. One command of Redis looks and writes (SET with
// NX and GET), so of two that come at once one is first. sluice.ErrFull: Redis
// takes nothing in.
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
