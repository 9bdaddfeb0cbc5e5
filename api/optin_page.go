package api

import (
	"context"
	_ "embed"
	"errors"
	"mime"
	"net/http"
	"net/url"
	"strings"

	"sluice"
	"sluice/lib/connlimit"
	"sluice/lib/token"
	"sluice/user/consent"
)

// The page behind a link has a button, for a link alone must change nothing:
// what scans mails for harm follows all of their links. It has no script and
// nothing from elsewhere.
var (
	//go:embed optin.html
	optInHTML string

	optInPage = newPage("optin", optInHTML)
)

// confirmPage is what the page shows; with a Button it has one, which posts to
// Action, and a Token if there is one.
type confirmPage struct {
	Title, Text    string
	Button, Action string
	Token          string
}

// badLink is what a person is told whose link cannot be taken.
type badLink struct{ failed, expired confirmPage }

var badOptIn = badLink{
	failed:  confirmPage{Title: "This cannot be confirmed now", Text: "Please try again in a minute."},
	expired: confirmPage{Title: "This link has expired", Text: "Please fill in the form once more."},
}

// optInConfirm is GET and POST /optin/confirm.
func (s *Server) optInConfirm(w http.ResponseWriter, r *http.Request) {
	opened, text, err := s.openLink(w, r)
	if err == nil && r.Method == http.MethodPost {
		_, err = s.record(w, func(ctx context.Context, to consent.Writer) (consent.Link, error) {
			return consent.Link{}, s.program.Services().Consent.Confirm(ctx, to, opened, connlimit.Sender(r, s.proxies))
		})
	}
	switch {
	case err != nil:
		s.writeBadLink(w, r, err, &badOptIn)
	case r.Method != http.MethodPost:
		// A browser holds the redirect that follows the button against the
		// policy as well.
		s.writePage(w, http.StatusOK, opened.Form.ConfirmedOrigin(), confirmPage{Title: "Please confirm",
			Text:   "Press the button to confirm that mail may be sent to " + opened.Email + ".",
			Button: "Confirm", Action: "confirm", Token: text})
	case opened.Form.ConfirmedURL != "":
		w.Header().Set("Location", opened.Form.ConfirmedURL)
		s.writePage(w, http.StatusSeeOther, "", confirmPage{Title: "Confirmed", Text: "Thank you."})
	default:
		s.writePage(w, http.StatusOK, "", confirmPage{Title: "Confirmed", Text: "Thank you. Mail will come to " + opened.Email + "."})
	}
}

// openLink reads the token of a link, or of the button behind it.
func (s *Server) openLink(w http.ResponseWriter, r *http.Request) (*consent.Opened, string, error) {
	service := s.program.Services().Consent
	if service == nil {
		return nil, "", errNotRunning
	}
	query := r.URL.RawQuery
	if r.Method == http.MethodPost {
		if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != typeForm {
			return nil, "", &statusError{http.StatusUnsupportedMediaType, refusal(sluice.CodeInvalid, "Content-Type is not understood; send %s", typeForm)}
		}
		var err error
		if query, err = readSmall(w, r, maxOptInBytes); err != nil {
			return nil, "", err
		}
	}
	values, err := url.ParseQuery(query)
	if err != nil || len(values["t"]) != 1 {
		return nil, "", token.ErrInvalid
	}
	text := values.Get("t")
	opened, err := service.Open(text)
	return opened, text, err
}

// writeBadLink says to a person why a link cannot be taken.
func (s *Server) writeBadLink(w http.ResponseWriter, r *http.Request, err error, bad *badLink) {
	page := bad.failed
	status := http.StatusInternalServerError
	e, known := errors.AsType[*sluice.Error](err)
	special, hasStatus := errors.AsType[*statusError](err)
	often, tooOften := errors.AsType[*tooFast](err)
	switch {
	case tooOften:
		status, page.Text = http.StatusTooManyRequests, often.Error()
		w.Header().Set("Retry-After", often.retryAfter())
	case errors.Is(err, token.ErrExpired):
		status = http.StatusGone
		page = bad.expired
	case errors.Is(err, token.ErrInvalid):
		status = http.StatusBadRequest
		page = confirmPage{Title: "This link is not valid", Text: "Please take the whole link from the mail, to its last character."}
	case hasStatus:
		status, page.Text = special.status, special.Error()
	case known:
		status = statusOf(e.Code)
		if e.Code == sluice.CodeUnavailable {
			w.Header().Set("Retry-After", "1")
		} else {
			page.Text = e.Message
		}
	default:
		s.logFailed(w, r, err)
	}
	s.writePage(w, status, "", page)
}

// writePage answers with the page; its button may lead to one more origin.
func (s *Server) writePage(w http.ResponseWriter, status int, origin string, page confirmPage) {
	s.makePage(w, status, optInPage, strings.TrimSpace("'self' "+origin), page)
}
