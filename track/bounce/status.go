package bounce

import (
	"bytes"
	"strings"

	"sluice"
	"sluice/mail"
)

// actions are what a server has done for a recipient (RFC 3464, 2.3.3).
var actions = map[string]string{
	"failed":    sluice.EventBounced,
	"delayed":   sluice.EventDeferred,
	"delivered": sluice.EventDelivered,
	"relayed":   sluice.EventDelivered,
	"expanded":  sluice.EventDelivered,
}

// byClass are the actions that the first digit of a status means, where the action
// is missing or unknown.
var byClass = map[byte]string{'2': "delivered", '4': "delayed", '5': "failed"}

// status reads a delivery status (RFC 3464; RFC 6533 beyond ASCII): an event of each
// recipient. It also counts in a mail that is not called a report.
func (m *report) status() (events []Event) {
	p := m.find("message/delivery-status", "message/global-delivery-status")
	if p == nil {
		return nil
	}
	of, groups := groupsOf(p.content())
	if m.about == "" {
		m.about = messageID(of.get("x-original-message-id")) // Gmail
	}
	m.kept = keptOf(of)
	for _, g := range groups {
		events = append(events, m.group(of, g))
	}
	return events
}

// groupsOf reads the blocks of a delivery status. One that names no recipient is about
// the mail. Servers that part recipients by no empty line are understood: a second
// recipient of the same field begins a group.
func groupsOf(b []byte) (of header, groups []header) {
	for len(b) > 0 && len(groups) < maxRecipients {
		var block header
		block, b = cutHeader(bytes.TrimLeft(b, "\r\n"))
		if block.get("final-recipient") == "" && block.get("original-recipient") == "" {
			of = append(of, block[:min(len(block), maxFields-len(of))]...)
			continue
		}
		begin := 0
		for i, f := range block {
			if !isRecipient(f.name) {
				continue
			}
			if before := block[begin:i].get(f.name); before != "" && before != f.value {
				groups, begin = append(groups, block[begin:i]), i
			}
		}
		groups = append(groups, block[begin:])
	}
	return of, groups[:min(len(groups), maxRecipients)]
}

func isRecipient(name string) bool { return name == "final-recipient" || name == "original-recipient" }

// group makes the event of one recipient. of is what is said of all.
func (m *report) group(of, g header) Event {
	final := addressOf(g.get("final-recipient"))
	recipient := originalOf(g.get("original-recipient"), final)
	if recipient == "" {
		recipient = final
	}
	code, _ := mail.EnhancedCode(g.get("status"))
	action := clean(strings.ToLower(stripComments(g.get("action"))))
	if actions[action] == "" && code != "" {
		action = byClass[code[0]]
	}
	name := actions[action]
	if name == "" {
		name = sluice.EventUnknown
	}
	e := m.event(name, recipient)
	e.Time = firstDate(g.get("last-attempt-date"), m.head.get("date"), of.get("arrival-date"))
	kind, said := typed(g.get("diagnostic-code"))
	if e.MTAResponse = clean(decodeWords(said)); kind != "smtp" && kind != "" {
		e.MTAResponse = clean(kind + "; " + decodeWords(said))
	}
	if code == "" || code[1:] == ".0.0" { // it says nothing, but the reply may
		if better, _ := mail.EnhancedCode(said); better != "" {
			code = better
		}
	}
	e.Metadata["action"] = action
	if name == sluice.EventBounced || name == sluice.EventDeferred {
		e.judge(code)
	} else if code != "" {
		e.Metadata[keyStatus] = code
	}
	for _, f := range append(keptOf(g), m.kept...) {
		e.keep(f)
	}
	e.identify(m, action)
	return e
}

// keptOf makes metadata of the fields of a delivery status, extensions (RFC 3464, 2.4)
// included. What is a member of the event is left out.
func keptOf(h header) (kept []field) {
	for _, f := range h[:min(len(h), maxMetadata)] {
		switch f.name {
		case "diagnostic-code", "last-attempt-date", keyStatus, "action", "bounce-class":
			continue
		case "final-recipient", "original-recipient":
			_, f.value = typed(f.value)
		case "arrival-date", "will-retry-until":
			if d := date(f.value); d != "" {
				f.value = d
			}
		case "reporting-mta", "remote-mta", "received-from-mta", "dsn-gateway":
			_, f.value = typed(f.value)
			f.value = stripComments(f.value)
		}
		kept = append(kept, metadataOf(f))
	}
	return kept
}
