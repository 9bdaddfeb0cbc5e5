package template

import (
	"crypto/hmac"
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"
)

var encodingFilters = map[string]filter{
	// These make HTML, which is not escaped again.
	"raw": {0, 0, func(r *run, in value, _ []value) value { return safe(r.text(in)) }},
	"escape": {0, 0, func(r *run, in value, _ []value) value {
		return safe(r.made(escapeHTML(r.text(in))))
	}},
	"escape_once": {0, 0, func(r *run, in value, _ []value) value {
		return safe(r.made(escapeOnce(r.text(in))))
	}},

	"url_encode":       ofText(url.QueryEscape),
	"url_param_escape": ofText(func(s string) string { return strings.ReplaceAll(url.QueryEscape(s), "+", "%20") }),
	"url_escape":       ofText(escapeURL),
	"url_decode": {0, 0, func(r *run, in value, _ []value) value {
		text, err := url.QueryUnescape(r.text(in))
		if err != nil || !utf8.ValidString(text) {
			r.fail(KindValue, "url_decode: the text is not encoded so")
		}
		return r.made(text)
	}},
	"base64_encode":          ofText(func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }),
	"base64_decode":          decodedBase64("base64_decode", base64.StdEncoding),
	"base64_url_safe_encode": ofText(func(s string) string { return base64.URLEncoding.EncodeToString([]byte(s)) }),
	"base64_url_safe_decode": decodedBase64("base64_url_safe_decode", base64.URLEncoding),
	"md5":                    ofText(func(s string) string { b := md5.Sum([]byte(s)); return hex.EncodeToString(b[:]) }),
	"sha1":                   ofText(func(s string) string { b := sha1.Sum([]byte(s)); return hex.EncodeToString(b[:]) }),
	"sha256":                 ofText(func(s string) string { b := sha256.Sum256([]byte(s)); return hex.EncodeToString(b[:]) }),
	"hmac_sha256": {1, 1, func(r *run, in value, args []value) value {
		mac := hmac.New(sha256.New, []byte(r.text(args[0])))
		mac.Write([]byte(r.text(in))) // never fails (hash.Hash)
		return hex.EncodeToString(mac.Sum(nil))
	}},
	"json": {0, 0, func(r *run, in value, _ []value) value { return string(r.appendJSON(nil, in)) }},
}

func decodedBase64(name string, encoding *base64.Encoding) filter {
	return filter{0, 0, func(r *run, in value, _ []value) value {
		b, err := encoding.DecodeString(r.text(in))
		if err != nil || !utf8.Valid(b) {
			r.fail(KindValue, "%s: the text is not encoded so, or is no UTF-8", name)
		}
		return r.made(string(b))
	}}
}

const htmlSpecial = `&<>"'`

var htmlEscapes = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", `"`, "&quot;", "'", "&#39;")

func escapeHTML(s string) string {
	if !strings.ContainsAny(s, htmlSpecial) {
		return s
	}
	return htmlEscapes.Replace(s)
}

// escapeOnce escapes, but leaves what is an entity already.
func escapeOnce(s string) string {
	var b strings.Builder
	for s != "" {
		i := strings.IndexAny(s, htmlSpecial)
		if i < 0 {
			break
		}
		b.WriteString(s[:i])
		n := entityLength(s[i:])
		if n > 0 {
			b.WriteString(s[i : i+n])
		} else {
			n = 1
			b.WriteString(htmlEscapes.Replace(s[i : i+1]))
		}
		s = s[i+n:]
	}
	b.WriteString(s)
	return b.String()
}

// maxEntityBytes bounds what is taken for an entity: &CounterClockwiseContourIntegral;
const maxEntityBytes = 33

func entityLength(s string) int {
	if s[0] != '&' {
		return 0
	}
	end := strings.IndexByte(s[:min(len(s), maxEntityBytes)], ';')
	if end < 2 {
		return 0
	}
	name := s[1:end]
	if digits, ok := strings.CutPrefix(name, "#"); ok {
		base := 10
		if hexDigits, ok := strings.CutPrefix(strings.ToLower(digits), "x"); ok {
			digits, base = hexDigits, 16
		}
		if _, err := strconv.ParseUint(digits, base, 32); err != nil {
			return 0
		}
		return end + 1
	}
	for i := range len(name) {
		if c := name[i]; !isWord(c) || c == '_' || c >= 0x80 {
			return 0
		}
	}
	return end + 1
}

// escapeURL escapes what cannot stand in a URL (RFC 3986, 2), and leaves what
// divides its parts.
func escapeURL(s string) string {
	const hexDigits = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(s) {
		c := s[i]
		if c < 0x80 && isWord(c) || strings.IndexByte("-.~:/?#[]@!$&'()*+,;=%", c) >= 0 {
			b.WriteByte(c)
			continue
		}
		b.Write([]byte{'%', hexDigits[c>>4], hexDigits[c&15]})
	}
	return b.String()
}

// appendJSON appends a value as JSON.
func (r *run) appendJSON(dst []byte, v value) []byte {
	if text, ok := plainText(v); ok {
		r.spendBytes(len(text))
		r.room(len(dst) + len(text))
		dst = appendQuoted(dst, text)
		r.room(len(dst))
		return dst
	}
	switch v := v.(type) {
	case bool:
		return strconv.AppendBool(dst, v)
	case int64:
		return strconv.AppendInt(dst, v, 10)
	case float64:
		return appendFloat(dst, v)
	case list:
		dst = append(dst, '[')
		for i, e := range v {
			r.spend(1)
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = r.appendJSON(dst, e)
		}
		return append(dst, ']')
	case *object:
		dst = append(dst, '{')
		for i, name := range v.names {
			r.spend(1)
			if i > 0 {
				dst = append(dst, ',')
			}
			r.spendBytes(len(name))
			r.room(len(dst) + len(name))
			dst = append(appendQuoted(dst, name), ':')
			dst = r.appendJSON(dst, v.values[i])
		}
		return append(dst, '}')
	case span, moment:
		return appendQuoted(dst, string(r.appendText(nil, v)))
	}
	return append(dst, "null"...)
}

// appendQuoted appends a JSON string. It may stand in a script of a page as
// well: < and the separators of lines are escaped.
func appendQuoted(dst []byte, s string) []byte {
	const hexDigits = "0123456789abcdef"
	dst = append(dst, '"')
	for _, c := range s {
		switch {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', byte(c))
		case c == '\n':
			dst = append(dst, '\\', 'n')
		case c < ' ' || c == '<' || c == '>' || c == '&' || c == '\u2028' || c == '\u2029':
			dst = append(dst, '\\', 'u', hexDigits[c>>12&15], hexDigits[c>>8&15], hexDigits[c>>4&15], hexDigits[c&15])
		default:
			dst = utf8.AppendRune(dst, c)
		}
	}
	return append(dst, '"')
}
