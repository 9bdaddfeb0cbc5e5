package sqlstore

import (
	"context"
	"maps"
	"slices"
	"strings"

	"sluice/store"
)

var _ store.LinkStore = (*Store)(nil)

// linksAtOnce is how many links are written in one transaction, by one statement where the
// database is a server: a mail waits for them, and each statement is a round trip.
const linksAtOnce = 100

// PutLinks implements store.LinkStore. The order of hashes is that of the locks: two
// processes that write the same links do not wait for each other in a circle.
func (s *Store) PutLinks(ctx context.Context, targets map[string]string) error {
	for piece := range slices.Chunk(slices.Sorted(maps.Keys(targets)), linksAtOnce) {
		args := make([]any, 0, 3*len(piece))
		for _, hash := range piece {
			args = append(args, hash, s.d.text(targets[hash]), s.now())
		}
		err := s.writeSmall(ctx, func(tx *txn) error {
			_, err := tx.rows(ctx, "link_put", 3, args)
			return err
		})
		if err != nil {
			return s.failed(err, "write links of mails to")
		}
	}
	return nil
}

// Link implements store.LinkStore.
func (s *Store) Link(ctx context.Context, hash string) (string, error) {
	return one(ctx, s, func(scan scanner, target *string) error { return scan(target) }, notFound("there is no link %.64q", hash), "a link of a mail", "link_get", hash)
}

// keepLinks is how many links are looked through in one transaction.
const keepLinks = 1000

// DeleteLinks implements store.RetentionStore. It goes through the table once a day.
func (s *Store) DeleteLinks(ctx context.Context, afterHash string, beforeMillis int64) (deleted int, next string, err error) {
	return s.deletePiece(ctx, "links", afterHash, beforeMillis, keepLinks)
}

// deletePiece deletes the rows of a table that are older than a moment, among so many
// after a key, by three statements of the table. A piece that has none is only read: the
// writer has others to serve. next is where to go on; empty: it was the last piece.
func (s *Store) deletePiece(ctx context.Context, table, after string, beforeMillis int64, rows int) (deleted int, next string, err error) {
	err = s.each(ctx, rawQuery(s.d, table+"_nth"), []any{after, rows - 1}, func(scan scanner) error { return scan(&next) })
	name, args := table+"_delete", []any{s.d.millis(beforeMillis), after}
	if next != "" {
		name, args = table+"_delete_to", append(args, next)
	}
	some := false
	if err == nil {
		look := strings.Replace(query(s.d, name), "DELETE", "SELECT 1", 1) + " LIMIT 1"
		some, err = exists(ctx, s.reads, look, args...)
	}
	if err == nil && some {
		deleted, err = s.changed(ctx, name, args...)
	}
	return done(deleted, err), next, s.failed(err, "delete old rows of %s of", table)
}
