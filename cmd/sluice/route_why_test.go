package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"sluice/key"
)

const whyFile = `
partitions: 1
domains: {check: false}
routes:
  private: {smtp: {url: 'smtp://u:%s@%s'%s}, domains: [private.example]}
  closed: {smtp: {url: 'smtp://127.0.0.1:1', plain: true}, domains: [closed.example]}
  nowhere: {smtp: {url: 'smtp://no-such-host.invalid:25', plain: true}, domains: [nowhere.example]}
  stranger: {smtp: {url: 'smtp://u:wrong@%s', ca_file: %s}, domains: [stranger.example]}
sending: on
`

// A route that does not work says why, wherever somebody may look, and once in the
// log; a server of a private authority is trusted where its file is given.
func TestWhyARouteDoesNotWork(t *testing.T) {
	t.Parallel()
	relay, address, certificate := startSMTP(t)
	made := keyFor(t, relay, key.MessagesSend)
	dir := t.TempDir()
	ask := func(s *served) {
		t.Helper()
		for _, domain := range []string{"private", "closed", "nowhere", "stranger"} {
			s.mailed(t, `{"from":"shop@example.com","subject":"s","text":"t","to":"ann@`+domain+`.example"}`)
		}
	}
	configure(t, dir, fmt.Sprintf(whyFile, made, address, "", address, certificate))
	s := serveConfigured(t, dir, "SLUICE_ROOT_KEY="+testRoot)
	ask(s)
	causes := map[string]string{"private": "certificate", "closed": "refused", "nowhere": "dns", "stranger": "login"}
	for route, cause := range causes {
		await(t, "it is said why "+route+" does not work", func() bool {
			status, ready := s.get(t, "/readyz")
			_, metrics := s.get(t, "/metrics")
			_, text := s.ask(t, "GET", "/v1/status", "", "Authorization", "Bearer "+testRoot)
			return status == 200 && strings.Contains(ready, "route "+route+" does not work: "+cause+" since ") &&
				strings.Contains(metrics, fmt.Sprintf("sluice_route_failing{cause=%q,route=%q} 1", cause, route)) && strings.Contains(text, `"cause":"`+cause+`"`)
		})
		if n := strings.Count(s.log.String(), "route="+route+" cause="+cause); n != 1 {
			t.Errorf("the log says %d times why %s does not work:\n%s", n, route, s.log)
		}
	}
	if code := s.stop(t); code != 0 {
		t.Fatalf("it ended with %d", code)
	}

	configure(t, dir, fmt.Sprintf(whyFile, made, address, ", ca_file: "+certificate, address, certificate))
	s = serveConfigured(t, dir, "SLUICE_ROOT_KEY="+testRoot)
	await(t, "the server of the private authority has the mail", func() bool { return relay.metric(t, "sluice_smtp_accepted_recipients_total") == 1 })
	await(t, "nothing is wrong with it any more", func() bool { _, text := s.get(t, "/readyz"); return !strings.Contains(text, "route private") })

	bad := filepath.Join(dir, "bad.pem")
	write(t, bad, "no certificate")
	for file, want := range map[string]string{bad: "has no certificate", filepath.Join(dir, "none.pem"): "no such file"} {
		configure(t, dir, fmt.Sprintf(whyFile, made, address, ", ca_file: "+file, address, certificate))
		if got := sluiceRun(t, dir, "config", "show"); got.code == 0 || !strings.Contains(got.stderr+got.stdout, want) {
			t.Errorf("ca_file %s: %d %s%s", file, got.code, got.stdout, got.stderr)
		}
	}
}
