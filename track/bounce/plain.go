package bounce

import (
	"bytes"
	"regexp"
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
	m.original, _ = cutHeader(bytes.TrimLeft([]byte(copied), "\r\n"))
	m.setAbout()
}

// qmail reads QSBMF, the form of qmail-send: an introduction, then a paragraph for
// each recipient, which begins with "<ADDRESS>:". It has failures only.
func (m *report) qmail() (events []Event) {
	s := strings.TrimLeft(m.plainText(), "\n ")
	if !strings.HasPrefix(s, "Hi. This is the ") {
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
// failure. What the server said stands in the text, below the address.
func (m *report) exim() (events []Event) {
	values := m.head.all("x-failed-recipients")
	if len(values) == 0 {
		return nil
	}
	s := m.plainText()
	m.originalIn(s)
	said := below(s)
	for _, address := range strings.Split(strings.Join(values, ","), ",") {
		address = clean(strings.Trim(strings.TrimSpace(address), "<>"))
		if address != "" && len(events) < maxRecipients {
			events = append(events, m.plain(sluice.EventBounced, address, said[strings.ToLower(address)]))
		}
	}
	return events
}

// below returns, by the address in lower case, what stands below each line that has
// nothing but an address, or an address and a colon: up to the next such line, or to
// an empty one.
func below(s string) map[string]string {
	said := make(map[string]string)
	address := ""
	for line := range strings.Lines(s) {
		word := strings.ToLower(strings.TrimSuffix(strings.TrimSpace(line), ":"))
		switch {
		case word == "":
			address = ""
		case strings.Contains(word, "@") && !strings.ContainsAny(word, " <"):
			if address = word; len(said) >= maxRecipients {
				return said
			}
		case address != "" && len(said[address]) < maxTextBytes:
			said[address] += line
		}
	}
	return said
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
	e.identify(m, "failed")
	return e
}
