package link

import (
	"crypto/sha256"
	"fmt"
	"net/url"
	"strings"
)

// The paths of links, below the base.
const (
	OpenPath  = "/t/o/" // TOKEN.gif
	ClickPath = "/t/c/" // TOKEN?u=TARGET
	PagePath  = "/t/u/" // TOKEN: a page about a subscription

	OpenSuffix  = ".gif" // behind the token of a pixel
	TargetQuery = "?u="  // between the token and the target of a click
	LongQuery   = "?l="  // between the token and the hash of a long target
)

// HashChars is the length of the hash of a long target.
const HashChars = 32

// Hash names a long target: base64url of the first 24 bytes of its SHA-256.
func Hash(target string) string {
	sum := sha256.Sum256([]byte(target))
	return encoding.EncodeToString(sum[:HashChars/4*3])
}

// LongText is what is signed in place of a long target, by its hash. No target is that:
// each has "://" in it.
func LongText(hash string) string { return "l:" + hash }

// Signed returns what a click's token signs of a target, and whether the target is long:
// then its link has its hash, and the target is kept elsewhere.
func Signed(target string) (text string, long bool) {
	if len(target) <= MaxTargetBytes {
		return target, false
	}
	return LongText(Hash(target)), true
}

// LongHash returns the hash that the raw query of a click's request has in place of a
// target; false: it has none.
func LongHash(rawQuery string) (hash string, ok bool) {
	for rawQuery != "" {
		var pair string
		pair, rawQuery, _ = strings.Cut(rawQuery, "&")
		if hash, found := strings.CutPrefix(pair, LongQuery[1:]); found {
			return hash, len(hash) == HashChars
		}
	}
	return "", false
}

// Base returns what links begin with.
func (k *Keys) Base() string { return k.base }

// Pixel returns the URL of the image by which it is seen that a mail is opened.
func (k *Keys) Pixel(p Place) (string, error) {
	p.Link = 0
	b, err := k.AppendToken([]byte(k.base+OpenPath), KindOpen, &p, "")
	return string(b) + OpenSuffix, err
}

// Click returns the URL of a link of a mail that leads to target, which is to be
// one that Redirects says yes of. It stands in an attribute of HTML as it is. A long
// target is to be kept under its hash before the link is used.
func (k *Keys) Click(p Place, target string) (string, error) {
	if len(target) > MaxLongTargetBytes {
		return "", fmt.Errorf("make a link: the target has %d bytes, at most %d", len(target), MaxLongTargetBytes)
	}
	text, long := Signed(target)
	b, err := k.AppendToken([]byte(k.base+ClickPath), KindClick, &p, text)
	if long {
		return string(b) + LongQuery + text[len(LongText("")):], err
	}
	return string(AppendTarget(append(b, TargetQuery...), target)), err
}

// Page returns the URL of a page about a subscription, of one of the kinds
// KindUnsubscribe and KindPreferences.
func (k *Keys) Page(kind Kind, p Place, s Subject) (string, error) {
	p.Link = 0
	text, err := k.Seal(kind, &p, s)
	return k.base + PagePath + text, err
}

// OpenToken returns the token in the path of a pixel's request, as what stands
// behind OpenPath; false: it is none.
func OpenToken(name string) (string, bool) { return strings.CutSuffix(name, OpenSuffix) }

// Target returns the target that the raw query of a click's request has, byte for
// byte as it was signed. What others have added to the query is passed over.
func Target(rawQuery string) (string, bool) {
	for rawQuery != "" {
		var pair string
		pair, rawQuery, _ = strings.Cut(rawQuery, "&")
		if escaped, found := strings.CutPrefix(pair, TargetQuery[1:]); found {
			if len(escaped) > 3*MaxTargetBytes {
				return "", false
			}
			target, err := url.PathUnescape(escaped) // a + is one: AppendTarget writes a space as %20
			return target, err == nil
		}
	}
	return "", false
}

// Redirects reports whether a click may lead to target: http or https with a host that
// browsers read as it stands there, not too long, and without characters that no header
// may have (RFC 9110, 5.5). What is behind the host may be anything, as for browsers: they
// take a % that is no escape as it is.
func Redirects(target string) bool {
	if len(target) > MaxLongTargetBytes {
		return false
	}
	for i := range len(target) {
		if target[i] < ' ' || target[i] == 0x7f {
			return false
		}
	}
	scheme, rest, _ := strings.Cut(target, "://")
	if scheme = strings.ToLower(scheme); scheme != "https" && scheme != "http" {
		return false
	}
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	// Browsers end the host at a backslash, too (URL, 4.4). Parse refuses one, and a space
	// or an escape of ASCII in a host: nobody reads another host in what is left.
	u, err := url.Parse("https://" + Location(rest[:end]))
	return err == nil && u.Hostname() != ""
}

// Location returns a target that Redirects says yes of as the header Location has it:
// spaces and bytes beyond ASCII are escaped (RFC 3986, 2.1; RFC 3987, 3.1).
func Location(target string) string {
	b := make([]byte, 0, len(target)+16)
	for i := range len(target) {
		if c := target[i]; c <= ' ' || c >= 0x7f {
			b = append(b, '%', upperHex[c>>4], upperHex[c&15])
		} else {
			b = append(b, c)
		}
	}
	return string(b)
}

const upperHex = "0123456789ABCDEF"

// AppendTarget appends a target as it stands in the query of a click's URL: all
// but unreserved characters are escaped (RFC 3986, 2.3), so that neither HTML nor a
// program on the way has reason to change it.
func AppendTarget(b []byte, target string) []byte {
	for i := range len(target) {
		if c := target[i]; unreserved(c) {
			b = append(b, c)
		} else {
			b = append(b, '%', upperHex[c>>4], upperHex[c&15])
		}
	}
	return b
}

func unreserved(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '.' || c == '_' || c == '~'
}
