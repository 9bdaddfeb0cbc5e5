package route

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"sluice/mail"
)

// reportFrom is report of one sender's mails.
func (b *bed) reportFrom(name, from, to string, results ...mail.Result) {
	b.t.Helper()
	sends := make([]*mail.Send, len(results))
	for i := range results {
		sends[i] = mailTo(to)
		sends[i].From = from
		b.Report(b.byName(name).transport, sends[i], &results[i], b.clock.Now())
	}
	b.Ended(b.byName(name).transport, sends, results, b.clock.Now())
}

// A sender that the other side does not know stops no route, as long as mail of another
// one is taken. What is refused to that one too is refused to us.
func TestASenderThatIsRefusedStopsNoRoute(t *testing.T) {
	forbidden := mail.Result{Kind: mail.ResultDeferred, Blame: mail.BlameRoute, Cause: mail.CauseLogin, Code: 403, OfSender: true}
	refused := mail.Result{Kind: mail.ResultDeferred, Blame: mail.BlameRoute, Cause: mail.CauseRejected, Code: 550, Enhanced: "5.7.1", OfSender: true}
	failing := mail.Result{Kind: mail.ResultDeferred, Blame: mail.BlameRoute, Cause: mail.CauseRejected, Code: 502}
	revoked := mail.Result{Kind: mail.ResultDeferred, Blame: mail.BlameRoute, Cause: mail.CauseLogin, Code: 401}
	type step struct {
		from   string
		result mail.Result
		times  int
		later  time.Duration
	}
	const known, other = "a@known.example", "a@other.example"
	for name, c := range map[string]struct {
		steps []step
		opens bool
	}{
		"a sender is forbidden":      {[]step{{known, sent, 1, 0}, {other, forbidden, 1000, 0}}, false},
		"a sender is refused":        {[]step{{known, sent, 1, 0}, {other, refused, 1000, 0}}, false},
		"the only sender is":         {[]step{{other, sent, 1, 0}, {other, forbidden, openAfter, 0}}, true},
		"nothing was taken yet":      {[]step{{other, forbidden, openAfter, 0}}, true},
		"nor lately":                 {[]step{{known, sent, 1, senderFor}, {other, forbidden, openAfter, 0}}, true},
		"all are forbidden":          {[]step{{known, sent, 1, 0}, {other, forbidden, 9, 0}, {known, forbidden, 1, 0}, {other, forbidden, openAfter - 1, 0}}, true},
		"it fails":                   {[]step{{known, sent, 1, 0}, {other, failing, openAfter, 0}}, true},
		"its key is revoked":         {[]step{{known, sent, 1, 0}, {other, revoked, openAfter, 0}}, true},
		"nothing reaches it":         {[]step{{known, sent, 1, 0}, {other, untried, openAfter, 0}}, true},
		"only addresses are refused": {[]step{{"b@KNOWN.example", sent, 1, 0}, {known, forbidden, openAfter, 0}}, true},
	} {
		for _, direct := range []bool{false, true} {
			s := named("x")
			s.Direct = direct
			b := newBed(t, Options{Routes: []Settings{s}})
			for _, st := range c.steps {
				for range st.times {
					b.reportFrom("x", st.from, "x@example.com", st.result)
				}
				b.clock.Move(st.later)
			}
			if opened := b.Routes()[0].Opened; (opened > 0) != c.opens {
				t.Errorf("direct %v, %s: it opened %d times", direct, name, opened)
			}
		}
	}
}

// Such mail is no probe of a route: the next one goes at once.
func TestProbeOfASenderThatIsRefused(t *testing.T) {
	b := newBed(t, Options{Routes: []Settings{named("x")}})
	b.reportFrom("x", "a@known.example", "x@example.com", sent)
	for range openAfter {
		b.report("x", "x@example.com", untried)
	}
	b.clock.Move(openFirst)
	for range 3 {
		b.wantTaker("x", "x@example.com")
		b.reportFrom("x", "a@other.example", "x@example.com", mail.Result{Kind: mail.ResultDeferred, Blame: mail.BlameRoute, Code: 403, OfSender: true})
	}
	b.wantTaker("x", "x@example.com")
	b.reportFrom("x", "a@known.example", "x@example.com", sent)
	if s := b.Routes()[0]; s.Breaker != "closed" || s.Opened != 1 {
		t.Errorf("%+v", s)
	}
}

// The log tells of it, but not of each mail; the route works.
func TestSendersThatAreRefusedAreTold(t *testing.T) {
	for name, refusal := range map[string]mail.Result{
		"as a login": {Kind: mail.ResultDeferred, Blame: mail.BlameRoute, Cause: mail.CauseLogin, Code: 403, OfSender: true, Text: "who is that"},
	} {
		var log bytes.Buffer
		b := newBed(t, Options{Routes: []Settings{named("x")}, Log: slog.New(slog.NewTextHandler(&log, nil))})
		for range 20 {
			b.reportFrom("x", "a@known.example", "x@example.com", sent)
			b.reportFrom("x", "a@other.example", "x@example.com", refusal)
			if why := b.Routes()[0].Why; why.Cause != "" {
				t.Errorf("%s: the route does not work: %s", name, why)
			}
			b.clock.Move(senderFor / 10)
		}
		if n := strings.Count(log.String(), "who is that"); n != 2 || strings.Count(log.String(), "\n") != 2 {
			t.Errorf("%s: it is told %d times:\n%s", name, n, log.String())
		}
	}
}
