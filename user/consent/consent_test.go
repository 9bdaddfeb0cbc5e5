package consent

import (
	"bytes"
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"sluice"
	"sluice/lib/token"
	"sluice/test/clocktest"
	"sluice/user"
	"sluice/user/profile"
)

// notes keeps what is written.
type notes struct {
	events  []sluice.Event
	updates []user.Update
	ttl     time.Duration
	known   map[string]bool // names
}

func (n *notes) Record(_ context.Context, _ user.Key, events []sluice.Event, updates []user.Update, name string, ttl time.Duration) (bool, error) {
	if n.known[name] {
		return false, nil
	}
	if name != "" {
		n.known = map[string]bool{name: true}
	}
	n.events, n.updates, n.ttl = append(n.events, events...), append(n.updates, updates...), ttl
	return true, nil
}

func service(t *testing.T, forms ...Form) (*Service, *clocktest.Clock) {
	t.Helper()
	keys, err := token.NewKeys(bytes.Repeat([]byte("k"), token.MinSecretBytes))
	if err != nil {
		t.Fatal(err)
	}
	clock := clocktest.At(time.Unix(1_700_000_000, 0))
	return New(forms, "https://m.example.com", keys, clock), clock
}

// A link is good to its last second, and remembered beyond it.
func TestExpiry(t *testing.T) {
	s, clock := service(t, Form{Name: "f", Hours: 72, EmailSubscribe: true})
	w := &notes{}
	link, err := s.Ask(t.Context(), w, &Request{Form: s.Form("f"), Email: "a@example.com", IP: netip.MustParseAddr("192.0.2.1")})
	if err != nil || !link.Expires.Equal(clock.Now().Add(72*time.Hour)) {
		t.Fatalf("%+v %v", link, err)
	}
	_, text, _ := strings.Cut(link.URL, "?t=")
	clock.Move(72*time.Hour - time.Second)
	o, err := s.Open(text)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Confirm(t.Context(), w, o, netip.Addr{}); err != nil || w.ttl != time.Second+keptMore {
		t.Errorf("remembered for %s, %v", w.ttl, err)
	}
	clock.Move(time.Second)
	if _, err := s.Open(text); !errors.Is(err, token.ErrExpired) {
		t.Errorf("a second later: %v", err)
	}
}

// The largest request that is taken makes a link that is not too long, and
// events that can be stored.
func TestLargest(t *testing.T) {
	name := strings.Repeat("f", MaxFormNameBytes)
	s, _ := service(t, Form{Name: name, Hours: MaxHours, EmailSubscribe: true})
	w := &notes{}
	long := strings.Repeat("x", 57) + "."
	email := strings.Repeat("a", 64) + "@" + strings.Repeat(long, 3) + "example.commm"
	attributes := `{"plan":"` + strings.Repeat("y", MaxAttributeBytes-len(`{"plan":""}`)) + `"}`
	if address, ok := profile.NormalEmail(email); !ok {
		t.Fatalf("%s is no address", address)
	}
	link, err := s.Ask(t.Context(), w, &Request{Form: s.Form(name), Email: email, Attributes: attributes, IP: netip.MustParseAddr("2001:db8:1111:2222:3333:4444:5555:6666")})
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(link.URL, "?t=")
	o, err := s.Open(text)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Confirm(t.Context(), w, o, netip.Addr{}); err != nil {
		t.Fatal(err)
	}
	if id := w.events[1].ID; len(id) > sluice.MaxEventIDBytes || w.updates[0].Key.Name != email {
		t.Errorf("%+v %+v", w.events, w.updates)
	}
	if got := w.updates[0].Body; got != attributes[:len(attributes)-1]+`,"email_subscribe":"opted_in"}` {
		t.Errorf("attributes %s", got)
	}
	larger := attributes[:len(attributes)-2] + `y"}`
	var e *sluice.Error
	if _, err := s.Ask(t.Context(), w, &Request{Form: s.Form(name), Email: email, Attributes: larger}); !errors.As(err, &e) || e.Code != sluice.CodeTooLarge {
		t.Errorf("one byte more: %v", err)
	}
}

// away is a writer without its Redis.
type away struct{ err error }

func (w away) Record(context.Context, user.Key, []sluice.Event, []user.Update, string, time.Duration) (bool, error) {
	return false, w.err
}

// A request that was not written does not count: its sender is told to ask again, and whose
// address it is would get no mail.
func TestAskAgainBehindAFailure(t *testing.T) {
	s, _ := service(t, Form{Name: "f", Hours: 72, PerAddressPerHour: 2, PerSenderPerHour: 3, EmailSubscribe: true})
	r := &Request{Form: s.Form("f"), Email: "a@example.com", IP: netip.MustParseAddr("192.0.2.1")}
	failed := errors.New("redis is away")
	for range 2 {
		if _, err := s.Ask(t.Context(), away{failed}, r); !errors.Is(err, failed) {
			t.Fatalf("want the writer's error, got %v", err)
		}
	}
	w := &notes{}
	if _, err := s.Ask(t.Context(), w, r); err != nil || len(w.events) != 1 {
		t.Errorf("it is back: %v, %d events", err, len(w.events))
	}
	// What failed may have been written: no more is forgiven than an address has links.
	if _, err := s.Ask(t.Context(), away{failed}, r); !errors.Is(err, failed) {
		t.Fatalf("want the writer's error, got %v", err)
	}
	if often, ok := errors.AsType[*TooOftenError](func() error { _, err := s.Ask(t.Context(), w, r); return err }()); !ok || often.Sender {
		t.Errorf("once more: %v, want too often for the address", often)
	}
}
