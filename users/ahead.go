package users

import (
	"context"
	"maps"
	"slices"

	"sluice"
)

// Ahead reads users as they will be when a transaction is written that is on
// its way, so that the next one can be made meanwhile.
//
// The idea. What that transaction changes of users is known before it is
// written. Whatever the store answers is corrected by it: users and numbers are
// replaced, keys and addresses added and taken away.
//
// The invariant. It makes no difference whether the store answers from before
// or from after that transaction: each correction says what holds after it.
// What others change meanwhile (a key that a merge moves on) is not hidden by
// it, or is found by the tombstone that they leave. If the transaction fails,
// so must the next one: both are made again.
type Ahead struct {
	store   Reader
	put     map[sluice.UserID]sluice.UserRow
	drop    map[sluice.UserID]bool
	owner   map[sluice.UserKey]sluice.UserID   // of keys that are given
	address map[sluice.UserKey][]sluice.UserID // that are added
	gone    map[sluice.KeyRow]bool             // keys and addresses
	numbers map[int]sluice.UserNumbers
}

// NewAhead returns a reader for after c, which may be nil. c must not be changed
// any more.
func NewAhead(store Reader, c *sluice.UserChanges) Reader {
	if c == nil {
		return store
	}
	a := &Ahead{
		store: store, numbers: c.Numbers,
		put:     make(map[sluice.UserID]sluice.UserRow, len(c.Put)),
		drop:    make(map[sluice.UserID]bool, len(c.Drop)),
		owner:   make(map[sluice.UserKey]sluice.UserID, len(c.MoveKeys)+len(c.AddKeys)),
		address: make(map[sluice.UserKey][]sluice.UserID, len(c.AddAddress)),
		gone:    make(map[sluice.KeyRow]bool, len(c.DropKeys)+len(c.DropAddress)),
	}
	for _, row := range c.Put {
		a.put[row.ID] = row
	}
	for _, id := range c.Drop {
		a.drop[id] = true
	}
	for _, rows := range [][]sluice.KeyRow{c.MoveKeys, c.AddKeys} {
		for _, r := range rows {
			a.owner[r.Key] = r.ID
		}
	}
	for _, r := range c.AddAddress {
		a.address[r.Key] = append(a.address[r.Key], r.ID)
	}
	for _, rows := range [][]sluice.KeyRow{c.DropKeys, c.DropAddress} {
		for _, r := range rows {
			a.gone[r] = true
		}
	}
	return a
}

// Users is what the store will answer.
func (a *Ahead) Users(ctx context.Context, q sluice.UserQuery) (sluice.UserAnswer, error) {
	answer, err := a.store.Users(ctx, q)
	if err != nil {
		return answer, err
	}
	var more []sluice.UserID // whom the store did not look for, or does not have yet
	for _, k := range q.Keys {
		if ids := a.owners(k, answer.ByKey[k]); len(ids) > 0 {
			answer.ByKey[k] = ids
		} else {
			delete(answer.ByKey, k)
		}
		if id, ok := a.owner[k]; ok {
			more = append(more, id)
		}
		more = append(more, a.address[k]...)
	}
	for _, id := range q.IDs {
		if _, ok := a.put[id]; ok {
			more = append(more, id)
		}
	}
	if err := a.readMore(ctx, more, &answer); err != nil {
		return answer, err
	}
	for id := range answer.Users {
		if row, ok := a.put[id]; ok {
			answer.Users[id] = row
		} else if a.drop[id] {
			delete(answer.Users, id)
		}
	}
	for _, p := range q.Numbers {
		if n, ok := a.numbers[p]; ok {
			answer.Numbers[p] = n
		}
	}
	return answer, nil
}

// owners are whose a key will be.
func (a *Ahead) owners(k sluice.UserKey, ids []sluice.UserID) []sluice.UserID {
	if id, ok := a.owner[k]; ok {
		return []sluice.UserID{id}
	}
	ids = slices.DeleteFunc(ids, func(id sluice.UserID) bool { return a.gone[sluice.KeyRow{Key: k, ID: id}] })
	if more := a.address[k]; len(more) > 0 {
		ids = append(ids, more...)
		slices.SortFunc(ids, compareIDs)
		ids = slices.Compact(ids)
	}
	return ids
}

// readMore adds users: those who are on their way as they will be, others as
// they are.
func (a *Ahead) readMore(ctx context.Context, ids []sluice.UserID, answer *sluice.UserAnswer) error {
	var unread []sluice.UserID
	for _, id := range ids {
		_, known := answer.Users[id]
		if row, ok := a.put[id]; ok {
			answer.Users[id] = row
		} else if !known {
			unread = append(unread, id)
		}
	}
	for some := range slices.Chunk(unread, sluice.MaxUserQuery) {
		more, err := a.store.Users(ctx, sluice.UserQuery{IDs: some})
		if err != nil {
			return err
		}
		maps.Copy(answer.Users, more.Users)
	}
	return nil
}
