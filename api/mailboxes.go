package api

import (
	"bytes"
	"encoding/base64"
	"mime"
	"net/mail"
	"strconv"
	"time"
	"unicode/utf8"

	"sluice"
	libmime "sluice/lib/mime"
	"sluice/mail/via/sinkbox"
)

// Paths of the built-in mailboxes.
const (
	mailboxesPath = "/v1/mailboxes"
	mailboxPath   = "/v1/mailboxes/{number}"

	mailboxPage    = 20 // mails of an answer
	maxMailboxPage = 100
	maxSubject     = 1000 // bytes
	maxMailboxTo   = 320  // characters

	maxExactNumber = 1<<53 - 1 // beyond it JSON's numbers are not exact in every client
)

// Mailboxes are the mails that are kept in this process. A sinkbox.Box is one.
type Mailboxes interface {
	Mails(to string, before int64, limit int) []sinkbox.Kept
	Mail(number int64) (sinkbox.Kept, bool)
}

// MailboxMail is a mail of the built-in mailboxes.
type MailboxMail struct {
	Number  int64    `json:"number"`
	Time    string   `json:"time"`
	Send    string   `json:"send"`
	From    string   `json:"from"`
	To      string   `json:"to"`
	Subject string   `json:"subject"`
	Tags    []string `json:"tags,omitempty"`
	Bytes   int      `json:"bytes"`
	Raw     string   `json:"raw,omitempty"` // the whole message in base64
}

// MailboxPage is a page of them, the newest first.
type MailboxPage struct {
	Mails []MailboxMail `json:"mails"`
	Next  int64         `json:"next,omitempty"`
}

// listMailboxes is GET /v1/mailboxes.
func (q *request) listMailboxes() (any, error) {
	before, err := q.query.number("before", 0, maxExactNumber)
	if err != nil {
		return nil, refusal(sluice.CodeInvalid, "before is %.32q, want the number of a mail, from 1", q.query.Get("before"))
	}
	limit, err := q.query.number("limit", mailboxPage, maxMailboxPage)
	if err != nil {
		return nil, err
	}
	page := MailboxPage{Mails: []MailboxMail{}}
	to := q.query.Get("to")
	if utf8.RuneCountInString(to) > maxMailboxTo {
		return nil, refusal(sluice.CodeInvalid, "to has more than %d characters, want an address", maxMailboxTo)
	}
	for _, k := range q.Mailboxes.Mails(to, int64(before), limit+1) {
		if len(page.Mails) == limit {
			page.Next = page.Mails[limit-1].Number
			break
		}
		page.Mails = append(page.Mails, mailboxMail(&k))
	}
	return page, nil
}

// showMailbox is GET /v1/mailboxes/{number}.
func (q *request) showMailbox() (any, error) {
	text := q.PathValue("number")
	number, err := strconv.ParseInt(text, 10, 64)
	if err != nil || number < 1 {
		return nil, refusal(sluice.CodeNotFound, "%.32q is no mail, want its number, from 1", text)
	}
	k, ok := q.Mailboxes.Mail(number)
	if !ok {
		return nil, noMail(number)
	}
	m := mailboxMail(&k)
	m.Raw = base64.StdEncoding.EncodeToString(k.Content)
	return m, nil
}

func noMail(number int64) error {
	return refusal(sluice.CodeNotFound, "mail %d is not in the mailboxes of this process: only its newest are kept, in memory", number)
}

func mailboxMail(k *sinkbox.Kept) MailboxMail {
	return MailboxMail{Number: k.Number, Time: k.Time.UTC().Format(time.RFC3339Nano), Send: k.Send, From: k.From, To: k.To, Subject: subjectOf(k.Content), Tags: k.Tags, Bytes: len(k.Content)}
}

// subjectOf returns the subject of a message, decoded; empty if there is none that
// can be read.
func subjectOf(message []byte) string {
	m, err := mail.ReadMessage(bytes.NewReader(message))
	if err != nil {
		return ""
	}
	raw := m.Header.Get("Subject")
	subject, err := (&mime.WordDecoder{CharsetReader: libmime.UTF8}).DecodeHeader(raw)
	if err != nil {
		subject = raw
	}
	return subject[:min(len(subject), maxSubject)]
}
