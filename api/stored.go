package api

import (
	"errors"
	"net/http"

	"sluice"
	"sluice/lib/key"
)

// storeAnswer answers a request that was let in: a status, and what is written
// as JSON, if it is not nil.
type storeAnswer[S any] func(w http.ResponseWriter, r *http.Request, store S) (status int, body any, err error)

// ofStore lets in requests about what a store keeps. Those with a method that
// changes something need one permission, those that read need another. store
// says which of the services it is.
func ofStore[S comparable](s *Server, store func(*Services) S, reads, changes key.Permission, writes map[string]storeAnswer[S], read storeAnswer[S]) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		answer, permission := writes[r.Method], changes
		if answer == nil {
			answer, permission = read, reads
		}
		who, err := s.admitted(w, r, permission)
		if err != nil {
			s.writeError(w, r, err)
			return
		}
		s.rates.spend(who, 1)
		var none S
		found := store(s.program.Services())
		if found == none {
			s.writeError(w, r, errNotRunning)
			return
		}
		status, body, err := answer(w, r, found)
		switch {
		case err != nil:
			s.writeError(w, r, s.storeError(w, err))
		case body == nil:
			w.WriteHeader(status)
		default:
			s.writeJSON(w, status, body)
		}
	}
}

// storeError is what a caller is told of an error of a store.
func (s *Server) storeError(w http.ResponseWriter, err error) error {
	if _, ok := errors.AsType[*sluice.Error](err); ok {
		return err
	}
	s.log.Warn("request about what is stored failed", "id", idOf(w), "error", err)
	return refusal(sluice.CodeUnavailable, "the database does not answer, or not in time; ask again")
}

// readObject reads a body that is to be one JSON object of at most maxBytes. It
// hands its text to parse, which keeps nothing of it.
func (s *Server) readObject(r *http.Request, maxBytes int, parse func(text string) error) error {
	body, err := s.holdJSON(r, maxBytes)
	if err != nil {
		return err
	}
	defer body.release()
	return parse(body.text())
}
