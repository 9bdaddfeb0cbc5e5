package smtp

import (
	"errors"
	"io"
	"net"
	"sync/atomic"
)

// blockBytes is how much is handed to the kernel, or to TLS, at once, and what
// the timeout of a block is about. Larger ones were not faster.
const blockBytes = 256 << 10

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
// Without TLS the pieces go out by writev, in place; TLS copies them anyway, so
// there they are put together to fill its records.
type outlet struct {
	s        *session
	to       io.Writer
	together []byte      // TLS: what is not yet handed over; else nil
	commands []byte      // not TLS: memory of the commands in pieces
	sealed   int         // how much of commands is in pieces
	pieces   net.Buffers // not TLS: what is not yet handed over
	store    net.Buffers // its memory
	waiting  int         // octets not yet handed over

	added  int64        // octets since the session began
	handed atomic.Int64 // of them, taken by the kernel
	failed error        // why nothing more is written
}

// start directs the outlet to a connection. Nothing is waiting in it.
func (o *outlet) start(to net.Conn, secure bool) {
	o.to = to
	o.together = nil
	if secure {
		o.together = make([]byte, 0, blockBytes/4)
	}
}

// say adds parts of a command.
func (o *outlet) say(parts ...string) {
	for _, p := range parts {
		o.added += int64(len(p))
		o.waiting += len(p)
		if o.together != nil {
			o.together = append(o.together, p...)
		} else {
			o.commands = append(o.commands, p...)
		}
	}
}

// sayBytes adds a part of a command.
func (o *outlet) sayBytes(p []byte) {
	o.added += int64(len(p))
	o.waiting += len(p)
	if o.together != nil {
		o.together = append(o.together, p...)
	} else {
		o.commands = append(o.commands, p...)
	}
}

// put adds content, which must not change until it is flushed, and hands over
// what has become a block.
func (o *outlet) put(content []byte) {
	o.added += int64(len(content))
	for len(content) > 0 {
		limit := blockBytes
		if o.together != nil {
			limit = blockBytes / 4
		}
		if o.waiting >= limit && o.flush() != nil {
			return
		}
		n := min(len(content), limit-o.waiting)
		o.waiting += n
		if o.together != nil {
			o.together = append(o.together, content[:n]...)
		} else {
			o.seal()
			o.pieces = append(o.pieces, content[:n])
		}
		content = content[n:]
	}
}

// seal makes a piece of the commands added since the last one.
func (o *outlet) seal() {
	if o.sealed < len(o.commands) {
		o.pieces = append(o.pieces, o.commands[o.sealed:len(o.commands):len(o.commands)])
		o.sealed = len(o.commands)
	}
}

// flush hands over what is waiting. After a failure it does nothing more.
func (o *outlet) flush() error {
	if o.failed != nil || o.waiting == 0 {
		return o.failed
	}
	o.s.armWrite()
	var n int64
	var err error
	if o.together != nil {
		var one int
		one, err = o.to.Write(o.together)
		n = int64(one)
		o.together = o.together[:0]
	} else {
		o.seal()
		if o.store == nil || cap(o.pieces) > cap(o.store) {
			o.store = o.pieces
		}
		n, err = o.pieces.WriteTo(o.to)
		o.pieces, o.commands, o.sealed = o.store[:0], o.commands[:0], 0
	}
	o.handed.Add(n)
	o.waiting = 0
	o.failed = err
	return err
}
