package smtp

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	netsmtp "net/smtp"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sluice/mail"
	"sluice/test/servers"
	"sluice/test/sink"
)

// Servers and clients that nobody here has written.

// Postfix takes a window by BDAT and sends it on, to the sink. Every mail
// arrives once and as it was. A refused recipient in the middle, whose chunk
// Postfix has to discard, touches no other.
func TestPostfix(t *testing.T) {
	for _, mode := range []struct {
		name, setting string
	}{
		{"chunking", "smtpd_discard_ehlo_keywords ="},
		{"pipelining", "smtpd_discard_ehlo_keywords = chunking, silent-discard"},
		{"lockstep", "smtpd_discard_ehlo_keywords = chunking, pipelining, silent-discard"},
	} {
		t.Run(mode.name, func(t *testing.T) {
			s := startSink(t, sink.Options{Keep: 1000})
			p, err := servers.StartPostfix(limit(t), servers.PostfixOptions{Dir: t.TempDir(), Next: s.Addr(), Settings: []string{
				mode.setting,
				"message_size_limit = 200000",
				"smtpd_recipient_restrictions = check_recipient_access inline:{{nobody@sink.test=REJECT} {later@sink.test=DEFER}}, permit_mynetworks, reject",
			}})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := p.Stop(context.Background()); err != nil {
					t.Error(err)
				}
			})
			r := newRelay(t, p.Addr(), Options{Window: 64})
			all := envelopes(64, 2000)
			all[5].To = "nobody@sink.test"
			all[17].To = "later@sink.test"
			all[18].To = "jos\u00e9@sink.test"
			all[19].Content = append(content(19, 100), "na\xc3\xafve\r\n"...)
			all[20].Content = content(20, 250000) // larger than it takes
			all[21].From = ""
			want := strings.Repeat("S", 5) + "F" + strings.Repeat("S", 11) + "DSSFS" + strings.Repeat("S", 42)
			results := deliver(t, limit(t), r, all)
			if got := kinds(results); got != want {
				t.Fatalf("%s, want %s", got, want)
			}
			if one := results[5]; one.Code != 554 || one.Enhanced != "5.7.1" || one.Blame != mail.BlameNobody {
				t.Errorf("the refused one: %+v", one)
			}
			if one := results[17]; one.Code != 450 && one.Code != 451 || one.Kind != mail.ResultDeferred {
				t.Errorf("the deferred one: %+v", one)
			}
			if !regexp.MustCompile(`^[0-9A-Za-z]{8,}$`).MatchString(results[0].ID) {
				t.Errorf("the id is %q: %+v", results[0].ID, results[0])
			}
			if err := s.Await(limit(t), 61); err != nil {
				t.Fatal(err)
			}
			if s.Duplicates() != 0 {
				t.Errorf("%d mails came twice", s.Duplicates())
			}
			for _, m := range s.Mails() {
				var i int
				if _, err := fmt.Sscanf(m.ID, "<mail-%d@client.test>", &i); err != nil {
					t.Fatal(err)
				}
				_, body, _ := bytes.Cut(all[i].Content, []byte("\r\n\r\n")) // it adds headers
				if !bytes.HasSuffix(m.Content, append([]byte("\r\n\r\n"), body...)) || m.From != all[i].From || m.To[0] != all[i].To {
					t.Errorf("mail %d arrived changed: from %q to %q\n%s", i, m.From, m.To, m.Content)
				}
			}
		})
	}
}

// smtp-sink has PIPELINING and no CHUNKING.
func TestSMTPSink(t *testing.T) {
	for _, x := range []struct {
		name string
		args []string
		want string
	}{
		{"pipelining", nil, "SSSSSSSSSS"},
		{"lockstep", []string{"-p"}, "SSSSSSSSSS"},
		{"RCPT is refused", []string{"-f", "RCPT"}, "FFFFFFFFFF"},
		{"RCPT is deferred, pipelined", []string{"-r", "RCPT"}, "DDDDDDDDDD"},
		{"the content is refused", []string{"-f", "."}, "FFFFFFFFFF"},
		{"it disconnects at RCPT", []string{"-q", "RCPT"}, "----------"},
		{"it disconnects at the dot", []string{"-q", "."}, "?---------"},
		{"421 at MAIL", []string{"-Q", "MAIL"}, "D---------"},
		{"421 at the dot", []string{"-Q", "."}, "D---------"},
	} {
		t.Run(x.name, func(t *testing.T) {
			dir := t.TempDir()
			s, err := servers.StartSMTPSink(limit(t), dir, x.args...)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := s.Kill(); err != nil {
					t.Error(err)
				}
			})
			r := newRelay(t, s.Addr(), Options{})
			all := envelopes(10, 5000)
			results := deliver(t, limit(t), r, all)
			if got := kinds(results); got != x.want {
				t.Fatalf("%s, want %s: %+v", got, x.want, results[0])
			}
			if x.want[0] != 'S' {
				return
			}
			files, err := filepath.Glob(filepath.Join(dir, "mail.*"))
			if err != nil || len(files) != len(all) {
				t.Fatalf("%d files: %v", len(files), err)
			}
			ids := make(map[string]bool)
			for _, f := range files {
				text, err := os.ReadFile(f)
				if err != nil {
					t.Fatal(err)
				}
				ids[regexp.MustCompile(`<mail-\d+@client.test>`).FindString(string(text))] = true
				if !strings.Contains(string(text), "\n..two\n") { // it writes LF, and keeps what was unstuffed
					t.Errorf("%s", text)
				}
			}
			if len(ids) != len(all) {
				t.Errorf("%d different mails", len(ids))
			}
		})
	}
}

// aiosmtpd has neither, but STARTTLS and a login.
func TestAiosmtpd(t *testing.T) {
	tools, err := servers.Tools("../../../scripts", "python", "requirements-test.txt")
	if err != nil {
		t.Fatal(err)
	}
	ca := newAuthority(t)
	cert, key := files(t, ca, "aiosmtpd.test")
	cmd := exec.CommandContext(limit(t), filepath.Join(tools, "bin", "python"), "testdata/aiosmtpd_server.py", cert, key)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(stdout)
	port, err := lines.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	opt := Options{TLS: TLSStart, ServerName: "aiosmtpd.test", Roots: ca.pool(), User: "me", Password: "geheim w\u00f6rd", Connections: 1}
	address := "127.0.0.1:" + strings.TrimSpace(port)
	all := envelopes(20, 3000)
	all[3].To = "nobody@sink.test"
	all[4].To = "jos\u00e9@sink.test"
	results := deliver(t, limit(t), newRelay(t, address, opt), all)
	if got := kinds(results); got != "SSSF"+strings.Repeat("S", 16) || results[0].ID != "4711" || results[3].Enhanced != "5.1.1" {
		t.Fatalf("%s: %+v", got, results[0])
	}
	opt.Password = "another"
	if one := deliver(t, limit(t), newRelay(t, address, opt), all[:1])[0]; one.Kind != mail.ResultUntried || one.Code != 535 {
		t.Errorf("with a wrong password: %+v", one)
	}
	if err := stdin.Close(); err != nil {
		t.Fatal(err)
	}
	seen := make(map[string]int)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			break
		}
		var m struct {
			ID, Sum, From, User string
			TLS                 bool
		}
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatal(err)
		}
		var i int
		if _, err := fmt.Sscanf(m.ID, "<mail-%d@client.test>", &i); err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(all[i].Content)
		if seen[m.ID]++; m.Sum != hex.EncodeToString(sum[:]) || m.From != all[i].From || !m.TLS || m.User != "me" {
			t.Errorf("mail %d arrived changed: %+v", i, m)
		}
	}
	if err := cmd.Wait(); err != nil || len(seen) != 19 {
		t.Errorf("%d different mails: %v", len(seen), err)
	}
}

// files writes a server's certificate and key.
func files(t *testing.T, ca *authority, name string) (cert, key string) {
	t.Helper()
	c := ca.server(t, name).Certificates[0]
	der, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	err = errors.Join(
		os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Certificate[0]}), 0o600),
		os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	return cert, key
}

// The sink, by the client of the standard library.
func TestSinkWithAnotherClient(t *testing.T) {
	ca := newAuthority(t)
	s := startSink(t, sink.Options{TLS: ca.server(t, "sink.test"), User: "me", Password: "secret", Keep: 10})
	c, err := netsmtp.Dial(s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	config := clientConfig(ca, "sink.test")
	if err := errors.Join(c.StartTLS(config), c.Auth(netsmtp.PlainAuth("", "me", "secret", "127.0.0.1")), c.Mail("a@client.test"), c.Rcpt("b@sink.test"), c.Rcpt("c@sink.test")); err != nil {
		t.Fatal(err)
	}
	w, err := c.Data()
	if err != nil {
		t.Fatal(err)
	}
	_, err = w.Write(content(1, 1000))
	if err := errors.Join(err, w.Close(), c.Quit()); err != nil {
		t.Fatal(err)
	}
	m := s.Mails()[0]
	if string(m.Content) != string(content(1, 1000)) || len(m.To) != 2 || !m.TLS || m.Chunked || s.Count(id(1)) != 1 {
		t.Errorf("%+v", m)
	}
}
