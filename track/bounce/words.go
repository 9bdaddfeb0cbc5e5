package bounce

import (
	"fmt"
	"io"
	"mime"
	netmail "net/mail"
	"strings"
)

// upper1252 are the characters 0x80 to 0x9F of windows-1252. All others are those of
// ISO 8859-1.
var upper1252 = []rune("€\uFFFD‚ƒ„…†‡ˆ‰Š‹Œ\uFFFDŽ\uFFFD\uFFFD‘’“”•–—˜™š›œ\uFFFDžŸ")

// words decodes encoded words (RFC 2047).
var words = mime.WordDecoder{CharsetReader: func(charset string, in io.Reader) (io.Reader, error) {
	if charset != "windows-1252" && charset != "cp1252" {
		return nil, fmt.Errorf("the charset %q is not known", charset)
	}
	b, err := io.ReadAll(in)
	var s strings.Builder
	for _, c := range b {
		if c >= 0x80 && c < 0xA0 {
			s.WriteRune(upper1252[c-0x80])
		} else {
			s.WriteRune(rune(c))
		}
	}
	return strings.NewReader(s.String()), err
}}

// decodeWords decodes encoded words in UTF-8, US-ASCII, ISO 8859-1 and windows-1252.
// A value with another charset, or a broken word, stays as it came.
func decodeWords(value string) string {
	if s, err := words.DecodeHeader(value); err == nil {
		return s
	}
	return value
}

// lists reads lists of addresses. The names in them are skipped, in any charset.
var lists = netmail.AddressParser{WordDecoder: &mime.WordDecoder{
	CharsetReader: func(_ string, in io.Reader) (io.Reader, error) { return in, nil },
}}

// addressesOf returns the addresses of a field such as From or To, at most
// maxRecipients. Of one that is broken it returns those that stand out.
func addressesOf(value string) (all []string) {
	list, err := lists.ParseList(value)
	if err != nil {
		return brokenAddresses(value)
	}
	for _, a := range list[:min(len(list), maxRecipients)] {
		all = append(all, clean(a.Address))
	}
	return all
}

// brokenAddresses returns the addresses of a field that is no list, such as one with a
// comma in a name that has no quotes. The last one in < and > is the first, then
// come the other words that are addresses, each once.
func brokenAddresses(value string) (all []string) {
	known := make(map[string]bool)
	add := func(s string) {
		if key := strings.ToLower(s); isAddress(s) && !known[key] && len(all) < maxRecipients {
			known[key] = true
			all = append(all, clean(s))
		}
	}
	pieces := strings.Split(value, "<")
	for i := len(pieces) - 1; i > 0 && len(all) == 0; i-- {
		if inner, _, closed := strings.Cut(pieces[i], ">"); closed {
			add(strings.TrimSpace(inner))
		}
	}
	for _, word := range strings.FieldsFunc(value, func(c rune) bool { return c <= ' ' || strings.ContainsRune(`<>(),;:"`, c) }) {
		add(word)
	}
	return all
}

// isAddress reports whether a text looks like an address. A host without dots will do:
// the address of a server is to be known by it, not to be mailed.
func isAddress(s string) bool {
	local, domain, _ := strings.Cut(s, "@")
	return local != "" && domain != "" && !strings.ContainsAny(s, " \t<>,") && !strings.HasPrefix(s, "=?") && !strings.Contains(domain, "@")
}
