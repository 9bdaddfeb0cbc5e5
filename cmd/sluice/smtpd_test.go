package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"mime"
	"net"
	netmail "net/mail"
	"net/smtp"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"sluice/lib/key"
)

// startSMTP starts a program that takes mail in and does not send it, so that it
// can be looked at, and returns the file of its certificate.
func startSMTP(t *testing.T, environ ...string) (s *served, address, certificate string) {
	t.Helper()
	dir := t.TempDir()
	certificate = filepath.Join(dir, "cert.pem")
	makeCertificate(t, certificate, filepath.Join(dir, "key.pem"))
	s = startServe(t, dir, append([]string{
		"SLUICE_ROOT_KEY=" + testRoot, "SLUICE_ROLES=store", "SLUICE_SMTPD_LISTEN=127.0.0.1:0", "SLUICE_SMTPD_HOSTNAME=mx.example.com",
		"SLUICE_SMTPD_TLS_CERT=" + certificate, "SLUICE_SMTPD_TLS_KEY=" + filepath.Join(dir, "key.pem"),
	}, environ...)...)
	found := regexp.MustCompile(`smtp=(\S+)`).FindStringSubmatch(s.log.String())
	if found == nil {
		t.Fatalf("the log does not say where mail is taken in:\n%s", s.log)
	}
	return s, found[1], certificate
}

// makeCertificate makes one for this machine, which is its own authority.
func makeCertificate(t *testing.T, certFile, keyFile string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "localhost"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: cert}, keyFile: {Type: "PRIVATE KEY", Bytes: secret}} {
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// Mailers of four languages hand in mail, with TLS and a key, as they are.
func TestMailersHandInMail(t *testing.T) {
	t.Parallel()
	s, address, certificate := startSMTP(t)
	made := keyFor(t, s, key.MessagesSend)
	const count = 20
	mailers(t, address, made, certificate, count)
	swaks(t, address, certificate, made, "250 2.0.0 Accepted as", "--body", strings.Repeat("..two dots\n.\n", 400))
	swaks(t, address, certificate, "no key", "535 5.7.8")
	swaks(t, address, certificate, keyFor(t, s, key.EventsWrite), "no permission messages:send")

	if n := s.metric(t, "sluice_smtp_accepted_messages_total"); n != 3*count+2 {
		t.Errorf("%d messages were accepted, want %d", n, 3*count+2)
	}
	if n := s.metric(t, "sluice_smtp_accepted_recipients_total"); n != 3*2*count+3 {
		t.Errorf("%d recipients were accepted, want %d", n, 3*2*count+3)
	}
	s.checkHandedIn(t, count)
	for what, want := range map[string]int{
		"priority = 'high' AND tags = 'smtplib' AND class = 'transactional'": 2 * count, "tags = 'nodemailer,für'": 2 * count, "tags = 'symfony'": 2 * (count + 1),
		"from_address = 'shop@example.com' AND state = 'waiting'": 3*2*count + 3, "to_address = 'swaks@example.com'": 1,
	} {
		await(t, what+" is in the ledger", func() bool { return len(s.texts(t, "SELECT message FROM sends WHERE "+what)) == want })
	}
	if strings.Contains(s.log.String(), made) {
		t.Error("the log has a key: no secret may be in a log")
	}
}

// mailers has each of three mailers hand in mails; symfony/mailer sends one more.
func mailers(t *testing.T, address, password, certificate string, count int) {
	t.Helper()
	python := pythonTool(t, "python")
	node := testTools(t, "node", "npm-test/package-lock.json")
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range [][]string{
		{python, "testdata/smtp_client.py"}, {"node", "testdata/smtp_client.cjs"}, {"php", "-d", "openssl.cafile=" + certificate, "testdata/smtp_client.php"},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 3*patience)
		cmd := exec.CommandContext(ctx, x[0], append(x[1:], host, port, password, certificate, fmt.Sprint(count))...)
		cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1", "NODE_PATH="+filepath.Join(node, "node_modules"))
		cmd.Stderr = &buffer{}
		out, err := cmd.Output()
		if err != nil || string(out) != "done\n" {
			t.Errorf("%s: %v\n%s\n%s", x, err, out, cmd.Stderr)
		}
		cancel()
	}
}

// On this machine, and without a certificate, they do so in clear: nothing is
// offered to them that they would refuse.
func TestMailersHandInMailWithoutTLS(t *testing.T) {
	t.Parallel()
	s, address, _ := startSMTP(t, "SLUICE_SMTPD_TLS_CERT=", "SLUICE_SMTPD_TLS_KEY=")
	mailers(t, address, keyFor(t, s, key.MessagesSend), "", 2)
	if n := s.metric(t, "sluice_smtp_accepted_messages_total"); n != 3*2+1 {
		t.Errorf("%d messages were accepted", n)
	}
}

// keyFor makes a key.
func keyFor(t *testing.T, s *served, p key.Permission) string {
	t.Helper()
	return strings.TrimSpace(mustRun(t, s.dir, "key", "create", "--name", "k", "--permission", string(p)).stdout)
}

// checkHandedIn looks at the messages as they are kept.
func (s *served) checkHandedIn(t *testing.T, count int) {
	t.Helper()
	seen := make(map[string]int)
	for _, text := range s.texts(t, `SELECT CAST(data AS TEXT) FROM bodies WHERE n = 0`) {
		if strings.Contains(strings.ReplaceAll(text, "\r\n", ""), "\n") || regexp.MustCompile(`(?mi)^(X-Sluice-|Bcc:)`).MatchString(text) {
			t.Errorf("a message is kept that must not go out:\n%.2000s", text)
		}
		m, err := netmail.ReadMessage(strings.NewReader(text))
		if err != nil {
			t.Fatal(err)
		}
		subject, err := new(mime.WordDecoder).DecodeHeader(m.Header.Get("Subject"))
		if err != nil || m.Header.Get("Message-ID") == "" || !strings.Contains(m.Header.Get("Received"), "by mx.example.com with ESMTPSA id ") {
			t.Errorf("%v: the headers are %v", err, m.Header)
		}
		body, err := io.ReadAll(m.Body)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(body), "\r\n..two dots\r\n") || strings.Contains(string(body), "\r\n...two") {
			t.Errorf("dots were not kept: %.300q", body)
		}
		seen[strings.Fields(subject)[0]]++
	}
	if seen["Grüße"] != 3*count+1 || seen["test"] != 1 {
		t.Errorf("messages by subject: %v", seen)
	}
}

// keysUnchecked is what a server says by SMTP where the database has not told it of a key
// in time: a client is to come again.
const keysUnchecked = "Keys cannot be checked now"

// keyChecked does something by SMTP until the key for it can be checked.
func keyChecked(t *testing.T, do func() error) (err error) {
	t.Helper()
	await(t, "a key is checked", func() bool {
		err = do()
		return err == nil || !strings.Contains(err.Error(), keysUnchecked)
	})
	return err
}

// swaks hands in a mail and wants something in what the server says.
func swaks(t *testing.T, address, certificate, password, want string, more ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	args := append([]string{"--server", address, "--timeout", "240", "--tls", "--tls-verify", "--tls-ca-path", certificate, "--auth", "PLAIN", "--auth-user", "swaks", "--auth-password", password,
		"--from", "shop@example.com", "--to", "swaks@example.com"}, more...)
	var out []byte
	var err error
	await(t, "a key is checked", func() bool {
		out, err = exec.CommandContext(ctx, "swaks", args...).CombinedOutput()
		return !strings.Contains(string(out), keysUnchecked)
	})
	if !strings.Contains(string(out), want) {
		t.Errorf("swaks: %v, no %q in\n%s", err, want, out)
	}
}

// Twenty connections at once, by Postfix's generator: all that it was told is
// accepted is kept.
func TestManyMailsBySMTP(t *testing.T) {
	t.Parallel()
	s, address, _ := startSMTP(t, "SLUICE_SMTPD_REQUIRE_AUTH=false")
	ctx, cancel := context.WithTimeout(t.Context(), 3*patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/usr/sbin/smtp-source", "-d", "-s", "20", "-m", "1000", "-l", "10240", "-f", "ann@example.com", "-t", "ben@example.com", address)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("smtp-source: %v\n%s", err, out)
	}
	if n := s.metric(t, "sluice_smtp_accepted_messages_total"); n != 1000 {
		t.Errorf("%d messages were accepted", n)
	}
	if n := len(s.texts(t, `SELECT message FROM bodies WHERE n = 0`)); n != 1000 {
		t.Errorf("%d messages are kept", n)
	}
}

// What is handed in is sent, and what is for later waits.
func TestMailBySMTPIsSent(t *testing.T) {
	t.Parallel()
	s, address, certificate := startSMTP(t, "SLUICE_ROLES=store,send")
	made := keyFor(t, s, key.MessagesSend)
	later := time.Now().Add(48 * time.Hour).UTC().Truncate(time.Second)
	swaks(t, address, certificate, made, "250 2.0.0 Accepted as", "--add-header", "X-Sluice-Send-At: "+later.Format(time.RFC3339), "--add-header", "X-Sluice-Class: marketing")
	swaks(t, address, certificate, made, "250 2.0.0 Accepted as", "--to", "ben@example.com,cy@example.org", "--body", strings.Repeat("large\n", 2000))
	await(t, "what is due is sent", func() bool {
		return len(s.texts(t, `SELECT message FROM sends WHERE state = 'sent' AND class = 'transactional' AND to_address IN ('ben@example.com', 'cy@example.org')`)) == 2
	})
	due := s.texts(t, `SELECT CAST(due AS TEXT) FROM sends WHERE state = 'waiting' AND class = 'marketing' AND attempts = 0`)
	if len(due) != 1 || due[0] != fmt.Sprint(later.UnixMilli()) {
		t.Errorf("what is for later is due at %v, want %d", due, later.UnixMilli())
	}
}

// A key that is revoked sends nothing more over a connection that is open.
func TestRevokedKeySendsNoMail(t *testing.T) {
	t.Parallel()
	s, address, certificate := startSMTP(t)
	made := keyFor(t, s, key.MessagesSend)
	pool := x509.NewCertPool()
	text, err := os.ReadFile(certificate)
	if err != nil || !pool.AppendCertsFromPEM(text) {
		t.Fatal(err)
	}
	var c *smtp.Client
	err = keyChecked(t, func() (err error) {
		if c, err = smtp.Dial(address); err != nil {
			return err
		}
		t.Cleanup(func() { _ = c.Close() })
		if err = c.StartTLS(&tls.Config{RootCAs: pool, ServerName: "localhost"}); err != nil {
			return err
		}
		return c.Auth(smtp.PlainAuth("", "shop", made, "127.0.0.1")) // an error ends the connection
	})
	if err != nil {
		t.Fatal(err)
	}
	send := func() error {
		if err := c.Mail("ann@example.com"); err != nil {
			return err
		}
		return c.Reset()
	}
	if err := keyChecked(t, send); err != nil {
		t.Fatal(err)
	}
	id, _ := key.ID(made)
	mustRun(t, s.dir, "key", "revoke", id)
	await(t, "the key sends nothing more", func() bool { return keyChecked(t, send) != nil })
	if err := send(); err == nil || !strings.HasPrefix(err.Error(), "530") {
		t.Errorf("a revoked key is answered %v", err)
	}
}
