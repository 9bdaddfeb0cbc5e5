package api

import (
	"encoding/json"
	"errors"
	"net/http"

	"sluice"
	"sluice/journey/desk"
	"sluice/journey/plan"
	"sluice/mail"
	"sluice/store"
	"sluice/user/profile"
)

// errorBody is the one shape of a refusal:
//
//	{"error": {"code": "not_found", "message": "...", "index": 3, "request_id": "..."}}
//
// Index is the place of the item in the request, absent if it is about none.
//
// Message is there for who may be a client of Braze's API: it looks for that.
type errorBody struct {
	Message string      `json:"message,omitempty"`
	Error   errorDetail `json:"error"`

	*outcome // of the items, if the request came so far
}

type errorDetail struct {
	Code      sluice.Code `json:"code"`
	Message   string      `json:"message"`
	Index     *int        `json:"index,omitempty"`
	RequestID string      `json:"request_id,omitempty"`

	Problems []plan.Problem `json:"problems,omitempty"` // of a journey

	NextOffset *int64 `json:"next_offset,omitempty"` // of an import: where it goes on
}

// statusOf is the frontier between the domain's codes and HTTP's.
func statusOf(code sluice.Code) int {
	if status, ok := statuses[code]; ok {
		return status
	}
	return http.StatusInternalServerError
}

var statuses = map[sluice.Code]int{
	sluice.CodeInvalid:      http.StatusBadRequest,
	sluice.CodeUnauthorized: http.StatusUnauthorized,
	sluice.CodeForbidden:    http.StatusForbidden,
	sluice.CodeNotFound:     http.StatusNotFound,
	sluice.CodeConflict:     http.StatusConflict,
	sluice.CodeTooLarge:     http.StatusRequestEntityTooLarge,
	sluice.CodeTooFast:      http.StatusTooManyRequests,
	sluice.CodeUnavailable:  http.StatusServiceUnavailable,
}

// writeError answers with an error. What is not a *sluice.Error is the
// operator's business: it is logged, and the caller learns only that it
// happened.
func (s *Server) writeError(w http.ResponseWriter, r *http.Request, err error) {
	var e *sluice.Error
	if refused, ok := errors.AsType[*tooFast](err); ok {
		w.Header().Set("Retry-After", refused.retryAfter())
		e = &sluice.Error{Code: sluice.CodeTooFast, Message: refused.Error(), Index: -1}
	} else if !errors.As(err, &e) {
		s.logFailed(w, r, err)
		e = errInternal
	}
	status := statusOf(e.Code)
	if special, ok := errors.AsType[*statusError](err); ok {
		status = special.status
	}
	if status == http.StatusRequestEntityTooLarge {
		drain(r)
	}
	full, _ := errors.AsType[*mail.WaitingFull](err)
	_, looks := errors.AsType[*lookError](err)
	switch {
	case full != nil, e.Code == sluice.CodeTooFast && w.Header().Get("Retry-After") == "":
		w.Header().Set("Retry-After", waitingRetrySeconds)
	case e.Code == sluice.CodeUnavailable && !looks:
		w.Header().Set("Retry-After", "1")
	case e.Code == sluice.CodeUnauthorized:
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	body := errorBody{s.brazeMessage(w, r, e), detail(e, idOf(w)), nil}
	if refused, ok := errors.AsType[*desk.Refused](err); ok {
		body.Error.Problems = refused.Problems
	}
	if other, ok := errors.AsType[*store.OtherOffset](err); ok {
		body.Error.NextOffset = &other.Want
	}
	s.writeJSON(w, status, body)
}

// logFailed logs an error that is the operator's. It names the pattern of the path:
// what a path is filled with may name a user.
func (s *Server) logFailed(w http.ResponseWriter, r *http.Request, err error) {
	s.log.Error("request failed", "id", idOf(w), "method", r.Method, "path", r.Pattern, "error", err)
}

// waitingRetrySeconds is after what time somebody may try again whose mail was
// refused because too much waits.
const waitingRetrySeconds = "10"

// errInternal is all that a caller learns of an error that is the operator's.
var errInternal = refusal(sluice.CodeInternal, "the request failed; the log of the server says why")

func detail(e *sluice.Error, requestID string) errorDetail {
	d := errorDetail{Code: e.Code, Message: e.Message, RequestID: requestID}
	if e.Index >= 0 {
		d.Index = &e.Index
	}
	return d
}

// statusError is an error with a status of its own, where HTTP has more words
// than the domain.
type statusError struct {
	status int
	err    *sluice.Error
}

func (e *statusError) Error() string { return e.err.Error() }
func (e *statusError) Unwrap() error { return e.err }

// lookError is an error whose caller is to look whether the request is in: no header asks to
// send it again.
type lookError struct{ err *sluice.Error }

func (e *lookError) Error() string { return e.err.Error() }
func (e *lookError) Unwrap() error { return e.err }

// refusal returns an error about the request as a whole.
func refusal(code sluice.Code, format string, args ...any) *sluice.Error {
	return sluice.Refuse(code, format, args...)
}

// writeJSON answers with a body.
func (s *Server) writeJSON(w http.ResponseWriter, status int, body any) {
	text, err := json.Marshal(body)
	if err != nil {
		s.log.Error("encode answer", "id", idOf(w), "error", err)
		status, text = http.StatusInternalServerError, []byte(`{"error":{"code":"internal","message":"the answer could not be encoded"}}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	s.write(w, append(text, '\n'))
}

// write writes a body. A failed write has nobody left to tell.
func (s *Server) write(w http.ResponseWriter, text []byte) {
	if _, err := w.Write(text); err != nil {
		s.log.Debug("answer not delivered", "id", idOf(w), "error", err)
	}
}

// timeText writes a time, nothing if there is none.
func timeText(millis int64) string {
	if millis == 0 {
		return ""
	}
	return profile.TimeText(millis)
}
