package verp

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base32"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"sluice"
	"sluice/lib/token"
)

// The local part of a return path is, in base32 (RFC 4648, 6) of lower case
// without padding:
//
//	version byte (1), partition (uint16, big-endian), message (16 bytes),
//	number of the recipient (uint16, big-endian), the first 10 bytes of the
//	HMAC-SHA-256 of all that
//
// These are 31 bytes, so 50 characters, where RFC 5321, 4.5.3.1.1 allows 64. Base32
// survives servers that change the case of a local part, which base64 does not.
//
// A guess costs the sender a connection and a RCPT, and is right once in 2^80. The
// address stands in the mail's Return-Path, so its recipient knows it. What comes
// to it is therefore believed of this send, and of no other.
const (
	version   = 1
	headBytes = 1 + 2 + sluice.MessageIDBytes/2 + 2
	macBytes  = 10
	allBytes  = headBytes + macBytes

	// LocalBytes is the length of a local part.
	LocalBytes = (allBytes*8 + 4) / 5

	// MaxSecrets bounds how many keys a guess is compared with.
	MaxSecrets = 4

	purpose = "return path"
)

// ErrInvalid means that a local part was not made here, or was changed.
var ErrInvalid = errors.New("the address is not one of ours")

// alphabet is that of RFC 4648, 6, in lower case.
var alphabet = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// Send is what a return path names.
type Send struct {
	Partition int // 0 to 65535
	Message   string
	Number    int // 0 to 65535
}

// Keys makes return paths and reads them. Its methods may be called from several
// goroutines at once.
type Keys struct{ keys [][]byte } // the first one signs

// New returns keys of the same secrets as those of tokens, in their order. The
// error says that there are too many.
func New(tokens *token.Keys) (*Keys, error) {
	keys, err := tokens.Derive(purpose)
	if err == nil && len(keys) > MaxSecrets {
		err = fmt.Errorf("make keys of return paths: %d secrets, at most %d", len(keys), MaxSecrets)
	}
	if err != nil {
		return nil, err
	}
	return &Keys{keys}, nil
}

// Local returns the local part of a send's return path, LocalBytes long. The error
// says what cannot be named.
func (k *Keys) Local(s Send) (string, error) {
	message, err := hex.DecodeString(s.Message)
	switch {
	case err != nil || !sluice.ValidMessageID(s.Message):
		return "", fmt.Errorf("make a return path: %.64q is no id of a message", s.Message)
	case s.Partition < 0 || s.Partition > 0xffff || s.Number < 0 || s.Number > 0xffff:
		return "", fmt.Errorf("make a return path: partition %d or number %d is above 65535", s.Partition, s.Number)
	}
	b := append(make([]byte, 0, allBytes), version)
	b = binary.BigEndian.AppendUint16(b, uint16(s.Partition))
	b = append(b, message...)
	b = binary.BigEndian.AppendUint16(b, uint16(s.Number))
	return alphabet.EncodeToString(append(b, sum(k.keys[0], b)...)), nil
}

// Read returns what a local part names, in whatever case it comes, or ErrInvalid.
func (k *Keys) Read(local string) (Send, error) {
	if len(local) != LocalBytes {
		return Send{}, ErrInvalid
	}
	local = strings.ToLower(local)
	b, err := alphabet.DecodeString(local)
	// The last character has bits that no byte has: they are 0, so one send has one
	// address. The decoder passes over line breaks.
	if err != nil || len(b) != allBytes || alphabet.EncodeToString(b) != local {
		return Send{}, ErrInvalid
	}
	head, mac, good := b[:headBytes], b[headBytes:], false
	for _, key := range k.keys {
		good = hmac.Equal(mac, sum(key, head)) || good
	}
	if !good || head[0] != version {
		return Send{}, ErrInvalid
	}
	return Send{
		Partition: int(binary.BigEndian.Uint16(head[1:])), Message: hex.EncodeToString(head[3 : headBytes-2]),
		Number: int(binary.BigEndian.Uint16(head[headBytes-2:])),
	}, nil
}

// sum is the beginning of the HMAC of a text.
func sum(key, text []byte) []byte {
	h := hmac.New(sha256.New, key)
	_, _ = h.Write(text) // never fails (hash.Hash)
	return h.Sum(nil)[:macBytes]
}
