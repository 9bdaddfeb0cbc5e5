package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"sluice"
	"sluice/flow"
)

// postOffice is a program that sends by a provider, which counts what it gets.
type postOffice struct {
	*served
	t   *testing.T
	dir string

	mu  sync.Mutex
	got map[string]int // recipients
}

const postOfficeFile = "partitions: 2\nsending: 'on'\nroutes: {provider: {http: {url: '%[1]s', body: '{\"to\":\"{{to}}\"}'}}}\n"

func openPostOffice(t *testing.T) *postOffice { return openPostOfficeAs(t, postOfficeFile) }

// openPostOfficeAs opens one with a configuration that has the provider's URL.
func openPostOfficeAs(t *testing.T, file string) *postOffice {
	p := &postOffice{t: t, dir: t.TempDir(), got: make(map[string]int)}
	provider := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		to := strings.TrimSuffix(strings.TrimPrefix(string(body), `{"to":"`), `"}`)
		p.mu.Lock()
		defer p.mu.Unlock()
		p.got[to]++
	}))
	t.Cleanup(provider.Close)
	configure(t, p.dir, fmt.Sprintf(file, provider.URL))
	p.start()
	return p
}

func (p *postOffice) start(environ ...string) {
	p.t.Helper()
	p.served = serveConfigured(p.t, p.dir, append(environ, "SLUICE_ROOT_KEY="+testRoot)...)
}

func (p *postOffice) stop() {
	p.t.Helper()
	if code := p.served.stop(p.t); code != exitOK {
		p.t.Fatalf("exit code %d:\n%s", code, p.log)
	}
}

// mail hands count messages in, to NAME-I@example.com, and waits for the ledger.
func (p *postOffice) mail(name string, count int, rest string) {
	p.t.Helper()
	p.post(name, count, rest)
	await(p.t, "they are in the ledger", func() bool { return len(p.states(name)) == count })
}

func (p *postOffice) post(name string, count int, rest string) {
	p.t.Helper()
	for i := range count {
		body := fmt.Sprintf(`{"from":"shop@example.com","to":"%s-%d@example.com","subject":"s","text":"t","class":"marketing"%s}`, name, i, rest)
		if status, text := p.ask(p.t, http.MethodPost, messagesForTest, body); status != http.StatusAccepted {
			p.t.Fatalf("%d %s", status, text)
		}
	}
}

const messagesForTest = "/v1/messages"

// states are the states of the sends to NAME-...
func (p *postOffice) states(name string) []string {
	p.t.Helper()
	return p.texts(p.t, "SELECT state FROM sends WHERE to_address LIKE '"+name+"-%' ORDER BY to_address")
}

func (p *postOffice) awaitStates(name, want string, count int) {
	p.t.Helper()
	await(p.t, fmt.Sprintf("%d of %s are %s", count, name, want), func() bool {
		n := 0
		for _, s := range p.states(name) {
			if s == want {
				n++
			}
		}
		return n == count
	})
}

// wantSums fails if the totals are not those of the rows.
func (p *postOffice) wantSums() {
	p.t.Helper()
	rows := p.texts(p.t, "SELECT state || ' ' || COUNT(*) FROM sends GROUP BY state ORDER BY state")
	totals := p.texts(p.t, "SELECT state || ' ' || SUM(count) FROM send_totals GROUP BY state HAVING SUM(count) > 0 ORDER BY state")
	if strings.Join(rows, ", ") != strings.Join(totals, ", ") {
		p.t.Errorf("the rows are %v, the totals %v", rows, totals)
	}
}

// wantGot fails if a recipient of NAME-... has not got so many.
func (p *postOffice) wantGot(name string, count, each int) {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range count {
		if to := fmt.Sprintf("%s-%d@example.com", name, i); p.got[to] != each {
			p.t.Errorf("%s got %d mails, want %d", to, p.got[to], each)
		}
	}
}

// trimmed writes to the logs until what is in them now is trimmed.
func (p *postOffice) trimmed() {
	p.t.Helper()
	r, err := flow.Dial(p.t.Context(), string(must(os.ReadFile(filepath.Join(p.dir, "data", "redis", "url")))))
	if err != nil {
		p.t.Fatal(err)
	}
	defer r.Close()
	for _, part := range flow.Partitions(2) {
		log := flow.NewLog(r, part)
		end, err := log.Last(p.t.Context())
		if err != nil {
			p.t.Fatal(err)
		}
		n := 0
		await(p.t, "the log is trimmed", func() bool {
			// It takes a minute: to look is cheaper than to write.
			for i := 0; n%8 == 0 && i < 4; i++ {
				e := sluice.Event{Kind: sluice.KindCustom, TimeMillis: 1760000000000 + int64(n), Name: "filler", ID: fmt.Sprintf("%d-%d-%d", part.Number, n, i)}
				if err := log.Again(p.t.Context(), e.ID, sluice.AppendEvent(sluice.NewBatch(0), &e)); err != nil {
					p.t.Fatal(err)
				}
			}
			n++
			from, _, err := log.Span(p.t.Context())
			return err == nil && !from.Before(end)
		})
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// pause stops mail of tags, and returns when the program knows.
func (p *postOffice) pause(tags ...string) {
	p.t.Helper()
	for _, tag := range tags {
		mustRun(p.t, p.dir, "sending", "pause", "--tag", tag)
	}
	p.heeded()
}

func (p *postOffice) resume(tag string) { mustRun(p.t, p.dir, "sending", "resume", "--tag", tag) }

// heeded returns when the program has read what is stopped: all of it at once.
func (p *postOffice) heeded() {
	p.t.Helper()
	mustRun(p.t, p.dir, "sending", "stop")
	await(p.t, "marketing mail is stopped", func() bool { return p.metric(p.t, "sluice_marketing_stopped") == 1 })
	mustRun(p.t, p.dir, "sending", "resume")
}

const few = 6

// Last night's database under today's Redis. What waited then and has been sent
// since is known by the log, or is in doubt; what still waits is sent, once,
// whether or not the database knows of it.
func TestRestoreOfTheDatabaseUnderLanes(t *testing.T) {
	t.Parallel()
	p := openPostOffice(t)
	p.pause("first", "second", "kept", "later")
	p.mail("first", few, `,"tags":["first"]`)
	p.mail("second", few, `,"tags":["second"]`)
	p.mail("kept", few, `,"tags":["kept"]`)
	file := filepath.Join(p.dir, "b.tar")
	mustRun(t, p.dir, "backup", file)
	p.resume("first")
	p.awaitStates("first", "sent", few)
	p.mail("later", few, `,"tags":["later"]`)
	p.mail("new", few, `,"tags":["kept"]`)
	p.mail("gone", few, ``)
	p.awaitStates("gone", "sent", few)
	p.trimmed() // nothing of that is in the logs any more
	p.resume("second")
	p.resume("later")
	p.awaitStates("second", "sent", few)
	p.awaitStates("later", "sent", few)
	p.stop()

	out := mustRun(t, p.dir, "restore", "--only", "database", "--replace", file).stdout
	if !strings.Contains(out, "18 wait in the database, 12 in the lanes of redis") || !strings.Contains(out, "LOST, partition") {
		t.Errorf("restore: %s", out)
	}
	p.start()
	p.awaitStates("first", "in_doubt", few)
	p.awaitStates("second", "sent", few) // its outcomes are still in the logs
	p.awaitStates("later", "sent", few)  // its too, but not that it was handed in
	p.awaitStates("kept", "waiting", few)
	p.awaitStates("new", "waiting", few)
	if shown := mustRun(t, p.dir, "sending", "show").stdout; !strings.Contains(shown, "6 waited in both, 6 in the ledger alone (in doubt now), 6 in a lane alone (in the ledger now), 0 had ended") || strings.Contains(shown, "tag first") {
		t.Errorf("%s", shown) // what is stopped now is in Redis, and not what was stopped last night
	}
	p.resume("kept")
	p.awaitStates("kept", "sent", few)
	p.awaitStates("new", "sent", few)
	p.wantSums()
	for _, name := range []string{"first", "second", "later", "kept", "new", "gone"} {
		p.wantGot(name, few, 1)
	}
}

// Today's database under last night's logs, and both of last night: no lane is
// in a backup, so what waits is in doubt, and nothing of the logs is sent again.
func TestRestoreWithoutLanes(t *testing.T) {
	t.Parallel()
	for name, only := range map[string][]string{"redis": {"--only", "redis"}, "both": nil} {
		t.Run(name, func(t *testing.T) {
			p := openPostOffice(t)
			p.pause("kept")
			p.mail("kept", few, `,"tags":["kept"]`)
			p.mail("before", few, ``)
			p.awaitStates("before", "sent", few)
			file := filepath.Join(p.dir, "b.tar")
			mustRun(t, p.dir, "backup", file)
			p.mail("after", few, ``)
			p.awaitStates("after", "sent", few)
			p.stop()
			mustRun(t, p.dir, append(append([]string{"restore"}, only...), "--replace", file)...)
			p.start()
			p.awaitStates("kept", "in_doubt", few)
			p.resume("kept")
			p.mail("next", few, ``)
			p.awaitStates("next", "sent", few)
			p.wantSums()
			p.wantGot("kept", few, 0)
			for _, name := range []string{"before", "after", "next"} {
				p.wantGot(name, few, 1)
			}
		})
	}
}

// A request with an Idempotency-Key that the restore takes back is written when it is
// repeated: the Redis that was in use has forgotten its name.
func TestRestoreForgetsNamesOfRequests(t *testing.T) {
	t.Parallel()
	p := openPostOffice(t)
	file := filepath.Join(p.dir, "b.tar")
	mustRun(t, p.dir, "backup", file)
	hand := func() {
		t.Helper()
		const mail = `{"from":"shop@example.com","to":"lost-0@example.com","subject":"s","text":"t","class":"marketing"}`
		for path, body := range map[string]string{messagesForTest: mail, "/v1/counters": `[{"app_id":"shop","name":"visit","by":7}]`} {
			if status, text := p.ask(t, http.MethodPost, path, body, "Idempotency-Key", path); status != http.StatusAccepted {
				t.Fatalf("%s: %d %s", path, status, text)
			}
		}
		p.awaitStates("lost", "sent", 1)
		await(t, "the counter is stored", func() bool {
			return p.texts(t, "SELECT TOTAL(count) FROM series_days WHERE name = 'visit'")[0] == "7"
		})
	}
	hand()
	hand() // a repeat
	p.wantGot("lost", 1, 1)
	p.stop()
	mustRun(t, p.dir, "restore", "--replace", file)
	p.start()
	hand()
	p.wantGot("lost", 1, 2)
}

// What was in the logs of a backup and not stored yet has been sent since: it
// comes to be in the ledger, in doubt, and is not sent again.
func TestRestoreOfLogsThatWereSent(t *testing.T) {
	t.Parallel()
	p := openPostOffice(t)
	p.stop()
	p.start("SLUICE_ROLES=intake")
	p.post("logged", few, ``)
	file := filepath.Join(p.dir, "b.tar")
	mustRun(t, p.dir, "backup", file)
	p.stop()
	p.start()
	p.awaitStates("logged", "sent", few)
	p.stop()
	mustRun(t, p.dir, "restore", "--replace", file)
	p.start()
	p.awaitStates("logged", "in_doubt", few)
	p.wantSums()
	p.wantGot("logged", few, 1)
}

// What an operator stops is stopped by the next look; what an operator
// purges is cancelled, and nothing else is.
func TestPausingAndPurging(t *testing.T) {
	t.Parallel()
	p := openPostOffice(t)
	stop := func(want int, body string) string {
		t.Helper()
		status, text := p.ask(t, http.MethodPost, "/v1/sending/pause", body)
		if status != want {
			t.Fatalf("%s: %d %s, want %d", body, status, text, want)
		}
		return text
	}
	stop(http.StatusOK, `{"by":"tag","value":"spring","note":"wrong prices"}`)
	stop(http.StatusOK, `{"by":"priority","value":"low"}`)
	p.heeded()
	for _, body := range []string{`{"by":"tag"}`, `{"by":"moon","value":"x"}`, `{"by":"all","value":"x"}`, `{"by":"class","value":"spam"}`, `{"by":"message","value":"1"}`, `{}`, `{"by":"tag","value":"a,b"}`} {
		stop(http.StatusBadRequest, body)
	}
	if _, text := p.ask(t, http.MethodGet, "/v1/sending", ""); !strings.Contains(text, `{"by":"priority","value":"low",`) || !strings.Contains(text, `wrong prices"}`) {
		t.Errorf("%s", text)
	}
	p.mail("tagged", 2*few, `,"tags":["new","spring"]`)
	p.mail("low", few, `,"priority":"low"`)
	p.mail("others", few, `,"tags":["springtime"]`)
	p.awaitStates("others", "sent", few)
	mustRun(t, p.dir, "sending", "pause", "--route", "provider", "it", "complains")
	p.heeded()
	p.mail("late", few, ``)
	if shown := mustRun(t, p.dir, "sending", "show").stdout; !strings.Contains(shown, "mail of the route provider: stopped 2") || !strings.Contains(shown, "it complains") {
		t.Errorf("%s", shown)
	}
	if out := mustRun(t, p.dir, "sending", "purge", "--tag", "spring").stdout; !strings.Contains(out, "12 sends wait") {
		t.Errorf("%s", out)
	}
	for flag, want := range map[string]int{"route provider": 4 * few, "route other": 0, "domain Example.com": 4 * few, "domain example.org": 0, "sender shop@example.com": 4 * few, "sender example.com": 4 * few} {
		by, value, _ := strings.Cut(flag, " ") // none of them was tried
		if out := mustRun(t, p.dir, "sending", "purge", "--"+by, value).stdout; !strings.Contains(out, fmt.Sprintf("%d sends wait of", want)) {
			t.Errorf("by %s: %s", flag, out)
		}
	}
	if r := sluiceRun(t, p.dir, "sending", "pause", "--domain", "example.com"); r.code != exitUsage {
		t.Errorf("mail to a domain is stopped: %+v", r)
	}
	for path, want := range map[string]int{"/v1/sending/pause": http.StatusBadRequest, "/v1/sending/purge": http.StatusOK} {
		if status, text := p.ask(t, http.MethodPost, path, `{"by":"domain","value":"example.org"}`); status != want {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
	if out := mustRun(t, p.dir, "sending", "purge", "--tag", "spring", "--count", "2").stdout; !strings.Contains(out, "2 sends are cancelled") {
		t.Errorf("%s", out)
	}
	p.awaitStates("tagged", "cancelled", 2)
	var done struct {
		Cancelled int
		Next      string
	}
	total, after := 0, ""
	for {
		status, text := p.ask(t, http.MethodPost, "/v1/sending/purge", fmt.Sprintf(`{"by":"tag","value":"spring","limit":3%s}`, after))
		if err := json.Unmarshal([]byte(text), &done); err != nil || status != http.StatusOK {
			t.Fatalf("%d %s: %v", status, text, err)
		}
		if total += done.Cancelled; done.Next == "" {
			break
		}
		after, done.Next = `,"after":"`+done.Next+`"`, ""
	}
	if total != 2*few-2 {
		t.Errorf("%d were purged, want %d", total, 2*few-2)
	}
	p.awaitStates("tagged", "cancelled", 2*few)
	for _, flags := range [][]string{{"--route", "provider"}, {"--priority", "low"}, {"--tag", "spring"}} {
		mustRun(t, p.dir, append([]string{"sending", "resume"}, flags...)...)
	}
	p.awaitStates("late", "sent", few)
	p.awaitStates("low", "sent", few)
	p.wantSums()
	p.wantGot("tagged", 2*few, 0)
	for _, name := range []string{"low", "others", "late"} {
		p.wantGot(name, few, 1)
	}
	if reason := p.texts(t, "SELECT DISTINCT reason FROM sends WHERE state = 'cancelled'"); strings.Join(reason, "") != "purged" {
		t.Errorf("reasons: %v", reason)
	}
	for _, args := range [][]string{{"purge"}, {"purge", "--tag", "a", "--priority", "high"}, {"pause"}, {"stop", "--tag", "a"}, {"show", "--yes"}, {"pause", "--class", "x"}} {
		if r := sluiceRun(t, p.dir, append([]string{"sending"}, args...)...); r.code != exitUsage {
			t.Errorf("%v: %d %s", args, r.code, r.stderr)
		}
	}
}
