package api

import (
	"crypto/rand"
	"net/http"
	"strconv"
	"sync/atomic"
)

// maxRequestIDBytes bounds the name that a caller gives a request.
const maxRequestIDBytes = 64

// requestIDs names requests: by what the caller calls them, or by a random
// text of this process and a count.
type requestIDs struct {
	prefix string
	last   atomic.Uint64
}

func (ids *requestIDs) init() { ids.prefix = rand.Text()[:10] + "-" }

// idOf returns the request's name. What a caller sends is written to logs and
// sent back, so only what is harmless there is taken.
func (ids *requestIDs) idOf(r *http.Request) string {
	if id := r.Header.Get("X-Request-Id"); saneID(id) {
		return id
	}
	return ids.prefix + strconv.FormatUint(ids.last.Add(1), 36)
}

func saneID(s string) bool {
	if s == "" || len(s) > maxRequestIDBytes {
		return false
	}
	for i := 0; i < len(s); i++ {
		c := s[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '-' && c != '_' && c != '.' {
			return false
		}
	}
	return true
}

// answer is the writer of an answer, which knows what the logs want to know.
type answer struct {
	http.ResponseWriter
	id     string
	sender string // the id of the key
	status int
}

func (a *answer) WriteHeader(status int) {
	a.status = status
	a.ResponseWriter.WriteHeader(status)
}

// Unwrap is for http.ResponseController.
func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// idOf returns the name of the request that a writer answers.
func idOf(w http.ResponseWriter) string {
	if a, ok := w.(*answer); ok {
		return a.id
	}
	return ""
}
