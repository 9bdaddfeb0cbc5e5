package smtp

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"

	"sluice/mail"
	"sluice/test/sink"
)

// authority is a CA of the test.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "CA of the test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &authority{cert, key}
}

func (a *authority) pool() *x509.CertPool {
	p := x509.NewCertPool()
	p.AddCert(a.cert)
	return p
}

// server makes what a server of that name needs.
func (a *authority) server(t testing.TB, name string) *tls.Config {
	t.Helper()
	return a.serverUntil(t, name, time.Now().Add(24*time.Hour))
}

func (a *authority) serverUntil(t testing.TB, name string, until time.Time) *tls.Config {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: until,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
}

func clientConfig(a *authority, name string) *tls.Config {
	return &tls.Config{RootCAs: a.pool(), ServerName: name}
}

func TestTLSIsVerified(t *testing.T) {
	ours, theirs := newAuthority(t), newAuthority(t)
	good := Options{TLS: TLSStart, ServerName: "relay.test", Roots: ours.pool()}
	for _, x := range []struct {
		name string
		sink sink.Options
		opt  Options
		want string // kinds
		says string
	}{
		{"starttls", sink.Options{TLS: ours.server(t, "relay.test")}, good, "SSS", ""},
		{"implicit", sink.Options{TLS: ours.server(t, "relay.test"), Implicit: true}, Options{TLS: TLSImplicit, ServerName: "relay.test", Roots: ours.pool()}, "SSS", ""},
		{"another authority", sink.Options{TLS: theirs.server(t, "relay.test")}, good, "---", "unknown authority"},
		{"expired", sink.Options{TLS: ours.serverUntil(t, "relay.test", time.Now().Add(-time.Minute))}, good, "---", "expired"},
		{"another name", sink.Options{TLS: ours.server(t, "other.test")}, good, "---", "not relay.test"},
		{"no starttls", sink.Options{}, good, "---", "offers no STARTTLS: mail does not go to it in clear; see to its certificate, or take smtps:// for port 465; plain: true"},
		{"starttls is refused", sink.Options{TLS: ours.server(t, "relay.test"), Fault: func(at sink.At) sink.Act {
			if at.Step == sink.OnStartTLS {
				return sink.Act{Reply: "454 4.7.0 not now"}
			}
			return sink.Act{}
		}}, good, "---", "not now"},
	} {
		t.Run(x.name, func(t *testing.T) {
			s := startSink(t, withKeep(x.sink))
			r := newRelay(t, s.Addr(), x.opt)
			results := deliver(t, limit(t), r, envelopes(3, 100<<10))
			if kinds(results) != x.want {
				t.Fatalf("%s: %+v", kinds(results), results[0])
			}
			if x.want[0] == '-' && (results[0].Blame != mail.BlameRoute || !strings.Contains(results[0].Text, x.says)) {
				t.Errorf("%+v", results[0])
			}
			for i, m := range s.Mails() {
				if !m.TLS || string(m.Content) != string(content(i, 100<<10)) {
					t.Errorf("mail %d: TLS %v, %d octets", i, m.TLS, len(m.Content))
				}
			}
			if x.want[0] == 'S' && (results[0].Took[mail.StageTLS] <= 0 || results[0].Took[mail.StageWait] <= 0) {
				t.Errorf("it took %v", results[0].Took)
			}
		})
	}
}

func withKeep(o sink.Options) sink.Options {
	o.Keep = 10
	return o
}

func TestLogin(t *testing.T) {
	ca := newAuthority(t)
	for _, x := range []struct {
		name, password string
		without        []string
		want           string
	}{
		{"PLAIN", "secret word", nil, "S"},
		{"LOGIN", "secret word", []string{"AUTH PLAIN"}, "S"},
		{"neither", "secret word", []string{"AUTH PLAIN", "AUTH LOGIN"}, "-"},
		{"wrong PLAIN", "secret wrong", nil, "-"},
		{"wrong LOGIN", "secret wrong", []string{"AUTH PLAIN"}, "-"},
	} {
		t.Run(x.name, func(t *testing.T) {
			s := startSink(t, sink.Options{TLS: ca.server(t, "relay.test"), User: "me", Password: "secret word", Without: x.without})
			r := newRelay(t, s.Addr(), Options{TLS: TLSStart, ServerName: "relay.test", Roots: ca.pool(), User: "me", Password: x.password})
			one := deliver(t, limit(t), r, envelopes(1, 100))[0]
			if kinds([]mail.Result{one}) != x.want {
				t.Fatalf("%+v", one)
			}
			if strings.Contains(one.Text, "secret") || x.want == "-" && one.Blame != mail.BlameRoute {
				t.Errorf("%+v", one)
			}
		})
	}
}

// A second connection resumes the first one's TLS session.
func TestTLSIsResumed(t *testing.T) {
	ca := newAuthority(t)
	s := startSink(t, sink.Options{TLS: ca.server(t, "relay.test")})
	r := newRelay(t, s.Addr(), Options{TLS: TLSStart, ServerName: "relay.test", Roots: ca.pool(), MaxMessages: 1})
	if got := kinds(deliver(t, limit(t), r, envelopes(1, 100))); got != "S" {
		t.Fatal(got)
	}
	c, err := r.dial(limit(t))
	if err != nil {
		t.Fatal(err)
	}
	defer c.quit()
	if !c.conn.(*tls.Conn).ConnectionState().DidResume {
		t.Error("the second connection made a new TLS session")
	}
}

// What somebody in between adds in clear behind the reply to STARTTLS is not
// taken for something that was said under TLS.
func TestClearTextBehindSTARTTLS(t *testing.T) {
	ca := newAuthority(t)
	server := ca.server(t, "relay.test")
	address := script(t, func(c net.Conn) {
		say(c, "220 hello\r\n")
		hear(c, "EHLO")
		say(c, "250-x\r\n250 STARTTLS\r\n")
		hear(c, "STARTTLS")
		say(c, "220 go\r\n250-x\r\n250 AUTH PLAIN\r\n")
		if tls.Server(c, server).Handshake() == nil {
			t.Error("it went on with TLS")
		}
	})
	r := newRelay(t, address, Options{TLS: TLSStart, ServerName: "relay.test", Roots: ca.pool()})
	one := deliver(t, limit(t), r, envelopes(1, 100))[0]
	if one.Kind != mail.ResultUntried || !strings.Contains(one.Text, "in clear") {
		t.Errorf("%+v", one)
	}
}

// script is a server that does for one connection what f says.
func script(t *testing.T, f func(c net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(testWithin))
		f(c)
	}()
	t.Cleanup(func() { l.Close(); <-done })
	return l.Addr().String()
}

func say(c net.Conn, text string) { fmt.Fprint(c, text) }

// hear reads until a line begins with a word.
func hear(c net.Conn, word string) {
	line, one := "", make([]byte, 1)
	for {
		if _, err := c.Read(one); err != nil {
			return
		}
		if line += string(one); one[0] == '\n' {
			if strings.HasPrefix(line, word) {
				return
			}
			line = ""
		}
	}
}
