package ingest

import (
	"context"
	"fmt"
	"time"

	"sluice"
	"sluice/flow"
	"sluice/store"
	"sluice/user"
	"sluice/user/users"
)

// appliedLook is how often Applied looks.
const appliedLook = 20 * time.Millisecond

// Applied waits for what was written to be applied by the store follower,
// wherever that runs.
type Applied struct {
	Store store.Store
	Users user.Store
	Logs  []*flow.Log // by partition
}

// Await returns nil once everything written for these keys before the call has
// been applied to their users. It returns an error when ctx ends first. A user
// can live in another partition than the key: then Await waits for that one too,
// and for what the one of the key has for it. It waits for no other, since one that
// stands still, or whose Redis is away, must keep nobody else waiting. It follows one
// step only: a merge at the same moment may move the user a step further.
func (a *Applied) Await(ctx context.Context, keys []user.Key) error {
	seen := make(map[int]bool)
	for _, k := range keys {
		seen[k.Partition(len(a.Logs))] = true
	}
	if err := a.logs(ctx, func(p int) bool { return seen[p] }); err != nil {
		return err
	}
	found, _, err := users.Find(ctx, a.Users, keys)
	if err != nil {
		return err
	}
	type way struct{ from, to int }
	ways, homes := make(map[way]bool), make(map[int]bool)
	for k, owners := range found { // of an address there are several, and any of them may be meant
		for i := range owners {
			w := way{k.Partition(len(a.Logs)), owners[i].Row.ID.Partition}
			if w.from == w.to || ways[w] {
				continue
			}
			if err := a.forwarded(ctx, w.from, w.to); err != nil {
				return err
			}
			ways[w], homes[w.to] = true, true
		}
	}
	if len(homes) == 0 {
		return nil
	}
	return a.logs(ctx, func(p int) bool { return homes[p] })
}

// All returns when all that the logs have by now has been applied, or an error
// when ctx ends before that.
func (a *Applied) All(ctx context.Context) error {
	return a.logs(ctx, func(int) bool { return true })
}

// logs waits until all that stands in the logs of some partitions by now has
// been applied.
func (a *Applied) logs(ctx context.Context, wanted func(partition int) bool) error {
	ends := make(map[int]sluice.Position)
	var partitions []int
	for p, l := range a.Logs {
		if !wanted(p) {
			continue
		}
		last, err := l.Last(ctx)
		if err != nil {
			return fmt.Errorf("read the end of the log of partition %d: %w", p, err)
		}
		ends[p], partitions = last, append(partitions, p)
	}
	return a.poll(ctx, func() (bool, error) {
		cursors, err := a.Store.Cursors(ctx, StoreRole, partitions)
		if err != nil {
			return false, fmt.Errorf("read cursors of %s: %w", StoreRole, err)
		}
		for p, end := range ends {
			if cursors[p].Before(end) {
				return false, nil
			}
		}
		return true, nil
	})
}

// forwarded waits until all that a partition has for another by now has reached its log.
func (a *Applied) forwarded(ctx context.Context, from, to int) error {
	answer, err := a.Users.Users(ctx, user.Query{Numbers: []int{from}})
	if err != nil {
		return err
	}
	last := answer.Numbers[from].Forward
	return a.poll(ctx, func() (bool, error) {
		first, err := a.Users.Forwards(ctx, user.ForwardQuery{From: from, To: to}, 1)
		return len(first) == 0 || first[0].ID > last, err
	})
}

// poll asks again and again until the answer is yes.
func (a *Applied) poll(ctx context.Context, done func() (bool, error)) error {
	ticker := time.NewTicker(appliedLook)
	defer ticker.Stop()
	for {
		if yes, err := done(); yes || err != nil {
			return err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("wait until updates of users are applied: %w", ctx.Err())
		}
	}
}
