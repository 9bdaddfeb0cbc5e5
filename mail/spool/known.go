package spool

import (
	"context"
	"maps"
	"slices"
	"time"

	"sluice"
	"sluice/mail"
)

// What the ledger knows of a send is looked up for a while after Redis was seen
// to be another one. A row that says sent, failed or cancelled is right for
// ever. A row that says in doubt is not. If a decision was carried out a moment
// ago, or evidence has come, the send is in a lane and the ledger is behind. To
// take the send for ended would lose it: it would leave its lane unrecorded,
// and its row would still announce an attempt. So the sender waits a moment for
// the ledger. While the ledger is behind, the send waits too, in later, where
// it keeps nothing else.

const (
	// knownWait is how long a worker waits for the ledger, so that a row in doubt is
	// as the log has it.
	knownWait = 500 * time.Millisecond

	// knownAgain is after what time a send is looked at again of which it could not
	// be known.
	knownAgain = 2 * time.Second
)

// known takes those out of a window that the ledger has as ended, and gives
// their marks up. It does so for AfterMove after a change of Redis, and with what is
// attempted once more for DoubtAfter longer: it was put in doubt in that time.
func (s *Sender) known(ctx context.Context, route string, window []*item) (left []*item, err error) {
	now := s.Clock.Now()
	byKey := make(map[mail.SendKey]*item)
	for _, it := range window {
		until := it.part.lookUntil
		if it.send.Doubted {
			until = until.Add(s.DoubtAfter)
		}
		if it.broken == nil && now.Before(until) {
			byKey[it.send.Key()] = it
		}
	}
	if len(byKey) == 0 {
		return window, nil
	}
	ended, unsure, err := s.ended(ctx, byKey)
	if err != nil {
		return nil, err
	}
	behind := make(map[*part]bool)
	if len(unsure) > 0 {
		if behind, err = s.behind(ctx, unsure); err != nil {
			return nil, err
		}
		more, still, err := s.ended(ctx, unsure)
		if err != nil {
			return nil, err
		}
		for _, it := range still {
			if !behind[it.part] {
				more = append(more, it)
			}
		}
		ended, unsure = append(ended, more...), still
	}
	out := make(map[*item]bool)
	var waits []*item
	for _, it := range ended {
		out[it] = true
	}
	for _, it := range unsure {
		if behind[it.part] {
			out[it] = true
			waits = append(waits, it)
		}
	}
	if len(out) == 0 {
		return window, nil
	}
	for _, it := range window {
		if !out[it] {
			left = append(left, it)
		}
	}
	if len(ended) > 0 {
		s.Log.Warn("sends that have ended were still pending in redis; they are not attempted again", "sends", len(ended), "first", ended[0].id())
	}
	s.leave(ctx, route, ended, waits)
	return left, nil
}

// leave has sends leave their lanes that have ended, and those wait in later of
// which nobody knows.
func (s *Sender) leave(ctx context.Context, route string, ended, waits []*item) {
	for _, m := range s.markAll(ctx, route, ended) {
		s.hand(ctx, finished{item: m.item})
	}
	until := s.Clock.Now().Add(knownAgain).UnixMilli()
	for _, m := range s.markAll(ctx, route, waits) {
		f, over := s.notAttempted(m)
		if !over {
			again := m.item.send
			again.DueMillis = until
			f.verdict.again = &again
		}
		s.hand(ctx, f)
	}
}

// ended returns which of some sends have ended in the ledger, and of which that is
// not sure: they are in doubt there.
func (s *Sender) ended(ctx context.Context, sends map[mail.SendKey]*item) (ended []*item, unsure map[mail.SendKey]*item, err error) {
	rows, err := s.Record.SendRows(ctx, slices.Collect(maps.Keys(sends)))
	if err != nil {
		return nil, nil, err
	}
	unsure = make(map[mail.SendKey]*item)
	for i := range rows {
		key := rows[i].Key()
		switch it := sends[key]; {
		case !over(&rows[i], &it.send):
		case rows[i].State == mail.SendInDoubt:
			unsure[key] = it
		default:
			ended = append(ended, it)
		}
	}
	return ended, unsure, nil
}

// behind returns the partitions of sends whose log the ledger has not stored, after
// a moment.
func (s *Sender) behind(ctx context.Context, sends map[mail.SendKey]*item) (map[*part]bool, error) {
	parts := make(map[*part]bool)
	for _, it := range sends {
		if _, asked := parts[it.part]; asked {
			continue
		}
		has, err := s.stored(ctx, it.part.lanes, func(waited time.Duration, _, _ sluice.Position) bool { return waited < knownWait })
		if err != nil {
			return nil, err
		}
		parts[it.part] = !has
	}
	return parts, nil
}
