package main

import (
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"sluice/lib/key"
)

const whyFile = `
partitions: 1
domains: {check: false}
routes:
  private: {smtp: {url: 'smtp://u:%s@%s'%s}, domains: [private.example]}
  closed: {smtp: {url: 'smtp://127.0.0.1:1', plain: true}, domains: [closed.example]}
  nowhere: {smtp: {url: 'smtp://no-such-host.invalid:25', plain: true}, domains: [nowhere.example]}
  stranger: {smtp: {url: 'smtp://u:wrong@%s', ca_file: %s}, domains: [stranger.example]}
  https: {http: {url: '%s', body: '{"to": "{{to}}"}'%s}, domains: [https.example]}
  amazon: {ses: {region: eu-west-1, access_key: a, secret_key: s, endpoint: '%s'%s}, domains: [amazon.example]}
  unpaid: {http: {url: '%s/401', body: '{"to": "{{to}}"}', ca_file: %s}, domains: [unpaid.example]}
  mute: {http: {url: 'http://%s', body: '{"to": "{{to}}"}', timeout_seconds: 1}, domains: [mute.example]}
  greets: {smtp: {url: 'smtp://%s', plain: true}, domains: [greets.example]}
sending: on
`

// startProvider answers requests by HTTPS with the status that their path names,
// 200 else, with a certificate of its own authority.
func startProvider(t *testing.T, certificate string) *httptest.Server {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(certificate, filepath.Join(filepath.Dir(certificate), "key.pem"))
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status, err := strconv.Atoi(strings.Trim(r.URL.Path, "/"))
		if err != nil {
			status = http.StatusOK
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, `{"MessageId":"1"}`)
	}))
	s.TLS = &tls.Config{Certificates: []tls.Certificate{pair}}
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

// startGreeter accepts connections and says one thing on each, nothing if that is
// empty.
func startGreeter(t *testing.T, line string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	t.Cleanup(func() { _ = l.Close(); all.Wait() })
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { _ = c.Close() })
			if line != "" {
				_, _ = io.WriteString(c, line+"\r\n")
				_ = c.Close()
			}
		}
	})
	return l.Addr().String()
}

// A route that does not work says why, wherever somebody may look, and once in the
// log; a server of a private authority is trusted where its file is given.
func TestWhyARouteDoesNotWork(t *testing.T) {
	t.Parallel()
	relay, address, certificate := startSMTP(t)
	made := keyFor(t, relay, key.MessagesSend)
	dir := t.TempDir()
	provider, mute, greeter := startProvider(t, certificate), startGreeter(t, ""), startGreeter(t, "450 4.3.2 come back later")
	file := func(ca string) string {
		if ca != "" {
			ca = ", ca_file: " + ca
		}
		return fmt.Sprintf(whyFile, made, address, ca, address, certificate, provider.URL, ca, provider.URL, ca, provider.URL, certificate, mute, greeter)
	}
	ask := func(s *served) {
		t.Helper()
		for _, domain := range []string{"private", "closed", "nowhere", "stranger", "https", "amazon", "unpaid", "mute", "greets"} {
			s.mailed(t, `{"from":"shop@example.com","subject":"s","text":"t","to":"ann@`+domain+`.example"}`)
		}
	}
	configure(t, dir, file(""))
	s := serveConfigured(t, dir, "SLUICE_ROOT_KEY="+testRoot)
	ask(s)
	causes := map[string]string{"private": "certificate", "closed": "refused", "nowhere": "dns", "stranger": "login", "https": "certificate", "amazon": "certificate", "unpaid": "login", "mute": "timeout", "greets": "rejected"}
	for route, cause := range causes {
		await(t, "it is said why "+route+" does not work", func() bool {
			status, ready := s.get(t, "/readyz")
			_, metrics := s.get(t, "/metrics")
			_, text := s.ask(t, "GET", "/v1/status", "", "Authorization", "Bearer "+testRoot)
			return status == 200 && strings.Contains(ready, "route "+route+" does not work: "+cause+" since ") &&
				strings.Contains(metrics, fmt.Sprintf("sluice_route_failing{cause=%q,route=%q} 1", cause, route)) && strings.Contains(text, `"cause":"`+cause+`"`)
		})
		await(t, "the life of a mail that waits for "+route+" says so", func() bool {
			ids := s.texts(t, "SELECT message FROM sends WHERE to_address = 'ann@"+route+".example'")
			if len(ids) != 1 {
				return false
			}
			if route == "mute" {
				return true // it took the mail and said nothing: that is in doubt, and does not wait
			}
			_, life := s.ask(t, "GET", "/v1/messages/"+ids[0], "")
			return strings.Contains(life, `"waits_for":["`+route+" "+cause+" since ")
		})
		if n := strings.Count(s.log.String(), "route="+route+" cause="+cause); n != 1 {
			t.Errorf("the log says %d times why %s does not work:\n%s", n, route, s.log)
		}
	}
	if code := s.stop(t); code != 0 {
		t.Fatalf("it ended with %d", code)
	}

	configure(t, dir, file(certificate))
	s = serveConfigured(t, dir, "SLUICE_ROOT_KEY="+testRoot)
	await(t, "the server of the private authority has the mail", func() bool { return relay.metric(t, "sluice_smtp_accepted_recipients_total") == 1 })
	var text, status string
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("it was found last:\n%s\n%s", text, status)
		}
	})
	await(t, "nothing is wrong with any of them any more", func() bool {
		_, text = s.get(t, "/readyz")
		_, status = s.ask(t, "GET", "/v1/status", "", "Authorization", "Bearer "+testRoot)
		for _, name := range []string{"private", "https", "amazon"} {
			if strings.Contains(text, "route "+name) || !strings.Contains(status, `"route":"`+name+`","breaker":"closed","paused_domains":0,"mails":1`) {
				return false
			}
		}
		return true
	})

	bad := filepath.Join(dir, "bad.pem")
	write(t, bad, "no certificate")
	for ca, want := range map[string]string{bad: "has no certificate", filepath.Join(dir, "none.pem"): "no such file"} {
		configure(t, dir, file(ca))
		if got := sluiceRun(t, dir, "config", "show"); got.code == 0 || strings.Count(got.stderr+got.stdout, want) != 3 {
			t.Errorf("ca_file %s: %d %s%s", ca, got.code, got.stdout, got.stderr)
		}
	}
}
