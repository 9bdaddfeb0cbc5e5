package mail

import (
	"context"
	"fmt"
	"strings"
	"unicode/utf8"

	"sluice"
)

// Suppression says that an address, or a domain, is not to be mailed. There is
// one for each entry, scope, app and reason. It is a register: of two changes of
// one the later wins, by when it happened, whatever the order in which they
// arrive. A removed one stays as a row, with the time of its removal. So a bounce
// that is older than a new opt-in changes nothing.
//
// A time that a producer claims is never later than when its event was accepted
// (package ingest), so what is accepted now is later than all that is stored. What
// a person or a program says here and now (Said) is later than all that is stored
// whatever the clocks of two machines say.
type Suppression struct {
	// Entry is an address as profile.NormalAddress has it; a domain in lower case;
	// or a dot and a domain, which is that domain and all below it.
	Entry string

	Scope  Scope
	App    string // only this app's mail; empty: of all
	Reason SuppressReason

	// Source is where it comes from: an event, a key of the API, "cli",
	// "set:NAME" (a Redis set that is followed).
	Source string

	TimeMillis int64 // when what it comes from happened, never later than it was accepted
	EndMillis  int64 // it holds until then; 0: for good
	Removed    bool  // it holds no more, since TimeMillis

	Number int64 // of the last change of it; the store counts them

	// Said: somebody says so in this call (the API, the CLI, by hand), so the store
	// makes its time that of what it finds, if that is later. It is not stored.
	Said bool

	// Own: a person said so on our own pages, at TimeMillis by the clock of Redis.
	// What is stored for up to SuppressAheadMillis later may have come before, from a
	// machine whose clock is ahead, and is taken for that. It is not stored.
	Own bool
}

// Scope is which mail a suppression is about.
type Scope byte

// The scopes.
const (
	ScopeAll       Scope = 0
	ScopeMarketing Scope = 1
)

// String returns the scope's word.
func (s Scope) String() string {
	if s == ScopeMarketing {
		return "marketing"
	}
	return "all"
}

// ParseScope reads a scope from its word.
func ParseScope(word string) (Scope, bool) {
	for s := ScopeAll; s <= ScopeMarketing; s++ {
		if s.String() == word {
			return s, true
		}
	}
	return 0, false
}

// SuppressReason is why somebody is not mailed. Where there are several, the
// smallest number is told. A program that does not know a stored reason stops its mail:
// a new one comes with a schema that such programs do not read.
type SuppressReason byte

// The reasons.
const (
	SuppressComplaint   SuppressReason = 1 // called it spam
	SuppressUnsubscribe SuppressReason = 2
	SuppressHardBounce  SuppressReason = 3 // there is no such mailbox
	SuppressSoftBounces SuppressReason = 4 // mail to it was given up on too many days
	SuppressBadDomain   SuppressReason = 5
	SuppressManual      SuppressReason = 6
)

var reasonWords = sluice.Words[SuppressReason]{
	SuppressComplaint: "complaint", SuppressUnsubscribe: "unsubscribe", SuppressHardBounce: "hard_bounce",
	SuppressSoftBounces: "soft_bounces", SuppressBadDomain: "bad_domain", SuppressManual: "manual",
}

// SuppressReasons are all of them, in their order.
var SuppressReasons = [...]SuppressReason{SuppressComplaint, SuppressUnsubscribe, SuppressHardBounce, SuppressSoftBounces, SuppressBadDomain, SuppressManual}

// String returns the reason's word, as it stands in the table suppressions and
// in events.
func (r SuppressReason) String() string { return reasonWords.Of(r) }

// ParseSuppressReason reads a reason from its word.
func ParseSuppressReason(word string) (SuppressReason, bool) { return reasonWords.Parse(word) }

// Ends reports whether a suppression for this reason may have an end: what people
// have said holds until they say something else.
func (r SuppressReason) Ends() bool { return r != SuppressComplaint && r != SuppressUnsubscribe }

// Bounds of suppressions.
const (
	// MaxSuppressEntryBytes bounds an entry: a dot, and a domain (RFC 5321,
	// 4.5.3.1.2), or an address.
	MaxSuppressEntryBytes = 256

	// MaxSuppressSourceBytes bounds a source: longer ones are cut.
	MaxSuppressSourceBytes = 255

	// MaxSuppressChanges bounds what one call of Suppress changes.
	MaxSuppressChanges = 10_000

	// SuppressAheadMillis is how far clocks of two machines may differ: a time that
	// is further ahead is none that anything can be later than. Older versions stored
	// such times.
	SuppressAheadMillis = 60_000

	// OptOutWindowMillis is how close an opt-in and an opt-out that others report may
	// be for the opt-out to win, whichever is later: their clocks differ, and their
	// reports pass each other.
	OptOutWindowMillis = 10 * 60_000

	// SetSource is how the sources of sets that are followed begin.
	SetSource = "set:"
)

// Holds reports whether mail is held back by it at a moment.
func (s *Suppression) Holds(nowMillis int64) bool {
	return !s.Removed && (s.EndMillis == 0 || s.EndMillis > nowMillis)
}

// Check returns what is wrong with a suppression whose entry has its form
// (package suppress gives it that).
func (s *Suppression) Check() error {
	word := s.Reason.String()
	switch {
	case s.Entry == "" || len(s.Entry) > MaxSuppressEntryBytes:
		return fmt.Errorf("entry has %d bytes, want 1 to %d", len(s.Entry), MaxSuppressEntryBytes)
	case s.Scope > ScopeMarketing || word == "unknown":
		return fmt.Errorf("scope %d or reason %d is none", s.Scope, s.Reason)
	case len(s.App) > sluice.MaxAppIDBytes || !utf8.ValidString(s.App) || strings.ContainsRune(s.App, 0):
		return fmt.Errorf("app has %d bytes, want UTF-8 without zeros, at most %d", len(s.App), sluice.MaxAppIDBytes)
	case s.TimeMillis <= 0 || s.TimeMillis >= sluice.MaxEventTimeMillis || s.EndMillis < 0 || s.EndMillis >= sluice.MaxEventTimeMillis:
		return fmt.Errorf("time %d or end %d is outside what can be stored", s.TimeMillis, s.EndMillis)
	case s.EndMillis != 0 && !s.Reason.Ends():
		return fmt.Errorf("a %s holds for good: it has no end", word)
	}
	return nil
}

// Settle gives what somebody says (Said, Own) its time beside what is stored (nil:
// nothing is): the later of both, unless what is stored is still to come. What comes to a set
// is later than a removal by others, whatever the clocks of two machines say. What a set changes
// of its own has its own time (Changes).
func (s *Suppression) Settle(stored *Suppression, nowMillis int64) {
	switch {
	case stored == nil:
	case s.Said && !stored.ahead(nowMillis), s.Own && !stored.ahead(s.TimeMillis):
		s.TimeMillis = max(s.TimeMillis, stored.TimeMillis)
	case s.ofSet() && s.Source != stored.Source && s.mayChange(stored) && !stored.ahead(nowMillis):
		s.TimeMillis = max(s.TimeMillis, stored.TimeMillis+1)
	}
}

// ofSet reports whether a set that is followed says so.
func (s *Suppression) ofSet() bool { return strings.HasPrefix(s.Source, SetSource) }

// mayChange reports whether a set may change what is stored: what is its own, and what
// holds no more.
func (s *Suppression) mayChange(stored *Suppression) bool {
	return s.Source == stored.Source || stored.Removed && !s.Removed
}

// ahead reports whether its time is still to come.
func (s *Suppression) ahead(nowMillis int64) bool {
	return s.TimeMillis > nowMillis+SuppressAheadMillis
}

// Changes reports whether a change of a suppression, as it is stored (nil: there
// is none), is one; settle it before. The later wins; at the same moment what
// suppresses does, unless the change is said now. A set that is followed gives
// way: it neither takes over nor removes what holds for another source. It changes its own,
// whatever the times: of a set the last change that is read holds. Where what
// is stored is still to come, what suppresses wins, and what is said now.
func (s *Suppression) Changes(stored *Suppression, nowMillis int64) bool {
	switch {
	case stored == nil:
		return true
	case stored.ahead(nowMillis) && !s.ahead(nowMillis):
		return s.Said || !s.Removed || s.ofSet() && s.mayChange(stored)
	case s.ofSet() && s.Source == stored.Source && s.Removed != stored.Removed:
		return true
	case s.TimeMillis < stored.TimeMillis:
		return false
	case s.TimeMillis == stored.TimeMillis:
		return (s.Said || !s.Removed) && (s.Removed != stored.Removed || s.EndMillis != stored.EndMillis)
	case s.ofSet():
		return s.mayChange(stored)
	}
	return true
}

// SuppressionKey names a suppression: all that two of one key share.
type SuppressionKey struct {
	Entry  string
	Scope  Scope
	App    string
	Reason SuppressReason
}

// Key returns the suppression's key.
func (s *Suppression) Key() SuppressionKey { return SuppressionKey{s.Entry, s.Scope, s.App, s.Reason} }

// SoftBounce says that a mail to an address was given up for a reason that may
// pass. Where that happens on SoftBounceDays different days (UTC) within
// SoftBounceWindowDays, the address is suppressed. Days are counted and not mails:
// a mailbox that is out of order for an afternoon refuses many.
type SoftBounce struct {
	Entry      string // an address, as Suppression.Entry has it
	Source     string // as Suppression.Source
	TimeMillis int64
}

// When soft bounces suppress.
const (
	SoftBounceDays       = 5
	SoftBounceWindowDays = 60
)

// SuppressionStore is where suppressions are kept: their one truth, which all
// processes follow. The stores of package sqlstore are ones; what is promised of
// Store's methods holds for these.
type SuppressionStore interface {
	// Suppress changes suppressions, at most MaxSuppressChanges, in one
	// transaction, each that is a change (Changes). It returns how many have changed. Of
	// several with one key the later wins.
	Suppress(ctx context.Context, changes []Suppression) (changed int, err error)

	// SuppressionsOf returns all rows of entries, removed ones too, in the order
	// of their keys. At most MaxSuppressChanges entries.
	SuppressionsOf(ctx context.Context, entries []string) ([]Suppression, error)

	// Suppressions lists them.
	Suppressions(ctx context.Context, q SuppressionQuery) ([]Suppression, error)

	// LastSuppression is the number of the last change. Changes up to it are all
	// to be read; later ones have larger numbers.
	LastSuppression(ctx context.Context) (int64, error)

	// SuppressionChanges calls f for at most limit rows whose last change has a
	// number above `after`, removed ones too, in the order of these numbers.
	SuppressionChanges(ctx context.Context, after int64, limit int, f func(*Suppression)) error

	// HeldSuppressions calls f for at most limit suppressions that are not
	// removed, in the order of their keys, after one; the zero key: from the first.
	// Source, TimeMillis and Number are not read. It returns how many they were.
	HeldSuppressions(ctx context.Context, after SuppressionKey, limit int, f func(*Suppression)) (int, error)

	// CountSuppressions returns about how many rows there are.
	CountSuppressions(ctx context.Context) (int64, error)
}

// SuppressionQuery says which suppressions are listed: those that are not
// removed, of one reason that hold at a moment, by when it happened; or of all, by their
// keys.
type SuppressionQuery struct {
	After SuppressionKey // those of all after it

	Reason               SuppressReason // 0: of all
	FromMillis, ToMillis int64          // when it happened, half-open
	NowMillis            int64          // those of a reason hold then (Suppression.Holds)
	Oldest               bool           // the oldest first; else the newest
	Addresses            bool           // not of domains
	Skip                 int

	Limit int
}
