package main

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/smtp"
	"regexp"
	"strings"
	"testing"

	"sluice/lib/mime"
	"sluice/track/link"
)

const trackingFile = `
partitions: 4
public_url: https://mail.example.com
track: {url: https://t.example.com, except_apps: [quiet]}
sending: "on"
smtpd: {listen: '127.0.0.1:0', require_auth: false}
routes:
  relay: {smtp: {url: 'smtp://%s', plain: true}}
`

const linkSecret = "0123456789abcdef0123456789abcdef"

var ourURL = regexp.MustCompile(`https://t\.example\.com/t/(?:o/([\w-]+)\.gif|c/([\w-]+)\?(u=[^"]*))`)

// linksIn says what the links in a mail say: open, N and a target for clicks, each
// with the number of the send and + if the person is known. All must name the same
// message, which comes first.
func linksIn(t *testing.T, keys *link.Keys, content []byte) (message, links string) {
	t.Helper()
	part := mime.FindHTML(content)
	if part == nil {
		t.Fatalf("no HTML:\n%s", content)
	}
	var all []string
	for _, m := range ourURL.FindAllStringSubmatch(part.Text, -1) {
		target, _ := link.Target(m[3])
		text, kind, word := m[2], link.KindClick, target
		if m[1] != "" {
			text, kind, word = m[1], link.KindOpen, "open"
		}
		p, err := keys.Read(kind, text, target)
		if err != nil || message != "" && p.Message != message || p.Partition > 3 {
			t.Errorf("%s: %+v %v", m[0], p, err)
		}
		message = p.Message
		known := ""
		if p.Person > 0 {
			known = "+"
		}
		all = append(all, fmt.Sprintf("%d%s:%d=%s", p.Send, known, p.Link, word))
	}
	return message, strings.Join(all, " ")
}

// From all the ways that mail comes in to the receiver: links and pixel are in it
// where they are wanted, and their tokens read back to the send.
func TestTrackedMails(t *testing.T) {
	t.Parallel()
	dir, receiver := t.TempDir(), startReceiver(t)
	configure(t, dir, fmt.Sprintf(trackingFile, receiver.Addr()))
	s := serveConfigured(t, dir, "SLUICE_ROOT_KEY="+testRoot, "SLUICE_SECRET="+linkSecret)
	keys, err := link.NewKeys("https://t.example.com", []byte(linkSecret))
	if err != nil {
		t.Fatal(err)
	}
	s.sent(t, http.StatusCreated, "/users/track/sync", `{"attributes":[{"external_id":"ann","email":"ann@example.com","email_subscribe":"opted_in"}]}`)
	s.sent(t, http.StatusCreated, "/users/track/sync", `{"attributes":[{"external_id":"shy","email":"shy@example.com","email_open_tracking_disabled":true,"email_click_tracking_disabled":true}]}`)
	s.sent(t, http.StatusCreated, "/users/track/sync", `{"attributes":[{"external_id":"half","email":"half@example.com","email_open_tracking_disabled":true}]}`)
	const html = `<body><p>Grüße</p><a href=\"https://shop.example/?a=1&amp;b=ü\">x</a><a href=\"mailto:a@b.c\">y</a></body>`
	s.sent(t, http.StatusCreated, "/v1/templates", `{"id":"news","subject":"s","class":"marketing","html":"<a href=\"{{ url }}\">x</a><a href=\"{{ unsubscribe_url }}\">no more</a>"}`)
	message := func(to, more string) string {
		return `{"from":"shop@example.com","subject":"s","to":` + to + more + `}`
	}
	built := `,"html":"` + html + `"`
	raw := `,"raw":"` + base64.StdEncoding.EncodeToString([]byte("From: shop@example.com\r\nContent-Type: text/html\r\n\r\n<a href=https://raw.example/>x</a>\r\n")) + `"`
	news := `,"template":{"id":"news","variables":{"url":"https://news.example/?x=1&y=2"}}`
	ready := func(to, more string) string {
		return strings.Replace(message(to, more), `"subject":"s",`, "", 1)
	}
	s.mailed(t, "["+strings.Join([]string{
		message(`["ann@example.com","bob@example.com","shy@example.com"]`, built), message(`"one@example.com"`, built+`,"track":false`),
		message(`"two@example.com"`, built+`,"track":{"opens":false}`), message(`"quiet@example.com"`, built+`,"app_id":"quiet"`), message(`"half@example.com"`, built),
		ready(`"raw@example.com"`, raw), ready(`"tracked@example.com"`, raw+`,"track":true`),
		ready(`{"email":"ann@example.com","user_id":"ann"}`, news), ready(`"news@example.com"`, news+`,"track":{"clicks":false}`), ready(`"off@example.com"`, news+`,"track":false`),
	}, ",")+"]")
	s.sent(t, http.StatusCreated, "/messages/send", `{"external_user_ids":["ann"],"messages":{"email":{"app_id":"a","from":"shop@example.com","subject":"braze","body":"<a href=\"https://braze.example/\">x</a>"}}}`)
	_, after, _ := strings.Cut(s.log.String(), "smtp=")
	address, _, _ := strings.Cut(after, " ")
	for to, header := range map[string]string{"smtp@example.com": "", "smtp2@example.com": "X-Sluice-Track: clicks\r\n"} {
		if err := smtp.SendMail(address, nil, "shop@example.com", []string{to}, []byte("From: shop@example.com\r\n"+header+"Content-Type: text/html\r\n\r\n<a href=https://smtp.example/>x</a>\r\n")); err != nil {
			t.Fatal(err)
		}
	}
	if err := smtp.SendMail(address, nil, "shop@example.com", []string{"x@example.com"}, []byte("From: shop@example.com\r\nX-Sluice-Track: maybe\r\n\r\nx\r\n")); err == nil || !strings.Contains(err.Error(), `want true, false, opens or clicks`) {
		t.Errorf("X-Sluice-Track: maybe: %v", err)
	}
	const shop = "https://shop.example/?a=1&b=ü"
	want := map[string]string{
		"bob@example.com": "1:1=" + shop + " 1:0=open", "shy@example.com": "", "one@example.com": "", "two@example.com": "0:1=" + shop, "quiet@example.com": "",
		"half@example.com": "0+:1=" + shop, "raw@example.com": "", "tracked@example.com": "0:1=https://raw.example/ 0:0=open", "news@example.com": "0:0=open",
		"off@example.com": "", "smtp@example.com": "", "smtp2@example.com": "0:1=https://smtp.example/",
	}
	ofAnn := map[string]bool{"0+:1=" + shop + " 0+:0=open": true, "0+:1=https://news.example/?x=1&y=2 0+:0=open": true, "0+:1=https://braze.example/ 0+:0=open": true}
	await(t, "all mail arrives", func() bool { return receiver.Received() == len(want)+len(ofAnn) })
	for _, m := range receiver.Mails() {
		message, links := linksIn(t, keys, m.Content)
		switch to := m.To[0]; {
		case to == "ann@example.com" && !ofAnn[links], to != "ann@example.com" && links != want[to]:
			t.Errorf("mail to %s has %q, want %q", to, links, want[to])
		case strings.Contains(strings.ToLower(string(m.Content)), "x-sluice"):
			t.Errorf("mail to %s has a header of ours:\n%s", to, m.Content)
		case to == "news@example.com" && !strings.Contains(mime.FindHTML(m.Content).Text, `href="https://mail.example.com/unsubscribe?t=`):
			t.Errorf("the link to unsubscribe was changed:\n%s", mime.FindHTML(m.Content).Text)
		}
		if links != "" {
			s.became(t, message, "sent") // it is in the ledger
		}
		delete(ofAnn, links)
	}
	if len(ofAnn) > 0 {
		t.Errorf("Ann did not get %v", ofAnn)
	}
}
