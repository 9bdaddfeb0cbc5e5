package ingest_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"sluice"
	"sluice/ingest"
	"sluice/store"
	"sluice/store/sqlstore"
	"sluice/user"
)

// stepped is a store that notes the longest range of time which a statement goes through.
type stepped struct {
	*sqlstore.Store
	longest *int64
}

func (s stepped) DeleteEvents(ctx context.Context, kind sluice.EventKind, from, to int64) (int, int64, error) {
	*s.longest = max(*s.longest, to-from)
	return s.Store.DeleteEvents(ctx, kind, from, to)
}

func (s stepped) ForgetAddresses(ctx context.Context, from, to int64) (int, int64, error) {
	*s.longest = max(*s.longest, to-from)
	return s.Store.ForgetAddresses(ctx, from, to)
}

func (s stepped) EraseEvents(ctx context.Context, names []store.Erasure, from sluice.EventKey, to int64) (int, sluice.EventKey, error) {
	*s.longest = max(*s.longest, to-from.Millis)
	return s.Store.EraseEvents(ctx, names, from, to)
}

// No statement of the keeper goes through more than an hour of events, whatever there is in
// a day: MariaDB says nothing until it has found a row, and is given up after a while.
func TestKeeperGoesHourByHour(t *testing.T) {
	b := newBed(t, "sqlite")
	k := newKept(b, ingest.Retention{Events: map[sluice.EventKind]int{sluice.KindMail: 10, sluice.KindCustom: 3}})
	k.put("new", aDay)
	for n := range 30 {
		k.put(fmt.Sprint("old ", n), 9*aDay+time.Duration(n)*30*time.Minute)
	}
	p, err := k.store.Prepare(&store.Effect{Users: &user.Changes{Erase: []string{"gone"}},
		Moves: []store.Move{{Follower: ingest.StoreRole, From: sluice.Position{Major: k.at}, To: sluice.Position{Major: k.at + 1}}}})
	b.must(err)
	_, err = k.store.Apply(b.Context(), p)
	b.must(err)
	k.clock.Move(time.Millisecond)
	var longest int64
	keeper := newKeeper(stepped{k.store, &longest}, k.clock)
	keeper.Retention, keeper.AddressDays = k.keeper.Retention, 7
	b.must(keeper.Pass(b.Context()))
	if longest == 0 || longest > time.Hour.Milliseconds() {
		t.Errorf("a statement goes through %s of events", time.Duration(longest)*time.Millisecond)
	}
	var left int
	b.must(k.db.QueryRowContext(b.Context(), "SELECT COUNT(*) FROM events WHERE kind = 'custom'").Scan(&left))
	if left != 1 {
		t.Errorf("%d events of the kind that is kept shorter are left", left)
	}
}
