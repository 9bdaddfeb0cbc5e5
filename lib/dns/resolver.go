package dns

import (
	"bufio"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// Bounds of a question.
const (
	tryTimeout = 2 * time.Second
	tries      = 2 // of each server
	maxServers = 3

	// udpBytes is the largest answer that is taken by UDP: what passes most
	// networks in one piece (RFC 9715, 3). Larger ones come by TCP.
	udpBytes = 1232
	tcpBytes = 65535

	// maxAliases is how many CNAMEs are followed, and maxStrays how many packets
	// that are no answer are passed over.
	maxAliases = 8
	maxStrays  = 16
)

// systemFile is where the machine's resolvers stand.
const systemFile = "/etc/resolv.conf"

// Resolver asks one of its servers, and the next if that has no answer. It may
// be used from several goroutines at once.
type Resolver struct {
	servers []string // HOST:PORT
}

// New returns a resolver that asks a server, IP or IP:PORT; empty: those of this
// machine.
func New(server string) (*Resolver, error) {
	if server == "" {
		return system(systemFile)
	}
	if ip, err := netip.ParseAddr(server); err == nil {
		return &Resolver{servers: []string{netip.AddrPortFrom(ip, 53).String()}}, nil
	}
	at, err := netip.ParseAddrPort(server)
	if err != nil || at.Port() == 0 {
		return nil, fmt.Errorf("%.64q is no resolver, want IP or IP:PORT", server)
	}
	return &Resolver{servers: []string{at.String()}}, nil
}

// system reads the resolvers of this machine, as resolv.conf(5) has them: none
// means that one runs here.
func system(file string) (*Resolver, error) {
	r := &Resolver{}
	f, err := os.Open(file)
	if errors.Is(err, os.ErrNotExist) {
		return &Resolver{servers: []string{"127.0.0.1:53"}}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("find this machine's resolver: %w; name one", err)
	}
	defer func() { _ = f.Close() }() // only read
	lines := bufio.NewScanner(io.LimitReader(f, 64<<10))
	for lines.Scan() && len(r.servers) < maxServers {
		if words := strings.Fields(lines.Text()); len(words) >= 2 && words[0] == "nameserver" {
			if ip, err := netip.ParseAddr(words[1]); err == nil {
				r.servers = append(r.servers, netip.AddrPortFrom(ip, 53).String())
			}
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	if len(r.servers) == 0 {
		r.servers = []string{"127.0.0.1:53"}
	}
	return r, nil
}

// Ask asks for the records of a name, and follows its aliases. An error means
// that the answer is unknown: no server has answered, or all have refused to.
func (r *Resolver) Ask(ctx context.Context, name string, kind Kind) (Answer, error) {
	asked, err := dnsmessage.NewName(strings.TrimSuffix(name, ".") + ".")
	if err != nil {
		return Answer{}, fmt.Errorf("look up %.80q: it is no name: %w", name, err)
	}
	total := Answer{}
	for {
		m, err := r.ask(ctx, asked, kind)
		if err != nil {
			return Answer{}, fmt.Errorf("look up the %s records of %s: %w", kind, printable(asked), err)
		}
		last, err := total.read(m, asked, kind)
		if err != nil {
			return Answer{}, fmt.Errorf("look up the %s records of %s: %w", kind, printable(asked), err)
		}
		// A server that knows only its own names stops at an alias of others.
		if total.Status != NoData || sameName(last, asked) {
			return total, nil
		}
		asked = last
	}
}

// printable is a name without the dot at its end.
func printable(n dnsmessage.Name) string { return strings.TrimSuffix(n.String(), ".") }

func sameName(a, b dnsmessage.Name) bool { return strings.EqualFold(a.String(), b.String()) }

// read adds what a message says of a name, and returns the last of its aliases.
func (a *Answer) read(m *dnsmessage.Message, name dnsmessage.Name, kind Kind) (dnsmessage.Name, error) {
	for followed := true; followed; {
		followed = false
		for i := range m.Answers {
			c, ok := m.Answers[i].Body.(*dnsmessage.CNAMEResource)
			if !ok || !sameName(m.Answers[i].Header.Name, name) {
				continue
			}
			if len(a.Aliases) == maxAliases {
				return name, fmt.Errorf("it is an alias of an alias, %d times or for ever", maxAliases)
			}
			a.live(m.Answers[i].Header.TTL)
			name, followed = c.CNAME, true
			a.Aliases = append(a.Aliases, printable(name))
			break
		}
	}
	for i := range m.Answers {
		if h := &m.Answers[i].Header; sameName(h.Name, name) && h.Type == dnsmessage.Type(kind) {
			a.live(h.TTL)
			a.add(m.Answers[i].Body)
		}
	}
	switch {
	case len(a.Addresses)+len(a.Texts)+len(a.Mailers) > 0:
		a.Status = Found
	case m.RCode == dnsmessage.RCodeNameError:
		a.Status = NoName
	default:
		a.Status = NoData
	}
	slices.SortStableFunc(a.Mailers, func(x, y Mailer) int { return cmp.Compare(x.Preference, y.Preference) })
	return name, nil
}

func (a *Answer) live(ttl uint32) {
	if a.TTL == 0 || ttl < a.TTL {
		a.TTL = ttl
	}
}

func (a *Answer) add(body dnsmessage.ResourceBody) {
	switch b := body.(type) {
	case *dnsmessage.AResource:
		a.Addresses = append(a.Addresses, netip.AddrFrom4(b.A))
	case *dnsmessage.AAAAResource:
		a.Addresses = append(a.Addresses, netip.AddrFrom16(b.AAAA))
	case *dnsmessage.TXTResource:
		a.Texts = append(a.Texts, strings.Join(b.TXT, "")) // RFC 7208, 3.3; RFC 6376, 3.6.2.2
	case *dnsmessage.MXResource:
		a.Mailers = append(a.Mailers, Mailer{strings.ToLower(printable(b.MX)), b.Pref})
	}
}

// ask asks the servers in turn until one answers.
func (r *Resolver) ask(ctx context.Context, name dnsmessage.Name, kind Kind) (*dnsmessage.Message, error) {
	var errs []error
	for range tries {
		for _, server := range r.servers {
			m, err := exchange(ctx, server, name, kind)
			if err == nil {
				return m, nil
			}
			errs = append(errs, fmt.Errorf("ask %s: %w", server, err))
			if ctx.Err() != nil {
				return nil, errors.Join(errs...)
			}
		}
	}
	return nil, errors.Join(errs[:len(r.servers)]...) // the second round says the same
}

// exchange asks one server, by UDP, and by TCP if the answer is cut short.
func exchange(ctx context.Context, server string, name dnsmessage.Name, kind Kind) (*dnsmessage.Message, error) {
	query, id, err := pack(name, kind)
	if err != nil {
		return nil, err
	}
	m, err := over(ctx, "udp", server, query, id)
	if err == nil && m.Truncated {
		m, err = over(ctx, "tcp", server, query, id)
	}
	if err != nil {
		return nil, err
	}
	if m.RCode != dnsmessage.RCodeSuccess && m.RCode != dnsmessage.RCodeNameError {
		return nil, fmt.Errorf("it answers %s", strings.TrimPrefix(m.RCode.String(), "RCode"))
	}
	return m, nil
}

// pack makes a question. An attacker that guesses neither its number nor the
// port it comes from cannot answer it in a server's place (RFC 5452, 9).
func pack(name dnsmessage.Name, kind Kind) (query []byte, id uint16, err error) {
	var random [2]byte
	_, _ = rand.Read(random[:]) // never fails (crypto/rand)
	id = binary.BigEndian.Uint16(random[:])
	var opt dnsmessage.ResourceHeader
	if err := opt.SetEDNS0(udpBytes, dnsmessage.RCodeSuccess, false); err != nil { // RFC 6891, 6.1.2
		return nil, 0, fmt.Errorf("make the question: %w", err)
	}
	m := dnsmessage.Message{
		Header:      dnsmessage.Header{ID: id, RecursionDesired: true},
		Questions:   []dnsmessage.Question{{Name: name, Type: dnsmessage.Type(kind), Class: dnsmessage.ClassINET}},
		Additionals: []dnsmessage.Resource{{Header: opt, Body: &dnsmessage.OPTResource{}}},
	}
	if query, err = m.Pack(); err != nil {
		return nil, 0, fmt.Errorf("make the question: %w", err)
	}
	return query, id, nil
}

// over asks by UDP or TCP.
func over(ctx context.Context, network, server string, query []byte, id uint16) (*dnsmessage.Message, error) {
	ctx, cancel := context.WithTimeout(ctx, tryTimeout)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, network, server)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }() // all was read that will be
	defer context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })()
	framed := query
	if network == "tcp" { // RFC 1035, 4.2.2
		framed = append(binary.BigEndian.AppendUint16(nil, uint16(len(query))), query...)
	}
	if _, err := conn.Write(framed); err != nil {
		return nil, late(ctx, err)
	}
	for range maxStrays {
		text, err := receive(conn, network)
		if err != nil {
			return nil, late(ctx, err)
		}
		if m := answers(text, query, id); m != nil {
			return m, nil
		}
		if network == "tcp" {
			break
		}
	}
	return nil, errors.New("the reply is not an answer to the question")
}

// late says in words that a deadline has passed.
func late(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("no answer in time: %w", ctx.Err())
	}
	return err
}

// receive reads one message.
func receive(conn net.Conn, network string) ([]byte, error) {
	if network == "udp" {
		b := make([]byte, tcpBytes)
		n, err := conn.Read(b)
		return b[:n], err
	}
	var size [2]byte
	if _, err := io.ReadFull(conn, size[:]); err != nil {
		return nil, err
	}
	b := make([]byte, binary.BigEndian.Uint16(size[:]))
	_, err := io.ReadFull(conn, b)
	return b, err
}

// answers reads a message if it answers a question, nil if it does not. Records
// of other types are left out: nothing of them is read.
func answers(text, query []byte, id uint16) *dnsmessage.Message {
	var p, q dnsmessage.Parser
	head, err := p.Start(text)
	if err != nil || head.ID != id || !head.Response {
		return nil
	}
	if _, err := q.Start(query); err != nil {
		return nil
	}
	asked, err := q.Question()
	if err != nil {
		return nil
	}
	said, err := p.Question()
	if err != nil {
		// Some servers leave the question out of what they refuse.
		if head.RCode != dnsmessage.RCodeSuccess && head.RCode != dnsmessage.RCodeNameError {
			return &dnsmessage.Message{Header: head}
		}
		return nil
	}
	if said.Type != asked.Type || said.Class != asked.Class || !sameName(said.Name, asked.Name) || p.SkipAllQuestions() != nil {
		return nil
	}
	m := &dnsmessage.Message{Header: head}
	for {
		h, err := p.AnswerHeader()
		if errors.Is(err, dnsmessage.ErrSectionDone) {
			return m
		}
		if err != nil {
			return cut(m)
		}
		switch h.Type {
		case dnsmessage.TypeCNAME, asked.Type:
			r, err := p.Answer()
			if err != nil {
				return cut(m)
			}
			m.Answers = append(m.Answers, r)
		default:
			if p.SkipAnswer() != nil {
				return cut(m)
			}
		}
	}
}

// cut is a message that cannot be read to its end: none, unless it says itself
// that it was cut short.
func cut(m *dnsmessage.Message) *dnsmessage.Message {
	if m.Truncated {
		return m
	}
	return nil
}
