package flow

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"sluice"
)

// What a restore does to lists. No process drains them meanwhile.

// HandOver gives a list to the new deployment, if it belonged to one of the old
// ones or to none. A list of another deployment stays with it: Open says so.
func (l *List) HandOver(ctx context.Context, from []uint64, to uint64) error {
	state, err := l.state(ctx, "deployment")
	if err != nil {
		return err
	}
	owner, err := strconv.ParseUint(state[0], 10, 64)
	if err != nil || !slices.Contains(from, owner) {
		return nil // never drained, or another deployment's
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	set := l.redis.client.B().Hset().Key(l.keys.stateKey()).FieldValue().FieldValue("deployment", strconv.FormatUint(to, 10)).Build()
	return l.redis.wrap("hand over "+l.String(), l.redis.client.Do(ctx, set).Error())
}

// Resume returns where a cursor goes on. That is where it is, or where the held
// part begins if that is behind a gap (Open would fail with it).
func (l *List) Resume(ctx context.Context, cursor sluice.Position) (sluice.Position, error) {
	state, err := l.state(ctx, "first", "base", "ended", "hole", "raised")
	if err != nil {
		return cursor, err
	}
	n := [5]uint64{0: 1}
	for _, i := range []int{0, 1, 3, 4} {
		if state[i] == "" {
			continue
		}
		if n[i], err = strconv.ParseUint(state[i], 10, 64); err != nil {
			return cursor, fmt.Errorf("look at %s: its state %q cannot be read: %w", l, state, err)
		}
	}
	ended, err := sluice.ParsePosition(state[2])
	if err != nil {
		return cursor, fmt.Errorf("look at %s: its state %q cannot be read: %w", l, state, err)
	}
	r := &ListReader{first: n[0], base: n[1], hole: n[3], raised: n[4]}
	if r.gapBehind(cursor, ended) {
		return sluice.Position{Major: r.first, Minor: r.base}, nil
	}
	return cursor, nil
}

// state reads fields of a list's state; a missing field is "".
func (l *List) state(ctx context.Context, fields ...string) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	c := l.redis.client
	answer, err := c.Do(ctx, c.B().Hmget().Key(l.keys.stateKey()).Field(fields...).Build()).ToArray()
	if err != nil {
		return nil, l.redis.wrap("look at "+l.String(), err)
	}
	state := make([]string, len(fields))
	for i := range answer {
		state[i], _ = answer[i].ToString() // nil: ""
	}
	return state, nil
}
