package main

import (
	"fmt"
	"html"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"sluice/lib/mime"
)

const readerUA = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"

var listUnsubscribe = regexp.MustCompile(`(?s)List-Unsubscribe:\s*<https://t\.example\.com(/t/u/[^>]*)>\r\nList-Unsubscribe-Post: List-Unsubscribe=One-Click\r\n`)

// A mail as it arrives is opened, its link is clicked, and its recipient unsubscribes
// by one click (RFC 8058): events, the ledger, the profile and the suppressions show it,
// and the next marketing mail is held back.
func TestMailIsOpenedClickedAndUnsubscribed(t *testing.T) {
	t.Parallel()
	dir, receiver := t.TempDir(), startReceiver(t)
	configure(t, dir, strings.Replace(fmt.Sprintf(trackingFile, receiver.Addr()), "except_apps: [quiet]", "listen: '127.0.0.1:0'", 1))
	s := serveConfigured(t, dir, "SLUICE_ROOT_KEY="+testRoot, "SLUICE_SECRET="+linkSecret)
	s.sent(t, http.StatusCreated, "/users/track/sync", `{"attributes":[{"external_id":"ann","email":"ann@example.com","email_subscribe":"opted_in"}]}`)
	s.mailed(t, `{"from":"shop@example.com","to":{"email":"ann@example.com","user_id":"ann"},"subject":"s","class":"marketing","html":"<body><a href=\"https://shop.example/?a=1&amp;b=2\">x</a></body>"}`)
	await(t, "the mail arrives", func() bool { return receiver.Received() == 1 })
	content := receiver.Mails()[0].Content
	_, after, _ := strings.Cut(s.log.String(), "track=")
	address, _, _ := strings.Cut(after, " ")
	visit := func(method, url, body string) (int, string) {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("User-Agent", readerUA)
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		res, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if _, err := io.Copy(io.Discard, res.Body); err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, res.Header.Get("Location")
	}
	urls := ourURL.FindAllString(mime.FindHTML(content).Text, -1)
	if len(urls) != 2 {
		t.Fatalf("the mail has %d links:\n%s", len(urls), content)
	}
	await(t, "a person can have read it", func() bool {
		return len(s.texts(t, "SELECT 1 FROM sends WHERE state = 'sent' AND updated < (julianday('now') - 2440587.5) * 86400000 - 2000")) == 1
	})
	for _, text := range urls {
		status, location := visit("GET", strings.Replace(html.UnescapeString(text), "https://t.example.com", "http://"+address, 1), "")
		if pixel := strings.Contains(text, "/t/o/"); pixel && status != 200 || !pixel && (status != 302 || location != "https://shop.example/?a=1&b=2") {
			t.Errorf("%s: %d %s", text, status, location)
		}
	}
	found := listUnsubscribe.FindStringSubmatch(strings.NewReplacer("\r\n ", "", "\r\n\t", "").Replace(string(content)))
	if found == nil {
		t.Fatalf("the mail has no List-Unsubscribe:\n%s", content)
	}
	if status, _ := visit("POST", "http://"+address+found[1], "List-Unsubscribe=One-Click"); status != 200 {
		t.Errorf("one click is answered %d", status)
	}
	for query, want := range map[string]string{
		"SELECT name || json_extract(properties, '$.machine') FROM events WHERE name IN ('opened', 'clicked') ORDER BY name": "clicked0,opened0",
		"SELECT COUNT(*) FROM sends WHERE first_human_open IS NOT NULL AND first_human_click = first_click":                  "1",
		"SELECT entry || ' ' || reason FROM suppressions":                                                                    "ann@example.com unsubscribe",
		"SELECT json_extract(profile, '$.fields.email_subscribe') FROM users":                                                "unsubscribed",
	} {
		await(t, query, func() bool { return strings.Join(s.texts(t, query), ",") == want })
	}
	s.became(t, s.mails(t, "marketing", "ann@example.com", plainMail), "suppressed")
	s.mails(t, "transactional", "ann@example.com", plainMail)
	await(t, "transactional mail goes on", func() bool { return receiver.Received() == 2 })
}
