package domain

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// maxTerms bounds an SPF record: each is to be remembered.
const maxTerms = 512

// spf is a record, read.
type spf struct {
	terms    []spfTerm
	redirect string // a domain, or empty
	all      byte   // the qualifier of `all`; 0: it has none
}

// spfTerm is a mechanism before `all`: what stands behind it is never looked at
// (RFC 7208, 5.1).
type spfTerm struct {
	qualifier byte   // + - ~ ?
	name      string // include, a, mx, ptr, ip4, ip6, exists
	domain    string // as it is written; empty: the record's own
	bits4     int    // of an address's network that match
	bits6     int
	network   netip.Prefix // of ip4 and ip6
}

// isSPF reports whether a TXT record is one of SPF (RFC 7208, 4.5).
func isSPF(text string) bool {
	first, _, _ := strings.Cut(text, " ")
	return strings.EqualFold(first, "v=spf1")
}

// parseSPF reads a record that isSPF.
func parseSPF(text string) (*spf, error) {
	for i := range len(text) {
		if text[i] < ' ' || text[i] > '~' {
			return nil, fmt.Errorf("it has an octet that is no printable ASCII, at %d", i)
		}
	}
	words := strings.Fields(text)
	if len(words) > maxTerms {
		return nil, fmt.Errorf("it has more than %d terms", maxTerms)
	}
	s, seen := &spf{}, map[string]bool{}
	for _, word := range words[1:] {
		if name, value, ok := cutModifier(word); ok {
			name = strings.ToLower(name)
			if name != "redirect" && name != "exp" {
				continue // RFC 7208, 6: unknown ones are passed over
			}
			if err := checkSpec(value); err != nil || seen[name] {
				return nil, fmt.Errorf("%.80q is wrong: want one %s=DOMAIN", word, name) // 6
			}
			if seen[name] = true; name == "redirect" {
				s.redirect = value
			}
			continue
		}
		t, err := parseTerm(word)
		switch {
		case err != nil:
			return nil, fmt.Errorf("%.80q is wrong: %w", word, err)
		case s.all != 0:
		case t.name == "all":
			s.all = t.qualifier
		default:
			s.terms = append(s.terms, t)
		}
	}
	return s, nil
}

// cutModifier cuts NAME=VALUE (RFC 7208, 4.6.1).
func cutModifier(word string) (name, value string, ok bool) {
	name, value, ok = strings.Cut(word, "=")
	if !ok || name == "" || !isLetter(name[0]) {
		return "", "", false
	}
	for i := range len(name) {
		if c := name[i]; !isLetter(c) && (c < '0' || c > '9') && c != '-' && c != '_' && c != '.' {
			return "", "", false
		}
	}
	return name, value, true
}

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

// parseTerm reads a directive (RFC 7208, 4.6.1, 5).
func parseTerm(word string) (spfTerm, error) {
	t := spfTerm{qualifier: '+', bits4: 32, bits6: 128}
	if strings.IndexByte("+-~?", word[0]) >= 0 {
		t.qualifier, word = word[0], word[1:]
	}
	end := strings.IndexAny(word, ":/")
	if end < 0 {
		end = len(word)
	}
	t.name = strings.ToLower(word[:end])
	rest := word[end:]
	value, has := strings.CutPrefix(rest, ":")
	var err error
	switch t.name {
	case "all":
		if rest != "" {
			err = errors.New("want all alone")
		}
	case "include", "exists":
		if err = checkSpec(value); err == nil && !has {
			err = errors.New("want a domain behind it")
		}
		t.domain = value
	case "ptr":
		if has {
			err = checkSpec(value)
		} else if rest != "" {
			err = errors.New("want ptr or ptr:DOMAIN")
		}
		t.domain = value
	case "a", "mx":
		t.domain, err = t.cutBits(rest)
	case "ip4", "ip6":
		t.network, err = parseNetwork(value, t.name == "ip4")
		if !has {
			err = errors.New("want an address behind it")
		}
	default:
		err = errors.New("there is no such mechanism")
	}
	return t, err
}

// cutBits reads [:DOMAIN][/BITS][//BITS] (RFC 7208, 5.3, 5.4). A slash may stand
// inside a macro.
func (t *spfTerm) cutBits(rest string) (domain string, err error) {
	from := strings.LastIndexByte(rest, '}') + 1
	slash := strings.IndexByte(rest[from:], '/')
	bits := ""
	if slash >= 0 {
		rest, bits = rest[:from+slash], rest[from+slash:]
	}
	if bits != "" {
		four, six, both := strings.Cut(bits[1:], "//")
		if !both && strings.HasPrefix(four, "/") {
			four, six, both = "", four[1:], true
		}
		if four != "" || !both {
			if t.bits4, err = number(four, 32); err != nil {
				return "", err
			}
		}
		if both {
			if t.bits6, err = number(six, 128); err != nil {
				return "", err
			}
		}
	}
	domain, has := strings.CutPrefix(rest, ":")
	if has {
		err = checkSpec(domain)
	} else if rest != "" {
		err = errors.New("there is no such mechanism")
	}
	return domain, err
}

func number(text string, most int) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > most || strconv.Itoa(n) != text {
		return 0, fmt.Errorf("want /0 to /%d", most)
	}
	return n, nil
}

func parseNetwork(text string, four bool) (netip.Prefix, error) {
	address, bits, has := strings.Cut(text, "/")
	ip, err := netip.ParseAddr(address)
	if err != nil || ip.Is4() != four || ip.Zone() != "" {
		return netip.Prefix{}, errors.New("want an address, or ADDRESS/BITS")
	}
	n := ip.BitLen()
	if has {
		if n, err = number(bits, ip.BitLen()); err != nil {
			return netip.Prefix{}, err
		}
	}
	return netip.PrefixFrom(ip, n).Masked(), nil
}

// checkSpec checks a domain-spec, macros included (RFC 7208, 7.1).
func checkSpec(text string) error {
	if text == "" || len(text) > 255 {
		return errors.New("want a domain of 1 to 255 characters")
	}
	for i := 0; i < len(text); i++ {
		if text[i] != '%' {
			continue
		}
		if i++; i == len(text) {
			return errors.New("a % stands alone")
		}
		switch text[i] {
		case '%', '_', '-':
		case '{':
			n := strings.IndexByte(text[i:], '}')
			if n < 2 || !isMacro(text[i+1:i+n]) {
				return errors.New("a macro cannot be read")
			}
			i += n
		default:
			return errors.New("a % stands alone")
		}
	}
	return nil
}

// isMacro reports whether what stands between %{ and } is one.
func isMacro(text string) bool {
	if !strings.ContainsRune("slodiphcrtv", rune(text[0]|0x20)) {
		return false
	}
	rest := strings.TrimLeft(text[1:], "0123456789")
	if rest != "" && rest[0]|0x20 == 'r' {
		rest = rest[1:]
	}
	return strings.Trim(rest, ".-+,/_=") == ""
}

// hasMacro reports whether a domain depends on who sends to whom.
func hasMacro(spec string) bool { return strings.ContainsRune(spec, '%') }
