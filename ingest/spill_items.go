package ingest

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"sluice"
	"sluice/mail"
	"sluice/store"
	"sluice/user"
	"sluice/user/profile"
	"sluice/user/users"
)

// Files of items have what people chose on the page of a mail while Redis was away, and
// only what stops mail. Such a file may wait for days, on a machine that does not run.
// Who has chosen anew meanwhile, here or by double opt-in, must not be stopped by it: of a
// group, if it was chosen for all users who have the address. And an append of unknown
// fate may be in the log: its copy in the file is no second choice. So before a record is
// replayed it is compared with what is stored: what somebody said at that time or later
// holds. That is so of each update by itself: who wants mail again has not taken back what
// was chosen of a group. What is still in the logs, some seconds, is not seen; of two words
// within them the one that stops mail holds, as in package ingest's suppress.go.

// Said is what is stored of what people have said. The stores of sqlstore are ones.
type Said interface {
	user.Store
	SuppressionsOf(ctx context.Context, entries []string) ([]mail.Suppression, error)
}

// updatesIn reads the updates of a record of items, and counts its items.
func updatesIn(record string) (updates []user.Update, items int, err error) {
	r, err := sluice.ReadBatch(append(sluice.NewBatch(len(record)), record...))
	if err != nil {
		return nil, 0, err
	}
	for r.Next() {
		items++
		if r.Item.Kind != sluice.ItemUser {
			continue
		}
		var up user.Update
		if err := user.DecodeUpdate(r.Item.Payload, &up); err != nil {
			return nil, 0, err
		}
		updates = append(updates, up)
	}
	if r.Err() == nil && len(updates) == 0 {
		return nil, 0, errors.New("it says nothing of anybody")
	}
	return updates, items, r.Err()
}

// items reads a record of items for an Import. They go where their first update goes.
func (s *Spilled) items(record string) (LineItems, error) {
	updates, count, err := updatesIn(record)
	if err != nil {
		return LineItems{}, err
	}
	first := &updates[0]
	return LineItems{Partition: first.Key.Partition(len(s.Logs)), Items: []byte(record), Count: count, TimeMillis: first.TimeMillis}, nil
}

// unsaid returns what reads records, without what later words have replaced. Its errors
// end the replay, which is repeated.
func (s *Spilled) unsaid(ctx context.Context, next func() (store.Line, error)) func() (store.Line, error) {
	if s.Said == nil {
		return next
	}
	return func() (store.Line, error) {
		for {
			line, err := next()
			if err != nil {
				return line, err
			}
			updates, _, err := updatesIn(line.Text)
			if err != nil {
				return line, nil // it is rejected with its reason
			}
			replaced, err := s.replaced(ctx, updates)
			if err != nil {
				return line, fmt.Errorf("look what was said since record %d: %w", line.Number, err)
			}
			if slices.Contains(replaced, false) {
				line.Text = without(line.Text, updates, replaced)
				return line, nil
			}
		}
	}
}

// replaced reports of each update whether something was said at its time or later.
func (s *Spilled) replaced(ctx context.Context, updates []user.Update) ([]bool, error) {
	all := make([]bool, len(updates))
	for i := range updates {
		var err error
		switch up := &updates[i]; up.Op {
		case user.OpSubscribe:
			all[i], err = s.saidOfMail(ctx, up)
		case user.OpGroup:
			all[i], err = s.saidOfGroup(ctx, up)
		}
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// without returns a record without the updates that are replaced. The event that is the
// suppression goes with the update of email_subscribe. The event that proves the choice
// stays: it was made. The updates are those that were read of the record.
func without(record string, updates []user.Update, replaced []bool) string {
	if !slices.Contains(replaced, true) {
		return record
	}
	mailGone := false
	for i := range updates {
		mailGone = mailGone || replaced[i] && updates[i].Op == user.OpSubscribe
	}
	r, err := sluice.ReadBatch(append(sluice.NewBatch(len(record)), record...))
	if err != nil {
		return record
	}
	var left []byte
	for n := 0; r.Next(); {
		gone := false
		switch r.Item.Kind {
		case sluice.ItemUser:
			gone = replaced[n]
			n++
		case sluice.ItemEvent:
			var e sluice.Event
			gone = mailGone && sluice.DecodeEvent(r.Item.Payload, &e) == nil && e.Kind == sluice.KindMail && (e.Name == sluice.EventUnsubscribed || e.Name == sluice.EventSubscribed)
		}
		if !gone {
			left = sluice.AppendItem(left, r.Item.Kind, func(b []byte) []byte { return append(b, r.Item.Payload...) })
		}
	}
	return string(left)
}

// saidOfMail reports whether the suppression of an address was changed since.
func (s *Spilled) saidOfMail(ctx context.Context, up *user.Update) (bool, error) {
	all, err := s.Said.SuppressionsOf(ctx, []string{up.Key.Name})
	return slices.ContainsFunc(all, func(x mail.Suppression) bool {
		return x.Reason == mail.SuppressUnsubscribe && x.App == "" && x.TimeMillis >= up.TimeMillis
	}), err
}

// saidOfGroup reports whether the state of all who have an address was changed since. A
// profile that nobody can read says nothing: it must not keep the file from its replay.
func (s *Spilled) saidOfGroup(ctx context.Context, up *user.Update) (bool, error) {
	found, _, err := users.Find(ctx, s.Said, []user.Key{up.Key})
	if _, unreadable := errors.AsType[*users.UnreadableError](err); unreadable {
		return false, nil
	}
	people := found[up.Key]
	return len(people) > 0 && !slices.ContainsFunc(people, func(x users.Person) bool {
		return !slices.ContainsFunc(x.Profile.Groups, func(g profile.Group) bool { return g.ID == up.Name && g.SinceMillis >= up.TimeMillis })
	}), err
}
