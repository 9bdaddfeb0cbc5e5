// Package dnstest is a DNS server on loopback for tests: it answers for the
// names that a test writes down, by UDP and TCP.
package dnstest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// Words for what a name does beside having records.
const (
	Fails = "FAILS" // it is answered SERVFAIL
	Mute  = "MUTE"  // it is not answered at all
)

// Bounds of a question.
const (
	maxQueryBytes = 4096
	plainUDPBytes = 512 // RFC 1035, 4.2.1
	queryTimeout  = 10 * time.Second
	chain         = 4 // CNAMEs that are followed in one answer; the next ones are to be asked for
)

// record is a line of a zone.
type record struct {
	kind  dnsmessage.Type
	body  dnsmessage.ResourceBody
	fails string // Fails or Mute
}

// Server answers until the test ends.
type Server struct {
	udp     net.PacketConn
	tcp     net.Listener
	running sync.WaitGroup

	mu    sync.Mutex
	zone  map[string][]record
	conns map[net.Conn]bool
	asked map[string]int // by name, without the dot at its end
	tcps  int            // questions by TCP
}

// Start starts a server whose zone has the lines NAME TYPE VALUE, such as
// "example.com MX 10 mail.example.com", "example.com TXT v=spf1 -all" or
// "slow.example MUTE".
func Start(t testing.TB, lines ...string) *Server {
	t.Helper()
	s := &Server{conns: make(map[net.Conn]bool), asked: make(map[string]int)}
	s.Set(t, lines...)
	// The port that UDP has got may be taken for TCP: then another one is tried.
	var err error
	for range 10 {
		if s.udp, err = net.ListenPacket("udp", "127.0.0.1:0"); err != nil {
			break
		}
		if s.tcp, err = net.Listen("tcp", s.udp.LocalAddr().String()); err == nil {
			break
		}
		_ = s.udp.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	s.running.Go(s.serveUDP)
	s.running.Go(s.serveTCP)
	t.Cleanup(s.close)
	return s
}

// Set replaces the zone.
func (s *Server) Set(t testing.TB, lines ...string) {
	t.Helper()
	zone := make(map[string][]record)
	for _, line := range lines {
		name, rest, _ := strings.Cut(line, " ")
		r, err := parse(rest)
		if err != nil {
			t.Fatalf("zone line %q: %v", line, err)
		}
		name = strings.ToLower(name)
		zone[name] = append(zone[name], r)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.zone = zone
}

// Addr is where it listens.
func (s *Server) Addr() string { return s.udp.LocalAddr().String() }

// Asked returns how often a name was asked for; empty: all of them.
func (s *Server) Asked(name string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if name != "" {
		return s.asked[name]
	}
	for _, some := range s.asked {
		n += some
	}
	return n
}

// ByTCP returns how many questions came by TCP.
func (s *Server) ByTCP() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tcps
}

func (s *Server) close() {
	_, _ = s.udp.Close(), s.tcp.Close()
	s.mu.Lock()
	for c := range s.conns {
		_ = c.Close()
	}
	s.mu.Unlock()
	s.running.Wait()
}

func parse(text string) (record, error) {
	word, value, _ := strings.Cut(text, " ")
	switch word {
	case Fails, Mute:
		return record{fails: word}, nil
	case "A", "AAAA":
		ip, err := netip.ParseAddr(value)
		if err != nil || ip.Is4() != (word == "A") {
			return record{}, fmt.Errorf("want an address: %w", err)
		}
		if ip.Is4() {
			return record{kind: dnsmessage.TypeA, body: &dnsmessage.AResource{A: ip.As4()}}, nil
		}
		return record{kind: dnsmessage.TypeAAAA, body: &dnsmessage.AAAAResource{AAAA: ip.As16()}}, nil
	case "TXT":
		var parts []string
		for len(value) > 255 {
			parts, value = append(parts, value[:255]), value[255:]
		}
		return record{kind: dnsmessage.TypeTXT, body: &dnsmessage.TXTResource{TXT: append(parts, value)}}, nil
	case "MX":
		number, host, _ := strings.Cut(value, " ")
		preference, err := strconv.ParseUint(number, 10, 16)
		if err != nil {
			return record{}, err
		}
		name, err := dnsmessage.NewName(strings.TrimSuffix(host, ".") + ".")
		return record{kind: dnsmessage.TypeMX, body: &dnsmessage.MXResource{Pref: uint16(preference), MX: name}}, err
	case "CNAME":
		name, err := dnsmessage.NewName(strings.TrimSuffix(value, ".") + ".")
		return record{kind: dnsmessage.TypeCNAME, body: &dnsmessage.CNAMEResource{CNAME: name}}, err
	}
	return record{}, fmt.Errorf("unknown type %q", word)
}

func (s *Server) serveUDP() {
	b := make([]byte, maxQueryBytes)
	for {
		n, from, err := s.udp.ReadFrom(b)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue // an ICMP message about a client that has gone
		}
		if answer := s.answer(b[:n], false); answer != nil {
			_, _ = s.udp.WriteTo(answer, from)
		}
	}
}

func (s *Server) serveTCP() {
	for {
		c, err := s.tcp.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		s.conns[c] = true
		s.mu.Unlock()
		s.running.Go(func() {
			s.oneTCP(c)
			s.mu.Lock()
			delete(s.conns, c)
			s.mu.Unlock()
			_ = c.Close()
		})
	}
}

// oneTCP answers one question of a connection.
func (s *Server) oneTCP(c net.Conn) {
	_ = c.SetDeadline(time.Now().Add(queryTimeout))
	var size [2]byte
	if _, err := io.ReadFull(c, size[:]); err != nil {
		return
	}
	b := make([]byte, binary.BigEndian.Uint16(size[:]))
	if _, err := io.ReadFull(c, b); err != nil {
		return
	}
	if answer := s.answer(b, true); answer != nil {
		_, _ = c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(answer))), answer...))
	}
}

// answer makes the answer to a question; nil: none.
func (s *Server) answer(query []byte, tcp bool) []byte {
	var q dnsmessage.Message
	if err := q.Unpack(query); err != nil || len(q.Questions) != 1 {
		return nil
	}
	asked := q.Questions[0]
	limit := plainUDPBytes
	for _, r := range q.Additionals {
		if r.Header.Type == dnsmessage.TypeOPT {
			limit = max(limit, int(r.Header.Class)) // RFC 6891, 6.2.3
		}
	}
	m := dnsmessage.Message{
		Header:    dnsmessage.Header{ID: q.ID, Response: true, Authoritative: true, RecursionDesired: q.RecursionDesired, RecursionAvailable: true},
		Questions: q.Questions,
	}
	if !s.look(&m, asked, tcp) {
		return nil
	}
	text, err := m.Pack()
	if err == nil && !tcp && len(text) > limit {
		m.Answers, m.Truncated = nil, true
		text, err = m.Pack()
	}
	if err != nil {
		return nil
	}
	return text
}

// look finds the records of a question; false: it is not answered.
func (s *Server) look(m *dnsmessage.Message, asked dnsmessage.Question, tcp bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	name := strings.ToLower(strings.TrimSuffix(asked.Name.String(), "."))
	s.asked[name]++
	if tcp {
		s.tcps++
	}
	owner := asked.Name
	for range chain {
		found, next := s.zone[name], ""
		if len(found) == 0 {
			if len(m.Answers) == 0 { // of a name behind an alias it may know nothing
				m.RCode = dnsmessage.RCodeNameError
			}
			return true
		}
		for _, r := range found {
			h := dnsmessage.ResourceHeader{Name: owner, Type: r.kind, Class: dnsmessage.ClassINET, TTL: 300}
			switch {
			case r.fails == Mute:
				return false
			case r.fails == Fails:
				m.RCode = dnsmessage.RCodeServerFailure
				return true
			case r.kind == dnsmessage.TypeCNAME:
				target := r.body.(*dnsmessage.CNAMEResource).CNAME
				m.Answers = append(m.Answers, dnsmessage.Resource{Header: h, Body: r.body})
				owner, next = target, strings.ToLower(strings.TrimSuffix(target.String(), "."))
			case r.kind == asked.Type:
				m.Answers = append(m.Answers, dnsmessage.Resource{Header: h, Body: r.body})
			}
		}
		if next == "" {
			return true
		}
		name = next
	}
	return true
}
