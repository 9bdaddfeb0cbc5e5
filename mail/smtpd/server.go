package smtpd

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"sluice"
	"sluice/lib/connlimit"
	"sluice/lib/key"
	"sluice/mail"
)

// Bounds of the server. When all places are taken, the connection that has been
// quiet longest, and for quietGrace, is closed.
const (
	maxConns   = 2048
	quietGrace = 250 * time.Millisecond

	// maxHeldBytes bounds the contents of all connections together. Memory is
	// taken as bytes arrive.
	maxHeldBytes = 512 << 20

	// submitTimeout is how long a message may take to be durable. Clients wait
	// for ten minutes (RFC 5321, 4.5.3.2.6), those of frameworks for one.
	submitTimeout = 30 * time.Second

	// maxAddedBytes is how many bytes of headers go before a message at most, as it goes
	// out: Received, Date and Message-ID. A message of the size that was announced has
	// room for them.
	maxAddedBytes = 1024
)

// timeouts are how long clients may take.
type timeouts struct {
	stranger  time.Duration // to the next command, before a login
	command   time.Duration // to the next command
	block     time.Duration // to the next piece of a message
	content   time.Duration // to the end of a message
	handshake time.Duration
}

var realTimeouts = timeouts{
	stranger: time.Minute, command: 5 * time.Minute, block: 3 * time.Minute, // RFC 5321, 4.5.3.2.5 and 4.5.3.2.7
	content: 20 * time.Minute, handshake: 30 * time.Second,
}

// Authority knows keys: an api.Server is one.
type Authority interface {
	// Identify returns whose key a text is, or an *sluice.Error.
	Identify(ctx context.Context, text string) (key.Identity, error)

	// Admit returns nil, or an *sluice.Error if a key has used up what it may
	// send; Spend takes out of that.
	Admit(who key.Identity) error
	Spend(who key.Identity, items int)
}

// Options are what New is told.
type Options struct {
	Hostname        string // what the server calls itself
	MaxMessageBytes int    // 1 to sluice.MaxMessageBytes, from which New takes maxAddedBytes

	// OpenLoopback lets clients on this machine send without a key.
	OpenLoopback bool

	Certificates *Certificates // nil: there is no TLS
	Authority    Authority

	// Check says why nobody can send to an address, nil: somebody can. A nil Check
	// takes all. Whether a mail as it is can be sent is the Submitter's to say.
	Check func(to string) error

	// Submitter returns where messages go, nil while there is nowhere.
	Submitter func() mail.Submitter

	// Receiver takes mail to its own addresses, from everybody and without a login.
	// nil: it is mail to be sent, for the Submitter, which a Receiver takes the place of,
	// as it does of Authority and OpenLoopback.
	Receiver Receiver

	Clock sluice.Clock
	Log   *slog.Logger

	// For tests; 0: maxConns, realTimeouts.
	maxConns int
	limits   timeouts
}

// Server answers SMTP. Start and Stop may each be called once; a server that
// was never started may be stopped.
type Server struct {
	Options
	stats  stats
	held   *connlimit.Budget
	tls    *tls.Config // nil: there is none
	listen net.Listener

	stopping atomic.Bool
	work     context.Context // of messages that are being accepted
	stopWork context.CancelFunc

	running sync.WaitGroup // the accepting goroutine and one a connection
	mu      sync.Mutex
	conns   map[*conn]struct{}
}

// New returns a server that is not started.
func New(options Options) *Server {
	held := int64(maxHeldBytes)
	if options.maxConns == 0 {
		options.maxConns = maxConns
	}
	if options.Receiver != nil {
		options.maxConns, held = min(options.maxConns, maxReceiverConns), maxReceivedHeldBytes
		options.MaxMessageBytes = maxIgnoredBytes
	} else {
		options.MaxMessageBytes = min(options.MaxMessageBytes, sluice.MaxMessageBytes-maxAddedBytes)
	}
	if options.limits == (timeouts{}) {
		options.limits = realTimeouts
	}
	s := &Server{Options: options, held: connlimit.NewBudget(held), conns: make(map[*conn]struct{})}
	if options.Certificates != nil {
		s.tls = &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: options.Certificates.Get}
	}
	s.work, s.stopWork = context.WithCancel(context.Background())
	return s
}

// Start listens on HOST:PORT and returns; port 0 takes any free one.
func (s *Server) Start(ctx context.Context, address string) error {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("listen for SMTP on %s: %w; is another mail server running? choose another address with %s", address, err, s.setting())
	}
	s.listen = connlimit.NewListener(l, s.maxConns, quietGrace, s.Clock)
	s.running.Go(s.accept)
	return nil
}

// setting is the one that says where the server listens.
func (s *Server) setting() string {
	if s.Receiver != nil {
		return "bounces.listen"
	}
	return "smtpd.listen"
}

// accept runs until Stop closes the listener.
func (s *Server) accept() {
	for {
		c, err := s.listen.Accept()
		switch {
		case err == nil:
			s.running.Go(func() { s.serve(newConn(s, c.(*connlimit.Conn))) })
		case s.stopping.Load() || errors.Is(err, net.ErrClosed):
			return
		default:
			// Too many open files, say. The connection waits in the kernel.
			s.Log.Warn("an SMTP connection could not be accepted", "error", err)
			select {
			case <-time.After(quietGrace):
			case <-s.work.Done():
				return
			}
		}
	}
}

func (s *Server) serve(c *conn) {
	s.mu.Lock()
	s.conns[c] = struct{}{}
	s.mu.Unlock()
	s.stats.open.Add(1)
	defer func() {
		if p := recover(); p != nil {
			s.Log.Error("an SMTP connection ended in a panic", "from", c.remote, "error", p)
		}
		c.close()
		s.stats.open.Add(-1)
		s.mu.Lock()
		delete(s.conns, c)
		s.mu.Unlock()
	}()
	c.run()
}

// Address returns where the server listens, once it is started.
func (s *Server) Address() string { return s.listen.Addr().String() }

// Stats returns what was counted so far.
func (s *Server) Stats() Snapshot { return s.stats.snapshot() }

// Stop closes the listener and tells those who wait for a command that the
// server goes. Messages whose content is on its way are taken in until ctx
// ends; then all is cut off.
func (s *Server) Stop(ctx context.Context) error {
	defer s.stopWork()
	if s.listen == nil {
		return nil
	}
	s.stopping.Store(true)
	err := s.listen.Close()
	s.each((*conn).interrupt)
	done := make(chan struct{})
	go func() { s.running.Wait(); close(done) }() // ends with the connections, which are closed below
	select {
	case <-done:
	case <-ctx.Done():
		err = errors.Join(err, fmt.Errorf("stop the SMTP server: messages were cut off, their senders send them again: %w", ctx.Err()))
		s.stopWork()
		s.each(func(c *conn) { _ = c.wire.Close() })
		<-done
	}
	return err
}

func (s *Server) each(f func(*conn)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for c := range s.conns {
		f(c)
	}
}
