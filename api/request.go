package api

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"sync/atomic"

	"sluice/store"
)

// maxRequestIDBytes bounds the name that a caller gives a request.
const maxRequestIDBytes = 64

// requestIDs names requests by what the caller calls them. Otherwise it uses a
// UUID (RFC 9562, 5.8) of 74 random bits of this process and a count of 48.
type requestIDs struct {
	prefix [24]byte // the UUID up to its last hyphen
	last   atomic.Uint64
}

func (ids *requestIDs) init() {
	var random [10]byte
	_, _ = rand.Read(random[:]) // never fails (crypto/rand)
	random[6] = random[6]&0x0f | 0x80
	random[8] = random[8]&0x3f | 0x80
	copy(ids.prefix[:], fmt.Sprintf("%x-%x-%x-%x-", random[:4], random[4:6], random[6:8], random[8:]))
}

// idOf returns the request's name. What a caller sends is written to logs and
// sent back, so only what is harmless there is taken.
func (ids *requestIDs) idOf(r *http.Request) string {
	if id := r.Header.Get("X-Request-Id"); saneID(id) {
		return id
	}
	return ids.next()
}

// next returns a new name.
func (ids *requestIDs) next() string {
	var b [36]byte
	copy(b[:], ids.prefix[:])
	n := ids.last.Add(1)
	for i := len(b) - 1; i >= len(ids.prefix); i-- {
		b[i] = "0123456789abcdef"[n&15]
		n >>= 4
	}
	return string(b[:])
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
	sender string // the id of the key, or of the account
	status int

	// Of a request by a session: whose it is, and, of a change, the id of its entry in
	// the audit log, and what stands there of the body and of what it changed.
	account       *store.Account
	audit         string
	detail        string
	before, after string
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
