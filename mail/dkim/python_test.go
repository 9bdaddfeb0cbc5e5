package dkim

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/lib/mime"
	"sluice/test/servers"
)

// pythonWithin bounds the programs in Python, on a machine that is busy too.
const pythonWithin = 2 * time.Minute

// readMail is what testdata/read_mail.py says of a mail.
type readMail struct {
	Subject    string
	From, To   [][2]string
	Signatures int
	Valid      []bool
	Defects    []string
	Parts      []struct{ Type, Disposition, Name, ID, Text, SHA256 string }
}

// read has mails read by Python.
func read(t *testing.T, mails [][]byte) []readMail {
	t.Helper()
	tools, err := servers.Tools("../../scripts", "python", "requirements-test.txt")
	if err != nil {
		t.Fatal(err)
	}
	dir, records := t.TempDir(), map[string]string{}
	for _, k := range keys(t) {
		records[k.RecordName()] = record(k)
	}
	text, err := json.Marshal(records)
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"testdata/read_mail.py", filepath.Join(dir, "records.json")}
	write := func(path string, content []byte) {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(args[1], text)
	for i, m := range mails {
		args = append(args, filepath.Join(dir, fmt.Sprintf("%d.eml", i)))
		write(args[len(args)-1], m)
	}
	ctx, cancel := context.WithTimeout(t.Context(), pythonWithin)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(tools, "bin", "python"), args...)
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1", "PYTHONIOENCODING=utf-8")
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, &complaints)
	}
	var all []readMail
	for line := range bytes.Lines(out) {
		var one readMail
		if err := json.Unmarshal(line, &one); err != nil {
			t.Fatal(err)
		}
		all = append(all, one)
	}
	if len(all) != len(mails) {
		t.Fatalf("%d mails were read of %d", len(all), len(mails))
	}
	return all
}

// What is built and signed here is read by Python as it was meant, without a
// complaint, and dkimpy believes both signatures.
func TestPythonReadsMails(t *testing.T) {
	texts := []string{
		"hello", "Zoë Ünlü", "日本語の件名はとても長いので、何度も折り返されなければなりません。はい。", "🎉👩‍👩‍👧‍👦 party", "שלום \u202eolleh\u202c", `"q" \ "nested \"quotes\""`,
		"=?utf-8?q?no_word?=", "a,b;c:<d>@e", strings.Repeat("word ", 40) + "end", strings.Repeat("x", 200), strings.Repeat("ü", 120),
	}
	from, err := mime.ParseAddress("ann@bücher.example")
	if err != nil {
		t.Fatal(err)
	}
	image := []byte("\x89PNG\r\n\x1a\n\x00\xff")
	var mails [][]byte
	for _, text := range texts {
		c := &mime.Common{From: mime.Mailbox{Name: text, Address: from}, Attachments: []mime.Attachment{
			{Name: text + ".pdf", Data: bytes.Repeat(image, 100)}, {Name: "logo.png", ContentID: "logo@x", Data: image}}}
		f := &mime.Fields{To: []mime.Mailbox{{Name: text, Address: from}, {Address: from}}, Subject: text, Text: text + "\n.\nFrom me\n", HTML: "<p>" + text + " <img src=\"cid:logo@x\">",
			Preheader: text, ID: "1@example.com", Date: testTime}
		m, err := mime.Build(c, f)
		if err != nil {
			t.Fatal(err)
		}
		signed, err := signMessage(signer(t, keys(t)...), nil, m)
		if err != nil {
			t.Fatal(err)
		}
		mails = append(mails, append(signed, m...))
	}
	for i, got := range read(t, mails) {
		// This Python keeps the spaces between encoded words of a name, against
		// RFC 2047, 6.2. Go's net/mail, in the tests of mime, sees names as
		// they are.
		text, box := texts[i], [2]string{strings.ReplaceAll(texts[i], " ", ""), "ann@xn--bcher-kva.example"}
		for _, boxes := range [][][2]string{got.From, got.To} {
			for i := range boxes {
				boxes[i][0] = strings.ReplaceAll(boxes[i][0], " ", "")
			}
		}
		if got.Signatures != 2 || !slices.Equal(got.Valid, []bool{true, true}) {
			t.Errorf("%q: %d signatures, dkimpy believes %v", text, got.Signatures, got.Valid)
		}
		if got.Subject != text || !slices.Equal(got.From, [][2]string{box}) || !slices.Equal(got.To, [][2]string{box, {"", box[1]}}) || len(got.Defects) != 0 {
			t.Errorf("%q was read as %q from %q to %q, defects %q", text, got.Subject, got.From, got.To, got.Defects)
		}
		if len(got.Parts) != 4 {
			t.Fatalf("%q has the parts %+v", text, got.Parts)
		}
		plain, html, logo, file := got.Parts[0], got.Parts[1], got.Parts[2], got.Parts[3]
		if strings.TrimRight(plain.Text, "\r\n") != text+"\r\n.\r\nFrom me" || plain.Type != "text/plain" {
			t.Errorf("%q: text %q", text, plain.Text)
		}
		if !strings.HasSuffix(strings.TrimRight(html.Text, "\r\n"), "</div><p>"+text+` <img src="cid:logo@x">`) || html.Type != "text/html" {
			t.Errorf("%q: HTML %q", text, html.Text)
		}
		if logo.ID != "<logo@x>" || logo.Disposition != "inline" || logo.Name != "logo.png" || logo.SHA256 != hashOf(image) {
			t.Errorf("%q: image %+v", text, logo)
		}
		if file.Type != "application/pdf" || file.Disposition != "attachment" || file.Name != text+".pdf" || file.SHA256 != hashOf(bytes.Repeat(image, 100)) {
			t.Errorf("%q: file %+v", text, file)
		}
	}
}

func hashOf(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
