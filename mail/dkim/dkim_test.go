package dkim

import (
	"bytes"
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/emersion/go-msgauth/dkim"

	"sluice/test/dkimtest"
)

var testTime = time.Unix(1795280000, 0)

// testKeys are made once: RSA takes its time.
var testKeys = sync.OnceValues(func() ([]*Key, error) {
	var keys []*Key
	for _, kind := range []string{dkimtest.RSA, dkimtest.Ed25519} {
		k, err := ParseKey("Example.com", "s-"+kind, dkimtest.Key(kind))
		if err != nil {
			return nil, err
		}
		keys = append(keys, k)
	}
	return keys, nil
})

func record(k *Key) string {
	text, err := k.Record()
	if err != nil {
		panic(err)
	}
	return text
}

func keys(t testing.TB) []*Key {
	t.Helper()
	all, err := testKeys()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func signer(t testing.TB, keys ...*Key) *Signer {
	t.Helper()
	s, err := NewSigner(keys...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// verify has a message judged by go-msgauth: which signatures hold.
func verify(t testing.TB, message []byte, keys []*Key) []*dkim.Verification {
	t.Helper()
	options := &dkim.VerifyOptions{LookupTXT: func(name string) ([]string, error) {
		for _, k := range keys {
			if k.RecordName() == name {
				return []string{record(k)}, nil
			}
		}
		return nil, fmt.Errorf("no such name %s", name)
	}}
	all, err := dkim.VerifyWithOptions(bytes.NewReader(message), options)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

const head = "From: Ann <ann@example.com>\r\nTo: bob@example.org\r\nSubject:  two  spaces\r\n\t and a fold \r\nDate: Sat, 21 Nov 2026 17:30:00 +0000\r\n" +
	"Message-ID: <1@example.com>\r\nX-Other: not signed\r\nMIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\n"

func TestSignaturesHold(t *testing.T) {
	all := keys(t)
	for name, body := range map[string]string{
		"nothing": "", "empty line": "\r\n", "empty lines": "\r\n\r\n\r\n", "spaces": " \r\n\t\r\n", "text": "hello\r\n", "no end": "hello",
		"empty lines at the end": "a\r\n\r\n\r\n", "empty lines at the beginning": "\r\n\r\na\r\n", "spaces inside": "a  b \t c\r\n d\r\n e \r\n\tf\t\r\n",
		"spaces at the end": "a\r\n  \r\n \r\n", "long": strings.Repeat("a line of the mail \r\n\r\n", 5000), "one line": strings.Repeat("x", 100000), "words": strings.Repeat("x ", 50000),
		"8 bit": "ü\x80\r\n", "dots": ".\r\n..\r\n",
	} {
		message := []byte(head + "\r\n" + body)
		signed, err := signMessage(signer(t, all...), nil, message)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		checkLines(t, signed)
		results := verify(t, append(signed, message...), all)
		if len(results) != 2 {
			t.Fatalf("%s: %d signatures", name, len(results))
		}
		for _, v := range results {
			if v.Err != nil || v.Domain != "example.com" || !v.Time.Equal(testTime) || strings.Join(v.HeaderKeys, ":") != "From:From:To:Subject:Date:Message-ID:MIME-Version:Content-Type" {
				t.Errorf("%s: %+v", name, v)
			}
		}
	}
}

func checkLines(t testing.TB, signed []byte) {
	t.Helper()
	for _, l := range strings.Split(strings.TrimSuffix(string(signed), "\r\n"), "\r\n") {
		if len(l) > 78 || strings.ContainsAny(l, "\r\n") {
			t.Errorf("line %q", l)
		}
	}
}

// What h= covers, the unsubscribe headers among it, from a block of headers of
// its own.
func TestWhatIsSigned(t *testing.T) {
	k := keys(t)[1]
	extra := "List-Unsubscribe: <https://example.com/u>\r\nList-Unsubscribe-Post: List-Unsubscribe=One-Click\r\nCc: c@example.com\r\nReply-To: r@example.com\r\n"
	body := HashBody([]byte("x\r\n"))
	signed, err := signer(t, k).Sign([]byte("X-Before: 1\r\n"), testTime, body, []byte(extra), []byte(head))
	if err != nil {
		t.Fatal(err)
	}
	checkLines(t, signed)
	whole := string(signed) + extra + head + "\r\nx\r\n"
	names := []string{"From", "To", "Cc", "Reply-To", "Subject", "Date", "Message-ID", "MIME-Version", "Content-Type", "List-Unsubscribe", "List-Unsubscribe-Post"}
	if v := verify(t, []byte(whole), keys(t)); len(v) != 1 || v[0].Err != nil || strings.Join(v[0].HeaderKeys, ":") != "From:"+strings.Join(names, ":") {
		t.Fatalf("%+v", v[0])
	}
	for _, name := range names {
		changed := strings.Replace(whole, "\r\n"+name+":", "\r\n"+name+": changed", 1)
		if v := verify(t, []byte(changed), keys(t)); changed == whole || v[0].Err == nil {
			t.Errorf("%s may be changed", name)
		}
		if name == "From" {
			changed = "From: other@example.com\r\n" + whole
			if v := verify(t, []byte(changed), keys(t)); v[0].Err == nil {
				t.Error("a From may be added before")
			}
			if v := verify(t, []byte(strings.Replace(whole, "\r\n\r\n", "\r\nFrom: other@example.com\r\n\r\n", 1)), keys(t)); v[0].Err == nil {
				t.Error("a From may be added behind")
			}
		}
	}
	// What servers on the way do breaks nothing.
	refolded := strings.NewReplacer("\r\n\t and a fold ", " and\r\n a fold", "Subject:  two", "SUBJECT: two", "x\r\n", "x \r\n\r\n").Replace(whole)
	if v := verify(t, []byte(refolded), keys(t)); refolded == whole || v[0].Err != nil {
		t.Errorf("refolded: %v", v[0].Err)
	}
	if v := verify(t, []byte(whole+"more\r\n"), keys(t)); v[0].Err == nil {
		t.Error("the body may be longer")
	}
}

func TestRepeatedHeaders(t *testing.T) {
	message := []byte("List-Id: a\r\nlist-id : b\r\nReferences: <1>\r\nLIST-ID: c\r\n" + head + "\r\nx\r\n")
	signed, err := signMessage(signer(t, keys(t)...), nil, message)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range verify(t, append(signed, message...), keys(t)) {
		if v.Err != nil {
			t.Error(v.Err)
		}
	}
}

func TestSignRefuses(t *testing.T) {
	s := signer(t, keys(t)[1])
	for name, message := range map[string]string{
		"no From": "To: a@b.c\r\n\r\nx", "two": "From: a\r\nFROM: b\r\n\r\nx", "nothing": "", "no end": "From: a", "LF": "From: a\n\nx",
		"many": "From: a\r\n" + strings.Repeat("List-Id: x\r\n", maxFields) + "\r\n",
	} {
		before := []byte("before")
		if out, err := signMessage(s, before, []byte(message)); err == nil || string(out) != "before" {
			t.Errorf("%s: signed as %q", name, out)
		}
	}
	if _, err := NewSigner(); err == nil {
		t.Error("a signer without keys")
	}
	if _, err := NewSigner(make([]*Key, maxKeys+1)...); err == nil {
		t.Error("a signer with many keys")
	}
}

// The hash of a body is that of its canonical form, wherever the body ends.
func TestBodyHash(t *testing.T) {
	body := []byte("a  b \r\n\r\n  c\t\r\n\r\n\r\nd\r\re\r\n \r\n\r\n")
	want := HashBody(body)
	if sum := sha256.Sum256([]byte("a b\r\n\r\n c\r\n\r\n\r\nd\r\re\r\n")); BodySum(sum) != want {
		t.Fatalf("%x is not the hash of the canonical body", want)
	}
	for cut := range body { // by the words of the RFC, step by step
		text := regexp.MustCompile(`[ \t]+`).ReplaceAllString(string(body[:cut]), " ")
		text = strings.ReplaceAll(strings.TrimSuffix(text, " "), " \r\n", "\r\n")
		for strings.HasSuffix(text, "\r\n") {
			text = strings.TrimSuffix(text, "\r\n")
		}
		if text != "" {
			text += "\r\n"
		}
		if got := HashBody(body[:cut]); got != sha256.Sum256([]byte(text)) {
			t.Errorf("%d: %x is not the hash of %q", cut, got, text)
		}
	}
	if long := strings.Repeat("x", 3*bufferBytes); HashBody([]byte("a\r\n"+long+" \t"+long+"\t\r\n")) != sha256.Sum256([]byte("a\r\n"+long+" "+long+"\r\n")) {
		t.Error("a line that is longer than what is hashed at once has another hash")
	}
	empty := HashBody(nil)
	if got := base64.StdEncoding.EncodeToString(empty[:]); got != "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=" { // RFC 6376, 3.4.4
		t.Errorf("the empty body's hash is %s", got)
	}
}

// signMessage appends the signatures of a whole message.
func signMessage(s *Signer, dst, message []byte) ([]byte, error) {
	header, body := Split(message)
	return s.Sign(dst, testTime, HashBody(body), header)
}

func TestParseKeyRefuses(t *testing.T) {
	small, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	_, ed, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(ed)
	if err != nil {
		t.Fatal(err)
	}
	good := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	for name, tt := range map[string]struct{ domain, selector, text, want string }{
		"1,024 bits":     {"example.com", "s", string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(small)})), "1024 bits"},
		"nothing":        {"example.com", "s", "", "no PEM"},
		"a certificate":  {"example.com", "s", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})), "want PRIVATE KEY"},
		"broken":         {"example.com", "s", string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der[1:]})), "broken"},
		"two keys":       {"example.com", "s", string(good) + string(good), "follows"},
		"no domain":      {"", "s", string(good), "no domain"},
		"one label":      {"localhost", "s", string(good), "no domain"},
		"an injection":   {"example.com;\r\n x=y", "s", string(good), "no domain"},
		"no selector":    {"example.com", "", string(good), "no selector"},
		"a bad selector": {"example.com", "a b", string(good), "no selector"},
	} {
		if _, err := ParseKey(tt.domain, tt.selector, []byte(tt.text)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
		}
	}
}

func TestRecord(t *testing.T) {
	k := keys(t)[0]
	text := record(k)
	if k.RecordName() != "s-rsa._domainkey.example.com" || !strings.HasPrefix(text, "v=DKIM1; k=rsa; p=MII") {
		t.Errorf("%s TXT %q", k.RecordName(), text)
	}
	pieces := RecordStrings(text)
	if len(pieces) != 2 || len(pieces[0]) != 255 || strings.Join(pieces, "") != text {
		t.Errorf("%q", pieces)
	}
}

func FuzzSign(f *testing.F) {
	f.Add([]byte(head), []byte("body\r\n"))
	f.Add([]byte("From:\r\n"), []byte(" \r\n\r\n"))
	f.Add([]byte("from : a\r\n b\r\nList-Id:x\r\nlist-id:\ty\r\n"), []byte("a  b\t\r\n\r\n\r\n"))
	f.Fuzz(func(t *testing.T, headers, body []byte) {
		if bytes.Contains(headers, []byte("\r\n\r\n")) || bytes.HasPrefix(headers, []byte("\r\n")) || !bytes.HasSuffix(headers, []byte("\r\n")) {
			return // another message
		}
		for line := range bytes.Lines(headers) {
			name, _, ok := bytes.Cut(line, []byte(":"))
			if !bytes.HasSuffix(line, []byte("\r\n")) || bytes.Count(line, []byte("\r")) != 1 || !ok || len(name) == 0 || bytes.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' }) && name[0] != ' ' {
				return // what mime.Scan refuses
			}
		}
		if headers[0] == ' ' || bytes.Count(body, []byte("\r")) != bytes.Count(body, []byte("\r\n")) || bytes.Count(body, []byte("\n")) != bytes.Count(body, []byte("\r\n")) {
			return
		}
		k := keys(t)[1]
		message := bytes.Join([][]byte{headers, []byte("\r\n"), body}, nil)
		signed, err := signMessage(signer(t, k), nil, message)
		if err != nil {
			return
		}
		checkLines(t, signed)
		for _, v := range verify(t, append(signed, message...), []*Key{k}) {
			if v.Domain == "example.com" && v.Err != nil {
				t.Fatalf("%q: %v", message, v.Err)
			}
		}
	})
}

// go-msgauth signs the same message: the figures of decision 54.
func BenchmarkMessage(b *testing.B) {
	message := []byte(head + "\r\n" + strings.Repeat("A line of a mail, of some words and a few signs.=\r\n", 200))
	for _, k := range keys(b) {
		b.Run(k.kind+"/ours", func(b *testing.B) {
			s := signer(b, k)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := signMessage(s, nil, message); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(k.kind+"/go-msgauth", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := dkim.Sign(io.Discard, bytes.NewReader(message), &dkim.SignOptions{Domain: k.domain, Selector: k.selector, Signer: k.signer, Hash: crypto.SHA256,
					HeaderCanonicalization: dkim.CanonicalizationRelaxed, BodyCanonicalization: dkim.CanonicalizationRelaxed}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkSign(b *testing.B) {
	body := HashBody([]byte(strings.Repeat("a line\r\n", 1000)))
	for _, k := range keys(b) {
		b.Run(k.kind, func(b *testing.B) {
			s := signer(b, k)
			var out []byte
			b.ReportAllocs()
			for b.Loop() {
				var err error
				if out, err = s.Sign(out[:0], testTime, body, []byte(head)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkHashBody(b *testing.B) {
	body := []byte(strings.Repeat("A line of a mail, of some words and a few signs.=\r\n", 200))
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		HashBody(body)
	}
}
