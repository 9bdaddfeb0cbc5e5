package dkim

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"hash"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A signature is over two hashes: that of the body, which many recipients'
// mails share, and that of headers, which names the first (bh=). So the body's
// hash is a value of its own (HashBody), computed once, and signing costs the
// headers only.
//
// Both are canonicalised the relaxed way (RFC 6376, 3.4.2, 3.4.4): servers refold
// headers and cut spaces. There is no l=: it lets anybody append to what is
// signed (8.2).
//
// h= has each of the headers below as often as it is there, and From once more.
// So a second From that somebody adds breaks the signature (8.15). Others are
// not named once more: lists and forwarders add Cc and Reply-To.

// signed are the headers that a signature covers, in the order of h=, if they
// are there. RFC 6376, 5.4.1. RFC 8058 wants List-Unsubscribe and its Post
// covered, and RFC 9477 wants CFBL-Address covered.
var signed = []string{
	"From", "To", "Cc", "Reply-To", "Sender", "Subject", "Date", "Message-ID", "In-Reply-To", "References",
	"MIME-Version", "Content-Type", "Content-Transfer-Encoding",
	"List-Unsubscribe", "List-Unsubscribe-Post", "List-Id", "CFBL-Address", "CFBL-Feedback-ID",
}

// signedPlace is where a header, in lower case, stands in signed.
var signedPlace = func() map[string]int {
	m := make(map[string]int, len(signed))
	for i, name := range signed {
		m[strings.ToLower(name)] = i
	}
	return m
}()

const (
	longestSigned = 25 // octets: the longest name in signed
	maxFields     = 2000
	maxKeys       = 8
	lineBytes     = 76
)

// Signer signs with one key or several. It may be used from several goroutines
// at once.
type Signer struct {
	keys    []*Key
	scratch sync.Pool // of *scratch
}

// NewSigner returns a signer that makes a signature with each key, 1 to 8.
func NewSigner(keys ...*Key) (*Signer, error) {
	if len(keys) == 0 || len(keys) > maxKeys {
		return nil, fmt.Errorf("sign with %d DKIM keys: want 1 to %d", len(keys), maxKeys)
	}
	return &Signer{keys: slices.Clone(keys), scratch: sync.Pool{New: func() any { return &scratch{hash: sha256.New()} }}}, nil
}

// Keys returns the keys that a signature each is made with.
func (s *Signer) Keys() []*Key { return slices.Clone(s.keys) }

// scratch is what one signature needs for a moment.
type scratch struct {
	hash   hash.Hash
	fields []field
	text   []byte
	sum    [sha256.Size]byte
}

// field is a header that is signed.
type field struct {
	place int // in signed
	text  []byte
}

// Split cuts a message behind the empty line that ends its headers, which
// belongs to neither part.
func Split(message []byte) (header, body []byte) {
	if i := bytes.Index(message, []byte("\r\n\r\n")); i >= 0 {
		return message[:i+2], message[i+4:]
	}
	return message, nil
}

// Sign appends a DKIM-Signature for each key to dst, to be put before the
// headers. These come in one piece or several: whole lines that end in CRLF.
// body is the hash of what follows them.
func (s *Signer) Sign(dst []byte, at time.Time, body BodySum, headers ...[]byte) ([]byte, error) {
	w := s.scratch.Get().(*scratch)
	defer func() {
		clear(w.fields) // lets go of the message
		s.scratch.Put(w)
	}()
	if err := w.read(headers); err != nil {
		return dst, err
	}
	out := dst
	for _, k := range s.keys {
		var err error
		if out, err = w.sign(out, k, at, body); err != nil {
			return dst, err
		}
	}
	return out, nil
}

// read finds the headers that are signed, in the order in which they occur.
// Those of one name go from the last to the first (RFC 6376, 5.4.2).
func (w *scratch) read(headers [][]byte) error {
	w.fields = w.fields[:0]
	froms := 0
	for _, h := range headers {
		for len(h) > 0 {
			end := fieldEnd(h)
			if end < 0 {
				return errors.New("sign mail: a header does not end in CRLF")
			}
			place, ok := placeOf(h[:end])
			if ok {
				if len(w.fields) == maxFields {
					return fmt.Errorf("sign mail: it has more than %d headers", maxFields)
				}
				if w.fields = append(w.fields, field{place, h[:end]}); place == 0 {
					froms++
				}
			}
			h = h[end:]
		}
	}
	if froms != 1 {
		return fmt.Errorf("sign mail: it has %d From headers, want one (RFC 5322, 3.6)", froms)
	}
	slices.Reverse(w.fields)
	slices.SortStableFunc(w.fields, func(a, b field) int { return a.place - b.place })
	return nil
}

// fieldEnd returns where the first header ends, with its folded lines; -1: its
// last line has no end.
func fieldEnd(h []byte) int {
	for at := 0; ; {
		i := bytes.Index(h[at:], []byte("\r\n"))
		if i < 0 {
			return -1
		}
		if at += i + 2; at == len(h) || h[at] != ' ' && h[at] != '\t' {
			return at
		}
	}
}

// placeOf returns which of the signed headers one is.
func placeOf(f []byte) (place int, ok bool) {
	colon := bytes.IndexByte(f, ':')
	if colon < 0 {
		return 0, false
	}
	name := bytes.TrimRight(f[:colon], " \t")
	var room [longestSigned]byte
	if len(name) > len(room) {
		return 0, false
	}
	for i, c := range name {
		if c >= 'A' && c <= 'Z' {
			c |= 0x20
		}
		room[i] = c
	}
	place, ok = signedPlace[string(room[:len(name)])]
	return place, ok
}

// sign appends one signature.
func (w *scratch) sign(b []byte, k *Key, at time.Time, body BodySum) ([]byte, error) {
	w.hash.Reset()
	for _, f := range w.fields {
		w.text = appendRelaxed(w.text[:0], f.text)
		w.hash.Write(w.text)
	}
	start := len(b)
	b = w.appendTags(b, k, at, body)
	// RFC 6376, 3.7: with b= empty, and without the CRLF at its end.
	w.text = appendRelaxed(w.text[:0], append(b, "\r\n"...)[start:])
	w.hash.Write(w.text[:len(w.text)-2])
	digest := w.hash.Sum(w.sum[:0])
	signature, err := k.signer.Sign(rand.Reader, digest, k.hash)
	if err != nil {
		return b, fmt.Errorf("sign mail with %s: %w", k.RecordName(), err)
	}
	w.text = base64.StdEncoding.AppendEncode(w.text[:0], signature)
	line := b[bytes.LastIndexByte(b, '\n')+1:]
	for room, text := lineBytes-len(line), w.text; len(text) > 0; room = lineBytes - 1 {
		n := min(room, len(text))
		if b = append(b, text[:n]...); n < len(text) {
			b = append(b, "\r\n "...)
		}
		text = text[n:]
	}
	return append(b, "\r\n"...), nil
}

// appendTags appends the signature's header up to b=, folded.
func (w *scratch) appendTags(b []byte, k *Key, at time.Time, body BodySum) []byte {
	b = append(append(append(b, "DKIM-Signature: v=1; a="...), k.algorithm...), "; c=relaxed/relaxed;\r\n"...)
	b = append(append(b, " d="...), k.domain...)
	b = append(append(append(b, ";\r\n s="...), k.selector...), "; t="...)
	b = append(strconv.AppendInt(b, at.Unix(), 10), ";\r\n h=From"...) // oversigned
	column := len(" h=From")
	for _, f := range w.fields {
		name := signed[f.place]
		if column+1+len(name) > lineBytes {
			b = append(b, ":\r\n "...)
			column = 1
		} else {
			b = append(b, ':')
			column++
		}
		b = append(b, name...)
		column += len(name)
	}
	b = append(b, ";\r\n bh="...)
	b = base64.StdEncoding.AppendEncode(b, body[:])
	return append(b, ";\r\n b="...)
}

// appendRelaxed appends a header the relaxed way (RFC 6376, 3.4.2). The name is
// in lower case, folds are removed, a run of spaces is one space, and none is
// at the ends.
func appendRelaxed(b, f []byte) []byte {
	colon := bytes.IndexByte(f, ':')
	for _, c := range bytes.TrimRight(f[:colon], " \t") {
		if c >= 'A' && c <= 'Z' {
			c |= 0x20
		}
		b = append(b, c)
	}
	b = append(b, ':')
	space, begun := false, false
	for _, c := range f[colon+1:] {
		switch c {
		case ' ', '\t', '\r', '\n':
			space = begun
		default:
			if space {
				b = append(b, ' ')
				space = false
			}
			begun = true
			b = append(b, c)
		}
	}
	return append(b, "\r\n"...)
}
