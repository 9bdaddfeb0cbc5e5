package suppress

import (
	"context"
	"slices"

	"sluice"
	"sluice/mail"
)

// Service changes suppressions for people and programs that ask for it. Its
// methods may be called from several goroutines at once.
type Service struct {
	Store mail.SuppressionStore
	List  *List
	Clock sluice.Clock
}

// Which says which suppressions of an entry are meant: those for all of its
// reasons (nil: all), of a scope and an app (nil: any).
type Which struct {
	Reasons []mail.SuppressReason
	Scope   *mail.Scope
	App     *string
}

func (w *Which) means(s *mail.Suppression) bool {
	return (w.Reasons == nil || slices.Contains(w.Reasons, s.Reason)) &&
		(w.Scope == nil || *w.Scope == s.Scope) && (w.App == nil || *w.App == s.App)
}

// Add suppresses, and returns how many suppressions have changed. Those that
// are there already, with the same end, and those named twice are repeats. A
// repeat counts as said again now, but not as changed.
func (v *Service) Add(ctx context.Context, changes []mail.Suppression) (added int, err error) {
	if len(changes) == 0 {
		return 0, nil
	}
	entries := make([]string, len(changes))
	for i := range changes {
		entries[i] = changes[i].Entry
	}
	stored, err := v.Store.SuppressionsOf(ctx, entries)
	if err != nil {
		return 0, err
	}
	ends, now := make(map[mail.SuppressionKey]int64, len(changes)), v.Clock.Now().UnixMilli()
	for i := range stored {
		if stored[i].Holds(now) {
			ends[stored[i].Key()] = stored[i].EndMillis
		}
	}
	for i := range changes {
		c := &changes[i]
		if end, ok := ends[c.Key()]; !ok || end != c.EndMillis {
			added++
		}
		ends[c.Key()] = c.EndMillis
	}
	_, err = v.Store.Suppress(ctx, changes)
	return added, err
}

// Remove removes what there is of entries, and returns how many suppressions
// those were.
func (v *Service) Remove(ctx context.Context, entries []string, which Which, source string) (int, error) {
	changes, err := v.removals(ctx, entries, which, source)
	if err != nil || len(changes) == 0 {
		return 0, err
	}
	return v.Store.Suppress(ctx, changes)
}

func (v *Service) removals(ctx context.Context, entries []string, which Which, source string) (changes []mail.Suppression, err error) {
	stored, err := v.Store.SuppressionsOf(ctx, entries)
	now := v.Clock.Now().UnixMilli()
	for i := range stored {
		if s := stored[i]; !s.Removed && which.means(&s) {
			s.Removed, s.EndMillis, s.Source, s.TimeMillis, s.Said = true, 0, source, now, true
			changes = append(changes, s)
		}
	}
	return changes, err
}

// Lift removes what there is of addresses for some reasons, and notes that it is
// over: what comes later, but happened before, does not hold.
func (v *Service) Lift(ctx context.Context, addresses []string, reasons []mail.SuppressReason, source string) error {
	changes, err := v.removals(ctx, addresses, Which{Reasons: reasons}, source)
	if err != nil {
		return err
	}
	now := v.Clock.Now().UnixMilli()
	for _, address := range addresses {
		for _, reason := range reasons {
			s := mail.Suppression{Entry: address, Reason: reason, Source: source, TimeMillis: now, Removed: true, Said: true}
			if reason != mail.SuppressUnsubscribe {
				changes = append(changes, s)
			}
			if reason == mail.SuppressUnsubscribe || reason == mail.SuppressComplaint {
				s.Scope = mail.ScopeMarketing
				changes = append(changes, s)
			}
		}
	}
	_, err = v.Store.Suppress(ctx, changes)
	return err
}
