package hook

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"sync"
	"time"
)

// maxTokens is how many tokens a process remembers in each of two halves, with some 100
// bytes each.
const maxTokens = 65_536

// tokens remembers which body came with a token. Mailgun signs a time and a token, and
// not the body. So what has once been seen of both would let anybody post any body, for
// as long as the time holds. A token with the same body is a repeat: Mailgun repeats for
// hours, with the signature of the first attempt. It is stored once all the same.
//
// A token is known by its signature, which says with which key it was signed. So it holds
// for one body at all sources that have this key together, and two sources with keys of
// their own do not disturb each other.
//
// All processes remember together (first), since a repeat may come to any of them. What
// that passes over, beyond its bound, a process remembers by itself. When one half is
// full, the older one is forgotten.
type tokens struct {
	// first returns with which body a token came first; known is false if it is not
	// remembered. nil: each process is alone.
	first func(ctx context.Context, made time.Time, token, body string, ttl time.Duration) (first string, known bool, err error)

	mu           sync.Mutex
	young, older map[tokenKey]tokenKey // the hash of a body by that of a signature
}

type tokenKey [16]byte

// String is what others are told: no token, and no body.
func (k tokenKey) String() string { return hex.EncodeToString(k[:]) }

func hashOf(text []byte) (k tokenKey) {
	sum := sha256.Sum256(text)
	copy(k[:], sum[:])
	return k
}

// fits reports whether a token with a signature, made at a time, is new or came with this
// body before, and remembers it. An error says that this could not be asked.
func (t *tokens) fits(ctx context.Context, signature string, body []byte, made time.Time) (bool, error) {
	key, print := hashOf([]byte(signature)), hashOf(body)
	if before, seen := t.seen(key); seen {
		return before == print, nil
	}
	if t.first != nil {
		first, known, err := t.first(ctx, made, key.String(), print.String(), mailgunMaxAge+time.Hour)
		if err != nil || known && first != print.String() {
			return false, err
		}
	}
	return t.keep(key, print) == print, nil
}

// seen returns the body that came with a token, as far as this process knows.
func (t *tokens) seen(key tokenKey) (before tokenKey, seen bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if before, seen = t.young[key]; !seen {
		before, seen = t.older[key]
	}
	return before, seen
}

// keep remembers a token, and returns the body that it is remembered with: another one
// may have come at the same moment.
func (t *tokens) keep(key, print tokenKey) tokenKey {
	t.mu.Lock()
	defer t.mu.Unlock()
	if before, seen := t.young[key]; seen {
		return before
	}
	if len(t.young) >= maxTokens {
		t.older, t.young = t.young, nil
	}
	if t.young == nil {
		t.young = make(map[tokenKey]tokenKey)
	}
	t.young[key] = print
	return print
}
