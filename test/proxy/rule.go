package proxy

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
)

// Direction says which way bytes go.
type Direction int

// The directions.
const (
	ToServer Direction = iota
	ToClient
)

func (d Direction) String() string {
	if d == ToServer {
		return "to server"
	}
	return "to client"
}

// Moment says when a rule acts, seen from its pattern.
type Moment int

// The moments. There are three different failures: the server has never seen
// the request, it may have seen it, or it has done it and the answer is lost.
// The client sees a broken connection in all of them.
const (
	// Before: the pattern is not forwarded. If it came in parts, a part may
	// have been, never its last byte.
	Before Moment = iota

	// After: the pattern is forwarded with all that came in the same read; of
	// what the server sends from then on nothing reaches the client. Whether
	// the server still acts on it is open, as it is in life.
	After

	// Replied: the pattern is forwarded, and the rule acts when the server
	// answers: ReplyBytes bytes of the answer still reach the client. The
	// server has surely acted on the request. Answers to earlier, pipelined
	// requests that are still on their way are counted as part of it.
	Replied
)

// maxPatternBytes bounds a pattern: that much of each connection is looked at
// again with the next read.
const maxPatternBytes = 4096

// Rule says where a connection is to break. It has a Pattern or Bytes.
type Rule struct {
	Direction Direction

	// Pattern is looked for in what passes, also across reads.
	Pattern []byte

	// Skip is how many times the pattern may pass first, over all connections.
	Skip int

	// Moment says when the rule acts. After and Replied are for patterns in
	// requests, hence with ToServer.
	Moment Moment

	// ReplyBytes is how much of the answer is forwarded, with Replied.
	ReplyBytes int

	// Bytes, in place of Pattern, acts when so many bytes have been forwarded
	// in this direction on one connection since the rule was armed. Exactly so
	// many arrive. It must be positive.
	Bytes int64

	// Stall stops the connection, both ways, until Proxy.Resume; else it is
	// cut.
	Stall bool

	// Times is how often the rule acts before it is spent; 0 means once.
	Times int
}

func (r *Rule) check() error {
	switch {
	case (len(r.Pattern) > 0) == (r.Bytes > 0):
		return errors.New("want a Pattern, or Bytes above 0, and not both")
	case len(r.Pattern) > maxPatternBytes:
		return fmt.Errorf("the pattern has %d bytes, at most %d are looked for", len(r.Pattern), maxPatternBytes)
	case r.Moment != Before && (r.Direction != ToServer || r.Bytes > 0):
		return errors.New("moments After and Replied go with a Pattern to the server")
	case r.ReplyBytes != 0 && (r.Moment != Replied || r.ReplyBytes < 0):
		return errors.New("want ReplyBytes not negative, and only with the moment Replied")
	case r.Skip < 0 || r.Times < 0 || r.Bytes < 0:
		return errors.New("want no negative Skip, Times or Bytes")
	}
	return nil
}

// Armed is a rule that waits for its moment on a Proxy.
type Armed struct {
	rule  Rule
	fired chan struct{} // closed when the rule acts for the first time

	mu    sync.Mutex
	skip  int // matches still to be let through
	times int // actions left
	once  bool
}

func newArmed(r Rule) *Armed {
	r.Pattern = bytes.Clone(r.Pattern)
	return &Armed{rule: r, fired: make(chan struct{}), skip: r.Skip, times: max(1, r.Times)}
}

// Fired returns a channel that is closed when the rule has met its pattern or
// count for the first time and begins to act.
func (a *Armed) Fired() <-chan struct{} { return a.fired }

func (a *Armed) spent() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.times == 0
}

// met is called for each match and reports whether the rule acts on it.
func (a *Armed) met() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.times == 0 {
		return false
	}
	if a.skip > 0 {
		a.skip--
		return false
	}
	a.times--
	if !a.once {
		a.once = true
		close(a.fired)
	}
	return true
}

// watch is what one direction of one connection remembers of one rule. Only
// that direction's goroutine touches it.
type watch struct {
	armed *Armed
	tail  []byte // the last len(Pattern)-1 bytes that passed
	bytes int64  // that passed
}

// look reports whether the rule acts on the chunk, and at which offset of it.
// The offset is that of the pattern (0 if it began in an earlier chunk), or
// where the count is reached.
func (w *watch) look(chunk []byte) (at int, acts bool) {
	r := &w.armed.rule
	if r.Bytes > 0 {
		left := r.Bytes - w.bytes
		w.bytes += int64(len(chunk))
		if left > int64(len(chunk)) || left <= 0 {
			return 0, false
		}
		return int(left), w.armed.met()
	}
	seen := append(w.tail, chunk...)
	from := 0
	for {
		i := bytes.Index(seen[from:], r.Pattern)
		if i < 0 {
			break
		}
		if w.armed.met() {
			return max(0, from+i-len(w.tail)), true
		}
		from += i + len(r.Pattern)
	}
	// What is kept must not begin inside a match that was passed over.
	keep := min(len(r.Pattern)-1, len(seen)-from)
	w.tail = append([]byte(nil), seen[len(seen)-keep:]...)
	return 0, false
}
