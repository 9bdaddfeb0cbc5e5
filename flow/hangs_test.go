package flow

import (
	"context"
	"crypto/tls"
	"net"
	"strings"
	"testing"
	"time"

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

// startSentinel starts a master and one sentinel of it, and returns the sentinel's address.
func startSentinel(t *testing.T) string {
	t.Helper()
	s, err := servers.StartSentinels(t.Context(), servers.SentinelOptions{Dir: t.TempDir(), Sentinels: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s.Sentinels[0].Addr()
}

// TestDialPastASentinelThatHangs: the first sentinel of a URL leaves time for the second.
func TestDialPastASentinelThatHangs(t *testing.T) {
	t.Parallel()
	sentinel := startSentinel(t)
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
