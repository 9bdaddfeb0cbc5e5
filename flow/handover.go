package flow

import (
	"context"
	"slices"
	"strconv"

	"sluice"
)

// What a restore does to lists. No process drains them meanwhile.

// HandOver gives a list to the new deployment, if it belonged to one of the old
// ones or to none. A list of another deployment stays with it: OpenKeeping says so.
func (l *List) HandOver(ctx context.Context, from []uint64, to uint64) error {
	state, err := l.state(ctx, "deployment")
	if err != nil {
		return err
	}
	owner, err := strconv.ParseUint(state[0], 10, 64)
	if err != nil || !slices.Contains(from, owner) {
		return nil // never drained, or another deployment's
	}
	return l.redis.Do(ctx, "hand over "+l.String(), l.redis.B().Hset().Key(l.keys.stateKey()).FieldValue().FieldValue("deployment", strconv.FormatUint(to, 10)).Build())
}

// HeldFor reports whether a process of one of these deployments drains the list, or has died
// while it did: it has not given its lease back.
func (l *List) HeldFor(ctx context.Context, deployments []uint64) (bool, error) {
	state, err := l.state(ctx, "deployment")
	if err != nil {
		return false, err
	}
	owner, err := strconv.ParseUint(state[0], 10, 64)
	if err != nil || !slices.Contains(deployments, owner) {
		return false, nil // never drained, or another deployment's
	}
	lease, err := l.redis.fields(ctx, "look at "+l.String(), l.keys.leaseKey(), "token")
	return err == nil && lease[0] != "", err
}

// Resume returns where a cursor goes on. That is where it is, or where the held
// part begins if that is behind a gap (OpenKeeping would fail with it).
func (l *List) Resume(ctx context.Context, cursor sluice.Position) (sluice.Position, error) {
	r, ended, err := l.lookAt(ctx)
	if err == nil && r.gapBehind(cursor, ended) {
		cursor = r.start()
	}
	return cursor, err
}

// state reads fields of a list's state; a missing field is "".
func (l *List) state(ctx context.Context, fields ...string) ([]string, error) {
	return l.redis.fields(ctx, "look at "+l.String(), l.keys.stateKey(), fields...)
}
