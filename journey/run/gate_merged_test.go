package run

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"sluice"
	"sluice/journey"
	"sluice/mail"
	"sluice/store"
	"sluice/user"
)

// happens carries out what happens to people, word by word: "1 signup" is an event,
// "2 sent" has their mail sent, "1 merged 2" merges one person into another.
func (b *bed) happens(words ...string) {
	b.Helper()
	for i, text := range words {
		var number, into int64
		var what string
		if _, err := fmt.Sscanf(text+" 0", "%d %s %d", &number, &what, &into); err != nil {
			b.Fatal(text, err)
		}
		switch what {
		case "merged":
			b.merge(uint64(i)+1, number, user.ID{Number: into})
			b.profile(into, `{"external_id":"u2","former":["`+user.ID{Number: 1}.String()+`","`+user.ID{Number: 3}.String()+`"],"fields":{"email":"u2@example.com"}}`)
		case "sent":
			b.outcome(number, mail.SendSent)
		case "waited":
			b.clock.Move(time.Hour)
		default:
			b.fact(uint64(i)+1, number, journey.FactEvent, what, "")
		}
		b.passes(b.open())
		b.stored(everything)
	}
}

// outcome records what became of the mails of a person.
func (b *bed) outcome(number int64, state mail.SendState) {
	b.Helper()
	rows, err := b.store.UserSends(b.Context(), user.ID{Number: number}, mail.SendKey{}, 10)
	if err != nil {
		b.Fatal(err)
	}
	var all []mail.StoredOutcome
	for _, r := range rows {
		all = append(all, mail.StoredOutcome{Outcome: mail.Outcome{Message: r.Message, Recipients: 1, Was: mail.SendWaiting, State: state, TimeMillis: b.clock.Now().UnixMilli(), Attempts: 1}})
	}
	b.apply(&store.Effect{Outcomes: all})
}

// Of two people who are merged while a mail of the same step waits for each, one mail
// leaves: the survivor's. One alone leaves, whosever it is. What takes the survivor out of
// a place takes the mail with it that was made there before the merge.
func TestGateOfMergedPeople(t *testing.T) {
	const merged, exited = "merged again/mail", "exited again/mail"
	for _, x := range []struct {
		name, words string
		cancel      map[int64]string // by whose mail it is
	}{
		{"both have finished", "1 signup, 2 signup, 1 done, 2 done, 1 merged 2", map[int64]string{1: merged}},
		{"the survivor is inside", "1 signup, 1 done, 2 signup, 1 merged 2", map[int64]string{1: merged}},
		{"the other one is inside", "2 signup, 2 done, 0 waited, 1 signup, 1 merged 2", map[int64]string{1: merged}},
		{"both are inside", "1 signup, 2 signup, 1 merged 2", map[int64]string{1: exited}},
		{"the survivor's was sent meanwhile", "1 signup, 1 done, 2 signup, 2 done, 0 waited, 2 sent, 1 merged 2", map[int64]string{1: merged}},
		{"the survivor's was sent before", "2 signup, 2 sent, 2 done, 0 waited, 1 signup, 1 done, 1 merged 2", nil},
		{"the survivor was taken out", "1 signup, 2 signup, 1 done, 2 bought, 1 merged 2", map[int64]string{2: exited}},
		{"one has finished", "1 signup, 1 done, 1 merged 2", nil},
		{"one is inside", "1 signup, 1 merged 2", nil},
		{"one is inside, and the survivor is taken out", "1 signup, 1 merged 2, 2 bought", map[int64]string{1: exited}},
		{"two are merged into one who has none", "1 signup, 3 signup, 1 done, 3 done, 1 merged 2, 3 merged 2", map[int64]string{3: merged}},
		{"three", "1 signup, 2 signup, 3 signup, 1 done, 2 done, 3 done, 3 merged 2, 1 merged 2", map[int64]string{1: merged, 3: merged}},
	} {
		t.Run(x.name, func(t *testing.T) {
			b := newBed(t, 3)
			b.named(3)
			b.publish(leavingAgain)
			b.happens(strings.Split(x.words, ", ")...)
			sends := b.sends()
			answers := b.mayLeave(b.gate(), sends)
			for i, s := range sends {
				if answers[i] != (mail.Leave{Cancel: x.cancel[s.Person]}) {
					t.Errorf("mail of person %d: %+v, want %q", s.Person, answers[i], x.cancel[s.Person])
				}
			}
		})
	}
}

// A place may move by two merges. Mail that was made between them is cancelled too when the
// person is taken out of the place; that of another place of the user of then is not.
func TestGateOfTwoMergesInARow(t *testing.T) {
	second := strings.Replace(strings.Replace(leavingAgain, "next: exit}]", "next: more}]", 1), "exit_when", "  - {id: more, message: {template: x}, next: last}\n  - {id: last, delay: {for: 30d}}\nexit_when", 1)
	for words, want := range map[string]map[int64]string{
		"1 signup, 1 merged 3, 3 done, 3 merged 2, 2 bought":                             {1: "exited again/mail", 3: "exited again/more"},
		"1 signup, 1 merged 3, 3 done, 3 merged 2":                                       {},
		"1 signup, 1 sent, 0 waited, 3 signup, 3 over, 1 merged 2, 3 merged 2, 2 bought": {1: "exited again/mail"},
	} {
		b := newBed(t, 3)
		b.named(3)
		b.publish(strings.Replace(second, "paths: [", "paths: [{name: over, when: {event: over}, next: exit}, ", 1))
		b.happens(strings.Split(words, ", ")...)
		sends := b.sends()
		if len(sends) != 2 {
			t.Fatalf("%s: %d mails, want 2", words, len(sends))
		}
		for i, answer := range b.mayLeave(b.gate(), sends) {
			if answer != (mail.Leave{Cancel: want[sends[i].Person]}) {
				t.Errorf("%s: mail of person %d: %+v, want %q", words, sends[i].Person, answer, want[sends[i].Person])
			}
		}
	}
}

// The survivor may be of another partition: the ledger has the mail all the same, and the
// record is read there.
func TestGateOfAMergeIntoAnotherPartition(t *testing.T) {
	far := user.ID{Partition: 1, Number: 9}
	for _, both := range []bool{false, true} {
		b := newBed(t, 2)
		b.named(2)
		b.publish(leavingAgain)
		b.happens("1 signup", "1 done")
		b.merge(9, 1, far)
		b.passes(b.open())
		want := mail.Leave{}
		if both {
			want.Cancel = "merged again/mail"
			s := *b.sends()[0]
			s.Message, s.User, s.Person = sluice.NewMessageID(b.clock.Now().UnixMilli()), far.String(), far.Number
			b.apply(&store.Effect{Sends: []mail.StoredSend{{Send: s, Place: sluice.Place{Partition: 1, Position: sluice.Position{Major: 9}}}}})
		}
		if answers := b.mayLeave(b.gate(), b.sends()); len(answers) != 1 || answers[0] != want {
			t.Errorf("both have a mail %v: %+v, want %+v", both, answers, want)
		}
	}
}
