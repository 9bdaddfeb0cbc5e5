package account

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/crypto/argon2"

	"sluice"
)

// A password is kept as its argon2id hash (RFC 9106) in the PHC string format, which names
// the parameters. So they can be raised later, and old hashes still be compared. 19 MiB
// and 2 passes are what OWASP recommends where memory is bounded.
const (
	hashMemoryKiB = 19 << 10
	hashPasses    = 2
	hashThreads   = 1
	hashBytes     = 32
	saltBytes     = 16

	// parallelHashes bounds the memory of hashing: 38 MiB. waitingHashes more wait for
	// their turn, for hashWait; others are told to come back.
	parallelHashes = 2
	waitingHashes  = 16
	hashWait       = 5 * time.Second

	// MinPasswordCharacters and MaxPasswordBytes bound a password.
	MinPasswordCharacters = 12
	MaxPasswordBytes      = 256
)

// CheckPassword returns why a text can be no password, an *sluice.Error.
func CheckPassword(password string) error {
	if !utf8.ValidString(password) || utf8.RuneCountInString(password) < MinPasswordCharacters || len(password) > MaxPasswordBytes {
		return sluice.Refuse(sluice.CodeInvalid, "password: want at least %d characters, and at most %d bytes of UTF-8", MinPasswordCharacters, MaxPasswordBytes)
	}
	return nil
}

// NewPassword makes a password of 100 random bits that is easy to copy.
func NewPassword() string { return strings.ToLower(rand.Text()[:20]) }

// hasher hashes, parallelHashes at a time.
type hasher struct {
	slots   chan struct{}
	waiting chan struct{}
}

func newHasher() *hasher {
	return &hasher{slots: make(chan struct{}, parallelHashes), waiting: make(chan struct{}, parallelHashes+waitingHashes)}
}

// take takes a slot; done gives it back.
func (h *hasher) take(ctx context.Context) (done func(), err error) {
	busy := sluice.Refuse(sluice.CodeTooFast, "many sign in at the moment; try again in some seconds")
	select {
	case h.waiting <- struct{}{}:
	default:
		return nil, busy
	}
	ctx, cancel := context.WithTimeout(ctx, hashWait)
	defer cancel()
	select {
	case h.slots <- struct{}{}:
		return func() { <-h.slots; <-h.waiting }, nil
	case <-ctx.Done():
		<-h.waiting
		return nil, busy
	}
}

// hash returns what is kept of a password.
func (h *hasher) hash(ctx context.Context, password string) (string, error) {
	done, err := h.take(ctx)
	if err != nil {
		return "", err
	}
	defer done()
	salt := make([]byte, saltBytes)
	_, _ = rand.Read(salt) // never fails (crypto/rand)
	sum := argon2.IDKey([]byte(password), salt, hashPasses, hashMemoryKiB, hashThreads, hashBytes)
	b64 := base64.RawStdEncoding
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argon2.Version, hashMemoryKiB, hashPasses, hashThreads, b64.EncodeToString(salt), b64.EncodeToString(sum)), nil
}

// absent is compared where there is no account: an answer takes as long as for one that
// there is. Its sum is of no password that is known.
const absent = "$argon2id$v=19$m=19456,t=2,p=1$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"

// matches reports whether a password is the one that a text was kept of.
func (h *hasher) matches(ctx context.Context, kept, password string) (bool, error) {
	done, err := h.take(ctx)
	if err != nil {
		return false, err
	}
	defer done()
	var version int
	var memory, passes uint32
	var threads uint8
	parts := strings.Split(kept, "$")
	if len(parts) != 6 || parts[1] != "argon2id" {
		return false, nil
	}
	_, err1 := fmt.Sscanf(parts[2], "v=%d", &version)
	_, err2 := fmt.Sscanf(parts[3], "m=%d,t=%d,p=%d", &memory, &passes, &threads)
	salt, err3 := base64.RawStdEncoding.DecodeString(parts[4])
	want, err4 := base64.RawStdEncoding.DecodeString(parts[5])
	for _, err := range []error{err1, err2, err3, err4} {
		if err != nil {
			return false, nil
		}
	}
	// What stands in the table is bounded as well: a row may be somebody's forgery.
	if version != argon2.Version || memory > 4*hashMemoryKiB || passes < 1 || passes > 10 || threads < 1 || threads > 4 || len(want) != hashBytes {
		return false, nil
	}
	sum := argon2.IDKey([]byte(password), salt, passes, memory, threads, hashBytes)
	return subtle.ConstantTimeCompare(sum, want) == 1, nil
}
