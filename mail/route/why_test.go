package route

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"sluice/mail"
)

// TestWhyOfADirectRoute: a route that speaks to each domain's own servers says
// of each domain why it does not work. It stands for the domain for which that
// is so the longest.
func TestWhyOfADirectRoute(t *testing.T) {
	var log bytes.Buffer
	relay, direct := &carrier{name: "relay"}, &carrier{name: "direct"}
	b := newBed(t, Options{
		Routes: []Settings{{Transport: direct, Direct: true}, {Transport: relay, Domains: []string{"both.example"}}},
		Log:    slog.New(slog.NewTextHandler(&log, nil)),
	})
	report := func(t mail.Transport, domain string, cause mail.Cause) {
		r := mail.Result{Kind: mail.ResultUntried, Blame: mail.BlameRoute, Cause: cause, Text: "it is " + string(cause)}
		if cause == "" {
			r = mail.Result{Kind: mail.ResultSent}
		}
		b.Report(t, mailTo("ann@"+domain), &r, b.clock.Now())
		b.clock.Move(time.Second)
	}
	of := func(to string) string { return fmt.Sprint(b.Why(to, mail.ClassTransactional, "")) }
	report(direct, "a.example", "")
	if s := b.Routes()[0]; s.Why.Cause != "" || of("ann@a.example") != "[]" {
		t.Errorf("%+v", s)
	}
	for _, cause := range []mail.Cause{mail.CauseDNS, mail.CauseRefused, mail.CauseUnreachable, mail.CauseTimeout, mail.CauseCertificate, mail.CauseTLS, mail.CauseLogin, mail.CauseRejected, mail.CauseLost} {
		report(direct, "a.example", cause)
		if s := b.Routes()[0]; s.Why.Cause != cause || s.Why.Text != "a.example: it is "+string(cause) || s.Failing != 1 {
			t.Errorf("%s: %+v", cause, s)
		}
	}
	report(direct, "b.example", mail.CauseRefused)
	report(direct, "b.example", mail.CauseRefused)
	if s := b.Routes()[0]; s.Why.Cause != mail.CauseLost || s.Why.Text != "a.example: it is lost; domains that it does not reach: 2" {
		t.Errorf("%+v", s)
	}
	if got := of("ann@B.example"); !strings.Contains(got, "direct refused since ") || !strings.HasSuffix(got, ": it is refused]") || of("ann@c.example") != "[]" {
		t.Errorf("%s; %s", got, of("ann@c.example"))
	}
	report(direct, "a.example", "")
	if s := b.Routes()[0]; s.Why.Cause != mail.CauseRefused || s.Why.Text != "b.example: it is refused" {
		t.Errorf("%+v", s)
	}
	report(direct, "both.example", mail.CauseDNS)
	report(relay, "both.example", mail.CauseLogin)
	if got := of("ann@both.example"); !strings.HasPrefix(got, "[direct dns since ") || !strings.Contains(got, " relay login since ") {
		t.Error(got)
	}
	if got := fmt.Sprint(b.Why("ann@both.example", mail.ClassTransactional, "relay")); !strings.HasPrefix(got, "[relay login since ") || strings.Contains(got, "direct") {
		t.Errorf("of mail that asks for one: %s", got)
	}
	report(direct, "b.example", "")
	report(direct, "both.example", "")
	if s := b.Routes(); s[0].Why.Cause != "" || s[1].Why.Cause != mail.CauseLogin {
		t.Errorf("%+v", s)
	}
	for _, line := range []string{"route=\"direct to b.example\" cause=refused error=", "route=relay cause=login", "a route works again\" route=\"direct to b.example\" cause=refused"} {
		if n := strings.Count(log.String(), line); n != 1 {
			t.Errorf("%q is %d times in\n%s", line, n, log.String())
		}
	}
}
