package flow

import (
	"context"
	"strconv"
	"time"
)

// Since returns since when something is done in a way that has this name, and
// whether nobody had asked before: then it is done so from now on. A Redis that is
// full takes no note of it.
func (r *Redis) Since(ctx context.Context, name string, now time.Time) (since time.Time, first bool, err error) {
	const verb = "read since when it is done this way"
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	c := r.client
	answers := c.DoMulti(ctx,
		c.B().Hsetnx().Key(sinceKey()).Field(name).Value(strconv.FormatInt(now.UnixMilli(), 10)).Build(),
		c.B().Hget().Key(sinceKey()).Field(name).Build())
	millis, err := answers[1].AsInt64()
	if err == nil {
		first, _ = answers[0].AsBool() // false if it could not be noted, for it was already
		return time.UnixMilli(millis), first, nil
	}
	if noted := answers[0].Error(); noted != nil {
		err = noted
	}
	return time.Time{}, false, r.wrap(verb, err)
}
