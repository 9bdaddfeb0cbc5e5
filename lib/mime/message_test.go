package mime

import (
	"bytes"
	"encoding/base64"
	"errors"
	"io"
	"maps"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net/mail"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice"
)

func mailbox(t testing.TB, s string) Mailbox {
	t.Helper()
	m, err := ParseMailbox(s)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// fields are what a test's mail has at least.
func fields() *Fields { return &Fields{ID: testID, Date: testNow} }

func common(t testing.TB) *Common { return &Common{From: mailbox(t, "from@example.com")} }

func build(t *testing.T, c *Common, f *Fields) []byte {
	t.Helper()
	m, err := Build(c, f)
	if err != nil {
		t.Fatal(err)
	}
	checkWire(t, m)
	return m
}

// part is a part that has no parts, as Go's own packages read it.
type part struct {
	kind, parameters, disposition, name, id string
	content                                 string
}

// parts reads a mail with the standard library.
func parts(t *testing.T, header func(string) string, body io.Reader) (all []part) {
	t.Helper()
	kind, parameters, err := mime.ParseMediaType(header("Content-Type"))
	if err != nil {
		t.Fatalf("%q: %v", header("Content-Type"), err)
	}
	if strings.HasPrefix(kind, "multipart/") {
		all = append(all, part{kind: kind})
		for r := multipart.NewReader(body, parameters["boundary"]); ; {
			p, err := r.NextRawPart()
			if err == io.EOF {
				return append(all, part{kind: "/" + kind})
			}
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, parts(t, p.Header.Get, p)...)
		}
	}
	switch header("Content-Transfer-Encoding") {
	case "quoted-printable":
		body = quotedprintable.NewReader(body)
	case "base64":
		body = base64.NewDecoder(base64.StdEncoding, body)
	}
	content, err := io.ReadAll(body)
	if err != nil {
		t.Fatal(err)
	}
	disposition, dispositionParameters, _ := mime.ParseMediaType(header("Content-Disposition"))
	return []part{{kind, parameters["charset"], disposition, dispositionParameters["filename"], header("Content-Id"), string(content)}}
}

func partsOf(t *testing.T, m []byte) []part {
	t.Helper()
	parsed := checkWire(t, m)
	return parts(t, parsed.Header.Get, parsed.Body)
}

func kinds(all []part) string {
	var words []string
	for _, p := range all {
		words = append(words, p.kind)
	}
	return strings.Join(words, " ")
}

func TestParts(t *testing.T) {
	file := Attachment{Name: "a.pdf", Data: []byte("%PDF")}
	image := Attachment{Name: "logo.png", ContentID: "logo", Data: []byte("\x89PNG\r\n")}
	for name, tt := range map[string]struct {
		text, html string
		files      []Attachment
		want       string
	}{
		"text":            {"hello", "", nil, "text/plain"},
		"nothing":         {"", "", nil, "text/plain"},
		"HTML":            {"", "<p>hello", nil, "multipart/alternative text/plain text/html /multipart/alternative"},
		"both":            {"hi", "<p>hello", nil, "multipart/alternative text/plain text/html /multipart/alternative"},
		"file":            {"hi", "", []Attachment{file}, "multipart/mixed text/plain application/pdf /multipart/mixed"},
		"image":           {"hi", "<p>", []Attachment{image}, "multipart/alternative text/plain multipart/related text/html image/png /multipart/related /multipart/alternative"},
		"image, no HTML":  {"hi", "", []Attachment{image}, "multipart/related text/plain image/png /multipart/related"},
		"everything":      {"hi", "<p>", []Attachment{file, image, file}, "multipart/mixed multipart/alternative text/plain multipart/related text/html image/png /multipart/related /multipart/alternative application/pdf application/pdf /multipart/mixed"},
		"an empty file":   {"hi", "", []Attachment{{}}, "multipart/mixed text/plain application/octet-stream /multipart/mixed"},
		"an invitation":   {"hi", "", []Attachment{{Type: "text/calendar; method=REQUEST; charset=utf-8"}}, "multipart/mixed text/plain text/calendar /multipart/mixed"},
		"nothing, a file": {"", "", []Attachment{file}, "multipart/mixed text/plain application/pdf /multipart/mixed"},
	} {
		c, f := common(t), fields()
		c.Attachments, f.Text, f.HTML = tt.files, tt.text, tt.html
		all := partsOf(t, build(t, c, f))
		if got := kinds(all); got != tt.want {
			t.Errorf("%s: %s\nwant %s", name, got, tt.want)
		}
		files := 0
		for _, p := range all {
			switch {
			case p.kind == "image/png" && (p.disposition != "inline" || p.name != "logo.png" || p.id != "<logo>" || p.content != "\x89PNG\r\n"),
				p.kind == "application/pdf" && (p.disposition != "attachment" || p.name != "a.pdf" || p.content != "%PDF"),
				p.kind == "text/plain" && (p.content != tt.text && p.content != tt.text+crlf && tt.html != "<p>hello" || p.parameters != "utf-8"):
				t.Errorf("%s: %+v", name, p)
			case p.disposition != "":
				files++
			}
		}
		if files != len(tt.files) {
			t.Errorf("%s: %d files of %d", name, files, len(tt.files))
		}
	}
}

// hostile are texts that no part of a mail may be changed or ended by.
var hostile = map[string]string{
	"CRLF":       "a\r\nBcc: victim@example.com",
	"LF":         "a\nBcc: victim@example.com",
	"CR":         "a\rBcc: victim@example.com",
	"NUL":        "a\x00b",
	"fold":       "a\r\n b",
	"body":       "a\r\n\r\n<script>",
	"VT":         "a\x0bb",
	"DEL":        "a\x7fb",
	"NEL":        "a\u0085b",
	"LS":         "a\u2028b",
	"bad UTF-8":  "a\xff\xfeb",
	"only a CR":  "\r",
	"end of CR":  "a\r",
	"overlong":   "a\xc0\x8ab", // an LF in two octets
	"surrogates": "a\xed\xa0\x80b",
}

// A CR, LF or NUL is refused in every field that ends up in a header.
func TestNothingGetsIntoAHeader(t *testing.T) {
	for name, bad := range hostile {
		for field, set := range map[string]func(c *Common, f *Fields){
			"from":                      func(c *Common, f *Fields) { c.From.Name = bad },
			"reply_to":                  func(c *Common, f *Fields) { c.ReplyTo = []Mailbox{{Name: bad, Address: c.From.Address}} },
			"to":                        func(c *Common, f *Fields) { f.To = []Mailbox{{Name: bad, Address: c.From.Address}} },
			"to[1]":                     func(c *Common, f *Fields) { f.To = []Mailbox{c.From, {Name: bad, Address: c.From.Address}} },
			"cc":                        func(c *Common, f *Fields) { f.Cc = []Mailbox{{Address: Address{Local: bad, Domain: "b.com"}}} },
			"cc[1]":                     func(c *Common, f *Fields) { f.Cc = []Mailbox{c.From, {Address: Address{Local: "a", Domain: bad}}} },
			"subject":                   func(c *Common, f *Fields) { f.Subject = bad },
			"headers.X-A":               func(c *Common, f *Fields) { f.Headers = []Header{{"X-A", bad}} },
			"headers.X-B":               func(c *Common, f *Fields) { c.Headers = []Header{{"X-B", bad}} },
			"headers":                   func(c *Common, f *Fields) { f.Headers = []Header{{"X-" + bad, "x"}} },
			"attachments[0].name":       func(c *Common, f *Fields) { c.Attachments = []Attachment{{Name: bad}} },
			"attachments[1].type":       func(c *Common, f *Fields) { c.Attachments = []Attachment{{}, {Type: "image/png; x=\"" + bad + `"`}} },
			"attachments[0].content_id": func(c *Common, f *Fields) { c.Attachments = []Attachment{{ContentID: bad}} },
			"message_id":                func(c *Common, f *Fields) { f.ID = bad + "@example.com" },
		} {
			c, f := common(t), fields()
			set(c, f)
			_, err := Build(c, f)
			if e, ok := errors.AsType[*Error](err); !ok || e.Field != field || strings.ContainsAny(e.Error(), "\r\n\x00") {
				t.Errorf("%s in %s: %v", name, field, err)
			}
		}
	}
	if _, err := AppendUnsubscribe(nil, "https://example.com/\r\nBcc: x", ""); err == nil {
		t.Error("List-Unsubscribe took a line break")
	}
}

// What OneLine makes of a text can be in a header, whatever is in the text.
func TestOneLine(t *testing.T) {
	texts := slices.Collect(maps.Values(hostile))
	for r := range rune(0x100) {
		texts = append(texts, "a"+string(r)+"b")
	}
	for _, text := range texts {
		if err := CheckHeader(Header{"X-A", "x" + OneLine(text)}); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
	for text, want := range map[string]string{"O\u0092Brien": "O Brien", " \ta\r\n": "a", "a\u00a0ä\u2029b": "a\u00a0ä b", "\x00": ""} {
		if got := OneLine(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

func TestHeadersThatAreRefused(t *testing.T) {
	for _, name := range []string{"From", "to", "BCC", "Subject", "Content-Type", "content-foo", "DKIM-Signature", "X-Sluice-Tag", "Resent-To", "Received",
		"ARC-Seal", "Message-ID", "MIME-Version", "Return-Path", "", "a b", "a:b", "ü", "a\r\n", strings.Repeat("a", 100)} {
		if err := CheckHeader(Header{name, "x"}); err == nil {
			t.Errorf("%q may be set", name)
		}
	}
	for _, name := range []string{"X-Campaign", "List-Id", "References", "In-Reply-To", "Precedence", "Feedback-ID", "Auto-Submitted", "X-SES-CONFIGURATION-SET"} {
		if err := CheckHeader(Header{name, "x"}); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, value := range []string{"", " \t", strings.Repeat("x", MaxValueBytes+1)} {
		if err := CheckHeader(Header{"X-A", value}); err == nil {
			t.Errorf("%.10q of %d octets is taken", value, len(value))
		}
	}
}

// texts that have to arrive as they are.
var texts = []string{
	"", "hello", "hello  two spaces", "a\tb", "ümlaut", "日本語のとても長い件名です、これは何度も折り返されなければなりません。はい、そうです。",
	"🎉👩‍👩‍👧‍👦🏳️‍🌈 party", "שלום עולם", "\u202eevil\u202c", `"quoted" \ "nested \"quotes\""`, "=?utf-8?q?not_a_word?=", "=?", "a =?= b", "a,b;c:d<e>@f", "(comment)",
	strings.Repeat("word ", 2000) + "end", strings.Repeat("x", 10000), strings.Repeat("ü", 10000), strings.Repeat("🎉", 2500), "a" + strings.Repeat(" ", 200) + "b",
	strings.Repeat("x", 900) + " " + strings.Repeat("y", 998), strings.Repeat("a ", 30) + strings.Repeat("\t", 100) + "b", "tail =", "%", "a\u00a0b",
}

func TestTextsArriveInHeaders(t *testing.T) {
	decoder := &mime.WordDecoder{}
	for _, text := range texts {
		f := fields()
		f.Subject = text
		if text != "" {
			f.Headers = []Header{{"X-Test", text}}
		}
		m := build(t, common(t), f)
		parsed, err := mail.ReadMessage(bytes.NewReader(m))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"Subject", "X-Test"} {
			raw := parsed.Header.Get(name)
			if got, err := decoder.DecodeHeader(raw); err != nil || squeeze(got) != squeeze(text) {
				t.Errorf("%s %.50q arrived as %.50q, %v", name, text, got, err)
			}
		}
		head, _ := cutHead(m)
		for _, l := range strings.Split(string(head), crlf) {
			limit := foldBytes
			if strings.Contains(l, "=?utf-8?") {
				limit = codedBytes
			}
			if len(l) > limit && strings.ContainsAny(strings.TrimLeft(l[min(8, len(l)):], " "), " ") && !strings.Contains(text, "  ") {
				t.Errorf("line of %d octets: %.100q", len(l), l)
			}
		}
	}
}

// squeeze: net/textproto makes one space of a fold and what stands around it.
func squeeze(s string) string { return strings.Join(strings.Fields(s), " ") }

func TestNamesArrive(t *testing.T) {
	for _, text := range texts {
		if len(text) > MaxNameBytes || strings.Contains(text, "\t") {
			continue
		}
		c, f := common(t), fields()
		c.From.Name = text
		f.To = []Mailbox{{text, c.From.Address}, {Address: Address{"a b", "example.com"}}, {text, c.From.Address}}
		parsed := checkWire(t, build(t, c, f))
		from, err := parsed.Header.AddressList("From")
		if err != nil || len(from) != 1 || squeeze(from[0].Name) != squeeze(text) || from[0].Address != "from@example.com" {
			t.Errorf("from %.50q: %q, %v", text, from, err)
		}
		to, err := parsed.Header.AddressList("To")
		if err != nil || len(to) != 3 || squeeze(to[2].Name) != squeeze(text) || to[1].Address != "a b@example.com" {
			t.Errorf("to %.50q: %q, %v", text, to, err)
		}
	}
}

func TestFileNamesArrive(t *testing.T) {
	for _, text := range texts {
		if len(text) > MaxFileNameBytes || text == "" {
			continue
		}
		c := common(t)
		c.Attachments = []Attachment{{Name: text, Type: "application/pdf", Data: []byte("x")}}
		all := partsOf(t, build(t, c, fields()))
		if got := all[2]; got.name != text {
			t.Errorf("%q arrived as %q", text, got.name)
		}
	}
}

func TestBodiesArrive(t *testing.T) {
	long := strings.Repeat("x", MaxLineBytes)
	for text, e := range map[string]string{
		"hello":                            "7bit",
		"a\nb\r\nc\rd":                     "7bit",
		".\r\n..\r\n.a":                    "7bit",
		long + "\r\n" + long:               "7bit",
		long + "x":                         "quoted-printable",
		"a\r\n" + long + "x\r\n":           "quoted-printable",
		"trailing \r\ntab\t\r\n ":          "7bit",
		"ü trailing \r\ntab\t\r\n ":        "quoted-printable",
		"From me":                          "quoted-printable",
		"a\nFrom me":                       "quoted-printable",
		"some words and then a=_b, a mark": "quoted-printable",
		"ä" + strings.Repeat("y", 200) + " " + strings.Repeat("z ", 100):                   "quoted-printable",
		"ä.\r\n.\r\n" + strings.Repeat("x", 74) + ".x " + strings.Repeat("=.       ", 100): "quoted-printable",
		strings.Repeat("日本語", 500):                                                         "base64",
		"日本語\n日本語\r日本語":                                                                    "base64",
		strings.Repeat("🎉\n", 500):                                                         "base64",
		"\x01\x02":                                                                         "base64",
		strings.Repeat("ä", 10) + strings.Repeat("x", 900) + " \r\n" + strings.Repeat("y", 75) + " \r\n": "quoted-printable",
	} {
		f := fields()
		f.Text = text
		m := build(t, common(t), f)
		if !bytes.Contains(m, []byte("\r\nContent-Transfer-Encoding: "+e+crlf)) {
			t.Errorf("%.50q does not travel as %s: %q", text, e, m)
		}
		want := string(appendLines(nil, text))
		got := partsOf(t, m)[0].content
		if strings.TrimSuffix(got, crlf) != strings.TrimSuffix(want, crlf) {
			t.Errorf("%.50q arrived as %.100q", text, got)
		}
		_, body := cutHead(m)
		for _, l := range strings.Split(string(body), crlf) {
			if e != "7bit" && (len(l) > 76 || strings.HasPrefix(l, ".") || strings.HasPrefix(l, "From ") || strings.HasSuffix(l, " ") || strings.HasSuffix(l, "\t")) {
				t.Errorf("line %q", l)
			}
		}
	}
	for in, want := range map[string]string{"a\x00b": "a\uFFFDb", "a\xffb": "a\uFFFDb"} {
		f := fields()
		f.Text = in
		if got := strings.TrimSuffix(partsOf(t, build(t, common(t), f))[0].content, crlf); got != want {
			t.Errorf("%q arrived as %q", in, got)
		}
	}
}

// A recipient that knows the boundary from an earlier mail writes it into a
// profile.
func TestNoFieldEndsAPart(t *testing.T) {
	c := common(t)
	c.Attachments = []Attachment{{Name: "a.txt", Data: []byte("file")}}
	compiled, err := Compile(c)
	if err != nil {
		t.Fatal(err)
	}
	f := fields()
	f.Text, f.HTML = "x", "<p>x"
	first, err := compiled.Append(nil, f)
	if err != nil {
		t.Fatal(err)
	}
	want := kinds(partsOf(t, first))
	for _, line := range strings.Split(string(first), crlf) {
		if !strings.HasPrefix(line, "--") {
			continue
		}
		for _, attack := range []string{"\r\n" + line + "\r\nContent-Type: text/html\r\n\r\n<script>", "\n" + line + "--\n", line} {
			f.Text, f.HTML, f.Subject = attack, attack, strings.Trim(line, "\r\n")
			m, err := compiled.Append(nil, f)
			if err != nil {
				t.Fatal(err)
			}
			if got := kinds(partsOf(t, m)); got != want {
				t.Errorf("%q changes the parts to %s", attack, got)
			}
		}
	}
}

func TestBounds(t *testing.T) {
	for name, tt := range map[string]struct {
		set   func(c *Common, f *Fields)
		field string
	}{
		"no sender":       {func(c *Common, f *Fields) { c.From = Mailbox{} }, "from"},
		"many recipients": {func(c *Common, f *Fields) { f.To = make([]Mailbox, MaxMailboxes+1) }, "to"},
		"an empty one":    {func(c *Common, f *Fields) { f.Cc = make([]Mailbox, 1) }, "cc"},
		"capital domain":  {func(c *Common, f *Fields) { f.Cc = []Mailbox{{Address: Address{"a", "B.com"}}} }, "cc"},
		"long subject":    {func(c *Common, f *Fields) { f.Subject = strings.Repeat("x", MaxValueBytes+1) }, "subject"},
		"long text":       {func(c *Common, f *Fields) { f.Text = strings.Repeat("x", MaxBodyBytes+1) }, "text"},
		"long HTML":       {func(c *Common, f *Fields) { f.HTML = strings.Repeat("x", MaxBodyBytes+1) }, "html"},
		"many headers":    {func(c *Common, f *Fields) { f.Headers = make([]Header, MaxHeaders+1) }, "headers"},
		"many files":      {func(c *Common, f *Fields) { c.Attachments = make([]Attachment, MaxAttachments+1) }, "attachments"},
		"a large file": {func(c *Common, f *Fields) {
			c.Attachments = []Attachment{{Data: make([]byte, sluice.MaxMessageBytes+1)}}
		}, "attachments"},
		"large as base64": {func(c *Common, f *Fields) {
			c.Attachments = []Attachment{{Data: make([]byte, sluice.MaxMessageBytes*4/5)}}
		}, "message"},
		"a mail in a mail": {func(c *Common, f *Fields) { c.Attachments = []Attachment{{Type: "message/rfc822"}} }, "attachments[0].type"},
		"no id":            {func(c *Common, f *Fields) { f.ID = "" }, "message_id"},
	} {
		c, f := common(t), fields()
		tt.set(c, f)
		_, err := Build(c, f)
		if e, ok := errors.AsType[*Error](err); !ok || e.Field != tt.field {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestWholeMail(t *testing.T) {
	c := &Common{From: mailbox(t, "Zoë <news@bücher.example>"), ReplyTo: []Mailbox{mailbox(t, "用户@例子.广告")}, Headers: []Header{{"X-Campaign", "autumn"}}}
	f := &Fields{To: []Mailbox{mailbox(t, `"Smith, Ann" <ann@example.com>`)}, Cc: []Mailbox{mailbox(t, "bob@example.com")}, Subject: "Grüße", Text: "hello",
		ID: testID, Date: time.Date(2026, 1, 2, 3, 4, 5, 6, time.FixedZone("", 3600)), Headers: []Header{{"References", "<a@b> <c@d>"}}}
	want := "From: =?utf-8?q?Zo=C3=AB?= <news@xn--bcher-kva.example>\r\nReply-To: 用户@xn--fsqu00a.xn--4rr70v\r\nX-Campaign: autumn\r\n" +
		"To: \"Smith, Ann\" <ann@example.com>\r\nCc: bob@example.com\r\nSubject: =?utf-8?b?R3LDvMOfZQ==?=\r\nDate: Fri, 02 Jan 2026 02:04:05 +0000\r\n" +
		"Message-ID: <" + testID + ">\r\nReferences: <a@b> <c@d>\r\nMIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: 7bit\r\n\r\nhello\r\n"
	m := build(t, c, f)
	if string(m) != want {
		t.Errorf("got %q\nwant %q", m, want)
	}
	if eightBit, utf8 := Octets(m); eightBit || !utf8 {
		t.Errorf("Octets says %v, %v", eightBit, utf8)
	}
	if s, err := Scan(m, "x@y", testNow); err != nil || !bytes.Equal(s.Message, m) {
		t.Errorf("Scan says %v", err)
	}
}

func TestUnsubscribe(t *testing.T) {
	got, err := AppendUnsubscribe([]byte("X: y\r\n"), "https://example.com/u/abc", "u@example.com")
	if want := "X: y\r\nList-Unsubscribe: <https://example.com/u/abc>, <mailto:u@example.com>\r\nList-Unsubscribe-Post: List-Unsubscribe=One-Click\r\n"; err != nil || string(got) != want {
		t.Errorf("%q, %v", got, err)
	}
	for _, page := range []string{"", "http://example.com", "https://a b", "https://a>", "https://ü", "mailto:a@b.c", "https://" + strings.Repeat("a", 1000)} {
		if _, err := AppendUnsubscribe(nil, page, ""); err == nil {
			t.Errorf("%q was taken", page)
		}
	}
}
