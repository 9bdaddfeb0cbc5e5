package inbox

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"
	"unicode"

	"sluice"
	"sluice/lib/jsonscan"
	"sluice/mail"
	"sluice/track/bounce"
)

// maxBeginningBytes bounds what is kept of a mail that nobody can read.
const maxBeginningBytes = 1000

// bounced is the event of a report, as a producer would post it. Its members are those
// that package ingest judges bounces by.
type bounced struct {
	Event   string `json:"event"`
	Time    string `json:"time"`
	ID      string `json:"event_id"`
	Email   string `json:"email,omitempty"`
	User    string `json:"user_id,omitempty"`
	App     string `json:"app_id,omitempty"`
	Message string `json:"message_id,omitempty"`

	Send        string   `json:"send,omitempty"`
	Route       string   `json:"route,omitempty"`
	Class       string   `json:"bounce_class,omitempty"`
	Status      string   `json:"status,omitempty"`
	Reply       string   `json:"reply,omitempty"`
	Reason      string   `json:"reason,omitempty"`
	Tags        []string `json:"tags,omitempty"`
	Subject     string   `json:"report_subject,omitempty"`
	Recipient   string   `json:"report_recipient,omitempty"` // where it is another than ours: the mail was forwarded
	ReportingBy string   `json:"reporting_mta,omitempty"`
	RemoteMTA   string   `json:"remote_mta,omitempty"`
	Feedback    string   `json:"feedback_type,omitempty"`
	Answer      string   `json:"auto_response,omitempty"`
	Unproven    string   `json:"unproven,omitempty"`
	Via         string   `json:"via"`
}

// element is an event as JSON. claimed is what record has.
func element(row *mail.SendRow, e *bounce.Event, id string, millis int64, claimed string) string {
	b := bounced{
		Event: e.Type, Time: time.UnixMilli(millis).UTC().Format("2006-01-02T15:04:05.000Z07:00"), ID: id, Email: row.To, User: row.User, App: row.App,
		Message: row.Message, Route: row.Route, Class: e.Metadata["bounce_class"], Status: e.Metadata["status"], Reply: e.MTAResponse, Reason: e.RejectReason,
		Subject: e.Description, ReportingBy: e.Metadata["reporting_mta"], RemoteMTA: e.Metadata["remote_mta"], Feedback: e.Metadata["feedback_type"],
		Answer: e.Metadata["auto_response"], Unproven: claimed, Via: "mail",
	}
	if e.Type == sluice.EventUnsubscribed { // as the link in the mail: of no app, it is about the mail of all
		b.App = ""
	}
	if row.Message != "" {
		b.Send = (&mail.Send{Message: row.Message, Number: row.Number}).ID()
	}
	if row.Tags != "" {
		b.Tags = strings.Split(row.Tags, ",")
	}
	if !strings.EqualFold(e.Recipient, row.To) {
		b.Recipient = e.Recipient
	}
	text, _ := jsonscan.Marshal(&b) // texts always can be
	return string(text)
}

// wordOf is what makes two reports of one send the same: a send has at most one event
// of each. claimed is what record has.
func wordOf(e *bounce.Event, claimed string) string {
	if class := e.Metadata["bounce_class"]; e.Type == sluice.EventBounced && class != "" {
		return e.Type + " " + class
	}
	if claimed != "" {
		return "unproven " + claimed // it does not stand in the way of one that is proven
	}
	return e.Type
}

// eventID makes the id of the event of a report. It stands in keys of Redis, so it names
// no address.
func eventID(row *mail.SendRow, word string) string {
	about := (&mail.Send{Message: row.Message, Number: row.Number}).ID()
	if row.Message == "" {
		sum := sha256.Sum256([]byte(strings.ToLower(row.To)))
		about = hex.EncodeToString(sum[:16])
	}
	return "returned:" + about + ":" + strings.ReplaceAll(word, " ", "-")
}

// replyOf is what a report says, as a reply of a server: a code, and a text.
func replyOf(e *bounce.Event) string {
	text := mail.ReplyText(e.MTAResponse)
	if status := e.Metadata["status"]; status != "" && !strings.Contains(text, status) {
		text = mail.ReplyText(status + " " + text)
	}
	return text
}

// beginning is the beginning of a mail that nobody can read: text, without control
// characters but for the ends of lines.
func beginning(content []byte) string {
	text := strings.ToValidUTF8(string(content[:min(len(content), maxBeginningBytes)]), "\uFFFD")
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\r':
			return -1
		case unicode.IsControl(r) && r != '\n':
			return ' '
		}
		return r
	}, text)
}
