package feedback

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice"
	"sluice/flow"
	"sluice/mail"
	"sluice/mail/spool"
	"sluice/test/clocktest"
	"sluice/test/servers"
)

// testRedis is the server of this test binary.
var testRedis *servers.Redis

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "sluice-feedback-")
	if err != nil {
		panic(err)
	}
	testRedis, err = servers.StartRedis(context.Background(), servers.RedisOptions{Dir: dir})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	_ = testRedis.Kill()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// rows is a Ledger.
type rows []mail.SendRow

func (all rows) SendRows(_ context.Context, keys []mail.SendKey) (found []mail.SendRow, err error) {
	for _, r := range all {
		if slices.Contains(keys, mail.SendKey{Message: r.Message, Number: r.Number}) {
			found = append(found, r)
		}
	}
	return found, nil
}

// away is a Redis that can go away.
type away struct {
	*flow.Redis
	is        bool
	forgetful bool // it goes away when something is to be forgotten
}

func (a *away) AddFeedback(ctx context.Context, stretch int64, counts []flow.FeedbackCount, most int, ttl time.Duration) (int64, error) {
	if a.is {
		return 0, errAway
	}
	return a.Redis.AddFeedback(ctx, stretch, counts, most, ttl)
}

func (a *away) ForgetFeedback(ctx context.Context, stretches []int64, fields []string) error {
	if a.is || a.forgetful {
		return errAway
	}
	return a.Redis.ForgetFeedback(ctx, stretches, fields)
}

var errAway = errors.New("redis is away")

// tests is how many beds there were.
var tests int

// bed is two processes of a deployment, of which the first judges.
type bed struct {
	t      *testing.T
	clock  *clocktest.Clock
	redis  *away
	first  *Watch
	second *Watch
	paused []Pause
	live   map[string]bool   // journeys
	holds  map[string]string // why journeys stand
}

func newBed(t *testing.T, limits Limits) *bed {
	t.Helper()
	r, err := flow.Dial(t.Context(), testRedis.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	// A day for each test, so that none sees the counts of another.
	tests++
	b := &bed{t: t, clock: clocktest.At(time.Unix(1_700_000_000, 0).AddDate(0, 0, tests)), redis: &away{Redis: r}, live: map[string]bool{"welcome": true, "winback": true}, holds: map[string]string{}}
	make := func(judges bool) *Watch {
		return &Watch{
			Redis: b.redis, Operator: &spool.Operator{Redis: r, Clock: b.clock}, Limits: limits, Clock: b.clock, Log: slog.New(slog.DiscardHandler), Ignored: "sink",
			Judges: func() bool { return judges },
			Paused: func(_ context.Context, p *Pause) error {
				if b.redis.is {
					return errAway
				}
				if !slices.ContainsFunc(b.paused, func(told Pause) bool { return told.Name() == p.Name() && told.At.Equal(p.At) }) {
					b.paused = append(b.paused, *p) // an event is stored once
				}
				return nil
			},
			PauseJourney: func(_ context.Context, id, why string) (string, bool, error) {
				was := b.live[id]
				if b.live[id] = false; was {
					b.holds[id] = why
				}
				if !strings.Contains(why, NoteMark) {
					t.Errorf("the journey %s stands because of %q", id, why)
				}
				return b.holds[id], was, nil
			},
		}
	}
	b.first, b.second = make(true), make(false)
	t.Cleanup(func() {
		for name := range b.stopped() {
			if _, err := r.Unstop(context.Background(), name); err != nil {
				t.Error(err)
			}
		}
	})
	return b
}

// judge has both write, and judge.
func (b *bed) judge() {
	b.t.Helper()
	both := []*Watch{b.second, b.first}
	for _, w := range both {
		if err := errors.Join(w.lookUp(b.t.Context()), w.flush(b.t.Context())); err != nil {
			b.t.Fatal(err)
		}
	}
	for _, w := range both {
		if err := errors.Join(w.judgeMail(b.t.Context()), w.judgeJourneys(b.t.Context())); err != nil {
			b.t.Fatal(err)
		}
	}
}

func (b *bed) stopped() map[string]string {
	names, err := b.redis.Stops(context.Background())
	if err != nil {
		b.t.Fatal(err)
	}
	return names
}

// names are what is stopped, in order.
func (b *bed) names() string {
	var all []string
	for name := range b.stopped() {
		all = append(all, name)
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// results has both processes see results, in turns.
func (b *bed) results(n int, class mail.Class, route, tags string, r mail.Result) {
	s := &mail.Send{Class: class, Tags: tags}
	for i := range n {
		[]*Watch{b.first, b.second}[i%2].Result(s, route, &r)
	}
}

var (
	sent    = mail.Result{Kind: mail.ResultSent, Code: 250}
	nobody  = mail.Result{Kind: mail.ResultFailed, Code: 550, Enhanced: "5.1.1", Text: "no such user", Blame: mail.BlameRecipient}
	listed  = mail.Result{Kind: mail.ResultFailed, Code: 550, Enhanced: "5.7.1", Text: "listed by spamhaus", Blame: mail.BlameRoute}
	unliked = mail.Result{Kind: mail.ResultFailed, Code: 550, Enhanced: "5.6.0", Text: "what is this", Blame: mail.BlameMessage}
	later   = mail.Result{Kind: mail.ResultDeferred, Code: 451, Enhanced: "4.7.1", Text: "greylisted"}
)

var limits = Limits{Complaints: 3, Bounces: 80, Blocks: 100, Mails: 200, Window: time.Hour}

// TestStops: what is beyond a limit is stopped, over all processes, and nothing else.
func TestStops(t *testing.T) {
	const m, tr = mail.ClassMarketing, mail.ClassTransactional
	all := limits
	all.Transactional = true
	for name, x := range map[string]struct {
		limits Limits
		see    func(b *bed)
		want   string
	}{
		"few": {limits, func(b *bed) { b.results(199, m, "relay", "a", nobody) }, ""},
		"bad": {limits, func(b *bed) { b.results(180, m, "relay", "a", sent); b.results(20, m, "relay", "a,b", nobody) }, "marketing/route:relay marketing/tag:a"},
		"at":  {limits, func(b *bed) { b.results(230, m, "relay", "a", sent); b.results(20, m, "relay", "a", nobody) }, ""},
		"one": {limits, func(b *bed) {
			b.results(1000, m, "relay", "a", sent)
			b.results(50, m, "relay", "c", nobody)
			b.results(150, m, "relay", "c", sent)
		}, "marketing/tag:c"},
		"own": {limits, func(b *bed) { b.results(150, m, "relay", "", sent); b.results(50, m, "relay", "", listed) }, "marketing/route:relay"},
		"msg": {limits, func(b *bed) { b.results(100, m, "relay", "a", unliked); b.results(100, m, "relay", "a", later) }, ""},
		"low": {Limits{Complaints: 1, Bounces: 1, Blocks: 1, Mails: 1, Window: time.Hour}, func(b *bed) { b.results(4, m, "relay", "a", nobody) }, ""},
		"off": {Limits{Mails: 1, Window: time.Hour}, func(b *bed) { b.results(500, m, "relay", "a", nobody) }, ""},
		"box": {limits, func(b *bed) { b.results(500, m, "sink", "a", nobody) }, ""},
		"trx": {limits, func(b *bed) { b.results(500, tr, "relay", "a", nobody) }, ""},
		"any": {all, func(b *bed) { b.results(500, tr, "relay", "a", nobody) }, "route:relay tag:a"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, x.limits)
			x.see(b)
			b.judge()
			if got := b.names(); got != x.want {
				t.Errorf("stopped %q, want %q", got, x.want)
			}
			for _, p := range b.paused {
				if note := b.stopped()[p.Selector.Name()]; !strings.Contains(note, NoteMark+p.Why()) {
					t.Errorf("the note is %q, want %q", note, p.Why())
				}
			}
			if len(b.paused) != len(strings.Fields(x.want)) {
				t.Errorf("told of %+v", b.paused)
			}
		})
	}
}

// TestStopsBesideMany: as many tags as can be stopped keep neither the brake nor a stop of a
// route from being made, by people or by itself.
func TestStopsBesideMany(t *testing.T) {
	b := newBed(t, limits)
	stop := func(by, value string) error {
		s, err := mail.NewSelector(by, value)
		if err != nil {
			t.Fatal(err)
		}
		return b.first.Operator.Stop(t.Context(), s, "many")
	}
	for i := range mail.MaxStops {
		if err := stop(mail.SelectTag, fmt.Sprintf("t%d", i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := stop(mail.SelectMessage, strings.Repeat("a1", sluice.MessageIDBytes/2)); !errors.Is(err, sluice.ErrFull) {
		t.Errorf("a message beside them is stopped: %v", err)
	}
	b.results(200, mail.ClassMarketing, "relay", "", nobody)
	b.judge()
	for _, s := range [][2]string{{mail.SelectClass, "marketing"}, {mail.SelectAll, ""}, {mail.SelectPriority, "low"}, {mail.SelectRoute, "other"}} {
		if err := stop(s[0], s[1]); err != nil {
			t.Errorf("%v: %v", s, err)
		}
	}
	var others []string
	for name := range b.stopped() {
		if !strings.HasPrefix(name, "tag:") {
			others = append(others, name)
		}
	}
	slices.Sort(others)
	if got := strings.Join(others, " "); got != "all marketing marketing/route:relay priority:low route:other" {
		t.Errorf("stopped beside the tags: %q", got)
	}
}

// TestGoesOn: what an operator lets go on is counted anew, and judged again.
func TestGoesOn(t *testing.T) {
	b := newBed(t, limits)
	b.results(200, mail.ClassMarketing, "relay", "", nobody)
	b.judge()
	b.judge() // it is stopped already
	if b.names() != "marketing/route:relay" || len(b.paused) != 1 {
		t.Fatalf("stopped %q, told %d times", b.names(), len(b.paused))
	}
	if was, err := b.redis.Unstop(t.Context(), "marketing/route:relay"); err != nil || !was {
		t.Fatal(was, err)
	}
	b.results(199, mail.ClassMarketing, "relay", "", nobody)
	b.judge()
	if got := b.names(); got != "" {
		t.Errorf("stopped again by what was known when it was let go on: %q", got)
	}
	b.results(1, mail.ClassMarketing, "relay", "", nobody)
	b.judge()
	if got := b.names(); got != "marketing/route:relay" {
		t.Errorf("stopped %q after as many again", got)
	}
}

// TestWindow: what is past the window counts no more.
func TestWindow(t *testing.T) {
	b := newBed(t, limits)
	b.results(150, mail.ClassMarketing, "relay", "", nobody)
	b.judge()
	b.clock.Move(limits.Window + limits.Window/stretches)
	b.results(100, mail.ClassMarketing, "relay", "", nobody)
	b.judge()
	if got := b.names(); got != "" {
		t.Errorf("stopped %q by mails that are past the window", got)
	}
	b.clock.Move(limits.Window / 2)
	b.results(100, mail.ClassMarketing, "relay", "", nobody)
	b.judge()
	if got := b.names(); got != "marketing/route:relay" {
		t.Errorf("stopped %q, want the route: 200 within the window", got)
	}
}

// TestRedisAway: what Redis does not take is counted when it is back.
func TestRedisAway(t *testing.T) {
	b := newBed(t, limits)
	b.redis.is = true
	b.results(200, mail.ClassMarketing, "relay", "a", nobody)
	for _, w := range []*Watch{b.first, b.second} {
		if w.flush(t.Context()) == nil {
			t.Fatal("no error without Redis")
		}
	}
	b.redis.is = false
	b.judge()
	if got := b.names(); got != "marketing/route:relay marketing/tag:a" {
		t.Errorf("stopped %q", got)
	}
}

// TestRedisAwayAfterStop: what was stopped when Redis went away is told, once, and its
// counts are forgotten: an operator may let it go on.
func TestRedisAwayAfterStop(t *testing.T) {
	for name, leave := range map[string]func(b *bed, is bool){
		"before it is told": func(b *bed, is bool) { b.redis.is = is },
		"before it forgets": func(b *bed, is bool) { b.redis.forgetful = is },
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, limits)
			for i := range 200 {
				[]*Watch{b.first, b.second}[i%2].Result(&mail.Send{Class: mail.ClassMarketing, Journey: "welcome"}, "relay", &nobody)
			}
			if err := errors.Join(b.second.flush(t.Context()), b.first.flush(t.Context())); err != nil {
				t.Fatal(err)
			}
			leave(b, true)
			if b.first.judgeJourneys(t.Context()) == nil || b.first.judgeMail(t.Context()) == nil || b.live["welcome"] || b.names() != "marketing/route:relay" {
				t.Fatalf("stopped %q, live %v, and no error", b.names(), b.live)
			}
			leave(b, false)
			b.clock.Move(time.Minute)
			b.judge()
			if len(b.paused) != 2 {
				t.Errorf("told of %+v, want the journey and the route, once", b.paused)
			}
			b.live["welcome"] = true
			if _, err := b.redis.Unstop(t.Context(), "marketing/route:relay"); err != nil {
				t.Fatal(err)
			}
			b.judge()
			if b.names() != "" || !b.live["welcome"] {
				t.Errorf("stopped again by what was known before: %q, live %v", b.names(), b.live)
			}
		})
	}
}

// TestReports: what was reported counts for the send in the ledger, if it is of now.
func TestReports(t *testing.T) {
	b := newBed(t, limits)
	message, other := sluice.NewMessageID(1), sluice.NewMessageID(2)
	b.first.Ledger = rows{{Message: message, Class: mail.ClassMarketing, Route: "relay", Tags: "a,b"}, {Message: other, Class: mail.ClassTransactional, Route: "relay", Tags: "a"}}
	b.second.Ledger = b.first.Ledger
	b.results(1000, mail.ClassMarketing, "relay", "a", sent)
	now := b.clock.Now().UnixMilli()
	report := func(n int, r mail.Report) {
		for range n {
			b.second.Reported([]mail.Report{r})
		}
	}
	complaint := mail.Report{SendKey: mail.SendKey{Message: message, Number: mail.AnyNumber}, Complaint: true, TimeMillis: now}
	report(3, complaint)
	ofOther, old, unknown := complaint, complaint, complaint
	ofOther.Message, old.TimeMillis, unknown.Message = other, now-limits.Window.Milliseconds()-1, sluice.NewMessageID(3)
	report(50, ofOther)
	report(50, old)
	report(50, unknown)
	report(500, mail.Report{SendKey: complaint.SendKey, Class: mail.BounceOther, TimeMillis: now})
	again := complaint
	again.Number = 0
	report(50, again) // somebody who has the mail reports it again and again: that is one
	b.judge()
	if got := b.names(); got != "" {
		t.Errorf("stopped %q by 4 complaints, want none", got)
	}
	report(1, complaint)
	b.judge()
	if got := b.names(); got != "marketing/route:relay marketing/tag:a" || b.paused[0].What != "complained" {
		t.Errorf("stopped %q by 5 complaints of 1000 mails: %+v", got, b.paused)
	}
}

// TestManyNames: a program that puts numbers into tags fills neither the memory nor
// Redis, and its route is judged all the same.
func TestManyNames(t *testing.T) {
	b := newBed(t, limits)
	for i := range 3 * maxCells {
		b.results(1, mail.ClassMarketing, "relay", fmt.Sprint("tag-", i), nobody)
	}
	if len(b.first.cells) > maxCells+len(whatWords) {
		t.Errorf("%d counts are held", len(b.first.cells))
	}
	b.judge()
	counts, err := b.redis.Feedback(t.Context(), []int64{b.first.stretch(0)})
	if err != nil || len(counts) > maxFields+len(whatWords) {
		t.Errorf("%d counts are in Redis: %v", len(counts), err)
	}
	if got := b.names(); got != "marketing/route:relay" {
		t.Errorf("stopped %q", got)
	}
	if _, dropped := b.first.Stats(); dropped == 0 {
		t.Error("nobody hears that names were dropped")
	}
}

// TestJourneys: a journey beyond a limit is paused as a whole, whatever its tags are, and
// once. What comes back of its mail later counts for it.
func TestJourneys(t *testing.T) {
	b := newBed(t, limits)
	message := sluice.NewMessageID(1)
	b.first.Ledger = rows{{Message: message, Class: mail.ClassMarketing, Route: "relay", Journey: "winback"}}
	b.second.Ledger = b.first.Ledger
	send := func(n int, journey string, r mail.Result) {
		for i := range n {
			[]*Watch{b.first, b.second}[i%2].Result(&mail.Send{Class: mail.ClassMarketing, Journey: journey, Tags: fmt.Sprint("tag-", i)}, "relay", &r)
		}
	}
	names := func() (all string) {
		for _, p := range b.paused {
			all += " " + p.Name() + " " + p.What
		}
		return all
	}
	send(2000, "", sent) // so the route is well
	send(180, "welcome", sent)
	send(20, "welcome", nobody)
	send(1000, "winback", sent)
	b.judge()
	b.judge()
	if got := names(); got != " journey:welcome bounced" || b.live["welcome"] || !b.live["winback"] {
		t.Fatalf("paused%s, live %v", got, b.live)
	}
	for range 5 {
		b.second.Reported([]mail.Report{{SendKey: mail.SendKey{Message: message, Number: mail.AnyNumber}, Complaint: true, TimeMillis: b.clock.Now().UnixMilli()}})
	}
	b.judge()
	if got := names(); got != " journey:welcome bounced journey:winback complained" {
		t.Errorf("paused%s", got)
	}
	send(200, "winback", nobody) // it is paused: nothing is to be done, and nobody is told
	b.judge()
	if len(b.paused) != 2 {
		t.Errorf("told of%s", names())
	}
}
