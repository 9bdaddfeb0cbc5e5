package suppress

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"sluice"
	"sluice/lib/mime"
	"sluice/mail"
	"sluice/test/clocktest"
	"sluice/user/profile"
)

var now = time.Unix(1_700_000_000, 0)

// held is a list with entries, written as "ENTRY REASON SCOPE APP".
func held(t *testing.T, clock sluice.Clock, lines ...string) *List {
	t.Helper()
	l := NewList(clock)
	for _, line := range lines {
		w := append(strings.Fields(line), "all", "")
		s := mail.Suppression{TimeMillis: 1}
		var ok, ok2, ok3 bool
		s.Entry, ok = ParseEntry(w[0])
		s.Reason, ok2 = mail.ParseSuppressReason(w[1])
		s.Scope, ok3 = mail.ParseScope(w[2])
		if len(w) == 6 {
			s.App = w[3]
		}
		if !ok || !ok2 || !ok3 || s.Check() != nil {
			t.Fatalf("%q cannot be read: %v", line, s.Check())
		}
		l.sets.Load().change(&s, clock.Now().UnixMilli())
	}
	return l
}

func TestCheck(t *testing.T) {
	l := held(t, clocktest.At(now),
		"Ann@Example.com hard_bounce",
		"bob@example.com unsubscribe marketing", "bob@example.com manual",
		"cy@example.com unsubscribe marketing shop",
		"JÖRG@bücher.example complaint",
		"bad.example bad_domain",
		".worse.example bad_domain", "*.co.uk manual marketing",
		"own.example manual all shop",
		"zip bad_domain", "*.test bad_domain",
		"x@deep.worse.example complaint",
	)
	const m, x = mail.ClassMarketing, mail.ClassTransactional
	for _, c := range []struct {
		address string
		class   mail.Class
		app     string
		want    string
	}{
		{"ann@example.com", x, "", "hard_bounce all address"},
		{" ANN@EXAMPLE.COM\t", m, "shop", "hard_bounce all address"},
		{"ann@example.org", x, "", ""},
		{"bob@example.com", m, "", "unsubscribe marketing address"}, // the stronger one
		{"bob@example.com", x, "", "manual all address"},
		{"cy@example.com", m, "shop", "unsubscribe marketing address"},
		{"cy@example.com", m, "", ""},
		{"cy@example.com", m, "sho", ""},
		{"cy@example.com", x, "shop", ""},
		{"Jörg@BÜCHER.example", x, "", "complaint all address"},
		{"a@bad.example", x, "", "bad_domain all domain"},
		{"a@sub.bad.example", x, "", ""},
		{"a@worse.example", x, "", "bad_domain all subdomains"},
		{"a@a.b.worse.example", x, "app", "bad_domain all subdomains"},
		{"a@notworse.example", x, "", ""},
		{"x@deep.worse.example", x, "", "complaint all address"},
		{"a@shop.co.uk", m, "", "manual marketing subdomains"},
		{"a@shop.co.uk", x, "", ""},
		{"a@own.example", x, "shop", "manual all domain"},
		{"a@own.example", x, "", ""},
		{"a@zip", x, "", "bad_domain all domain"},
		{"a@a.zip", x, "", ""},
		{"a@b.c.test", x, "", "bad_domain all subdomains"},
		{`"odd @ one"@bad.example`, x, "", "bad_domain all domain"},
		{"nobody", x, "", ""},
		{"", x, "", ""},
		{strings.Repeat("a", 300) + "@bad.example", x, "", ""},
	} {
		v, ok := l.Check(c.address, c.class, c.app)
		got := ""
		if ok {
			got = fmt.Sprint(v.Reason, " ", v.Scope, " ", v.Match)
		}
		if got != c.want {
			t.Errorf("Check(%q, %s, %q) = %q, want %q", c.address, c.class, c.app, got, c.want)
		}
	}
	if l.Len() != 12 {
		t.Errorf("Len() = %d, want 12", l.Len())
	}
}

// What is removed or ends is found no more; what was there beside it is.
func TestRemovedAndEnded(t *testing.T) {
	clock := clocktest.At(now)
	l := held(t, clock, "a@example.com hard_bounce", "a@example.com manual")
	change := func(s mail.Suppression) { l.sets.Load().change(&s, clock.Now().UnixMilli()) }
	reason := func() string {
		v, ok := l.Check("a@example.com", mail.ClassTransactional, "")
		if !ok {
			return ""
		}
		return v.Reason.String()
	}
	if got := reason(); got != "hard_bounce" {
		t.Fatalf("reason %q", got)
	}
	change(mail.Suppression{Entry: "a@example.com", Reason: mail.SuppressHardBounce, Removed: true})
	if got := reason(); got != "manual" {
		t.Errorf("reason %q behind what was removed, want manual", got)
	}
	change(mail.Suppression{Entry: "a@example.com", Reason: mail.SuppressManual, EndMillis: now.UnixMilli() + 10_000})
	clock.Move(9 * time.Second)
	if got := reason(); got != "manual" {
		t.Errorf("reason %q before its end, want manual", got)
	}
	clock.Move(time.Second)
	if got := reason(); got != "" {
		t.Errorf("reason %q at its end, want none", got)
	}
}

func TestCheckAllocatesNothing(t *testing.T) {
	l := held(t, clocktest.At(now), "a@example.com hard_bounce", ".bad.example bad_domain", "x@example.com manual all shop", "own.example manual all shop")
	for _, address := range []string{"a@example.com", "Somebody.Else@Mail.Bad.Example", "nobody@example.net"} {
		if n := testing.AllocsPerRun(100, func() { l.Check(address, mail.ClassMarketing, "shop") }); n != 0 {
			t.Errorf("Check(%q): %v allocations", address, n)
		}
	}
}

// An address is plain if nothing in it is to be folded, wherever it stands.
func TestPlain(t *testing.T) {
	for n := 8; n < 40; n++ {
		for at := 1; at < n; at++ {
			address := []byte(strings.Repeat("z", n))
			address[at] = '@'
			if got, ok := plain(string(address)); !ok || got != at {
				t.Fatalf("plain(%q) = %d, %v", address, got, ok)
			}
			for _, odd := range []byte{'A', 'Z', 0x80, 0xff} {
				for i := range n {
					if i == at {
						continue
					}
					address[i] = odd
					if _, ok := plain(string(address)); ok {
						t.Fatalf("plain(%q)", address)
					}
					address[i] = 'z'
				}
			}
		}
	}
	for _, address := range []string{"", "a@b", " abc@example.com", "abc@example.com\n", `"a b"@example.com`, "a@b@example.com", "no-address", strings.Repeat("a", 250) + "@b.de"} {
		if _, ok := plain(address); ok {
			t.Errorf("plain(%q)", address)
		}
	}
	if _, ok := plain("a[`{@~.example"); !ok {
		t.Error("the neighbours of letters are not letters")
	}
}

// Reading ahead changes no verdict, allocates nothing, and takes any number.
func TestReady(t *testing.T) {
	l := held(t, clocktest.At(now), "a1@example.com hard_bounce")
	many := make([]string, 2*MaxReady)
	for i := range many {
		many[i] = fmt.Sprintf("a%d@example.com", i)
	}
	many[3], many[4] = "", "Ann@Example.com"
	for _, addresses := range [][]string{nil, many[:1], many} {
		if n := testing.AllocsPerRun(10, func() { l.Ready(addresses) }); n != 0 {
			t.Errorf("Ready for %d: %v allocations", len(addresses), n)
		}
	}
	for i, address := range many {
		if _, found := l.Check(address, mail.ClassMarketing, ""); found != (i == 1) {
			t.Errorf("%q is found: %v", address, found)
		}
	}
	NewList(clocktest.At(now)).Ready(many) // of nothing
}

func TestParseEntry(t *testing.T) {
	for text, want := range map[string]string{
		" Ann@Example.COM ": "ann@example.com", "Example.com": "example.com", "example.com.": "example.com", ".Example.com": ".example.com",
		"*.example.com": ".example.com", "@example.com": "example.com", "zip": "zip", ".zip": ".zip",
		`"A b"@Example.com`: `"a b"@example.com`, `"ab"@example.com`: "ab@example.com", "a@B": "a@b",
		"": "", ".": "", "*": "", "a b": "", "a..b": "", "a@": "", `"a b"@`: "", `"a@example.com`: "", "-a.com": "", "*.": "", "a@b@c.com": "", "*example.com": "", "a\x00.com": "",
	} {
		got, ok := ParseEntry(text)
		if ok != (want != "") || ok && got != want {
			t.Errorf("ParseEntry(%q) = %q, %v, want %q", text, got, ok, want)
		}
	}
}

// A domain has two names, one of them in ASCII, which is what envelopes have.
// An entry under either holds for both, as it does for the two ways to write an
// accent.
func TestNamesBeyondASCII(t *testing.T) {
	for entry, addresses := range map[string][]string{
		"ann@Bücher.example":        {"ann@xn--bcher-kva.example", "Ann@bücher.example", "ann@bücher.example", "ann@ｂücher.example"},
		"ann@XN--bcher-kva.example": {"ann@xn--bcher-kva.example", "ann@bücher.example"},
		"bücher.example":            {"ann@xn--bcher-kva.example", "ann@bücher.example"},
		".рф":                       {"ann@mail.xn--p1ai", "ann@mail.рф"},
		"jörg@example.com":         {"jörg@example.com", "JÖRG@example.com"},
		"ａｂ@ｅxample.com":            {"ａｂ@example.com"},
		"jörg@bücher.example":       {"JÖRG@xn--bcher-kva.example"},
		"ann@example。com":           {"ann@example.com"},
	} {
		normal, ok := ParseEntry(entry)
		if !ok {
			t.Errorf("%q is no entry", entry)
			continue
		}
		l := NewList(clocktest.At(now))
		l.sets.Load().change(&mail.Suppression{Entry: normal, Reason: mail.SuppressManual}, 0)
		for _, address := range addresses {
			if a, err := mime.ParseAddress(address); err != nil {
				t.Errorf("%q: %v", address, err)
			} else if _, found := l.Check(a.String(), mail.ClassTransactional, ""); !found {
				t.Errorf("%q is mailed at %q although there is %q", address, a.String(), entry)
			}
			if _, found := l.Check(address, mail.ClassTransactional, ""); !found {
				t.Errorf("%q is not found by %q", address, entry)
			}
		}
	}
}

// An address that has no room in small letters is still one of its domain.
func TestLongLetters(t *testing.T) {
	domain := strings.Repeat("a", 60) + "." + strings.Repeat("b", 60) + "." + strings.Repeat("c", 59) + ".example"
	l := held(t, clocktest.At(now), domain+" manual")
	a, err := mime.ParseAddress(strings.Repeat("Ⱥ", 32) + "@" + domain) // U+023A has two octets, small three
	if err != nil {
		t.Fatal(err)
	}
	if _, found := l.Check(a.String(), mail.ClassTransactional, ""); !found {
		t.Errorf("%q is mailed", a.String())
	}
}

// Every address that mail can be sent to can be suppressed, however it is written
// then and there, and is not mailed any more.
func TestWhatCanBeMailedCanBeSuppressed(t *testing.T) {
	long := strings.Repeat("a", 63)
	for _, text := range []string{"ann@example.com.", "(c)ann@example.com", "ann@example.com (c)", "ann(c)@example.com", "ann@[192.0.2.1]", `"a"b@example.com`, "a b@example.com", "<ann@example.com>", `""@example.com`} {
		if a, err := mime.ParseAddress(text); err == nil {
			t.Errorf("%q can be mailed, as %q: it belongs below", text, a)
		}
	}
	for _, text := range []string{
		"ann@example.com", "Ann.B+c@EXAMPLE.Com", "!#$%&'*+-/=?^_`{|}~@example.com", "root@localhost", "ROOT@LocalHost", "a@zip", "a@r3---sn.example.com",
		`"a b"@example.com`, `"A B"@Example.com`, `"a@b"@example.com`, `"a@b"@localhost`, `"a\"b\\c"@example.com`, `"a..b"@example.com`, `"a,b"@example.com`, `"."@example.com`,
		`"ab"@example.com`, `"\a\b"@example.com`, `"a(b)"@example.com`, `" "@example.com`, `"\""@example.com`, `"@b"@example.com`, `"a\"@b"@example.com`,
		"a@bücher.example", "a@BÜCHER.example", "a@xn--bcher-kva.example", "a@XN--BCHER-KVA.example", "a@straße.example", "a@例え.テスト", "a@ｂücher。example", "a@рф",
		"用户@例子.广告", "JÖRG@bücher.example", "u\u0308@example.com", "I\u0307@example.com", "İ@example.com", "\u212a@example.com", `"Ö @ Ü"@bücher.example`, `"u\u0308 x"@example.com`,
		"jörg@localhost", strings.Repeat("Ⱥ", 32) + "@example.com", strings.Repeat("Ⱥ", 32) + "@" + long + "." + long + "." + strings.Repeat("b", 50) + ".example",
		long + "a@" + long + "." + long + "." + strings.Repeat("b", 61), `"` + strings.Repeat("A ", 31) + `"@example.com`,
	} {
		a, err := mime.ParseAddress(text)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		entry, ok := ParseEntry(text)
		if !ok || len(entry) > mail.MaxSuppressEntryBytes {
			t.Errorf("%q can be mailed and cannot be suppressed", text)
			continue
		}
		l := NewList(clocktest.At(now))
		l.sets.Load().change(&mail.Suppression{Entry: entry, Reason: mail.SuppressManual}, 0)
		for _, to := range []string{a.String(), text, entry, " " + text + " "} {
			if _, found := l.Check(to, mail.ClassTransactional, ""); !found {
				t.Errorf("%q is mailed at %q although there is %q", text, to, entry)
			}
			if again, ok := ParseEntry(to); !ok || again != entry {
				t.Errorf("%q is the entry %q, and %q is %q", text, entry, to, again)
			}
		}
		if got, err := (&Reader{Preset: mail.Suppression{TimeMillis: 1}}).ParseLine(text + ",complaint"); err != nil || got[0].Entry != entry || got[0].Reason != mail.SuppressComplaint {
			t.Errorf("%q in a file is %q, %v", text, got[0].Entry, err)
		}
		l = held(t, clocktest.At(now), a.Domain+" manual")
		if v, found := l.Check(a.String(), mail.ClassTransactional, ""); !found || v.Match != MatchDomain {
			t.Errorf("%q is mailed although its domain is suppressed", text)
		}
	}
}

// Whatever NormalAddress takes for one address, Check does too.
func FuzzFold(f *testing.F) {
	for _, s := range []string{"Ann@Example.com", " JÖRG@Bücher.de", "ABCDEFGHIJKLMNOPQRSTUVWXYZ@[`{z}.example.COM", "12345678ü@example.com", "İ@example.com", "a@b.c\u00a0", "\u212a@example.com", `"a B"@localhost`, "I\u0307@example.com"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, address string) {
		want, ok := profile.NormalAddress(address)
		if !ok {
			return
		}
		if at, ok := plain(address); ok && (address != want || at != strings.LastIndexByte(want, '@')) {
			t.Errorf("%q is plain, with its @ at %d: want %q", address, at, want)
		}
		if got, _ := fold(nil, address); string(got) != want {
			t.Errorf("fold(%q) = %q, want %q", address, got, want)
		}
		l := NewList(clocktest.At(now))
		l.sets.Load().change(&mail.Suppression{Entry: want, Reason: mail.SuppressManual}, 0)
		if _, found := l.Check(address, mail.ClassTransactional, ""); !found {
			t.Errorf("%q is not found as %q", address, want)
		}
	})
}
