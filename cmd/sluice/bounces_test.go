package main

import (
	"bufio"
	"context"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice/config"
	"sluice/engine"
	"sluice/ingest"
	"sluice/mail"
	"sluice/test/proxy"
	"sluice/test/servers"
	"sluice/test/sink"
)

// returning is a program whose mail comes back to it.
type returning struct {
	*engine.Engine
	dir   string
	redis *proxy.Proxy
	back  *proxy.Proxy // before its listener: its address is known before it listens
}

// openReturning opens one whose mail goes to a mail server.
func openReturning(t *testing.T, relay func(back string) config.URL, settings ...func(*config.Config)) *returning {
	t.Helper()
	redis, err := servers.StartRedis(t.Context(), servers.RedisOptions{Dir: filepath.Join(t.TempDir(), "redis"), AppendFsync: "everysec"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = redis.Stop(context.Background()) })
	r := &returning{dir: t.TempDir()}
	if r.redis, err = proxy.New("unix", strings.TrimPrefix(redis.URL(), "unix://")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.redis.Close() })
	if r.back, err = proxy.New("tcp", "127.0.0.1:1"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.back.Close() })
	cfg := config.Default()
	cfg.Data, cfg.Partitions, cfg.Redis = r.dir, 4, config.URL("redis://"+r.redis.Addr())
	cfg.Database = config.URL("sqlite:" + filepath.Join(cfg.Data, "sluice.db"))
	cfg.Sending, cfg.Domains.Check = "on", false
	cfg.Bounces = config.Bounces{Listen: "127.0.0.1:0", Feedback: "fbl-secret"}
	cfg.Routes = []config.Route{{Name: "relay", Weight: 1, BounceDomain: "bounces.example.test", SMTP: config.SMTPRoute{URL: relay(r.back.Addr()), Plain: true}}}
	for _, set := range settings {
		set(cfg)
	}
	r.Engine = openEngine(t, cfg)
	r.back.Redirect("tcp", r.BouncesAddress())
	return r
}

// hand hands a mail in, and returns its id.
func (r *returning) hand(t *testing.T, to string) string {
	t.Helper()
	ids, err := r.Services().Submitter.Submit(t.Context(), "", []mail.Draft{{
		Priority: mail.PriorityNormal, Class: mail.ClassMarketing, Form: mail.ContentMIME, From: "news@example.test", To: []string{to}, Tags: []string{"autumn"}, App: "shop",
		Content: []byte("From: news@example.test\r\nTo: " + to + "\r\nSubject: hello\r\nMessage-ID: <one@example.test>\r\n\r\nhi\r\n"),
	}})
	if err != nil {
		t.Fatal(err)
	}
	return ids[0]
}

// events are the events of a name, a line each.
func (r *returning) events(t *testing.T, name string) (lines []string) {
	t.Helper()
	for line := range strings.Lines(mustRun(t, filepath.Dir(r.dir), "export", "events", "--data", r.dir, "--name", name).stdout) {
		lines = append(lines, line)
	}
	return lines
}

// suppressed is why an address gets no mail of a class, empty: it does.
func (r *returning) suppressed(t *testing.T, address string, class mail.Class) string {
	t.Helper()
	hit, is := r.Services().Suppressions.List.Check(address, class, "shop")
	if !is {
		return ""
	}
	return hit.Reason.String()
}

// TestPostfixReturnsMail: a mail that a real server cannot deliver comes back to its
// return path. It is an event, a line of the ledger, a count of the series, and a
// suppression. While Redis is away the server keeps it, and then it counts once.
func TestPostfixReturnsMail(t *testing.T) {
	t.Parallel()
	var r *returning
	cut := make(chan struct{})
	var once sync.Once
	next, _ := aRelay(t, func(at sink.At) sink.Act {
		if at.Step != sink.OnRcpt {
			return sink.Act{}
		}
		once.Do(func() { close(cut) })
		return sink.Act{Reply: "550 5.1.1 there is no nobody here"}
	})
	r = openReturning(t, func(back string) config.URL {
		dir := filepath.Join(t.TempDir(), "postfix")
		t.Cleanup(func() {
			if said, err := os.ReadFile(filepath.Join(dir, "postfix.log")); t.Failed() && err == nil {
				t.Logf("Postfix said:\n%s", said)
			}
		})
		p, err := servers.StartPostfix(t.Context(), servers.PostfixOptions{Dir: dir, Next: next.Addr(), Settings: []string{
			"transport_maps = inline:{ { bounces.example.test = smtp:[127.0.0.1]:" + back[strings.LastIndexByte(back, ':')+1:] + " } }",
			// Sooner than after 3 s the queue manager may find a mail that its agent has not let go
			// of: "still being delivered". It looks at that one again after minutes.
			"minimal_backoff_time = 3s", "maximal_backoff_time = 3s", "queue_run_delay = 1s", "transport_retry_time = 1s",
		}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = p.Stop(context.Background()) })
		return config.URL("smtp://" + p.Addr())
	})
	message := r.hand(t, "Nobody@example.test")
	<-cut // Postfix is told that there is no such mailbox, and Redis goes away
	r.redis.Refuse(true)
	r.redis.Cut()
	await(t, "the server is told to come again", func() bool { return r.Stats().Returned.SMTP.Refused["unavailable"] > 0 })
	r.redis.Refuse(false)

	await(t, "the bounce is an event", func() bool { return len(r.events(t, "bounced")) > 0 })
	line := r.events(t, "bounced")[0]
	for _, want := range []string{"Nobody@example.test", message, `"bounce_class":"hard"`, `"status":"5.1.1"`, `"tags":["autumn"]`, `"app_id":"shop"`, "no nobody here"} {
		if !strings.Contains(strings.ReplaceAll(line, `\"`, `"`), want) {
			t.Errorf("the event has no %s: %s", want, line)
		}
	}
	await(t, "the ledger tells of it", func() bool {
		rows, err := r.Services().Sends.MessageSends(t.Context(), message)
		return err == nil && len(rows) == 1 && rows[0].State == mail.SendSent && rows[0].Tells("bounced hard") && strings.Contains(rows[0].Reply, "5.1.1")
	})
	await(t, "the address is suppressed", func() bool { return r.suppressed(t, "nobody@example.test", mail.ClassTransactional) == "hard_bounce" })
	await(t, "the server has nothing more", func() bool { return r.Stats().Returned.Results["bounced"] == 1 })
	if n := len(r.events(t, "bounced")); n != 1 {
		t.Errorf("there are %d bounces, want 1", n)
	}
	if n := r.Stats().Names["bounced"]; n != 1 {
		t.Errorf("the series count %d bounces, want 1", n)
	}
}

// reply reads a line.
func reply(t *testing.T, r *bufio.Reader) string {
	t.Helper()
	line, err := r.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return line
}

// bring hands in a mail to an address as a mail server does, and returns the reply that
// decides.
func (r *returning) bring(t *testing.T, from, to, content string) string {
	t.Helper()
	c, err := net.Dial("tcp", r.BouncesAddress())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(c)
	answer := reply(t, in)
	for _, line := range []string{"HELO mx.example.test", "MAIL FROM:<" + from + ">", "RCPT TO:<" + to + ">", "DATA", strings.ReplaceAll(content, "\n", "\r\n") + "\r\n."} {
		if _, err := fmt.Fprintf(c, "%s\r\n", line); err != nil {
			t.Fatal(err)
		}
		if answer = reply(t, in); answer[0] >= '4' {
			return answer
		}
	}
	return answer
}

// dsn is a bounce (RFC 3464) of an address.
func dsn(to, status string) string {
	return `From: mailer-daemon@mx.example.test
To: sender
Subject: Undelivered
Content-Type: multipart/report; report-type=delivery-status; boundary=B
MIME-Version: 1.0

--B
Content-Type: text/plain

It did not work.
--B
Content-Type: message/delivery-status

Reporting-MTA: dns; mx.example.test

Final-Recipient: rfc822; ` + to + `
Action: failed
Status: ` + status + `
Diagnostic-Code: smtp; 550 ` + status + ` no
--B--`
}

// complaint is a report of a feedback loop (RFC 5965) about a mail with a return path.
func complaint(about, returnPath, messageID string) string {
	return `From: fbl@provider.example
To: fbl
Subject: complaint
Content-Type: multipart/report; report-type=feedback-report; boundary=B
MIME-Version: 1.0

--B
Content-Type: text/plain

A complaint.
--B
Content-Type: message/feedback-report

Feedback-Type: abuse
User-Agent: Provider/1.0
Version: 1
` + about + `
--B
Content-Type: message/rfc822

Return-Path: <` + returnPath + `>
Message-ID: <` + messageID + `>
Subject: hello

hi
--B--`
}

// paths hands mails in, and returns the return paths and ids of their sends.
func (r *returning) paths(t *testing.T, s *sink.Sink, to ...string) (paths, ids map[string]string) {
	t.Helper()
	paths, ids = make(map[string]string), make(map[string]string)
	for _, address := range to {
		ids[address] = r.hand(t, address)
	}
	await(t, "all mails are sent", func() bool { return len(s.Mails()) == len(to) })
	for _, m := range s.Mails() {
		paths[m.To[0]] = m.From
	}
	for address, id := range ids {
		await(t, "the ledger has the end of the mail to "+address, func() bool {
			rows, err := r.Services().Sends.MessageSends(t.Context(), id)
			return err == nil && len(rows) == 1 && rows[0].State == mail.SendSent
		})
	}
	return paths, ids
}

// TestReturnPaths: what comes back to a return path is about its own mail alone, in
// whatever case and however often it comes; what is not for one is refused.
func TestReturnPaths(t *testing.T) {
	t.Parallel()
	next, err := sink.Start(sink.Options{Keep: 100})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = next.Close() })
	r := openReturning(t, func(string) config.URL { return config.URL("smtp://" + next.Addr()) })
	to := []string{"hard@example.net", "soft@example.net", "block@example.net", "away@example.net", "odd@example.net", "big@example.net", "forwarded@example.net", "angry@example.net", "cross@example.net", "header@example.net", "delayed@example.net"}
	paths, ids := r.paths(t, next, to...)
	proof := ""
	for _, m := range next.Mails() {
		if _, rest, ok := strings.Cut(string(m.Content), "CFBL-Feedback-ID: "); ok && m.To[0] == "header@example.net" {
			proof, _, _ = strings.Cut(rest, "\r\n")
		}
	}
	local, _, _ := strings.Cut(paths["hard@example.net"], "@")
	for _, path := range paths {
		if p, domain, _ := strings.Cut(path, "@"); len(p) > 64 || domain != "bounces.example.test" {
			t.Errorf("a return path is %s", path)
		}
	}
	answer := "From: a@example.net\nSubject: Away\nAuto-Submitted: auto-replied\n\nI am away."
	for _, x := range []struct{ from, to, content, reply string }{
		{"", strings.ToUpper(paths["hard@example.net"]), dsn("hard@example.net", "5.1.1"), "250"},
		{"", paths["hard@example.net"], dsn("hard@example.net", "5.1.1"), "250"}, // again
		{"", paths["soft@example.net"], dsn("soft@example.net", "5.1.4"), "250"},
		{"", paths["block@example.net"], dsn("block@example.net", "5.7.1"), "250"},
		{"", paths["delayed@example.net"], strings.Replace(dsn("delayed@example.net", "4.4.1"), "failed", "delayed", 1), "250"},
		{"away@example.net", paths["away@example.net"], answer, "250"},
		{"", paths["odd@example.net"], "Subject: Ihre Nachricht\n\nkonnte nicht zugestellt werden", "250"},
		{"", paths["big@example.net"], dsn("big@example.net", "5.1.1") + "\n" + strings.Repeat(strings.Repeat("x", 900)+"\n", 3000), "250"},
		{"", paths["forwarded@example.net"], dsn("victim@example.org", "5.1.1"), "250"}, // names an address that was never mailed
		{"", "z" + local[1:] + "@bounces.example.test", dsn("a@example.net", "5.1.1"), "550"},
		{"", local + "@example.test", dsn("a@example.net", "5.1.1"), "550"},
		{"", "postmaster@bounces.example.test", dsn("a@example.net", "5.1.1"), "550"},
		{"", "fbl-secret@bounces.example.test", complaint("Original-Mail-From: "+paths["angry@example.net"], "x@example.org", "one@example.test"), "250"},
		{"", "fbl-secret@bounces.example.test", complaint("Source-IP: 192.0.2.1", "", ids["cross@example.net"]+".0@example.test"), "250"},
		{"", "fbl-secret@bounces.example.test", complaint("CFBL-Feedback-ID: "+proof, "", "one@example.test"), "250"},
		{"", "fbl-secret@bounces.example.test", "Subject: buy\n\nthis", "250"},
	} {
		if got := r.bring(t, x.from, x.to, x.content); !strings.HasPrefix(got, x.reply) || strings.Contains(got, local) {
			t.Errorf("a mail to %s is answered %q, want %s", x.to, got, x.reply)
		}
	}
	for _, x := range []struct{ name, address, class, marketing, transactional string }{
		{"bounced", "hard@example.net", "hard", "hard_bounce", "hard_bounce"}, {"bounced", "soft@example.net", "soft", "", ""}, {"bounced", "block@example.net", "block", "", ""},
		{"bounced", "big@example.net", "hard", "hard_bounce", "hard_bounce"}, {"bounced", "forwarded@example.net", "hard", "hard_bounce", "hard_bounce"},
		{"autoresponded", "away@example.net", "", "", ""}, {"unknown", "odd@example.net", "", "", ""}, {"deferred", "delayed@example.net", "other", "", ""},
		{"complained", "angry@example.net", "", "complaint", "complaint"}, {"complained", "header@example.net", "", "complaint", "complaint"},
		{"unknown", "cross@example.net", "", "", ""}, // a Message-ID proves nothing
	} {
		var found []string
		await(t, x.address+" is "+x.name, func() bool {
			found = nil
			for _, line := range r.events(t, x.name) {
				if strings.Contains(line, `"`+x.address+`"`) {
					found = append(found, line)
				}
			}
			return len(found) > 0
		})
		if len(found) != 1 || x.class != "" && !strings.Contains(strings.ReplaceAll(found[0], `\`, ""), `"bounce_class":"`+x.class+`"`) {
			t.Errorf("%s: %q", x.address, found)
		}
		await(t, x.address+" is suppressed as it should be", func() bool {
			return r.suppressed(t, x.address, mail.ClassMarketing) == x.marketing && r.suppressed(t, x.address, mail.ClassTransactional) == x.transactional
		})
	}
	if why := r.suppressed(t, "victim@example.org", mail.ClassMarketing); why != "" {
		t.Errorf("a report has suppressed an address that was never mailed: %s", why)
	}
	if got := strings.Join(r.events(t, "unknown"), ""); !strings.Contains(got, "konnte nicht zugestellt werden") {
		t.Errorf("the beginning of a mail that nobody can read is lost: %s", got)
	}
	if n := len(next.Mails()); n != len(to) {
		t.Errorf("%d mails have left, want %d: nothing that comes back is answered", n, len(to))
	}
	if s := r.Stats().Returned; s.Results["repeated"]+s.Results["bounced"] != 6 || s.SMTP.Refused["address"] != 3 || s.Results["ignored"] != 1 {
		t.Errorf("counted %+v", s)
	}
}

// TestBouncesPause: a campaign that bounces is stopped, by what comes back and by what is
// refused at once, and so is its route for marketing mail; other mail goes on. It stays
// so until somebody lets it go on, and the system has an event of it.
func TestBouncesPause(t *testing.T) {
	t.Parallel()
	next, url := aRelay(t, nil)
	r := openReturning(t, func(string) config.URL { return url }, func(c *config.Config) { c.Pause.Mails, c.Pause.Blocks = 20, 0 })
	var back []string
	for i := range 20 {
		back = append(back, r.hand(t, fmt.Sprintf("bad%d@example.net", i)))
	}
	await(t, "all have left", func() bool { return next.Received() == len(back) })
	for i, id := range back[:8] {
		event := fmt.Sprintf(`{"event":"bounced","event_id":"b-%d","time":%d,"email":"bad%d@example.net","message_id":"%s","status":"5.1.1"}`, i, time.Now().UnixMilli(), i, id)
		await(t, "the ledger knows the mail", func() bool {
			rows, err := r.Services().Sends.MessageSends(t.Context(), id)
			return err == nil && len(rows) == 1 && rows[0].State == mail.SendSent
		})
		if done, err := r.Services().Intake.Accept(t.Context(), &ingest.Request{Items: []string{event}, Sender: "test"}); err != nil || done.Items != 1 {
			t.Fatal(done, err)
		}
	}
	stopped := func() string {
		names, err := r.Services().Operator.Stopped(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(slices.Sorted(maps.Keys(names)), " ")
	}
	const both = "marketing/route:relay marketing/tag:autumn"
	await(t, "the campaign is stopped", func() bool { return stopped() == both })
	await(t, "the system has an event of each", func() bool { return len(r.events(t, "mail_paused")) == 2 })
	if got := r.events(t, "mail_paused")[0]; !strings.Contains(got, "returned (bounced)") || !strings.Contains(got, `"kind":"system"`) {
		t.Errorf("the event is %s", got)
	}
	await(t, "the process that sends knows", func() bool { return r.Stats().MailStops == 2 && r.Stats().MailPauses == 2 })

	waits := r.hand(t, "later@example.net")
	transactional, err := r.Services().Submitter.Submit(t.Context(), "", []mail.Draft{{
		Priority: mail.PriorityNormal, Class: mail.ClassTransactional, Form: mail.ContentMIME, From: "shop@example.test", To: []string{"buyer@example.net"}, Tags: []string{"autumn"},
		Content: []byte("From: shop@example.test\r\nTo: buyer@example.net\r\nSubject: order\r\nMessage-ID: <two@example.test>\r\n\r\nhi\r\n"),
	}})
	if err != nil {
		t.Fatal(err)
	}
	await(t, "transactional mail goes on", func() bool {
		rows, err := r.Services().Sends.MessageSends(t.Context(), transactional[0])
		return err == nil && len(rows) == 1 && rows[0].State == mail.SendSent
	})
	if rows, err := r.Services().Sends.MessageSends(t.Context(), waits); err != nil || len(rows) == 1 && rows[0].State != mail.SendWaiting {
		t.Errorf("marketing mail goes on: %+v %v", rows, err)
	}
	for _, name := range strings.Fields(both) {
		s, _ := mail.ParseSelector(name)
		if was, err := r.Services().Operator.Resume(t.Context(), s); err != nil || !was {
			t.Errorf("%s: %v %v", name, was, err)
		}
	}
	await(t, "it goes on when it is let", func() bool {
		rows, err := r.Services().Sends.MessageSends(t.Context(), waits)
		return err == nil && len(rows) == 1 && rows[0].State == mail.SendSent
	})
}
