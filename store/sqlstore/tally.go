package sqlstore

import (
	"context"
	"fmt"

	"sluice"
)

// The series count events too, and only those really inserted: a repeat that
// the table leaves out must not count. Of nearly every effect all are inserted,
// so their sums are made ahead, while the effect before is still applied. Only
// if the bulk path reports duplicates is the table asked which places of this
// effect it has now (index log_position). If it has other places than were
// inserted, some were there before, as after a cursor was set back. Then the
// effect goes by pieces or row by row, where each row reports its outcome.

// tallyKey is what events are counted under.
type tallyKey struct {
	kind sluice.EventKind
	app  string
	name string
	at   int64 // sluice.RoundCountTime
}

// tally sums events.
type tally map[tallyKey]int64

func (t tally) add(e *sluice.Event) {
	t[tallyKey{e.Kind, e.App, e.Name, sluice.RoundCountTime(e.TimeMillis)}]++ // times of events are not before 1970
}

// counts appends the sums to counts that came as counts.
func (t tally) counts(counts []sluice.Count) []sluice.Count {
	all := make([]sluice.Count, len(counts), len(counts)+len(t))
	copy(all, counts)
	for k, n := range t {
		all = append(all, sluice.Count{Kind: k.kind, TimeMillis: k.at, By: n, App: k.app, Name: k.name})
	}
	return all
}

// tallyAll sums a section's events as if all of them were inserted.
func (sec *section) tallyAll() tally {
	t := make(tally)
	for i := range sec.events {
		t.add(&sec.events[i].Event)
	}
	return t
}

// tallyInserted sums those of a section's events that the bulk path has
// inserted, of which it says how many there are. It notes their places if they
// are not all of the effect.
func (t *txn) tallyInserted(ctx context.Context, sec *section, rows int) (tally, error) {
	if rows == len(sec.events) {
		for i := 0; t.inserted != nil && i < len(sec.events); i++ {
			t.inserted[sec.events[i].Place] = struct{}{}
		}
		return sec.tally, nil
	}
	if t.inserted == nil {
		t.inserted = make(map[sluice.Place]struct{}, rows)
	}
	inserted := make(tally)
	if rows == 0 {
		return inserted, nil
	}
	places := make(map[sluice.Place]int, len(sec.events))
	spans := make(map[int][2]uint64) // of the partitions: the first and the last Major
	times := [2]int64{sec.events[0].TimeMillis, sec.events[0].TimeMillis}
	for i := range sec.events {
		p, at := sec.events[i].Place, sec.events[i].TimeMillis
		times = [2]int64{min(times[0], at), max(times[1], at)}
		places[p] = i
		span, ok := spans[p.Partition]
		if !ok {
			span[0] = p.Position.Major
		}
		spans[p.Partition] = [2]uint64{min(span[0], p.Position.Major), max(span[1], p.Position.Major)}
	}
	found := make([]sluice.Place, 0, rows)
	for partition, span := range spans {
		err := t.eachPlace(ctx, partition, span, times, func(p sluice.Place) {
			if i, ok := places[p]; ok {
				inserted.add(&sec.events[i].Event)
				found = append(found, p)
			}
		})
		if err != nil {
			return nil, fmt.Errorf("find the events that were inserted: %w", err)
		}
	}
	if len(found) != rows {
		return nil, fmt.Errorf("%w: %d events were inserted, and the table has %d of their places", sluice.ErrRefused, rows, len(found))
	}
	for _, p := range found {
		t.inserted[p] = struct{}{}
	}
	return inserted, nil
}

// eachPlace calls f with the places of a partition's stored events. Their times
// are asked for so that only the days of those are looked through.
func (t *txn) eachPlace(ctx context.Context, partition int, span [2]uint64, times [2]int64, f func(sluice.Place)) error {
	d := t.store.d
	args := []any{partition, d.number(span[0]), d.number(span[1]), d.millis(times[0]), d.millis(times[1])}
	return t.each(ctx, rawQuery(d, "event_places"), args, func(scan scanner) error {
		place := sluice.Place{Partition: partition}
		err := scan((*number)(&place.Position.Major), (*number)(&place.Position.Minor), &place.Index)
		if err == nil {
			f(place)
		}
		return err
	})
}
