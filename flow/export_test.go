package flow

import (
	"context"

	"sluice"
)

// Open begins to read after the cursor. It brings the list's state up to the
// cursor, and drops what is committed. It fails with a *GapError if elements after
// the cursor are gone.
func (l *List) Open(ctx context.Context, lease *Lease, cursor sluice.Position) (*ListReader, error) {
	return l.openAt(ctx, lease, cursor, false)
}
