package dkim

import (
	"bytes"
	"crypto/sha256"
	"hash"
	"sync"
)

// BodySum is the hash of a body (bh=).
type BodySum [sha256.Size]byte

// bodyHash is what hashing a body needs for a moment.
type bodyHash struct {
	hash   hash.Hash
	buffer []byte // canonical, not hashed yet
}

const bufferBytes = 4 << 10

var crlf, space = []byte("\r\n"), []byte(" ")

var bodyHashes = sync.Pool{New: func() any { return &bodyHash{sha256.New(), make([]byte, 0, bufferBytes)} }}

// HashBody returns the hash of a body, which is what follows the empty line
// behind the headers (Split), in the relaxed form (RFC 6376, 3.4.4). That form
// makes one space of a run of them, and cuts spaces at ends of lines and empty
// lines at the body's end. A body that has anything ends in one CRLF, one that
// has nothing is empty. Lines end in CRLF: a CR or LF by itself is text.
func HashBody(body []byte) (sum BodySum) {
	h := bodyHashes.Get().(*bodyHash)
	defer bodyHashes.Put(h)
	h.hash.Reset()
	empty := 0 // lines, whose ends are due if anything follows
	for len(body) > 0 {
		line, rest, _ := bytes.Cut(body, crlf)
		body = rest
		if line = bytes.TrimRight(line, " \t"); len(line) == 0 {
			empty++
			continue
		}
		for ; empty > 0; empty-- {
			h.add(crlf)
		}
		for len(line) > 0 {
			n := plain(line)
			h.add(line[:n])
			if line = line[n:]; len(line) > 0 {
				h.add(space)
				line = bytes.TrimLeft(line, " \t")
			}
		}
		h.add(crlf)
	}
	h.flush()
	h.hash.Sum(sum[:0])
	return sum
}

// plain returns how much of a line is canonical as it is: all before a run of
// spaces that is not one space.
func plain(line []byte) int {
	for i, c := range line {
		if c == '\t' || c == ' ' && (line[i+1] == ' ' || line[i+1] == '\t') { // a line does not end in a space
			return i
		}
	}
	return len(line)
}

func (h *bodyHash) add(text []byte) {
	if len(text) > cap(h.buffer)-len(h.buffer) {
		h.flush()
	}
	if len(text) > cap(h.buffer) {
		h.hash.Write(text)
		return
	}
	h.buffer = append(h.buffer, text...)
}

func (h *bodyHash) flush() {
	h.hash.Write(h.buffer)
	h.buffer = h.buffer[:0]
}
