package rewrite

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"sluice/lib/token"
	"sluice/track/link"
)

const base = "https://t.example.com"

var (
	both  = Options{Opens: true, Clicks: true, Base: base, Own: []string{base + "/t/", "https://mail.example.com/unsubscribe"}}
	place = link.Place{Partition: 7, Person: 42, Message: "019341d2f0a1b2c3d4e5f60718293a4b", Send: 3}
)

func keys(t testing.TB) *link.Keys {
	t.Helper()
	k, err := link.NewKeys(base, bytes.Repeat([]byte("k"), token.MinSecretBytes))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// rewritten is HTML with tokens; what nothing is replaced in comes back.
func rewritten(t testing.TB, source string, o *Options) string {
	t.Helper()
	d := Analyse(source, o)
	if d == nil {
		return source
	}
	b, err := d.Fill(nil, keys(t), place)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

var (
	clickURL   = regexp.MustCompile(regexp.QuoteMeta(base+link.ClickPath) + `([\w-]{59})\?u=([\w.~%-]*)`)
	wholePixel = regexp.MustCompile(regexp.QuoteMeta(pixelBefore+base+link.OpenPath) + `[\w-]{59}\.gif` + regexp.QuoteMeta(pixelBehind))

	openURL = regexp.MustCompile(regexp.QuoteMeta(base+link.OpenPath) + `([\w-]{59})\.gif`)
)

// read replaces our URLs by what they say: <N TARGET> and <open>.
func read(t testing.TB, text string) string {
	t.Helper()
	k := keys(t)
	text = clickURL.ReplaceAllStringFunc(text, func(found string) string {
		m := clickURL.FindStringSubmatch(found)
		target, ok := link.Target("u=" + m[2])
		p, err := k.Read(link.KindClick, m[1], target)
		if number := p.Link; !ok || err != nil || p.Message != place.Message || p.Send != place.Send {
			t.Errorf("%s: %+v %v", found, p, err)
		} else {
			found = fmt.Sprintf("<%d %s>", number, target)
		}
		return found
	})
	return openURL.ReplaceAllStringFunc(text, func(found string) string {
		p, err := k.Read(link.KindOpen, openURL.FindStringSubmatch(found)[1], "")
		if want := place; err != nil || p != want {
			t.Errorf("%s: %+v %v", found, p, err)
		}
		return "<open>"
	})
}

const pixel = pixelBefore + "<open>" + pixelBehind

// Links lead by way of us, and nothing else is changed.
func TestLinks(t *testing.T) {
	for _, tt := range []struct{ name, source, want string }{
		{"plain", `<a href="https://example.com/">x</a>`, `<a href="<1 https://example.com/>">x</a>`},
		{"each has its number", `<a href='http://a/'>x</a><AREA HREF="http://b/">`, `<a href='<1 http://a/>'>x</a><AREA HREF="<2 http://b/>">`},
		{"no quotes", "<a href=https://a/?b=c class=x>", `<a href="<1 https://a/?b=c>" class=x>`},
		{"no quotes at the end", "<a href=https://a/>x", `<a href="<1 https://a/>">x`},
		{"spaces", "<a\n\tclass = 'x'  href\n=\n\" https://a/ \" >", "<a\n\tclass = 'x'  href\n=\n\"<1 https://a/>\" >"},
		{"the first of two counts", `<a href="https://a/" href="https://b/">`, `<a href="<1 https://a/>" href="https://b/">`},
		{"references, once", `<a href="https://a/?b=1&amp;c=2&amp;amp;d&#61;3&#x3D;4&lt;&copy=5&copy&copy;&nope;&">`,
			`<a href="<1 https://a/?b=1&c=2&amp;d=3=4<&copy=5©©&nope;&>">`},
		{"bytes of a query", `<a href="https://a/ä?b=%2f+%20&c=;#d">`, `<a href="<1 https://a/ä?b=%2f+%20&c=;#d>">`},
		{"a % that is no escape", `<a href="https://a/50%-off"><a href="https://a/caf%u00e9#100%">`, `<a href="<1 https://a/50%-off>"><a href="<2 https://a/caf%u00e9#100%>">`},
		{"hosts that are none stay", `<a href="https://a.example\sale"><a href="https://a b/"><a href="https://{{host}}/"><a href="https://%/">`, ""},
		{"scheme in capitals", `<a href="HTTPS://A/">`, `<a href="<1 HTTPS://A/>">`},
		{"others stay", `<a href="mailto:a@b"><a href="tel:1"><a href="sms:1"><a href="#x"><a href="/x"><a href="javascript:x"><a href="data:x"><a href="{{x}}"><a href><a href="">`, ""},
		{"ours stay", `<a href="https://mail.example.com/unsubscribe?t=x"><a href="HTTPS://t.example.com/t/u/x">`, ""},
		{"marked", `<a data-sluice-track="off" href="https://a/"><a href='https://a/' data-sluice-track=off><a href="https://a/" DATA-SLUICE-TRACK="OFF" class=x>`,
			`<a href="https://a/"><a href='https://a/'><a href="https://a/" class=x>`},
		{"marked as on", `<a href="https://a/" data-sluice-track="on">`, `<a href="<1 https://a/>">`},
		{"other elements", `<link href="https://a/"><img src="https://a/"><form action="https://a/"><abbr href="https://a/"></a href="https://a/">`, ""},
		{"comments", `<!-- <a href="https://a/"> --><!--[if mso]><a href="https://a/"><![endif]--><!--><a href="https://b/"><!---><a href="https://c/"><!-- --!><a href="https://d/">`,
			`<!-- <a href="https://a/"> --><!--[if mso]><a href="https://a/"><![endif]--><!--><a href="<1 https://b/>"><!---><a href="<2 https://c/>"><!-- --!><a href="<3 https://d/>">`},
		{"shown by all but Outlook", `<![if !mso]><a href="https://a/"><![endif]><!--[if !mso]><!--><a href="https://b/"><!--<![endif]-->`,
			`<![if !mso]><a href="<1 https://a/>"><![endif]><!--[if !mso]><!--><a href="<2 https://b/>"><!--<![endif]-->`},
		{"raw text", `<style>a:after{content:'<a href="https://a/">'}</style><script>"<a href='https://a/'>"</SCRIPT ><title><a href="https://a/"></title><textarea><a href="https://a/"></textarea><a href="https://b/">`,
			`<style>a:after{content:'<a href="https://a/">'}</style><script>"<a href='https://a/'>"</SCRIPT ><title><a href="https://a/"></title><textarea><a href="https://a/"></textarea><a href="<1 https://b/>">`},
		{"CDATA", `<![CDATA[ > <a href="https://a/"> ]]><a href="https://b/">`, `<![CDATA[ > <a href="https://a/"> ]]><a href="<1 https://b/>">`},
		{"CDATA without an end", `<![CDATA[ ]> <a href="https://a/"> <![CDATA[ ]><a href="https://b/">`, `<![CDATA[ ]> <a href="<1 https://a/>"> <![CDATA[ ]><a href="<2 https://b/>">`},
		{"CDATA with and without an end", `<![CDATA[ > ]]><a href="https://a/"><![CDATA[ ]><a href="https://b/">`, `<![CDATA[ > ]]><a href="<1 https://a/>"><![CDATA[ ]><a href="<2 https://b/>">`},
		{"declarations", `<?xml a="<" ?><!DOCTYPE html><a href="https://b/">`, `<?xml a="<" ?><!DOCTYPE html><a href="<1 https://b/>">`},
		{"> in a value", `<a title="1 > 0" href="https://a/">`, `<a title="1 > 0" href="<1 https://a/>">`},
		{"text", `1 < 2 <3 <a href="https://a/">`, `1 < 2 <3 <a href="<1 https://a/>">`},
		{"not closed", `<a href="https://a/"><a href="https://b/`, `<a href="<1 https://a/>"><a href="https://b/`},
		{"a script in a script", `<script><!--<script></script><a href="https://a/">--></script><a href="https://b/">`, ""},
		{"no text of headers", "<a href=\"https://a/\r\nX: y\"><a href=\"https://a/&#10;\">", "<a href=\"https://a/\r\nX: y\"><a href=\"<1 https://a/>\">"},
		{"too long", `<a href="https://a/` + strings.Repeat("x", link.MaxTargetBytes) + `">`, ""},
		{"empty", "", ""}, {"an end", "<", ""}, {"ends", "<a", ""}, {"a comment", "<!--", ""},
	} {
		o := both
		o.Opens = false
		if got, want := read(t, rewritten(t, tt.source, &o)), tt.want; got != want && (want != "" || got != tt.source) {
			t.Errorf("%s:\ngot  %s\nwant %s", tt.name, got, want)
		}
		o.Clicks = false
		if got := rewritten(t, tt.source, &o); !strings.Contains(tt.source, "sluice") && got != tt.source {
			t.Errorf("%s: with all off: %s", tt.name, got)
		}
	}
}

// The pixel stands where it is loaded, once.
func TestPixel(t *testing.T) {
	for _, tt := range []struct{ source, want string }{
		{"<p>x</p>", "<p>x</p>" + pixel},
		{"<body>x</body></html>", "<body>x" + pixel + "</body></html>"},
		{"</body>x</BODY >y", "</body>x" + pixel + "</BODY >y"},
		{"<body>x<!-- </body> -->", "<body>x<!-- </body> -->" + pixel},
		{`x</body><a href="https://a/">`, "x" + pixel + `</body><a href="<1 https://a/>">`},
		{"x<style>", "x<style>"},
		{"x</body><!-- ", "x" + pixel + "</body><!-- "},
		{"", pixel},
	} {
		got := read(t, rewritten(t, tt.source, &both))
		if got != tt.want {
			t.Errorf("%q:\ngot  %s\nwant %s", tt.source, got, tt.want)
		}
	}
	once := rewritten(t, "<body>x</body>", &both)
	if again := rewritten(t, once, &both); again != once {
		t.Errorf("twice: %s", again)
	}
}

// There are bounds: of links, of bytes.
func TestBounds(t *testing.T) {
	one := `<a href="https://a/">x</a>`
	got := rewritten(t, strings.Repeat(one, MaxLinks+5), &both)
	if n := len(clickURL.FindAllString(got, -1)); n != MaxLinks || !strings.Contains(got, strings.Repeat(one, 5)) {
		t.Errorf("%d links of %d were replaced", n, MaxLinks+5)
	}
	if d := Analyse(one+strings.Repeat("x", 4<<20), &both); d != nil {
		t.Errorf("HTML would become %d bytes", len(d.text))
	}
	if d := Analyse(strings.Repeat("<a data-sluice-track>", 4<<20/20), &both); d != nil {
		t.Errorf("HTML of more than 4 MiB was read, to become %d bytes", len(d.text))
	}
	o := both
	o.ASCII = true
	if got := read(t, rewritten(t, `<a href="https://a/ä"><a href="https://b/">`, &o)); !strings.Contains(got, `"https://a/ä"`) || !strings.Contains(got, "<1 https://b/>") {
		t.Errorf("in a charset that is not known: %s", got)
	}
}

// The end of CDATA is looked for once where there is none, and not at each CDATA, which
// would take the square of the length: hours, for a mail of some megabytes.
func TestEndOfCDATAIsLookedForOnce(t *testing.T) {
	var found tag
	first := scanner{s: "<![CDATA[><p>"}
	if !first.next(&found) || !first.noCDATAEnd {
		t.Errorf("%+v at %d: no ]]> was found, and that is forgotten", found, first.pos)
	}
	// What is remembered is believed: this one, against the truth, is not looked for.
	next := scanner{s: "<![CDATA[><p>]]><i>", noCDATAEnd: true}
	if !next.next(&found) || found.start != len("<![CDATA[>") {
		t.Errorf("%+v: ]]> was looked for again", found)
	}
	ended := scanner{s: "<![CDATA[><p>]]><![CDATA[><b>]]><i>"}
	if !ended.next(&found) || found.start != strings.Index(ended.s, "<i>") || ended.noCDATAEnd {
		t.Errorf("%+v: each CDATA has an end", found)
	}
}

// tokens are what the tokenizer of x/net sees, each in one line. hrefs are the
// targets of links, which the lines do not have.
func tokens(source string) (lines, hrefs []string) {
	z := html.NewTokenizer(strings.NewReader(source))
	for {
		kind := z.Next()
		if kind == html.ErrorToken {
			return append(lines, string(z.Raw())), hrefs
		}
		if kind != html.StartTagToken && kind != html.SelfClosingTagToken {
			lines = append(lines, string(z.Raw()))
			continue
		}
		name, more := z.TagName()
		line, seen := string(name), false
		links := line == "a" || line == "area"
		for more {
			var key, value []byte
			key, value, more = z.TagAttr()
			if links && string(key) == "href" && !seen {
				hrefs, seen = append(hrefs, string(value)), true
				value = nil
			}
			if string(key) != offMark {
				line += fmt.Sprintf(" %q=%q", key, value)
			}
		}
		lines = append(lines, line)
	}
}

// Another reader of HTML sees the same document but for the targets of links, and
// at each link what it saw there before.
func FuzzRewrite(f *testing.F) {
	for _, s := range []string{
		`<body class=x><a href="https://a/?b=1&amp;c=2">x</a></body>`, `<a href=https://a/>`, `<!-- <a href="https://a/"> -->`, `<script><!--<script></script><a href=https://a/>`,
		`<![CDATA[ ]]><a href='https://a/'>`, `<a href="https://a/&copy=1&copy;&notit;&#x80;&#0;">`, "<svg><title/><a href='https://a'>", "<a =href=https://a/ href=https://b/><area href=http://c>",
		"<![CDATA[]>" + strings.Repeat("<![CDATA[]>", 50) + "<a href='https://a/'>",
	} {
		f.Add(s)
	}
	k := keys(f)
	f.Fuzz(func(t *testing.T, source string) {
		o := both
		o.Opens = false
		got := rewritten(t, source, &o)
		if again := rewritten(t, got, &o); again != got {
			t.Fatalf("twice:\n%q\n%q", got, again)
		}
		wantLines, wantHrefs := tokens(source)
		lines, hrefs := tokens(got)
		if !slices.Equal(lines, wantLines) || len(hrefs) != len(wantHrefs) {
			t.Fatalf("%q became %q\ngot  %q %q\nwant %q %q", source, got, lines, hrefs, wantLines, wantHrefs)
		}
		for i, href := range hrefs {
			m := clickURL.FindStringSubmatch(href)
			if m == nil || m[0] != href {
				if href != wantHrefs[i] {
					t.Fatalf("%q became %q", wantHrefs[i], href)
				}
				continue
			}
			target, _ := link.Target("u=" + m[2])
			want := strings.Trim(wantHrefs[i], " \t\r\n\f")
			if strings.HasSuffix(want, "&#0") { // which the tokenizer does not replace at the end of a value, against HTML
				continue
			}
			if _, err := k.Read(link.KindClick, m[1], target); target != want && href != wantHrefs[i] || err != nil && href != wantHrefs[i] {
				t.Fatalf("%q leads to %q: %v", wantHrefs[i], target, err)
			}
		}
		if seen := rewritten(t, source, &both); wholePixel.ReplaceAllString(seen, "") != got {
			t.Fatalf("with a pixel %q becomes\n%q, without\n%q", source, seen, got)
		}
	})
}

// document is a newsletter of some 50 KB.
func document() string {
	var b strings.Builder
	b.WriteString("<!DOCTYPE html><html><head><title>News</title><style>" + strings.Repeat(".a > .b{color:#123456;margin:0 auto}\n", 60) + "</style><!--[if mso]><xml></xml><![endif]--></head><body style=\"margin:0\">\n")
	for i := range 60 {
		fmt.Fprintf(&b, `<table role="presentation" width="600" cellpadding="0" cellspacing="0" style="border-collapse:collapse;width:600px"><tr><td align="left" style="font-family:Arial,Helvetica,sans-serif;font-size:14px;line-height:20px;color:#333333;padding:10px 20px">`+
			`<a href="https://shop.example.com/product/%d?utm_source=newsletter&amp;utm_medium=email&amp;utm_campaign=spring" target="_blank" style="color:#0066cc;text-decoration:none"><img src="https://cdn.example.com/img/%d.png" width="200" height="150" alt="Product %d" style="display:block;border:0"></a>`+
			`<p>The quick brown fox jumps over the lazy dog, and then some more text follows so that a paragraph looks like one that somebody wrote.</p></td></tr></table>`+"\n", i, i, i)
	}
	return b.String() + "</body></html>"
}

func BenchmarkRewrite(b *testing.B) {
	source, k := document(), keys(b)
	run := func(name string, f func(room []byte) []byte) {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(source)))
			b.ReportAllocs()
			var room []byte
			for b.Loop() {
				room = f(room[:0])
			}
		})
	}
	fill := func(room []byte, d *Doc) []byte {
		made, err := d.Fill(room, k, place)
		if err != nil {
			b.Fatal(err)
		}
		return made
	}
	run("whole", func(room []byte) []byte { return fill(room, Analyse(source, &both)) })
	run("analyse", func(room []byte) []byte { Analyse(source, &both); return room })
	d := Analyse(source, &both)
	run("fill", func(room []byte) []byte { return fill(room, d) })
}
