package desk

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"sluice"
	"sluice/flow"
	"sluice/journey"
	"sluice/journey/step"
	"sluice/mail"
	"sluice/store"
	"sluice/user"
)

// What a former user got is that of the person: it decides about rules that ask for mail,
// and is shown if the place was that user's. Segments are as the version has them, and who
// is in the control group of all journeys is told so.
func TestWhyOfWhoWasMerged(t *testing.T) {
	b := newBed(t)
	segment := user.Segment{ID: "11111111-1111-4111-8111-111111111111", Name: "gold", Definition: `{"attribute":"plan","is":"equals","value":"gold"}`, CreatedMillis: 1, UpdatedMillis: 1}
	b.ok(b.store.AddSegment(t.Context(), segment))
	b.create(`
id: read
entry: {when: {event: signed_up}, who: {segment: 11111111-1111-4111-8111-111111111111}}
steps:
  - {id: hello, message: {template: hello}, next: fork}
  - {id: fork, split: {if: {mail: opened, is: exists}, then: wait, else: other}}
  - {id: wait, delay: {for: 1d}}
  - {id: other, message: {template: hello}, next: end}
  - {id: end, delay: {for: 1d}}
`)
	_, err := b.Publish(t.Context(), "read", -1)
	b.ok(err)
	segment.Definition = `{"attribute":"plan","is":"equals","value":"silver"}`
	b.ok(b.store.PutSegment(t.Context(), segment))

	id, former := user.ID{Number: 7}, user.ID{Number: 8}
	row := user.Row{ID: id, Profile: fmt.Sprintf(`{"external_id":"u7","former":[%q],"fields":{"email":"u7@example.com"},"custom":{"plan":"gold"}}`, former)}
	now := b.clock.Now().UnixMilli()
	sent := mail.StoredSend{Send: mail.Send{Message: sluice.NewMessageID(now), Recipients: 1, Priority: mail.PriorityNormal, Class: mail.ClassMarketing, Form: mail.ContentMIME, From: "us@example.org", To: "u7@example.com", User: former.String(), AcceptedMillis: now, DueMillis: now, Journey: "read", Step: "hello"}}
	for _, e := range []store.Effect{
		{Sends: []mail.StoredSend{sent}, Users: &user.Changes{Put: []user.Row{row, {ID: former, Profile: "{}"}}}},
		{Reactions: []mail.Reaction{{SendKey: sent.Key(), Kind: mail.ReactionOpened, TimeMillis: 1}}},
	} {
		p, err := b.store.Prepare(&e)
		b.ok(err)
		_, err = b.store.Apply(t.Context(), p)
		b.ok(err)
	}

	var record journey.Record
	b.Records = func(context.Context, user.ID, int64) (r flow.Record, err error) {
		if record.State != journey.StateNone {
			copy(r[:], record.Append(nil))
		}
		return r, nil
	}
	var taken []int
	b.Ways = func(context.Context, user.ID, int64) ([]int, error) { return taken, nil }
	b.Sends, b.History, b.Control = b.store, b.store, 100
	mark := step.MarkOf(former)
	for name, x := range map[string]struct {
		record journey.Record
		taken  int
		step   string
		want   string
	}{
		"the segment of the version": {want: "entry.who holds now"},
		"mail of the former user":    {record: journey.Record{State: journey.StateInside, Version: 1, Step: 4, Entered: 1, Former: mark}, taken: 1, step: "hello", want: "its mail " + sent.Message + " is "},
		"a rule about it":            {record: journey.Record{State: journey.StateInside, Version: 1, Step: 4, Entered: 1, Former: mark}, taken: 1, step: "wait", want: "steps.fork.split.if holds now"},
		"the control group":          {record: journey.Record{State: journey.StateInside, Version: 1, Step: 4, Entered: 1}, taken: 1, step: "other", want: "control group of all journeys"},
	} {
		record, taken = x.record, []int{x.taken}
		w, err := b.Why(t.Context(), "read", x.step, row)
		b.ok(err)
		if text := strings.Join(w.Says, "\n"); !strings.Contains(text, x.want) {
			t.Errorf("%s: want %q in:\n%s", name, x.want, text)
		}
	}
}
