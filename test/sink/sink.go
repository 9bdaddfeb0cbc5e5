package sink

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
	"time"
)

const (
	// maxConnections bounds the connections; further ones are closed at once.
	maxConnections = 2048

	// maxProblems bounds the problems that are kept.
	maxProblems = 100

	// defaultMaxBytes bounds a mail.
	defaultMaxBytes = 32 << 20

	acceptAgain = 5 * time.Millisecond
)

// Options are how a sink behaves. The zero value takes everything, on a free
// port of 127.0.0.1, with all extensions but STARTTLS and AUTH.
type Options struct {
	Network, Address string   // "tcp" and "127.0.0.1:0" if empty
	Without          []string // extensions that are not offered: PIPELINING, CHUNKING, SIZE, 8BITMIME, SMTPUTF8, ENHANCEDSTATUSCODES
	MaxBytes         int64    // of a mail; 0: 32 MiB

	TLS      *tls.Config // STARTTLS is offered
	Implicit bool        // TLS from the first octet

	User, Password string // if set, AUTH is offered under TLS, and MAIL wants it

	Keep   int  // how many mails are kept; 0: none
	Hashed bool // by their hash, without the content

	// Eager answers DATA with 354 although no recipient was taken. Open keeps a
	// refused transaction open behind BDAT LAST, until RSET. Both are legal.
	Eager, Open bool

	// Fault is asked at every step, by several connections at once.
	Fault func(At) Act
}

// Mail is a mail that was taken.
type Mail struct {
	ID         string // Message-ID, with its brackets
	From       string
	To         []string
	Content    []byte // as it came, unstuffed; nil if Options.Hashed
	Sum        [sha256.Size]byte
	Connection int
	Chunked    bool // by BDAT
	TLS        bool
	EightBit   bool // BODY=8BITMIME
	UTF8       bool
	Taken      time.Time
}

// Sink is a running receiver.
type Sink struct {
	opt      Options
	listener net.Listener
	ctx      context.Context // ends with Close
	cancel   context.CancelFunc
	running  sync.WaitGroup
	goOn     chan struct{} // closed when nothing hangs any more
	letGo    sync.Once     // closes it

	mu       sync.Mutex
	closed   bool
	drained  chan struct{} // if set, closed with the last connection
	conns    map[*conn]struct{}
	accepted int
	received int
	counts   map[string]int // by Message-ID; grows with what it is sent
	kept     []Mail
	problems []string
	waiters  []waiter
}

// waiter waits until so many mails have come.
type waiter struct {
	count int
	come  chan struct{}
}

// Start starts a sink.
func Start(opt Options) (*Sink, error) {
	if opt.Network == "" {
		opt.Network = "tcp"
	}
	if opt.Address == "" {
		opt.Address = "127.0.0.1:0"
	}
	if opt.MaxBytes == 0 {
		opt.MaxBytes = defaultMaxBytes
	}
	if opt.Implicit && opt.TLS == nil || opt.User != "" && opt.TLS == nil {
		return nil, errors.New("start mail sink: Implicit and User need TLS")
	}
	l, err := net.Listen(opt.Network, opt.Address)
	if err != nil {
		return nil, fmt.Errorf("start mail sink: %w", err)
	}
	s := &Sink{opt: opt, listener: l, conns: make(map[*conn]struct{}), counts: make(map[string]int), goOn: make(chan struct{})}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.running.Add(1)
	go s.accept()
	return s, nil
}

// Addr returns where it listens.
func (s *Sink) Addr() string { return s.listener.Addr().String() }

// Close cuts all connections and returns when nothing of the sink runs.
func (s *Sink) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		s.running.Wait()
		return nil
	}
	s.closed = true
	s.cancel()
	for c := range s.conns {
		c.raw.Close()
	}
	s.mu.Unlock()
	err := s.listener.Close()
	s.running.Wait()
	return err
}

// Received returns how many mails were taken.
func (s *Sink) Received() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.received
}

// Duplicates returns how many mails were taken whose Message-ID had come before.
func (s *Sink) Duplicates() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.received - len(s.counts)
}

// Count returns how often a Message-ID, with its brackets, was taken.
func (s *Sink) Count(id string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counts[id]
}

// Counts returns how often each Message-ID was taken.
func (s *Sink) Counts() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.counts)
}

// Mails returns the mails that are kept, oldest first.
func (s *Sink) Mails() []Mail {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.kept)
}

// Problems returns what clients have done that no standard allows: pipelining
// that was not offered, octets above 127 that were not announced, ...
func (s *Sink) Problems() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.problems)
}

// Accepted returns how many connections there have been.
func (s *Sink) Accepted() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.accepted
}

// Await returns when so many mails have been taken, or with ctx's error.
func (s *Sink) Await(ctx context.Context, count int) error {
	s.mu.Lock()
	if s.received >= count {
		s.mu.Unlock()
		return nil
	}
	w := waiter{count, make(chan struct{})}
	s.waiters = append(s.waiters, w)
	s.mu.Unlock()
	select {
	case <-w.come:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for %d mails, %d have come: %w", count, s.Received(), ctx.Err())
	}
}

// Drain releases connections that hang, and returns when all connections have
// ended, as they do when their clients have gone. Then nothing more is counted.
func (s *Sink) Drain(ctx context.Context) error {
	s.letGo.Do(func() { close(s.goOn) })
	s.mu.Lock()
	if len(s.conns) == 0 {
		s.mu.Unlock()
		return nil
	}
	if s.drained == nil {
		s.drained = make(chan struct{})
	}
	drained := s.drained
	s.mu.Unlock()
	select {
	case <-drained:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait until all connections to the mail sink have ended: %w", ctx.Err())
	}
}

// take counts a mail. What of it is kept is copied.
func (s *Sink) take(m Mail, content []byte) {
	if s.opt.Keep > 0 {
		m.Taken = time.Now()
		m.Sum = sha256.Sum256(content)
		m.To = slices.Clone(m.To)
		if !s.opt.Hashed {
			m.Content = slices.Clone(content)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.received++
	s.counts[m.ID]++
	if len(s.kept) < s.opt.Keep {
		s.kept = append(s.kept, m)
	}
	s.waiters = slices.DeleteFunc(s.waiters, func(w waiter) bool {
		if w.count <= s.received {
			close(w.come)
		}
		return w.count <= s.received
	})
}

func (s *Sink) problem(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.problems) < maxProblems {
		s.problems = append(s.problems, fmt.Sprintf(format, args...))
	}
}

func (s *Sink) offers(extension string) bool { return !slices.Contains(s.opt.Without, extension) }

func (s *Sink) accept() {
	defer s.running.Done()
	for {
		raw, err := s.listener.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return
			}
			select { // out of file descriptors, say: not in a busy loop
			case <-s.ctx.Done():
				return
			case <-time.After(acceptAgain):
				continue
			}
		}
		s.mu.Lock()
		if s.closed || len(s.conns) >= maxConnections {
			s.mu.Unlock()
			raw.Close()
			continue
		}
		c := newConn(s, raw, s.accepted)
		s.accepted++
		s.conns[c] = struct{}{}
		s.running.Add(1)
		s.mu.Unlock()
		go func() {
			defer s.running.Done()
			c.run()
			raw.Close()
			s.mu.Lock()
			defer s.mu.Unlock()
			delete(s.conns, c)
			if len(s.conns) == 0 && s.drained != nil {
				close(s.drained)
				s.drained = nil
			}
		}()
	}
}
