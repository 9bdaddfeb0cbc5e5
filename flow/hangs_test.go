package flow

import (
	"context"
	"crypto/tls"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"sluice/test/servers"
)

// attemptWithin is less than an attempt of the library may wait for one server.
const attemptWithin = dialWithin

// hung is an address that takes connections and answers nothing.
func hung(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l.Addr().String()
}

// dialled connects to a URL within a time: for lists, and for a set.
func dialled(t *testing.T, rawURL string, within time.Duration) (list, set error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	r, list := Dial(ctx, rawURL)
	if list == nil {
		defer r.Close()
	}
	again, stop := context.WithTimeout(t.Context(), within)
	defer stop()
	s, set := OpenSet(again, rawURL, "bad")
	if set == nil {
		defer s.Close()
	}
	stop()
	cancel()
	if list == nil { // it outlasts the context, and the time of the attempt
		list = r.Ping(t.Context())
	}
	if set == nil {
		set = s.Ping(t.Context())
	}
	return list, set
}

// startSentinel starts a master, one sentinel of it, and what asks that sentinel to watch
// the server of a port as well.
func startSentinel(t *testing.T) (address string, watch func(name, port string)) {
	t.Helper()
	s, err := servers.StartSentinels(t.Context(), servers.SentinelOptions{Dir: t.TempDir(), Sentinels: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	address = s.Sentinels[0].Addr()
	return address, func(name, port string) {
		client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{address}, ForceSingleClient: true, DisableCache: true})
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		if err := client.Do(t.Context(), client.B().Arbitrary("SENTINEL", "MONITOR", name, "127.0.0.1", port, "1").Build()).Error(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestDialPastASentinelThatHangs: the first sentinel of a URL leaves time for the second.
func TestDialPastASentinelThatHangs(t *testing.T) {
	t.Parallel()
	sentinel, _ := startSentinel(t)
	list, set := dialled(t, "redis-sentinel://"+hung(t)+","+sentinel+"/"+servers.SentinelSet, attemptWithin)
	if list != nil || set != nil {
		t.Errorf("a list: %v; a set: %v", list, set)
	}
}

// TestDialOfTheOtherWayWithADeadline: the attempt leaves time to find that a URL has TLS
// where the server has none, or the other way round. A set says it as a list does.
func TestDialOfTheOtherWayWithADeadline(t *testing.T) {
	t.Parallel()
	plain, port := startSecured(t)
	for rawURL, want := range map[string]string{
		"rediss://" + plain:         "speaks no TLS",
		"redis://127.0.0.1:" + port: "speaks TLS",
	} {
		list, set := dialled(t, rawURL, attemptWithin)
		for what, err := range map[string]error{"list": list, "set": set} {
			if err == nil || !strings.Contains(err.Error(), want) || IsSilent(err) {
				t.Errorf("%s, a %s: %v; it is silent: %v", rawURL, what, err, IsSilent(err))
			}
		}
	}
}

// TestAMasterThatRefuses: what sentinels lead to answers, and waiting does not mend it.
func TestAMasterThatRefuses(t *testing.T) {
	t.Parallel()
	sentinel, watch := startSentinel(t)
	plain, tlsPort := startSecured(t)
	_, port, err := net.SplitHostPort(plain)
	if err != nil {
		t.Fatal(err)
	}
	watch("locked", port)
	watch("secured", tlsPort)
	list, set := dialled(t, "redis-sentinel://:wrong@"+sentinel+"/locked", time.Minute)
	if list == nil || !strings.Contains(list.Error(), "the master of locked") || !strings.Contains(list.Error(), "WRONGPASS") || IsSilent(list) || set == nil || IsSilent(set) {
		t.Errorf("a wrong password: a list: %v; a set: %v", list, set)
	}
	option, err := clientOption("redis-sentinel://" + sentinel + "/secured")
	if err != nil {
		t.Fatal(err)
	}
	for want, config := range map[string]*tls.Config{
		"failed to verify certificate": {MinVersion: tls.VersionTLS12},
		"remote error: tls":            noCertificate(),
	} {
		option.TLSConfig = config // the sentinel has none
		_, err := newClient(t.Context(), option)
		if err = whyNot(t.Context(), option, err); !strings.Contains(err.Error(), "the master of secured") || !strings.Contains(err.Error(), want) || IsSilent(err) {
			t.Errorf("%v, want %q; it is silent: %v", err, want, IsSilent(err))
		}
	}
}

// noCertificate takes any server, and has no certificate for one that wants it. By TLS 1.2
// the server says so before the first command.
func noCertificate() *tls.Config {
	return &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12, MaxVersion: tls.VersionTLS12}
}

// TestAnAlertIsAnAnswer: a server that wants a certificate of its clients is there.
func TestAnAlertIsAnAnswer(t *testing.T) {
	t.Parallel()
	_, port := startSecured(t)
	option, err := clientOption("rediss://127.0.0.1:" + port)
	if err != nil {
		t.Fatal(err)
	}
	option.TLSConfig = noCertificate()
	_, err = newClient(t.Context(), option)
	if err = whyNot(t.Context(), option, err); !strings.Contains(err.Error(), "remote error: tls") || IsSilent(err) {
		t.Errorf("%v; it is silent: %v", err, IsSilent(err))
	}
	for range 30 { // by TLS 1.3 the alert may be lost
		if _, err := Dial(t.Context(), "rediss://127.0.0.1:"+port+"?skip_verify=true"); err == nil || IsSilent(err) {
			t.Fatalf("%v; it is silent: %v", err, IsSilent(err))
		}
	}
}
