// Package timeline puts together what is known of one person: events, mails, journeys,
// changes and consent, page by page, the newest first.
//
// A page is merged of sources that each have an order of their own. Events come in the
// order in which they were accepted, by their places in the logs, and mails by the ids of
// their messages, which begin with a time: when the message was made. Of a journey's mail it is
// the day on which the person entered, so the mail may be pages behind what happened before it.
// The index of sends by person has no other order. What else there is are few entries, which are
// all read. The mark of a page has how far each source was shown. So nothing is shown
// twice and nothing is left out, whatever is added meanwhile.
//
// Events of a person have no index (decision 68): a look goes through a bounded number of
// rows. If it ends before the page is full, entries of other sources that are older than
// its end wait for the next page.
package timeline

import (
	"cmp"
	"context"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"time"

	"sluice"
	"sluice/journey/desk"
	"sluice/mail"
	"sluice/store"
	"sluice/user"
	"sluice/user/profile"
)

// Bounds of a page.
const (
	DefaultEntries = 50
	MaxEntries     = 200
)

// Kind is what an entry is about.
type Kind string

// The kinds.
const (
	KindEvent   Kind = "event"   // a custom event or a purchase
	KindMail    Kind = "mail"    // a mail, with what became of it
	KindJourney Kind = "journey" // the person entered a journey
	KindChange  Kind = "change"  // of the person: became known
	KindConsent Kind = "consent" // a subscription group, or a suppression
)

// Kinds are all of them.
var Kinds = []Kind{KindEvent, KindMail, KindJourney, KindChange, KindConsent}

// Entry is a line of a timeline. Of the pointers the one of its kind is there; none is of
// a change.
type Entry struct {
	Kind       Kind
	TimeMillis int64
	What       string // the name of an event, a journey, a group; else a word for it

	Event       *sluice.Event
	Mail        *mail.SendRow
	Place       *desk.Place
	Suppression *mail.Suppression
	Group       *profile.Group

	order int64        // what the entry is sorted by, among sources
	place sluice.Place // of an event
}

// Page is a part of a timeline.
type Page struct {
	Entries []Entry

	// Next is the mark of the page behind this one; empty: there is none. LookedMillis
	// is how far back events were looked for if the page ends for that; 0: it does not.
	Next         string
	LookedMillis int64
}

// Sends has the mails of a user (mail.SendStore).
type Sends interface {
	UserSends(ctx context.Context, user user.ID, before mail.SendKey, limit int) ([]mail.SendRow, error)
}

// Suppressions has who is not mailed (mail.SuppressionStore).
type Suppressions interface {
	SuppressionsOf(ctx context.Context, entries []string) ([]mail.Suppression, error)
}

// Reader reads timelines. Its fields are set before it is used.
type Reader struct {
	Events       store.PersonStore
	Sends        Sends
	Suppressions Suppressions
	Places       func(ctx context.Context, id user.ID) ([]desk.Place, error) // where a person is in journeys
	Partitions   int
}

// Asked is which page of whom is wanted.
type Asked struct {
	Row     user.Row
	Profile *profile.Profile
	Kinds   []Kind // empty: all
	Before  string // Next of the page before
	Limit   int    // 1 to MaxEntries
}

func (a *Asked) wants(k Kind) bool { return len(a.Kinds) == 0 || slices.Contains(a.Kinds, k) }

// Read returns a page. A mark that no page had is an *sluice.Error.
func (r *Reader) Read(ctx context.Context, a Asked) (page Page, err error) {
	m, err := parseMark(a.Before)
	if err != nil {
		return page, err
	}
	var all []Entry
	more, ends := false, m.event
	for _, read := range []func(context.Context, *Asked, *mark) ([]Entry, error){r.mails, r.others} {
		found, err := read(ctx, &a, &m)
		if err != nil {
			return page, err
		}
		all = append(all, found...)
	}
	if a.wants(KindEvent) && !m.eventsDone {
		found, end, err := r.events(ctx, &a, m.event)
		if err != nil {
			return page, err
		}
		all, ends = append(all, found...), end
		m.eventsDone = end == (sluice.Place{})
	}
	slices.SortStableFunc(all, newerFirst)
	shown := min(len(all), a.Limit)
	if more = a.wants(KindEvent) && !m.eventsDone; more {
		// What is older than the end of the look may be behind events that are not found yet.
		horizon := int64(ends.Position.Major)
		if n := slices.IndexFunc(all, func(e Entry) bool { return e.order < horizon }); n >= 0 {
			shown = min(n, shown)
		}
		if shown < a.Limit {
			page.LookedMillis = horizon
		}
	}
	page.Entries = all[:shown]
	for i := range page.Entries {
		m.pass(&page.Entries[i])
	}
	if !slices.ContainsFunc(all[shown:], func(e Entry) bool { return e.Kind == KindEvent }) {
		m.event = ends
	} else {
		m.eventsDone = false
	}
	if more || shown < len(all) {
		page.Next = m.text()
	}
	slices.SortStableFunc(page.Entries, func(a, b Entry) int { return cmp.Compare(b.TimeMillis, a.TimeMillis) })
	return page, nil
}

// newerFirst compares entries by what they are sorted by.
func newerFirst(a, b Entry) int {
	return cmp.Or(cmp.Compare(b.order, a.order), compareLogs(b.place, a.place))
}

// mails are those behind a mark, one more than a page has if there are so many.
func (r *Reader) mails(ctx context.Context, a *Asked, m *mark) (found []Entry, err error) {
	if !a.wants(KindMail) {
		return nil, nil
	}
	rows, err := r.Sends.UserSends(ctx, a.Row.ID, m.mail, a.Limit+1)
	for i := range rows {
		row := &rows[i]
		found = append(found, Entry{Kind: KindMail, TimeMillis: row.AcceptedMillis, What: row.State.String(), Mail: row, order: messageMillis(row.Message)})
	}
	return found, err
}

// messageMillis is the time that a message's id begins with; 0: it has none.
func messageMillis(id string) int64 {
	const digits = 12
	if len(id) < digits {
		return 0
	}
	n, err := strconv.ParseInt(id[:digits], 16, 64)
	if err != nil {
		return 0
	}
	return n
}

// others are journeys, changes and consent: all that is behind the mark.
func (r *Reader) others(ctx context.Context, a *Asked, m *mark) (found []Entry, err error) {
	add := func(e Entry) {
		e.order = e.TimeMillis
		if e.TimeMillis > 0 && m.isBefore(&e) {
			found = append(found, e)
		}
	}
	if p := a.Profile; a.wants(KindChange) {
		add(Entry{Kind: KindChange, TimeMillis: p.CreatedMillis, What: "created"})
	}
	if a.wants(KindConsent) {
		for i := range a.Profile.Groups {
			g := &a.Profile.Groups[i]
			add(Entry{Kind: KindConsent, TimeMillis: g.SinceMillis, What: g.ID, Group: g})
		}
		if address := AddressOf(a.Profile); address != "" {
			all, err := r.Suppressions.SuppressionsOf(ctx, []string{address})
			if err != nil {
				return nil, err
			}
			for i := range all {
				add(Entry{Kind: KindConsent, TimeMillis: all[i].TimeMillis, What: all[i].Reason.String(), Suppression: &all[i]})
			}
		}
	}
	if a.wants(KindJourney) {
		places, err := r.Places(ctx, a.Row.ID)
		if err != nil {
			return nil, err
		}
		for i := range places {
			add(Entry{Kind: KindJourney, TimeMillis: places[i].Entered, What: places[i].Name, Place: &places[i]})
		}
	}
	slices.SortStableFunc(found, func(x, y Entry) int { return compareOthers(&y, &x) })
	return found, nil
}

// AddressOf is a person's address as suppressions have it; empty: there is none.
func AddressOf(p *profile.Profile) string {
	var text string
	if json.Unmarshal([]byte(p.Fields.Get("email")), &text) != nil {
		return ""
	}
	address, _ := profile.NormalAddress(text)
	return address
}

// Events are counted for a person when they are stored, which writes the person's row.
// So none was accepted after that, by clocks that differ by so much at most. None is
// looked for that was accepted so long before the person was known, or did anything.
const (
	afterRow    = time.Hour
	beforeFirst = 48 * time.Hour
)

// span is from when to when events of a person may have been accepted.
func span(row *user.Row, p *profile.Profile) (first, last int64) {
	first, last = p.CreatedMillis, row.UpdatedMillis+afterRow.Milliseconds()
	for _, tallies := range [][]profile.Tally{p.Events, p.Purchases} {
		for i := range tallies {
			first = min(first, tallies[i].FirstMillis)
		}
	}
	return first - beforeFirst.Milliseconds(), last
}

// names are what events call a person, and the partitions whose logs have such events:
// the person's own, and those of the names.
func (r *Reader) names(a *Asked) (names []string, partitions []int) {
	id := a.Row.ID
	partitions = []int{id.Partition}
	for _, name := range append([]string{a.Profile.ExternalID}, a.Profile.Former...) {
		if name != "" && len(name) <= sluice.MaxReferenceBytes && len(names) < maxNames {
			names = append(names, name)
			partitions = append(partitions, user.Key{Kind: user.KeyExternal, Name: name}.Partition(r.Partitions))
		}
	}
	slices.Sort(partitions)
	return append(names, id.String()), slices.Compact(partitions)
}

// maxNames bounds the names of one person that are looked for: the newest external id,
// and former ones.
const maxNames = 16

// events are those before a place, and the place down to which none is left out; zero:
// there are no more.
func (r *Reader) events(ctx context.Context, a *Asked, before sluice.Place) (found []Entry, end sluice.Place, err error) {
	if len(a.Profile.Events)+len(a.Profile.Purchases) == 0 {
		return nil, end, nil
	}
	first, last := span(&a.Row, a.Profile)
	if before == (sluice.Place{}) {
		before.Position.Major = uint64(max(last, 0))
	}
	names, partitions := r.names(a)
	for _, p := range partitions {
		asked := store.PersonAsked{Partition: p, Names: names, Before: beforeIn(p, before), Limit: a.Limit + 1}
		page, err := r.Events.PersonEvents(ctx, asked)
		if err != nil {
			return nil, end, err
		}
		for i := range page.Events {
			e := &page.Events[i]
			found = append(found, Entry{Kind: KindEvent, TimeMillis: e.TimeMillis, What: e.Name, Event: &e.Event, order: int64(min(e.Place.Position.Major, math.MaxInt64)), place: e.Place})
		}
		if !page.Done && int64(page.End.Position.Major) > first && compareLogs(page.End, end) > 0 {
			end = page.End
		}
	}
	// Another partition may have been looked through further than the one that end is of.
	found = slices.DeleteFunc(found, func(e Entry) bool { return compareLogs(e.place, end) < 0 })
	return found, end, nil
}

// compareLogs orders places of several logs by when they were accepted.
func compareLogs(a, b sluice.Place) int {
	return cmp.Or(cmp.Compare(a.Position.Major, b.Position.Major), cmp.Compare(a.Partition, b.Partition), a.Position.Compare(b.Position), cmp.Compare(a.Index, b.Index))
}

// beforeIn is the place in a partition that what is before another place is before.
func beforeIn(partition int, before sluice.Place) sluice.Place {
	if partition == before.Partition {
		return before
	}
	at := sluice.Place{Partition: partition, Position: sluice.Position{Major: before.Position.Major}}
	if partition < before.Partition {
		at.Position.Major++
	}
	return at
}
