package chaos

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	loadUsers  = 12
	loadEvents = 10 // a request
	loadMails  = 4  // a request
	loadList   = 20 // elements pushed at once

	// loadEvery is how long a client rests between two requests: what comes has
	// to be counted at the end, and a round is short.
	loadEvery = 60 * time.Millisecond
)

// load is clients that hand in events, users and mail, and know what was
// accepted, and when. They ask any of the processes, and another if it does not
// accept.
type load struct {
	r    *round
	ctx  context.Context
	stop context.CancelFunc
	work sync.WaitGroup

	mu     sync.Mutex
	events []accepted // by the message_ref of the first of loadEvents
	users  []accepted // by the name of the user
	sent   map[string]int64
	mails  []accepted        // by id
	class  map[string]string // of mails
	pushed []accepted        // by the number of a push
	tabled []accepted        // the same of the list that goes into a table
	missed int               // answers that were no acceptance
}

// accepted is something that was accepted, and when it was asked for.
type accepted struct {
	what     string
	from, to time.Time
}

func startLoad(r *round) *load {
	ctx, cancel := context.WithCancel(r.ctx)
	l := &load{r: r, ctx: ctx, stop: cancel, sent: map[string]int64{}, class: map[string]string{}}
	seed := r.random.Uint64()
	r.t.Cleanup(func() {
		l.stop()
		l.work.Wait()
	})
	clients := []func(random *rand.Rand, client *http.Client, name string){l.postEvents, l.postEvents, l.track, l.track, l.mail, l.mail, l.push}
	if r.kind.table {
		clients = append(clients, l.pushTable)
	}
	if r.kind.journey {
		clients = append(clients, l.enterJourney, l.clickInJourney)
	}
	every := loadEvery
	if len(r.turns) > 1 {
		every = loadOften
	}
	for i, client := range clients {
		l.work.Go(func() { // ends with the round, or finish
			random := rand.New(rand.NewPCG(seed, uint64(i)))
			c := &http.Client{Transport: &http.Transport{}, Timeout: 30 * time.Second}
			defer c.CloseIdleConnections()
			for n := 0; l.ctx.Err() == nil; n++ {
				client(random, c, fmt.Sprintf("%d-%d", i, n))
				pause(l.ctx, every)
			}
		})
	}
	return l
}

// finish lets the clients end what is in hand.
func (l *load) finish() {
	l.stop()
	l.work.Wait()
}

// counts returns how much was accepted, of each kind.
func (l *load) counts() [4]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return [4]int{len(l.events), len(l.users), len(l.mails), len(l.pushed)}
}

// tabledRows is how many elements were pushed that go into a table.
func (l *load) tabledRows() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.tabled) * loadList
}

// refused is how many answers accepted nothing.
func (l *load) refused() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.missed
}

// progress waits until more of everything was accepted, and mail has left.
func (l *load) progress() {
	l.r.t.Helper()
	before, left := l.counts(), l.r.relay.Received()
	now := before
	l.r.awaitOr("more of everything is accepted, and mail leaves", func() bool {
		now = l.counts()
		for i := range now {
			if now[i] < before[i]+3 {
				return false
			}
		}
		return l.r.relay.Received() > left+5
	}, func() string {
		return fmt.Sprintf("Accepted before: %v, now: %v; mails that left: %d, %d", before, now, left, l.r.relay.Received())
	})
}

// deliver asks processes in any order until one accepts, and returns when the
// request began that was accepted. The load may end meanwhile: what is in hand is
// finished.
func (l *load) deliver(random *rand.Rand, client *http.Client, path, body, key string, want int, answer func(text []byte)) (from, to time.Time, ok bool) {
	limit := time.Now().Add(2 * settleWithin)
	for l.r.ctx.Err() == nil {
		from = time.Now()
		status, text := l.ask(random, client, path, body, key)
		if status == want {
			answer(text)
			return from, time.Now(), true
		}
		l.mu.Lock()
		l.missed++
		l.mu.Unlock()
		if status != 0 && status != http.StatusServiceUnavailable && status != http.StatusTooManyRequests || time.Now().After(limit) {
			l.r.t.Errorf("%s is answered %d: %.400s", path, status, text)
			return from, time.Now(), false
		}
		pause(l.r.ctx, 20*time.Millisecond)
	}
	return from, time.Now(), false
}

// ask asks one of the processes; status 0: there was no answer.
func (l *load) ask(random *rand.Rand, client *http.Client, path, body, key string) (status int, text []byte) {
	l.mu.Lock()
	at := l.r.peers[random.IntN(len(l.r.peers))].at
	l.mu.Unlock()
	return request(l.r.ctx, client, at+path, body, key)
}

// postEvents sends events, with or without ids of their own.
func (l *load) postEvents(random *rand.Rand, client *http.Client, name string) {
	var b strings.Builder
	own, now := l.r.putsBack() || random.IntN(2) == 0, time.Now().UTC().Format(time.RFC3339Nano)
	for i := range loadEvents {
		fmt.Fprintf(&b, `,{"event":"posted","app_id":"shop","user_id":"u%d","message_id":"%s-%d"`, i%5, name, i)
		if own {
			fmt.Fprintf(&b, `,"id":"%s-%d","time":%q`, name, i, now)
		}
		b.WriteByte('}')
	}
	from, to, ok := l.deliver(random, client, "/v1/events", "["+b.String()[1:]+"]", "events-"+name, http.StatusAccepted, func([]byte) {})
	if ok {
		l.note(&l.events, accepted{name, from, to})
	}
}

func (l *load) note(all *[]accepted, a accepted) {
	l.mu.Lock()
	defer l.mu.Unlock()
	*all = append(*all, a)
}

// track increments an attribute of a user and reports an event of that user. A
// call that is not accepted may be in all the same, and is not repeated.
func (l *load) track(random *rand.Rand, client *http.Client, _ string) {
	user := fmt.Sprintf("u-%d", random.IntN(loadUsers))
	l.mu.Lock()
	l.sent[user]++
	l.mu.Unlock()
	from := time.Now()
	body := fmt.Sprintf(`{"attributes":[{"external_id":%q,"n":{"inc":1}}],"events":[{"external_id":%[1]q,"name":"tracked","app_id":"shop","time":%q}]}`, user, from.UTC().Format(time.RFC3339))
	if status, _ := l.ask(random, client, "/users/track", body, ""); status == http.StatusCreated {
		l.note(&l.users, accepted{user, from, time.Now()})
		return
	}
	pause(l.r.ctx, 50*time.Millisecond)
}

// mail hands in messages of both classes, small and large.
func (l *load) mail(random *rand.Rand, client *http.Client, name string) {
	var messages, classes []string
	for i := range loadMails {
		class := []string{"marketing", "transactional"}[i%2]
		text := strings.Repeat("hello ", 10+(i/2)*1500) // some are kept in the database
		messages = append(messages, fmt.Sprintf(`{"from":"shop@example.com","to":"m%s-%d@example.net","subject":"order","text":%q,"class":%q,"priority":%q}`,
			name, i, text, class, []string{"high", "normal", "low"}[random.IntN(3)]))
		classes = append(classes, class)
	}
	var ids []string
	from, _, ok := l.deliver(random, client, "/v1/messages", "["+strings.Join(messages, ",")+"]", "mail-"+name, http.StatusAccepted, func(text []byte) { ids = messageIDs(text) })
	if !ok {
		return
	}
	if len(ids) != loadMails {
		l.r.t.Errorf("%d of %d messages were accepted", len(ids), loadMails)
	}
	l.noteMails(ids, from, func(i int) string { return classes[i] })
}

// burst hands in transactional mails all at once, and waits until some have left:
// the others wait, or are on the wire.
func (r *round) burst(count int) {
	r.t.Helper()
	const each = 100
	left := r.relay.Received()
	for first := 0; first < count; first += each {
		var b strings.Builder
		for i := range each {
			fmt.Fprintf(&b, `,{"from":"shop@example.com","to":"burst%d@example.net","subject":"order","text":"hello","class":"transactional"}`, first+i)
		}
		from := time.Now()
		ids := messageIDs(r.ask(r.peers[r.random.IntN(len(r.peers))], "/v1/messages", "["+b.String()[1:]+"]", http.StatusAccepted))
		r.load.noteMails(ids, from, func(int) string { return "transactional" })
	}
	r.await("some of the mail leaves", func() bool { return r.relay.Received() > left+20 })
}

// noteMails notes mails that were accepted, by their ids.
func (l *load) noteMails(ids []string, from time.Time, class func(i int) string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, id := range ids {
		l.class[id] = class(i)
		l.mails = append(l.mails, accepted{id, from, time.Now()})
	}
}

// push pushes elements to the list, once each: the script notes that it has.
func (l *load) push(_ *rand.Rand, _ *http.Client, name string) {
	if l.r.putsBack() {
		l.note(&l.pushed, accepted{}) // what comes back into a list is stored again: not looked at
		return
	}
	l.pushOnce("q_events", &l.pushed, name, func(i int) string {
		return fmt.Sprintf(`{"event":"opened","email":"user%d@example.com","message_id":"%s-%d","ts":%d}`, i, name, i, time.Now().Unix())
	})
}

// pushTable is push to the list that goes into a table.
func (l *load) pushTable(_ *rand.Rand, _ *http.Client, name string) {
	l.pushOnce("q_table", &l.tabled, name, func(i int) string { return fmt.Sprintf(`{"ref":"%s-%d"}`, name, i) })
}

// pushOnce pushes loadList elements to a list, and notes them when that is certain.
func (l *load) pushOnce(list string, all *[]accepted, name string, element func(i int) string) {
	words := []string{`
if redis.call('HSETNX', KEYS[2], ARGV[1], 1) == 1 then
  redis.call('RPUSH', KEYS[1], unpack(ARGV, 2))
end
return 1`, "2", list, "{" + list + "}:pushed", name}
	for i := range loadList {
		words = append(words, element(i))
	}
	for from := time.Now(); l.r.ctx.Err() == nil; pause(l.r.ctx, 50*time.Millisecond) {
		ctx, cancel := context.WithTimeout(l.r.ctx, 5*time.Second)
		err := l.r.client.Do(ctx, l.r.client.B().Arbitrary("EVAL").Args(words...).Build()).Error()
		cancel()
		if err == nil {
			l.note(all, accepted{name, from, time.Now()})
			return
		}
	}
}

// putsBack reports whether the fault puts Redis back.
func (r *round) putsBack() bool { return r.kind.losesRedis }

// must reports whether something that was accepted may not be lost.
func (r *round) must(a accepted) bool {
	return (r.lossFrom.IsZero() || a.to.Before(r.lossFrom) || a.from.After(r.lossTo)) && r.windowOf(a) == nil
}

// lostBodies reports whether the content of a mail may be lost, if it is a
// large one. It was written to the database alone, and that has gone back.
func (r *round) lostBodies(a accepted) bool {
	return !r.bodiesFrom.IsZero() && !a.to.Before(r.bodiesFrom) && !a.from.After(r.bodiesTo)
}

// checkAll waits until all is applied and compares it with what was accepted.
func (r *round) checkAll() {
	r.t.Helper()
	stored := func(event string) string { return "SELECT message_ref FROM events WHERE name = '" + event + "'" }
	r.checkRows("events posted", stored("posted"), r.load.events, loadEvents)
	if !r.putsBack() {
		r.checkRows("events opened", stored("opened"), r.load.pushed, loadList)
	}
	if r.kind.table {
		r.checkRows("rows of the table", "SELECT ref FROM target", r.load.tabled, loadList)
	}
	r.checkUsers()
	r.restJourneys()
	r.checkMails()
	r.checkJourneys()
	for _, check := range r.checks {
		check()
	}
	if n := r.number("SELECT COUNT(*) FROM dead_letters"); n != 0 {
		r.t.Errorf("%d dead letters, want none: %s", n, strings.Join(r.texts("SELECT reason FROM dead_letters"), "; "))
	}
	r.t.Logf("%d requests of events, %d calls of users, %d mails, %d pushes; %d answers that accepted nothing; the receiver took %d",
		len(r.load.events), len(r.load.users), len(r.load.mails), len(r.load.pushed), r.load.missed, r.relay.Received())
}

// texts returns the first column of a query.
func (r *round) texts(query string) (all []string) {
	r.t.Helper()
	rows, err := r.db.QueryContext(r.ctx, query)
	if err != nil {
		r.t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			r.t.Fatal(err)
		}
		all = append(all, text)
	}
	if err := rows.Err(); err != nil {
		r.t.Fatal(err)
	}
	return all
}

// checkRows wants a row of a query for everything that was accepted, once.
func (r *round) checkRows(name, query string, all []accepted, each int) {
	r.t.Helper()
	must, may := map[string]bool{}, map[string]bool{}
	for _, a := range all {
		for i := range each {
			ref := a.what + "-" + strconv.Itoa(i)
			may[ref] = true
			if r.must(a) {
				must[ref] = true
			}
		}
	}
	stored := map[string]int{}
	count := "SELECT COUNT(*) FROM (" + query + ") found"
	r.awaitOr(fmt.Sprintf("%d %s are stored", len(must), name), func() bool {
		if r.number(count) < int64(len(must)) {
			return false
		}
		clear(stored)
		for _, ref := range r.texts(query) {
			stored[ref]++
		}
		for ref := range must { // what is there may be what may be missing
			if stored[ref] == 0 {
				return false
			}
		}
		return true
	}, func() string { return r.missing(all, must, stored) })
	r.countLost(all, func(ref string) bool { return stored[ref] > 0 }, each)
	twice, unasked := 0, 0
	for ref, n := range stored {
		if n > 1 {
			twice++
		}
		if !may[ref] {
			unasked++
		}
	}
	if twice+unasked > 0 {
		r.t.Errorf("%s: %d accepted, %d of which must be there; %d are there several times, %d were never accepted", name, len(may), len(must), twice, unasked)
	}
}

// missing says what is missing that must be there, and when the first of
// them were accepted.
func (r *round) missing(all []accepted, must map[string]bool, stored map[string]int) string {
	missing, first := 0, ""
	for ref := range must {
		if stored[ref] == 0 {
			missing++
		}
	}
	for _, a := range all {
		if ref := a.what + "-0"; must[ref] && stored[ref] == 0 && len(first) < 500 {
			first += fmt.Sprintf("; %s asked for at %s, accepted at %s", ref, clockTime(a.from), clockTime(a.to))
		}
	}
	return fmt.Sprintf("There are %d, %d are missing; the loss is from %s to %s%s", len(stored), missing, clockTime(r.lossFrom), clockTime(r.lossTo), first)
}

func clockTime(t time.Time) string { return t.Format("15:04:05.000") }

// checkUsers wants as many increments as calls were accepted, up to as many as
// were sent, and as many events as increments.
func (r *round) checkUsers() {
	r.t.Helper()
	least := map[string]int64{}
	for _, a := range r.load.users {
		if r.must(a) {
			least[a.what]++
		}
	}
	r.drained()
	all := r.profiles()
	for user, sent := range r.load.sent {
		p := all[user]
		if p == nil {
			if least[user] > 0 {
				r.t.Errorf("user %s is not there; %d calls were accepted", user, least[user])
			}
			continue
		}
		n, _ := strconv.ParseInt(p.Custom.Get("n"), 10, 64)
		rows := r.number("SELECT COUNT(*) FROM events WHERE kind = 'custom' AND name = 'tracked' AND user_ref = '" + user + "'")
		if n < least[user] || n > sent || n != countOf(p.Events) || rows != n {
			r.t.Errorf("user %s: n is %d, the profile has %d events, there are %d rows; %d calls were accepted that must be in, %d sent", user, n, countOf(p.Events), rows, least[user], sent)
		}
	}
}

// checkMails waits until nothing waits, and compares what was accepted with the
// ledger and with what the receiver has taken.
func (r *round) checkMails() {
	r.t.Helper()
	must, handedIn := 0, map[string]accepted{}
	for _, a := range r.load.mails {
		handedIn[a.what] = a
		if r.must(a) {
			must++
		}
	}
	const open = "FROM sends WHERE (state = 'waiting' OR due IS NOT NULL) AND to_address NOT LIKE 'later%'"
	const waits = "SELECT COUNT(*) " + open
	r.awaitOr("all mail is in the ledger, and nothing waits", func() bool {
		return r.number("SELECT COUNT(*) FROM sends") >= int64(must) && r.number(waits) == 0
	}, func() string {
		return fmt.Sprintf("%d must be in the ledger, %d are, %d wait: %s", must, r.number("SELECT COUNT(*) FROM sends"), r.number(waits),
			strings.Join(r.texts("SELECT life "+open+" LIMIT 3"), "\n"))
	})
	taken, states, there := r.relay.Counts(), map[string]int{}, map[string]bool{}
	rows, err := r.db.QueryContext(r.ctx, "SELECT message, state, life FROM sends")
	if err != nil {
		r.t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var id, state, life string
		if err := rows.Scan(&id, &state, &life); err != nil {
			r.t.Fatal(err)
		}
		states[state]++
		there[id] = true
		if n := taken["<"+id+"@example.com>"]; n > 0 || !strings.Contains(life, `"no_body"`) || !r.lostBodies(handedIn[id]) {
			r.checkMail(handedIn[id], id, state, life, n)
		}
	}
	if err := rows.Err(); err != nil {
		r.t.Fatal(err)
	}
	for _, a := range r.load.mails {
		if w := r.windowOf(a); w != nil && !there[a.what] {
			w.lose(a, 1)
		}
		if r.must(a) && !there[a.what] {
			r.t.Errorf("mail %s was accepted and is not in the ledger; it was taken %d times", a.what, taken["<"+a.what+"@example.com>"])
		}
	}
	if r.kind.strict && states["in_doubt"] > 0 && !r.starved() {
		r.t.Errorf("%d mails are in doubt, though no process died", states["in_doubt"])
	}
	for _, state := range slices.Sorted(maps.Keys(states)) {
		if added := r.number("SELECT SUM(count) FROM send_totals WHERE state = '" + state + "'"); added != int64(states[state]) {
			r.t.Errorf("%d sends are %s, the totals say %d", states[state], state, added)
		}
	}
	if added := r.number("SELECT COALESCE(SUM(count), 0) FROM reactions WHERE kind = 'sent'"); added != int64(states["sent"]) {
		r.t.Errorf("%d sends are sent, %d are counted", states["sent"], added)
	}
	r.states = states
	r.t.Logf("sends: %v", states)
}

// checkMail judges one row of the ledger and how often the receiver took it.
func (r *round) checkMail(a accepted, id, state, life string, n int) {
	r.t.Helper()
	class := r.load.class[id]
	doubted := strings.Contains(life, `"in_doubt"`)
	repeatable := r.ended != nil && !r.ended[id] && a.from.Before(r.lossTo)
	if again := r.forgot(id, a); again > 0 && n > 1 && n <= 1+again {
		r.doubled++
		n, repeatable = min(n, 2), true
	}
	switch {
	case class == "":
		return // handed in by the fault, which looks at it itself; or its answer was lost
	case n > 2, n == 2 && !repeatable && (class == "marketing" || !doubted || r.kind.strict && !r.starved()):
		r.t.Errorf("%s mail %s was taken %d times:\n%s", class, id, n, life)
	case state == "sent" && n == 0, state != "sent" && state != "in_doubt":
		r.t.Errorf("%s mail %s is %s and was taken %d times:\n%s", class, id, state, n, life)
	}
}
