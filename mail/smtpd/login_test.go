package smtpd

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice"
	"sluice/lib/key"
	"sluice/test/clocktest"
)

func b64(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }

// plain is the command that logs in.
func plain(password string) string { return "AUTH PLAIN " + b64("\x00anything\x00"+password) }

// startTLS turns the connection into TLS.
func (c *client) startTLS(config *tls.Config) *client {
	c.t.Helper()
	c.say("STARTTLS", "220")
	t := tls.Client(c.Conn, config)
	if err := t.Handshake(); err != nil {
		c.t.Fatal(err)
	}
	return wrap(c.t, t)
}

// trusted trusts the server's certificate of the moment.
func (r *rig) trusted() *tls.Config {
	r.t.Helper()
	current, err := r.Certificates.Get(nil)
	if err != nil {
		r.t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(current.Certificate[0])
	if err != nil {
		r.t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(leaf)
	return &tls.Config{RootCAs: pool, ServerName: "localhost"}
}

// Nobody sends without a key; with one, by either mechanism, mail goes through.
func TestLogin(t *testing.T) {
	r := start(t)
	c := r.dial()
	if got := c.say("EHLO me", "250"); !strings.Contains(got, "250-AUTH PLAIN LOGIN\r\n") || !strings.Contains(got, "250-STARTTLS\r\n") || strings.Contains(got, "CHUNKING") {
		t.Errorf("offers %q", got)
	}
	c.say("MAIL FROM:<a@b.test>", "530 5.7.0 AUTH first")
	for _, way := range []func(*client){
		func(c *client) { c.say(plain(goodKey), "235") },
		func(c *client) { c.say("AUTH plain", "334 "); c.say(b64("\x00\x00"+goodKey), "235") },
		func(c *client) {
			c.say("AUTH LOGIN", "334 VXNlcm5hbWU6")
			c.say(b64("good"), "334 UGFzc3dvcmQ6")
			c.say(b64(goodKey), "235")
		},
		func(c *client) { c.say("AUTH LOGIN "+b64("x"), "334"); c.say(b64(goodKey), "235") },
		func(c *client) { c.say("AUTH LOGIN =", "334"); c.say(b64(goodKey), "235") },
	} {
		c := r.dial()
		c.say("EHLO me", "250")
		way(c)
		c.say(plain(goodKey), "503")
		if got := c.replies(envelope+plainMail+".\r\n", 4); got != "250 250 354 250" {
			t.Error(got)
		}
	}
	all := r.memory.all()
	if len(all) != 5 || !strings.Contains(string(all[0].Content), "with ESMTPA id "+all[0].ID) {
		t.Errorf("%d messages, the first %s", len(all), all[0].Content)
	}
	r.keys.change(func() {
		if r.keys.spent != 5 {
			t.Errorf("%d items were counted to the key, want one a recipient", r.keys.spent)
		}
	})
	if strings.Contains(r.log.String(), goodKey) {
		t.Error("the log has a key")
	}
}

func TestWrongLogins(t *testing.T) {
	r := start(t)
	for _, tt := range []struct{ say, want string }{
		{plain("wrong"), "535 5.7.8"}, {plain(""), "535"}, {plain(otherKey), "535 5.7.8 The key other has no permission"},
		{"AUTH PLAIN " + b64(goodKey), "501"}, {"AUTH PLAIN " + b64("\x00a\x00"+goodKey+"\x00"), "501"}, {"AUTH PLAIN !", "501"}, {"AUTH PLAIN =", "501"},
		{"AUTH", "504"}, {"AUTH CRAM-MD5", "504"}, {"AUTH LOGIN !", "501"},
	} {
		c := r.dial()
		c.say("EHLO me", "250")
		c.say(tt.say, tt.want)
		c.say("MAIL FROM:<>", "530")
	}
	c := r.dial()
	c.say("AUTH PLAIN", "503")
	c.say("HELO me", "250")
	c.say(plain(goodKey), "503") // it was not offered
	c.say("EHLO me", "250")
	c.say("AUTH LOGIN", "334")
	c.say("*", "501")
	r.keys.change(func() { r.keys.err = &sluice.Error{Code: sluice.CodeUnavailable, Index: -1} })
	c.say(plain("unknown now"), "454 4.7.0")
	r.keys.change(func() { r.keys.err = nil })
	if r.refusedOf("login") == 0 {
		t.Error("nothing was counted")
	}
}

// A client that guesses is put out after a few guesses, and asks no more than
// that.
func TestLoginFlood(t *testing.T) {
	r := start(t)
	for range 50 {
		c := r.dial()
		c.say("EHLO me", "250")
		if got := c.replies(strings.Repeat(plain("guess")+"\r\n", 100), 5); got != "535 535 535 421 -" {
			t.Fatal(got)
		}
	}
	r.keys.change(func() {
		if r.keys.looked != 150 {
			t.Errorf("keys were looked up %d times", r.keys.looked)
		}
	})
}

// A key that is revoked sends nothing more, however long its connection lasts;
// nor does one that sends too fast, for a while.
func TestKeyIsAskedAboutForEachMail(t *testing.T) {
	r := start(t)
	c := r.dial()
	c.say("EHLO me", "250")
	c.say(plain(goodKey), "235")
	c.replies(envelope, 3)
	c.send(plainMail)
	c.say(".", "250")
	r.keys.change(func() {
		r.keys.slow = &sluice.Error{Code: sluice.CodeTooFast, Message: "this key may send 5 items a second"}
	})
	c.say("MAIL FROM:<a@b.test>", "452 4.7.0 this key may send 5 items a second")
	r.keys.change(func() { r.keys.slow = nil })
	c.say("MAIL FROM:<a@b.test>", "250")
	c.say("RSET", "250")
	r.keys.change(func() { r.keys.known[goodKey] = key.NewIdentity("good", "good", nil) })
	c.say("MAIL FROM:<a@b.test>", "530 5.7.0")
	r.keys.change(func() { delete(r.keys.known, goodKey) })
	c.say("MAIL FROM:<a@b.test>", "530 5.7.0")
	r.keys.change(func() {
		r.keys.known[goodKey] = key.NewIdentity("good", "good", []string{string(key.MessagesSend)})
	})
	c.say(plain(goodKey), "235")
	c.replies(envelope, 3)
	c.send(plainMail)
	r.keys.change(func() { delete(r.keys.known, goodKey) }) // a MAIL from before does not outlive its key
	c.say(".", "530 5.7.0")
	c.say("MAIL FROM:<a@b.test>", "530 5.7.0")
	if r.refusedOf("rate") != 1 || len(r.memory.all()) != 1 {
		t.Errorf("%d refused for their rate, %d messages", r.refusedOf("rate"), len(r.memory.all()))
	}
}

// From other machines a key is taken under TLS only, even where this machine
// needs none.
func TestKeysAreNotSentInClear(t *testing.T) {
	r := start(t, open)
	c := &conn{server: r.Server, remote: netip.MustParseAddr("192.0.2.1")}
	for _, step := range []struct{ line, want string }{
		{"EHLO me", "250"}, {"MAIL FROM:<a@b.test>", "530 5.7.0 STARTTLS first"}, {plain(goodKey), "538 5.7.11"}, {"AUTH LOGIN", "538 5.7.11"},
	} {
		c.out = nil
		if err := c.command([]byte(step.line)); err != nil {
			t.Fatal(err)
		}
		if got := string(c.out); !strings.HasPrefix(got, step.want) || strings.Contains(got, "AUTH PLAIN") {
			t.Errorf("%q: answered %q, want %q", step.line, got, step.want)
		}
	}
}

// Under TLS everything begins anew, and nothing that was sent in clear counts.
func TestStartTLS(t *testing.T) {
	r := start(t)
	c := r.dial()
	c.say("EHLO me", "250")
	c.say(plain(goodKey), "235")
	c.say("MAIL FROM:<a@b.test>", "250")
	c = c.startTLS(r.trusted())
	c.say("MAIL FROM:<a@b.test>", "503") // RFC 3207, 4.2
	if got := c.say("EHLO me", "250"); strings.Contains(got, "STARTTLS") || !strings.Contains(got, "AUTH PLAIN LOGIN") {
		t.Errorf("offers %q under TLS", got)
	}
	c.say("STARTTLS", "503")
	c.say("MAIL FROM:<a@b.test>", "530 5.7.0")
	c.say(plain(goodKey), "235")
	if got := c.replies(strings.Repeat(envelope+plainMail+".\r\n", 3), 12); got != strings.TrimSpace(strings.Repeat("250 250 354 250 ", 3)) {
		t.Error(got)
	}
	if all := r.memory.all(); len(all) != 3 || !strings.Contains(string(all[0].Content), "with ESMTPSA id ") {
		t.Errorf("%d messages, the first %s", len(all), all[0].Content)
	}
	for _, behind := range []string{"EHLO evil\r\n", plain(goodKey) + "\r\n", "\r\n", "\x16\x03\x01"} {
		c := r.dial()
		c.say("EHLO me", "250")
		if got := c.replies("STARTTLS\r\n"+behind, 2); got != "503 -" {
			t.Errorf("%q behind STARTTLS: answered %s", behind, got)
		}
	}
	c = r.dial()
	c.say("STARTTLS now", "501")
	c.say("STARTTLS", "220")
	c.send("EHLO me\r\nMAIL FROM:<>\r\n" + strings.Repeat("x", 100)) // no TLS comes
	for c.reply() != "" {
		t.Log("an alert, or its beginning")
	}
}

// Without a certificate TLS is not offered: mailers use it where it is.
func TestNoTLS(t *testing.T) {
	r := start(t, func(o *Options) { o.Certificates = nil })
	c := r.dial()
	if got := c.say("EHLO me", "250"); strings.Contains(got, "STARTTLS") || !strings.Contains(got, "AUTH PLAIN LOGIN") {
		t.Errorf("offers %q", got)
	}
	c.say("STARTTLS", "502")
	c.say(plain(goodKey), "235")
}

// A certificate is read again when its files change; what cannot be read, or
// does not belong together, leaves the one before in force.
func TestCertificateIsReadAgain(t *testing.T) {
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	clock := clocktest.At(time.Now())
	write := func(host string, files ...string) {
		made, err := SelfSigned(host, clock)
		if err != nil {
			t.Fatal(err)
		}
		private, err := x509.MarshalPKCS8PrivateKey(made.current.PrivateKey)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			block := &pem.Block{Type: "CERTIFICATE", Bytes: made.current.Certificate[0]}
			if f == keyFile {
				block = &pem.Block{Type: "PRIVATE KEY", Bytes: private}
			}
			if err := os.WriteFile(f, pem.EncodeToMemory(block), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := LoadCertificates(certFile, keyFile, clock, slog.Default()); err == nil {
		t.Fatal("files that are not there were read")
	}
	write("one.test", certFile, keyFile)
	log := &lockedBuffer{}
	certificates, err := LoadCertificates(certFile, keyFile, clock, slog.New(slog.NewTextHandler(log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	r := start(t, func(o *Options) { o.Certificates, o.Clock = certificates, clock })
	shown := func() string {
		t.Helper()
		c := r.dial()
		s := c.startTLS(&tls.Config{InsecureSkipVerify: true}) // which one it is, is looked at below
		return s.Conn.(*tls.Conn).ConnectionState().PeerCertificates[0].Subject.CommonName
	}
	for i, step := range []struct {
		change func()
		want   string
	}{
		{func() {}, "one.test"},
		{func() { write("two.test", certFile, keyFile) }, "one.test"}, // just looked
		{func() { clock.Move(lookEvery) }, "two.test"},
		{func() { clock.Move(lookEvery); write("three.test", certFile) }, "two.test"}, // its key is still to come
		{func() { clock.Move(lookEvery); write("four.test", certFile, keyFile) }, "four.test"},
		{func() { clock.Move(lookEvery); os.Remove(keyFile) }, "four.test"},
	} {
		step.change()
		if got := shown(); got != step.want {
			t.Errorf("step %d: shows %s, want %s", i, got, step.want)
		}
	}
	if n := strings.Count(log.String(), "keeps its previous certificate"); n != 2 {
		t.Errorf("warned %d times:\n%s", n, log)
	}
}

// A client that waits for a command is told that the server goes. One that
// sends a message is heard to its end, or cut off when the time is over.
func TestStop(t *testing.T) {
	r := start(t, open)
	idle, sending := r.dial(), r.dial()
	idle.say("EHLO me", "250")
	sending.replies(hello+envelope, 4)
	sending.send("From: a@b.test\r\n")
	await(t, "it reads the message", func() bool {
		reading := 0
		r.each(func(c *conn) {
			if c.reading.Load() {
				reading++
			}
		})
		return reading == 1
	})
	stopped := make(chan error)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		stopped <- r.Stop(ctx)
	}()
	idle.want("421 4.3.2")
	idle.want("")
	sending.send("\r\nhello\r\n")
	sending.say(".", "250 2.0.0")
	sending.want("421")
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	if n := len(r.memory.all()); n != 1 {
		t.Errorf("%d messages", n)
	}

	r = start(t, open)
	r.memory.gate, r.memory.inside = make(chan struct{}), make(chan struct{}, 1)
	c := r.dial()
	c.replies(hello+envelope+plainMail+".\r\n", 4)
	<-r.memory.inside
	over, cancel := context.WithCancel(context.Background())
	cancel()
	if err := r.Stop(over); !errors.Is(err, context.Canceled) {
		t.Errorf("a stop that cut somebody off says %v", err)
	}
	if got := c.reply(); strings.HasPrefix(got, "2") || fmt.Sprint(r.memory.all()) != "[]" {
		t.Errorf("a message that was cut off was answered %q", got)
	}
}
