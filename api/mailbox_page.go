package api

import (
	"encoding/base64"
	"html"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net/http"
	"net/mail"
	"strconv"
	"strings"

	"sluice/lib/key"
	libmime "sluice/lib/mime"
)

// A mail of the built-in mailboxes is shown as a page of its own, by the dashboard in a
// frame. What stands in a mail is anybody's: the policy lets it load and run nothing, and
// the sandbox gives it an origin of its own (CSP 3, 6.3.2), even if it is opened alone.

const (
	mailboxViewPath = mailboxPath + "/view"
	mailViewPolicy  = "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'self'; base-uri 'none'; form-action 'none'"

	maxViewBytes = 4 << 20 // of the part that is shown
	maxViewDepth = 8       // parts within parts
	maxViewParts = 100     // of one part
)

// viewMailbox is GET /v1/mailboxes/{number}/view.
func (s *Server) viewMailbox(w http.ResponseWriter, r *http.Request) {
	_, err := s.admitted(w, r, key.MailboxesRead)
	services := s.program.Services()
	if err == nil {
		_, err = readQuery(r, nil)
	}
	if err == nil && services == NotRunning {
		err = errNotRunning
	}
	if err != nil {
		s.writeError(w, r, err)
		return
	}
	number, _ := strconv.ParseInt(r.PathValue("number"), 10, 64)
	kept, ok := services.Mailboxes.Mail(number)
	if !ok {
		s.writeError(w, r, noMail(number))
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", mailViewPolicy)
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Frame-Options", "SAMEORIGIN")
	w.WriteHeader(http.StatusOK)
	s.write(w, []byte(viewOf(kept.Content)))
}

// viewOf returns the HTML of a message, or its text as HTML.
func viewOf(message []byte) string {
	const none = "<p>This mail has no text that can be shown.</p>"
	m, err := mail.ReadMessage(strings.NewReader(string(message)))
	if err != nil {
		return none
	}
	page, plain := findText(m.Header, m.Body, 0)
	switch {
	case page != "":
		return page
	case plain != "":
		return "<pre style=\"white-space:pre-wrap;font:14px/1.5 ui-monospace,monospace\">" + html.EscapeString(plain) + "</pre>"
	}
	return none
}

// header is that of a message or of a part.
type header interface{ Get(name string) string }

// findText returns the first HTML and the first plain text in a part.
func findText(h header, body io.Reader, depth int) (page, plain string) {
	kind, parameters, err := mime.ParseMediaType(h.Get("Content-Type"))
	if err != nil {
		kind = "text/plain"
	}
	if strings.HasPrefix(kind, "multipart/") && depth < maxViewDepth {
		parts := multipart.NewReader(body, parameters["boundary"])
		for range maxViewParts {
			part, err := parts.NextRawPart()
			if err != nil || page != "" {
				break
			}
			html, text := findText(part.Header, part, depth+1)
			page = html
			if plain == "" {
				plain = text
			}
		}
		return page, plain
	}
	if kind != "text/html" && kind != "text/plain" || strings.HasPrefix(strings.ToLower(h.Get("Content-Disposition")), "attachment") {
		return "", ""
	}
	switch strings.ToLower(strings.TrimSpace(h.Get("Content-Transfer-Encoding"))) {
	case "base64":
		body = base64.NewDecoder(base64.StdEncoding, body)
	case "quoted-printable":
		body = quotedprintable.NewReader(body)
	}
	if decoded, err := libmime.UTF8(parameters["charset"], body); err == nil { // else its ASCII can be read
		body = decoded
	}
	text, _ := io.ReadAll(io.LimitReader(body, maxViewBytes)) // what cannot be read is not shown
	if kind == "text/html" {
		return strings.ToValidUTF8(string(text), "�"), ""
	}
	return "", strings.ToValidUTF8(string(text), "�")
}
