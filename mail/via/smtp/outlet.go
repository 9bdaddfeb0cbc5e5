package smtp

import (
	"errors"
	"io"
	"sync/atomic"
)

// blockBytes is how much is handed to the kernel, or to TLS, at once, and what
// the timeout of a block is about.
const blockBytes = 64 << 10

// errDesync: replies and commands no longer fit together.
var errDesync = errors.New("the server's replies do not fit what it was asked")

// outlet writes commands and content, many in one call of the kernel, and
// counts what the kernel has taken.
//
// That count is what decides between untried and in doubt. It is exact: a write
// that fails says how much of it was taken. Over TLS it is the whole records
// that count; a record of which the kernel has only a part cannot be read by
// anybody. So octets beyond the count have surely not arrived, and those below
// it may have.
//
// Dropped: writev of commands and contents where they lie. In blocks of 64, 256
// and 1,024 KiB it cost no less than copying them together. Over TLS, which
// copies anyway, it made small records.
type outlet struct {
	s       *session
	to      io.Writer
	waiting []byte // not yet handed over; its memory is one block

	added  int64        // octets since the session began
	begun  atomic.Int64 // of them, given to the kernel
	handed atomic.Int64 // of them, taken by it
	failed error        // why nothing more is written
}

// say adds parts of a command.
func (o *outlet) say(parts ...string) {
	for _, p := range parts {
		add(o, p)
	}
}

// put adds content.
func (o *outlet) put(content []byte) { add(o, content) }

// add adds what is to be written, and hands over what has become a block.
func add[T string | []byte](o *outlet, text T) {
	o.added += int64(len(text))
	for len(text) > 0 && o.failed == nil {
		n := copy(o.waiting[len(o.waiting):blockBytes], text)
		o.waiting = o.waiting[:len(o.waiting)+n]
		text = text[n:]
		if len(o.waiting) == blockBytes {
			_ = o.flush() // it is kept
		}
	}
}

// flush hands over what is waiting. After a failure nothing more is written.
func (o *outlet) flush() error {
	if o.failed != nil || len(o.waiting) == 0 {
		return o.failed
	}
	o.s.armWrite()
	o.begun.Add(int64(len(o.waiting)))
	n, err := o.to.Write(o.waiting)
	o.handed.Add(int64(n))
	o.waiting = o.waiting[:0]
	o.failed = err
	return err
}
