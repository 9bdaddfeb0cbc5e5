package flow

import (
	"fmt"
	"slices"
	"testing"
)

// What was found about a domain is there for every process; domains that are old
// or too many are forgotten.
func TestSenderDomains(t *testing.T) {
	s := SenderDomains{dial(t)}
	if text, err := s.Found(t.Context(), "a.example"); text != "" || err != nil {
		t.Fatal(text, err)
	}
	for i, name := range []string{"old.example", "a.example", "b.example"} {
		if err := s.Keep(t.Context(), name, "of "+name, int64(1000+i), 1001); err != nil {
			t.Fatal(err)
		}
	}
	if text, err := s.Found(t.Context(), "a.example"); text != "of a.example" || err != nil {
		t.Error(text, err)
	}
	if ttl := do(t, s.Redis, "TTL", senderDomainKey("a.example")); ttl == "-1" {
		t.Error("what was found is kept for ever")
	}
	for want, ask := range map[string][2]int{"[b.example a.example]": {0, 10}, "[b.example]": {1002, 10}, "[]": {1003, 10}} {
		if names, err := s.Names(t.Context(), int64(ask[0]), ask[1]); err != nil || fmt.Sprint(names) != want {
			t.Errorf("%v: %v %v, want %s", ask, names, err, want)
		}
	}
	if names, err := s.Names(t.Context(), 0, 1); err != nil || !slices.Equal(names, []string{"b.example"}) {
		t.Error(names, err)
	}
	args := []string{"ZADD", senderDomainsKey()}
	for i := range maxSenderDomains + 50 {
		args = append(args, fmt.Sprint(2000+i), fmt.Sprintf("d%d.example", i))
	}
	do(t, s.Redis, args...)
	if err := s.Keep(t.Context(), "new.example", "x", 9000, 0); err != nil {
		t.Fatal(err)
	}
	if n := do(t, s.Redis, "ZCARD", senderDomainsKey()); n != fmt.Sprint(maxSenderDomains) {
		t.Errorf("%s domains are kept", n)
	}
}
