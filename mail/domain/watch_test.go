package domain

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"
	"weak"

	"sluice"
	"sluice/flow"
	"sluice/lib/doctor"
	"sluice/mail/senderdomains"
	"sluice/test/clocktest"
	"sluice/test/logtest"
	"sluice/test/servers"
)

// looks counts the looks at domains, and finds what a test says.
type looks struct {
	mu     sync.Mutex
	found  map[string]doctor.Severity
	counts map[string]int
	wait   chan struct{} // not nil: looks wait until it is closed
}

func (l *looks) look(ctx context.Context, domain string) doctor.Examination {
	l.mu.Lock()
	severity, wait := l.found[domain], l.wait
	l.counts[domain]++
	l.mu.Unlock()
	if wait != nil {
		select {
		case <-wait:
		case <-ctx.Done():
		}
	}
	e := doctor.Examination{Where: domain}
	switch severity {
	case doctor.SeverityError:
		e.Fail(doctor.CheckDomainSPF, "mend it", "it is broken")
	case doctor.SeverityWarning:
		e.Warn(doctor.CheckDomainSPF, "mend it", "it is not good")
	case doctor.SeverityUnknown:
		e.Unknown(errors.New("nobody answers"), doctor.CheckDomainSPF)
	default:
		e.Fine(doctor.CheckDomainSPF, "it is good")
	}
	return e
}

func (l *looks) set(domain string, s doctor.Severity) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.found[domain] = s
}

func (l *looks) count(domain string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.counts[domain]
}

// lines is a log that may be read while it is written.
type lines = logtest.Buffer

type watching struct {
	*Watcher
	looks *looks
	clock *clocktest.Clock
	log   *lines
}

func startWatcher(t *testing.T, board Board) *watching {
	t.Helper()
	x := &watching{looks: &looks{found: map[string]doctor.Severity{}, counts: map[string]int{}}, clock: clocktest.At(time.UnixMilli(1_800_000_000_000)), log: &lines{}}
	x.Watcher = NewWatcher(x.looks.look, patient{board}, x.clock, slog.New(slog.NewTextHandler(x.log, nil)))
	fetch, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); x.Run(fetch, fetch) }()
	t.Cleanup(func() { stop(); <-done })
	return x
}

// result waits until a domain was looked at.
func (x *watching) result(t *testing.T, domain string) Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	r, ok := x.Await(ctx, domain)
	if !ok {
		t.Fatalf("%s was not looked at", domain)
	}
	return r
}

// patient is a board that is waited for: on a busy machine it would else be passed over.
type patient struct{ Board }

func (p patient) Found(ctx context.Context, domain string) (string, error) {
	return p.Board.Found(context.WithoutCancel(ctx), domain)
}

func (p patient) Keep(ctx context.Context, domain, result string, checkedMillis, forgetMillis int64) error {
	return p.Board.Keep(context.WithoutCancel(ctx), domain, result, checkedMillis, forgetMillis)
}

// newBoard is a board in a Redis of its own.
func newBoard(t *testing.T) senderdomains.Domains {
	t.Helper()
	server, err := servers.StartRedis(t.Context(), servers.RedisOptions{Dir: t.TempDir(), AppendFsync: "no"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Kill() })
	redis, err := flow.Dial(t.Context(), server.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(redis.Close)
	return senderdomains.Domains{Redis: redis}
}

// until waits for a condition.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	end := time.After(3 * time.Minute)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-end:
			t.Fatal("waited in vain: " + what)
		case <-tick.C:
		}
	}
}

// A domain is looked at once, however often it is met, until what was found is
// old. Other processes take over what this one has found, and the log tells
// what has changed.
func TestWatcher(t *testing.T) {
	board := newBoard(t)
	x := startWatcher(t, board)
	x.looks.set("bad.example", doctor.SeverityError)
	x.looks.set("poor.example", doctor.SeverityWarning)
	for range 100 {
		x.Meet("good.example")
		x.Meet("bad.example")
		x.Meet("poor.example")
		x.Meet("")
	}
	for domain, want := range map[string]doctor.Severity{"good.example": doctor.SeverityOK, "bad.example": doctor.SeverityError, "poor.example": doctor.SeverityWarning} {
		if r := x.result(t, domain); r.Worst(want) == nil || r.Domain != domain || !r.Checked().Equal(x.clock.Now()) {
			t.Errorf("%+v, want %s", r, want)
		}
	}
	until(t, "the log tells of both", func() bool {
		return strings.Count(x.log.String(), "level=WARN msg=\"sender domain has problems") == 2
	})
	if text := x.log.String(); !strings.Contains(text, "domain=bad.example check=domain-spf severity=error found=\"it is broken\" remedy=\"mend it\"") || strings.Contains(text, "good.example") {
		t.Error(text)
	}
	if all := x.Results(); len(all) != 3 || all[0].Domain != "bad.example" {
		t.Errorf("%+v", all)
	}
	// Another process finds it on the board.
	until(t, "all are on the board", func() bool { names, err := board.Names(t.Context(), 0, 10); return err == nil && len(names) == 3 })
	y := startWatcher(t, board)
	if r := y.result(t, "bad.example"); r.Worst(doctor.SeverityError) == nil || y.looks.count("bad.example") != 0 {
		t.Errorf("%+v after %d looks", r, y.looks.count("bad.example"))
	}
	// What is wrong is looked at again soon, what is good later.
	x.looks.set("bad.example", doctor.SeverityOK)
	x.clock.Move(badFor)
	for _, domain := range []string{"good.example", "bad.example"} {
		x.Meet(domain)
	}
	until(t, "it is good again", func() bool {
		return strings.Contains(x.log.String(), "level=INFO msg=\"sender domain has no problems any more\" domain=bad.example")
	})
	if x.looks.count("good.example") != 1 || x.looks.count("bad.example") != 2 {
		t.Errorf("%v", x.looks.counts)
	}
	x.clock.Move(goodFor)
	x.Meet("good.example")
	until(t, "the good one is looked at again", func() bool { return x.looks.count("good.example") == 2 })
	x.clock.Move(forgottenAfter)
	if all := x.Results(); len(all) != 0 {
		t.Errorf("domains that send nothing are still told of: %+v", all)
	}
}

// empty is a board that has nothing.
type empty struct{}

func (empty) Found(context.Context, string) (string, error)            { return "", nil }
func (empty) Keep(context.Context, string, string, int64, int64) error { return nil }

// The domains of a request are looked at side by side, and all of them together
// are waited for once.
func TestDomainsOfARequestShareOneWait(t *testing.T) {
	for took, want := range map[time.Duration]struct {
		waited  time.Duration
		refused int
	}{3 * time.Second: {3 * time.Second, 2}, time.Hour: {maxWait, 0}} {
		synctest.Test(t, func(t *testing.T) {
			w := NewWatcher(func(ctx context.Context, domain string) doctor.Examination {
				e := doctor.Examination{Where: domain}
				select {
				case <-time.After(took):
					e.Fail(doctor.CheckDomainSPF, "mend it", "it is broken")
				case <-ctx.Done():
					e.Unknown(ctx.Err(), doctor.CheckDomainSPF)
				}
				return e
			}, empty{}, sluice.SystemClock{}, slog.New(slog.DiscardHandler))
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			go w.Run(ctx, ctx) // ends with ctx
			began := time.Now()
			refused := w.Refusals(t.Context(), []string{"a.example", "b.example"})
			if waited := time.Since(began); waited != want.waited || len(refused) != want.refused {
				t.Errorf("looks of %s: %d are refused after %s, want %d after %s", took, len(refused), waited, want.refused, want.waited)
			}
		})
	}
}

// Meeting a domain waits for nothing. Accepting its mail waits for the first
// look, and no longer than the caller allows.
func TestWatcherWaits(t *testing.T) {
	x := startWatcher(t, newBoard(t))
	x.looks.wait = make(chan struct{})
	x.looks.set("bad.example", doctor.SeverityError)
	x.looks.set("mute.example", doctor.SeverityUnknown)
	x.Meet("bad.example")
	until(t, "the look has begun", func() bool { return x.looks.count("bad.example") == 1 })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if refused := x.Refusals(ctx, []string{"bad.example"}); len(refused) != 0 {
		t.Errorf("%v, before anybody knows", refused)
	}
	close(x.looks.wait)
	all := []string{"", "good.example", "bad.example", "mute.example", "bad.example"}
	refused := x.Refusals(t.Context(), all)
	if e := refused["bad.example"]; e == nil || e.Code != sluice.CodeInvalid || !strings.Contains(e.Message, "bad.example") || !strings.Contains(e.Message, "it is broken; mend it") {
		t.Error(e)
	}
	if len(refused) != 1 {
		t.Errorf("%v", refused)
	}
	// What is known is told, however little time there is.
	if refused := x.Refusals(ctx, all); refused["bad.example"] == nil {
		t.Error("what is known was not told")
	}
}

// An error refuses mail for as long as it is believed. Mail that comes later waits for the
// next look, and is accepted if there is none in time.
func TestOldErrorsRefuseNothing(t *testing.T) {
	x := startWatcher(t, newBoard(t))
	refused := func(ctx context.Context) bool {
		return x.Refusals(ctx, []string{"bad.example"})["bad.example"] != nil
	}
	x.looks.set("bad.example", doctor.SeverityError)
	if x.result(t, "bad.example"); !refused(t.Context()) {
		t.Fatal("mail of a domain with an error is accepted")
	}
	x.clock.Move(badFor)
	if x.result(t, "bad.example"); x.looks.count("bad.example") != 2 || !refused(t.Context()) {
		t.Errorf("mail of a domain that still has an error is accepted after %d looks", x.looks.count("bad.example"))
	}
	hangs := make(chan struct{})
	x.looks.mu.Lock()
	x.looks.wait = hangs
	x.looks.mu.Unlock()
	x.looks.set("bad.example", doctor.SeverityOK)
	x.clock.Move(badFor)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if refused(ctx) {
		t.Error("an error that is not believed any more refuses mail")
	}
	close(hangs)
	if r := x.result(t, "bad.example"); r.Worst(doctor.SeverityError) != nil || refused(t.Context()) {
		t.Errorf("mail of a domain that is mended is not accepted: %+v", r)
	}
}

// That a domain is mended is seen without further mail of it, for as long as anybody is
// told of its error.
func TestErrorsAreRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &looks{found: map[string]doctor.Severity{"bad.example": doctor.SeverityError, "lost.example": doctor.SeverityError}, counts: map[string]int{}}
		w := NewWatcher(l.look, empty{}, sluice.SystemClock{}, slog.New(slog.DiscardHandler))
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go w.Run(ctx, ctx) // ends with ctx
		for _, domain := range []string{"bad.example", "good.example", "lost.example"} {
			w.Meet(domain)
		}
		<-time.After(badFor - renewEvery)
		l.set("bad.example", doctor.SeverityOK)
		if all := w.Results(); len(all) != 3 || all[0].Worst(doctor.SeverityError) == nil {
			t.Fatalf("%+v", all)
		}
		<-time.After(3 * renewEvery)
		if all := w.Results(); all[0].Worst(doctor.SeverityError) != nil || all[2].Worst(doctor.SeverityError) == nil || l.count("good.example") != 1 {
			t.Errorf("%+v after %v looks", all, l.counts)
		}
		<-time.After(forgottenAfter)
		looks := l.count("lost.example")
		<-time.After(2 * badFor)
		if l.count("lost.example") != looks {
			t.Error("a domain that nobody is told of is still looked at")
		}
	})
}

// An error that DNS does not answer for is no end of it: it is told of and looked at until it
// is known to be mended. It refuses no mail meanwhile.
func TestErrorsOutlastSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &looks{found: map[string]doctor.Severity{"bad.example": doctor.SeverityError}, counts: map[string]int{}}
		var log lines
		w := NewWatcher(l.look, empty{}, sluice.SystemClock{}, slog.New(slog.NewTextHandler(&log, nil)))
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go w.Run(ctx, ctx) // ends with ctx
		w.Meet("bad.example")
		<-time.After(renewEvery)
		l.set("bad.example", doctor.SeverityUnknown)
		for range 3 {
			looks := l.count("bad.example")
			<-time.After(badFor + renewEvery)
			r := w.Results()[0]
			if l.count("bad.example") == looks || r.Worst(doctor.SeverityError) == nil || len(r.Findings) != 2 || r.Refusal() != nil {
				t.Fatalf("%+v after %d looks", r, l.count("bad.example"))
			}
		}
		if strings.Contains(log.String(), "no problems any more") {
			t.Error(log.String())
		}
		l.set("bad.example", doctor.SeverityError)
		<-time.After(badFor + renewEvery)
		if r := w.Results()[0]; r.Refusal() == nil || len(r.Findings) != 1 {
			t.Errorf("it is seen again: %+v", r)
		}
		l.set("bad.example", doctor.SeverityOK)
		<-time.After(badFor + renewEvery)
		if r := w.Results()[0]; r.Worst(doctor.SeverityError) != nil || !strings.Contains(log.String(), "no problems any more") {
			t.Errorf("it is mended: %+v", r)
		}
	})
}

// Only what DNS does not say is carried along, and a lesser problem of the same check does not
// stand for it.
func TestCarried(t *testing.T) {
	fail := doctor.Finding{Check: doctor.CheckDomainBounces, Severity: doctor.SeverityError, Found: "two records"}
	warn, silent, open := fail, fail, fail
	warn.Severity, silent.Severity, silent.Found = doctor.SeverityWarning, doctor.SeverityUnknown, "no answer"
	open.Severity, open.Found = doctor.SeverityUnknown, "what a provider does "+notSeenHere
	for _, x := range []struct {
		now  []doctor.Finding
		want int
	}{{[]doctor.Finding{silent}, 1}, {[]doctor.Finding{silent, warn}, 1}, {[]doctor.Finding{silent, fail}, 0}, {[]doctor.Finding{warn}, 0}, {[]doctor.Finding{open}, 0}, {nil, 0}} {
		r := Result{Findings: x.now}
		r.carry(&Result{Findings: []doctor.Finding{fail}})
		if len(r.Carried) != x.want || len(r.Findings) != len(x.now)+x.want {
			t.Errorf("%+v: %+v", x.now, r)
		}
	}
}

// Domains are remembered up to a bound.
func TestWatcherForgets(t *testing.T) {
	x := NewWatcher(nil, nil, clocktest.At(time.UnixMilli(1)), slog.New(slog.DiscardHandler))
	for i := range MaxWatched + 100 {
		x.Meet(strings.Repeat("a", i%60+1) + strings.Repeat("b", i/60+1) + ".example")
	}
	if len(x.watched) != MaxWatched || len(x.queue) != MaxWatched {
		t.Errorf("%d domains are remembered, %d wait", len(x.watched), len(x.queue))
	}
}

// What is remembered of a domain keeps no batch in memory: the sender of a send shares
// that of the batch it was read from. This holds when the domain is looked at again, too.
func TestWatchedKeepNoBatch(t *testing.T) {
	x := startWatcher(t, newBoard(t))
	for _, found := range []doctor.Severity{doctor.SeverityUnknown, doctor.SeverityWarning} {
		x.looks.set("shop.example", found)
		batch := strings.Repeat("x", 1<<10) + "shop.example"
		of := weak.Make(unsafe.StringData(batch))
		x.Meet(batch[1<<10:])
		batch = ""
		until(t, "what is "+string(found)+" is found", func() bool {
			r, ok := x.Await(t.Context(), "shop.example")
			return ok && r.Worst(found) != nil
		})
		runtime.GC()
		if of.Value() != nil {
			t.Error("the batch is kept with the domain of one of its senders")
		}
		x.clock.Move(badFor)
	}
}
