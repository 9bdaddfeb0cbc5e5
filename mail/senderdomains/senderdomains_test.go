package senderdomains

import (
	"fmt"
	"slices"
	"testing"

	"github.com/redis/rueidis"

	"sluice/flow"
	"sluice/test/servers"
)

// What was found about a domain is there for every process; domains that are old
// or too many are forgotten.
func TestSenderDomains(t *testing.T) {
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
	s := Domains{redis}
	number := func(words ...string) int64 {
		t.Helper()
		n, err := flow.Ask(t.Context(), redis, words[0], redis.B().Arbitrary(words...).Build(), rueidis.RedisResult.AsInt64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
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
	if number("TTL", flow.SenderDomainKey("a.example")) == -1 {
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
	args := []string{"ZADD", flow.SenderDomainsKey()}
	for i := range maxDomains + 50 {
		args = append(args, fmt.Sprint(2000+i), fmt.Sprintf("d%d.example", i))
	}
	number(args...)
	if err := s.Keep(t.Context(), "new.example", "x", 9000, 0); err != nil {
		t.Fatal(err)
	}
	if n := number("ZCARD", flow.SenderDomainsKey()); n != maxDomains {
		t.Errorf("%d domains are kept", n)
	}
}
