package api

import (
	"encoding/json"
	"errors"
	"net/http"

	"sluice"
)

// errorBody is the one shape of a refusal:
//
//	{"error": {"code": "not_found", "message": "...", "index": 3}}
//
// Index is the place of the item in the request, absent if it is about none.
type errorBody struct {
	Error errorDetail `json:"error"`
}

type errorDetail struct {
	Code    sluice.Code `json:"code"`
	Message string      `json:"message"`
	Index   *int        `json:"index,omitempty"`
}

// statusOf is the frontier between the domain's codes and HTTP's.
func statusOf(code sluice.Code) int {
	switch code {
	case sluice.CodeInvalid:
		return http.StatusBadRequest
	case sluice.CodeUnauthorized:
		return http.StatusUnauthorized
	case sluice.CodeNotFound:
		return http.StatusNotFound
	case sluice.CodeTooLarge:
		return http.StatusRequestEntityTooLarge
	case sluice.CodeUnavailable:
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

// writeError answers with an error. What is not a *sluice.Error is the
// operator's business: it is logged, and the caller learns only that it
// happened.
func (s *Server) writeError(w http.ResponseWriter, r *http.Request, err error) {
	var e *sluice.Error
	if !errors.As(err, &e) {
		s.log.Error("request failed", "method", r.Method, "path", r.URL.Path, "error", err)
		e = &sluice.Error{Code: sluice.CodeInternal, Message: "the request failed; the log of the server says why", Index: -1}
	}
	d := errorDetail{Code: e.Code, Message: e.Message}
	if e.Index >= 0 {
		d.Index = &e.Index
	}
	if e.Code == sluice.CodeUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	s.writeJSON(w, statusOf(e.Code), errorBody{d})
}

// writeJSON answers with a body. A failed write has nobody left to tell.
func (s *Server) writeJSON(w http.ResponseWriter, status int, body any) {
	text, err := json.Marshal(body)
	if err != nil {
		s.log.Error("encode answer", "error", err)
		status, text = http.StatusInternalServerError, []byte(`{"error":{"code":"internal","message":"the answer could not be encoded"}}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if _, err := w.Write(append(text, '\n')); err != nil {
		s.log.Debug("answer not delivered", "error", err)
	}
}
