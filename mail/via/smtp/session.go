package smtp

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"sluice/mail"
)

// past is a deadline that is over.
var past = time.Unix(1, 0)

// session is one connection. One goroutine at a time uses it. In a window with
// CHUNKING a second one writes (window.go), and the goroutine that ends the
// context may call halt.
type session struct {
	relay  *Relay
	raw    net.Conn // the socket
	conn   net.Conn // it, or TLS over it
	in     replies
	out    outlet
	offers offers
	remote string

	carried   int         // messages that it has carried
	reset     atomic.Bool // RSET has to go before the next MAIL
	idleSince time.Time
	timer     *time.Timer // closes it when idle

	connectTook, secureTook time.Duration

	wait time.Duration // how long the next reply may take, all of it
	need int64         // and from when: so many octets are handed over
	by   time.Time     // until when it has to be there; zero: that time has not begun

	closing bool // the server has said 421: only the reader touches these
	over    bool // and then it has closed

	mu      sync.Mutex
	readBy  time.Time // if set, no read waits longer
	noWrite bool      // no write begins, and none goes on
	failure error     // why it is not to be used any more
}

// offers are the extensions that a server has named (RFC 5321, 4.1.1.1).
type offers struct {
	pipelining, chunking, startTLS bool
	eightBit, utf8                 bool
	plain, login                   bool
	size                           bool
	maxBytes                       int64 // 0: not said
}

// await begins the time of a reply.
func (s *session) await(wait time.Duration) { s.wait, s.by = wait, time.Time{} }

// Read reads for replies. It waits as long as the step allows, counted from
// when the server had what it is to answer. Content may take longer to write
// than its reply may take to come. While it is being taken, the writer's own
// timeout watches over it. The time is that of the whole reply. A server that
// sends an octet of it now and then would otherwise hold the connection for
// weeks, with the mails on it.
func (s *session) Read(p []byte) (int, error) {
	for {
		complete := s.out.handed.Load() >= s.need
		s.armRead(complete)
		n, err := s.conn.Read(p)
		var late net.Error
		if n > 0 || !errors.As(err, &late) || !late.Timeout() || complete || s.ended() {
			return n, err
		}
	}
}

func (s *session) armRead(complete bool) {
	by := s.by
	if by.IsZero() {
		by = time.Now().Add(s.wait)
	}
	if complete {
		s.by = by
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.readBy.IsZero() && s.readBy.Before(by) {
		by = s.readBy
	}
	_ = s.conn.SetReadDeadline(by) // fails on a closed connection, as will the read
}

func (s *session) armWrite() {
	s.mu.Lock()
	defer s.mu.Unlock()
	by := past
	if !s.noWrite {
		by = time.Now().Add(s.relay.opt.Timeouts.Block)
	}
	_ = s.conn.SetWriteDeadline(by)
}

// halt ends all writing, and all reading after a while. The first reason counts.
func (s *session) halt(why error, grace time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failure == nil {
		s.failure = why
	}
	by := past
	if grace > 0 {
		by = time.Now().Add(grace)
	}
	if s.readBy.IsZero() || by.Before(s.readBy) {
		s.readBy = by
		_ = s.conn.SetReadDeadline(by)
	}
	s.noWrite = true
	_ = s.conn.SetWriteDeadline(past)
}

func (s *session) ended() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.readBy.IsZero()
}

// why is why the session is not to be used any more, nil if it is.
func (s *session) why() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failure
}

func (s *session) broken() bool { return s.why() != nil }

// untried is the result of a message that the session has surely not taken to
// the server, since it ended. It is the route's fault, unless we were told to
// stop.
func (s *session) untried() mail.Result {
	why := s.why()
	blame := mail.BlameRoute
	var held withheld
	if errors.As(why, &held) {
		return mail.Result{Kind: mail.ResultUntried, Held: held.why, Connected: true, Remote: s.remote, Text: oneLine(why.Error())}
	}
	if errors.Is(why, context.Canceled) || errors.Is(why, context.DeadlineExceeded) {
		blame = mail.BlameNobody
	}
	r := untried(why, blame)
	r.Remote, r.Closed = s.remote, s.closing
	return r
}

// room is how many messages it may still carry.
func (s *session) room() int {
	if most := s.relay.opt.MaxMessages; most > 0 {
		return most - s.carried
	}
	return MaxWindow
}

// reply reads one reply. An error has ended the session.
func (s *session) reply(wait time.Duration) (reply, error) {
	s.await(wait)
	r, err := s.in.next(nil)
	if err != nil {
		var late net.Error
		s.over = s.closing && !errors.Is(err, errReply) && !(errors.As(err, &late) && late.Timeout())
		s.halt(fmt.Errorf("read the reply of %s: %w", s.remote, err), s.relay.opt.Timeouts.Closing)
		return r, err
	}
	if r.code == 421 && !s.closing { // RFC 5321, 3.8: it closes now
		s.closing = true
		s.halt(fmt.Errorf("%s closes the connection: 421 %s", s.remote, oneLine(string(r.text))), s.relay.opt.Timeouts.Closing)
	}
	return r, nil
}

// unasked ends a session whose server has answered before it was asked. All
// that it says from there on would be taken for the reply to something else,
// and a refused mail for a taken one. Only 421 may come at any time (RFC 5321,
// 3.8).
func (s *session) unasked() bool {
	if s.in.buffered() == 0 || s.in.begins("421") {
		return false
	}
	s.halt(fmt.Errorf("%w: %s has answered before it was asked", errDesync, s.remote), 0)
	return true
}

// ask sends one command and reads its reply.
func (s *session) ask(wait time.Duration, parts ...string) (reply, error) {
	if s.unasked() {
		return reply{}, s.why()
	}
	s.out.say(parts...)
	s.out.say("\r\n")
	if err := s.out.flush(); err != nil {
		s.halt(fmt.Errorf("write to %s: %w", s.remote, err), s.relay.opt.Timeouts.Closing)
		if r, e := s.reply(wait); e == nil { // perhaps it has said why
			return r, nil
		}
		return reply{}, err
	}
	s.need = s.out.added
	return s.reply(wait)
}

// dial connects, secures, greets and logs in.
func (r *Relay) dial(ctx context.Context) (*session, error) {
	fail := func(s *session, err error) (*session, error) {
		if s != nil {
			s.drop()
		}
		return nil, fmt.Errorf("connect to relay %s at %s: %w", r.opt.Name, r.opt.Address, err)
	}
	began := r.opt.Clock.Now()
	dialer := net.Dialer{Timeout: r.opt.Timeouts.Connect}
	raw, err := dialer.DialContext(ctx, r.opt.Network, r.opt.Address)
	if err != nil {
		return fail(nil, err)
	}
	s := &session{relay: r, raw: raw, conn: raw, remote: raw.RemoteAddr().String()}
	if r.opt.Network == "unix" {
		s.remote = r.opt.Address
	}
	s.in = newReplies(s)
	s.out.s, s.out.to, s.out.waiting = s, raw, make([]byte, 0, blockBytes)
	stop := context.AfterFunc(ctx, func() { s.halt(ctx.Err(), 0) })
	defer stop()

	if r.opt.TLS == TLSImplicit {
		s.connectTook = r.opt.Clock.Now().Sub(began)
		began = r.opt.Clock.Now()
		if err := s.secure(ctx); err != nil {
			return fail(s, err)
		}
	}
	if err := s.greet(); err != nil {
		return fail(s, err)
	}
	if r.opt.TLS == TLSStart {
		s.connectTook = r.opt.Clock.Now().Sub(began)
		began = r.opt.Clock.Now()
		if err := s.upgrade(ctx); err != nil {
			return fail(s, err)
		}
	}
	if err := s.login(); err != nil {
		return fail(s, err)
	}
	took := r.opt.Clock.Now().Sub(began)
	if s.tls() {
		s.secureTook = took
	} else {
		s.connectTook = took
	}
	return s, nil
}

// noTLS is the error of a server without the TLS that is wanted.
type noTLS string

func (e noTLS) Error() string { return string(e) }

func (s *session) tls() bool { return s.conn != s.raw }

// greet reads the server's greeting and says EHLO.
func (s *session) greet() error {
	r, err := s.reply(s.relay.opt.Timeouts.Greeting)
	if err != nil {
		return err
	}
	if !r.positive() {
		return &refusal{stepConnect, s.refused(stepConnect, r)}
	}
	return s.hello()
}

// hello says EHLO and notes what the server offers. There is no HELO: a relay
// without extensions has no TLS either, nor anything else we need.
func (s *session) hello() error {
	if s.unasked() {
		return s.why()
	}
	s.out.say("EHLO ", s.relay.opt.Hello, "\r\n")
	if err := s.out.flush(); err != nil {
		return err
	}
	s.await(s.relay.opt.Timeouts.Command)
	s.need = s.out.added
	s.offers = offers{}
	first := true
	r, err := s.in.next(func(line []byte) {
		if !first { // the first line is its name
			s.offers.add(string(line))
		}
		first = false
	})
	if err != nil {
		return err
	}
	if !r.positive() {
		return &refusal{stepHello, s.refused(stepHello, r)}
	}
	return nil
}

// add notes one line of EHLO's reply.
func (o *offers) add(line string) {
	words := strings.Fields(strings.ToUpper(line))
	if len(words) == 0 {
		return
	}
	switch words[0] {
	case "PIPELINING":
		o.pipelining = true // RFC 2920
	case "CHUNKING":
		o.chunking = true // RFC 3030
	case "STARTTLS":
		o.startTLS = true // RFC 3207
	case "8BITMIME":
		o.eightBit = true // RFC 6152
	case "SMTPUTF8":
		o.utf8 = true // RFC 6531
	case "SIZE": // RFC 1870
		o.size = true
		if len(words) > 1 {
			if n, err := strconv.ParseInt(words[1], 10, 64); err == nil && n > 0 {
				o.maxBytes = n
			}
		}
	case "AUTH": // RFC 4954
		for _, w := range words[1:] {
			o.plain = o.plain || w == "PLAIN"
			o.login = o.login || w == "LOGIN"
		}
	}
}

// upgrade turns the connection into one with TLS, and greets again: what was
// said before it counts for nothing (RFC 3207, 4.2).
func (s *session) upgrade(ctx context.Context) error {
	if !s.offers.startTLS {
		return noTLS("it offers no STARTTLS: mail does not go to it in clear; see to its certificate, or take smtps:// for port 465; plain: true only on a network of your own")
	}
	r, err := s.ask(s.relay.opt.Timeouts.Command, "STARTTLS")
	if err != nil {
		return err
	}
	if r.code != 220 {
		return &refusal{stepTLS, s.refused(stepTLS, r)}
	}
	if s.in.buffered() > 0 {
		return errors.New("it, or somebody in between, has sent more in clear behind its reply to STARTTLS") // CVE-2011-0411, the other way round
	}
	if err := s.secure(ctx); err != nil {
		return err
	}
	return s.hello()
}

// secure does the TLS handshake: certificates are always verified.
func (s *session) secure(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.relay.opt.Timeouts.Connect)
	defer cancel()
	conn := tls.Client(s.raw, s.relay.tls)
	_ = s.raw.SetDeadline(time.Time{})
	if err := conn.HandshakeContext(ctx); err != nil {
		return fmt.Errorf("TLS: %w", err)
	}
	s.mu.Lock()
	s.conn = conn
	s.mu.Unlock()
	s.out.to = conn
	return nil
}

// login says who we are, under TLS only, so that no password is sent in clear.
// Errors name the user at most.
func (s *session) login() error {
	o := &s.relay.opt
	if o.User == "" && o.Password == "" {
		return nil
	}
	if !s.tls() {
		return noTLS("a password is never sent without TLS")
	}
	var r reply
	var err error
	code := base64.StdEncoding.EncodeToString
	switch {
	case s.offers.plain: // RFC 4616
		r, err = s.ask(o.Timeouts.Command, "AUTH PLAIN ", code([]byte("\x00"+o.User+"\x00"+o.Password)))
	case s.offers.login:
		r, err = s.ask(o.Timeouts.Command, "AUTH LOGIN")
		for _, answer := range [...]string{o.User, o.Password} {
			if err != nil || r.code != 334 {
				break
			}
			r, err = s.ask(o.Timeouts.Command, code([]byte(answer)))
		}
	default:
		return errors.New("it offers no AUTH PLAIN and no AUTH LOGIN, but a user is set")
	}
	if err != nil {
		return err
	}
	if r.code != 235 {
		return &refusal{stepLogin, s.refused(stepLogin, r)}
	}
	return nil
}

// fresh reports whether a connection that was idle may be used.
func (s *session) fresh(ctx context.Context, now time.Time) bool {
	if !s.quiet() {
		return false
	}
	if now.Sub(s.idleSince) < probeAfter {
		return true
	}
	stop := context.AfterFunc(ctx, func() { s.halt(ctx.Err(), 0) })
	defer stop()
	r, err := s.ask(s.relay.opt.Timeouts.Probe, "NOOP")
	return err == nil && r.positive()
}

// quiet reports whether the server has said nothing since, nor closed. What it
// says without a question is 421, or the end of TLS.
func (s *session) quiet() bool {
	if s.in.buffered() > 0 {
		return false
	}
	sock, ok := s.raw.(syscall.Conn)
	if !ok {
		return true
	}
	rc, err := sock.SyscallConn()
	if err != nil {
		return false
	}
	_ = s.raw.SetDeadline(time.Time{}) // else an old deadline would be the answer
	quiet := false
	err = rc.Read(func(fd uintptr) bool {
		var one [1]byte
		_, _, err := syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK)
		quiet = errors.Is(err, syscall.EAGAIN)
		return true
	})
	return err == nil && quiet
}

// quit ends the session in order, if it still can be.
func (s *session) quit() {
	if !s.broken() {
		s.out.say("QUIT\r\n")
		if s.out.flush() == nil {
			s.need = s.out.added
			_, _ = s.reply(s.relay.opt.Timeouts.Closing) // RFC 5321, 4.1.1.10: wait for it; what it says is all the same
		}
	}
	s.drop()
}

// drop ends it as it is. It bypasses TLS, whose farewell could wait for a
// server that reads no more.
func (s *session) drop() { _ = s.raw.Close() }
