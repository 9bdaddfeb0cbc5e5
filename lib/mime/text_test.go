package mime

import (
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/net/html"
)

func TestText(t *testing.T) {
	for in, want := range map[string]string{
		"":                             "",
		"hello":                        "hello",
		"<p>a</p><p>b</p>":             "a\n\nb",
		"<p>a<p>b":                     "a\n\nb",
		"<div>a</div><div>b</div>":     "a\nb",
		"a<br>b<br><br>c<br><br><br>d": "a\nb\n\nc\n\nd",
		"  a \n\t b&nbsp;&nbsp;c ":     "a b c",
		"a<b>b</b> <i>c</i>d":          "ab cd",
		"<h1>Title</h1>text":           "Title\n\ntext",
		"<ul><li>a</li><li>b <ul><li>c</ul></li></ul>d": "- a\n- b\n  - c\n\nd",
		"<ol><li>a<li>b</ol>":                           "1. a\n2. b",
		"<li>a":                                         "- a",
		"x<hr>y":                                        "x\n\n----------\n\ny",
		"<a href='https://example.com/a?b=1&amp;c=2'>Buy</a> now":                 "Buy <https://example.com/a?b=1&c=2> now",
		"<a href='https://example.com/'>https://example.com</a>":                  "https://example.com",
		"<a href='https://example.com/'>example.com</a>":                          "example.com",
		"<a href='mailto:a@b.com?subject=x'>a@b.com</a>":                          "a@b.com",
		"<a href='mailto:a@b.com?subject=x'>Write</a>":                            "Write <a@b.com>",
		"<a href='tel:+49123'>Call</a>":                                           "Call <+49123>",
		"<a href='#top'>up</a> <a name=x>y</a> <a href='javascript:x()'>z</a>":    "up y z",
		"<a href='https://example.com'><img src=x alt='Our shop'></a>":            "Our shop <https://example.com>",
		"<a href='https://example.com'><img src=x></a>":                           "<https://example.com>",
		"<a href='https://a.example'>one<a href='https://b.example'>two</a>":      "one <https://a.example>two <https://b.example>",
		"<a href='https://a.example'>unclosed":                                    "unclosed <https://a.example>",
		"<a href='https://a.example/\n x'>a</a>":                                  "a",
		"<p><a href='https://a.example'>a</a></p><p>b</p>":                        "a <https://a.example>\n\nb",
		"&lt;b&gt; &amp;amp; &#8364; &eacute; &nosuch; &#x1F389; &#0; &":          "<b> &amp; € é &nosuch; 🎉 \uFFFD &",
		"<table><tr><td>a</td><td>b</td></tr><tr><th>c<td>d</table>e":             "a b\nc d\n\ne",
		"<blockquote>a<br>b<blockquote>c</blockquote></blockquote>d":              "> a\n> b\n\n> > c\n\nd",
		"<pre>a\n  b\n\tc</pre>d":                                                 "a\n  b\n    c\n\nd",
		"<style>p{}</style><script>x('<p>y')</script>a<!-- b --><title>c</title>": "a",
		"<head><title>t</title></head><body>a</body>":                             "a",
		"<div style='display: none'>x<div>y</div>z</div>a":                        "a",
		"<p style='DISPLAY:NONE'>x<p>a":                                           "a",
		"<img style='display:none' alt=x>a<span hidden>b</span>c":                 "ac",
		"<!--[if mso]><p>x</p><![endif]-->a<![if !mso]>b<![endif]>":               "ab",
		"a&zwnj;&nbsp;&zwnj;&nbsp;&#847;&#8203;b":                                 "a b",
		"<html><head><title>t</title><meta charset=x><style>p{}</style><body>a":   "a",
		"<html><head><title>t</title><p>a":                                        "a",
		"<head><title>t</title>a":                                                 "a",
		"a<svg/>b<svg><path/><svg/></svg>c":                                       "abc",
		"<ul><li hidden>x<li>a</ul>b":                                             "- a\n\nb",
		"<ul><li>a<li hidden>x<ul><li>y</ul>z</ul>b":                              "- a\n\nb",
		"<table><tr><td>a<td hidden>x<table><tr><td>y</table>z<td>b":              "a b",
		"<table><tr><td>a<tr hidden><td>x<table><tr></table>y<tr><td>c</table>d":  "a\nc\n\nd",
		"<table><tbody hidden><tr><td>x<tbody><tr><td hidden>x</table>a":          "a",
		"<dl><dt hidden>x<dd>a<dd hidden>y</dl>b":                                 "a\n\nb",
		"<div><p hidden>x</div>a<p hidden>x<ul><li>b</ul>":                        "a\n\n- b",
		"<!--[if mso]>x<![endif]--><a href=https://a style='mso-hide:all'>b</a>":  "b <https://a>",
		"👩&zwj;👧": "👩\u200d👧",
		"</p></ul></ol></a></pre></blockquote></div>a": "a",
		"a</div":           "a",
		"<p>a</p> \n <p>b": "a\n\nb",
		"1 < 2 > 1":        "1 < 2 > 1",
	} {
		if got := Text(in); got != want {
			t.Errorf("%q:\n got %q\nwant %q", in, got, want)
		}
	}
}

// However deep lists and quotations are, their marks do not make of a mail a
// hundred times its size.
func TestTextIsBounded(t *testing.T) {
	deep := strings.Repeat("<blockquote><ul>", 40)
	for name, source := range map[string]string{
		"items":          deep + strings.Repeat("<li>", 50_000),
		"lines":          deep + strings.Repeat("<br>x", 50_000),
		"lines of a pre": deep + "<pre>" + strings.Repeat("x\n", 100_000),
		"rules":          deep + strings.Repeat("<hr>", 50_000),
	} {
		if got := Text(source); len(got) > (maxTextGrowth+1)*len(source)+2*spareTextBytes {
			t.Errorf("%s: %d octets of text from %d of HTML", name, len(got), len(source))
		}
	}
	// What people write is there as a whole.
	source := strings.Repeat("<ul><li>one<ol><li>two<blockquote>three<br>four</blockquote></ol></ul>", 1000)
	if got := Text(source); strings.Count(got, "four") != 1000 {
		t.Errorf("%d of 1000 are there", strings.Count(got, "four"))
	}
}

func TestPreheader(t *testing.T) {
	for in, before := range map[string]string{
		"<p>x": "",
		"<!DOCTYPE html><html><head><title>body</title></head><body class='a'><p>x": "<!DOCTYPE html><html><head><title>body</title></head><body class='a'>",
		"<!-- <body> --><html><HEAD></HEAD><BODY\nbgcolor=red>x":                    "<!-- <body> --><html><HEAD></HEAD><BODY\nbgcolor=red>",
		"<html><head></head><div>x":                                                 "<html><head></head>",
		"<!doctype html>x":                                                          "<!doctype html>",
		"plain":                                                                     "",
		"<html><head><style><!-- <body> --></style></head><!--[if mso]><body><![endif]-->x": "<html><head><style><!-- <body> --></style></head>",
	} {
		got := addPreheader(in, "Sale <today> & more")
		want := before + `<div style="display:none;`
		if !strings.HasPrefix(got, want) || !strings.HasSuffix(got, "</div>"+in[len(before):]) || !strings.Contains(got, "Sale &lt;today&gt; &amp; more&zwnj;&nbsp;") {
			t.Errorf("%q: %q", in, got)
		}
		if Text(got) != Text(in) {
			t.Errorf("%q: the text becomes %q", in, Text(got))
		}
	}
	if got := addPreheader("x", ""); got != "x" {
		t.Errorf("no preheader: %q", got)
	}
	if got := addPreheader("x", strings.Repeat("ü", previewChars)); strings.Contains(got, padding) {
		t.Errorf("a long one is padded: %q", got)
	}
}

func FuzzText(f *testing.F) {
	for _, s := range []string{"<p>a<ul><li>b</ul>", "<a href=https://x>y", "<pre>\n\n", "<blockquote><ol><li>", "<p hidden><div hidden><p>", "<a href=https://x><a href=https://y>z"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		s = clean(s)
		got := Text(s)
		if !utf8.ValidString(got) || strings.ContainsAny(got, "\r\x00") || strings.Contains(got, "\n\n\n") || len(got) > 200*len(s)+100 {
			t.Fatalf("%q becomes %q", s, got)
		}
		if at := bodyStart(s); at > len(s) {
			t.Fatalf("the body of %q starts at %d", s, at)
		}
		if !strings.Contains(s, "<") && strings.Join(strings.FieldsFunc(html.UnescapeString(s), isSpace), " ") == "" && got != "" {
			t.Fatalf("%q becomes %q", s, got)
		}
	})
}

// Whatever goes in, what comes out is a mail, and the texts in it are the same.
func FuzzBuild(f *testing.F) {
	f.Add("Ann", "subject", "text", "<p>html", "pre", "a.pdf", "image/png", "X-A", "value")
	f.Add("=?utf-8?q?x?=", strings.Repeat("ü", 100), "a\r\n.\r\n", "<body><a href=x>", "", "ü", "", "", "")
	f.Fuzz(func(t *testing.T, name, subject, text, source, preheader, file, kind, header, value string) {
		c, d := common(t), fields()
		c.From.Name, d.Subject, d.Text, d.HTML, d.Preheader = name, subject, text, source, preheader
		if header != "" {
			d.Headers = []Header{{header, value}}
		}
		if file != "" || kind != "" {
			c.Attachments = []Attachment{{Name: file, Type: kind, Data: []byte(text)}}
		}
		m, err := Build(c, d)
		if err != nil {
			if _, ok := err.(*Error); !ok {
				t.Fatalf("error %T: %v", err, err)
			}
			return
		}
		parsed := checkWire(t, m)
		if from, err := parsed.Header.AddressList("From"); err != nil || len(from) != 1 || from[0].Address != "from@example.com" {
			t.Fatalf("From is %q, %v in %q", from, err, m)
		}
		for _, h := range []string{"Bcc", "To", "Cc"} {
			if parsed.Header[h] != nil {
				t.Fatalf("%s came into %q", h, m)
			}
		}
		if s, err := Scan(m, "x@y", testNow); err != nil || string(s.Message) != string(m) || s.EightBit || s.UTF8 {
			t.Fatalf("Scan of %q: %v", m, err)
		}
	})
}
