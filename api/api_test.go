package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"sluice"
	"sluice/flow"
	"sluice/ingest"
	"sluice/journey/desk"
	"sluice/journey/timeline"
	"sluice/lib/doctor"
	"sluice/lib/meter"
	"sluice/mail"
	routing "sluice/mail/route"
	"sluice/mail/smtpd"
	"sluice/mail/spool"
	"sluice/mail/suppress"
	"sluice/ops/account"
	"sluice/store"
	"sluice/store/sqlstore"
	"sluice/track/feed"
	"sluice/track/land"
	"sluice/track/webhook"
	"sluice/user"
	"sluice/user/consent"
	"sluice/user/segment"
)

// program answers what a test sets.
type program struct {
	mu     sync.Mutex
	ready  error
	stats  Stats
	intake *ingest.Intake
	keys   store.KeyStore
	series store.SeriesStore

	segments  user.SegmentStore
	templates mail.TemplateStore
	schedules mail.ScheduleStore
	journeys  *desk.Desk
	margin    time.Duration
	scanner   *segment.Scanner
	users     user.Store
	forms     *consent.Service

	submitter mail.Submitter
	sends     mail.SendStore
	canceller Canceller
	ledger    mail.LedgerStore
	decider   Decider
	operator  Operator
	mailboxes Mailboxes

	suppressions *suppress.Service
	webhooks     *webhook.Service
	groups       store.GroupStore
	settings     Settings

	late    error         // of Applied
	waits   chan struct{} // Applied says here that it waits, nil: it does not
	applied chan struct{} // closed: it waits no more
	feed    *feed.Heads
	replay  func() error // of a dead letter; nil: it is done
	domains DomainLooker
	stopped bool // it has no services

	// accounts is made once: it has megabytes in which failed sign-ins are counted.
	makeAccounts sync.Once
	accounts     *account.Service
}

func (p *program) Ready() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ready
}

func (p *program) Margin() (time.Duration, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.margin, p.margin > 0
}

func (p *program) ListMargin() (time.Duration, bool) {
	covered, known := p.Margin()
	return covered / 2, known
}

func (p *program) Stats() Stats { return p.stats }

func (p *program) Services() *Services {
	if p.stopped {
		return NotRunning
	}
	accounts, _ := p.keys.(store.AccountStore)
	p.makeAccounts.Do(func() { p.accounts = account.New(accounts, sluice.SystemClock{}) })
	dead, _ := p.keys.(DeadLetters)
	reactions, _ := p.series.(store.ReactionStore)
	finder, _ := p.keys.(user.Finder)
	reader := &timeline.Reader{Sends: p.sends, Partitions: 2}
	if db, ok := p.keys.(*sqlstore.Store); ok {
		reader.Events, reader.Sends, reader.Suppressions = db, db, db
	}
	if p.journeys != nil {
		reader.Places = p.journeys.PlacesOf
	}
	return &Services{
		Accounts: p.accounts, AccountStore: accounts, DeadLetters: dead, Feed: p.feed,
		Replay: func(context.Context, int64) error {
			if p.replay == nil {
				return nil
			}
			return p.replay()
		},
		Finder: finder, Timeline: reader, Settings: p.settings,
		Intake: p.intake, Keys: p.keys, Consent: p.forms, Series: p.series, Reactions: reactions, Users: p.users, Segments: p.segments, Scanner: p.scanner,
		Templates: p.templates, Schedules: p.schedules, Journeys: p.journeys, Suppressions: p.suppressions, Webhooks: p.webhooks, Groups: p.groups, Submitter: p.submitter, Sends: p.sends,
		Canceller: p.canceller, Ledger: p.ledger, Decider: p.decider, Operator: p.operator, Domains: p.domains, Mailboxes: p.mailboxes,
		Applied: func(context.Context, []user.Key) error {
			if p.waits != nil {
				p.waits <- struct{}{}
				<-p.applied
			}
			return p.late
		},
		Unlist: NotRunning.Unlist, SenderRefused: NotRunning.SenderRefused,
		WaitsFor: func(string, mail.Class, string) []string { return []string{"relay refused"} },
	}
}

func start(t *testing.T, p Program) (*Server, string) {
	t.Helper()
	s := New("127.0.0.1:0", p, slog.New(slog.DiscardHandler), Options{})
	if err := s.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := s.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	return s, "http://" + s.Address()
}

func do(t *testing.T, method, url string) (int, http.Header, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Request-Id", "r1")
	client, _ := checked(t)
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, res.Header, string(body)
}

func TestAnswers(t *testing.T) {
	p := &program{ready: errors.Join(errors.New("redis: ping: refused"), errors.Join(errors.New("database: gone"), errors.New("redis: ping: refused")))}
	_, url := start(t, p)
	tests := []struct {
		method, path string
		status       int
		body         string
	}{
		{"GET", "/healthz", 200, `{"alive":true}`},
		{"HEAD", "/healthz", 200, ``},
		{"POST", "/healthz", 405, `{"error":{"code":"invalid","message":"POST is not possible here, only GET and HEAD","request_id":"r1"}}`},
		{"GET", "/readyz", 503, `{"ready":false,"reasons":["redis: ping: refused","database: gone"]}`},
		{"GET", "/v1/nothing", 404, `{"error":{"code":"not_found","message":"nothing is at /v1/nothing; what there is stands at /docs","request_id":"r1"}}`},
		{"GET", "/v1/events", 405, `{"error":{"code":"invalid","message":"GET is not possible here, only POST","request_id":"r1"}}`},
		{"POST", "/v1/events", 401, `{"error":{"code":"unauthorized","message":"a key is needed: Authorization: Bearer slk_...; ` + "`sluice key create`" + ` makes one","request_id":"r1"}}`},
	}
	for _, tt := range tests {
		status, header, body := do(t, tt.method, url+tt.path)
		if status != tt.status || strings.TrimSpace(body) != tt.body {
			t.Errorf("%s %s: %d %s, want %d %s", tt.method, tt.path, status, body, tt.status, tt.body)
		}
		if header.Get("X-Request-Id") != "r1" {
			t.Errorf("%s %s: it was called r1, not %s", tt.method, tt.path, header.Get("X-Request-Id"))
		}
		if header.Get("Content-Type") != "application/json" || header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s %s: headers %v", tt.method, tt.path, header)
		}
	}
	p.mu.Lock()
	p.ready, p.margin = nil, 12*time.Second
	p.mu.Unlock()
	if status, _, body := do(t, "GET", url+"/readyz"); status != 200 || strings.TrimSpace(body) != `{"ready":true,"reasons":[],"log_margin_seconds":12,"list_margin_seconds":6}` {
		t.Errorf("ready: %d %s", status, body)
	}
}

func TestErrorShape(t *testing.T) {
	var log bytes.Buffer
	s := New("", &program{}, slog.New(slog.NewTextHandler(&log, nil)), Options{})
	tests := []struct {
		err    error
		status int
		want   string
	}{
		{&sluice.Error{Code: sluice.CodeInvalid, Message: "m", Index: 3}, 400, `{"code":"invalid","message":"m","index":3}`},
		{fmt.Errorf("read: %w", &sluice.Error{Code: sluice.CodeTooLarge, Message: "m", Index: -1}), 413, `{"code":"too_large","message":"m"}`},
		{&sluice.Error{Code: sluice.CodeUnavailable, Message: "m", Index: -1}, 503, `{"code":"unavailable","message":"m"}`},
		{&sluice.Error{Code: sluice.CodeUnauthorized, Message: "m", Index: -1}, 401, `{"code":"unauthorized","message":"m"}`},
		{&sluice.Error{Code: sluice.CodeForbidden, Message: "m", Index: -1}, 403, `{"code":"forbidden","message":"m"}`},
		{&statusError{408, refusal(sluice.CodeInvalid, "m")}, 408, `{"code":"invalid","message":"m"}`},
		{errors.New("table pepi is locked"), 500, `{"code":"internal","message":"the request failed; the log of the server says why"}`},
	}
	for _, tt := range tests {
		w := &recorder{header: http.Header{}}
		req, _ := http.NewRequest("GET", "/v1/x", nil)
		s.writeError(w, req, tt.err)
		var got struct{ Error json.RawMessage }
		if err := json.Unmarshal(w.Bytes(), &got); err != nil || string(got.Error) != tt.want || w.status != tt.status {
			t.Errorf("%v: %d %s %v, want %d %s", tt.err, w.status, w.String(), err, tt.status, tt.want)
		}
		if (w.header.Get("Retry-After") != "") != (tt.status == 503) {
			t.Errorf("%v: Retry-After %q", tt.err, w.header.Get("Retry-After"))
		}
	}
	if !strings.Contains(log.String(), "table pepi is locked") {
		t.Error("an inner error is not logged")
	}
	w := &recorder{header: http.Header{}}
	req, _ := http.NewRequest("GET", "/v1/x", nil)
	s.guard(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("oh") })).ServeHTTP(w, req)
	if w.status != 500 || w.header.Get("X-Request-Id") == "" || !strings.Contains(w.String(), `"internal"`) || strings.Contains(w.String(), "oh") {
		t.Errorf("panic: %d %s", w.status, w.String())
	}
}

// TestFailedRequestsNameNoPath: what a path is filled with may name a user.
func TestFailedRequestsNameNoPath(t *testing.T) {
	var log bytes.Buffer
	s := New("", &program{}, slog.New(slog.NewTextHandler(&log, nil)), Options{})
	failed := errors.New("table users is locked")
	handlers := http.NewServeMux()
	for path, fail := range map[string]func(http.ResponseWriter, *http.Request){
		"/v1": func(w http.ResponseWriter, r *http.Request) { s.writeError(w, r, failed) },
		"/braze": func(w http.ResponseWriter, r *http.Request) {
			(&brazeCall{s: s, w: w, r: r}).refusal(failed)
		},
		"/page": func(w http.ResponseWriter, r *http.Request) { s.writeBadLink(w, r, failed, &badLink{}) },
	} {
		handlers.HandleFunc("GET "+path+"/{id}", fail)
		log.Reset()
		handlers.ServeHTTP(&recorder{header: http.Header{}}, httptest.NewRequest("GET", path+"/ann.example", nil))
		if got := log.String(); strings.Contains(got, "ann.example") || !strings.Contains(got, path+"/{id}") || !strings.Contains(got, failed.Error()) {
			t.Errorf("%s logs %s", path, got)
		}
	}
}

type recorder struct {
	bytes.Buffer
	header http.Header
	status int
}

func (r *recorder) Header() http.Header { return r.header }
func (r *recorder) WriteHeader(s int)   { r.status = s }

// fullStats has something in every metric.
func fullStats() Stats {
	took := meter.Snapshot{Count: 3, Sum: 0.5, Buckets: map[float64]uint64{0.1: 2, 1: 3}}
	return Stats{
		Accepted: 11, Stored: 10, Duplicates: 1, Dead: 2, Conflicts: 3, Refused: 4, Updates: 7, Ignored: 5, Users: 6,
		Names:         map[string]int64{"opened": 7, "bro\xffken\n": 1},
		CommitSeconds: took, CommitRows: took, AppendItems: took,
		Stages:       map[string]meter.Snapshot{"read": took, "encode": took, "trim": took},
		Redis:        []RedisCalls{{"127.0.0.1:6379", took, 2}},
		LeaseChanges: map[string]flow.Changes{"store": {Taken: 16, Lost: 1, Returned: 2}},
		Mirror:       &Mirror{took, 9, 1},
		Webhooks:     &Posted{Delivered: 4, Failed: 2, GivenUp: 1, Events: 90, LagSeconds: 1.5},
		Checkpoints:  &Checkpoints{AgeSeconds: 12, Saved: 3, Bytes: 8176, Failed: 1, Recovered: 1, Stranded: 2, Dropped: 1},
		Landing:      &land.Snapshot{Opens: 9, Clicks: 4, Machines: 3, Refused: 2, Spilled: 1, Lost: 1, Seconds: took},
		SMTP:         &smtpd.Snapshot{Messages: 5, Recipients: 8, Refused: map[string]int64{"login": 2}, Seconds: took, Open: 1},
		Returned:     &Returned{Results: map[string]int64{"bounced": 2}, SMTP: smtpd.Snapshot{Refused: map[string]int64{"address": 1}, Open: 1}},
		Routes:       []routing.Snapshot{{Name: "relay", Breaker: "open", Why: routing.Down{Cause: mail.CauseRefused, Text: "connection refused", Since: time.Unix(1_700_000_000, 0)}, Opened: 1, Taken: 9, Throttled: 2, Share: 0.5, LeftToday: 7}},
		Domains:      []SenderDomain{{"example.com", doctor.Summary{Errors: 1, Warnings: 2}}},
		Mail: []spool.RouteProfile{{Route: "relay", Results: map[mail.ResultKind]int64{mail.ResultSent: 3},
			All:    spool.StageProfile{Seconds: 100, Mails: 3, Stages: [mail.Stages]meter.Snapshot{took, took, took, took, took, took, took, took, took, took}},
			Recent: spool.StageProfile{Seconds: 50, Mails: 3, Stages: [mail.Stages]meter.Snapshot{mail.StageLane: took, mail.StageWait: took}}}},
		Waiting: map[string]Waiting{"high": {4, 1.5}, "normal": {Sends: -1}, "low": {}}, Later: 6, Bounds: map[string]float64{"waiting.mails": 0.5},
		Sends: []mail.SendTotal{{Class: mail.ClassMarketing, State: mail.SendSent, Count: 5}}, InDoubt: 2,
		DiskFreeBytes: 1 << 30, DiskSizeBytes: 1 << 32,
		Followers: []Follower{{"store", 0, 0.25, 12, 9}, {"list:q", 0, 1, -1, -1}},
		Lists:     []List{{"q", 5, 3}, {"gone", -1, -1}},
		Margins:   map[int]time.Duration{3: 12 * time.Second}, ListMargin: map[string]time.Duration{"q": 6 * time.Second},
		Failing: map[string]bool{"store": false, "table:q": true},
		Leases:  map[string]int{"store": 16, "intake": 1}, Processes: 2, SuppressionsStale: map[mail.Class]bool{mail.ClassMarketing: true}, ClockAhead: 1.5,
	}
}

func TestMetrics(t *testing.T) {
	_, url := start(t, &program{stats: fullStats()})
	status, header, body := do(t, "GET", url+"/metrics")
	if status != 200 || !strings.HasPrefix(header.Get("Content-Type"), "text/plain") {
		t.Fatalf("%d %s %s", status, header.Get("Content-Type"), body)
	}
	for _, line := range []string{
		"sluice_accepted_items_total 11", "sluice_stored_rows_total 10", "sluice_duplicates_total 1",
		"sluice_dead_letters_total 2", "sluice_commit_conflicts_total 3", "sluice_commit_refusals_total 4",
		`sluice_stored_events_total{name="opened"} 7`, `sluice_commit_seconds_bucket{le="0.1"} 2`,
		"sluice_commit_seconds_count 3", `sluice_follower_lag_seconds{follower="store",partition="0"} 0.25`,
		`sluice_follower_lag_items{follower="store",partition="0"} 12`, `sluice_list_waiting_items{list="q"} 5`,
		`sluice_list_held_items{list="q"} 3`, `sluice_follower_failing{follower="store"} 0`, `sluice_follower_failing{follower="table:q"} 1`,
		`sluice_log_margin_seconds{partition="3"} 12`, `sluice_list_margin_seconds{list="q"} 6`, `sluice_leases{role="store"} 16`, `sluice_lease_changes_total{change="lost",role="store"} 1`, `sluice_log_batches{partition="0"} 9`,
		"sluice_mirror_write_seconds_count 3", "sluice_mirror_documents_total 9", "sluice_mirror_errors_total 1",
		"sluice_smtp_accepted_messages_total 5", "sluice_smtp_accepted_recipients_total 8", `sluice_smtp_refused_total{reason="login"} 2`, "sluice_smtp_accept_seconds_count 3", "sluice_smtp_connections 1",
		`sluice_stage_seconds_bucket{stage="trim",le="0.1"} 2`, "sluice_commit_rows_sum 0.5", "sluice_append_items_count 3",
		`sluice_sender_domain_findings{domain="example.com",severity="error"} 1`, `sluice_sender_domain_findings{domain="example.com",severity="warning"} 2`,
		`sluice_redis_call_seconds_count{server="127.0.0.1:6379"} 3`, `sluice_redis_errors_total{server="127.0.0.1:6379"} 2`,
		`sluice_mail_bound_used_ratio{setting="waiting.mails"} 0.5`,
		"sluice_data_free_bytes 1.073741824e+09", "sluice_data_size_bytes 4.294967296e+09", `sluice_build_info{goversion="go`, "sluice_live_processes 2", "sluice_ready 1", "go_goroutines",
	} {
		if !strings.Contains(body, "\n"+line) {
			t.Errorf("no line %s in\n%s", line, body)
		}
	}
	for _, line := range []string{`sluice_follower_lag_items{follower="list:q"`, `list="gone"`, `sluice_log_batches{partition="-`} {
		if strings.Contains(body, line) {
			t.Errorf("what is not known is shown: %s", line)
		}
	}
	problems, err := promlint.New(strings.NewReader(body)).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		if strings.HasPrefix(p.Metric, "sluice_") {
			t.Errorf("lint: %s: %s", p.Metric, p.Text)
		}
	}
}

func TestListenSaysWhatToDo(t *testing.T) {
	s, _ := start(t, &program{})
	err := New(s.Address(), &program{}, slog.New(slog.DiscardHandler), Options{}).Start(t.Context())
	if err == nil || !strings.Contains(err.Error(), s.Address()) || !strings.Contains(err.Error(), "--listen") {
		t.Errorf("got %v", err)
	}
	if err := New("127.0.0.1:0", &program{}, slog.New(slog.DiscardHandler), Options{}).Stop(t.Context()); err != nil {
		t.Errorf("stop without start: %v", err)
	}
}
