package sqlstore

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"sluice/mail"
	"sluice/store"
)

// Soft bounces are days: a row says that on a day mail to an address was given
// up, however many mails. So a repeat changes nothing, they are right in whatever
// order they come, and those that count are the rows of a span of time.

// A transaction that stores events does not wait for its soft bounces. Beside
// 12,000 events, 500 of them cost MariaDB 7 % of the time, at many places of
// the table. A server notes them meanwhile in a transaction of their own. It
// may commit before, and also if the other never does: a repeat changes
// nothing.

// noteBounces notes soft bounces beside the caller's transaction. The function
// returned waits for the end of that, and returns the suppressions that follow.
// It must be called, and may be called again. It is nil if there is nothing to
// note, or if the database has one writer: then the transaction notes them
// itself.
func (s *Store) noteBounces(ctx context.Context, all []mail.SoftBounce) func() ([]mail.Suppression, error) {
	if len(all) == 0 || s.small == nil {
		return nil
	}
	var changes []mail.Suppression
	var err error
	done := make(chan struct{})
	go func() { // it ends with its context, or with the server's answer
		defer close(done)
		err = s.writeSmall(ctx, func(tx *txn) (err error) {
			changes, err = tx.softBounces(ctx, all)
			return err
		})
	}()
	return func() ([]mail.Suppression, error) {
		<-done
		return changes, err
	}
}

// applySuppressions writes what an effect suppresses, and what its soft bounces
// come to, which noted returns unless it is nil. It is done last, see suppressions.go.
func (t *txn) applySuppressions(ctx context.Context, e *store.Effect, noted func() ([]mail.Suppression, error)) error {
	changes := e.Suppress
	if len(e.SoftBounces) > 0 {
		if noted == nil {
			noted = func() ([]mail.Suppression, error) { return t.softBounces(ctx, e.SoftBounces) }
		}
		more, err := noted()
		if err != nil {
			return fmt.Errorf("count soft bounces: %w", err)
		}
		changes = append(slices.Clip(changes), more...)
	}
	_, err := t.suppress(ctx, changes)
	return err
}

// softBounces notes soft bounces and returns what is to be suppressed for them.
func (t *txn) softBounces(ctx context.Context, all []mail.SoftBounce) (changes []mail.Suppression, err error) {
	newest := make(map[string]*mail.SoftBounce, len(all)) // by entry
	type row struct {
		entry string
		day   int64
	}
	rows := make(map[row]bool, len(all))
	for i := range all {
		b := &all[i]
		rows[row{b.Entry, b.TimeMillis - b.TimeMillis%dayMillis}] = true
		if n := newest[b.Entry]; n == nil || n.TimeMillis < b.TimeMillis {
			newest[b.Entry] = b
		}
	}
	args := make([]any, 0, 2*len(rows))
	for _, r := range slices.SortedFunc(maps.Keys(rows), func(a, b row) int {
		return cmp.Or(strings.Compare(a.entry, b.entry), cmp.Compare(a.day, b.day))
	}) {
		args = append(args, r.entry, t.store.d.millis(r.day))
	}
	if _, err := t.rows(ctx, "soft_bounce_add", 2, args); err != nil {
		return nil, err
	}
	many, err := t.softMany(ctx, slices.Sorted(maps.Keys(newest)))
	if err != nil || len(many) == 0 {
		return nil, err
	}
	days, err := t.softDays(ctx, many)
	if err != nil {
		return nil, err
	}
	removed := make(map[string]int64, len(many)) // when the address was said to work
	err = t.store.suppressionsOf(ctx, t.conn, many, func(s mail.Suppression) {
		if s.Reason == mail.SuppressSoftBounces && s.Scope == mail.ScopeAll && s.App == "" && s.Removed {
			removed[s.Entry] = s.TimeMillis
		}
	})
	if err != nil {
		return nil, err
	}
	for _, entry := range many {
		last := newest[entry]
		// A later bounce may be noted already: providers post in any order.
		latest := slices.Max(append(days[entry], last.TimeMillis))
		counted := 0
		for _, day := range days[entry] {
			if day > removed[entry] && day > latest-mail.SoftBounceWindowDays*dayMillis {
				counted++
			}
		}
		if counted >= mail.SoftBounceDays {
			changes = append(changes, mail.Suppression{Entry: entry, Reason: mail.SuppressSoftBounces, Source: last.Source, TimeMillis: latest})
		}
	}
	return changes, nil
}

// softMany returns those of entries that have enough days to be looked at: few.
func (t *txn) softMany(ctx context.Context, entries []string) (many []string, err error) {
	err = t.softOf(ctx, "soft_bounces_many", entries, func(scan scanner) error {
		var entry string
		err := scan(&entry)
		many = append(many, entry)
		return err
	})
	slices.Sort(many)
	return many, err
}

// softDays returns the days of soft bounces of entries.
func (t *txn) softDays(ctx context.Context, entries []string) (map[string][]int64, error) {
	days := make(map[string][]int64, len(entries))
	err := t.softOf(ctx, "soft_bounces_of", entries, func(scan scanner) error {
		var entry string
		var day int64
		err := scan(&entry, t.store.instant(&day))
		days[entry] = append(days[entry], day)
		return err
	})
	return days, err
}

// softOf runs a query about entries, as many at once as may be.
func (t *txn) softOf(ctx context.Context, name string, entries []string, row func(scan scanner) error) error {
	for piece := range slices.Chunk(entries, namesAtOnce(t.store.d)) {
		statement := strings.Replace(rawQuery(t.store.d, name), "$LEAST", strconv.Itoa(mail.SoftBounceDays), 1)
		if err := t.each(ctx, named(statement, len(piece)), anys(piece), row); err != nil {
			return err
		}
	}
	return nil
}

// keepBounces is how many rows a piece of the old ones' removal reads at most.
const keepBounces = 5000

// DeleteSoftBounces implements store.RetentionStore. It goes through the table once
// a day. An index by day would be written at a place of its own by each new
// row. That cost a store with 4 % soft bounces among its events 4 % of its
// speed (MariaDB).
func (s *Store) DeleteSoftBounces(ctx context.Context, afterEntry string, beforeMillis int64) (deleted int, next string, err error) {
	return s.deletePiece(ctx, "soft_bounces", afterEntry, beforeMillis, keepBounces)
}

// EraseSoftBounces implements store.RetentionStore. That of today goes too: it may
// be of the erased user, and the next user of the address loses one day of
// five.
func (s *Store) EraseSoftBounces(ctx context.Context, names []store.Erasure) (erased int, err error) {
	if len(names) > store.MaxErasures {
		return 0, fmt.Errorf("erase the soft bounces of %d users at once: want at most %d", len(names), store.MaxErasures)
	}
	until := make(map[string]int64, len(names))
	for i := range names {
		if address, ok := names[i].Address(); ok {
			until[address] = names[i].CreatedMillis + store.ErasureMarginMillis
		}
	}
	if len(until) == 0 {
		return 0, nil
	}
	err = s.write(ctx, func(tx *txn) error {
		erased = 0
		for _, address := range slices.Sorted(maps.Keys(until)) { // as softBounces locks them
			n, err := tx.changed(ctx, "soft_bounces_erase", address, s.d.millis(until[address]))
			if err != nil {
				return err
			}
			erased += n
		}
		return nil
	})
	return done(erased, err), s.failed(err, "erase users from soft bounces of")
}
