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
// both, nobody can tell from here. Where the Redis is the owner's, it is known that nobody
// runs (checkNobodyRuns): the beats are there. A database may be a copy of the owner's.
//
// It is called again when the lists are taken, minutes later: the owner may have been
// stopped for an upgrade meanwhile, or before.
func (r *Restore) checkLists(ctx context.Context, owners []uint64) error {
	if r.TakeLists {
		return nil
	}
	elsewhere := slices.DeleteFunc(slices.Clone(owners), func(id uint64) bool { return id == 0 || id == owners[1] })
	for _, l := range r.Lists {
		held, err := l.HeldFor(ctx, elsewhere)
		if err != nil {
			return err
		}
		if held {
			return fmt.Errorf("%s is drained by a process of the installation that the backup, or the database, is of; or that process died, or a restore was broken off. A restore takes the list away from it. "+
				"To look at a backup, restore with a configuration without lists and hashes; if that process will not come back, as in a restore of your own installation, say --take-lists", l)
		}
	}
	return nil
}
