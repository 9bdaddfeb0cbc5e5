package main

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/smtp"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/lib/doctor"
	"sluice/mail/dkim"
	"sluice/test/dkimtest"
	"sluice/test/dnstest"
	"sluice/test/sink"
)

// signing writes a key for a domain beside the configuration of a test, and
// returns what is to be set and published for it.
func signing(t *testing.T, dir, domain string) (setting, line string) {
	t.Helper()
	text := dkimtest.Key(dkimtest.Ed25519)
	k, err := dkim.ParseKey(domain, "s1", text)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, domain+".pem")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	record, err := k.Record()
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("dkim: {%s: {keys: {s1: '%s'}}}\n", domain, file), k.RecordName() + " TXT " + record
}

// goodDomain is what receivers want to see of a domain, but for its key.
func goodDomain(domain string) []string {
	return []string{domain + " MX 10 mx." + domain, "mx." + domain + " A 192.0.2.1", domain + " TXT v=spf1 mx -all", "_dmarc." + domain + " TXT v=DMARC1; p=none; rua=mailto:d@" + domain}
}

// The command says what is wrong and what to publish, to people and to machines,
// and ends with 1 on an error.
func TestDomainCheck(t *testing.T) {
	dir := t.TempDir()
	setting, key := signing(t, dir, "example.com")
	names := dnstest.Start(t, append(goodDomain("example.com"), key, "bad.example MX 0 .")...)
	configure(t, dir, setting+"domains: {resolver: '"+names.Addr()+"'}\nsending: on\nroutes: {r: {smtp: {url: 'smtp://127.0.0.1:1', plain: true}}}\n")
	good := mustRun(t, dir, "domain", "check", "Example.com.").stdout
	if !strings.HasPrefix(good, "Sender domains\n  ok       domain-mx, domain-spf, domain-dkim, domain-dmarc, domain-alignment\n") {
		t.Error(good)
	}
	if all := mustRun(t, dir, "domain", "check", "--all", "example.com").stdout; !strings.Contains(all, "ok       domain-dkim: example.com: the record s1._domainkey.example.com has the key that") {
		t.Error(all)
	}
	bad := sluiceRun(t, dir, "domain", "check", "example.com", "bad.example", "bücher.example")
	if bad.code != exitFailed || !strings.Contains(bad.stdout, "error    domain-mx: bad.example: its MX record says that it takes no mail") ||
		!strings.Contains(bad.stdout, "error    domain-mx: xn--bcher-kva.example: there is no such domain") || !strings.Contains(bad.stdout, "\n           -> ") || !strings.Contains(bad.stderr, "errors found: 2") {
		t.Errorf("%d %s %s", bad.code, bad.stdout, bad.stderr)
	}
	names.Set(t, goodDomain("example.com")...)
	lost := sluiceRun(t, dir, "domain", "check", "--json", "example.com")
	var report doctor.Report
	if err := json.Unmarshal([]byte(lost.stdout), &report); err != nil || lost.code != exitFailed || report.Summary.Errors != 1 {
		t.Fatalf("%d %s: %v", lost.code, lost.stdout, err)
	}
	for _, f := range report.Findings {
		_, record, _ := strings.Cut(key, " TXT ")
		if want := `publish s1._domainkey.example.com. IN TXT "` + record + `"`; f.Check == doctor.CheckDomainDKIM && f.Remedy != want {
			t.Errorf("%+v, want %s", f, want)
		}
	}
	for _, args := range []string{"", "check", "chek example.com", "check example", "check a@example.com", "check exa_mple..com", "check " + strings.Repeat("example.com ", maxDomainsGiven+1)} {
		if r := sluiceRun(t, dir, append([]string{"domain"}, strings.Fields(args)...)...); r.code != exitUsage {
			t.Errorf("domain %.50s: %d %s", args, r.code, r.stderr)
		}
	}
	if r := sluiceRun(t, dir, "domain", "check", "example.com", "--domains-resolver", "dns.example"); r.code != exitFailed || !strings.Contains(r.stderr, "want IP or IP:PORT") {
		t.Errorf("%d %s", r.code, r.stderr)
	}
}

// domainsFile is a program whose mail leaves, to a receiver.
const domainsFile = `
partitions: 2
start_seconds: 30
event_time: {past_days: 30, future_minutes: 60}
sending: 'on'
routes: {relay: {smtp: {url: 'smtp://%s', plain: true}}}
domains: {resolver: '%s', require: %t}
%s`

// sentFrom counts the mails from a domain that a receiver has taken.
func sentFrom(receiver *sink.Sink, domain string) (n int) {
	for _, m := range receiver.Mails() {
		if strings.HasSuffix(m.From, "@"+domain) {
			n++
		}
	}
	return n
}

// refusedFrom hands in a mail from a bad domain until it is refused, and returns how many
// were accepted before. On a busy machine DNS may answer too late, which is no reason to
// refuse mail. But no mail is accepted before that time is over.
func (s *served) refusedFrom(t *testing.T, domain, message string) (accepted int) {
	t.Helper()
	const unanswered = 4 * time.Second // how long two questions to DNS wait
	await(t, "mail from "+domain+" is refused", func() bool {
		began := time.Now()
		status, text := s.ask(t, http.MethodPost, "/v1/messages", message)
		switch {
		case status == http.StatusAccepted && time.Since(began) >= unanswered:
			accepted++
			s.ask(t, http.MethodGet, "/v1/domains/"+domain, "") // looks again
			return false
		case status != http.StatusBadRequest || !strings.Contains(text, "mail from "+domain+" is not accepted") || !strings.Contains(text, "domain-mx"):
			t.Fatalf("%s: %d %s", domain, status, text)
		}
		return true
	})
	return accepted
}

// A domain is looked at when mail of it is met for the first time: the log, the
// metrics, doctor and the API tell what is wrong, and no mail waits for DNS.
func TestSenderDomainsAreLookedAt(t *testing.T) {
	t.Parallel()
	dir, receiver := t.TempDir(), startReceiver(t)
	setting, key := signing(t, dir, "good.example")
	names := dnstest.Start(t, append(goodDomain("good.example"), key, "mute.example MUTE")...)
	write := func(require bool) {
		t.Helper()
		configure(t, dir, fmt.Sprintf(domainsFile, receiver.Addr(), names.Addr(), require, setting))
	}
	write(false)
	s := serveConfigured(t, dir, "SLUICE_ROOT_KEY="+testRoot)
	message := func(domain string) string {
		return `{"from":"shop@` + domain + `","to":"ann@example.com","subject":"s","text":"t"}`
	}
	for range 3 {
		for _, domain := range []string{"good.example", "Bad.example", "mute.example"} {
			s.mailed(t, message(domain))
		}
	}
	named := func() {
		t.Helper()
		if status, text := s.ask(t, http.MethodPost, "/v1/messages", message("bad.example"), "Idempotency-Key", "one"); status != http.StatusAccepted || !strings.Contains(text, `"accepted":1`) {
			t.Errorf("%d %s", status, text)
		}
	}
	named()
	await(t, "all mail arrives, whatever is wrong with its domain", func() bool { return receiver.Received() == 10 })
	await(t, "the log tells what is wrong", func() bool {
		return strings.Contains(s.log.String(), "domain=bad.example check=domain-mx severity=error found=\"there is no such domain\"")
	})
	line := `sluice_sender_domain_findings{domain="%s",severity="error"}`
	await(t, "the metrics tell it", func() bool {
		return s.sample(t, fmt.Sprintf(line, "bad.example")) >= 1 && s.sample(t, fmt.Sprintf(line, "good.example")) == 0
	})
	if strings.Contains(s.log.String(), "domain=good.example") {
		t.Errorf("the good one is told of:\n%s", s.log)
	}
	if n := names.Asked("s1._domainkey.good.example"); n != 1 && n != 2 { // a late answer is asked for again
		t.Errorf("a domain of which 3 mails were met was asked for its key %d times", n)
	}
	await(t, "DNS says in time that the good one is good", func() bool {
		var answer struct {
			Domain, Checked string
			doctor.Report
		}
		status, text := s.ask(t, http.MethodGet, "/v1/domains/GOOD.example", "")
		if err := json.Unmarshal([]byte(text), &answer); err != nil || status != http.StatusOK || answer.Domain != "good.example" || answer.Checked == "" {
			t.Fatalf("%d %s: %v", status, text, err)
		}
		return answer.Summary == doctor.Summary{OK: 5}
	})
	awaitDoctor(t, dir, "doctor tells of both", func(r result) bool {
		return r.code == exitFailed && strings.Contains(r.stdout, `{"check":"domain-mx","severity":"error","where":"bad.example","found":"there is no such domain"`) && strings.Contains(r.stdout, `{"check":"domain-dkim","severity":"ok","where":"good.example"`)
	}, "--json", "--listen", strings.TrimPrefix(s.url, "http://"))
	if code := s.stop(t); code != exitOK {
		t.Fatalf("exit code %d", code)
	}

	// Where a good domain is required, mail of a bad one is not accepted, from the
	// first one on.
	write(true)
	names.Set(t, append(goodDomain("good.example"), key, "new.example MX 0 .")...)
	s = serveConfigured(t, dir, "SLUICE_ROOT_KEY="+testRoot)
	for _, domain := range []string{"bad.example", "new.example"} {
		s.refusedFrom(t, domain, message(domain))
	}
	named() // it was accepted, and stays so
	s.mailed(t, message("good.example"))
	await(t, "mail of the good one arrives", func() bool { return sentFrom(receiver, "good.example") == 4 })
}

// A good domain is required of each mail for itself, of all whom it says it is
// from, and whichever way it comes in.
func TestSenderDomainsAreRequired(t *testing.T) {
	t.Parallel()
	dir, receiver := t.TempDir(), startReceiver(t)
	setting, key := signing(t, dir, "good.example")
	names := dnstest.Start(t, append(goodDomain("good.example"), key)...)
	configure(t, dir, fmt.Sprintf(domainsFile, receiver.Addr(), names.Addr(), true, setting)+"smtpd: {listen: '127.0.0.1:0', require_auth: false}\n")
	s := serveConfigured(t, dir, "SLUICE_ROOT_KEY="+testRoot)
	const ann, refused = `"to":"ann@example.com"`, "mail from bad.example is not accepted"
	good, bad := `{"from":"shop@good.example",`+ann+`,"text":"t"}`, `{"from":"shop@bad.example",`+ann+`,"text":"t"}`
	accepted := s.refusedFrom(t, "bad.example", bad)
	s.sent(t, http.StatusCreated, "/v1/templates", `{"id":"bad","subject":"s","text":"t","from":"Shop <shop@bad.example>"}`)
	s.sent(t, http.StatusCreated, "/v1/templates", `{"id":"any","subject":"s","text":"t","from":"Shop <shop@{{ domain }}>"}`)
	raw := func(from string) string {
		return `{"from":"shop@good.example",` + ann + `,"raw":"` + base64.StdEncoding.EncodeToString([]byte("From: "+from+"\r\n\r\nt\r\n")) + `"}`
	}
	templated := func(id, domain string) string {
		return `{"from":"shop@good.example",` + ann + `,"template":{"id":"` + id + `","variables":{"domain":"` + domain + `"}}}`
	}
	text := s.sent(t, http.StatusAccepted, "/v1/messages", "["+strings.Join([]string{
		good, bad, raw("Shop <shop@good.example>"), raw("shop@good.example, Bad <shop@bad.example>"), templated("bad", ""), templated("any", "good.example"), good,
	}, ",")+"]")
	var outcome struct {
		Accepted int
		Refused  []struct {
			Index   int
			Message string
		}
		Messages []struct{ Index int }
	}
	if err := json.Unmarshal([]byte(text), &outcome); err != nil || outcome.Accepted != 4 || fmt.Sprint(outcome.Messages) != "[{0} {2} {5} {6}]" || len(outcome.Refused) != 3 {
		t.Fatalf("%s: %v", text, err)
	}
	for i, r := range outcome.Refused {
		if r.Index != []int{1, 3, 4}[i] || !strings.Contains(r.Message, refused) {
			t.Errorf("%+v", r)
		}
	}
	await(t, "what was accepted arrives", func() bool { return sentFrom(receiver, "good.example") == 4 })

	// By SMTP, where the header says more than the envelope.
	_, after, _ := strings.Cut(s.log.String(), "smtp=")
	address, _, _ := strings.Cut(after, " ")
	for from, wrong := range map[string]string{
		"shop@good.example": "", "shop@good.example,\r\n Bad <shop@bad.example>": refused, "nobody": "cannot be read",
	} {
		err := smtp.SendMail(address, nil, "shop@good.example", []string{"ann@example.com"}, []byte("From: "+from+"\r\n\r\nt\r\n"))
		if (err == nil) != (wrong == "") || wrong != "" && (!strings.HasPrefix(err.Error(), "550 ") || !strings.Contains(err.Error(), wrong)) {
			t.Errorf("From: %s: %v", from, err)
		}
	}
	// Scheduled, and what is made for each recipient: that waits, and says why.
	if status, text := s.ask(t, http.MethodPost, "/messages/schedule/create", `{"external_user_ids":["ann"],"schedule":{"time":"`+time.Now().Add(time.Hour).UTC().Format(time.RFC3339)+`"},
		"messages":{"email":{"app_id":"shop","from":"shop@bad.example","subject":"s","body":"b"}}}`); status != http.StatusBadRequest || !strings.Contains(text, refused) {
		t.Errorf("%d %s", status, text)
	}
	s.sent(t, http.StatusAccepted, "/v1/messages", templated("any", "bad.example"))
	await(t, "it waits, and says why", func() bool {
		return len(s.texts(t, "SELECT message FROM sends WHERE state = 'waiting' AND attempts = 0 AND reply LIKE '%"+refused+"%'")) == 1
	})
	if n, others := sentFrom(receiver, "good.example"), sentFrom(receiver, "bad.example"); n != 5 || others > accepted {
		t.Errorf("%d mails arrived, want 5, and %d from the bad domain", n, others)
	}
	if r := sluiceRun(t, dir, "template", "test", "bad", "--to", "ann@example.com", "--from", "shop@good.example"); r.code == exitOK || !strings.Contains(r.stderr, refused) {
		t.Errorf("%d %s %s", r.code, r.stdout, r.stderr)
	}
}
