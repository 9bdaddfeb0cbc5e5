package spool_test

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	verify "github.com/emersion/go-msgauth/dkim"

	"sluice"
	"sluice/mail"
	"sluice/mail/dkim"
	"sluice/mail/spool"
	"sluice/mail/template"
	"sluice/test/dkimtest"
)

// signersOf makes a key for each domain, and returns the first key and all
// signers.
func signersOf(t *testing.T, domains ...string) (first *dkim.Key, ring *dkim.Ring) {
	t.Helper()
	ring = &dkim.Ring{}
	for _, domain := range domains {
		key, err := dkim.ParseKey(domain, "s1", dkimtest.Key(dkimtest.Ed25519))
		if err != nil {
			t.Fatal(err)
		}
		signer, err := dkim.NewSigner(key)
		if err == nil {
			err = ring.Add(signer)
		}
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = key
		}
	}
	return first, ring
}

// signedBy returns the domains of the signatures of a mail, all of which have to
// hold, in their order.
func signedBy(t *testing.T, message []byte, ring *dkim.Ring) string {
	t.Helper()
	all, err := verify.VerifyWithOptions(bytes.NewReader(message), &verify.VerifyOptions{LookupTXT: func(name string) ([]string, error) {
		_, domain, _ := strings.Cut(name, "._domainkey.")
		if s := ring.For(domain); s != nil {
			record, err := s.Keys()[0].Record()
			return []string{record}, err
		}
		return nil, errors.New("no such key")
	}})
	if err != nil {
		t.Fatal(err)
	}
	var domains []string
	for _, v := range all {
		if v.Err != nil {
			t.Errorf("signature of %s: %v", v.Domain, v.Err)
		}
		domains = append(domains, v.Domain)
	}
	return strings.Join(domains, " ")
}

// TestSignedForTheHeaderFrom: a mail is signed for the domain that readers see
// it is from, whatever sender its envelope has. The key is the nearest one of
// that organisation, and both domains are looked at.
func TestSignedForTheHeaderFrom(t *testing.T) {
	_, ring := signersOf(t, "example.com", "b.example", "mail.example.com", "xn--bcher-kva.example", "provider.example", "github.io")
	for _, x := range []struct{ name, envelope, from, want, met string }{
		{"its own", "shop@example.com", "shop@example.com", "example.com", "example.com"},
		{"null sender", "", "Shop <shop@example.com>", "example.com", "example.com"},
		{"bounce sender", "bounce+1=ann@provider.example", "shop@example.com", "example.com", "example.com provider.example"},
		{"a sender without keys", "b@bounces.other.example", "shop@example.com", "example.com", "bounces.other.example example.com"},
		{"foreign From", "shop@example.com", "ann@other.example", "", "example.com other.example"},
		{"subdomain", "", "news@a.news.example.com", "example.com", "a.news.example.com"},
		{"nearest key", "", "news@x.mail.example.com", "mail.example.com", "x.mail.example.com"},
		{"another organisation", "", "ann@ann.github.io", "", "ann.github.io"},
		{"capitals", "", "Shop <shop@EXAMPLE.Com>", "example.com", "example.com"},
		{"IDN", "", "=?utf-8?q?B=C3=BCcher?= <a@xn--bcher-kva.example>", "xn--bcher-kva.example", "xn--bcher-kva.example"},
		{"IDN in UTF-8", "", "Bücher <a@bücher.example>", "xn--bcher-kva.example", "xn--bcher-kva.example"},
		{"IDN below", "", "a@neu.bücher.example", "xn--bcher-kva.example", "neu.xn--bcher-kva.example"},
		{"several authors", "", "Ann <a@example.com>, \"Smith, Bob\" <b@b.example>", "b.example example.com", "b.example example.com"},
		{"authors of one domain", "", "a@example.com,\r\n b@example.com, c@news.example.com", "example.com", "example.com news.example.com"},
		{"one author without keys", "", "a@other.example, b@b.example", "b.example", "b.example other.example"},
		{"many authors", "", "a@1.example, a@2.example, a@3.example, a@b.example, a@example.com", "b.example", "1.example 2.example 3.example b.example"},
		{"group", "", "Team: Ann <a@example.com>, b@b.example;", "b.example example.com", "b.example example.com"},
		{"empty group", "shop@example.com", "Nobody:;", "example.com", "example.com"},
		{"empty group, null sender", "", "Nobody:;", "", ""},
		{"an @ in a name", "", "\"x@b.example\" <a@example.com>", "example.com", "example.com"},
		{"an @ in quotes", `"a@b.example"@example.com`, `"a@b.example"@Example.COM`, "example.com", "example.com"},
		{"more in quotes", "", `"@b.example\"@b.example"@example.com`, "example.com", "example.com"},
		{"unreadable", "shop@example.com", "Shop & Co, Inc. <shop@b.example", "example.com", "example.com"},
	} {
		met := make(map[string]bool)
		m := &spool.Mailer{Signers: ring, Clock: sluice.SystemClock{}, Meet: func(domain string) {
			if domain != "" {
				met[domain] = true
			}
		}}
		mails := []spool.Mail{{
			Send:    &mail.Send{Message: strings.Repeat("a", sluice.MessageIDBytes), Form: mail.ContentMIME, From: x.envelope, To: "ann@example.net"},
			Content: []byte("Subject: s\r\nFrom: " + x.from + "\r\n\r\nFrom: x@provider.example\r\n"), Took: new([mail.Stages]time.Duration),
		}}
		m.Make(t.Context(), mails)
		if mails[0].Err != nil {
			t.Fatalf("%s: %v", x.name, mails[0].Err)
		}
		words := strings.Fields(signedBy(t, mails[0].Envelope.Content, ring))
		slices.Sort(words)
		if got := strings.Join(words, " "); got != x.want {
			t.Errorf("%s: signed by %q, want %q", x.name, got, x.want)
		}
		if got := strings.Join(slices.Sorted(maps.Keys(met)), " "); got != x.met {
			t.Errorf("%s: met %q, want %q", x.name, got, x.met)
		}
	}
}

// A template that makes its own From is signed for that.
func TestTemplatesAreSignedForTheirFrom(t *testing.T) {
	_, ring := signersOf(t, "example.com", "b.example")
	for _, refused := range []bool{false, true} {
		m := &spool.Mailer{Users: noUsers{}, Templates: template.NewCache(fromTemplate{}, 0), Clock: sluice.SystemClock{}, Signers: ring}
		if refused { // also where domains are asked about
			m.Refused = noneRefused
		}
		var mails []spool.Mail
		for _, domain := range []string{"B.example", "news.b.example", "example.com", "other.example"} {
			mails = append(mails, spool.Mail{
				Send:    &mail.Send{Message: strings.Repeat("a", sluice.MessageIDBytes), Form: mail.ContentTemplate, From: "shop@example.com", To: "ann@example.com"},
				Content: []byte(`{"template":"hello","version":1,"variables":{"domain":"` + domain + `"}}`), Took: new([mail.Stages]time.Duration),
			})
		}
		m.Make(t.Context(), mails)
		for i, want := range []string{"b.example", "b.example", "example.com", ""} {
			if mails[i].Err != nil {
				t.Fatal(mails[i].Err)
			}
			if got := signedBy(t, mails[i].Envelope.Content, ring); got != want {
				t.Errorf("mail %d is signed by %q, want %q", i, got, want)
			}
		}
	}
}

func noneRefused(context.Context, []string) map[string]*sluice.Error { return nil }
