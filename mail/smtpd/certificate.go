package smtpd

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"os"
	"sync"
	"time"

	"sluice"
)

// lookEvery is how often the files of a certificate are looked at.
const lookEvery = 10 * time.Second

// Certificates has the certificate of the moment: files that are read again
// when they change, or one that was made at the start.
type Certificates struct {
	certFile, keyFile string
	clock             sluice.Clock
	log               *slog.Logger

	mu      sync.Mutex
	current *tls.Certificate
	looked  time.Time
	text    [2][]byte // the files, as they were read last
}

// LoadCertificates reads a certificate with its chain and its key, PEM.
func LoadCertificates(certFile, keyFile string, clock sluice.Clock, log *slog.Logger) (*Certificates, error) {
	c := &Certificates{certFile: certFile, keyFile: keyFile, clock: clock, log: log, looked: clock.Now()}
	if err := c.load(); err != nil {
		return nil, err
	}
	return c, nil
}

// SelfSigned makes a certificate that nobody has reason to believe: for
// loopback, so that clients which insist on TLS can be tried out.
func SelfSigned(hostname string, clock sluice.Clock) (*Certificates, error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a key for TLS: %w", err)
	}
	now := clock.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: hostname},
		NotBefore: now.Add(-time.Hour), NotAfter: now.AddDate(1, 0, 0),
		DNSNames: []string{hostname, "localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		return nil, fmt.Errorf("make a certificate for %s: %w", hostname, err)
	}
	return &Certificates{clock: clock, current: &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: private}}, nil
}

// Get is for tls.Config. Files that cannot be read, or do not belong together
// because only one of them has been written yet, leave the certificate as it is.
func (c *Certificates) Get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := c.clock.Now(); c.certFile != "" && now.Sub(c.looked) >= lookEvery {
		c.looked = now
		if err := c.load(); err != nil {
			c.log.Warn("a listener keeps its previous certificate", "error", err)
		}
	}
	return c.current, nil
}

// load reads the files, and takes them over if they are others than before.
func (c *Certificates) load() error {
	var text [2][]byte
	for i, name := range []string{c.certFile, c.keyFile} {
		var err error
		if text[i], err = os.ReadFile(name); err != nil {
			return fmt.Errorf("read a certificate: %w", err)
		}
	}
	if bytes.Equal(text[0], c.text[0]) && bytes.Equal(text[1], c.text[1]) {
		return nil
	}
	loaded, err := tls.X509KeyPair(text[0], text[1])
	if err != nil {
		return fmt.Errorf("read the certificate %s and its key %s: %w", c.certFile, c.keyFile, err)
	}
	c.current, c.text = &loaded, text
	return nil
}
