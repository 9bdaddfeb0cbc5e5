package journey

import (
	"bytes"
	"encoding/json"
	"strings"
)

// Mailed is the mail that a FactMail is about: its body, as JSON.
type Mailed struct {
	Message string `json:"message"`           // id
	Tags    string `json:"tags,omitempty"`    // separated by commas
	Journey string `json:"journey,omitempty"` // that has sent it
	Step    string `json:"step,omitempty"`    // of that journey
}

// MailCountName names the series that counts mails of a step to which something has
// happened, each once: sent, opened, clicked.
func MailCountName(id, step string, event MailEvent) string {
	what := string(event)
	if event == MailReceived {
		what = "sent"
	}
	return "journey/" + id + "/" + step + "/" + what
}

// MailRawName is MailCountName of mails that were opened or clicked by anybody,
// machines included.
func MailRawName(id, step string, event MailEvent) string {
	return MailCountName(id, step, event) + "_raw"
}

// Text returns the mail as the body of a fact.
func (m *Mailed) Text() string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(m) // texts: nothing that could fail
	return strings.TrimSuffix(b.String(), "\n")
}

// ReadMailed reads what Text wrote; of anything else, no mail that a trigger means.
func ReadMailed(body string) (m Mailed) {
	if json.Unmarshal([]byte(body), &m) != nil {
		return Mailed{}
	}
	return m
}

// Takes reports whether a mail is meant.
func (m MailNames) Takes(event MailEvent, x *Mailed) bool {
	return m.Event == event && m.Of.Takes(x.Message, x.Tags, x.Journey, x.Step)
}
