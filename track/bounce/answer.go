package bounce

import (
	"slices"
	"strings"

	"sluice"
)

// answerFields are fields that programs which answer by themselves set, beside
// Auto-Submitted of RFC 3834. An empty value stands for any but "no".
var answerFields = []field{
	{"x-autoreply", ""},
	{"x-autorespond", ""},
	{"x-autoresponder", ""},
	{"x-autoreply-from", ""},
	{"x-mail-autoreply", ""},
	{"precedence", "auto_reply"},
	{"x-precedence", "auto_reply"},
	{"delivered-to", "autoresponder"},
	{"x-ms-exchange-generated-message-source", "mailbox rules agent"},
}

// challengeFields are those of programs that ask a sender to prove that it is a person.
var challengeFields = []string{"x-tmda-confirm", "x-spamarrest-noauth", "x-choicemail-registration-request", "x-challenge-response"}

// awaySubjects are beginnings of subjects that mailboxes answer with. One alone is no
// proof: people write such subjects. The mail must also say that a program made it.
var awaySubjects = []string{
	"out of office", "out of the office", "automatic reply", "auto reply", "auto-reply", "autoreply", "auto response", "auto-response", "auto:",
	"abwesenheit", "automatische antwort", "réponse automatique", "respuesta automática", "risposta automatica", "automatisch antwoord",
}

// answer reads the answer of a program: of somebody who is away, or a challenge. The
// recipient is its author, for the report names nobody else.
func (m *report) answer() []Event {
	kind := m.answerKind()
	if kind == "" {
		return nil
	}
	recipient := ""
	if from := addressesOf(m.head.get("from")); len(from) > 0 {
		recipient = from[0]
	}
	e := m.event(sluice.EventAutoresponded, recipient)
	e.Metadata[keyAutoResponse] = kind
	e.identify(m, "")
	return []Event{e}
}

// answerKind returns reply, challenge, or "" for a mail that is neither. What a
// server itself says is no answer of a recipient: bounces also have Auto-Submitted.
func (m *report) answerKind() string {
	from := m.head.get("from")
	if all := addressesOf(from); len(all) > 0 && isServer(all[0]) || len(all) == 0 && isServer(lastMessageID(stripComments(from))) {
		return "" // some servers write their name without a domain
	}
	for _, name := range challengeFields {
		if m.head.get(name) != "" {
			return "challenge"
		}
	}
	for _, f := range answerFields {
		if slices.ContainsFunc(m.head.all(f.name), f.matches) {
			return "reply"
		}
	}
	submitted, _, _ := strings.Cut(strings.ToLower(stripComments(m.head.get("auto-submitted"))), ";")
	submitted = strings.TrimSpace(submitted)
	subject := strings.ToLower(decodeWords(m.head.get("subject")))
	away := slices.ContainsFunc(awaySubjects, func(s string) bool { return strings.HasPrefix(subject, s) })
	made := submitted != "" && submitted != "no" || m.head.get("x-auto-response-suppress") != ""
	if submitted == "auto-replied" || made && away { // RFC 3834, 5
		return "reply"
	}
	return ""
}

// matches reports whether a value is the one that a row of answerFields asks for.
func (f field) matches(value string) bool {
	value = strings.ToLower(strings.TrimSpace(value))
	if f.value == "" {
		return value != "" && value != "no"
	}
	return value == f.value
}

// isServer reports whether an address is one of those that servers write from.
func isServer(address string) bool {
	local, _, _ := strings.Cut(strings.ToLower(address), "@")
	return local == "mailer-daemon" || local == "postmaster" || strings.HasPrefix(local, "microsoftexchange")
}
