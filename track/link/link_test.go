package link

import (
	"bytes"
	"errors"
	"net/url"
	"strings"
	"testing"

	"sluice/lib/token"
)

const base = "https://t.example.com"

var (
	first  = bytes.Repeat([]byte("a"), token.MinSecretBytes)
	second = bytes.Repeat([]byte("b"), token.MinSecretBytes)

	places = []Place{
		{Message: "019341d2f0a1b2c3d4e5f60718293a4b"},
		{Partition: 255, Person: 1<<63 - 1, Message: "ffffffffffffffffffffffffffffffff", Send: 65535, Link: 65535},
		{Partition: 7, Person: 42, Message: "019341d2f0a1b2c3d4e5f60718293a4c", Send: 3, Link: 9},
	}
)

func keys(t testing.TB, secrets ...[]byte) *Keys {
	t.Helper()
	k, err := NewKeys(base, secrets...)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func sign(t testing.TB, k *Keys, kind Kind, p Place, target string) string {
	t.Helper()
	b, err := k.AppendToken(nil, kind, &p, target)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// What a token was made of comes back; a token is none of another kind, target,
// secret or version.
func TestTokens(t *testing.T) {
	k, other, rotated := keys(t, first), keys(t, second), keys(t, second, first)
	for _, p := range places {
		for kind := KindOpen; kind <= KindPreferences; kind++ {
			text := sign(t, k, kind, p, "https://example.com/?a=1")
			if len(text) != TokenBytes {
				t.Fatalf("%d characters, want %d", len(text), TokenBytes)
			}
			for _, by := range []*Keys{k, rotated} {
				if got, err := by.Read(kind, text, "https://example.com/?a=1"); err != nil || got != p {
					t.Errorf("%+v: got %+v %v", p, got, err)
				}
			}
			for _, x := range []struct {
				by     *Keys
				kind   Kind
				target string
			}{{k, kind%4 + 1, "https://example.com/?a=1"}, {k, kind, "https://example.com/?a=2"}, {k, kind, ""}, {other, kind, "https://example.com/?a=1"}} {
				if got, err := x.by.Read(x.kind, text, x.target); !errors.Is(err, ErrInvalid) || got != (Place{}) {
					t.Errorf("read for kind %d and %q: %+v %v", x.kind, x.target, got, err)
				}
			}
		}
	}
	if _, err := other.Read(KindOpen, sign(t, rotated, KindOpen, places[0], ""), ""); err != nil {
		t.Errorf("the new secret does not sign: %v", err)
	}
}

// Secrets whose key ids are the same are both tried.
func TestKeysOfOneID(t *testing.T) {
	old, both := keys(t, first), keys(t, second, first)
	both.keys[0].id = both.keys[1].id
	sealed, err := old.Seal(KindUnsubscribe, &places[2], Subject{Address: "ann@example.com"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := both.Read(KindOpen, sign(t, old, KindOpen, places[2], ""), ""); err != nil {
		t.Errorf("a token: %v", err)
	}
	if _, _, err := both.Open(KindUnsubscribe, sealed); err != nil {
		t.Errorf("a sealed token: %v", err)
	}
}

// An address comes back, is not to be read in the link, and each attempt has the
// same link.
func TestSealed(t *testing.T) {
	k := keys(t, second, first)
	for _, subject := range []Subject{{}, {Address: "ann@example.com"}, {"ann@example.com", "wöchentlich"}, {"", "g"}, {strings.Repeat("x", MaxAddressBytes), strings.Repeat("g", MaxGroupBytes)}} {
		text, err := keys(t, first).Seal(KindUnsubscribe, &places[2], subject)
		if err != nil {
			t.Fatal(err)
		}
		p, got, err := k.Open(KindUnsubscribe, text)
		if err != nil || p != places[2] || got != subject {
			t.Errorf("%q: got %+v %q %v", subject, p, got, err)
		}
		if raw, err := encoding.DecodeString(text); err != nil || subject.Address != "" && bytes.Contains(raw, []byte(subject.Address)) || len(subject.Group) > 1 && bytes.Contains(raw, []byte(subject.Group)) {
			t.Errorf("%q is to be read in its link, or it cannot be decoded: %v", subject, err)
		}
		if again, _ := keys(t, first).Seal(KindUnsubscribe, &places[2], subject); again != text {
			t.Errorf("%q: %s, and then %s", subject, text, again)
		}
		if _, _, err := k.Open(KindPreferences, text); !errors.Is(err, ErrInvalid) {
			t.Errorf("taken as another kind: %v", err)
		}
	}
	for _, subject := range []Subject{{Address: strings.Repeat("x", MaxAddressBytes+1)}, {Group: strings.Repeat("x", MaxGroupBytes+1)}, {Address: "a\x00b"}} {
		if _, err := k.Seal(KindUnsubscribe, &places[0], subject); err == nil {
			t.Errorf("%.40q was sealed", subject)
		}
	}
}

// Every change of any character is seen.
func TestTampering(t *testing.T) {
	k := keys(t, first)
	plain := sign(t, k, KindClick, places[2], "https://example.com/")
	sealed, err := k.Seal(KindUnsubscribe, &places[2], Subject{Address: "ann@example.com"})
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		text string
		read func(string) error
	}{
		{plain, func(s string) error { _, err := k.Read(KindClick, s, "https://example.com/"); return err }},
		{sealed, func(s string) error { _, _, err := k.Open(KindUnsubscribe, s); return err }},
	} {
		if err := x.read(x.text); err != nil {
			t.Fatal(err)
		}
		for i := range x.text {
			for c := range byte(255) {
				changed := []byte(x.text)
				if changed[i] == c {
					continue
				}
				changed[i] = c
				if err := x.read(string(changed)); !errors.Is(err, ErrInvalid) {
					t.Fatalf("byte %d changed into %q: %v", i, string(c), err)
				}
			}
			for _, other := range []string{x.text[:i], x.text[:i] + x.text[i+1:], x.text[:i] + "A" + x.text[i:], x.text[:i] + "\n" + x.text[i:]} {
				if err := x.read(other); !errors.Is(err, ErrInvalid) {
					t.Fatalf("%q: %v", other, err)
				}
			}
		}
	}
}

// Places out of bounds make no link, and short secrets no keys.
func TestBounds(t *testing.T) {
	k, good := keys(t, first), places[2]
	for _, change := range []func(*Place){
		func(p *Place) { p.Partition = 256 }, func(p *Place) { p.Partition = -1 }, func(p *Place) { p.Person = -1 },
		func(p *Place) { p.Send = 65536 }, func(p *Place) { p.Link = -1 }, func(p *Place) { p.Message = "x" },
	} {
		p := good
		change(&p)
		if _, err := k.AppendToken(nil, KindOpen, &p, ""); err == nil {
			t.Errorf("%+v was signed", p)
		}
	}
	if _, err := k.Click(good, "https://example.com/"+strings.Repeat("x", MaxLongTargetBytes)); err == nil {
		t.Error("too long a target was signed")
	}
	if _, err := NewKeys(base); err == nil {
		t.Error("keys without a secret")
	}
	if _, err := NewKeys(base, first, []byte("hunter2")); err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("a short secret: %v", err)
	}
}

var targets = []string{
	"https://example.com/", "http://example.com", "HTTPS://EXAMPLE.com/a b?x=1&y=%2F+z#part", "https://example.com/ä/\xff?q='\"<>\\", "https://u:p@example.com:8443/?a=b;c=d",
	"https://example.com/50%-off", "https://example.com/caf%u00e9", "https://example.com/#100%", "https://example.com?q=%", "https://example.com/a\\b", "https://bücher.example",
	"https://example.com/@other.example", "https://example.com?@other.example", "https://example.com#@other.example",
}

// A request reads back what a URL was made of, byte for byte.
func TestURLs(t *testing.T) {
	k, p := keys(t, first), places[2]
	for _, target := range targets {
		made, err := k.Click(p, target)
		if err != nil || !Redirects(target) {
			t.Fatalf("%q: %v", target, err)
		}
		if strings.ContainsAny(made, "&\"'<> \t") {
			t.Errorf("%s does not stand in an attribute as it is", made)
		}
		u, err := url.Parse(made)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := strings.CutPrefix(u.Path, ClickPath)
		for _, query := range []string{u.RawQuery, "utm=1&" + u.RawQuery + "&u=https://evil.example/"} {
			got, ok := Target(query)
			if read, err := k.Read(KindClick, text, got); !ok || got != target || err != nil || read != p {
				t.Errorf("%s: got %q %+v %v", made, got, read, err)
			}
		}
	}
	pixel, err := k.Pixel(p)
	name, ok := OpenToken(strings.TrimPrefix(pixel, base+OpenPath))
	p.Link = 0
	if got, readErr := k.Read(KindOpen, name, ""); err != nil || !ok || readErr != nil || got != p {
		t.Errorf("%s: %+v %v %v", pixel, got, err, readErr)
	}
	page, err := k.Page(KindPreferences, p, Subject{"ann@example.com", "weekly"})
	if got, subject, readErr := k.Open(KindPreferences, strings.TrimPrefix(page, base+PagePath)); err != nil || readErr != nil || got != p || subject != (Subject{"ann@example.com", "weekly"}) {
		t.Errorf("%s: %+v %q %v %v", page, got, subject, err, readErr)
	}
}

// A long target has its hash in its link, which is signed; no other hash is taken with
// the token, nor is the hash taken for a target.
func TestLongTargets(t *testing.T) {
	k, target := keys(t, first), "https://example.com/?"+strings.Repeat("ä", MaxTargetBytes/2)
	url, err := k.Click(places[2], target)
	path, query, ok := strings.Cut(strings.TrimPrefix(url, base+ClickPath), "?")
	if err != nil || !ok || len(query) != 2+HashChars || strings.Contains(query, "example") {
		t.Fatal(url, err)
	}
	hash, ok := LongHash("x=1&" + query + "&l=other")
	if p, err := k.Read(KindClick, path, LongText(hash)); !ok || hash != Hash(target) || err != nil || p != places[2] {
		t.Errorf("%q: %+v %v", hash, p, err)
	}
	for _, text := range []string{LongText(Hash(target + "x")), hash, target, ""} {
		if _, err := k.Read(KindClick, path, text); err == nil {
			t.Errorf("%.60q is taken", text)
		}
	}
	for _, query := range []string{"", "l=", "l=x", "u=" + hash, "ll=" + hash, "l=" + hash + "x"} {
		if got, ok := LongHash(query); ok {
			t.Errorf("%q has %q", query, got)
		}
	}
	if _, ok := Target("l=" + hash); ok {
		t.Error("a hash is a target")
	}
	if Redirects(LongText(hash)) {
		t.Error("a click leads to a hash")
	}
}

// No click leads to what is no page of the web.
func TestRedirects(t *testing.T) {
	for _, target := range []string{
		"", "#top", "/path", "//example.com", "mailto:ann@example.com", "tel:+1", "javascript:alert(1)//://", "data:text/html,x", "ftp://example.com", "https:example.com",
		"https://", "https:///path", "https://?x", "https://example.com/\r\nSet-Cookie: a=b", "https://example.com/\x00", "https://example.com/\t", " https://example.com",
		`https://example.com\sale`, `https://example.com\@other.example/`, `https://other.example\@example.com/`, "https://a b.example/", "https://a%2fb.example/", "https://a%5cb.example/", "https://50%@example.com/",
		"https://{{host}}/", "https://user@/", "https://:80/", "https://[example.com/", "https://example.com:port/", "http\u017f://example.com", "https //example.com",
		"https://example.com/" + strings.Repeat("x", MaxLongTargetBytes),
	} {
		if Redirects(target) {
			t.Errorf("a click would lead to %q", target)
		}
	}
}

// Nothing but what was signed is taken, and garbage costs no memory.
func TestGarbageIsCheap(t *testing.T) {
	k := keys(t, first)
	good := sign(t, k, KindOpen, places[0], "")
	for _, text := range []string{"", strings.Repeat("A", TokenBytes), "x" + good[1:], good[:58] + "!", strings.Repeat("x", 1<<20)} {
		if n := testing.AllocsPerRun(100, func() {
			if _, err := k.Read(KindOpen, text, "https://example.com"); err == nil {
				t.Errorf("%.80q was taken", text)
			}
			if _, _, err := k.Open(KindUnsubscribe, text); err == nil {
				t.Errorf("%.80q was opened", text)
			}
		}); n > 0 {
			t.Errorf("%.80q: %v allocations", text, n)
		}
	}
}

func FuzzRead(f *testing.F) {
	k := keys(f, first, second)
	target := "https://example.com/"
	good := sign(f, k, KindClick, places[2], target)
	sealed, err := k.Seal(KindUnsubscribe, &places[2], Subject{"ann@example.com", "weekly"})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good, target)
	f.Add(sealed, "")
	f.Add("", "u=https%3A%2F%2Fexample.com")
	f.Fuzz(func(t *testing.T, text, query string) {
		if p, err := k.Read(KindClick, text, query); (err == nil) != (text == good && query == target) {
			t.Errorf("%q: %+v %v", text, p, err)
		}
		if p, subject, err := k.Open(KindUnsubscribe, text); (err == nil) != (text == sealed) {
			t.Errorf("%q: %+v %q %v", text, p, subject, err)
		}
		if len(query) <= MaxTargetBytes {
			if got, ok := Target("a=b&u=" + string(AppendTarget(nil, query))); !ok || got != query {
				t.Errorf("%q comes back as %q", query, got)
			}
		}
		_, _ = Target(query)
	})
}

func BenchmarkToken(b *testing.B) {
	k, p, target := keys(b, first), places[2], "https://example.com/spring?utm_source=newsletter&utm_medium=email&id=4711"
	text := sign(b, k, KindClick, p, target)
	b.Run("sign", func(b *testing.B) {
		b.ReportAllocs()
		var room [TokenBytes]byte
		for b.Loop() {
			if _, err := k.AppendToken(room[:0], KindClick, &p, target); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("verify", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := k.Read(KindClick, text, target); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("garbage", func(b *testing.B) {
		b.ReportAllocs()
		wrong := text[:TokenBytes-2] + "AA"
		for b.Loop() {
			if _, err := k.Read(KindClick, wrong, target); err == nil {
				b.Fatal("taken")
			}
		}
	})
}
