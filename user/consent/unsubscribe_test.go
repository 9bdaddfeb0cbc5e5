package consent

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"sluice"
	"sluice/lib/token"
	"sluice/mail"
	"sluice/user"
)

var aSend = mail.Send{Message: strings.Repeat("a", sluice.MessageIDBytes), Number: 7, To: "Ann@Example.com", User: "u-7", AcceptedMillis: 1_700_000_000_000}

// tokenOf returns the token of a send's link.
func tokenOf(t *testing.T, s *Service, send mail.Send) string {
	t.Helper()
	link, err := s.UnsubscribeURL(&send, "")
	if err != nil {
		t.Fatal(err)
	}
	text, ok := strings.CutPrefix(link, "https://m.example.com/unsubscribe?t=")
	if !ok {
		t.Fatalf("the link is %s", link)
	}
	return text
}

// A link says whose it is for years, each attempt of a mail has the same, and
// none is good for something else.
func TestUnsubscribeLinks(t *testing.T) {
	s, clock := service(t, Form{Name: "f", Hours: 1, EmailSubscribe: true})
	text := tokenOf(t, s, aSend)
	again := aSend
	again.Attempts, again.DueMillis = 3, 1_700_000_900_000
	if tokenOf(t, s, again) != text {
		t.Error("another attempt has another link")
	}
	clock.Move(10*365*24*time.Hour - time.Second)
	u, err := s.OpenUnsubscribe(text)
	if err != nil || u.Email != "ann@example.com" || u.send != aSend.ID() || u.user != "u-7" {
		t.Fatalf("%+v, %v", u, err)
	}
	clock.Move(time.Second)
	if _, err := s.OpenUnsubscribe(text); !errors.Is(err, token.ErrExpired) {
		t.Errorf("ten years later: %v", err)
	}
	if _, err := s.Open(text); !errors.Is(err, token.ErrInvalid) {
		t.Errorf("as a confirmation: %v", err)
	}
	link, err := s.Ask(t.Context(), &notes{}, &Request{Form: s.Form("f"), Email: "a@example.com"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.OpenUnsubscribe(link.URL[strings.Index(link.URL, "?t=")+3:]); !errors.Is(err, token.ErrInvalid) {
		t.Errorf("a confirmation as this: %v", err)
	}
	without := New(nil, "", nil, clock)
	if link, err := without.UnsubscribeURL(&aSend, ""); link != "" || err != nil {
		t.Errorf("without a public URL: %s, %v", link, err)
	}
	if _, err := without.OpenUnsubscribe(text); !errors.Is(err, token.ErrInvalid) {
		t.Errorf("without a public URL: %v", err)
	}
}

// What an older secret has signed stays good while it is the previous one.
func TestUnsubscribeAfterRotation(t *testing.T) {
	s, clock := service(t)
	text := tokenOf(t, s, aSend)
	before, now := bytes.Repeat([]byte("k"), token.MinSecretBytes), bytes.Repeat([]byte("n"), token.MinSecretBytes)
	for name, x := range map[string]struct {
		secrets [][]byte
		err     error
	}{"rotated": {[][]byte{now, before}, nil}, "forgotten": {[][]byte{now}, token.ErrInvalid}} {
		keys, err := token.NewKeys(x.secrets...)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := New(nil, "https://m.example.com", keys, clock).OpenUnsubscribe(text); !errors.Is(err, x.err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The longest of everything still makes a link that fits into a header.
func TestLargestUnsubscribeLink(t *testing.T) {
	s, _ := service(t)
	send := aSend
	send.To = strings.Repeat("a", 64) + "@" + strings.Repeat(strings.Repeat("b", 60)+".", 3) + "de"
	send.User, send.Number = strings.Repeat("u", sluice.MaxReferenceBytes), sluice.MaxRecipients
	if text := tokenOf(t, s, send); len(text) > 800 {
		t.Errorf("%d characters", len(text))
	}
}

// Each address that can be mailed can unsubscribe, however odd it is.
func TestUnsubscribeOddAddresses(t *testing.T) {
	s, _ := service(t)
	for to, want := range map[string]string{`"A b"@example.com`: `"a b"@example.com`, "Root@localhost": "root@localhost", `"a@b"@example.com`: `"a@b"@example.com`} {
		send := aSend
		send.To = to
		u, err := s.OpenUnsubscribe(tokenOf(t, s, send))
		if err != nil || u.Email != want {
			t.Errorf("%s: %+v, %v", to, u, err)
		}
	}
}

// The first press is an event. A repeat writes all of it again but the row,
// known from memory or by its name: an opt-in may stand in the log between.
func TestUnsubscribeWrites(t *testing.T) {
	s, clock := service(t)
	left := false
	s.Unsubscribed = func(address string) bool { return address == "ann@example.com" && left }
	u, err := s.OpenUnsubscribe(tokenOf(t, s, aSend))
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for i, x := range []struct {
		left   bool
		origin sluice.Origin
		ttl    time.Duration
	}{{false, sluice.OriginOwn, unsubscribeOnce}, {false, sluice.OriginOwnRepeat, 0}, {true, sluice.OriginOwnRepeat, 0}} {
		w := &notes{known: known}
		left = x.left
		if err := s.Unsubscribe(t.Context(), w, u); err != nil {
			t.Fatal(err)
		}
		known = w.known
		if len(w.events) != 1 || len(w.updates) != 1 || w.ttl != x.ttl {
			t.Fatalf("%d: %+v", i, w)
		}
		if up := w.updates[0]; up.Op != user.OpSubscribe || up.Key != (user.Key{Kind: user.KeyEmail, Name: "ann@example.com"}) || up.Body != "unsubscribed" || up.TimeMillis != clock.Now().UnixMilli() {
			t.Errorf("%d: %+v", i, up)
		}
		if e := w.events[0]; e.Origin != x.origin || e.Kind != sluice.KindMail || e.Name != sluice.EventUnsubscribed || e.Email != "ann@example.com" || e.User != "u-7" || e.App != "" || e.Message != aSend.Message || !strings.Contains(e.Properties, aSend.ID()) {
			t.Errorf("%d: %+v", i, e)
		}
	}
}
