package run

import (
	"fmt"
	"testing"
	"time"

	"sluice"
	"sluice/journey"
	"sluice/mail"
	"sluice/store"
	"sluice/user"
)

// opens has some people open the mail that they got with a tag.
func (b *bed) opens(people int, tag string, wanted func(to string) bool) {
	b.Helper()
	var all []mail.Reaction
	for n := 1; n <= people; n++ {
		rows, err := b.store.UserSends(b.Context(), user.ID{Number: int64(n)}, mail.SendKey{}, 100)
		if err != nil {
			b.Fatal(err)
		}
		for _, r := range rows {
			if mail.HasTag(r.Tags, tag) && wanted(r.To) {
				all = append(all, mail.Reaction{SendKey: mail.SendKey{Message: r.Message}, Kind: mail.ReactionOpened, TimeMillis: b.clock.Now().UnixMilli(), Place: sluice.Place{Position: sluice.Position{Major: 9}, Index: len(all)}})
			}
		}
	}
	b.apply(&store.Effect{Reactions: all})
}

// A split asks what mail people got, for a group of them by one statement, ever and
// within days; a rule of who enters asks it too, by a fact and by a scan.
func TestRulesKnowMail(t *testing.T) {
	const people = 900
	b := newBed(t, people)
	b.named(people)
	b.publish(`
id: hello
entry: {when: {event: signup}}
steps:
  - {id: hello, message: {template: x, tags: hello}, next: pause}
  - {id: pause, delay: {for: 3d}, next: read}
  - {id: read, split: {if: {mail: opened, journey: hello, step: hello, is: less_than_x_days_ago, value: 2}, then: thanks, else: ever}}
  - {id: ever, split: {if: {mail: opened, tag: hello, is: exists}, then: late, else: remind}}
  - {id: thanks, message: {template: x, tags: thanks}}
  - {id: late, message: {template: x, tags: late}}
  - {id: remind, message: {template: x, tags: remind}}
`)
	b.enterAll(people)
	p := b.open()
	b.passes(p)
	b.stored(everything)
	nth := func(modulo, rest int) func(string) bool {
		which := make(map[string]bool)
		for n := 1; n <= people; n++ {
			which[profileAddress(n)] = n%modulo == rest
		}
		return func(to string) bool { return which[to] }
	}
	b.opens(people, "hello", nth(3, 0))
	b.clock.Move(2 * 24 * time.Hour)
	b.opens(people, "hello", nth(3, 1))
	b.clock.Move(24 * time.Hour)
	b.asked = 0
	b.passes(p)
	f := b.read()
	for tag, want := range map[string]int{"thanks": people / 3, "late": people / 3, "remind": people / 3} {
		if got := len(f.tagged[tag]); got != want {
			t.Errorf("%d people got the mail %s, want %d", got, tag, want)
		}
	}
	if b.asked == 0 || b.asked > 4 {
		t.Errorf("%d statements for %d people", b.asked, people)
	}
	for i, entry := range []string{`{when: {event: again}, who: {mail: opened, tag: hello, is: exists}}`, `{when: {at: "2026-03-05 12:00"}, who: {not: {mail: opened, tag: hello, is: exists}}}`} {
		b.publish(fmt.Sprintf("\nid: next-%d\nentry: %s\nsteps: [{id: a, message: {template: x, tags: next-%d}}]\n", i, entry, i))
	}
	var facts []journey.Fact
	for n := range people {
		facts = append(facts, journey.Fact{Place: sluice.Place{Position: sluice.Position{Major: 20, Minor: uint64(n)}}, Number: int64(n) + 1, Kind: journey.FactEvent, Name: "again", TimeMillis: 1})
	}
	b.apply(&store.Effect{JourneyFacts: facts})
	b.clock.Move(6 * time.Hour)
	b.asked = 0
	b.passes(b.open())
	f = b.read()
	if got := [2]int{len(f.tagged["next-0"]), len(f.tagged["next-1"])}; got != [2]int{people * 2 / 3, people / 3} {
		t.Errorf("%v people entered by a fact and by a scan, want %d and %d", got, people*2/3, people/3)
	}
	if b.asked == 0 || b.asked > 12 { // one page of facts, and a scan in groups of 128
		t.Errorf("%d statements for %d people", b.asked, people)
	}
}

// What a person asked for who goes into another journey is asked anew, for that one's
// rules; of who was merged in it is that of both.
func TestRulesKnowMailBehindAGo(t *testing.T) {
	b := newBed(t, 3)
	b.named(3)
	b.publish(`
id: second
entry: {when: {event: never}}
steps:
  - {id: read, split: {if: {and: [{mail: clicked, is: exists}, {mail: received, tag: old, is: does_not_exist}]}, then: yes, else: no}}
  - {id: yes, message: {template: x, tags: yes}}
  - {id: no, message: {template: x, tags: no}}
`)
	b.publish(`
id: first
entry: {when: {event: signup}}
steps:
  - {id: any, split: {if: {mail: opened, tag: old, is: exists}, then: exit, else: on}}
  - {id: on, go: {journey: second}}
`)
	s := mail.StoredSend{Send: mail.Send{Message: sluice.NewMessageID(b.clock.Now().UnixMilli()), Recipients: 1, Priority: mail.PriorityNormal, Class: mail.ClassMarketing, Form: mail.ContentMIME, AcceptedMillis: b.clock.Now().UnixMilli(), To: "x@example.com", User: "u2"}}
	former := s
	former.Message, former.User = sluice.NewMessageID(b.clock.Now().UnixMilli()), user.ID{Partition: 1, Number: 5}.String()
	b.apply(&store.Effect{Sends: []mail.StoredSend{s, former}, Users: &user.Changes{Put: []user.Row{{ID: user.ID{Partition: 1, Number: 5}, Profile: "{}"}, {ID: user.ID{Number: 3}, Profile: fmt.Sprintf(`{"external_id":"u3","former":[%q],"fields":{"email":"u3@example.com"}}`, user.ID{Partition: 1, Number: 5})}}}})
	b.apply(&store.Effect{Reactions: []mail.Reaction{{SendKey: s.Key(), Kind: mail.ReactionClicked, TimeMillis: 1}, {SendKey: former.Key(), Kind: mail.ReactionClicked, TimeMillis: 1}}})
	b.enterAll(3)
	b.passes(b.open())
	if f := b.read(); len(f.tagged["yes"]) != 2 || len(f.tagged["no"]) != 1 {
		t.Errorf("%d and %d mails, want 2 and 1", len(f.tagged["yes"]), len(f.tagged["no"]))
	}
}

// What a journey asked does not answer for the one that a person goes to: each numbers
// its questions for itself.
func TestWhatIsKnownDoesNotGoAlong(t *testing.T) {
	b := newBed(t, 2)
	b.named(2)
	b.publish(`
id: elsewhere
entry: {when: {event: never}}
steps: [{id: stay, delay: {for: 1d}}]
`)
	b.publish(`
id: second
entry: {when: {event: never}, who: {journey: elsewhere, is: was_inside}}
steps: [{id: hello, message: {template: x, tags: second}}]
`)
	b.publish(`
id: first
entry: {when: {event: signup}}
steps:
  - {id: hello, message: {template: x, tags: first}, next: pause}
  - {id: pause, delay: {for: 1h}, next: any}
  - {id: any, split: {if: {mail: clicked, is: exists}, then: on, else: exit}}
  - {id: on, go: {journey: second}}
`)
	s := mail.StoredSend{Send: mail.Send{Message: sluice.NewMessageID(b.clock.Now().UnixMilli()), Recipients: 1, Priority: mail.PriorityNormal, Class: mail.ClassMarketing, Form: mail.ContentMIME, AcceptedMillis: b.clock.Now().UnixMilli(), To: "x@example.com", User: "u2"}}
	b.apply(&store.Effect{Sends: []mail.StoredSend{s}})
	b.apply(&store.Effect{Reactions: []mail.Reaction{{SendKey: s.Key(), Kind: mail.ReactionClicked, TimeMillis: 1}}})
	b.enterAll(2)
	p := b.open()
	b.passes(p)
	b.clock.Move(2 * time.Hour)
	b.passes(p)
	f := b.read()
	if f.counts["journey/first/on/passed"] != 1 {
		t.Fatalf("%d went on to the second, want 1: this test shows nothing", f.counts["journey/first/on/passed"])
	}
	if n := len(f.tagged["second"]); n != 0 {
		t.Errorf("%d got in who were never in the journey that the rule asks for", n)
	}
}
