package flow

import (
	"strings"
	"testing"
	"time"

	"sluice/test/proxy"
	"sluice/test/servers"
)

// The machine of the master vanishes without a word, and with it the sentinel that a client
// listens to: the client asks another one, and goes on with the replica that is promoted.
func TestVanishedSentinel(t *testing.T) {
	t.Parallel()
	s, err := servers.StartSentinels(t.Context(), servers.SentinelOptions{Dir: t.TempDir(), Replicas: 1, Sentinels: 3})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	first, err := proxy.New("tcp", s.Sentinels[0].Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = first.Close() })
	r, err := Dial(t.Context(), strings.Replace(s.URL(), s.Sentinels[0].Addr(), first.Addr(), 1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	write := func() error { return r.Do(t.Context(), "write", r.B().Set().Key("a").Value("b").Build()) }
	if err := write(); err != nil || first.Connections() == 0 {
		t.Fatalf("the client has %d connections to the first sentinel: %v", first.Connections(), err)
	}
	if err := first.Vanish(); err != nil {
		t.Fatal(err)
	}
	if err := s.Servers[0].Kill(); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	eventually(t, "the client writes to the new master", func() bool { return write() == nil })
	t.Logf("the client writes to the new master after %s", time.Since(began).Round(10*time.Millisecond))
}

// Connections to servers and to sentinels are bound by how long these may be silent.
func TestBoundedSilence(t *testing.T) {
	t.Parallel()
	option, err := clientOption("redis-sentinel://a:1,b:2/main")
	if err != nil || option.Dialer.Control == nil || option.Sentinel.Dialer.Control == nil {
		t.Errorf("a vanished machine would be waited for as long as the library does: %v", err)
	}
}
