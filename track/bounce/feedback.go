package bounce

import (
	"strings"

	"sluice"
)

// feedbackTypes are what a feedback report says (RFC 5965, 7.3). Other types are unknown,
// as not-spam, which takes a complaint back (RFC 6430), and auth-failure (RFC 6591).
var feedbackTypes = map[string]string{
	"abuse":       sluice.EventComplained,
	"fraud":       sluice.EventComplained,
	"virus":       sluice.EventComplained,
	"other":       sluice.EventComplained,
	"opt-out":     sluice.EventUnsubscribed, // of drafts of RFC 5965
	"unsubscribe": sluice.EventUnsubscribed, // registered nowhere, but sent
}

// originalRecipient is the field in which Outlook.com (JMRP) names the recipient, in
// the head of the mail that it returns.
const originalRecipient = "x-hmxmroriginalrecipient"

// feedback reads a complaint: a feedback report (RFC 5965), or the form of
// Outlook.com, which is no report but names the recipient in the returned head.
func (m *report) feedback() (events []Event) {
	p := m.find("message/feedback-report")
	if p == nil {
		if m.original.get(originalRecipient) == "" {
			return nil
		}
		return []Event{m.complaint(sluice.EventComplained, m.redacted(), nil)}
	}
	of, _ := cutHeader(withoutEmptyLines(p.content()))
	name := feedbackTypes[strings.ToLower(stripComments(of.get("feedback-type")))]
	if name == "" {
		name = sluice.EventUnknown
	}
	m.kept = keptFeedback(of)
	for _, value := range of.all("original-rcpt-to") {
		if address := addressOf(value); address != "" {
			events = append(events, m.complaint(name, address, of))
		}
	}
	if len(events) == 0 {
		events = append(events, m.complaint(name, m.redacted(), of))
	}
	return events
}

// redacted returns the recipient where the report does not name it: that of
// Outlook.com, or the one to which the returned mail is addressed. Of several it
// may be any, so it is none.
func (m *report) redacted() string {
	if address := addressOf(m.original.get(originalRecipient)); address != "" {
		return address
	}
	if to := addressesOf(m.original.get("to")); len(to) == 1 {
		return to[0]
	}
	return ""
}

// complaint makes the event of one recipient. of are the fields of the report.
func (m *report) complaint(name, recipient string, of header) Event {
	e := m.event(name, recipient)
	e.Time = firstDate(m.head.get("date"), of.get("arrival-date"), of.get("received-date"))
	e.UserAgent = clean(of.get("user-agent"))
	switch name {
	case sluice.EventComplained:
		e.RejectReason = reasonSpam
	case sluice.EventUnsubscribed:
		e.RejectReason = reasonUnsubscribed
	}
	for _, f := range m.kept {
		e.keep(f)
	}
	e.identify(m, of.get("feedback-type"))
	return e
}

// keptFeedback makes metadata of the fields of a feedback report. What is a member of
// the event is left out.
func keptFeedback(h header) (kept []field) {
	for _, f := range h[:min(len(h), maxMetadata)] {
		switch f.name {
		case "user-agent", "original-rcpt-to", "version", keyStatus:
			continue
		case "original-mail-from":
			f.value = addressOf(f.value)
		case "reporting-mta":
			_, f.value = typed(f.value)
		case "arrival-date", "received-date":
			if d := date(f.value); d != "" {
				f.value = d
			}
		}
		kept = append(kept, metadataOf(f))
	}
	return kept
}
