package api

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"html/template"
	"net/http"
	"strings"
)

// page is a page for people, made of HTML with one style and no script.
type page struct {
	template *template.Template
	style    string // what a policy calls its style
}

func newPage(name, html string) *page {
	return &page{template.Must(template.New(name).Parse(html)), styleHash(html)}
}

// styleHash is the name of a page's one style in a policy (CSP 3, 6.7.3.3).
func styleHash(page string) string {
	_, style, _ := strings.Cut(page, "<style>")
	style, _, _ = strings.Cut(style, "</style>")
	hash := sha256.Sum256([]byte(style))
	return "'sha256-" + base64.StdEncoding.EncodeToString(hash[:]) + "'"
}

// Where forms of a page lead: one that has none, and one that asks this server.
const (
	noForms   = "'none'"
	formsHere = "'self'"
)

// makePage answers with a page that shows a view.
func (s *Server) makePage(w http.ResponseWriter, status int, p *page, formAction string, view any) {
	var b bytes.Buffer
	if err := p.template.Execute(&b, view); err != nil {
		s.log.Error("make a page", "id", idOf(w), "error", err)
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	s.writeHTML(w, status, p.style, formAction, b.Bytes())
}

// writeHTML answers with a page that has nothing but its own style and, at most,
// forms that lead to where formAction says.
func (s *Server) writeHTML(w http.ResponseWriter, status int, style, formAction string, html []byte) {
	s.beginHTML(w, status, style, formAction)
	s.write(w, html)
}

// beginHTML is writeHTML of a page whose text the caller writes.
func (s *Server) beginHTML(w http.ResponseWriter, status int, style, formAction string) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src "+style+"; base-uri 'none'; form-action "+formAction+"; frame-ancestors 'none'")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("X-Frame-Options", "DENY")
	h.Set("X-Robots-Tag", "noindex")
	w.WriteHeader(status)
}
