package main

import (
	"fmt"
	"html"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"sluice/lib/mime"
	"sluice/mail"
	"sluice/track/link"
)

// landed is a program whose listener for opens and clicks a test asks.
type landed struct {
	*served
	keys    *link.Keys
	address string
}

// startLanded starts one that mails to a receiver.
func startLanded(t *testing.T, receiver string) *landed {
	t.Helper()
	dir := t.TempDir()
	configure(t, dir, strings.Replace(fmt.Sprintf(trackingFile, receiver), "except_apps: [quiet]", "listen: '127.0.0.1:0'", 1))
	s := &landed{served: serveConfigured(t, dir, "SLUICE_ROOT_KEY="+testRoot, "SLUICE_SECRET="+linkSecret)}
	_, after, _ := strings.Cut(s.log.String(), "track=")
	s.address, _, _ = strings.Cut(after, " ")
	var err error
	if s.keys, err = link.NewKeys("https://t.example.com", []byte(linkSecret)); err != nil {
		t.Fatal(err)
	}
	return s
}

// page is the link of a message's first mail, for a subject.
func (s *landed) page(t *testing.T, message string, subject link.Subject) string {
	t.Helper()
	text, err := s.keys.Page(link.KindUnsubscribe, link.Place{Partition: mail.SendPartition(subject.Address, 4), Message: message}, subject)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Replace(text, s.keys.Base(), "http://"+s.address, 1)
}

// visit asks for a page, and returns the answer with its text.
func visit(t *testing.T, method, page string, form url.Values) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, page, strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(text)
}

// formPage gets a page with its form. It lacks that where the database has not said in time
// what there is to choose, or what its person has chosen.
func formPage(t *testing.T, page, group string) (res *http.Response, text string) {
	t.Helper()
	awaitFound(t, "a page with a form", func() (any, bool) {
		res, text = visit(t, "GET", page, nil)
		return text, strings.Contains(text, `value="save"`) && strings.Contains(text, group)
	})
	return res, text
}

// choose sends a form until it is taken, and reports whether it was refused before. If
// Redis does not answer in time, what would have mail come again is. Then, and if the
// store is behind, the page says "will be" for "are".
func (s *landed) choose(t *testing.T, page string, form url.Values, says string) (refused bool) {
	t.Helper()
	awaitFound(t, "the choices are taken", func() (any, bool) {
		began := time.Now()
		res, text := visit(t, "POST", page, form)
		again := res.StatusCode == http.StatusServiceUnavailable
		said := strings.Contains(text, says)
		if time.Since(began) >= shownWithin || strings.Contains(s.log.String(), "choices of people go to a file") {
			said = said || strings.Contains(text, strings.Replace(says, "You are", "You will be", 1))
		}
		if !again && (res.StatusCode != 200 || !said) || strings.Contains(text, "ann@") {
			t.Errorf("%v: %d %s", form, res.StatusCode, text)
		}
		refused = refused || again
		return text, !again
	})
	return refused
}

var inputs = regexp.MustCompile(`<input type="(\w+)" name="([\w-]+)" value="([\w-]+)"( checked)?>`)

// formOf is what a browser sends of the form to save, and the marks of what there is to
// choose: all marketing mail, then the groups.
func formOf(t *testing.T, page string) (form url.Values, marks []string) {
	t.Helper()
	_, part, ok := strings.Cut(page, `value="save"`)
	part, _, _ = strings.Cut(part, "</form>")
	if !ok {
		t.Fatalf("no form:\n%s", page)
	}
	form = url.Values{"do": {"save"}}
	for _, m := range inputs.FindAllStringSubmatch(part, -1) {
		if m[1] == "checkbox" {
			marks = append(marks, m[3])
		}
		if m[1] != "checkbox" || m[4] != "" {
			form.Add(m[2], m[3])
		}
	}
	return form, marks
}

// set chooses, or leaves, by a mark.
func set(form url.Values, mark string, on bool) url.Values {
	all := form["on"]
	form.Del("on")
	for _, each := range all {
		if each != mark {
			form.Add("on", each)
		}
	}
	if on {
		form.Add("on", mark)
	}
	return form
}

// The page of a mail shows what its person may choose and nothing of who that is. A GET
// changes nothing. What is chosen is in the profiles of all who have the address, in the
// suppressions and in an event, both ways. One click of a mail of a group leaves the group
// alone. Nothing forged is answered.
func TestPreferencePage(t *testing.T) {
	t.Parallel()
	receiver := startReceiver(t)
	s := startLanded(t, receiver.Addr())
	s.sent(t, 201, "/users/track", `{"attributes":[{"external_id":"u-1","email":"ann@example.com"},{"external_id":"u-2","email":"ann@example.com"}]}`)
	for id, body := range map[string]string{"weekly": `{"name":"Weekly <news>","description":"Each \"Monday\" & more","public":true,"order":1}`, "offers": `{"name":"عروض","public":true,"order":2}`, "inside": `{"name":"Internal"}`} {
		if status, text := s.ask(t, "PUT", "/v1/groups/"+id, body); status != 200 {
			t.Fatalf("%d %s", status, text)
		}
	}
	message := s.mails(t, "marketing", "ann@example.com", plainMail)
	await(t, "the mail arrives", func() bool { return receiver.Received() == 1 })
	all, group := s.page(t, message, link.Subject{Address: "ann@example.com"}), s.page(t, message, link.Subject{Address: "ann@example.com", Group: "weekly"})

	res, text := formPage(t, group, "Weekly")
	if csp := res.Header.Get("Content-Security-Policy"); res.StatusCode != 200 || !strings.HasPrefix(csp, "default-src 'none'; style-src 'sha256-") || strings.Contains(csp, "script") || res.Header.Get("Referrer-Policy") != "no-referrer" {
		t.Errorf("%d %v", res.StatusCode, res.Header)
	}
	for word, want := range map[string]bool{
		"Weekly &lt;news&gt;": true, "Each &#34;Monday&#34; &amp; more": true, "عروض": true, "a…@example.com": true, "Unsubscribe from Weekly &lt;news&gt;": true,
		"ann@": false, "u-1": false, "Internal": false, "weekly": false, "<script": false, "Weekly <": false, `width=device-width`: true, `dir="auto"`: true,
	} {
		if strings.Contains(text, word) != want {
			t.Errorf("the page has %q: %v\n%s", word, !want, text)
		}
	}
	form, marks := formOf(t, text)
	if len(marks) != 3 || len(form["on"]) != 3 || len(form["was"]) != 3 {
		t.Fatalf("%v %v", form, marks)
	}
	for _, bad := range []string{all[:len(all)-1], all[:len(all)-4] + "AAAA", all + "A", "http://" + s.address + link.PagePath, "http://" + s.address + link.PagePath + "<b>", strings.Replace(all, "/t/u/", "/t/u//", 1)} {
		for _, method := range []string{"GET", "POST"} {
			if res, text := visit(t, method, bad, url.Values{"List-Unsubscribe": {"One-Click"}}); res.StatusCode != 404 || text != "" {
				t.Errorf("%s %s: %d %q", method, bad, res.StatusCode, text)
			}
		}
	}

	states := func(want string) {
		t.Helper()
		const query = "SELECT COALESCE(json_extract(profile, '$.fields.email_subscribe'), '-') || COALESCE(json_extract(profile, '$.groups.weekly[0]'), '-') || COALESCE(json_extract(profile, '$.groups.offers[0]'), '-') FROM users ORDER BY part, number"
		await(t, "both are "+want, func() bool { return strings.Join(s.texts(t, query), " ") == want+" "+want })
	}
	held := func(want string) {
		t.Helper()
		await(t, "suppressed: "+want, func() bool {
			return strings.Join(s.texts(t, "SELECT entry || ' ' || reason FROM suppressions WHERE removed = 0"), ",") == want
		})
	}
	states("---")
	held("")
	s.choose(t, group, form, "Your choices are saved") // nothing was changed
	states("---")
	s.choose(t, group, set(form, marks[2], false), "Your choices are saved")
	states("--unsubscribed")
	s.choose(t, group, url.Values{"List-Unsubscribe": {"One-Click"}}, "You are unsubscribed")
	states("-unsubscribedunsubscribed")
	held("")
	s.mails(t, "marketing", "ann@example.com", plainMail)
	await(t, "mail of no group goes on", func() bool { return receiver.Received() == 2 })

	_, text = formPage(t, all, "Weekly")
	if form, _ = formOf(t, text); len(form["on"]) != 1 {
		t.Errorf("two groups are left, and the page shows %v", form)
	}
	refused := s.choose(t, all, set(set(form, marks[1], true), marks[0], false), "You are unsubscribed")
	states("unsubscribedsubscribedunsubscribed")
	held("ann@example.com unsubscribe")
	s.became(t, s.mails(t, "marketing", "ann@example.com", plainMail), "suppressed")

	_, text = formPage(t, all, "Weekly")
	form, _ = formOf(t, text)
	refused = s.choose(t, all, set(form, marks[0], true), "Your choices are saved") || refused
	states("subscribedsubscribedunsubscribed")
	held("")
	s.choose(t, all, url.Values{"do": {"all"}}, "You are unsubscribed")
	states("unsubscribedsubscribedunsubscribed")
	held("ann@example.com unsubscribe")

	if status, body := s.ask(t, "DELETE", "/v1/groups/weekly", ""); status != 204 {
		t.Fatalf("%d %s", status, body)
	}
	await(t, "a form of before is refused, and writes nothing", func() bool {
		res, text := visit(t, "POST", all, url.Values{"do": {"save"}, "s": {marks[1]}, "was": {marks[1]}})
		return res.StatusCode == 409 && strings.Contains(text, "open the link in your mail again")
	})
	const proofs = "SELECT json_extract(properties, '$.by') || COALESCE(json_extract(properties, '$.email_subscribe'), '') || COALESCE(json_extract(properties, '$.groups.weekly'), '') FROM events WHERE kind = 'system' AND name = 'preferences_changed' ORDER BY time"
	proved := "^page linkunsubscribed pageunsubscribedsubscribed pagesubscribed pageunsubscribed"
	if refused { // what stops mail is written all the same, and the whole may be
		proved = "^page linkunsubscribed (pageunsubscribed )*(pageunsubscribedsubscribed )+(pagesubscribed )+pageunsubscribed"
	}
	awaitFound(t, "the proofs", func() (any, bool) {
		got := html.UnescapeString(strings.Join(s.texts(t, proofs), " "))
		return got, regexp.MustCompile(proved).MatchString(got)
	})
}

// Of an address that has complained, or was entered by hand, the page offers no mail that
// cannot come, and one click is in force at once.
func TestPreferencePageOfStoppedMail(t *testing.T) {
	t.Parallel()
	s := startLanded(t, startReceiver(t).Addr())
	if status, text := s.ask(t, "POST", "/v1/suppressions", `{"suppressions":[{"entry":"ann@example.com","reason":"complaint"},{"entry":"*.bad.example"}]}`); status != 200 {
		t.Fatalf("%d %s", status, text)
	}
	for _, address := range []string{"ann@example.com", "bob@mail.bad.example"} {
		s.suppressed(t, address, "marketing", `"suppressed":true`)
		page := s.page(t, strings.Repeat("a", 32), link.Subject{Address: address})
		if _, text := formPage(t, page, ""); !strings.Contains(text, ` value="mail" disabled>`) || !strings.Contains(text, "cannot start it again") {
			t.Errorf("%s: %s", address, text)
		}
		s.choose(t, page, url.Values{"List-Unsubscribe": {"One-Click"}}, "You are unsubscribed")
	}
	await(t, "both have a row of events", func() bool {
		return len(s.texts(t, "SELECT 1 FROM events WHERE name = 'unsubscribed'")) == 2
	})
}

// A link that is too long for a mail program leads where it led, by a row of the
// database, which each mail with that link shares. A mail that waits too long for that row
// leaves without the link, and a click whose row cannot be read in time is tried again.
func TestLongLinkLeadsToItsTarget(t *testing.T) {
	t.Parallel()
	receiver := startReceiver(t)
	s := startLanded(t, receiver.Addr())
	target := "https://shop.example/?a=1&b=" + strings.Repeat("x", 3000)
	long := regexp.MustCompile(`https://t\.example\.com(/t/c/[\w-]+\?l=[\w-]+)"`)
	handed, paths := 0, []string(nil)
	await(t, "two mails arrive with the link", func() bool {
		handed++
		s.mails(t, "marketing", "ann@example.com", `,"subject":"s","html":"<a href=\"`+strings.ReplaceAll(target, "&", "&amp;")+`\">x</a>"`)
		await(t, "the mail arrives", func() bool { return receiver.Received() == handed })
		paths = nil
		for _, m := range receiver.Mails() {
			if found := long.FindStringSubmatch(mime.FindHTML(m.Content).Text); found != nil {
				paths = append(paths, found[1])
			}
		}
		return len(paths) == 2
	})
	if said := s.log.String(); handed > 2 && !strings.Contains(said, "long links of a mail are not tracked") && !strings.Contains(said, "mails leave without links and pixel") {
		t.Errorf("of %d mails two have the link, and nothing is said of the others", handed)
	}
	click := func(path string) (res *http.Response, text string) {
		await(t, "the row of the link is read", func() bool {
			res, text = visit(t, "GET", "http://"+s.address+path, nil)
			return res.StatusCode != http.StatusServiceUnavailable
		})
		return res, text
	}
	for _, path := range paths {
		if res, _ := click(path); res.StatusCode != 302 || res.Header.Get("Location") != target {
			t.Errorf("%d %.100s", res.StatusCode, res.Header.Get("Location"))
		}
		if res, text := click(path[:len(path)-1] + "_"); res.StatusCode != 404 && !strings.HasSuffix(path, "_") || text != "" {
			t.Errorf("another hash: %d %q", res.StatusCode, text)
		}
	}
	await(t, "both clicks are stored", func() bool {
		return len(s.texts(t, "SELECT 1 FROM events WHERE name = 'clicked' AND json_extract(properties, '$.url') = '"+target+"'")) == 2
	})
	if got := s.texts(t, "SELECT target FROM links"); len(got) != 1 || got[0] != target {
		t.Errorf("%d links are kept", len(got))
	}
}
