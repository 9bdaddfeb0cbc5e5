package mime

import (
	"bytes"
	"encoding/base64"
	"strings"
	"testing"
)

// crlfs is a text whose lines end in CRLF.
func crlfs(text string) string { return strings.ReplaceAll(text, "\n", "\r\n") }

const gap = "0123456789"

// withGap puts one gap behind each "gap:" of HTML, and fills it with letters.
func withGap(t *testing.T, p *HTMLPart) string {
	t.Helper()
	html, gaps := "", []int(nil)
	for i, piece := range strings.SplitAfter(p.Text, "gap:") {
		if i > 0 {
			gaps = append(gaps, len(html))
			html += gap
		}
		html += piece
	}
	l := p.Layout(html, gaps, len(gap))
	made, err := l.Append(nil, func(text []byte) error {
		for _, at := range l.Gaps() {
			if string(text[at:at+len(gap)]) != gap {
				t.Errorf("at %d there is no gap: %q", at, text)
			}
			copy(text[at:], "abcdefghij")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return string(made)
}

// HTML is found and replaced, and the rest of the message stays as it was.
func TestHTMLPart(t *testing.T) {
	const top = "From: a@b.c\nMIME-Version: 1.0\n"
	long := strings.Repeat("x", 70)
	encoded := base64.StdEncoding.EncodeToString([]byte("<p>ä gap:</p>\n"))
	for _, tt := range []struct{ name, message, want string }{
		{"alone", top + "Content-Type: text/html\n\n<p>gap:</p>\n", top + "Content-Type: text/html\n\n<p>gap:abcdefghij</p>\n"},
		{"alternative", top + "Content-Type: multipart/alternative; boundary=\"=_b\"\n\nfor nobody\n--=_b\nContent-Type: text/plain\n\ngap:\n--=_b\nContent-Type: text/html; charset=UTF-8\n\n<p>gap:</p>\n--=_b--\nbehind\n",
			top + "Content-Type: multipart/alternative; boundary=\"=_b\"\n\nfor nobody\n--=_b\nContent-Type: text/plain\n\ngap:\n--=_b\nContent-Type: text/html; charset=UTF-8\n\n<p>gap:abcdefghij</p>\n--=_b--\nbehind\n"},
		{"mixed, with a file", top + "Content-Type: multipart/mixed; boundary=b\n\n--b\nContent-Type: text/html\nContent-Disposition: attachment\n\ngap:\n--b\nContent-Type: multipart/related;\n boundary=bb\n\n--bb\nContent-Type: text/html\nContent-Disposition: inline\n\ngap:--b\n--bb--\n--b--\n",
			top + "Content-Type: multipart/mixed; boundary=b\n\n--b\nContent-Type: text/html\nContent-Disposition: attachment\n\ngap:\n--b\nContent-Type: multipart/related;\n boundary=bb\n\n--bb\nContent-Type: text/html\nContent-Disposition: inline\n\ngap:abcdefghij--b\n--bb--\n--b--\n"},
		{"quoted-printable", top + "Content-Transfer-Encoding: Quoted-Printable\nContent-Type: text/html\n\n=C3=A4 gap:=0A" + long + "gap:x=\n.\nx\n",
			top + "Content-Transfer-Encoding: Quoted-Printable\nContent-Type: text/html\n\n=C3=A4 gap:abcdefghij=0A" + long[:51] + "=\n" + long[51:] + "gap:abcdefghijx.\nx\n"},
		{"a gap over the end of a line", top + "Content-Transfer-Encoding: quoted-printable\nContent-Type: text/html\n\n" + long + "gap:.=3D\n",
			top + "Content-Transfer-Encoding: quoted-printable\nContent-Type: text/html\n\n" + long + "gap:=\nabcdefghij.=3D\n"},
		{"base64", top + "Content-Transfer-Encoding: base64\nContent-Type: text/html; charset=utf-8\n\n" + encoded + "\n",
			top + "Content-Transfer-Encoding: base64\nContent-Type: text/html; charset=utf-8\n\n" + base64.StdEncoding.EncodeToString([]byte("<p>ä gap:abcdefghij</p>\n")) + "\n"},
		{"8bit", top + "Content-Transfer-Encoding: 8bit\nContent-Type: text/html; charset=utf-8\n\nä=gap:\n",
			top + "Content-Type: text/html; charset=utf-8\nContent-Transfer-Encoding: quoted-printable\n\n=C3=A4=3Dgap:abcdefghij\n"},
		{"a line that becomes too long", top + "Content-Type: text/html\n\n" + strings.Repeat("x", 990) + "gap:\n", ""},
	} {
		message := crlfs(tt.message)
		p := FindHTML([]byte(message))
		if p == nil {
			t.Errorf("%s: there is no HTML", tt.name)
			continue
		}
		got := withGap(t, p)
		if tt.want != "" && got != crlfs(tt.want) {
			t.Errorf("%s:\ngot  %q\nwant %q", tt.name, got, crlfs(tt.want))
		}
		for line := range strings.SplitSeq(got, "\r\n") {
			if len(line) > MaxLineBytes {
				t.Errorf("%s: a line of %d", tt.name, len(line))
			}
		}
		again := FindHTML([]byte(got))
		if again == nil || again.Text != strings.ReplaceAll(p.Text, "gap:", "gap:abcdefghij") {
			t.Errorf("%s: read again: %+v", tt.name, again)
		}
	}
}

// What is signed, encrypted, a file or not to be read stays.
func TestNoHTMLPart(t *testing.T) {
	if FindHTML([]byte(crlfs(nested(maxPartDepth)))) == nil {
		t.Error("HTML in as many parts as are looked into was not found")
	}
	for name, message := range map[string]string{
		"text":               "Content-Type: text/plain\n\nx\n",
		"nothing":            "From: a@b.c\n\nx\n",
		"signed by DKIM":     "DKIM-Signature: x\nContent-Type: text/html\n\nx\n",
		"S/MIME":             "Content-Type: multipart/signed; boundary=b\n\n--b\nContent-Type: text/html\n\nx\n--b--\n",
		"opaque S/MIME":      "Content-Type: application/pkcs7-mime\n\nx\n",
		"encrypted":          "Content-Type: multipart/encrypted; boundary=b\n\n--b\nContent-Type: text/html\n\nx\n--b--\n",
		"PGP":                "Content-Type: text/html\n\n<pre>-----BEGIN PGP SIGNED MESSAGE-----\n",
		"a signed part":      "Content-Type: multipart/mixed; boundary=b\n\n--b\nContent-Type: multipart/signed; boundary=c\n\n--c\nContent-Type: text/html\n\nx\n--c--\n--b--\n",
		"a forwarded mail":   "Content-Type: multipart/mixed; boundary=b\n\n--b\nContent-Type: message/rfc822\n\nContent-Type: text/html\n\nx\n--b--\n",
		"a file":             "Content-Type: text/html\nContent-Disposition: Attachment; filename=x\n\nx\n",
		"no end":             "Content-Type: multipart/mixed; boundary=b\n\n--b\nContent-Type: text/html\n\nx\n",
		"another charset":    "Content-Type: text/html; charset=iso-2022-jp\n\nx\n",
		"another encoding":   "Content-Type: text/html\nContent-Transfer-Encoding: x-uuencode\n\nx\n",
		"broken base64":      "Content-Type: text/html\nContent-Transfer-Encoding: base64\n\n!!!\n",
		"a broken type":      "Content-Type: text/html; charset=\"\n\nx\n",
		"parts in parts":     nested(maxPartDepth + 1),
		"too many parts":     "Content-Type: multipart/mixed; boundary=b\n\n" + strings.Repeat("--b\n\nx\n", 300) + "--b\nContent-Type: text/html\n\nx\n--b--\n",
		"no headers at all":  "\nx\n",
		"headers, no end":    "Content-Type: text/html",
		"a mail of one line": "x",
	} {
		if p := FindHTML([]byte(crlfs(message))); p != nil {
			t.Errorf("%s: %q", name, p.Text)
		}
	}
}

// Whatever a message is like, what comes back of it differs in its HTML alone.
func FuzzFindHTML(f *testing.F) {
	f.Add([]byte(crlfs("Content-Type: multipart/mixed; boundary=b\n\n--b\nContent-Type: text/html\nContent-Transfer-Encoding: base64\n\nPHA+Z2FwOjwvcD4=\n--b--\n")))
	f.Add([]byte(crlfs("Content-Type: text/html\nContent-Transfer-Encoding: quoted-printable\n\n=C3=A4 gap:=0A\n")))
	f.Fuzz(func(t *testing.T, message []byte) {
		p := FindHTML(message)
		if p == nil {
			return
		}
		made, err := p.Layout(p.Text, nil, 0).Append(nil, func([]byte) error { return nil })
		if err != nil {
			t.Fatal(err)
		}
		again := FindHTML(made)
		if again == nil {
			t.Fatalf("%q became %q, which has no HTML", message, made)
		}
		if again.Text != p.Text && !bytes.ContainsAny([]byte(p.Text), "\x00") {
			t.Fatalf("%q became %q\n%q", message, made, again.Text)
		}
	})
}

// nested is HTML so many multiparts deep.
func nested(depth int) string {
	message := "Content-Type: text/html\n\nx\n"
	for i := range depth {
		b := strings.Repeat("b", i+1)
		message = "Content-Type: multipart/mixed; boundary=" + b + "\n\n--" + b + "\n" + message + "--" + b + "--\n"
	}
	return message
}
