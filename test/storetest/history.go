package storetest

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"sluice"
	"sluice/journey"
	"sluice/mail"
	"sluice/store"
	"sluice/user"
)

// mailing is a fixture with people who get mail of journeys. Sends are in partition 3.
type mailing struct {
	*fixture
	here, merged, gone, far user.ID
}

func newMailing(t *testing.T, f *fixture) *mailing {
	t.Helper()
	sluice.WriteNewForms()
	f.start(t)
	m := &mailing{f, user.ID{Partition: 3, Number: 1}, user.ID{Partition: 3, Number: 2}, user.ID{Partition: 3, Number: 3}, user.ID{Partition: 5, Number: user.MaxNumber}}
	f.change(t, &user.Changes{Put: []user.Row{{ID: m.here, Profile: "{}"}, {ID: m.merged, Profile: "{}"}, {ID: m.far, Profile: "{}"}, {ID: m.gone, Profile: "{}"}}})
	return m
}

// mailTo is a mail of a step of a journey.
func mailTo(n int, id user.ID, step, tags string) mail.StoredSend {
	s := aSend(n, 0, 1)
	s.User, s.Journey, s.Step, s.Tags, s.Class = id.String(), "welcome", step, tags, mail.ClassMarketing
	return s
}

// react applies an effect and returns how much of it was forwarded.
func (m *mailing) react(t *testing.T, e store.Effect) int {
	t.Helper()
	effect := m.step(e)
	applied, err := m.store.Apply(m.ctx, m.prepare(t, effect))
	must(t, err)
	m.at = effect.Moves[0].To
	return applied.Forwarded
}

// facts are the facts of mail, in their order.
func (m *mailing) facts(t *testing.T) (all []string) {
	t.Helper()
	for part := range 8 {
		some, err := m.journeys(t).Facts(m.ctx, part, sluice.Place{Partition: part, Index: -1}, 1000)
		must(t, err)
		for _, x := range some {
			if x.Kind != journey.FactMail {
				t.Errorf("a fact of kind %d", x.Kind)
			}
			of := journey.ReadMailed(x.Body)
			all = append(all, fmt.Sprintf("%d/%d %s %s/%s %s %s", part, x.Number, x.Name, of.Journey, of.Step, of.Tags, of.Message[len(of.Message)-2:]))
		}
	}
	return all
}

func wantAll(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s:\n%s\nwant\n%s", what, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// place is the n-th item of a partition.
func placeOf(part, n int) sluice.Place {
	return sluice.Place{Partition: part, Position: sluice.Position{Major: 1 << 42, Minor: uint64(n)}, Index: n}
}

func answered(click bool) mail.ReactionKind {
	if click {
		return mail.ReactionClicked
	}
	return mail.ReactionOpened
}

func reaction(n int, click bool, place sluice.Place) mail.Reaction {
	return mail.Reaction{SendKey: mail.SendKey{Message: messageID(n)}, Kind: answered(click), TimeMillis: sendTime + int64(place.Index), Place: place}
}

// testMailFacts: what happens to mail is a fact of its user, at the user's home: at the
// place of the item, or on the way there. Only names that are asked for are.
func testMailFacts(t *testing.T, f *fixture) {
	m := newMailing(t, f)
	names := &journey.Names{}
	names.AddMail(journey.MailReceived, journey.MailOf{Tag: "news"})
	names.AddMail(journey.MailOpened, journey.MailOf{Journey: "welcome", Step: "hello"})
	sends := []mail.StoredSend{
		mailTo(0, m.here, "hello", "news"), mailTo(1, m.here, "other", "old,news"), mailTo(2, m.here, "hello", "newsy"),
		mailTo(3, m.merged, "hello", "news"), mailTo(4, m.gone, "hello", "news"), mailTo(5, m.far, "hello", "news"), mailTo(6, m.far, "hello", "news"),
	}
	sends[6].User = "nobody"
	var outcomes []mail.StoredOutcome
	for i := range sends {
		o := anOutcome(&sends[i], mail.SendWaiting, mail.SendSent, 1)
		o.Place.Index = i
		outcomes = append(outcomes, o)
	}
	f.record(t, sends[1:], nil, len(sends)-1)
	f.change(t, &user.Changes{Put: []user.Row{{ID: m.merged, MergedInto: m.far}}, Drop: []user.ID{m.gone}})

	// A send and its outcome in one transaction; one of far and one merged into far.
	want(t, "forwarded", m.react(t, store.Effect{Sends: sends[:1], Outcomes: outcomes, MailNames: names}), 2)
	wantAll(t, "facts", m.facts(t), "3/1 received welcome/hello news 00", "3/1 received welcome/other old,news 01")
	want(t, "forwarded by a repeat", m.react(t, store.Effect{Outcomes: outcomes, MailNames: names}), 0)
	m.wantForwards(t, "3>5 13 "+m.far.String()+" received", "3>5 13 "+m.far.String()+" received")

	// Opens: only the columns where nobody asks for it.
	want(t, "forwarded", m.react(t, store.Effect{Reactions: []mail.Reaction{reaction(0, false, placeOf(3, 1)), reaction(1, false, placeOf(3, 2)), reaction(5, false, placeOf(3, 3)), reaction(0, true, placeOf(3, 4)), reaction(99, true, placeOf(3, 5))}, MailNames: names}), 1)
	wantAll(t, "facts of reactions", m.facts(t)[2:], "3/1 opened welcome/hello news 00")
	m.wantForwards(t, "3>5 13 "+m.far.String()+" opened")
	m.wantFirst(t, sends[0], 1, 4)
	m.wantFirst(t, sends[1], 2, 0)
	m.wantFirst(t, sends[2], 0, 0)

	// The first counts for the column, and each is a fact; one read again is the same.
	want(t, "forwarded", m.react(t, store.Effect{Reactions: []mail.Reaction{reaction(0, false, placeOf(3, 1)), reaction(0, false, placeOf(3, 9))}, MailNames: names}), 0)
	wantAll(t, "facts of further reactions", m.facts(t)[2:], "3/1 opened welcome/hello news 00", "3/1 opened welcome/hello news 00")
	m.wantFirst(t, sends[0], 1, 4)

	// In the partition of the event nothing is changed: it goes to that of the send.
	want(t, "forwarded", m.react(t, store.Effect{Reactions: []mail.Reaction{reaction(2, true, placeOf(6, 1))}, MailNames: names}), 1)
	m.wantFirst(t, sends[2], 0, 0)
	m.wantForwards(t, "6>3 event clicked "+sends[2].ID())
	want(t, "facts in all", len(m.facts(t)), 4)

	// Each is counted once, at the step of its journey.
	m.wantMailCounts(t, "hello/clicked 1", "hello/clicked_raw 1", "hello/opened 2", "hello/opened_raw 2", "hello/sent 6", "other/opened 1", "other/opened_raw 1", "other/sent 1")

	// Numbers of forwards are above all that the logs know, and go on from there.
	last := int64(1) << 62
	for i, above := range []map[int]int64{{6: last}, nil} {
		m.react(t, store.Effect{Reactions: []mail.Reaction{reaction(2, true, placeOf(6, 2+i)), reaction(2, true, placeOf(6, 4+i))}, Forwarded: above})
		rows, err := m.store.(user.Store).Forwards(m.ctx, user.ForwardQuery{From: 6, To: user.AnyPartition}, 100)
		must(t, err)
		want(t, "forwards", len(rows), 2)
		for _, r := range rows {
			if r.ID <= last {
				t.Errorf("forward %d is not above %d", r.ID, last)
			}
			last = r.ID
		}
		must(t, m.store.(user.Store).Forwarded(m.ctx, 6, 3, last))
	}
}

// testPeopleAndMachines: what a machine does sets the columns of anybody, and a person
// those of people. A click of our own pages is a person's when no other speaks against
// it within ten seconds.
func testPeopleAndMachines(t *testing.T, f *fixture) {
	m := newMailing(t, f)
	names := &journey.Names{}
	names.AddMail(journey.MailOpened, journey.MailOf{Journey: "welcome", Step: "hello"})
	names.AddMail(journey.MailClicked, journey.MailOf{Journey: "welcome", Step: "hello"})
	sends := []mail.StoredSend{mailTo(0, m.here, "hello", ""), mailTo(1, m.here, "hello", ""), mailTo(2, m.here, "hello", ""), mailTo(3, m.here, "hello", "")}
	var outcomes []mail.StoredOutcome
	for i := range sends[:3] { // the last one is not sent yet
		outcomes = append(outcomes, anOutcome(&sends[i], mail.SendWaiting, mail.SendSent, 1))
	}
	f.record(t, sends, outcomes, len(sends))
	const hour = 3_600_000
	seen := func(n, index int, change func(*mail.Reaction)) mail.Reaction {
		r := reaction(n, true, placeOf(3, index))
		r.Own, r.TimeMillis = true, sendTime+hour+int64(index)*100
		change(&r)
		return r
	}
	link := func(n int) func(*mail.Reaction) { return func(r *mail.Reaction) { r.Link = n } }
	judged := func(r *mail.Reaction) { r.Judged = true }
	open := func(r *mail.Reaction) { r.Kind = mail.ReactionOpened }
	machine := func(r *mail.Reaction) { r.Machine, r.Kind = true, mail.ReactionOpened }
	early := func(r *mail.Reaction) { r.Kind, r.TimeMillis = mail.ReactionOpened, sendTime+1000+1999 }

	// Opens, by a machine, a second after it was sent, before it was sent, by a person.
	want(t, "forwarded", m.react(t, store.Effect{MailNames: names, Reactions: []mail.Reaction{seen(0, 1, machine), seen(1, 2, early), seen(3, 3, open), seen(0, 4, open)}}), 0)
	m.wantHuman(t, sends[0], hour+100, hour+400, 0, 0)
	m.wantHuman(t, sends[1], 1000+1999, 0, 0, 0)
	m.wantHuman(t, sends[3], hour+300, 0, 0, 0)
	wantAll(t, "facts of opens", m.facts(t), "3/1 opened welcome/hello  00")

	// One that lands in the log of another partition is judged in that of its send.
	elsewhere := seen(2, 1, link(7))
	elsewhere.Place = placeOf(6, 1)
	want(t, "forwarded", m.react(t, store.Effect{MailNames: names, Reactions: []mail.Reaction{elsewhere}}), 1)
	m.wantForwards(t, "6>3 event clicked "+sends[2].ID()+`","own":true,"link":7`)
	m.wantHuman(t, sends[2], 0, 0, 0, 0)

	// A person clicks one link; a filter all links of another mail, and 200 ms apart.
	want(t, "forwarded", m.react(t, store.Effect{MailNames: names, Reactions: []mail.Reaction{seen(0, 5, link(1)), seen(1, 6, link(1))}}), 2)
	want(t, "forwarded", m.react(t, store.Effect{MailNames: names, Reactions: []mail.Reaction{seen(1, 8, link(2))}}), 1)
	own := func(n, link int, first string) string {
		return fmt.Sprintf(`3>3 event clicked %s","judged":true,"link":%d%s`, sends[n].ID(), link, first)
	}
	const isFirst = `,"first":true`
	early3, err := m.store.(user.Store).Forwards(m.ctx, user.ForwardQuery{From: 3, To: user.AnyPartition, OwnBefore: 1}, 100)
	must(t, err)
	want(t, "clicks that are judged before their time", len(early3), 0)
	m.wantForwards(t, own(0, 1, isFirst), own(1, 1, isFirst), own(1, 2, ""))
	m.wantHuman(t, sends[0], hour+100, hour+400, hour+500, 0)
	want(t, "forwarded", m.react(t, store.Effect{MailNames: names, Reactions: []mail.Reaction{seen(0, 5, judged), seen(1, 6, judged), seen(1, 8, judged)}}), 0)
	m.wantHuman(t, sends[0], hour+100, hour+400, hour+500, hour+500)
	m.wantHuman(t, sends[1], 1000+1999, 0, hour+600, 0)
	wantAll(t, "facts of clicks", m.facts(t), "3/1 opened welcome/hello  00", "3/1 clicked welcome/hello  00")
	m.wantMailCounts(t, "hello/clicked 1", "hello/clicked_raw 2", "hello/opened 1", "hello/opened_raw 3", "hello/sent 3")
}

// wantHuman checks when a send was opened and clicked first, by anybody and by a person.
func (m *mailing) wantHuman(t *testing.T, s mail.StoredSend, opened, humanOpened, clicked, humanClicked int64) {
	t.Helper()
	row := m.row(t, &s)
	got := []int64{row.FirstOpenMillis, row.FirstHumanOpenMillis, row.FirstClickMillis, row.FirstHumanClickMillis}
	for i, n := range []int64{opened, humanOpened, clicked, humanClicked} {
		if n != 0 {
			n += sendTime
		}
		if got[i] != n {
			t.Errorf("send %s: column %d is %d, want %d", s.ID(), i, got[i], n)
		}
	}
}

// wantMailCounts checks what is counted of the mail of a journey.
func (m *mailing) wantMailCounts(t *testing.T, want ...string) {
	t.Helper()
	const under = "journey/welcome/"
	rows, err := m.store.(store.SeriesStore).Series(m.ctx, store.SeriesQuery{Days: true, ToMillis: sluice.MaxEventTimeMillis, Under: under, ByName: true, Whole: true, Limit: 100})
	must(t, err)
	var got []string
	for _, r := range rows {
		got = append(got, fmt.Sprintf("%s %d", strings.TrimPrefix(r.Name, under), r.Count))
	}
	slices.Sort(got)
	wantAll(t, "counts of mail", got, want...)
}

// wantFirst checks when a send was opened and clicked first: after so many ms; 0: never.
func (m *mailing) wantFirst(t *testing.T, s mail.StoredSend, opened, clicked int64) {
	t.Helper()
	row := m.row(t, &s)
	at := func(n int64) int64 {
		if n == 0 {
			return 0
		}
		return sendTime + n
	}
	if row.FirstOpenMillis != at(opened) || row.FirstClickMillis != at(clicked) {
		t.Errorf("send %s was opened at %d and clicked at %d, want %d and %d", s.ID(), row.FirstOpenMillis, row.FirstClickMillis, at(opened), at(clicked))
	}
}

// wantForwards takes what is forwarded, and checks it. Numbers rise.
func (m *mailing) wantForwards(t *testing.T, want ...string) {
	t.Helper()
	users := m.store.(user.Store)
	var got []string
	for part := range 8 {
		rows, err := users.Forwards(m.ctx, user.ForwardQuery{From: part, To: user.AnyPartition, OwnBefore: sluice.MaxEventTimeMillis}, 100)
		must(t, err)
		last := int64(0)
		for _, r := range rows {
			if r.ID <= last {
				t.Errorf("forward %d of partition %d is behind %d", r.ID, part, last)
			}
			last = r.ID
			got = append(got, fmt.Sprintf("%d>%d %s", part, r.To, itemText(t, r.Items)))
			must(t, users.Forwarded(m.ctx, part, r.To, r.ID))
		}
	}
	wantAll(t, "forwarded", got, want...)
}

func itemText(t *testing.T, items []byte) string {
	t.Helper()
	r, err := sluice.ReadBatch(append(sluice.NewBatch(0), items...))
	must(t, err)
	if !r.Next() {
		t.Fatal("nothing is in a forward")
	}
	if r.Item.Kind == sluice.ItemEvent {
		var e sluice.Event
		must(t, sluice.DecodeEvent(r.Item.Payload, &e))
		if e.Kind != sluice.KindMail || e.Origin != sluice.OriginOwnRepeat || !strings.HasPrefix(e.Properties, `{"send":"`+e.Message) {
			t.Errorf("forwarded %+v", e)
		}
		return "event " + e.Name + " " + strings.Trim(strings.TrimPrefix(e.Properties, `{"send":`), `"}`)
	}
	var u user.Update
	must(t, user.DecodeUpdate(r.Item.Payload, &u))
	return fmt.Sprintf("%d %s %s", u.Op, u.Key.Name, u.Name)
}

// testReactionsOfMessages: an event that names a message alone is about the send to its
// address, or about the one there is.
func testReactionsOfMessages(t *testing.T, f *fixture) {
	m := newMailing(t, f)
	alone, first, second, third := mailTo(0, m.here, "hello", ""), mailTo(1, m.here, "hello", ""), mailTo(1, m.here, "hello", ""), mailTo(1, m.here, "hello", "")
	second.Number, second.To = 1, "to-1@example.com"
	third.Number, third.To = 2, "ÉMILE@example.com"
	f.record(t, []mail.StoredSend{alone, first, second, third}, nil, 4)
	about := func(n int, email string, place int) mail.Reaction {
		r := reaction(n, false, placeOf(3, place))
		r.Number, r.Email = mail.AnyNumber, email
		return r
	}
	wantFirst := func(at ...int64) {
		t.Helper()
		for i, s := range []mail.StoredSend{alone, first, second, third} {
			m.wantFirst(t, s, at[i], 0)
		}
	}
	m.react(t, store.Effect{Reactions: []mail.Reaction{about(1, "", 1), about(1, "other@example.com", 2), about(0, "to-1@example.com", 3)}})
	wantFirst(0, 0, 0, 0)
	m.react(t, store.Effect{Reactions: []mail.Reaction{about(1, "TO-1@example.com", 4), about(0, "", 5)}})
	wantFirst(5, 0, 4, 0)
	counted := about(1, "to-1@example.com", 6)
	counted.Kind = mail.ReactionDelivered
	m.react(t, store.Effect{Reactions: []mail.Reaction{about(1, "émile@example.com", 7), about(1, "TO-0@example.com", 8), counted}})
	wantFirst(5, 8, 4, 7)
	f.wantRows(t, "SELECT SUM(count) FROM reactions WHERE kind = 'delivered'", []string{"1"})
}

// testMailKnown: questions about mail are answered for each person, ever or since.
func testMailKnown(t *testing.T, f *fixture) {
	m := newMailing(t, f)
	sends := []mail.StoredSend{mailTo(0, m.here, "hello", "news,Sale"), mailTo(1000, m.here, "other", "a%b"), mailTo(2000, m.far, "hello", "news"), mailTo(3000, m.merged, "hello", "news")}
	var outcomes []mail.StoredOutcome
	for i := range sends[:3] {
		outcomes = append(outcomes, anOutcome(&sends[i], mail.SendWaiting, mail.SendSent, 1)) // 1 s later
	}
	f.record(t, sends, outcomes, len(sends))
	m.react(t, store.Effect{Reactions: []mail.Reaction{reaction(0, false, placeOf(3, 10)), reaction(1000, true, placeOf(3, 20))}})
	opened, clicked, received := journey.MailOpened, journey.MailClicked, journey.MailReceived
	asked := []store.MailAsked{
		{Event: received}, {Event: opened}, {Event: clicked},
		{Event: received, Of: journey.MailOf{Tag: "sale"}}, {Event: received, Of: journey.MailOf{Tag: "Sale"}}, {Event: received, Of: journey.MailOf{Tag: "a%b"}}, {Event: received, Of: journey.MailOf{Tag: "a_b"}}, {Event: received, Of: journey.MailOf{Tag: "new"}},
		{Event: opened, Of: journey.MailOf{Journey: "welcome", Step: "hello"}}, {Event: opened, Of: journey.MailOf{Journey: "welcome", Step: "other"}}, {Event: opened, Of: journey.MailOf{Journey: "Welcome"}},
		{Event: clicked, Of: journey.MailOf{Message: messageID(1000)}}, {Event: clicked, Of: journey.MailOf{Message: messageID(0)}},
		{Event: opened, SinceMillis: sendTime + 10}, {Event: opened, SinceMillis: sendTime + 11}, {Event: received, Of: journey.MailOf{Step: "hello", Journey: "welcome"}, SinceMillis: sendTime + 1001},
	}
	h := f.store.(store.MailHistory)
	for n, x := range []struct {
		id   user.ID
		bits string
	}{{m.here, "111" + "01100" + "100" + "10" + "100"}, {m.far, "100" + "00000" + "000" + "00" + "001"}, {m.merged, "000" + "00000" + "000" + "00" + "000"}} {
		got, err := h.MailKnown(f.ctx, []user.ID{m.here, m.far, m.merged, m.gone}, asked)
		must(t, err)
		text := ""
		for i := range asked {
			text += fmt.Sprint(got[x.id] >> i & 1)
		}
		if text != x.bits {
			t.Errorf("person %d: got %s, want %s", n, text, x.bits)
		}
	}
	many := make([]user.ID, 0, 1100) // more than one statement takes
	for n := range 1100 {
		many = append(many, user.ID{Partition: 3, Number: int64(n) + 1})
	}
	got, err := h.MailKnown(f.ctx, many, asked[:1])
	must(t, err)
	want(t, "people who received any", len(got), 1)
}

// testMailCounts: mail is counted by tag, class and time, together with where the store
// was at that moment.
func testMailCounts(t *testing.T, f *fixture) {
	m := newMailing(t, f)
	h := f.store.(store.MailHistory)
	numbers := []int64{m.here.Number, m.merged.Number, m.gone.Number}
	counts, at, err := h.MailCounts(f.ctx, follower, 0, nil, nil)
	must(t, err)
	if len(counts) != 0 || at != f.at {
		t.Errorf("counted %v at %s, the store is at %s", counts, at, f.at)
	}
	if _, at, err = h.MailCounts(f.ctx, follower, 77, nil, nil); err != nil || !at.IsZero() {
		t.Errorf("a partition without a cursor is at %s: %v", at, err)
	}
	sends := []mail.StoredSend{
		mailTo(0, m.here, "hello", "promo"), mailTo(10, m.here, "hello", "promo"), mailTo(20, m.here, "hello", ""), mailTo(30, m.here, "hello", "promo"),
		mailTo(40, m.merged, "hello", "promo"), mailTo(50, m.here, "hello", "promo"), mailTo(60, m.far, "hello", "promo"), mailTo(70, m.here, "hello", "promo"),
	}
	sends[2].Class, sends[3].IgnoresCaps = mail.ClassTransactional, true
	f.record(t, sends, []mail.StoredOutcome{anOutcome(&sends[0], mail.SendWaiting, mail.SendSent, 1), anOutcome(&sends[5], mail.SendWaiting, mail.SendFailed, 1), anOutcome(&sends[7], mail.SendWaiting, mail.SendInDoubt, 1)}, len(sends))
	counts, at, err = h.MailCounts(f.ctx, follower, 3, numbers, []store.MailCounted{
		{SinceMillis: sendTime}, {SinceMillis: sendTime + 10, Tag: "promo"}, {SinceMillis: sendTime, Class: mail.ClassTransactional}, {SinceMillis: sendTime + 11, Class: mail.ClassMarketing},
	})
	must(t, err)
	if !at.IsZero() {
		t.Errorf("partition 3 is at %s", at)
	}
	if got := fmt.Sprint(counts); got != "map[1:[4 2 1 1] 2:[1 1 0 1]]" {
		t.Errorf("counted %s", got)
	}
}
