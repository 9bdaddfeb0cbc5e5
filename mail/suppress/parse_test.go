package suppress

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"sluice/mail"
	"sluice/ops/transfer"
	"sluice/test/clocktest"
)

// `*.` and a domain is a dot and a domain, wherever an entry is read: it holds for
// the domain and for all below it.
func TestStarMeansAllBelow(t *testing.T) {
	reader := Reader{Preset: mail.Suppression{Reason: mail.SuppressManual, TimeMillis: 1}}
	for _, text := range []string{"*.bad.example", ".bad.example", " *.BAD.example ", "@*.bad.example", "@.bad.example", ".bad.example."} {
		if got, ok := ParseEntry(text); !ok || got != ".bad.example" {
			t.Errorf("ParseEntry(%q) = %q, %v", text, got, ok)
		}
		for _, line := range []string{text, text + ",manual", `{"entry":"` + text + `"}`} {
			if got, err := reader.ParseLine(line); err != nil || got[0].Entry != ".bad.example" {
				t.Errorf("a line %q is %v, %v", line, got, err)
			}
		}
		if got, ok := (&SetFollower{}).entry(text); !ok || got != ".bad.example" {
			t.Errorf("a member %q is %q, %v", text, got, ok)
		}
	}
	l := held(t, clocktest.At(now), "*.bad.example manual")
	for address, want := range map[string]bool{"a@bad.example": true, "a@b.bad.example": true, "a@notbad.example": false, "a@example": false} {
		if _, got := l.Check(address, mail.ClassTransactional, ""); got != want {
			t.Errorf("%s is suppressed: %v, want %v", address, got, want)
		}
	}
	for _, text := range []string{"*", "*.", ".", "**.x.example", "*x.example", "a@*.x.example", "x.*", "*..x.example", ".*.x.example"} {
		if got, ok := ParseEntry(text); ok || got != "" {
			t.Errorf("ParseEntry(%q) = %q, %v, want none", text, got, ok)
		}
	}
}

// All of a top-level domain is taken only from who says force, whichever way it is
// written.
func TestTopLevelDomainsAreRefused(t *testing.T) {
	preset := mail.Suppression{Reason: mail.SuppressManual, TimeMillis: 1}
	for text, wide := range map[string]bool{
		".com": true, "*.com": true, "com": true, ".CO.UK": true, "co.uk": true, "@.com": true, ".test": true, "email": true, ".xn--p1ai": true, ".рф": true,
		".example.com": false, "example.co.uk": false, ".github.io": false, "a@com": false, "root@localhost": false,
	} {
		for _, force := range []bool{false, true} {
			r := Reader{Preset: preset, Force: force}
			_, inObject := r.Parse(fmt.Sprintf(`{"entry":%q}`, text))
			_, inLine := r.ParseLine(text)
			if want := wide && !force; (inObject != nil) != want || (inLine != nil) != want {
				t.Errorf("%q, force %v: %v, %v", text, force, inObject, inLine)
			}
		}
	}
}

// A line of a file may be one of a list of ours. An object of the API has none of what only
// such a list says.
func TestLinesOfOurOwnLists(t *testing.T) {
	r := Reader{Preset: mail.Suppression{Reason: mail.SuppressManual, Source: "cli", TimeMillis: 7}}
	const line = `{"entry":"a@example.com","reason":"complaint","scope":"all","source":"api:1","time":"2026-01-31T12:00:00Z"%s}`
	for more, want := range map[string]string{"": "", `,"removed":false`: "", `,"removed":true`: "removed from the list", `,"ends":5`: "want a text"} {
		s, err := r.ParseLine(fmt.Sprintf(line, more))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", more, err, want)
		}
		if err == nil && (len(s) != 1 || s[0].Source != "cli" || s[0].TimeMillis != 7 || s[0].Reason != mail.SuppressComplaint) {
			t.Errorf("%s: %+v", more, s)
		}
		if _, err := r.Parse(fmt.Sprintf(line, more)); err == nil {
			t.Errorf("%s: the API takes it", more)
		}
	}
}

// An unsubscription is about marketing, unless somebody says otherwise.
func TestUnsubscribeIsAboutMarketing(t *testing.T) {
	all := mail.Suppression{Reason: mail.SuppressManual, TimeMillis: 1}
	out := mail.Suppression{Reason: mail.SuppressUnsubscribe, TimeMillis: 1}
	for _, c := range []struct {
		reader Reader
		line   string
		want   mail.Scope
	}{
		{Reader{Preset: all}, "a@example.com", mail.ScopeAll},
		{Reader{Preset: all}, "a@example.com,unsubscribe", mail.ScopeMarketing},
		{Reader{Preset: all}, "a@example.com,complaint", mail.ScopeAll},
		{Reader{Preset: all}, `{"entry":"a@example.com","reason":"unsubscribe"}`, mail.ScopeMarketing},
		{Reader{Preset: all}, `{"entry":"a@example.com","reason":"unsubscribe","scope":"all"}`, mail.ScopeAll},
		{Reader{Preset: out}, "a@example.com", mail.ScopeMarketing},
		{Reader{Preset: out}, "a@example.com,hard_bounce", mail.ScopeAll},
		{Reader{Preset: out, Scoped: true}, "a@example.com", mail.ScopeAll},
	} {
		if got, err := c.reader.ParseLine(c.line); err != nil || got[0].Scope != c.want {
			t.Errorf("%q: %s, %v, want %s", c.line, got[0].Scope, err, c.want)
		}
	}
}

// Files of others are read by the names of their columns. In a line stands
// "entry reason scope", or "-" for one that is none.
func TestExportsOfOthers(t *testing.T) {
	for name, c := range map[string]struct{ file, want string }{
		"SendGrid, bounces":      {"email,created,reason,status\nAnn@example.com,1700000000,\"550 5.1.1 no, \"\"nobody\"\"\nhere\",5.1.1\nbob@example.com,1,x,\n", "ann@example.com manual all, bob@example.com manual all"},
		"SendGrid, other order":  {"status,reason,email,created\n5.1.1,550 no,ann@example.com,1\n", "ann@example.com manual all"},
		"Mailgun, bounces":       {"address,code,error,created_at\nann@example.com,550,\"No such mailbox\",\"Fri, 21 Oct 2011 11:02:55 UTC\"\n", "ann@example.com manual all"},
		"Postmark":               {"\uFEFFEmailAddress,SuppressionReason,Origin,CreatedAt\r\nann@example.com,HardBounce,Recipient,2019-12-10T08:58:33-05:00\r\nbob@example.com,SpamComplaint,Recipient,\r\ncy@example.com,ManualSuppression,Recipient,\r\n", "ann@example.com hard_bounce all, bob@example.com complaint all, cy@example.com unsubscribe marketing"},
		"SES, with a header":     {"EmailAddress,Reason\nann@example.com,BOUNCE\nbob@example.com,COMPLAINT\n", "ann@example.com hard_bounce all, bob@example.com complaint all"},
		"SES, without":           {"ann@example.com,BOUNCE\nbob@example.com,COMPLAINT\n", "ann@example.com hard_bounce all, bob@example.com complaint all"},
		"Mailchimp, opted out":   {"Email Address,First Name,Address,UNSUB_TIME\nann@example.com,Ann,\"1 Street, Town\",2026-01-01 00:00:00\n", "ann@example.com unsubscribe marketing"},
		"Mailchimp, cleaned":     {"\"Email Address\",\"First Name\",\"CLEAN_TIME\"\n\"ann@example.com\",\"\",\"2026-01-01\"\n", "ann@example.com hard_bounce all"},
		"Braze, of all users":    {"external_id,email,unsubscribed_at\n1,ann@example.com,2026-01-01\n2,bob@example.com,\n", "ann@example.com unsubscribe marketing, -"},
		"both":                   {"email,unsubscribed_at,hard_bounced_at\nann@example.com,2026-01-01,2026-01-02\n", "ann@example.com unsubscribe marketing, ann@example.com hard_bounce all"},
		"a word and a time":      {"email,reason,unsubscribed_at\nann@example.com,complaint,2026-01-01\nbob@example.com,complaint,\n", "ann@example.com complaint all, ann@example.com unsubscribe marketing, bob@example.com complaint all"},
		"semicolons":             {"Name;E-Mail;Reason\nAnn;ann@example.com;unsubscribed\n", "ann@example.com unsubscribe marketing"},
		"our own":                {"entry,reason,scope,app_id,ends\n*.bad.example,bad_domain,marketing,shop,2999-01-01T00:00:00Z\nann@example.com,,,,\n", ".bad.example bad_domain marketing, ann@example.com manual all"},
		"one column":             {"email\nann@example.com\nnonsense @\n", "ann@example.com manual all, -"},
		"no header":              {"ann@example.com,complaint\n\"bob@example.com\"\nmail\n", "ann@example.com complaint all, bob@example.com manual all, -"},
		"no header that's known": {"mail,since\nann@example.com,manual\n", "-, ann@example.com manual all"},
		"objects":                {"{\"entry\":\"ann@example.com\"}\nemail\n", "ann@example.com manual all, -"},
		"nothing":                {"", ""},
		"asked for":              {"email,unsubscribed_at\nann@example.com,2026-01-01\nbob@example.com,\n", "ann@example.com manual all, bob@example.com manual all"},
	} {
		r := Reader{Preset: mail.Suppression{Reason: mail.SuppressManual, TimeMillis: 1}, Reasoned: name == "asked for"}
		lines, err := transfer.NewLineReader(strings.NewReader(c.file), transfer.LineOptions{Header: r.Header})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var got []string
		for {
			line, err := lines.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			some, err := r.ParseLine(line.Text)
			if line.Refused != nil || err != nil {
				got = append(got, "-")
				continue
			}
			for _, one := range some {
				got = append(got, fmt.Sprint(one.Entry, " ", one.Reason, " ", one.Scope))
			}
		}
		lines.Close()
		if got := strings.Join(got, ", "); got != c.want {
			t.Errorf("%s: %s\nwant %s", name, got, c.want)
		}
	}
}
