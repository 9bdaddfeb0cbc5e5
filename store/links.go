package store

import "context"

// LinkStore keeps the targets of links in mails that are too long for the links
// themselves. The stores of package sqlstore are ones.
type LinkStore interface {
	// PutLinks keeps targets by their hashes (link.Hash), and notes that they are in use
	// now. A target that is kept already stays.
	PutLinks(ctx context.Context, targets map[string]string) error

	// Link returns the target of a hash, or an *Error with CodeNotFound.
	Link(ctx context.Context, hash string) (target string, err error)
}
