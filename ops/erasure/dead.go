package erasure

import (
	"context"

	"sluice"
	"sluice/ingest"
	"sluice/store"
)

// eraseDeadPage is how many dead letters are listed at once; their payloads are
// read one by one.
const eraseDeadPage = 500

// eraseDead drops the dead letters of users who were deleted: one that is
// replayed would bring its user back. A user who is only mentioned, in an
// element's other members, is not found, as in events.
func (x *Eraser) eraseDead(ctx context.Context, names []store.Erasure) error {
	until := make(map[string]int64, len(names))
	for _, n := range names {
		until[n.Name] = n.CreatedMillis + store.ErasureMarginMillis
	}
	dropped := 0
	defer func() {
		if dropped > 0 {
			x.Log.Info("dead letters of deleted users were dropped", "names", len(names), "rows", dropped)
		}
	}()
	for after := int64(0); ; {
		page, err := x.Store.DeadLetters(ctx, after, eraseDeadPage)
		if err != nil || len(page) == 0 {
			return err
		}
		for i := range page {
			after = page[i].ID
			l, err := x.Store.DeadLetter(ctx, after)
			if sluice.IsNotFound(err) {
				continue // replayed or dropped since it was listed
			}
			if err != nil {
				return err
			}
			if !namesErased(&l, until) {
				continue
			}
			if err := x.Store.DropDeadLetter(ctx, after); err != nil {
				return err
			}
			dropped++
		}
	}
}

// namesErased reports whether a dead letter belongs to an erased user and is
// older than the moment noted with the name.
func namesErased(l *sluice.DeadLetter, until map[string]int64) bool {
	at := l.TimeMillis
	if major := l.Place.Position.Major; l.Form != sluice.FormElement && major > 0 {
		at = int64(min(major, sluice.MaxEventTimeMillis)) // when it was accepted
	}
	for _, name := range ingest.UsersOf(l) {
		if moment, ok := until[name]; ok && at <= moment {
			return true
		}
	}
	return false
}
