package transfer

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"slices"

	"sluice"
	"sluice/flow"
	"sluice/store"
)

// putBackHeld fills the held chunks of lists whose server knows nothing of them
// any more. A list that has a state is at work, or was: what it holds is newer.
//
// Under a database that has stored something since the backup, only lists whose cursor
// is in it are filled: it tells what. Those whose elements go to the logs have their
// place in logs that went back with them; what was stored since would be again.
func (r *Restore) putBackHeld(ctx context.Context, cursors []store.DumpCursor, moved bool, done *Restored) error {
	open := make(map[string]*flow.HeldRestore)
	leftOut := make(map[string]bool)
	for _, l := range r.Lists {
		held, err := l.PutBackHeld(ctx)
		if err != nil {
			return err
		}
		known := slices.ContainsFunc(cursors, func(c store.DumpCursor) bool { return c.Follower == l.Source() })
		switch {
		case held == nil:
		case moved && !known:
			leftOut[l.Source()] = true
		default:
			open[l.Source()] = held
		}
	}
	err := r.Archive.Lines("held", func(line string) error {
		var source, fresh, packed string
		var p flow.HeldPage
		err := readFields(line, map[string]any{"list": &source, "chunk": &p.Chunk, "offset": &p.Offset, "fresh": &fresh, "elements": &packed})
		if err != nil || open[source] == nil && !leftOut[source] {
			return err
		}
		p.Fresh = fresh == "true"
		if p.Elements, err = unpackElements(packed); err != nil || (len(p.Elements) == 0 && !p.Fresh) {
			return err
		}
		if leftOut[source] {
			done.HeldLeftOut += int64(len(p.Elements))
			return nil
		}
		done.Elements += int64(len(p.Elements))
		return open[source].Write(ctx, p)
	})
	if err != nil {
		return err
	}
	return r.Archive.Lines("lists", func(line string) error {
		var source, last, hole, raised string
		err := readFields(line, map[string]any{"list": &source, "last": &last, "hole": &hole, "raised": &raised})
		if err != nil || open[source] == nil {
			return err
		}
		// What the chunks lack before a cursor of the dump was dropped after its
		// effect was committed.
		ended := sluice.Position{}
		if at := slices.IndexFunc(cursors, func(c store.DumpCursor) bool { return c.Follower == source }); at >= 0 {
			ended = cursors[at].Position
		}
		return open[source].Finish(ctx, map[string]string{"last": last, "hole": hole, "raised": raised}, ended)
	})
}

// logCursors are those of the database of what follows the logs.
func (r *Restore) logCursors(ctx context.Context) (cursors []store.DumpCursor, err error) {
	for _, follower := range append(slices.Clone(r.LogFollowers), flow.LostRowsFollower) {
		at, err := r.Database.Cursors(ctx, follower, allPartitions(r.Archive.Partitions))
		if err != nil {
			return nil, err
		}
		for p, position := range at {
			cursors = append(cursors, store.DumpCursor{Follower: follower, Partition: p, Position: position})
		}
	}
	return cursors, nil
}

// movedSince reports whether the database has stored something of the logs since the
// backup: if not, everything of the backup goes on as with its own tables.
func (r *Restore) movedSince(now []store.DumpCursor) (bool, error) {
	then, _, err := r.positions()
	if err != nil {
		return false, err
	}
	return slices.ContainsFunc(now, func(n store.DumpCursor) bool {
		return !slices.ContainsFunc(then, func(t store.DumpCursor) bool {
			return t.Follower == n.Follower && t.Partition == n.Partition && t.Position == n.Position
		}) && !n.Position.IsZero()
	}), nil
}

func unpackElements(text string) ([]string, error) {
	packed, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, err
	}
	var all []string
	for len(packed) > 0 {
		n, w := binary.Uvarint(packed)
		if w <= 0 || n > uint64(len(packed)-w) {
			return nil, errors.New("its elements are cut short")
		}
		all = append(all, string(packed[w:w+int(n)]))
		packed = packed[w+int(n):]
	}
	return all, nil
}
