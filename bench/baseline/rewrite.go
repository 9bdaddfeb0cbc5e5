package baseline

import (
	"bytes"
	"html"
	"regexp"
	"strings"

	tokenizer "golang.org/x/net/html"
)

// Two ways to replace the targets of links in HTML. replace gets what a target
// says, and returns what stands in its place.

// RewriteByTokens reads all of a document with the tokenizer of x/net, and writes
// each token as it stood there, but for the values of href. It is right about what
// a link is. It does not say where a value stands in its tag, so that is looked for.
func RewriteByTokens(source string, replace func(b []byte, target string) []byte) []byte {
	out := make([]byte, 0, len(source)+len(source)/4)
	z := tokenizer.NewTokenizer(strings.NewReader(source))
	for {
		kind := z.Next()
		raw := z.Raw()
		if kind != tokenizer.StartTagToken && kind != tokenizer.SelfClosingTagToken {
			out = append(out, raw...)
			if kind == tokenizer.ErrorToken {
				return out
			}
			continue
		}
		whole := string(raw) // reading the attributes changes it in place
		name, more := z.TagName()
		link, target := string(name) == "a" || string(name) == "area", ""
		for more && link {
			var key, value []byte
			if key, value, more = z.TagAttr(); string(key) == "href" {
				target, more = string(value), false
			}
		}
		at := strings.Index(whole, `href="`)
		if !strings.HasPrefix(target, "http") || at < 0 {
			out = append(out, whole...)
			continue
		}
		at += len(`href="`)
		out = replace(append(out, whole[:at]...), target)
		out = append(out, whole[at+strings.IndexByte(whole[at:], '"'):]...)
	}
}

var hrefPattern = regexp.MustCompile(`(?i)(<a\b[^>]*?\bhref=)(["'])(https?://.*?)(["'])`)

// RewriteByPattern replaces what looks like a link, as mail servers do. It is wrong
// about comments, scripts, and values without quotes.
func RewriteByPattern(source []byte, replace func(b []byte, target string) []byte) []byte {
	out, from := make([]byte, 0, len(source)+len(source)/4), 0
	for _, m := range hrefPattern.FindAllSubmatchIndex(source, -1) {
		out = append(out, source[from:m[6]]...)
		out = replace(out, html.UnescapeString(string(bytes.TrimSpace(source[m[6]:m[7]]))))
		from = m[7]
	}
	return append(out, source[from:]...)
}
