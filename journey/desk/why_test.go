package desk

import (
	"context"
	"strings"
	"testing"
	"time"

	"sluice"
	"sluice/flow"
	"sluice/journey"
	"sluice/mail"
	"sluice/store"
	"sluice/user"
)

const asked = `
id: asked
entry: {when: {event: signed_up}, who: {attribute: land, is: equals, value: AT}}
steps:
  - {id: fork, split: {if: {attribute: plan, is: equals, value: gold}, then: thanks, else: wait}}
  - {id: thanks, message: {template: hello}, next: wait}
  - {id: wait, delay: {for: 1d}, next: last}
  - {id: last, message: {template: hello}, next: end}
  - {id: end, delay: {for: 1d}}
exit_when:
  - {event: bought}
  - {rule: {attribute: plan, is: equals, value: silver}}
exceptions: {attribute: plan, to: gold}
`

// What decided is said: the rule with the value, the branch, the time, the state of the
// mail, and what is known only as it is now.
func TestWhy(t *testing.T) {
	b := newBed(t)
	b.create(asked)
	_, err := b.Publish(t.Context(), "asked", -1)
	b.ok(err)
	id := user.ID{Number: 7}
	var record journey.Record
	var taken []int
	b.Records = func(context.Context, user.ID, int64) (r flow.Record, err error) {
		if record.State != journey.StateNone {
			copy(r[:], record.Append(nil))
		}
		return r, nil
	}
	b.Ways = func(context.Context, user.ID, int64) ([]int, error) { return taken, nil }
	b.Sends, b.History = b.store, b.store
	b.Caps = []journey.Cap{{Name: "daily", Class: mail.ClassMarketing, Messages: 1, Window: 24 * time.Hour}, {Name: "tagged", Tag: "promo", Messages: 1, Window: time.Hour}}
	row := user.Row{ID: id, Profile: `{"external_id":"u7","fields":{"email":"u7@example.com","email_subscribe":"unsubscribed"},"custom":{"land":"DE","plan":"free"}}`}
	p, err := b.store.Prepare(&store.Effect{Users: &user.Changes{Put: []user.Row{row}, AddKeys: []user.KeyRow{{Key: user.Key{Kind: user.KeyExternal, Name: "u7"}, ID: id}}}})
	b.ok(err)
	_, err = b.store.Apply(t.Context(), p)
	b.ok(err)
	sent := mail.Send{Message: sluice.NamedMessageID(b.clock.Now().UnixMilli()-1, "x", 0), Recipients: 1, Priority: mail.PriorityNormal, Class: mail.ClassMarketing, From: "us@example.org", To: "u7@example.com", User: "u7", AcceptedMillis: b.clock.Now().UnixMilli(), DueMillis: b.clock.Now().UnixMilli(), Journey: "asked", Step: "thanks", Form: mail.ContentTemplate, Content: `{"template":"hello"}`}
	p, err = b.store.Prepare(&store.Effect{Sends: []mail.StoredSend{{Send: sent, Place: sluice.Place{Position: sluice.Position{Major: 1}}}}})
	b.ok(err)
	_, err = b.store.Apply(t.Context(), p)
	b.ok(err)

	inside := journey.Record{State: journey.StateInside, Version: 1, Due: 1_772_533_800, Entered: 1_772_442_000}
	at := func(step uint16, state journey.State) journey.Record {
		r := inside
		r.Step, r.State = step, state
		return r
	}
	left := func(kind journey.CauseKind, index int) journey.Record {
		r := at(2, journey.StateInside)
		r.Leave(journey.Cause{Kind: kind, Index: index}, 1_772_533_800)
		return r
	}
	fact := journey.Fact{Place: sluice.Place{Position: sluice.Position{Major: 1_772_533_800_999}}, Number: 7, Kind: journey.FactEvent, Name: "bought", TimeMillis: 1, Body: `{"hats":2}`}
	another := fact
	another.Number, another.Name = 8, "other"
	p, err = b.store.Prepare(&store.Effect{JourneyFacts: []journey.Fact{fact, another}})
	b.ok(err)
	_, err = b.store.Apply(t.Context(), p)
	b.ok(err)
	for name, x := range map[string]struct {
		record journey.Record
		taken  []int
		step   string
		want   []string // of the sentences, and of the findings
	}{
		"never":     {want: []string{"never entered", "event signed_up", "entry.who does not hold now", `"DE"`}},
		"waits":     {record: at(2, journey.StateInside), taken: []int{1}, want: []string{"is at step wait until 2026-03-03T10:30:00Z"}},
		"lost":      {record: journey.Record{State: journey.StateInside, Version: 4, Step: 90, Entered: 1_772_442_000}, step: "last", want: []string{"version that the database has lost", "is at a step that is not known until something happens"}},
		"not yet":   {record: at(2, journey.StateInside), taken: []int{1}, step: "last", want: []string{"still to come"}},
		"other way": {record: at(2, journey.StateInside), taken: []int{1}, step: "thanks", want: []string{"did not come to step thanks: it went from step fork by else", "does not hold now", `"free"`}},
		"got it":    {record: at(2, journey.StateInside), taken: []int{0}, step: "thanks", want: []string{"went on from step thanks", "is waiting"}},
		"left out":  {record: at(4, journey.StateInside), taken: []int{1}, step: "last", want: []string{"the mail was left out", "unsubscribed from marketing mail now", "cap daily allows 1 in 1d, and the person got 1 in the time up to now"}},
		"taken out": {record: at(2, journey.StateExited), taken: []int{1}, step: "last", want: []string{"was taken out at step wait", "left before step last"}},
		"bought":    {record: left(journey.CauseExit, 0), want: []string{"was taken out at step wait", "at 2026-03-03T10:30:00Z, by exit_when[0]: event bought", `what happened then: bought {"hats":2}`}},
		"rule":      {record: left(journey.CauseExit, 1), want: []string{"by exit_when[1]: rule", "exit_when[1].rule does not hold now", `"free"`}},
		"exception": {record: left(journey.CauseException, 0), want: []string{"by exceptions[0]: attribute plan"}},
		"stopped":   {record: left(journey.CauseStopped, 0), want: []string{"because the journey was stopped"}},
		"once":      {record: at(4, journey.StateFinished), taken: []int{1}, want: []string{"went to the end", "enters this journey once"}},
		"merged":    {record: left(journey.CauseMerged, 0), want: []string{"because the person was merged"}},
		"deleted":   {record: left(journey.CauseDeleted, 0), want: []string{"because the person was deleted"}},
		"control":   {record: at(0, journey.StateControl), step: "last", want: []string{"control group"}},
		"unknown":   {record: at(2, journey.StateInside), step: "last", want: []string{"is not known"}},
	} {
		record, taken = x.record, x.taken
		w, err := b.Why(t.Context(), "asked", x.step, row)
		b.ok(err)
		text := strings.Join(w.Says, "\n")
		for _, r := range w.Rules {
			text += "\n" + r.Finding.String()
		}
		for _, want := range x.want {
			if !strings.Contains(text, want) {
				t.Errorf("%s: want %q in:\n%s", name, want, text)
			}
		}
		if strings.Contains(text, "tagged") {
			t.Errorf("%s: a cap counts what has not its tag:\n%s", name, text)
		}
	}
	_, err = b.Why(t.Context(), "asked", "none", row)
	b.refused(err, sluice.CodeNotFound)

	_, err = b.SetStatus(t.Context(), "asked", Pause)
	b.ok(err)
	_, err = b.Resume(t.Context(), "asked", OverdueSkip)
	b.ok(err)
	resumed := b.clock.Now().Unix()
	for after, told := range map[int64]bool{-1: true, 1: false} { // who came later was not overdue then
		record, taken = at(4, journey.StateInside), []int{1}
		record.Entered = uint32(resumed + after)
		w, err := b.Why(t.Context(), "asked", "last", row)
		b.ok(err)
		if text := strings.Join(w.Says, "\n"); strings.Contains(text, "without the messages") != told {
			t.Errorf("entered %d s after the resume:\n%s", after, text)
		}
	}
}

// A mail that is older than those looked through is not said to be missing in the ledger.
func TestWhyOfWhoGotVeryManyMails(t *testing.T) {
	b := newBed(t)
	b.create(asked)
	_, err := b.Publish(t.Context(), "asked", -1)
	b.ok(err)
	id := user.ID{Number: 7}
	record := journey.Record{State: journey.StateInside, Version: 1, Step: 2, Due: 1_772_533_800, Entered: 1_772_442_000}
	b.Records = func(context.Context, user.ID, int64) (flow.Record, error) {
		return flow.Record(record.Append(nil)), nil
	}
	b.Ways = func(context.Context, user.ID, int64) ([]int, error) { return []int{0}, nil }
	b.Sends, b.History = b.store, b.store
	row := user.Row{ID: id, Profile: `{"external_id":"u7","fields":{"email":"u7@example.com"}}`}
	now := b.clock.Now().UnixMilli()
	send := func(i int) mail.StoredSend {
		at := now + int64(i)
		return mail.StoredSend{Place: sluice.Place{Position: sluice.Position{Major: 1, Minor: uint64(i)}}, Send: mail.Send{
			Message: sluice.NewMessageID(at), Recipients: 1, Priority: mail.PriorityNormal, Class: mail.ClassMarketing, Form: mail.ContentMIME,
			From: "us@example.org", To: "u7@example.com", User: "u7", AcceptedMillis: at, DueMillis: at}}
	}
	sent := send(0)
	sent.Journey, sent.Step = "asked", "thanks"
	apply := func(e *store.Effect) {
		t.Helper()
		p, err := b.store.Prepare(e)
		b.ok(err)
		_, err = b.store.Apply(t.Context(), p)
		b.ok(err)
	}
	says := func() string {
		t.Helper()
		w, err := b.Why(t.Context(), "asked", "thanks", row)
		b.ok(err)
		return strings.Join(w.Says, "\n")
	}
	apply(&store.Effect{Users: &user.Changes{Put: []user.Row{row}, AddKeys: []user.KeyRow{{Key: user.Key{Kind: user.KeyExternal, Name: "u7"}, ID: id}}}})
	if text := says(); !strings.Contains(text, "the ledger has no mail of it") {
		t.Errorf("without mail: %s", text)
	}
	e := &store.Effect{Sends: []mail.StoredSend{sent}}
	for i := range sendsLookedAt {
		e.Sends = append(e.Sends, send(i+1))
	}
	apply(e)
	if text := says(); !strings.Contains(text, "among the newest 1000 mails of this person there is none of it") || strings.Contains(text, "the ledger has no mail") {
		t.Errorf("behind many others: %s", text)
	}
}

// Who has finished is out when no conversion counts any more, and who is in the control group
// enters no earlier. The answer names that time.
func TestWhyNamesWhenWhoIsWatchedMayEnterAgain(t *testing.T) {
	b := newBed(t)
	b.create(`{id: again, entry: {when: {event: e}, again_after: 1d}, steps: [{id: s, exit: {}}], conversions: [{name: bought, when: {purchase: "*"}, within: 3d}]}`)
	_, err := b.Publish(t.Context(), "again", -1)
	b.ok(err)
	const entered, day = 1_772_442_000, 86_400 // 2026-03-02 09:00
	var record journey.Record
	b.Records = func(context.Context, user.ID, int64) (r flow.Record, err error) {
		copy(r[:], record.Append(nil))
		return r, nil
	}
	b.Ways = func(context.Context, user.ID, int64) ([]int, error) { return nil, nil }
	b.Sends, b.History = b.store, b.store
	for state, want := range map[journey.State]string{
		journey.StateWatching: "may enter again from 2026-03-05T09:00:00Z on",
		journey.StateControl:  "may enter again from 2026-03-05T09:00:00Z on",
		journey.StateFinished: "may enter again from 2026-03-03T09:00:00Z on", // of a version without conversions
	} {
		record = journey.Record{State: state, Version: 1, Entered: entered}
		if state == journey.StateWatching {
			record.Due = entered + 3*day
		}
		w, err := b.Why(t.Context(), "again", "", user.Row{ID: user.ID{Number: 7}, Profile: "{}"})
		b.ok(err)
		if text := strings.Join(w.Says, "\n"); !strings.Contains(text, want) {
			t.Errorf("%s: want %q in:\n%s", state, want, text)
		}
	}
}
