package storetest

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"sluice"
	"sluice/mail"
	"sluice/store"
)

// sendTime is when the sends of tests were accepted.
const sendTime = int64(1_760_000_000_000)

// messageID is the id of a message that differs by n.
func messageID(n int) string { return fmt.Sprintf("%012x%020x", sendTime+int64(n), n) }

// aSend makes a send to one of a message's recipients.
func aSend(n, number, recipients int) mail.StoredSend {
	return mail.StoredSend{
		Send: mail.Send{
			Message: messageID(n), Number: number, Recipients: recipients,
			Priority: mail.PriorityNormal, Class: mail.ClassTransactional, Form: mail.ContentMIME,
			AcceptedMillis: sendTime + int64(n), DueMillis: sendTime + 5000, ExpiresMillis: sendTime + mail.DefaultExpiryMillis,
			From: "from@example.com", To: fmt.Sprintf("to-%d@example.com", number), User: "u-ä", App: "app", Route: "asked for",
			Tags: "a,b c", Metadata: `{"k":"v\"🌍"}`,
		},
		Place: sluice.Place{Partition: 3, Position: sluice.Position{Major: 1 << 40, Minor: 9}, Index: n},
	}
}

// anOutcome makes an outcome of a send's attempt.
func anOutcome(s *mail.StoredSend, was, state mail.SendState, attempt int) mail.StoredOutcome {
	return mail.StoredOutcome{
		Outcome: mail.Outcome{
			Message: s.Message, Number: s.Number, Recipients: s.Recipients, Was: was, State: state,
			TimeMillis: s.AcceptedMillis + int64(attempt)*1000, Attempts: attempt, Route: "relay", Remote: "mx.example.com",
			Code: 250, Reply: `2.0.0 "ok" <x@y>`, To: s.To, User: s.User, App: s.App,
		},
		Place: sluice.Place{Partition: s.Place.Partition, Position: sluice.Position{Major: 1 << 41, Minor: uint64(attempt)}},
	}
}

func (f *fixture) sends(t *testing.T) mail.SendStore {
	t.Helper()
	s, ok := f.store.(mail.SendStore)
	if !ok {
		t.Fatal("the store keeps no ledger of sends")
	}
	return s
}

// record applies sends and outcomes as the next step; so many sends are new.
func (f *fixture) record(t *testing.T, sends []mail.StoredSend, outcomes []mail.StoredOutcome, added int) {
	t.Helper()
	f.apply(t, store.Effect{Sends: sends, Outcomes: outcomes, Stripe: int(f.at.Major % 3)}, added, len(sends)-added)
}

// testRouteDays: what a route attempted on its last day is counted once, and with
// what is written; what was deferred is not.
func testRouteDays(t *testing.T, f *fixture) {
	f.start(t)
	const day = int64(86_400_000)
	today := sendTime / day
	var sends []mail.StoredSend
	for n := range 8 {
		sends = append(sends, aSend(n, 0, 1))
	}
	f.record(t, sends, nil, len(sends))
	attempt := func(n, attempt int, state mail.SendState, route string, days int64) mail.StoredOutcome {
		o := anOutcome(&sends[n], mail.SendWaiting, state, attempt)
		o.Route, o.TimeMillis = route, o.TimeMillis+days*day
		return o
	}
	is := func(route string, days, want int64) {
		t.Helper()
		got, err := f.store.(mail.RouteDayStore).RouteDay(f.ctx, route, today+days)
		must(t, err)
		if got != want {
			t.Errorf("route %s attempted %d mails on day %d, want %d", route, got, days, want)
		}
	}
	is("relay", 0, 0)
	first := []mail.StoredOutcome{attempt(0, 1, mail.SendSent, "relay", 0), attempt(1, 1, mail.SendFailed, "relay", 0), attempt(2, 1, mail.SendWaiting, "relay", 0), attempt(3, 1, mail.SendSent, "other", 0)}
	f.record(t, nil, first, 0)
	f.record(t, nil, first, 0) // a repeat
	is("relay", 0, 2)
	is("other", 0, 1)
	is("relay", 1, 0)
	f.record(t, nil, []mail.StoredOutcome{attempt(2, 2, mail.SendInDoubt, "relay", 0)}, 0)
	is("relay", 0, 3)
	f.record(t, nil, []mail.StoredOutcome{attempt(4, 1, mail.SendSent, "relay", 0), attempt(5, 1, mail.SendSent, "relay", 1), attempt(6, 0, mail.SendCancelled, "", 1)}, 0)
	is("relay", 1, 1)
	f.record(t, nil, []mail.StoredOutcome{attempt(7, 1, mail.SendSent, "relay", 1)}, 0)
	is("relay", 1, 2)
	is("other", 0, 1)
	is("other", 1, 0)
}

// row returns the row of a send.
func (f *fixture) row(t *testing.T, s *mail.StoredSend) mail.SendRow {
	t.Helper()
	rows, err := f.sends(t).MessageSends(f.ctx, s.Message)
	must(t, err)
	for _, r := range rows {
		if r.Number == s.Number {
			return r
		}
	}
	t.Fatalf("there is no row of send %s", s.ID())
	return mail.SendRow{}
}

// wantTotals checks that the totals are those of the rows, and these.
func (f *fixture) wantTotals(t *testing.T, want map[mail.SendTotal]bool) {
	t.Helper()
	totals, err := f.sends(t).SendTotals(f.ctx)
	must(t, err)
	texts := make(map[string]string)
	for _, total := range totals {
		if total.Count == 0 {
			continue
		}
		texts[total.Class.String()+" "+total.State.String()] = fmt.Sprint(total.Count)
		if want != nil && !want[total] {
			t.Errorf("total %+v, want %v", total, want)
		}
		delete(want, total)
	}
	if len(want) > 0 {
		t.Errorf("no totals %v", want)
	}
	counted := make(map[string]string)
	for _, r := range f.Query(t, "SELECT class, state, COUNT(*) FROM sends GROUP BY class, state") {
		counted[r[0]+" "+r[1]] = r[2]
	}
	if !reflect.DeepEqual(texts, counted) {
		t.Fatalf("totals %v, rows %v", texts, counted)
	}
}

// testSends: a send becomes a row, outcomes change it in their order, in one
// transaction or in several.
func testSends(t *testing.T, f *fixture) {
	f.start(t)
	a, b, c := aSend(1, 0, 1), aSend(2, 0, 2), aSend(2, 1, 2)
	c.Class, c.Priority, c.DueMillis, c.From = mail.ClassMarketing, mail.PriorityHigh, 0, ""
	f.record(t, []mail.StoredSend{c, a}, nil, 2)
	f.wantTotals(t, map[mail.SendTotal]bool{{Class: a.Class, State: mail.SendWaiting, Count: 1}: true, {Class: c.Class, State: mail.SendWaiting, Count: 1}: true})
	row := mail.SendRow{
		Message: a.Message, Partition: 3, State: mail.SendWaiting, Priority: a.Priority, Class: a.Class, From: a.From, To: a.To, User: a.User, App: a.App,
		Tags: a.Tags, Metadata: a.Metadata, AcceptedMillis: a.AcceptedMillis, UpdatedMillis: a.AcceptedMillis, DueMillis: a.DueMillis,
		Life: `{"at":1760000000001,"event":"queued","state":"waiting","due":1760000005000,"route":"asked for"}` + "\n",
	}
	if got := f.row(t, &a); got != row {
		t.Fatalf("got  %+v\nwant %+v", got, row)
	}

	deferred, sent := anOutcome(&a, mail.SendWaiting, mail.SendWaiting, 1), anOutcome(&a, mail.SendWaiting, mail.SendSent, 2)
	deferred.Event, deferred.DueMillis, deferred.Code, deferred.Reply, deferred.Reason = "deferred", sendTime+70_000, 451, "4.7.1 later", "slow"
	sent.Event = "sent"
	ofB := anOutcome(&b, mail.SendWaiting, mail.SendSuppressed, 0)
	f.record(t, []mail.StoredSend{b}, []mail.StoredOutcome{deferred, ofB, sent}, 1)
	row.State, row.DueMillis, row.Attempts, row.Route, row.Reply, row.UpdatedMillis = mail.SendSent, 0, 2, "relay", sent.Reply, sent.TimeMillis
	row.Life += `{"at":1760000001001,"event":"deferred","was":"waiting","state":"waiting","attempt":1,"due":1760000070000,"route":"relay","remote":"mx.example.com","code":451,"reply":"4.7.1 later","reason":"slow"}` + "\n" +
		`{"at":1760000002001,"event":"sent","was":"waiting","state":"sent","attempt":2,"route":"relay","remote":"mx.example.com","code":250,"reply":"2.0.0 \"ok\" <x@y>"}` + "\n"
	if got := f.row(t, &a); got != row {
		t.Fatalf("got  %+v\nwant %+v", got, row)
	}
	want(t, "a send and its outcome together", f.row(t, &b).State, mail.SendSuppressed)
	want(t, "one that nobody named", f.row(t, &c).State, mail.SendWaiting)
	f.wantTotals(t, map[mail.SendTotal]bool{
		{Class: a.Class, State: mail.SendSent, Count: 1}: true, {Class: a.Class, State: mail.SendSuppressed, Count: 1}: true,
		{Class: c.Class, State: mail.SendWaiting, Count: 1}: true,
	})
	rows, err := f.sends(t).MessageSends(f.ctx, b.Message)
	must(t, err)
	if len(rows) != 2 || rows[0].Number != 0 || rows[1].Number != 1 {
		t.Fatalf("rows of a message: %+v", rows)
	}
}

// testSendRepeats: a repeated outcome changes nothing. Neither does one that
// comes too late, except that the row's life says so, once.
func testSendRepeats(t *testing.T, f *fixture) {
	f.start(t)
	a, twin := aSend(1, 0, 1), aSend(1, 0, 1)
	twin.To = "somebody-else@example.com"
	f.record(t, []mail.StoredSend{a, twin}, nil, 1)
	early := anOutcome(&a, mail.SendInDoubt, mail.SendSent, 0)
	doubt := anOutcome(&a, mail.SendWaiting, mail.SendInDoubt, 1)
	f.record(t, nil, []mail.StoredOutcome{early, doubt}, 0)
	row := f.row(t, &a)
	want(t, "to", row.To, a.To)
	want(t, "state", row.State, mail.SendInDoubt)
	want(t, "lines that say late", strings.Count(row.Life, `,"late":true}`), 1)
	for range 2 {
		f.record(t, []mail.StoredSend{a}, []mail.StoredOutcome{early, doubt, doubt}, 0)
		if got := f.row(t, &a); got != row {
			t.Fatalf("a repeat changed the row:\n%+v\n%+v", got, row)
		}
	}
	f.wantTotals(t, map[mail.SendTotal]bool{{Class: a.Class, State: mail.SendInDoubt, Count: 1}: true})
}

// testSendsThatCannotBe: they become dead letters beside the others, and texts
// that are too long are cut.
func testSendsThatCannotBe(t *testing.T, f *fixture) {
	f.start(t)
	good, long, odd, worse := aSend(1, 0, 1), aSend(2, 0, 1), aSend(3, 0, 1), aSend(4, 0, 1)
	long.From, long.To, long.User, long.App, long.Route, long.Tags, long.Metadata = strings.Repeat("é", 300), strings.Repeat("é", 300), strings.Repeat("é", 300),
		strings.Repeat("é", 300), strings.Repeat("é", 300), strings.Repeat("é", 3000), strings.Repeat("é", 3000)
	odd.Message = "x\xff\x00"
	worse.Priority = 99
	strange := anOutcome(&good, mail.SendWaiting, mail.SendState(99), 1)
	unknown := anOutcome(&worse, mail.SendWaiting, mail.SendSent, 1)
	verbose := anOutcome(&long, mail.SendWaiting, mail.SendFailed, 1)
	verbose.Route, verbose.Remote, verbose.Reply, verbose.Reason = strings.Repeat("é", 300), strings.Repeat("é\x00", 300), strings.Repeat("\xffé\x00", 600), strings.Repeat("é", 300)
	effect := f.step(store.Effect{
		Sends: []mail.StoredSend{odd, good, worse, long}, Outcomes: []mail.StoredOutcome{strange, unknown, verbose},
		Dead: []sluice.DeadLetter{{Reason: "other"}},
	})
	applied, err := f.store.Apply(f.ctx, f.prepare(t, effect))
	must(t, err)
	want(t, "applied", applied, store.Applied{Rows: 2, Dead: 5})
	f.at = effect.Moves[0].To
	f.wantCursor(t)
	list, err := f.store.DeadLetters(f.ctx, 0, 10)
	must(t, err)
	reasons := make([]string, 0, len(list))
	for _, l := range list {
		reasons = append(reasons, l.Reason)
		if l.Reason != "other" && (l.Place.Partition != 3 || l.Source != "log" || l.Form != sluice.FormItem) {
			t.Errorf("dead letter %+v", l)
		}
	}
	for _, reason := range []string{"no id of a message", "priority 99", "state 1 or 99", "has no send " + worse.ID()} {
		if !strings.Contains(strings.Join(reasons, "\n"), reason) {
			t.Errorf("no reason says %q: %q", reason, reasons)
		}
	}
	row := f.row(t, &long)
	want(t, "state", row.State, mail.SendFailed)
	want(t, "to", row.To, strings.Repeat("é", sluice.MaxEmailBytes/2))
	want(t, "metadata", row.Metadata, "")
	want(t, "the good one", f.row(t, &good).State, mail.SendWaiting)
	f.wantTotals(t, nil)

	// Where rows go one by one because of others, the ledger is written as well.
	bad := event(1)
	bad.Kind = 99
	more := aSend(7, 0, 1)
	f.refuse(t, store.Effect{Sends: []mail.StoredSend{more, odd}, Events: []store.StoredEvent{bad}}, 1, 0, 2)
	want(t, "its state", f.row(t, &more).State, mail.SendWaiting)
}

// testBodies: a body is there until the last of its sends has ended.
func testBodies(t *testing.T, f *fixture) {
	f.start(t)
	store := f.sends(t)
	one, three, none := aSend(1, 0, 1), [3]mail.StoredSend{aSend(2, 0, 3), aSend(2, 1, 3), aSend(2, 2, 3)}, aSend(3, 0, 1)
	large := bytes.Repeat([]byte{'\\', 0, 0xff, '\n', '\''}, 600_000) // three pieces
	bodies := []mail.Body{
		{Message: three[0].Message, Recipients: 3, CreatedMillis: sendTime, Data: large},
		{Message: one.Message, Recipients: 1, CreatedMillis: sendTime, Data: []byte("small")},
		{Message: none.Message, Recipients: 1, CreatedMillis: sendTime},
	}
	wantBodies := func(want map[string][]byte) {
		t.Helper()
		got, err := store.Bodies(f.ctx, []string{messageID(9), three[0].Message, one.Message, none.Message}, 0)
		must(t, err)
		if len(got) != len(want) {
			t.Fatalf("%d bodies, want %d", len(got), len(want))
		}
		for id, data := range want {
			if !bytes.Equal(got[id], data) {
				t.Fatalf("body %s has %d bytes, want %d", id, len(got[id]), len(data))
			}
		}
	}
	all := map[string][]byte{one.Message: []byte("small"), three[0].Message: large, none.Message: nil}
	for range 2 { // a repeat changes nothing
		must(t, store.AddBodies(f.ctx, bodies))
		wantBodies(all)
	}
	wantBodiesUpTo(t, f, bodies[:2])
	if err := store.AddBodies(f.ctx, []mail.Body{{Message: "x"}}); err == nil {
		t.Fatal("a body was stored under no id")
	}

	end := func(s *mail.StoredSend, state mail.SendState, due int64) mail.StoredOutcome {
		o := anOutcome(s, mail.SendWaiting, state, 1)
		o.HasBody, o.DueMillis = true, due
		return o
	}
	f.record(t, append(three[:], one, none), []mail.StoredOutcome{end(&one, mail.SendWaiting, sendTime+9), end(&none, mail.SendSent, 0)}, 5)
	delete(all, none.Message)
	wantBodies(all) // a deferred send needs its body
	late := end(&one, mail.SendFailed, 0)
	late.Was = mail.SendInDoubt
	doubt := end(&three[2], mail.SendInDoubt, sendTime+9)
	f.record(t, nil, []mail.StoredOutcome{late, doubt, end(&three[0], mail.SendSent, 0)}, 0)
	wantBodies(all) // nor did these end all of them
	f.record(t, nil, []mail.StoredOutcome{end(&three[0], mail.SendSent, 0), end(&three[0], mail.SendFailed, 0), end(&three[1], mail.SendCancelled, 0)}, 0)
	wantBodies(all) // nor repeats of one that has ended
	last := end(&three[2], mail.SendSent, 0)
	last.Was = mail.SendInDoubt
	f.record(t, nil, []mail.StoredOutcome{end(&one, mail.SendSent, 0), last}, 0)
	wantBodies(nil)
	want(t, "pieces left", f.count(t, "bodies"), 0)
}

// wantBodiesUpTo reads two bodies with a bound: what is begun is whole, and one is
// there however low it is.
func wantBodiesUpTo(t *testing.T, f *fixture, bodies []mail.Body) {
	t.Helper()
	all := len(bodies[0].Data) + len(bodies[1].Data)
	for most, want := range map[int]int{1: 1, len(bodies[1].Data) + 1: 2, all: 2, 1 << 30: 2} {
		got, err := f.sends(t).Bodies(f.ctx, []string{bodies[0].Message, bodies[1].Message}, most)
		must(t, err)
		if len(got) != want {
			t.Fatalf("up to %d bytes: %d bodies, want %d", most, len(got), want)
		}
		for i := range bodies {
			if data, ok := got[bodies[i].Message]; ok && !bytes.Equal(data, bodies[i].Data) {
				t.Fatalf("up to %d bytes: body %d has %d of %d", most, i, len(data), len(bodies[i].Data))
			}
		}
	}
}

// testOrphans: bodies go that no send needs and that are old enough.
func testOrphans(t *testing.T, f *fixture) {
	f.start(t)
	store := f.sends(t)
	waiting, ended, young := aSend(2, 0, 1), aSend(3, 0, 2), messageID(4)
	var bodies []mail.Body
	for n := range 600 {
		bodies = append(bodies, mail.Body{Message: messageID(1000 + n), Recipients: 1, CreatedMillis: sendTime, Data: make([]byte, n*10)})
	}
	bodies = append(bodies, mail.Body{Message: waiting.Message, Recipients: 1, CreatedMillis: sendTime}, mail.Body{Message: ended.Message, Recipients: 2, CreatedMillis: sendTime},
		mail.Body{Message: young, Recipients: 1, CreatedMillis: sendTime + 1}, mail.Body{Message: messageID(5), CreatedMillis: sendTime})
	must(t, store.AddBodies(f.ctx, bodies))
	must(t, store.AddBodies(f.ctx, []mail.Body{{Message: messageID(5), CreatedMillis: sendTime + 5}})) // stored anew
	f.record(t, []mail.StoredSend{waiting, ended}, []mail.StoredOutcome{anOutcome(&ended, mail.SendWaiting, mail.SendSent, 1)}, 2)
	dropped := 0
	for {
		n, err := store.DropOrphans(f.ctx, sendTime+1)
		must(t, err)
		if n == 0 {
			break
		}
		if n > 500 {
			t.Fatalf("%d at once", n)
		}
		dropped += n
	}
	want(t, "dropped", dropped, 601)
	f.wantRows(t, "SELECT message FROM bodies ORDER BY message", []string{waiting.Message}, []string{young}, []string{messageID(5)})
}

// testInDoubt: sends in doubt are listed page by page, and no others.
func testInDoubt(t *testing.T, f *fixture) {
	f.start(t)
	var sends []mail.StoredSend
	var outcomes []mail.StoredOutcome
	for n := range 1200 {
		s := aSend(n/3, n%3, 3)
		s.Place.Partition = n % 5 // of a message in several
		sends = append(sends, s)
		switch n % 4 {
		case 0:
			outcomes = append(outcomes, anOutcome(&s, mail.SendWaiting, mail.SendInDoubt, 1))
		case 1:
			outcomes = append(outcomes, anOutcome(&s, mail.SendWaiting, mail.SendSent, 1))
		}
	}
	f.record(t, sends, nil, len(sends))
	f.record(t, nil, outcomes, 0)
	var listed []string
	message, number := "", 0
	for {
		rows, err := f.sends(t).InDoubt(f.ctx, message, number, 7)
		must(t, err)
		if len(rows) == 0 {
			break
		}
		for _, r := range rows {
			want(t, "state", r.State, mail.SendInDoubt)
			message, number = r.Message, r.Number
			listed = append(listed, fmt.Sprintf("%s.%d", message, number))
		}
	}
	want(t, "in doubt", len(listed), 300)
	for i, id := range listed {
		want(t, "send in doubt", id, sends[4*i].ID())
	}
	f.wantTotals(t, nil)
}
