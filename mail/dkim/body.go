package dkim

import (
	"crypto/sha256"
	"hash"
	"sync"
)

// BodySum is the hash of a body (bh=).
type BodySum [sha256.Size]byte

// BodyHash hashes a body while it is written, in the relaxed form (RFC 6376,
// 3.4.4). That form makes one space of a run of them, and cuts spaces at ends
// of lines and empty lines at the body's end. Lines end in CRLF. The zero one
// is not ready, see NewBodyHash. Write never fails.
type BodyHash struct {
	hash   hash.Hash
	buffer []byte // canonical, not hashed yet
	lines  int    // ends of lines that are due if anything follows
	space  bool   // a space is due if the line goes on
	cr     bool   // the last octet was a CR
	text   bool   // anything was there but empty lines
}

const bufferBytes = 4 << 10

// NewBodyHash returns a hash of nothing yet.
func NewBodyHash() *BodyHash {
	return &BodyHash{hash: sha256.New(), buffer: make([]byte, 0, bufferBytes)}
}

// Reset begins another body.
func (h *BodyHash) Reset() {
	h.hash.Reset()
	*h = BodyHash{hash: h.hash, buffer: h.buffer[:0]}
}

// Write takes a piece of the body.
func (h *BodyHash) Write(p []byte) (int, error) {
	for i := 0; i < len(p); {
		c := p[i]
		if h.cr {
			h.cr = false
			if c == '\n' {
				h.lines++
				h.space = false
				i++
				continue
			}
			h.add([]byte{'\r'}) // by itself it is text
		}
		switch c {
		case '\r':
			h.cr = true
			i++
		case ' ', '\t':
			h.space = true
			i++
		default:
			n := plain(p[i:])
			h.add(p[i : i+n])
			i += n
		}
	}
	return len(p), nil
}

// plain returns how much of a text is canonical as it is. It stops at a tab, at
// the end of a line, and at a space that no visible character follows.
func plain(p []byte) int {
	for i, c := range p {
		if c == '\r' || c == '\t' || c == ' ' && (i+1 == len(p) || p[i+1] <= ' ') {
			return i
		}
	}
	return len(p)
}

// add takes what is neither a space nor the end of a line.
func (h *BodyHash) add(p []byte) {
	for ; h.lines > 0; h.lines-- {
		h.due("\r\n")
	}
	if h.space {
		h.due(" ")
		h.space = false
	}
	h.text = true
	if len(p) > cap(h.buffer)-len(h.buffer) {
		h.flush()
	}
	if len(p) > cap(h.buffer) {
		h.hash.Write(p)
		return
	}
	h.buffer = append(h.buffer, p...)
}

func (h *BodyHash) due(s string) {
	if len(h.buffer)+len(s) > cap(h.buffer) {
		h.flush()
	}
	h.buffer = append(h.buffer, s...)
}

func (h *BodyHash) flush() {
	h.hash.Write(h.buffer)
	h.buffer = h.buffer[:0]
}

// Sum returns the hash of what was written. More may be written afterwards: many
// bodies with one beginning are hashed so.
func (h *BodyHash) Sum() BodySum {
	h.flush()
	cloned, err := h.hash.(hash.Cloner).Clone()
	if err != nil { // SHA-256 can be cloned (crypto/sha256)
		panic(err)
	}
	end := BodyHash{hash: cloned, buffer: make([]byte, 0, 8), lines: h.lines, space: h.space, cr: h.cr, text: h.text}
	return end.finish()
}

// finish ends the body. A body that has anything ends in one CRLF, one that has
// nothing is empty.
func (h *BodyHash) finish() (sum BodySum) {
	if h.cr {
		h.cr = false
		h.add([]byte{'\r'})
	}
	if h.text {
		h.due("\r\n")
	}
	h.flush()
	h.hash.Sum(sum[:0])
	return sum
}

var bodyHashes = sync.Pool{New: func() any { return NewBodyHash() }}

// HashBody returns the hash of a body, which is what follows the empty line
// behind the headers (Split).
func HashBody(body []byte) BodySum {
	h := bodyHashes.Get().(*BodyHash)
	defer bodyHashes.Put(h)
	h.Reset()
	_, _ = h.Write(body) // never fails
	return h.finish()
}
