package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"sluice"
	"sluice/mail"
	"sluice/store"
)

// erasePieceRows is from how many events users are erased at once. They are
// looked for by a read without locks: no index has them by their users.
const erasePieceRows = 2000

// Erasures lists names.
func (s *Store) Erasures(ctx context.Context, after string, fromMillis, toMillis int64, limit int) ([]store.Erasure, error) {
	all, err := list(ctx, s.d, s.reads, func(scan scanner, e *store.Erasure) error { return scan(&e.Name, s.instant(&e.CreatedMillis)) },
		rawQuery(s.d, "erasure_list"), after, s.d.millis(fromMillis), s.d.millis(toMillis), limit)
	return all, s.failed(err, "read the users to be erased in")
}

// foundEvent is an event of a named user.
type foundEvent struct {
	key   sluice.EventKey
	user  sql.NullString
	email sql.NullString
	at    uint64 // when it was accepted, in ms, by Redis
}

// erased are names of erased users, and the time up to which a name means the
// erased one.
type erased map[string]int64

func newErased(names []store.Erasure) erased {
	until := make(erased, len(names))
	for _, n := range names {
		until[n.Name] = n.CreatedMillis + store.ErasureMarginMillis
	}
	return until
}

// has reports whether what was accepted at a moment is about one of them.
func (e erased) has(user, address string, millis int64) bool {
	byUser, ok := e[user]
	byAddress, ok2 := e[store.AddressErasure(strings.ToLower(address))]
	return user != "" && ok && millis <= byUser || address != "" && ok2 && millis <= byAddress
}

// namesOf puts names and addresses into a statement that has a list of each, and
// returns their arguments. Of what is not there the list has a NULL, which
// nothing is equal to. Of addresses beyond ASCII the statement finds some more, in a
// column, which erased.has leaves out: LOWER of SQLite, and of PostgreSQL with the locale
// C, changes ASCII alone.
func namesOf(statement, column string, names []store.Erasure) (filled string, args []any) {
	var users, emails, patterns []any
	for i := range names {
		if address, ok := names[i].Address(); ok {
			emails = append(emails, address)
			if pattern := anyCase(address); pattern != address {
				patterns = append(patterns, pattern)
			}
		} else {
			users = append(users, names[i].Name)
		}
	}
	for _, list := range []*[]any{&users, &emails} {
		if len(*list) == 0 {
			*list = []any{nil}
		}
	}
	like := ""
	for piece := range slices.Chunk(patterns, likeAtOnce) { // SQLite takes 1,000 in a row
		like += " OR (LOWER(" + column + ") LIKE ?" + strings.Repeat(" OR LOWER("+column+") LIKE ?", len(piece)-1) + ")"
	}
	filled = strings.NewReplacer("$NAMES", marks(len(users)), "$ADDRESSES", marks(len(emails)), "$LIKE", like).Replace(statement)
	return filled, slices.Concat(users, emails, patterns)
}

// likeAtOnce is how many patterns stand in one bracket of a statement.
const likeAtOnce = 50

// anyCase is an address as a pattern of LIKE that stands for it in capitals, too, where
// LOWER changes ASCII alone: any character stands for one beyond ASCII.
func anyCase(address string) string {
	return strings.Map(func(r rune) rune {
		if r >= utf8.RuneSelf {
			return '_'
		}
		return r
	}, address)
}

// EraseEvents erases a piece.
func (s *Store) EraseEvents(ctx context.Context, names []store.Erasure, from sluice.EventKey, toMillis int64) (erased int, next sluice.EventKey, err error) {
	if len(names) == 0 || len(names) > store.MaxErasures {
		return 0, from, fmt.Errorf("erase %d users at once: want 1 to %d", len(names), store.MaxErasures)
	}
	found, err := s.eventsOf(ctx, names, from, toMillis)
	if err == nil && len(found) > 0 {
		until := newErased(names)
		err = s.write(ctx, func(tx *txn) error {
			for _, f := range found {
				if !until.has(f.user.String, f.email.String, int64(min(f.at, math.MaxInt64))) {
					continue
				}
				if err := tx.exec(ctx, "event_erase", s.d.millis(f.key.Millis), f.key.ID); err != nil {
					return err
				}
				erased++
			}
			return nil
		})
	}
	if err != nil {
		return 0, from, s.failed(err, "erase users from events of")
	}
	if len(found) == erasePieceRows {
		return erased, found[len(found)-1].key, nil
	}
	return erased, sluice.EventKey{Millis: toMillis}, nil
}

func (s *Store) eventsOf(ctx context.Context, names []store.Erasure, from sluice.EventKey, toMillis int64) (found []foundEvent, err error) {
	// The end of a day may lie in the year 10000, with which MariaDB compares nothing. So
	// the statement has the last millisecond, which is one that an event can have.
	last := min(toMillis-1, sluice.MaxEventTimeMillis)
	if last < from.Millis {
		return nil, nil
	}
	args := []any{s.d.millis(from.Millis), s.d.millis(last), s.d.millis(from.Millis), from.ID}
	statement, named := namesOf(rawQuery(s.d, "erasure_events"), "email", names)
	return list(ctx, s.d, s.reads, func(scan scanner, f *foundEvent) error {
		return scan(s.instant(&f.key.Millis), &f.key.ID, &f.user, &f.email, (*number)(&f.at))
	}, statement, append(append(args, named...), erasePieceRows)...)
}

// Erased removes names.
func (s *Store) Erased(ctx context.Context, names []store.Erasure, beforeMillis int64) error {
	err := s.write(ctx, func(tx *txn) error {
		for _, n := range names {
			if err := tx.exec(ctx, "erasure_done", n.Name, s.d.millis(beforeMillis)); err != nil {
				return err
			}
		}
		return nil
	})
	return s.failed(err, "remove names of erased users in")
}

// sendsAhead is about how many sends are searched for those of erased users at
// once. All of a message are looked at together.
const sendsAhead = 20_000

// SendsOf implements store.RetentionStore.
func (s *Store) SendsOf(ctx context.Context, names []store.Erasure, afterMessage string) (sends []mail.SendRow, next string, err error) {
	if len(names) == 0 || len(names) > store.MaxErasures {
		return nil, "", fmt.Errorf("look for the sends of %d users at once: want 1 to %d", len(names), store.MaxErasures)
	}
	last := strings.Repeat("g", sluice.MessageIDBytes) // behind all ids, which are hexadecimal
	err = s.each(ctx, rawQuery(s.d, "sends_ahead"), []any{afterMessage, sendsAhead}, func(scan scanner) error {
		err := scan(&next)
		last = next
		return err
	})
	if err == nil {
		var found []mail.SendRow
		statement, named := namesOf(rawQuery(s.d, "sends_named"), "to_address", names)
		found, err = s.scanSends(ctx, statement, append([]any{afterMessage, last}, named...))
		until := newErased(names)
		for _, r := range found {
			if until.has(r.User, r.To, r.AcceptedMillis) {
				sends = append(sends, r)
			}
		}
	}
	return sends, next, s.failed(err, "look for the sends of users in")
}

// EraseSends implements store.RetentionStore. A row's life is read under its lock: it
// may have grown since the row was found.
func (s *Store) EraseSends(ctx context.Context, sends []mail.SendRow) error {
	keys := make([]mail.SendKey, len(sends))
	for i := range sends {
		keys[i] = sends[i].Key()
	}
	slices.SortFunc(keys, mail.SendKey.Compare)
	for piece := range slices.Chunk(keys, erasePieceSends) {
		err := s.write(ctx, func(tx *txn) error {
			l := &ledger{rows: make(map[mail.SendKey]*ledgerRow, len(piece))}
			if err := tx.lockLedger(ctx, piece, l); err != nil {
				return err
			}
			for _, k := range piece {
				r := l.rows[k]
				if r == nil {
					continue // past its retention
				}
				r.Erase(s.clock.Now().UnixMilli())
				if err := tx.exec(ctx, "send_erase", r.Life, k.Message, k.Number); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return s.failed(err, "erase users from sends of")
		}
	}
	return nil
}

// erasePieceSends are erased in one transaction.
const erasePieceSends = 500
