package timeline

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"sluice"
	"sluice/journey/desk"
	"sluice/mail"
	"sluice/store"
	"sluice/user"
	"sluice/user/profile"
)

// sources are those of a test. A look for events goes through so many at most, as that of
// a database is bounded.
type sources struct {
	events []store.StoredEvent
	mails  []mail.SendRow
	places []desk.Place
	rows   int
	looks  int
}

func (s *sources) PersonEvents(_ context.Context, a store.PersonAsked) (p store.PersonPage, err error) {
	s.looks++
	var before []store.StoredEvent
	for _, e := range s.events {
		if a.Before.Partition = a.Partition; e.Place.Partition == a.Partition && compareLogs(e.Place, a.Before) < 0 {
			before = append(before, e)
		}
	}
	slices.SortFunc(before, func(x, y store.StoredEvent) int { return compareLogs(y.Place, x.Place) })
	p.End = a.Before
	for i, e := range before {
		if i == s.rows || len(p.Events) == a.Limit {
			return p, nil
		}
		if p.End = e.Place; slices.Contains(a.Names, e.User) {
			p.Events = append(p.Events, e)
		}
	}
	p.Done = true
	return p, nil
}

func (s *sources) UserSends(_ context.Context, _ user.ID, before mail.SendKey, limit int) (rows []mail.SendRow, err error) {
	for _, m := range s.mails {
		if (before.Message == "" || m.Message < before.Message) && len(rows) < limit {
			rows = append(rows, m)
		}
	}
	return rows, nil
}

func (*sources) SuppressionsOf(context.Context, []string) ([]mail.Suppression, error) {
	return []mail.Suppression{{Reason: mail.SuppressManual, TimeMillis: 500}, {Reason: mail.SuppressManual, Scope: mail.ScopeMarketing, TimeMillis: 500}, {Reason: mail.SuppressComplaint, TimeMillis: 900}}, nil
}

func (s *sources) placesOf(context.Context, user.ID) ([]desk.Place, error) { return s.places, nil }

// many are sources with a person in partition 1 whose external id lies in another one.
func many(r *rand.Rand, partitions int) (s *sources, a Asked) {
	s = &sources{rows: 1 + r.IntN(7)}
	p := &profile.Profile{ExternalID: "u-1", Former: []string{"was-1"}, CreatedMillis: 10}
	p.SetAttributes(`{"email":"Ann@example.com"}`, 10)
	p.SetGroup("news", true, 700)
	p.SetGroup("offers", false, 700)
	other := user.Key{Kind: user.KeyExternal, Name: "u-1"}.Partition(partitions)
	for i := range r.IntN(40) {
		at := 1 + r.Int64N(1000)
		e := store.StoredEvent{Place: sluice.Place{Partition: []int{1, other}[r.IntN(2)], Position: sluice.Position{Major: uint64(at), Minor: uint64(r.IntN(2))}, Index: i}}
		e.Kind, e.Name, e.TimeMillis, e.User = sluice.KindCustom, fmt.Sprint("e", i), at, []string{"u-1", "was-1", "u-2"}[r.IntN(3)]
		if s.events = append(s.events, e); e.User != "u-2" {
			p.CountEvent(e.Name, at)
		}
	}
	for i := range r.IntN(10) {
		at := 1 + r.Int64N(1000)
		s.mails = append(s.mails, mail.SendRow{Message: fmt.Sprintf("%012x%020x", at, i), AcceptedMillis: at, State: mail.SendSent})
	}
	slices.SortFunc(s.mails, func(x, y mail.SendRow) int { return strings.Compare(y.Message, x.Message) })
	for i := range r.IntN(3) {
		s.places = append(s.places, desk.Place{Journey: fmt.Sprint("j", i), Name: "same", Entered: 1 + r.Int64N(1000)})
	}
	return s, Asked{Row: user.Row{ID: user.ID{Partition: 1, Number: 7}, UpdatedMillis: 1000}, Profile: p}
}

func said(all []Entry) (lines []string) {
	for i := range all {
		e := &all[i]
		line := fmt.Sprintf("%d %s %s", e.TimeMillis, e.Kind, e.What)
		switch {
		case e.Mail != nil:
			line += " " + e.Mail.Message
		case e.Place != nil:
			line += " " + e.Place.Journey
		case e.Suppression != nil:
			line += " " + e.Suppression.Scope.String()
		}
		lines = append(lines, line)
	}
	return lines
}

// Whatever the size of pages is, and wherever looks for events end, a timeline shows each
// entry once, the newest first.
func TestPagesOfAnySize(t *testing.T) {
	const partitions = 8
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		s, a := many(r, partitions)
		reader := &Reader{Events: s, Sends: s, Suppressions: s, Places: s.placesOf, Partitions: partitions}
		want := 6 + len(s.mails) + len(s.places) // created, two groups, three suppressions
		for _, e := range s.events {
			if e.User != "u-2" {
				want++
			}
		}
		for _, a.Limit = range []int{1, 3, 200} {
			var got []string
			last := int64(1 << 60)
			a.Before = ""
			for pages := 0; ; pages++ {
				page, err := reader.Read(t.Context(), a)
				if err != nil || pages > 500 || len(page.Entries) > a.Limit {
					t.Fatalf("seed %d, limit %d: page %d has %d entries, %v", seed, a.Limit, pages, len(page.Entries), err)
				}
				for i := range page.Entries {
					if at := page.Entries[i].TimeMillis; at > last {
						t.Fatalf("seed %d, limit %d: %d behind %d", seed, a.Limit, at, last)
					} else {
						last = at
					}
				}
				got = append(got, said(page.Entries)...)
				if a.Before = page.Next; a.Before == "" {
					break
				}
			}
			slices.Sort(got)
			if once := slices.Compact(slices.Clone(got)); len(once) != len(got) || len(got) != want {
				t.Fatalf("seed %d, limit %d: %d entries, %d of them once, want %d:\n%s", seed, a.Limit, len(got), len(once), want, strings.Join(got, "\n"))
			}
		}
	}
}

// Of somebody who never did anything no event is looked for, and of kinds that are not
// asked for nothing is.
func TestWhatIsNotAskedFor(t *testing.T) {
	s, a := many(rand.New(rand.NewPCG(1, 1)), 8)
	reader := &Reader{Events: s, Sends: s, Suppressions: s, Places: s.placesOf, Partitions: 8}
	a.Limit, a.Kinds = 200, []Kind{KindMail, KindChange}
	page, err := reader.Read(t.Context(), a)
	if err != nil || len(page.Entries) != len(s.mails)+1 || page.Next != "" || s.looks != 0 {
		t.Errorf("mails and changes: %v, %q, %d looks, %v", said(page.Entries), page.Next, s.looks, err)
	}
	a.Kinds, a.Profile = nil, &profile.Profile{CreatedMillis: 5}
	if page, err = reader.Read(t.Context(), a); err != nil || s.looks != 0 || page.Next != "" {
		t.Errorf("somebody without events: %d looks, %v", s.looks, err)
	}
}

// A mark that no page had is refused.
func TestMarks(t *testing.T) {
	for _, text := range []string{"x", "e30=", "eyJlIjpbOTk5LDAsMCwwXX0", "eyJtIjoieCJ9", (&mark{mail: mail.SendKey{Message: strings.Repeat("a", 32), Number: 1 << 16}}).text(), strings.Repeat("e", maxMarkBytes+1)} {
		if _, err := parseMark(text); err == nil {
			t.Errorf("%.20q was taken", text)
		}
	}
	for _, name := range []string{"ä", strings.Repeat("<", profile.MaxNameRunes), strings.Repeat("\u2028", profile.MaxNameRunes)} { // each of the longest has six bytes in JSON
		m := mark{mail.SendKey{Message: strings.Repeat("a", 32), Number: 3}, sluice.Place{Partition: 7, Position: sluice.Position{Major: 1 << 63, Minor: 2}, Index: 9}, true, otherMark{5, "consent " + name}}
		if got, err := parseMark(m.text()); err != nil || got != m {
			t.Errorf("got %+v, %v", got, err)
		}
	}
}
