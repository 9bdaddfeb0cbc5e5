package transfer

import (
	"context"
	"fmt"
	"slices"
)

// checkLists refuses to take lists and hashes from an installation that may still run.
//
// Who only looks at a backup, beside the installation that it is of, would get what is
// pushed from then on, and that installation would stand still. Lists know whose they are,
// and by their leases that a process of the owner drains them, or that it died. Which of
// both, nobody can tell from here. Where the Redis or the database of the owner is the one
// that is put back, it is known that nobody runs (checkNobodyRuns).
func (r *Restore) checkLists(ctx context.Context, owners []uint64) error {
	here, archived := owners[:2], owners[2]
	if r.TakeLists || slices.Contains(here, archived) {
		return nil
	}
	for _, l := range r.Lists {
		held, err := l.HeldFor(ctx, archived)
		if err != nil {
			return err
		}
		if held {
			return fmt.Errorf("%s is drained by a process of the installation that the backup is of, or that process died: a restore takes the list away from it. "+
				"To look at a backup, restore with a configuration without lists and hashes; if that installation is gone for good, say --take-lists", l)
		}
	}
	return nil
}
