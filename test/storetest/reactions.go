package storetest

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice"
	"sluice/mail"
	"sluice/store"
)

// heard is an effect of events that say what happened to mails: each with its row, as
// the store follower makes it.
type heard store.Effect

// add adds that something has happened to the n-th mail. at is its item, and its time.
func (h *heard) add(n, at int, kind mail.ReactionKind, change func(*mail.Reaction)) {
	place := placeOf(3, at)
	r := mail.Reaction{SendKey: mail.SendKey{Message: messageID(n)}, Kind: kind, TimeMillis: sendTime + time.Hour.Milliseconds() + int64(at), Place: place}
	if change != nil {
		change(&r)
	}
	e := event(at)
	e.ID, e.TimeMillis, e.Name, e.Place = fmt.Sprintf("%s-%d", kind, at), r.TimeMillis, kind.String(), place
	h.Events, h.Reactions = append(h.Events, e), append(h.Reactions, r)
}

func byMachine(r *mail.Reaction) { r.Machine = true }

// countedRows are the rows of reactions but for their hour and stripe, added up.
const countedRows = "SELECT campaign, journey, step, variant, kind, link, machine, SUM(count), SUM(firsts), SUM(human_firsts) FROM reactions " +
	"GROUP BY campaign, journey, step, variant, kind, link, machine ORDER BY campaign, journey, step, variant, kind, link, machine"

func (f *fixture) wantReactions(t *testing.T, want ...string) {
	t.Helper()
	var got []string
	for _, row := range f.Query(t, countedRows) {
		got = append(got, strings.Join(row, " "))
	}
	wantAll(t, "counted", got, want...)
}

// mailed are three mails of a step with a variant, and one of a campaign, that were sent;
// one that was refused.
func (m *mailing) mailed(t *testing.T) (sends []mail.StoredSend, outcomes []mail.StoredOutcome) {
	t.Helper()
	for n := range 5 {
		s := mailTo(n, m.here, "hello", "news,old")
		s.Variant = "b"
		if n >= 3 {
			s = aSend(n, 0, 1)
			s.Tags, s.Metadata = "ignored", `{"campaign_id":"spring ä"}`
		}
		sends = append(sends, s)
		o := anOutcome(&s, mail.SendWaiting, mail.SendSent, 1)
		o.Place.Index, o.Tags, o.Metadata = n, s.Tags, s.Metadata
		outcomes = append(outcomes, o)
	}
	outcomes[4].State, outcomes[4].Bounced = mail.SendFailed, mail.ReactionBouncedHard
	m.record(t, sends, nil, len(sends))
	return sends, outcomes
}

// testReactionCounts: what mail sends and gets back is counted once, under its campaign,
// step, variant, link and hour, by people and by machines.
func testReactionCounts(t *testing.T, f *fixture) {
	m := newMailing(t, f)
	_, outcomes := m.mailed(t)
	for range 2 { // read again it changes no state
		f.apply(t, store.Effect{Outcomes: outcomes}, 0, 0)
	}
	sent := []string{"news welcome hello b sent 0 0 3 0 0", "spring ä    bounced_hard 0 0 1 0 0", "spring ä    refused 0 0 1 0 0", "spring ä    sent 0 0 1 0 0"}
	f.wantReactions(t, sent...)

	// A machine opens two mails, a person one of them, twice; what others report.
	var h heard
	h.add(0, 1, mail.ReactionOpened, byMachine)
	h.add(1, 2, mail.ReactionOpened, byMachine)
	h.add(0, 3, mail.ReactionOpened, nil)
	h.add(0, 4, mail.ReactionOpened, nil)
	h.add(3, 5, mail.ReactionDelivered, nil)
	h.add(3, 6, mail.ReactionComplained, nil)
	h.add(3, 7, mail.ReactionDelivered, func(r *mail.Reaction) { r.Place.Partition = 6 })
	h.Events[6].Place.Partition = 6
	h.add(2, 8, mail.ReactionBouncedSoft, nil)
	h.add(99, 9, mail.ReactionDelivered, nil) // there is no such mail
	h.add(3, 10, mail.ReactionClicked, nil)   // reported: of no link
	f.apply(t, store.Effect(h), 10, 0)
	opened := []string{"news welcome hello b bounced_soft 0 0 1 0 0", "news welcome hello b opened 0 0 2 0 1", "news welcome hello b opened 0 1 2 2 0", sent[0], sent[1],
		"spring ä    clicked 0 0 1 1 1", "spring ä    complained 0 0 1 0 0", "spring ä    delivered 0 0 2 0 0", sent[2], sent[3]}
	f.wantReactions(t, opened...)
	hours := "SELECT COUNT(DISTINCT bucket) FROM reactions"
	f.wantRows(t, hours, []string{"2"})

	// A click of our own pages counts when it is judged, under its link; others are a scan.
	own := func(link int) func(*mail.Reaction) {
		return func(r *mail.Reaction) { r.Own, r.Link = true, link }
	}
	var clicks, judged heard
	clicks.add(0, 20, mail.ReactionClicked, own(3))
	clicks.add(1, 21, mail.ReactionClicked, own(1))
	clicks.add(1, 22, mail.ReactionClicked, own(2))
	want(t, "forwarded", m.react(t, store.Effect(clicks)), 3)
	f.wantReactions(t, opened...)
	m.wantForwards(t, `3>3 event clicked `+messageID(0)+`.0","judged":true,"link":3,"first":true`, `3>3 event clicked `+messageID(1)+`.0","judged":true,"link":1,"first":true`,
		`3>3 event clicked `+messageID(1)+`.0","judged":true,"link":2`)
	for i, r := range clicks.Reactions {
		r.Judged, r.Forwarded, r.First = true, true, i < 2
		judged.Reactions = append(judged.Reactions, r)
	}
	f.apply(t, store.Effect(judged), 0, 0)
	f.wantReactions(t, append([]string{opened[0], "news welcome hello b clicked 1 1 1 1 0", "news welcome hello b clicked 2 1 1 0 0", "news welcome hello b clicked 3 0 1 1 1"}, opened[1:]...)...)
}

// testReactionsOnce: a repeat of an event, a cursor that was set back, and a transaction
// that goes row by row count nothing twice; one that is refused as a whole counts nothing.
func testReactionsOnce(t *testing.T, f *fixture) {
	m := newMailing(t, f)
	m.mailed(t)
	var first, mixed, refused heard
	first.add(0, 1, mail.ReactionOpened, nil)
	first.add(0, 2, mail.ReactionDelivered, nil)
	f.apply(t, store.Effect(first), 2, 0)
	once := []string{"news welcome hello b delivered 0 0 1 0 0", "news welcome hello b opened 0 0 1 1 1"}
	f.wantReactions(t, once...)
	f.apply(t, store.Effect(first), 0, 2) // as after the cursor was set back
	f.wantReactions(t, once...)

	// One repeat, at another place, beside one that is new; what a forward brings is new.
	mixed.add(0, 2, mail.ReactionDelivered, nil)
	mixed.Events[0].Place.Index, mixed.Reactions[0].Place.Index = 90, 90
	mixed.add(0, 3, mail.ReactionOpened, nil)
	mixed.Reactions = append(mixed.Reactions, mail.Reaction{
		SendKey: mail.SendKey{Message: messageID(1)}, Kind: mail.ReactionOpened, TimeMillis: sendTime + time.Hour.Milliseconds(), Place: placeOf(3, 80), Forwarded: true,
	})
	f.apply(t, store.Effect(mixed), 1, 1)
	f.wantReactions(t, once[0], "news welcome hello b opened 0 0 3 2 2")

	// Row by row, with a repeat and an event that the database refuses.
	refused.add(0, 2, mail.ReactionDelivered, nil)
	refused.add(1, 4, mail.ReactionComplained, nil)
	refused.add(1, 5, mail.ReactionComplained, nil)
	refused.Events[2].Kind = 99
	f.refuse(t, store.Effect(refused), 1, 1, 1)
	after := []string{"news welcome hello b complained 0 0 1 0 0", once[0], "news welcome hello b opened 0 0 3 2 2"}
	f.wantReactions(t, after...)

	var late heard
	late.add(1, 6, mail.ReactionComplained, nil)
	stale := store.Effect(late)
	stale.Moves = []store.Move{{Follower: follower, To: sluice.Position{Major: 99}}}
	_, err := f.store.Apply(f.ctx, f.prepare(t, &stale))
	wantError(t, err, sluice.ErrConflict)
	f.wantReactions(t, after...)
}

// testReactionsOfTwoTellers: what is told twice of a mail, by a report to its return path
// and by a provider, counts once, also when they do not call it the same, and whatever else
// is told beside it. What is told in another partition, as of an event that names a user,
// is forwarded to that of the send, and counts there.
func testReactionsOfTwoTellers(t *testing.T, f *fixture) {
	m := newMailing(t, f)
	m.mailed(t)
	var first, second, beside heard
	first.add(0, 1, mail.ReactionBouncedHard, nil)
	first.add(3, 2, mail.ReactionComplained, nil)
	first.add(3, 3, mail.ReactionComplained, nil)
	first.add(3, 4, mail.ReactionDelivered, nil)
	f.apply(t, store.Effect(first), 4, 0)
	second.add(0, 11, mail.ReactionBouncedBlock, func(r *mail.Reaction) { r.Number = mail.AnyNumber })
	second.add(1, 12, mail.ReactionBouncedBlock, nil)
	second.add(3, 13, mail.ReactionComplained, nil)
	second.add(3, 14, mail.ReactionUnsubscribed, nil)
	second.add(3, 15, mail.ReactionUnsubscribed, func(r *mail.Reaction) { r.Place.Partition = 6 })
	second.Events[4].Place.Partition = 6
	want(t, "forwarded", m.react(t, store.Effect(second)), 1)
	counted := []string{"news welcome hello b bounced_block 0 0 1 0 0", "news welcome hello b bounced_hard 0 0 1 0 0",
		"spring ä    complained 0 0 1 0 0", "spring ä    delivered 0 0 1 0 0", "spring ä    unsubscribed 0 0 1 0 0"}
	f.wantReactions(t, counted...)

	// What was forwarded comes to the partition of the send, with a bounce that was told here.
	m.wantForwards(t, `6>3 event counted `+messageID(3)+`.0","kind":"unsubscribed`)
	forwarded := second.Reactions[4:]
	forwarded[0].Place, forwarded[0].Forwarded = placeOf(3, 16), true
	f.apply(t, store.Effect{Reactions: forwarded}, 0, 0)
	f.wantReactions(t, counted...)
	forwarded[0].Kind, forwarded[0].Message = mail.ReactionUnsubscribed, messageID(4)
	f.apply(t, store.Effect{Reactions: forwarded}, 0, 0)
	counted[4] = "spring ä    unsubscribed 0 0 2 0 0"
	f.wantReactions(t, counted...)

	// An open of the same mail in one transaction keeps both, and what was opened stays.
	beside.add(0, 21, mail.ReactionOpened, nil)
	beside.add(0, 22, mail.ReactionBouncedSoft, nil)
	beside.add(0, 23, mail.ReactionComplained, nil)
	f.apply(t, store.Effect(beside), 3, 0)
	beside = heard{}
	beside.add(0, 31, mail.ReactionComplained, nil)
	f.apply(t, store.Effect(beside), 1, 0)
	f.wantReactions(t, append([]string{counted[0], counted[1], "news welcome hello b complained 0 0 1 0 0", "news welcome hello b opened 0 0 1 1 1"}, counted[2:]...)...)
	f.wantRows(t, "SELECT COUNT(*) FROM sends WHERE first_human_open IS NOT NULL", []string{"1"})
}

// testReactionsBounded: an hour counts so many mails by themselves, and the others
// together; what it has counted before stays known. Old hours go.
func testReactionsBounded(t *testing.T, f *fixture) {
	f.start(t)
	sent := func(n int, campaign string, hour int64) store.Effect {
		s := aSend(n, 0, 1)
		o := anOutcome(&s, mail.SendWaiting, mail.SendSent, 1)
		o.TimeMillis, o.Tags, o.Metadata = sendTime+hour*time.Hour.Milliseconds(), campaign, ""
		return store.Effect{Sends: []mail.StoredSend{s}, Outcomes: []mail.StoredOutcome{o}}
	}
	var all store.Effect
	for n := range store.MaxReactionMails + 2 {
		e := sent(n, "c"+strconv.Itoa(10_000+n), 0)
		all.Sends, all.Outcomes = append(all.Sends, e.Sends...), append(all.Outcomes, e.Outcomes...)
	}
	f.apply(t, all, len(all.Sends), 0)
	next := len(all.Sends)
	for range 2 { // the second time by a process that has just come
		f.apply(t, sent(next, "c10000", 0), 1, 0)
		f.apply(t, sent(next+1, "new", 0), 1, 0)
		next += 2
		if f.OpenThrough != nil {
			f.store = f.Open(t)
		}
	}
	f.apply(t, sent(next, "new", 1), 1, 0)
	f.wantRows(t, "SELECT COUNT(*), SUM(count) FROM reactions", []string{strconv.Itoa(store.MaxReactionMails + 2), strconv.Itoa(store.MaxReactionMails + 7)})
	f.wantRows(t, "SELECT campaign, count FROM reactions WHERE campaign IN ('(other)', 'c10000', 'new') ORDER BY campaign", []string{"(other)", "4"}, []string{"c10000", "3"}, []string{"new", "1"})

	keep := f.store.(store.RetentionStore)
	hour := (sendTime/time.Hour.Milliseconds() + 1) * time.Hour.Milliseconds()
	for i, want := range []int{store.MaxReactionMails + 1, 0} {
		deleted, more, err := keep.DeleteReactions(f.ctx, hour)
		must(t, err)
		if deleted != want || more != (i == 0) {
			t.Errorf("pass %d deleted %d, more %v", i, deleted, more)
		}
	}
	f.wantRows(t, "SELECT campaign FROM reactions", []string{"new"})
}

// testReactionsOfManyStores: processes that count the same mail at once all get through.
func testReactionsOfManyStores(t *testing.T, f *fixture) {
	const stores, rounds, mails = 3, 8, 40
	newMailing(t, f)
	all := []store.Store{f.store}
	if f.OpenThrough != nil { // else one process is all there can be
		all = append(all, f.Open(t), f.Open(t))
	}
	var running sync.WaitGroup
	for n := range stores {
		db := all[n%len(all)]
		running.Go(func() {
			name := "reactions " + strconv.Itoa(n)
			_, err := db.Cursors(f.ctx, name, []int{0})
			for round := 0; round < rounds && err == nil; round++ {
				e := &store.Effect{Stripe: n % 2, Moves: []store.Move{{Follower: name, From: sluice.Position{Major: uint64(round)}, To: sluice.Position{Major: uint64(round + 1)}}}}
				for i := range mails {
					s := aSend(n*10_000+round*mails+i, 0, 1)
					o := anOutcome(&s, mail.SendWaiting, mail.SendSent, 1)
					o.Tags = "c" + strconv.Itoa((i*(n+1)+round)%mails)
					e.Sends, e.Outcomes = append(e.Sends, s), append(e.Outcomes, o)
				}
				var p store.Prepared
				if p, err = db.Prepare(e); err == nil {
					_, err = db.Apply(f.ctx, p)
				}
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	running.Wait()
	f.wantRows(t, "SELECT SUM(count) FROM reactions", []string{strconv.Itoa(stores * rounds * mails)})
}

// testReadReactions: stripes are added up, ranges are half open, filters work.
func testReadReactions(t *testing.T, f *fixture) {
	m := newMailing(t, f)
	_, outcomes := m.mailed(t)
	f.apply(t, store.Effect{Outcomes: outcomes[:2]}, 0, 0)
	f.apply(t, store.Effect{Outcomes: outcomes[2:], Stripe: 3}, 0, 0)
	var h heard
	h.add(0, 1, mail.ReactionOpened, byMachine)
	h.add(0, 2, mail.ReactionClicked, func(r *mail.Reaction) { r.Own, r.Link, r.Judged, r.Forwarded, r.First = true, 7, true, true, true })
	f.apply(t, store.Effect(h), 2, 0)
	hour := time.Hour.Milliseconds()
	first := sendTime / hour * hour
	by := func(columns ...store.ReactionColumn) map[store.ReactionColumn]bool {
		all := make(map[store.ReactionColumn]bool)
		for _, c := range columns {
			all[c] = true
		}
		return all
	}
	only := func(c store.ReactionColumn, value string) map[store.ReactionColumn]string {
		return map[store.ReactionColumn]string{c: value}
	}
	for _, c := range []struct {
		what  string
		query store.ReactionQuery
		want  string
	}{
		{"in all", store.ReactionQuery{}, "bounced_hard=1/0/0 clicked=1/1/1 opened!=1/1/0 refused=1/0/0 sent=4/0/0"},
		{"by hour", store.ReactionQuery{By: by(store.ReactionHour)}, "0:bounced_hard=1/0/0 0:refused=1/0/0 0:sent=4/0/0 1:clicked=1/1/1 1:opened!=1/1/0"},
		{"the first hour", store.ReactionQuery{ToMillis: first + hour}, "bounced_hard=1/0/0 refused=1/0/0 sent=4/0/0"},
		{"the second", store.ReactionQuery{FromMillis: first + 1}, "clicked=1/1/1 opened!=1/1/0"},
		{"a campaign", store.ReactionQuery{Only: only(store.ReactionCampaign, "spring ä")}, "bounced_hard=1/0/0 refused=1/0/0 sent=1/0/0"},
		{"by step and variant", store.ReactionQuery{Only: only(store.ReactionJourney, "welcome"), By: by(store.ReactionStep, store.ReactionVariant)}, "hello.b:clicked=1/1/1 hello.b:opened!=1/1/0 hello.b:sent=3/0/0"},
		{"a link", store.ReactionQuery{Only: only(store.ReactionLink, "7")}, "clicked=1/1/1"},
		{"by link", store.ReactionQuery{Only: only(store.ReactionStep, "hello"), By: by(store.ReactionLink)}, "opened!=1/1/0 sent=3/0/0 #7:clicked=1/1/1"},
		{"nobody", store.ReactionQuery{Only: only(store.ReactionVariant, "c")}, ""},
	} {
		c.query.Limit = 100
		if c.query.ToMillis == 0 {
			c.query.ToMillis = sluice.MaxEventTimeMillis + 1
		}
		got := f.readReactions(t, c.query, first)
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: got %s, want %s", c.what, got, c.want)
		}
	}
	want(t, "within the limit", len(f.readReactions(t, store.ReactionQuery{ToMillis: sluice.MaxEventTimeMillis, Limit: 2}, first)), 2)
}

// readReactions returns what is told apart of each row, and its sums. A ! is of machines.
func (f *fixture) readReactions(t *testing.T, q store.ReactionQuery, first int64) (all []string) {
	t.Helper()
	rows, err := f.store.(store.ReactionStore).Reactions(f.ctx, q)
	must(t, err)
	for _, r := range rows {
		text := ""
		if q.By[store.ReactionHour] {
			text = strconv.FormatInt((r.HourMillis-first)/time.Hour.Milliseconds(), 10) + ":"
		}
		if r.Step != "" {
			text += r.Step + "." + r.Variant + ":"
		}
		if r.Link != 0 {
			text += "#" + strconv.Itoa(r.Link) + ":"
		}
		text += r.Kind.String()
		if r.Machine {
			text += "!"
		}
		all = append(all, fmt.Sprintf("%s=%d/%d/%d", text, r.Count, r.Firsts, r.HumanFirsts))
	}
	return all
}
