package mime

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/idna"
	"golang.org/x/text/unicode/norm"
)

// Bounds of addresses, in octets (RFC 5321, 4.5.3.1: a path has 256 with its
// angle brackets) and of the names beside them.
const (
	MaxLocalBytes   = 64
	MaxAddressBytes = 254
	MaxNameBytes    = 320
)

// Address is where mail goes. The zero one is none.
type Address struct {
	Local  string // as it is meant: without the quotes that some need
	Domain string // in ASCII (A-labels, RFC 5890) and lower case
}

// Mailbox is an address, and the name of its owner.
type Mailbox struct {
	Name string // as people read it; may be empty
	Address
}

// domains turns names of hosts into ASCII by IDNA2008 (RFC 5891), after the
// mapping of capitals and wide letters that people expect (RFC 5895).
var domains = idna.New(idna.MapForLookup(), idna.Transitional(false), idna.BidiRule(), idna.CheckJoiners(true), idna.CheckHyphens(true), idna.VerifyDNSLength(true))

// DomainToASCII returns the name of a host as DNS has it. It may still be none
// that mail can be sent to: ParseAddress says that.
func DomainToASCII(name string) (string, error) { return domains.ToASCII(name) }

// DomainToUnicode returns the name of a host as people write it, in lower case: the
// letters of labels that begin with xn--.
func DomainToUnicode(name string) (string, error) { return domains.ToUnicode(name) }

// ParseAddress reads LOCAL@DOMAIN and nothing around it: the one way into the
// program for an address. The domain is a name, in ASCII or not; literals
// ([192.0.2.1]) are refused. A local part beyond ASCII is taken (RFC 6531, 3.3)
// and put into the form NFC (RFC 6532, 3.1). Errors are *Error without a field.
func ParseAddress(s string) (Address, error) {
	var none Address
	if len(s) > 4*MaxAddressBytes { // what becomes shorter is still an address
		return none, wrong("", "an address has at most %d octets", MaxAddressBytes)
	}
	local, domain, err := cutAddress(s)
	if err != nil {
		return none, err
	}
	a := Address{Local: norm.NFC.String(local)}
	if a.Domain, err = parseDomain(domain); err != nil {
		return none, err
	}
	if n := len(a.appendLocal(nil)); n > MaxLocalBytes {
		return none, wrong("", "what stands before the @ has %d octets, at most %d are possible (RFC 5321, 4.5.3.1.1)", n, MaxLocalBytes)
	}
	if n := len(a.String()); n > MaxAddressBytes {
		return none, wrong("", "the address has %d octets, at most %d are possible (RFC 5321, 4.5.3.1.3)", n, MaxAddressBytes)
	}
	return a, nil
}

// DomainOf returns the domain of an address, in lower case; empty if it has none.
// It is what stands behind the last @: a local part in quotes may have others (RFC
// 5321, 4.1.2), a domain has none.
func DomainOf(address string) string {
	at := strings.LastIndexByte(address, '@')
	if at < 0 {
		return ""
	}
	return strings.ToLower(address[at+1:])
}

// cutAddress cuts at the @, and undoes the quotes of the local part.
func cutAddress(s string) (local, domain string, err error) {
	if strings.HasPrefix(s, `"`) {
		return cutQuoted(s)
	}
	at := strings.LastIndexByte(s, '@')
	if at < 0 {
		return "", "", wrong("", "%q is no address, want NAME@DOMAIN", clip(s))
	}
	local, domain = s[:at], s[at+1:]
	// RFC 5321, 4.1.2: Dot-string, with RFC 6531, 3.3 for what is not ASCII.
	for atom := range strings.SplitSeq(local, ".") {
		if atom == "" {
			return "", "", wrong("", "%q is no address: before the @ is nothing, or a dot at an end or beside another", clip(s))
		}
	}
	if !utf8.ValidString(local) || strings.ContainsFunc(local, func(r rune) bool { return r != '.' && !isAtom(r) }) {
		return "", "", wrong("", "%q is no address: before the @ is a character that is impossible there, or only inside quotes", clip(s))
	}
	return local, domain, nil
}

// cutQuoted reads a Quoted-string (RFC 5321, 4.1.2) before the @.
func cutQuoted(s string) (local, domain string, err error) {
	var b strings.Builder
	escaped := false
	for i, r := range s[1:] {
		switch {
		case r == utf8.RuneError || r < ' ' || r == 0x7f || r > 0x7f && (escaped || !isVisible(r)):
			return "", "", wrong("", "%q is no address: inside its quotes is a character that is impossible there", clip(s))
		case escaped:
			escaped = false
			b.WriteRune(r)
		case r == '\\':
			escaped = true
		case r == '"':
			rest, ok := strings.CutPrefix(s[1+i+1:], "@")
			if !ok || b.Len() == 0 {
				return "", "", wrong("", "%q is no address: an @ has to follow the second quote, and something to stand before it", clip(s))
			}
			return b.String(), rest, nil
		default:
			b.WriteRune(r)
		}
	}
	return "", "", wrong("", "%q is no address: a quote is not closed", clip(s))
}

// isAtom reports whether a character may stand in an atom: atext of RFC 5322,
// 3.2.3, or one beyond ASCII that can be seen.
func isAtom(r rune) bool {
	if r < utf8.RuneSelf {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("!#$%&'*+-/=?^_`{|}~", r)
	}
	return isVisible(r)
}

// isVisible reports whether a character beyond ASCII is one that people see:
// not a control, nor a direction, nor a space of some width.
func isVisible(r rune) bool {
	return unicode.IsGraphic(r) && !unicode.IsSpace(r) && r != utf8.RuneError
}

// parseDomain returns a domain in ASCII.
func parseDomain(s string) (string, error) {
	if strings.HasPrefix(s, "[") {
		return "", wrong("", "an address at a number in brackets is not taken, only at a name")
	}
	ascii := s
	if !IsHostname(s) || strings.Contains(strings.ToLower(s), "xn--") {
		var err error
		if ascii, err = domains.ToASCII(s); err != nil || !IsHostname(ascii) || !isIDNA2008(ascii) {
			return "", wrong("", "%q is no domain", clip(s))
		}
	}
	ascii = strings.ToLower(ascii)
	if last := ascii[strings.LastIndexByte(ascii, '.')+1:]; strings.Trim(last, "0123456789") == "" {
		return "", wrong("", "%q is a number, not a domain", clip(s))
	}
	return ascii, nil
}

// IsHostname reports whether a text is labels of letters, digits and hyphens
// (RFC 1123, 2.1), as long as DNS can say (RFC 1035, 2.3.4).
func IsHostname(s string) bool {
	if s == "" || len(s) > 253 {
		return false
	}
	for label := range strings.SplitSeq(s, ".") {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
		for i := range len(label) {
			if c := label[i] | 0x20; (c < 'a' || c > 'z') && (label[i] < '0' || label[i] > '9') && label[i] != '-' {
				return false
			}
		}
	}
	return true
}

// isIDNA2008 reports whether a name's labels are of letters, digits and marks.
// The library goes by UTS 46, which lets symbols pass that RFC 5892 does not.
func isIDNA2008(ascii string) bool {
	name, err := domains.ToUnicode(ascii)
	if err != nil {
		return false
	}
	return !strings.ContainsFunc(name, func(r rune) bool {
		// The last ones are exceptions and joiners of RFC 5892, 2.6 and 2.8.
		return r >= utf8.RuneSelf && !unicode.In(r, unicode.L, unicode.M, unicode.Nd) && !strings.ContainsRune("\u00b7\u0375\u05f3\u05f4\u06fd\u06fe\u0f0b\u30fb\u200c\u200d", r)
	})
}

// UTF8 reports whether only servers with SMTPUTF8 take the address (RFC 6531).
func (a Address) UTF8() bool { return !IsASCII(a.Local) }

// String returns the address as it stands in an envelope, without brackets.
func (a Address) String() string {
	if a.plainLocal() {
		return a.Local + "@" + a.Domain
	}
	return string(a.appendLocal(nil)) + "@" + a.Domain
}

func (a Address) append(b []byte) []byte {
	return append(append(a.appendLocal(b), '@'), a.Domain...)
}

// plainLocal reports whether the local part needs no quotes.
func (a Address) plainLocal() bool {
	before := '.'
	for _, r := range a.Local {
		if r == '.' && before == '.' || r != '.' && !isAtom(r) {
			return false
		}
		before = r
	}
	return before != '.'
}

func (a Address) appendLocal(b []byte) []byte {
	if a.plainLocal() {
		return append(b, a.Local...)
	}
	return appendQuoted(b, a.Local)
}

// ParseMailbox reads an address with a name or without: a@example.com,
// Ann <a@example.com>, "Smith, Ann" <a@example.com>. It is one mailbox: a list
// is refused.
func ParseMailbox(s string) (Mailbox, error) {
	s = strings.Trim(s, " ")
	spec, ok := strings.CutSuffix(s, ">")
	if !ok {
		a, err := ParseAddress(s)
		return Mailbox{Address: a}, err
	}
	open := strings.LastIndexByte(spec, '<')
	if open < 0 {
		return Mailbox{}, wrong("", "%q has a > without a <", clip(s))
	}
	name, err := parseName(strings.Trim(spec[:open], " "))
	if err != nil {
		return Mailbox{}, err
	}
	a, err := ParseAddress(spec[open+1:])
	if err != nil {
		return Mailbox{}, err
	}
	m := Mailbox{Name: name, Address: a}
	return m, m.check()
}

// parseName reads the name before an address. Without quotes it may have what
// people write (dots, brackets), but nothing that makes it look like a list.
func parseName(s string) (string, error) {
	inner, ok := strings.CutPrefix(s, `"`)
	if !ok {
		if strings.ContainsAny(s, "@,;:<>\"") {
			return "", wrong("", "the name %q has to be in quotes", clip(s))
		}
		return s, nil
	}
	var b strings.Builder
	for i := 0; i < len(inner); i++ {
		switch c := inner[i]; {
		case c == '"':
			if i != len(inner)-1 {
				return "", wrong("", "the name %q goes on behind its quotes", clip(s))
			}
			return b.String(), nil
		case c == '\\' && i+1 < len(inner):
			i++
			b.WriteByte(inner[i])
		default:
			b.WriteByte(c)
		}
	}
	return "", wrong("", "the quotes of the name %q are not closed", clip(s))
}

// check says what is wrong with a mailbox, however it was made.
func (m *Mailbox) check() error {
	if len(m.Name) > MaxNameBytes {
		return wrong("", "the name has %d octets, at most %d are possible", len(m.Name), MaxNameBytes)
	}
	if err := checkText(m.Name); err != nil {
		return wrong("", "the name %s", err)
	}
	a, err := ParseAddress(m.String())
	if err == nil && a != m.Address {
		err = wrong("", "the address %q is not as ParseAddress returns it", clip(m.String()))
	}
	return err
}

// IsASCII reports whether a text has no octets above 127.
func IsASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// clip shortens what an error shows.
func clip(s string) string {
	const most = 80
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "..."
}
