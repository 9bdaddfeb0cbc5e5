package chaos

import (
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"sluice/flow"
	"sluice/test/sink"
)

// newSending is a world that mails by a relay.
func newSending(t *testing.T, opt sink.Options) (*world, *sink.Sink) {
	t.Helper()
	w := newWorld(t)
	opt.Keep = 10_000
	relay, err := sink.Start(opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = relay.Close() })
	w.writeConfig(fmt.Sprintf("root_key: %s\nsending: \"on\"\nroutes:\n  relay: {smtp: {url: 'smtp://%s', plain: true, connections: 1, window: 16}}\n", httpRoot, relay.Addr()))
	return w, relay
}

// taken is how often the relay has taken each message for each recipient.
func taken(relay *sink.Sink) map[string]int {
	times := make(map[string]int)
	for _, m := range relay.Mails() {
		times[m.ID+" "+strings.Join(m.To, " ")]++
	}
	return times
}

// onlyOnce fails if the relay has taken anything twice, or another number than
// wanted.
func (w *world) onlyOnce(relay *sink.Sink, want int) {
	w.t.Helper()
	times := taken(relay)
	for what, n := range times {
		if n != 1 {
			w.t.Errorf("%s was taken %d times", what, n)
		}
	}
	if len(times) != want {
		w.t.Errorf("the relay has %d mails, want %d", len(times), want)
	}
}

// ledgerIs waits until the rows are in these states, so many in each, and wants
// the same totals. So their sum is the number of accepted sends.
func (w *world) ledgerIs(want map[string]int64) {
	w.t.Helper()
	read := func(query string) map[string]int64 {
		states := make(map[string]int64)
		rows, err := w.db.QueryContext(w.t.Context(), query)
		if err != nil {
			return states
		}
		defer rows.Close()
		for rows.Next() {
			var state string
			var n int64
			if rows.Scan(&state, &n) == nil && n != 0 {
				states[state] = n
			}
		}
		return states
	}
	const byRows = "SELECT state, COUNT(*) FROM sends GROUP BY state"
	w.eventually(fmt.Sprintf("the ledger is %v", want), func() bool { return maps.Equal(read(byRows), want) })
	if totals := read("SELECT state, SUM(count) FROM send_totals GROUP BY state"); !maps.Equal(totals, want) {
		w.t.Errorf("the rows are %v, the totals %v", want, totals)
	}
	if rows := read(byRows); !maps.Equal(rows, want) {
		w.t.Errorf("the rows were %v and are %v", want, rows)
	}
	if n := w.highest("SELECT COUNT(*) FROM dead_letters"); n != 0 {
		w.t.Errorf("%d dead letters, want none", n)
	}
}

// lanesEmpty waits until nothing is in the lanes.
func (w *world) lanesEmpty() {
	w.t.Helper()
	r, err := flow.Dial(w.t.Context(), w.redis.URL())
	if err != nil {
		w.t.Fatal(err)
	}
	defer r.Close()
	w.eventually("nothing is in the lanes", func() bool {
		sum := int64(0)
		for _, p := range flow.Partitions(partitions) {
			counts, err := flow.NewLog(r, p).Lanes().Waiting(w.t.Context())
			if err != nil {
				return false
			}
			for _, n := range counts {
				sum += n
			}
		}
		return sum == 0
	})
}

const stopMarketing = `{"by":"class","value":"marketing"}`

// mails is a request with so many messages, to as many recipients.
func mails(name string, count int, more string) string {
	var b strings.Builder
	for i := range count {
		fmt.Fprintf(&b, `,{"from":"shop@example.com","to":"%s%d@example.net","subject":"order","text":"hello","class":"marketing"%s}`, name, i, more)
	}
	return "[" + b.String()[1:] + "]"
}

// TestKillWhileSchedulesAreReleased kills the program at each step of the
// release of mail that was scheduled by Braze's calls. The steps are before and
// behind the row with the recipients, between the logs that take the mail, and
// before the row that notes the release. Then the same with mail for a time. Each
// mail goes out once.
func TestKillWhileSchedulesAreReleased(t *testing.T) {
	t.Parallel()
	const schedules, users = 6, 30
	w, relay := newSending(t, sink.Options{})
	p := w.start("")
	var known, named strings.Builder
	for i := range users {
		fmt.Fprintf(&known, `,{"external_id":"u%d","email":"u%d@example.net"}`, i, i)
		fmt.Fprintf(&named, `,"u%d"`, i)
	}
	w.ask("/users/track", `{"attributes":[`+known.String()[1:]+`]}`, "", http.StatusCreated)
	w.eventually("the users are known", func() bool { return w.highest("SELECT COUNT(*) FROM user_keys WHERE kind = 1") == users })
	p.kill()
	w.roles = "intake" // so that none is released before all are made
	began := time.Now()
	p = w.start("")
	w.awaitListen()
	start := time.Since(began)
	var due time.Time
	for i := range schedules {
		// One that was due already would be refused.
		due = time.Now().Add(12 * time.Second)
		body := strings.Repeat("hello ", 10+i%2*1500) // some are kept in the database
		w.ask("/messages/schedule/create", fmt.Sprintf(`{"external_user_ids":[%s],"schedule":{"time":%q},"messages":{"email":{"app_id":"shop","from":"shop@example.com","subject":"order","body":%q}}}`,
			named.String()[1:], due.UTC().Format(time.RFC3339), body), "", http.StatusCreated)
	}
	p.kill()
	const inState = "SELECT COUNT(*) FROM schedules WHERE state = "
	if n := w.highest(inState + "'waiting'"); n != schedules {
		t.Fatalf("%d schedules wait, want %d", n, schedules)
	}
	pause(t.Context(), time.Until(due))
	w.roles = "store"
	for _, failpoint := range []string{
		"schedule-freeze=kill,2", // the first goes all its way, the second has not begun
		"schedule-frozen=kill",   // the second: the recipients are written
		"submit-part=kill,2",     // handed in to two logs of four
		"submit-part=kill,3",     // to three, two of them again
		"schedule-handed=kill",   // to all, and the row does not say so
		"schedule-handed=kill,3", // the second again, the third, the fourth
	} {
		w.dies(failpoint)
	}
	if n := w.highest(inState + "'released'"); n != 3 {
		t.Errorf("%d schedules are released, want 3", n)
	}
	w.roles = "intake,store,send"
	p = w.start("")
	w.ledgerIs(map[string]int64{"sent": schedules * users})
	w.eventually("all are released", func() bool { return w.highest(inState+"'released'") == schedules })
	w.onlyOnce(relay, schedules*users)
	w.killWhileMailIsDue(p, relay, schedules*users, start)
}

// killWhileMailIsDue has mail for a time come, and kills the program on the mail's way into
// a lane. Marketing mail is stopped until the last program runs. So much was sent before,
// and a start takes so long here.
func (w *world) killWhileMailIsDue(p *program, relay *sink.Sink, sent int64, start time.Duration) {
	w.t.Helper()
	const later = 60
	w.ask("/v1/sending/pause", stopMarketing, "", http.StatusOK)
	p.kill()
	due := time.Now().Add(max(time.Minute, 20*start)) // two starts and kills before
	body := mails("later", later, fmt.Sprintf(`,"send_at":%q`, due.UTC().Format(time.RFC3339)))
	client := &http.Client{Timeout: requestWithin}
	defer client.CloseIdleConnections()
	for _, failpoint := range []string{"queue=kill", "queued=kill,2"} {
		p = w.start(failpoint)
		post(client, w.awaitListen()+"/v1/messages", body, "later") // whether it is answered is unknown
		w.exits(p, "the program has killed itself at "+failpoint)
	}
	p = w.start("")
	w.ask("/v1/messages", body, "later", http.StatusAccepted)
	w.ledgerIs(map[string]int64{"sent": sent, "waiting": later})
	if time.Now().After(due) {
		w.t.Fatal("it is due already: this test shows nothing")
	}
	p.kill()
	pause(w.t.Context(), time.Until(due))
	for _, failpoint := range []string{"due=kill", "due=kill,2", "due-moved=kill"} {
		w.dies(failpoint)
	}
	w.start("")
	w.ask("/v1/sending/resume", stopMarketing, "", http.StatusOK)
	w.ledgerIs(map[string]int64{"sent": sent + later})
	w.onlyOnce(relay, int(sent)+later)
	w.lanesEmpty()
	if n := w.highest("SELECT COUNT(*) FROM bodies"); n != 0 {
		w.t.Errorf("%d contents are left", n)
	}
}

// TestKillWhileAnOperatorIsAtWork kills the command that decides about mail in
// doubt, and the one that purges, before and behind what they write. It kills
// the program before and behind the step that carries it out. A command that
// died is run again. Each decision is carried out once, and purged mail is not
// sent.
func TestKillWhileAnOperatorIsAtWork(t *testing.T) {
	t.Parallel()
	const doubts = 10
	var cutting atomic.Bool
	cutting.Store(true)
	w, relay := newSending(t, sink.Options{Fault: func(at sink.At) sink.Act {
		if at.Step == sink.OnEnd && cutting.Load() {
			return sink.Act{Cut: sink.Unsaid}
		}
		return sink.Act{}
	}})
	p := w.start("")
	w.ask("/v1/messages", mails("doubt", doubts, ""), "doubts", http.StatusAccepted)
	w.ledgerIs(map[string]int64{"in_doubt": doubts})
	p.kill()
	cutting.Store(false)
	before := taken(relay)
	var sends []string
	rows, err := w.db.QueryContext(t.Context(), "SELECT message FROM sends ORDER BY message")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var message string
		if err := rows.Scan(&message); err != nil {
			t.Fatal(err)
		}
		sends = append(sends, message+".0")
	}
	if len(sends) != doubts || rows.Err() != nil {
		t.Fatalf("%d sends, %v", len(sends), rows.Err())
	}

	w.roles = "intake"
	w.start("") // commands want a program to be at work
	w.awaitListen()
	resolve := func(failpoint, as string, sends ...string) {
		t.Helper()
		w.command(failpoint, append(append([]string{"doubt", "resolve"}, sends...), "--as", as)...)
	}
	resolve("decide=kill", "again", sends[0])
	resolve("decided=kill", "again", sends[0])
	resolve("decided=kill", "again", sends[0]) // its writing is not known: it is decided again
	w.roles = "store"
	w.dies("queue=kill")
	w.dies("queued=kill")
	for _, group := range []struct {
		failpoint, as string
		sends         []string
	}{{"queue=kill,2", "again", sends[1:4]}, {"queued=kill,2", "sent", sends[4:7]}, {"queued=kill", "give_up", sends[7:]}} {
		p := w.start(group.failpoint)
		for _, send := range group.sends {
			resolve("", group.as, send)
		}
		w.exits(p, "the program has killed itself at "+group.failpoint)
	}
	w.roles = "intake,store,send"
	p = w.start("")
	w.ledgerIs(map[string]int64{"sent": 7, "failed": 3})
	for i, send := range sends {
		n := 0
		for what, times := range taken(relay) {
			if strings.Contains(what, strings.TrimSuffix(send, ".0")) {
				n += times - before[what]
			}
		}
		if want := map[bool]int{true: 1}[i < 4]; n != want {
			t.Errorf("send %d was taken %d times after it was decided about, want %d", i, n, want)
		}
	}

	// Pending mail is purged.
	const purged, others = 800, 40
	w.ask("/v1/sending/pause", stopMarketing, "", http.StatusOK)
	p.kill() // one that runs may take a second to see it
	p = w.start("")
	w.ask("/v1/messages", mails("spring", purged, `,"tags":["spring"]`), "spring", http.StatusAccepted)
	w.ask("/v1/messages", mails("other", others, ""), "others", http.StatusAccepted)
	w.ledgerIs(map[string]int64{"sent": 7, "failed": 3, "waiting": purged + others})
	p.kill()
	purge := []string{"sending", "purge", "--tag", "spring", "--yes"}
	w.command("purge=kill,2", purge...)
	w.command("purged=kill,2", purge...)
	w.roles = "store"
	w.dies("queue=kill") // what is cancelled is noted, the cursor has not moved
	w.dies("queued=kill,2")
	w.command("purged=kill", purge...)
	w.command("", purge...)
	w.dies("queued=kill") // no command purges again: the purge that this one has begun is gone on with
	w.roles = "intake,store,send"
	w.start("")
	w.ledgerIs(map[string]int64{"sent": 7, "failed": 3, "cancelled": purged, "waiting": others})
	was := relay.Received()
	w.ask("/v1/sending/resume", stopMarketing, "", http.StatusOK)
	w.ledgerIs(map[string]int64{"sent": 7 + others, "failed": 3, "cancelled": purged})
	w.lanesEmpty()
	if n := relay.Received() - was; n != others {
		t.Errorf("%d mails left after the purge, want %d", n, others)
	}
}
