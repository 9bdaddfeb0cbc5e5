package route

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/flow"
	"sluice/mail"
	"sluice/test/clocktest"
)

var testNow = time.Date(2026, 11, 21, 18, 0, 0, 0, time.UTC)

// carrier is a transport of which only the name matters.
type carrier struct {
	mail.Transport
	name   string
	window int
}

func (c *carrier) Name() string { return c.name }
func (c *carrier) Window() int  { return max(c.window, 1) }

// noRedis has no tokens, and what is stopped is what a test says.
type noRedis struct{ stops map[string]string }

func (noRedis) Pace(_ context.Context, _ string, asks []flow.PaceAsk) ([]flow.PaceGrant, error) {
	return make([]flow.PaceGrant, len(asks)), nil
}

func (n noRedis) Stops(context.Context) (map[string]string, error) { return n.stops, nil }

// bed is a router with a clock that stands.
type bed struct {
	*Router
	t     *testing.T
	clock *clocktest.Clock
	n     int
}

func newBed(t *testing.T, o Options) *bed {
	t.Helper()
	b := &bed{t: t, clock: clocktest.At(testNow)}
	if o.Clock = b.clock; o.Redis == nil {
		o.Redis = noRedis{}
	}
	if o.Sink == nil {
		o.Sink = &carrier{name: "sink"}
	}
	if o.Mode == "" {
		o.Mode = On
	}
	r, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	b.Router = r
	if err := r.Look(t.Context()); err != nil {
		t.Fatal(err)
	}
	return b
}

func mailTo(to string) *mail.Send {
	return &mail.Send{Message: "019a0000000000000000000000000abc", To: to, Class: mail.ClassTransactional}
}

// taker returns who takes a mail, after all have been asked twice; "" if nobody
// does, with what they said last.
func (b *bed) taker(s *mail.Send) (string, map[string]Take) {
	said := make(map[string]Take)
	for range 2 {
		for _, t := range b.Transports() {
			take := b.Takes(t, s, nil, b.clock.Now())
			if take.OK {
				return t.Name(), said
			}
			if take.Wait <= 0 || take.Wait > nowhereWait {
				b.t.Errorf("%s is to ask again after %v", t.Name(), take.Wait)
			}
			said[t.Name()] = take
		}
	}
	return "", said
}

func (b *bed) wantTaker(want, to string) {
	b.t.Helper()
	if got, said := b.taker(mailTo(to)); got != want {
		b.t.Fatalf("%q takes a mail to %s, want %q; %v", got, to, want, said)
	}
}

// report tells how a call of Deliver has ended, all of whose mails went to one
// recipient.
func (b *bed) report(name, to string, results ...mail.Result) {
	b.t.Helper()
	b.reportFrom(name, "", to, results...)
}

// window is a result that many mails of a call have.
func window(mails int, r mail.Result) []mail.Result {
	return slices.Repeat([]mail.Result{r}, mails)
}

// shares counts who takes each of so many mails.
func (b *bed) shares(mails int) map[string]int {
	got := make(map[string]int)
	for range mails {
		b.n++
		s := mailTo("a@example.com")
		s.Message = fmt.Sprintf("%032x", b.n)
		name, _ := b.taker(s)
		got[name]++
	}
	return got
}

func named(name string) Settings { return Settings{Transport: &carrier{name: name}} }

var (
	sent    = mail.Result{Kind: mail.ResultSent}
	ours    = mail.Result{Kind: mail.ResultDeferred, Blame: mail.BlameRoute, Code: 550}
	theirs  = mail.Result{Kind: mail.ResultFailed, Blame: mail.BlameRecipient, Code: 550}
	untried = mail.Result{Kind: mail.ResultUntried, Blame: mail.BlameRoute}
)

// The gate comes before everything else.
func TestModes(t *testing.T) {
	for mode, want := range map[Mode]map[string]string{
		Off:       {"me@example.com": "", "x@list.example": ""},
		Sink:      {"me@example.com": "sink", "x@list.example": "sink"},
		AllowList: {"Me@Example.com": "real", "you@example.com": "sink", "x@list.example": "real", "x@sub.list.example": "sink", "x@a.b.deep.example": "real"},
		On:        {"me@example.com": "real", "x@list.example": "real"},
	} {
		b := newBed(t, Options{Mode: mode, Allow: []string{"me@example.com", "list.example", "*.deep.example"}, Routes: []Settings{named("real")}})
		for to, taker := range want {
			b.wantTaker(taker, to)
			s := mailTo(to)
			s.Route = "real"
			if got, _ := b.taker(s); got != taker || b.TransportOf("real") != b.routes[0].transport || b.TransportOf("gone") != nil {
				t.Errorf("%s: %q takes a mail to %s that asks for a route, want %q; or it does not know its routes", mode, got, to, taker)
			}
		}
	}
}

// Nothing goes before it is known what is stopped; then marketing mail may be.
func TestStopMarketing(t *testing.T) {
	stops := map[string]string{"marketing": "ann"}
	r, err := New(Options{Mode: On, Sink: &carrier{name: "sink"}, Routes: []Settings{named("a")}, Redis: noRedis{stops}, Clock: clocktest.At(testNow)})
	if err != nil {
		t.Fatal(err)
	}
	a, message := r.routes[0].transport, mailTo("x@example.com")
	if take := r.Takes(a, message, nil, testNow); take.OK || take.Wait > stopsEvery {
		t.Fatalf("before it was asked: %+v", take)
	}
	look := func() {
		if err := r.Look(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	look()
	marketing := mailTo("x@example.com")
	marketing.Class = mail.ClassMarketing
	if !r.Takes(a, message, nil, testNow).OK || r.Takes(a, marketing, nil, testNow).OK {
		t.Fatal("marketing alone is to be stopped")
	}
	if stopped := r.Stopped(); stopped["marketing"] != "ann" {
		t.Fatal(stopped)
	}
	delete(stops, "marketing")
	look()
	if !r.Takes(a, marketing, nil, testNow).OK {
		t.Fatal("it is not stopped any more")
	}
}

func TestConditions(t *testing.T) {
	some, bulk, rest := named("some"), named("bulk"), named("rest")
	some.Domains, some.Except = []string{"a.example", "*.b.example"}, []string{"not.b.example", "*.not.b.example"}
	bulk.Domains, bulk.Classes = []string{"c.example"}, []mail.Class{mail.ClassMarketing}
	rest.Except = []string{"a.example", "b.example", "*.b.example", "c.example", "none.example"}
	b := newBed(t, Options{Routes: []Settings{some, bulk, rest}})
	for to, want := range map[string]string{
		"x@a.example": "some", "x@A.Example": "some", "x@sub.a.example": "rest", "x@b.example": "", "x@y.z.b.example": "some", "x@not.b.example": "",
		"x@c.example": "", "x@d.example": "rest", "x@none.example": "", "postmaster": "rest",
	} {
		b.wantTaker(want, to)
		if err := b.Check(to, mail.ClassTransactional, ""); (err == nil) != (want != "") {
			t.Errorf("%s: %v", to, err)
		}
	}
	s := mailTo("x@c.example")
	if _, said := b.taker(s); said["some"].Lane != nowhere {
		t.Errorf("%v", said)
	}
	if s.Class = mail.ClassMarketing; !b.Takes(b.byName("bulk").transport, s, nil, testNow).OK {
		t.Error("marketing mail is not taken")
	}
	for _, asked := range []string{"rest", "gone"} { // a route takes nothing that its settings deny, even if it is asked for
		s := mailTo("x@a.example")
		s.Route = asked
		if got, _ := b.taker(s); got != "" {
			t.Errorf("%s takes what asks for %s", got, asked)
		}
		if b.Check(s.To, s.Class, asked) == nil {
			t.Errorf("%s is accepted", asked)
		}
	}
}

// Mail is shared by weight, and every mail is taken by exactly one.
func TestWeights(t *testing.T) {
	heavy := named("heavy")
	heavy.Weight = 3
	b := newBed(t, Options{Routes: []Settings{heavy, named("light")}})
	b.wantTaker("heavy", "warm@example.com") // the other has not asked yet
	b.Takes(b.byName("light").transport, mailTo("x@example.com"), nil, b.clock.Now())
	got := b.shares(4000)
	if got["heavy"] < 2800 || got["heavy"] > 3200 || got["heavy"]+got["light"] != 4000 {
		t.Fatalf("%v", got)
	}
	// A route whose workers are all busy keeps no mail waiting.
	b.clock.Move(absentAfter + 1)
	if take := b.Takes(b.byName("light").transport, mailTo("x@example.com"), nil, b.clock.Now()); !take.OK {
		t.Fatalf("%+v", take)
	}
}

// A route that fails is left out, tried again by single mails, and comes back.
func TestBreaker(t *testing.T) {
	backup := named("backup")
	backup.Backup = true
	b := newBed(t, Options{Routes: []Settings{named("main"), backup}})
	for range 20 { // now and then is not often enough, and a recipient's fault never
		b.report("main", "x@example.com", ours)
		b.report("main", "x@example.com", theirs)
	}
	b.wantTaker("main", "x@example.com")
	for range openAfter {
		b.report("main", "x@example.com", untried)
	}
	b.wantTaker("backup", "x@example.com")
	for range 100 { // those that were under way
		b.report("main", "x@example.com", ours)
	}
	if s := b.Routes()[0]; s.Breaker != "open" || s.Opened != 1 {
		t.Fatalf("%+v", s)
	}
	b.clock.Move(openFirst)
	b.wantTaker("main", "x@example.com") // the probe
	b.wantTaker("backup", "x@example.com")
	if s := b.Routes()[0]; s.Breaker != "half-open" {
		t.Fatalf("%+v", s)
	}
	b.report("main", "x@example.com", ours)
	b.clock.Move(openFirst)
	b.wantTaker("backup", "x@example.com") // twice as long
	b.clock.Move(openFirst)
	b.wantTaker("main", "x@example.com")
	b.clock.Move(2 * openFirst) // nothing was heard of it
	b.wantTaker("main", "x@example.com")
	b.report("main", "x@example.com", sent)
	for range 10 {
		b.wantTaker("main", "x@example.com")
	}
	if s := b.Routes()[0]; s.Breaker != "closed" || s.Opened != 2 {
		t.Fatalf("%+v", s)
	}
}

// A relay may take so long to greet that the probe is too late then, and held back. The next
// one goes at once by that connection, and its answer counts. What is held back without a
// connection says nothing.
func TestProbeThatIsHeldBack(t *testing.T) {
	b := newBed(t, Options{Routes: []Settings{named("main")}})
	for range openAfter {
		b.report("main", "x@example.com", untried)
	}
	held := mail.Result{Kind: mail.ResultUntried, Held: errors.New("too late")}
	b.clock.Move(openFirst)
	b.wantTaker("main", "x@example.com")
	b.report("main", "x@example.com", held)
	b.wantTaker("", "x@example.com")
	b.clock.Move(openFirst)
	b.wantTaker("main", "x@example.com")
	held.Connected = true
	b.report("main", "x@example.com", held)
	if s := b.Routes()[0]; s.Breaker == "closed" {
		t.Fatalf("%+v", s)
	}
	b.wantTaker("main", "x@example.com")
	b.report("main", "x@example.com", sent)
	if s := b.Routes()[0]; s.Breaker != "closed" {
		t.Fatalf("%+v", s)
	}
	for range openAfter - 1 { // what is held back between failures does not make them fewer
		b.report("main", "x@example.com", untried)
		b.report("main", "x@example.com", held)
	}
	b.report("main", "x@example.com", untried)
	if s := b.Routes()[0]; s.Breaker == "closed" {
		t.Fatalf("%+v", s)
	}
}

// A probe that is not attempted, being suppressed perhaps, is none: the next one goes at once.
// What was taken before the breaker opened is no probe, and frees none.
func TestProbeThatIsNotAttempted(t *testing.T) {
	s := named("main")
	for _, s.Direct = range []bool{false, true} {
		b := newBed(t, Options{Routes: []Settings{s}})
		main, early := b.routes[0].transport, mailTo("x@example.com")
		early.Number = 7
		if !b.Takes(main, early, nil, b.clock.Now()).OK {
			t.Fatal("nothing goes")
		}
		for range openAfter {
			b.report("main", "x@example.com", untried)
		}
		b.NotAttempted(main, []*mail.Send{early}, b.clock.Now())
		b.wantTaker("", "x@example.com") // it is open
		b.clock.Move(openFirst)
		for range 3 {
			b.wantTaker("main", "x@example.com")
			b.wantTaker("", "x@example.com")
			b.NotAttempted(main, []*mail.Send{early}, b.clock.Now())
			b.wantTaker("", "x@example.com")
			b.NotAttempted(main, []*mail.Send{mailTo("x@example.com")}, b.clock.Now())
		}
		b.report("main", "x@example.com", ours) // of a mail from before, while no probe is out
		b.wantTaker("main", "x@example.com")
		b.report("main", "x@example.com", ours)
		b.NotAttempted(main, []*mail.Send{mailTo("x@example.com")}, b.clock.Now())
		b.clock.Move(2*openFirst - 1)
		b.wantTaker("", "x@example.com")
		b.clock.Move(1)
		b.wantTaker("main", "x@example.com")
		b.report("main", "x@example.com", sent)
		if s := b.Routes()[0]; s.Breaker != "closed" || s.Opened != 2 {
			t.Fatalf("%+v", s)
		}
	}
}

// What a route has turned away goes by one that has not, as long as one is up and
// its breaker closed; then by any.
func TestTurnedAwayMail(t *testing.T) {
	heavy, backup, other := named("heavy"), named("backup"), named("other")
	heavy.Weight, backup.Backup, other.Domains = 1000, true, []string{"other.example"}
	b := newBed(t, Options{Routes: []Settings{heavy, named("light"), backup, other}})
	message := mailTo("x@example.com")
	of := func(names ...string) (passed []mail.Transport) {
		for _, name := range names {
			passed = append(passed, b.byName(name).transport)
		}
		return passed
	}
	want := func(taker string, elsewhere bool, names ...string) {
		t.Helper()
		passed := of(names...)
		if got := b.Elsewhere(message, passed, b.clock.Now()); got != elsewhere {
			t.Errorf("%v have turned it away, and that it goes elsewhere is %v", names, got)
		}
		for range 2 { // all are asked twice: one that has not asked lately counts as busy
			for _, r := range b.routes {
				if take := b.Takes(r.transport, message, passed, b.clock.Now()); take.OK {
					if r.name != taker {
						t.Errorf("%v have turned it away, and %s takes it, want %s", names, r.name, taker)
					}
					return
				} else if take.Lane != "" {
					t.Errorf("%v have turned it away, and %s moves it to %s", names, r.name, take.Lane)
				}
			}
		}
		t.Errorf("%v have turned it away, and nobody takes it, want %s", names, taker)
	}
	want("heavy", false)
	want("light", true, "heavy")
	want("heavy", true, "light")
	want("backup", true, "heavy", "light")
	want("heavy", false, "heavy", "light", "backup") // a new turn
	for range openAfter {
		b.report("light", "x@example.com", untried)
	}
	want("backup", true, "heavy")
	b.clock.Move(openFirst) // half open: what another has refused is no probe
	want("backup", true, "heavy")
	for range openAfter {
		b.report("backup", "x@example.com", untried)
	}
	want("heavy", false, "heavy")
	b.clock.Move(time.Hour)
	b.report("backup", "x@example.com", mail.Result{Kind: mail.ResultDeferred, Blame: mail.BlameRoute, Code: 421, Closed: true})
	if b.Elsewhere(message, of("heavy"), b.clock.Now()) {
		t.Error("it goes to one that is paused")
	}
	asks := mailTo("x@other.example")
	asks.Route = "other"
	if b.Elsewhere(asks, of("other"), b.clock.Now()) {
		t.Error("what asks for a route goes elsewhere")
	}
}

// What is stopped by then, or goes into the mailboxes, goes by no other either.
func TestTurnedAwayAndStopped(t *testing.T) {
	marketing := mailTo("x@example.com")
	marketing.Class = mail.ClassMarketing
	for name, o := range map[string]Options{"on": {Mode: On}, "off": {Mode: Off}, "sink": {Mode: Sink}, "stopped": {Redis: noRedis{map[string]string{"marketing": "ann"}}}} {
		o.Routes = []Settings{named("a"), named("b")}
		b := newBed(t, o)
		if got := b.Elsewhere(marketing, []mail.Transport{b.byName("a").transport}, b.clock.Now()); got != (name == "on") {
			t.Errorf("%s: that it goes elsewhere is %v", name, got)
		}
	}
}

// What counts is a connection, whatever becomes of how many mails.
func TestConnectionsCount(t *testing.T) {
	doubt := mail.Result{Kind: mail.ResultInDoubt, Blame: mail.BlameRoute}
	stopped := mail.Result{Kind: mail.ResultUntried}
	closed := mail.Result{Kind: mail.ResultDeferred, Blame: mail.BlameRoute, Code: 421}
	for name, c := range map[string]struct {
		connections [][]mail.Result
		opens       bool
	}{
		"one is lost with its window":      {[][]mail.Result{window(64, untried)}, false},
		"one is lost, half in doubt":       {[][]mail.Result{slices.Concat(window(2, sent), window(30, doubt), window(32, untried))}, false},
		"every third is lost":              {slices.Repeat([][]mail.Result{window(64, untried), window(64, sent), window(64, sent)}, 30), false},
		"four in a row are":                {slices.Repeat([][]mail.Result{window(64, untried), window(1, doubt), window(9, untried), window(8, doubt), window(1, theirs)}, 9), false},
		"five in a row are":                {slices.Repeat([][]mail.Result{window(64, untried)}, openAfter), true},
		"five are, each after a mail":      {slices.Repeat([][]mail.Result{slices.Concat(window(1, sent), window(63, doubt))}, openAfter), true},
		"nobody answers":                   {slices.Repeat([][]mail.Result{window(1, untried)}, openAfter), true},
		"each mail of one is refused":      {[][]mail.Result{window(64, ours)}, false},
		"each mail of five is":             {slices.Repeat([][]mail.Result{window(64, ours)}, openAfter), true},
		"some mails are, on each":          {slices.Repeat([][]mail.Result{slices.Concat(window(30, ours), window(1, theirs))}, 20), false},
		"we have stopped":                  {slices.Repeat([][]mail.Result{window(64, stopped)}, 20), false},
		"each closes after some mails":     {slices.Repeat([][]mail.Result{slices.Concat(window(9, sent), window(1, closed), window(6, untried))}, 20), false},
		"a connection in thirty, at worst": {slices.Repeat(slices.Concat(slices.Repeat([][]mail.Result{window(64, sent)}, 29), [][]mail.Result{window(64, doubt)}), 10), false},
	} {
		for _, direct := range []bool{false, true} {
			s := named("x")
			s.Direct = direct
			b := newBed(t, Options{Routes: []Settings{s}})
			for _, results := range c.connections {
				b.report("x", "x@example.com", results...)
			}
			if opened := b.Routes()[0].Opened; (opened > 0) != c.opens {
				t.Errorf("direct %v, %s: it opened %d times", direct, name, opened)
			}
		}
	}
}

// While all are down, mail waits.
func TestAllDown(t *testing.T) {
	b := newBed(t, Options{Routes: []Settings{named("a")}})
	paused := ours
	paused.RetryAfter = 10 * time.Minute
	for range openAfter {
		b.report("a", "x@example.com", paused)
	}
	if got, said := b.taker(mailTo("x@example.com")); got != "" || said["a"].Lane != "" || said["a"].Wait != maxWait {
		t.Fatalf("%q %v", got, said)
	}
	b.clock.Move(9 * time.Minute)
	b.wantTaker("", "x@example.com")
	b.clock.Move(time.Minute)
	b.wantTaker("a", "x@example.com")
}

// A direct route pauses the domain alone, and says so: others go on.
func TestDirect(t *testing.T) {
	s := named("mx")
	s.Direct = true
	b := newBed(t, Options{Routes: []Settings{s}})
	for range openAfter {
		b.report("mx", "x@bad.example", ours)
	}
	if got, said := b.taker(mailTo("y@BAD.example")); got != "" || said["mx"].Lane != "bad.example" {
		t.Fatalf("%q %v", got, said)
	}
	b.wantTaker("mx", "x@good.example")
	if s := b.Routes()[0]; s.Paused != 1 || s.Opened != 1 || s.Breaker != "closed" {
		t.Fatalf("%+v", s)
	}
	b.report("mx", "x@busy.example", mail.Result{Kind: mail.ResultDeferred, Code: 421})
	b.wantTaker("", "x@busy.example")
	b.clock.Move(pauseFirst)
	b.wantTaker("mx", "x@busy.example")
}

// A route without a pace whose other side wants fewer pauses, and longer each
// time; one answer of a window counts.
func TestThrottled(t *testing.T) {
	b := newBed(t, Options{Routes: []Settings{named("a")}})
	throttled := mail.Result{Kind: mail.ResultDeferred, Blame: mail.BlameRoute, Throttled: true}
	for _, pause := range []time.Duration{pauseFirst, 2 * pauseFirst} {
		for range 50 {
			b.report("a", "x@example.com", throttled)
		}
		b.wantTaker("", "x@example.com")
		b.clock.Move(pause - 1)
		b.wantTaker("", "x@example.com")
		b.clock.Move(1)
		b.wantTaker("a", "x@example.com")
	}
	throttled.RetryAfter = time.Hour
	b.report("a", "x@example.com", throttled)
	b.clock.Move(time.Hour - 1)
	b.wantTaker("", "x@example.com")
	if s := b.Routes()[0]; s.Breaker != "closed" || s.Throttled != 101 {
		t.Fatalf("%+v", s)
	}
}

func TestSettings(t *testing.T) {
	for want, change := range map[string]func(*Options){
		"sending is \"maybe\"":                func(o *Options) { o.Mode = "maybe" },
		"allow: \"Example.com\" is no domain": func(o *Options) { o.Allow = []string{"Example.com"} },
		"route a: another has that name":      func(o *Options) { o.Routes = append(o.Routes, named("a")) },
		"route sink: another has that name":   func(o *Options) { o.Routes = append(o.Routes, named("sink")) },
		"\"a*b\" is no domain":                func(o *Options) { o.Routes[0].Domains = []string{"a*b"} },
		"weight is -1":                        func(o *Options) { o.Routes[0].Weight = -1 },
		"warmup has no day to begin with":     func(o *Options) { o.Routes[0].Warmup = []int{1} },
		"warmup has 0, want":                  func(o *Options) { o.Routes[0].Warmup, o.Routes[0].WarmupFrom = []int{0}, testNow },
		"paces has \"*.x\"":                   func(o *Options) { o.Routes[0].Paces = map[string]Pace{"*.x": {}} },
		"pace saves up 3, less than the 8 that go": func(o *Options) {
			o.Routes[0].Transport, o.Routes[0].Pace = &carrier{name: "a", window: 8}, Pace{PerSecond: 100, Size: 3}
		},
		"there are 65, the most is 64": func(o *Options) {
			for i := range MaxRoutes {
				o.Routes = append(o.Routes, named(fmt.Sprint(i)))
			}
		},
	} {
		o := Options{Mode: On, Sink: &carrier{name: "sink"}, Routes: []Settings{named("a")}, Clock: clocktest.At(testNow)}
		change(&o)
		if _, err := New(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	for text, want := range map[string]float64{"100/s": 100, "30/m": 0.5, "1/h": 1. / 3600, "86400/d": 1, "0/s": 0, "-1/s": 0, "1": 0, "1/w": 0, "x/s": 0, "2000000/s": 0} {
		if got, err := ParsePace(text); got != want || (err == nil) != (want > 0) {
			t.Errorf("%s is %v, %v", text, got, err)
		}
	}
}

// What is remembered of domains is bounded.
func TestForget(t *testing.T) {
	b := newBed(t, Options{Routes: []Settings{named("a")}})
	for i := range MaxDomains + 10 {
		b.clock.Move(time.Millisecond)
		b.Takes(b.routes[0].transport, mailTo(fmt.Sprintf("x@d%d.example", i)), nil, b.clock.Now())
	}
	if n := len(b.domains); n > MaxDomains || n < MaxDomains/3 || b.domains[fmt.Sprintf("d%d.example", MaxDomains)] == nil {
		t.Fatalf("%d domains", n)
	}
}

func BenchmarkTakes(b *testing.B) {
	var routes []Settings
	for i := range 4 {
		s := named(fmt.Sprint(i))
		s.Direct, s.Except = true, []string{"*.x.example"}
		routes = append(routes, s)
	}
	r, err := New(Options{Mode: On, Sink: &carrier{name: "sink"}, Routes: routes, Redis: noRedis{}, Clock: clocktest.At(testNow)})
	if err != nil {
		b.Fatal(err)
	}
	if err := r.Look(context.Background()); err != nil {
		b.Fatal(err)
	}
	mails := make([]*mail.Send, 1000)
	for i := range mails {
		mails[i] = mailTo(fmt.Sprintf("x@mail%d.example.com", i))
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		i++
		r.Takes(routes[i%4].Transport, mails[i%1000], nil, testNow)
	}
}
