package ingest

import (
	"context"
	"fmt"
	"time"

	"sluice"
	"sluice/flow"
	"sluice/store"
)

// HashFollower adds the counts of a server's foreign hashes to the series. Its
// effect is rows, so its cursor is in the database. The cursor moves in the
// transaction that adds the rows, which the followers of other servers share.
type HashFollower struct {
	Lister
	Template *HashTemplate
	Group    *CountGroup
}

// Run follows the hashes until fetch ends.
func (h *HashFollower) Run(fetch, work context.Context) {
	flow.Follow(fetch, work, h.List.Source(), h.Log, h.Stats, func(fetch, work context.Context) error {
		return h.session(fetch, work, h.follow)
	})
}

func (h *HashFollower) follow(fetch, work context.Context, lease *flow.Lease) error {
	follower := h.List.Source()
	cursors, err := h.Store.Cursors(work, follower, []int{0})
	if err != nil {
		return fmt.Errorf("read cursor of %s: %w", follower, err)
	}
	cursor := cursors[0]
	h.passed(work, cursor)
	committed := cursor
	err = h.keeping(fetch, work, lease, cursor, func(fetch context.Context, reader *flow.ListReader, kept *listMargin) error {
		h.Group.enter()
		defer h.Group.leave()
		return flow.Pipe(fetch, work, func(ctx context.Context, emit func(*countUnit) error) error {
			return h.read(ctx, reader, cursor, emit)
		}, func(ctx context.Context, u *countUnit) error {
			if err := h.Group.apply(ctx, u); err != nil {
				return err
			}
			committed = u.move.To
			h.Stats.Accepted.Add(int64(u.fields))
			h.Stats.setListLag(follower, u.move.To, u.taken, h.Clock.Now())
			kept.applied(u.move.To, u.pages)
			h.committed(ctx, u.move.To)
			return nil
		})
	})
	if gap := h.accepted(work, err); gap != nil {
		return h.moveOver(work, committed, gap)
	}
	return err
}

// countUnit is what one server gives to a transaction.
type countUnit struct {
	move   store.Move
	counts sums
	dead   []sluice.DeadLetter
	taken  time.Time // when its first element was read
	fields int
	bytes  int
	pages  []flow.Stretch
}

// read gathers what one drain, or several full ones, have taken.
func (h *HashFollower) read(ctx context.Context, reader *flow.ListReader, cursor sluice.Position, emit func(*countUnit) error) error {
	source := h.List.Source()
	for {
		u := &countUnit{counts: make(sums), move: store.Move{Follower: source, From: cursor}}
		var element flow.Hash // its memory is used again
		add := func(page flow.Page) {
			if u.fields == 0 && len(u.dead) == 0 {
				u.taken = h.Clock.Now()
				h.Stats.taking(source, u.taken)
			}
			for i, raw := range page.Elements {
				place := sluice.Place{Position: sluice.Position{Major: page.From.Major, Minor: page.From.Minor + uint64(i)}}
				h.add(u, raw, &element, place)
			}
			u.move.To = page.To
			u.pages = append(u.pages, page.Stretch())
		}
		// Nothing is waited for: what waits is summed up in its hashes.
		if err := gatherPages(ctx, h.Clock, 0, reader, add, func() (int, int) { return u.fields, u.bytes }); err != nil {
			return err
		}
		h.Stats.taken(source, u.move.To)
		if err := emit(u); err != nil {
			return err
		}
		cursor = u.move.To
	}
}

// add adds an element. Of one that is partly good the bad fields become a dead
// letter.
func (h *HashFollower) add(u *countUnit, raw string, element *flow.Hash, place sluice.Place) {
	u.bytes += len(raw)
	deadLetter := func(reason, payload string) {
		u.dead = append(u.dead, sluice.DeadLetter{
			Source: h.List.Source(), Form: sluice.FormElement, Place: place,
			Reason: reason, Payload: []byte(payload), TimeMillis: u.taken.UnixMilli(),
		})
	}
	if err := flow.ParseHash(raw, element); err != nil {
		deadLetter(err.Error(), raw)
		return
	}
	u.fields += max(1, len(element.Fields))
	if element.Reason != "" {
		deadLetter(element.Reason, raw)
		return
	}
	day, err := h.Template.parse(element.Key)
	if err != nil {
		deadLetter(err.Error(), raw)
		return
	}
	bad := flow.Hash{Key: element.Key}
	var first error
	for _, f := range element.Fields {
		count, err := h.Template.count(&day, f)
		if err == nil {
			u.counts.add(count)
			continue
		}
		bad.Fields = append(bad.Fields, f)
		if first == nil {
			first = err
		}
	}
	if first != nil {
		deadLetter(first.Error(), bad.Element())
	}
}
