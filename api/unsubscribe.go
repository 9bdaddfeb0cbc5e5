package api

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"sluice/lib/token"
	"sluice/user/consent"
)

var badUnsubscribe = badLink{
	failed:  confirmPage{Title: "You are not unsubscribed yet", Text: "Please try again in a minute."},
	expired: confirmPage{Title: "This link has expired", Text: "Please take that of a newer mail."},
}

// How long a page waits until an unsubscription is in force in this process,
// and how often it looks. A suppression takes half a second
// (suppress.Follower).
const (
	unsubscribedWithin = 3 * time.Second
	unsubscribedLook   = 50 * time.Millisecond
)

// unsubscribe is GET and POST /unsubscribe. A POST comes from the button of the
// page, or from a mailbox whose owner has pressed its own button. It then has
// List-Unsubscribe=One-Click in its body, of whichever type, no cookies, and
// follows no redirect (RFC 8058, 3.2). So the link says all, and nobody
// looks at the body: one click needs nothing else.
func (s *Server) unsubscribe(w http.ResponseWriter, r *http.Request) {
	u, text, err := s.openUnsubscribe(r)
	service := s.program.Services().Consent
	if err == nil && service == nil {
		err = errNotRunning
	}
	if err == nil && r.Method == http.MethodPost {
		_, _ = readSmall(w, r, maxOptInBytes) // what it says, or lacks, is no reason to go on mailing
		_, err = s.record(w, func(ctx context.Context, to consent.Writer) (consent.Link, error) {
			return consent.Link{}, service.Unsubscribe(ctx, to, u)
		})
	}
	switch {
	case err != nil:
		s.writeBadLink(w, r, err, &badUnsubscribe)
	case r.Method != http.MethodPost:
		s.writePage(w, http.StatusOK, "", confirmPage{Title: "Unsubscribe?",
			Text: "Press the button, and no more newsletters and offers will be sent to " + u.Email + ".", Button: "Unsubscribe", Action: "?t=" + text})
	case !unsubscribed(r.Context(), service, u.Email): // it is durable, and the store is behind
		s.writePage(w, http.StatusOK, "", confirmPage{Title: "You will be unsubscribed",
			Text: "We have noted that no more newsletters and offers are to be sent to " + u.Email + ". There is nothing more to do. It may take some minutes until it is in force."})
	default:
		s.writePage(w, http.StatusOK, "", confirmPage{Title: "You are unsubscribed",
			Text: "No more newsletters and offers will be sent to " + u.Email + "."})
	}
}

// unsubscribed waits until an unsubscription is in force, not for long, and
// reports whether it is: a stronger reason may hide it, and stops mail as well.
func unsubscribed(ctx context.Context, service *consent.Service, address string) bool {
	if service.Stopped == nil {
		return false
	}
	ctx, stop := context.WithTimeout(ctx, unsubscribedWithin)
	defer stop()
	look := time.NewTicker(unsubscribedLook)
	defer look.Stop()
	for {
		if stopped, _ := service.Stopped(address); stopped {
			return true
		}
		select {
		case <-look.C:
		case <-ctx.Done():
			return false
		}
	}
}

// openUnsubscribe reads the token of a link.
func (s *Server) openUnsubscribe(r *http.Request) (*consent.Unsubscription, string, error) {
	service := s.program.Services().Consent
	if service == nil {
		return nil, "", errNotRunning
	}
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil || len(values["t"]) != 1 {
		return nil, "", token.ErrInvalid
	}
	text := values.Get("t")
	u, err := service.OpenUnsubscribe(text)
	return u, text, err
}
