package api

import (
	"bytes"
	"encoding/base64"
	"mime"
	"net/http"
	"net/mail"
	"strconv"
	"time"
	"unicode/utf8"

	"sluice"
	"sluice/lib/key"
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

// mailboxRoutes are the paths of the built-in mailboxes (INTERFACES.md, section 6).
func (s *Server) mailboxRoutes() []route {
	read := []string{http.MethodGet, http.MethodHead}
	of := func(answer storeAnswer[Mailboxes]) http.HandlerFunc {
		return ofStore(s, func(v *Services) Mailboxes { return v.Mailboxes }, key.MailboxesRead, key.MailboxesRead, nil, answer)
	}
	return []route{{mailboxesPath, read, of(s.listMailboxes)}, {mailboxPath, read, of(s.showMailbox)}}
}

// listMailboxes is GET /v1/mailboxes.
func (s *Server) listMailboxes(_ http.ResponseWriter, r *http.Request, box Mailboxes) (int, any, error) {
	query, err := readQuery(r, []string{"to", "before", "limit"})
	if err != nil {
		return 0, nil, err
	}
	before, limit := int64(0), int64(mailboxPage)
	if text := query.Get("before"); text != "" {
		if before, err = strconv.ParseInt(text, 10, 64); err != nil || before < 1 || before > maxExactNumber {
			return 0, nil, refusal(sluice.CodeInvalid, "before is %.32q, want the number of a mail, from 1", text)
		}
	}
	if text := query.Get("limit"); text != "" {
		if limit, err = strconv.ParseInt(text, 10, 64); err != nil || limit < 1 || limit > maxMailboxPage {
			return 0, nil, refusal(sluice.CodeInvalid, "limit is %.32q, want 1 to %d", text, maxMailboxPage)
		}
	}
	page := MailboxPage{Mails: []MailboxMail{}}
	to := query.Get("to")
	if utf8.RuneCountInString(to) > maxMailboxTo {
		return 0, nil, refusal(sluice.CodeInvalid, "to has more than %d characters, want an address", maxMailboxTo)
	}
	for _, k := range box.Mails(to, before, int(limit)+1) {
		if len(page.Mails) == int(limit) {
			page.Next = page.Mails[limit-1].Number
			break
		}
		page.Mails = append(page.Mails, mailboxMail(&k))
	}
	return http.StatusOK, page, nil
}

// showMailbox is GET /v1/mailboxes/{number}.
func (s *Server) showMailbox(_ http.ResponseWriter, r *http.Request, box Mailboxes) (int, any, error) {
	if _, err := readQuery(r, nil); err != nil {
		return 0, nil, err
	}
	text := r.PathValue("number")
	number, err := strconv.ParseInt(text, 10, 64)
	if err != nil || number < 1 {
		return 0, nil, refusal(sluice.CodeNotFound, "%.32q is no mail, want its number, from 1", text)
	}
	k, ok := box.Mail(number)
	if !ok {
		return 0, nil, refusal(sluice.CodeNotFound, "mail %d is not in the mailboxes of this process: only its newest are kept, in memory", number)
	}
	m := mailboxMail(&k)
	m.Raw = base64.StdEncoding.EncodeToString(k.Content)
	return http.StatusOK, m, nil
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
	subject, err := new(mime.WordDecoder).DecodeHeader(raw)
	if err != nil {
		subject = raw
	}
	return subject[:min(len(subject), maxSubject)]
}
