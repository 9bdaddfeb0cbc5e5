package smtp

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"sluice"
	"sluice/lib/netaddr"
	"sluice/mail"
)

// How a connection is secured.
const (
	TLSStart    = "starttls" // by STARTTLS, or not at all (RFC 3207): the default
	TLSImplicit = "implicit" // from its first octet (RFC 8314)
	TLSNone     = "none"     // not: to this machine only, unless Options.Insecure
)

// Defaults and bounds.
const (
	DefaultConnections = 10
	MaxConnections     = 1000

	// A connection that dies leaves at most a window in doubt, so a relay whose
	// connections live long, our own, may have a larger one.
	DefaultWindow = 16
	TrustedWindow = 64
	MaxWindow     = 256

	// DefaultIdle is how long a connection is kept unused. SES cuts after 10 s,
	// and a client that is cut while it writes has mails in doubt.
	DefaultIdle = 5 * time.Second

	// probeAfter is how long a connection may have been unused and still be
	// written to at once. After it a NOOP goes first: a path that has silently
	// gone away then costs a NOOP, and no window in doubt.
	probeAfter = time.Second
)

// Timeouts are how long a reply, or the taking of a block of content, may take.
// Zero values are the defaults, those of RFC 5321, 4.5.3.2, but for Connect, Probe and Closing.
type Timeouts struct {
	Connect  time.Duration // until the connection is there, and TLS
	Greeting time.Duration // until the server's first reply
	Command  time.Duration // EHLO, AUTH, MAIL, RCPT, RSET
	Data     time.Duration // DATA
	Block    time.Duration // writing a block of content
	End      time.Duration // the reply to the end of the content
	Closing  time.Duration // what may still come after 421, or a failed write
	Probe    time.Duration // NOOP on a connection that was unused; Command at most
}

// The defaults. A shorter TimeoutEnd makes duplicates (RFC 1047).
const (
	TimeoutConnect  = 30 * time.Second
	TimeoutGreeting = 5 * time.Minute
	TimeoutCommand  = 5 * time.Minute
	TimeoutData     = 2 * time.Minute
	TimeoutBlock    = 3 * time.Minute
	TimeoutEnd      = 10 * time.Minute
	TimeoutClosing  = 2 * time.Second

	// TimeoutProbe is short: the minutes of RFC 5321, 4.5.3.2 are for the commands of a
	// mail, and during a NOOP there is none. But a window that is marked waits for it,
	// which another connection, or another route, would take at once.
	TimeoutProbe = 10 * time.Second
)

func (t *Timeouts) complete() {
	for _, x := range [...]struct {
		set *time.Duration
		def time.Duration
	}{
		{&t.Connect, TimeoutConnect}, {&t.Greeting, TimeoutGreeting}, {&t.Command, TimeoutCommand}, {&t.Data, TimeoutData},
		{&t.Block, TimeoutBlock}, {&t.End, TimeoutEnd}, {&t.Closing, TimeoutClosing}, {&t.Probe, TimeoutProbe},
	} {
		if *x.set <= 0 {
			*x.set = x.def
		}
	}
	t.Probe = min(t.Probe, t.Command)
}

// Options say which relay it is and how it is spoken to. Zero values are
// defaults where one is named.
type Options struct {
	Name    string // what routes and metrics call it; required
	Network string // "tcp" (default) or "unix"
	Address string // host:port, or the path of a socket; required
	Hello   string // what EHLO says we are, a domain or an address literal; empty: the machine's name

	TLS        string         // TLSStart (default), TLSImplicit, TLSNone
	ServerName string         // whose certificate it is; empty: the host of Address
	Roots      *x509.CertPool // who may sign it; nil: the system's
	Insecure   bool           // TLSNone is meant, also over a network

	User, Password string // AUTH, if set: PLAIN, else LOGIN; never without TLS

	Connections int  // at once, at most
	Window      int  // messages a call of Deliver; 0: DefaultWindow, or TrustedWindow if Trusted
	Trusted     bool // it is ours: a larger window

	MaxMessages int           // a connection is closed after so many; 0: never
	Idle        time.Duration // it is closed after so long unused
	Timeouts    Timeouts

	// Header makes a line of the header out of the id of a send, by which the provider's
	// events name it again; nil: there is none.
	Header func(send string) string

	Clock sluice.Clock // nil: the machine's
}

// Relay is one relay. Its methods may be called from several goroutines.
type Relay struct {
	opt   Options
	tls   *tls.Config   // nil: TLSNone
	slots chan struct{} // one each for a connection in use

	// What this server turned out to need; see window.go.
	resets  atomic.Bool
	noChunk atomic.Bool

	returns func(e *mail.Envelope) string // nil: mail comes back to its sender

	mu   sync.Mutex
	idle []*session // the one used last is last
}

var _ mail.Transport = (*Relay)(nil)

// New checks the options and makes a relay. It opens no connection yet.
func New(opt Options) (*Relay, error) {
	fail := func(format string, args ...any) (*Relay, error) {
		return nil, fmt.Errorf("smtp relay %q: "+format, append([]any{opt.Name}, args...)...)
	}
	if opt.Name == "" || opt.Address == "" {
		return fail("it needs a name and an address, host:port")
	}
	host := ""
	switch opt.Network {
	case "":
		opt.Network = "tcp"
		fallthrough
	case "tcp":
		var err error
		if host, _, err = net.SplitHostPort(opt.Address); err != nil {
			return fail("address %q: %w: want host:port", opt.Address, err)
		}
	case "unix":
	default:
		return fail("network %q: want tcp or unix", opt.Network)
	}
	if err := opt.complete(); err != nil {
		return fail("%w", err)
	}
	r := &Relay{opt: opt, slots: make(chan struct{}, opt.Connections)}
	if opt.TLS == TLSNone {
		switch {
		case opt.User != "" || opt.Password != "":
			return fail("a password is never sent without TLS: set tls to %s or %s", TLSStart, TLSImplicit) // on the loopback too
		case opt.Network == "tcp" && !netaddr.IsLoopback(host) && !opt.Insecure:
			return fail("%s is not this machine: without TLS everybody on the way reads the mail; set tls to %s or %s, or insecure if that is meant", opt.Address, TLSStart, TLSImplicit)
		}
		return r, nil
	}
	if opt.ServerName != "" {
		host = opt.ServerName
	}
	if host == "" {
		return fail("TLS needs to know whose certificate it is: set the server's name")
	}
	r.tls = &tls.Config{
		ServerName:         host,
		RootCAs:            opt.Roots,
		MinVersion:         tls.VersionTLS12,
		ClientSessionCache: tls.NewLRUClientSessionCache(1),
	}
	return r, nil
}

// complete puts in the defaults and checks what is left.
func (o *Options) complete() error {
	if o.Hello == "" {
		name, err := os.Hostname()
		if err != nil {
			return fmt.Errorf("find the machine's name for EHLO: %w: set hello", err)
		}
		o.Hello = name
	}
	if bad := wordProblem(o.Hello); bad != "" {
		return fmt.Errorf("hello %q %s", o.Hello, bad)
	}
	switch o.TLS {
	case "":
		o.TLS = TLSStart
	case TLSStart, TLSImplicit, TLSNone:
	default:
		return fmt.Errorf("tls %q: want %s, %s or %s", o.TLS, TLSStart, TLSImplicit, TLSNone)
	}
	if o.Connections == 0 {
		o.Connections = DefaultConnections
	}
	if o.Window == 0 {
		o.Window = DefaultWindow
		if o.Trusted {
			o.Window = TrustedWindow
		}
	}
	switch {
	case o.Connections < 1 || o.Connections > MaxConnections:
		return fmt.Errorf("connections is %d: want 1 to %d", o.Connections, MaxConnections)
	case o.Window < 1 || o.Window > MaxWindow:
		return fmt.Errorf("window is %d: want 1 to %d messages", o.Window, MaxWindow)
	case o.MaxMessages < 0:
		return fmt.Errorf("max messages is %d: want 0 (no bound) or more", o.MaxMessages)
	}
	if o.Idle <= 0 {
		o.Idle = DefaultIdle
	}
	if o.Clock == nil {
		o.Clock = sluice.SystemClock{}
	}
	o.Timeouts.complete()
	return nil
}

// Name is what routes and metrics call it.
func (r *Relay) Name() string { return r.opt.Name }

// Window is how many messages a call of Deliver may carry.
func (r *Relay) Window() int { return r.opt.Window }

// Workers is how many calls of Deliver are useful at once: the connections.
func (r *Relay) Workers() int { return r.opt.Connections }

// Deliver attempts the envelopes over one connection, or over several if one
// has carried its MaxMessages. What a connection that died leaves untried is
// not tried again on another: the caller decides where it goes.
func (r *Relay) Deliver(ctx context.Context, envelopes []mail.Envelope, done func(i int, r mail.Result)) {
	w := newWindow(r.opt.Clock, r.returned(r.named(envelopes)), done)
	select {
	case r.slots <- struct{}{}:
		defer func() { <-r.slots }()
	case <-ctx.Done():
		w.abandon(untried(ctx.Err(), mail.BlameNobody))
		return
	}
	for w.first < len(envelopes) {
		s, err := r.take(ctx)
		if err != nil {
			w.abandon(failedToConnect(ctx, err))
			return
		}
		w.last = min(len(envelopes), w.first+s.room())
		w.connect, w.secure = s.connectTook, s.secureTook
		s.connectTook, s.secureTook = 0, 0
		s.deliver(ctx, w)
		broken := s.broken() // before QUIT: a server that does not answer that has still taken all it was given
		if broken || s.room() == 0 {
			s.quit()
		} else {
			r.give(s)
		}
		if broken {
			w.abandon(s.untried())
			return
		}
		w.first = w.last
	}
}

// failedToConnect says what a connection that could not be had means for its
// users: only that the route does not work.
func failedToConnect(ctx context.Context, err error) mail.Result {
	r := untried(err, mail.BlameRoute)
	var refused *refusal
	switch {
	case errors.As(err, &refused):
		r = refused.result
	case ctx.Err() != nil:
		return untried(ctx.Err(), mail.BlameNobody)
	}
	if _, ok := errors.AsType[noTLS](err); ok {
		r.Cause = mail.CauseTLS
	}
	r.Closed = true
	return r
}

// take returns a connection that is ready for MAIL: an idle one that still
// lives, or a new one.
func (r *Relay) take(ctx context.Context) (*session, error) {
	for {
		r.mu.Lock()
		n := len(r.idle)
		if n == 0 {
			r.mu.Unlock()
			return r.dial(ctx)
		}
		s := r.idle[n-1]
		r.idle = r.idle[:n-1]
		r.mu.Unlock()
		s.timer.Stop()
		if s.fresh(ctx, r.opt.Clock.Now()) {
			return s, nil
		}
		s.drop()
	}
}

// give puts a connection back.
func (r *Relay) give(s *session) {
	s.idleSince = r.opt.Clock.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	s.timer = time.AfterFunc(r.opt.Idle, func() { r.retire(s) })
	r.idle = append(r.idle, s)
}

// retire closes a connection that nobody has used for too long, unless
// somebody has just taken it.
func (r *Relay) retire(s *session) {
	r.mu.Lock()
	at := slices.Index(r.idle, s)
	if at >= 0 {
		r.idle = slices.Delete(r.idle, at, at+1)
	}
	r.mu.Unlock()
	if at >= 0 {
		s.quit()
	}
}

// Close ends the connections that are idle.
func (r *Relay) Close() error {
	r.mu.Lock()
	idle := r.idle
	r.idle = nil
	r.mu.Unlock()
	var closing sync.WaitGroup
	for _, s := range idle {
		s.timer.Stop()
		closing.Go(s.quit)
	}
	closing.Wait()
	return nil
}
