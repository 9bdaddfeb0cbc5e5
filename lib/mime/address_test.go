package mime

import (
	"net/mail"
	"strings"
	"testing"
)

func TestParseAddress(t *testing.T) {
	long := strings.Repeat("a", 64)
	for _, tt := range []struct{ in, want string }{
		{"a@example.com", "a@example.com"},
		{"A.b+c@EXAMPLE.Com", "A.b+c@example.com"},
		{"!#$%&'*+-/=?^_`{|}~@example.com", "!#$%&'*+-/=?^_`{|}~@example.com"},
		{"root@localhost", "root@localhost"},
		{`"a b"@example.com`, `"a b"@example.com`},
		{`"a@b"@example.com`, `"a@b"@example.com`},
		{`"ab"@example.com`, `ab@example.com`},
		{`"a\"b\\c"@example.com`, `"a\"b\\c"@example.com`},
		{`"a..b"@example.com`, `"a..b"@example.com`},
		{"a@bücher.example", "a@xn--bcher-kva.example"},
		{"a@BÜCHER.example", "a@xn--bcher-kva.example"},
		{"a@xn--bcher-kva.example", "a@xn--bcher-kva.example"},
		{"a@straße.example", "a@xn--strae-oqa.example"}, // not strasse: IDNA2008
		{"a@例え.テスト", "a@xn--r8jz45g.xn--zckzah"},
		{"a@مثال.إختبار", "a@xn--mgbh0fb.xn--kgbechtv"},
		{"用户@例子.广告", "用户@xn--fsqu00a.xn--4rr70v"},
		{"u\u0308@example.com", "ü@example.com"}, // NFC
		{long + "@example.com", long + "@example.com"},
		{"a@r3---sn.example.com", "a@r3---sn.example.com"},

		{"", ""}, {"@", ""}, {"a", ""}, {"a@", ""}, {"@b.com", ""}, {"a@b@c.com", ""}, {".a@b.com", ""}, {"a.@b.com", ""}, {"a..b@c.com", ""},
		{" a@b.com", ""}, {"a@b.com ", ""}, {"a b@c.com", ""}, {"<a@b.com>", ""}, {"Ann <a@b.com>", ""}, {"a@b.com,c@d.com", ""},
		{"a@b.com\r\nBcc: x@y.com", ""}, {"a\r\n@b.com", ""}, {"a\x00@b.com", ""}, {"a@b\x00.com", ""}, {"\"a\r\nb\"@c.com", ""}, {"\"a\x00\"@c.com", ""},
		{`"a"b@c.com`, ""}, {`"a@c.com`, ""}, {`""@c.com`, ""}, {`"a\"@c.com`, ""}, {`"a"`, ""},
		{"a@[127.0.0.1]", ""}, {"a@127.0.0.1", ""}, {"a@b..com", ""}, {"a@.com", ""}, {"a@com.", ""}, {"a@-b.com", ""}, {"a@b-.com", ""}, {"a@b_c.com", ""},
		{"a@b c.com", ""}, {"a@b.com(comment)", ""}, {"(c)a@b.com", ""},
		{long + "a@example.com", ""}, {"a@" + strings.Repeat("a", 64) + ".com", ""}, {"a@" + strings.Repeat("abcdefg.", 32) + "com", ""},
		{long + "@" + strings.Repeat("abcdefg.", 24) + "com", ""},
		{"a@☃.example", ""}, {"a@💩.la", ""}, {"a@xn--ls8h.la", ""}, {"a@xn--.com", ""}, {"a@xn--a.com", ""},
		{"a\u202eb@example.com", ""}, {"a\u200bb@example.com", ""}, {"a\u00a0b@example.com", ""}, {"a\u2028b@example.com", ""},
		{"a\xff@example.com", ""}, {"a@b\xff.com", ""}, {"a@exa\u202emple.com", ""}, {"ａ@b。c\r", ""},
		{strings.Repeat("ü", 33) + "@example.com", ""}, {strings.Repeat("a", 5000) + "@example.com", ""},
	} {
		a, err := ParseAddress(tt.in)
		if tt.want == "" {
			if err == nil {
				t.Errorf("%q was taken, as %q", tt.in, a)
			}
			continue
		}
		if err != nil || a.String() != tt.want {
			t.Errorf("%q: %q, %v; want %q", tt.in, a, err, tt.want)
			continue
		}
		if again, err := ParseAddress(a.String()); err != nil || again != a {
			t.Errorf("%q read again: %q, %v", a, again, err)
		}
		if a.UTF8() != !IsASCII(tt.want) {
			t.Errorf("%q: UTF8 is %v", a, a.UTF8())
		}
	}
}

// The domain is behind the last @, whatever stands in quotes before it.
func TestDomainOf(t *testing.T) {
	for address, want := range map[string]string{
		"a@Example.com": "example.com", `"a@b.example"@example.com`: "example.com", `"a\"@b.example"@EXAMPLE.com`: "example.com", "root@localhost": "localhost",
		"": "", "nobody": "", "nobody@": "",
	} {
		if got := DomainOf(address); got != want {
			t.Errorf("%q: %q, want %q", address, got, want)
		}
		if a, err := ParseAddress(address); err == nil && a.Domain != want {
			t.Errorf("%q is read as being of %q", address, a.Domain)
		}
	}
}

func TestParseMailbox(t *testing.T) {
	for _, tt := range []struct{ in, name, address string }{
		{"a@b.com", "", "a@b.com"},
		{" <a@b.com> ", "", "a@b.com"},
		{"Ann <a@b.com>", "Ann", "a@b.com"},
		{"Ann S. Smith (Sales) <a@b.com>", "Ann S. Smith (Sales)", "a@b.com"},
		{`"Smith, Ann" <a@b.com>`, "Smith, Ann", "a@b.com"},
		{`"say \"hi\" \\" <a@b.com>`, `say "hi" \`, "a@b.com"},
		{"Zoë 🎉 <a@b.com>", "Zoë 🎉", "a@b.com"},
		{"=?utf-8?q?x?= <a@b.com>", "=?utf-8?q?x?=", "a@b.com"},
		{`"a@evil.example" <a@b.com>`, "a@evil.example", "a@b.com"},

		{"Smith, Ann <a@b.com>", "", ""}, {"a@evil.example <a@b.com>", "", ""}, {`"Ann <a@b.com>`, "", ""}, {`"Ann" x <a@b.com>`, "", ""},
		{"Ann <a@b.com", "", ""}, {"Ann a@b.com>", "", ""}, {"Ann <>", "", ""}, {"a@b.com, c@d.com", "", ""}, {"x <c@d.com>, <a@b.com>", "", ""},
		{"An\r\nn <a@b.com>", "", ""}, {"An\x00n <a@b.com>", "", ""}, {"An\u2028n <a@b.com>", "", ""}, {"An\u0085n <a@b.com>", "", ""}, {"An\xffn <a@b.com>", "", ""},
		{"group: a@b.com;", "", ""}, {strings.Repeat("n", MaxNameBytes+1) + " <a@b.com>", "", ""},
	} {
		m, err := ParseMailbox(tt.in)
		switch {
		case tt.address == "" && err == nil:
			t.Errorf("%q was taken, as %+v", tt.in, m)
		case tt.address != "" && (err != nil || m.Name != tt.name || m.String() != tt.address):
			t.Errorf("%q: %q %q, %v", tt.in, m.Name, m.String(), err)
		}
	}
}

// What is taken is one address for others as well, and the same.
func FuzzParseAddress(f *testing.F) {
	for _, s := range []string{"a@example.com", `"a b\"c"@example.com`, "用户@例子.广告", "a@xn--bcher-kva.example", "a@b@c", "x\r\n@y", "\"\\\"@a.b"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		a, err := ParseAddress(s)
		if err != nil {
			return
		}
		text := a.String()
		if strings.ContainsAny(text, "\r\n\x00") || len(text) > MaxAddressBytes || !IsASCII(a.Domain) {
			t.Fatalf("%q is taken as %q", s, text)
		}
		again, err := ParseAddress(text)
		if err != nil || again != a {
			t.Fatalf("%q read again is %q, %v", text, again, err)
		}
		other, err := mail.ParseAddress("<" + text + ">")
		if err != nil || !strings.HasSuffix(other.Address, "@"+a.Domain) {
			t.Fatalf("net/mail reads %q as %v, %v", text, other, err)
		}
	})
}
