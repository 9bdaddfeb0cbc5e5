package engine_test

import (
	"net"
	"path/filepath"
	"strings"
	"testing"

	"sluice/config"
	"sluice/test/servers"
)

// TestAStartPastSentinelsThatHang: two sentinels of three take connections and answer
// nothing. The list and the set of their master are there from the start.
func TestAStartPastSentinelsThatHang(t *testing.T) {
	s, err := servers.StartSentinels(t.Context(), servers.SentinelOptions{Dir: filepath.Join(t.TempDir(), "sentinel"), Sentinels: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	hosts := []string{s.Sentinels[0].Addr()}
	for range 2 {
		hangs, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = hangs.Close() })
		hosts = append([]string{hangs.Addr().String()}, hosts...)
	}
	url := config.URL("redis-sentinel://" + strings.Join(hosts, ",") + "/" + servers.SentinelSet)
	pushEvents(t, s.URL(), "there", "there", 3)
	redisDo(t, s.URL(), "SADD", "bad", "bad.example")
	e := start(t, func(c *config.Config) {
		c.Lists = append(c.Lists, config.List{Name: "there", Take: config.TakeLeft, Redis: url})
		c.SuppressionSets = []config.SuppressionSet{{Name: "bad", Redis: url, Reason: "bad_domain"}}
	})
	if log := e.log.String(); strings.Contains(log, "the program starts without") {
		t.Errorf("the start has said:\n%s", log)
	}
	await(t, "the list and the set are taken in", func() bool { return countedByName(t, e.Engine)["there"] == 3 && e.Stats().Suppressed == 1 })
	e.whole(t)
}
