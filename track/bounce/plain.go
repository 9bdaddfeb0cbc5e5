package bounce

import (
	"regexp"
	"slices"
	"strings"

	"sluice"
	"sluice/mail"
)

// plainText returns the first text of the mail with lines that end in LF.
func (m *report) plainText() string {
	p := m.find("text/plain")
	if p == nil {
		return ""
	}
	return strings.ReplaceAll(text(p.content()), "\r\n", "\n")
}

// originalIn takes the head of the returned mail from a text, where it stands behind a
// line of dashes.
func (m *report) originalIn(s string) {
	if m.original != nil {
		return
	}
	_, copied, found := strings.Cut("\n"+s, "\n---")
	if !found {
		return
	}
	_, copied, _ = strings.Cut(copied, "\n")
	m.original, _ = cutHeader(withoutEmptyLines([]byte(copied)))
	m.setAbout()
}

// qmailBegins are the introductions of QSBMF: of qmail-send and its kin, and of Yahoo's
// older servers, which write the same form.
var qmailBegins = []string{"Hi. This is the ", "Sorry, we were unable to deliver your message"}

// qmail reads QSBMF, the form of qmail-send: an introduction, then a paragraph for
// each recipient, which begins with "<ADDRESS>:". It has failures only.
func (m *report) qmail() (events []Event) {
	s := strings.TrimLeft(m.plainText(), "\n ")
	if !slices.ContainsFunc(qmailBegins, func(begin string) bool { return strings.HasPrefix(s, begin) }) {
		return nil
	}
	m.originalIn(s)
	for _, paragraph := range strings.SplitN(s, "\n\n", maxRecipients+2)[1:] {
		first, said, _ := strings.Cut(strings.TrimLeft(paragraph, "\n"), "\n")
		if strings.HasPrefix(first, "-") || len(events) >= maxRecipients {
			break
		}
		address, found := strings.CutSuffix(strings.TrimRight(first, " "), ">:")
		if address = strings.TrimPrefix(address, "<"); found && address != "" {
			events = append(events, m.plain(sluice.EventBounced, clean(address), said))
		}
	}
	return events
}

// exim reads the field in which Exim, and what imitates it, names the recipients of a
// failure. What the server said stands in the text, below the address. A warning of
// Exim has no such field: its text alone says that it is one.
func (m *report) exim() (events []Event) {
	s := m.plainText()
	values := m.head.all("x-failed-recipients")
	if len(values) == 0 && !(strings.Contains(s, "created automatically by mail delivery software") && strings.Contains(s, "has not yet been delivered")) {
		return nil
	}
	m.originalIn(s)
	s, _, _ = strings.Cut(s, "\n---") // the copy of the mail
	named, said := below(s)
	if len(values) == 0 {
		for _, address := range named {
			events = append(events, m.plain(sluice.EventDeferred, clean(address), said[address]))
		}
		return events
	}
	all := strings.Split(strings.Join(values, ","), ",")
	for _, address := range all[:min(len(all), maxRecipients)] {
		if address = clean(strings.Trim(strings.TrimSpace(address), "<>")); address == "" {
			continue
		}
		reason := said[strings.ToLower(address)]
		if reason == "" && len(all) == 1 { // Gmail had it further below
			reason = replyIn.FindString(s[:min(len(s), maxTextBytes)])
		}
		events = append(events, m.plain(sluice.EventBounced, address, reason))
	}
	return events
}

// below returns the addresses, in lower case, of the lines that have nothing but an
// address, or an address and a colon. said is what stands below each: up to the next
// such line, or to an empty one.
func below(s string) (named []string, said map[string]string) {
	said = make(map[string]string)
	address := ""
	for line := range strings.Lines(s) {
		word := strings.ToLower(strings.TrimSuffix(strings.TrimSpace(line), ":"))
		switch {
		case word == "":
			address = ""
		case strings.Contains(word, "@") && !strings.ContainsAny(word, " <"):
			if len(named) >= maxRecipients {
				return named, said
			}
			address = word
			named = append(named, address)
		case address != "" && len(said[address]) < maxTextBytes:
			said[address] += line
		}
	}
	return named, said
}

var (
	// replyIn finds the reply of a server in a text: three digits, and what follows.
	replyIn = regexp.MustCompile(`(?:^|[\s:])([45]\d\d[ -](?s:.*))`)

	// codeIn finds the code that QSBMF has at the end of a paragraph.
	codeIn = regexp.MustCompile(`\(#([45]\.\d{1,3}\.\d{1,3})\)`)
)

// plain makes an event of what a text says of one recipient.
func (m *report) plain(name, recipient, said string) Event {
	e := m.event(name, recipient)
	said = said[:min(len(said), maxTextBytes)]
	e.MTAResponse = clean(said)
	code := ""
	if found := replyIn.FindStringSubmatch(said); found != nil {
		e.MTAResponse = clean(found[1])
		code, _ = mail.EnhancedCode(e.MTAResponse)
	}
	if found := codeIn.FindStringSubmatch(said); code == "" && found != nil {
		code = found[1]
	}
	e.judge(code)
	action := "failed" // as of a delivery status: the same failure told in another form is the same event
	if name == sluice.EventDeferred {
		action = "delayed"
	}
	e.identify(m, action)
	return e
}
