package token

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

// A token is, in base64url without padding (RFC 4648, 5):
//
//	version byte (1), expiry (seconds since 1970, uint64, big-endian),
//	fields (each its length as uvarint, and its bytes), HMAC-SHA-256 of all that
//
// The purpose of a token is in its key: the key of a purpose is derived from
// the secret by HKDF (RFC 5869). So a token of one purpose is none of another,
// whatever its fields are. Every holder of the token can read the fields: keep
// secrets out of them.
//
// A secret is replaced by making it a previous one: what it has signed stays
// good until it expires. Looking up the secret by a number in the token was
// dropped: there are two or three, and trying each costs some microseconds.

// Bounds of tokens and secrets.
const (
	// MinSecretBytes is the least that a secret has.
	MinSecretBytes = 32

	// MaxTextBytes bounds a token, so that a link with it passes everywhere.
	MaxTextBytes = 1800

	// MaxFields bounds what a token carries.
	MaxFields = 16

	version     = 1
	headBytes   = 1 + 8
	infoPrefix  = "sluice token 1: "
	leastLength = headBytes + sha256.Size

	derivedPrefix = "sluice derived key 1: "
)

// Why a token is not taken.
var (
	// ErrInvalid: it was not made here for this purpose, or was changed.
	ErrInvalid = errors.New("the token is not valid")

	// ErrExpired: it was made here for this purpose, and its time is over.
	ErrExpired = errors.New("the token has expired")
)

// encoding is strict: of the last character no bit may be changed unseen.
var encoding = base64.RawURLEncoding.Strict()

// Keys signs by one secret, and knows what earlier ones have signed. Its methods
// may be called from several goroutines at once.
type Keys struct {
	secrets [][]byte // the first one signs
}

// NewKeys returns keys that sign by the first secret. The error says which of
// them is too short, and shows none.
func NewKeys(secrets ...[]byte) (*Keys, error) {
	if len(secrets) == 0 {
		return nil, errors.New("make keys of tokens: there is no secret")
	}
	for i, s := range secrets {
		if len(s) < MinSecretBytes {
			return nil, fmt.Errorf("make keys of tokens: secret %d has %d bytes, want at least %d", i+1, len(s), MinSecretBytes)
		}
	}
	return &Keys{secrets: secrets}, nil
}

// Sign returns a token. The error says that there is too much in it.
func (k *Keys) Sign(purpose string, expires time.Time, fields ...string) (string, error) {
	if len(fields) > MaxFields {
		return "", fmt.Errorf("sign a token: %d fields, at most %d", len(fields), MaxFields)
	}
	b := binary.BigEndian.AppendUint64([]byte{version}, uint64(max(0, expires.Unix())))
	for _, f := range fields {
		b = append(binary.AppendUvarint(b, uint64(len(f))), f...)
	}
	mac, err := sum(k.secrets[0], purpose, b)
	if err != nil {
		return "", err
	}
	text := encoding.EncodeToString(append(b, mac...))
	if len(text) > MaxTextBytes {
		return "", fmt.Errorf("sign a token: it would have %d characters, at most %d", len(text), MaxTextBytes)
	}
	return text, nil
}

// Open returns the fields of a token that was signed for a purpose, or
// ErrInvalid or ErrExpired.
func (k *Keys) Open(purpose, text string, now time.Time) ([]string, error) {
	if len(text) > MaxTextBytes {
		return nil, ErrInvalid
	}
	b, err := encoding.DecodeString(text)
	// The decoder passes over line breaks, which no token has.
	if err != nil || len(b) < leastLength || len(text) != encoding.EncodedLen(len(b)) {
		return nil, ErrInvalid
	}
	b, mac := b[:len(b)-sha256.Size], b[len(b)-sha256.Size:]
	good := false
	for _, secret := range k.secrets {
		want, err := sum(secret, purpose, b)
		if err != nil {
			return nil, err
		}
		good = hmac.Equal(mac, want) || good
	}
	if !good || b[0] != version {
		return nil, ErrInvalid
	}
	if expires := binary.BigEndian.Uint64(b[1:headBytes]); uint64(max(0, now.Unix())) >= expires {
		return nil, ErrExpired
	}
	return readFields(b[headBytes:])
}

// Derive returns a key of sha256.Size bytes for a purpose by each secret, that which
// signs first. It is for tokens of another form than Sign's. Such a key is none of
// Sign's, whatever the purpose.
func (k *Keys) Derive(purpose string) ([][]byte, error) {
	keys := make([][]byte, len(k.secrets))
	for i, secret := range k.secrets {
		var err error
		if keys[i], err = deriveKey(secret, derivedPrefix+purpose); err != nil {
			return nil, err
		}
	}
	return keys, nil
}

// readFields reads what Sign wrote.
func readFields(b []byte) ([]string, error) {
	var fields []string
	for len(b) > 0 {
		n, width := binary.Uvarint(b)
		if width <= 0 || n > uint64(len(b)-width) || len(fields) == MaxFields {
			return nil, ErrInvalid
		}
		fields = append(fields, string(b[width:width+int(n)]))
		b = b[width+int(n):]
	}
	return fields, nil
}

// sum is the HMAC of a text by a purpose's key.
func sum(secret []byte, purpose string, text []byte) ([]byte, error) {
	key, err := deriveKey(secret, infoPrefix+purpose)
	if err != nil {
		return nil, err
	}
	h := hmac.New(sha256.New, key)
	_, _ = h.Write(text) // never fails (hash.Hash)
	return h.Sum(nil), nil
}

// deriveKey returns the key of a secret for what info says.
func deriveKey(secret []byte, info string) ([]byte, error) {
	key, err := hkdf.Key(sha256.New, secret, nil, info, sha256.Size)
	if err != nil {
		return nil, fmt.Errorf("derive the key of tokens for %s: %w", info, err)
	}
	return key, nil
}
