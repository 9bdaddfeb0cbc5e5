package domain

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestParseSPF(t *testing.T) {
	for text, want := range map[string]string{
		"v=spf1":                "[]  \x00",
		"v=spf1 -all":           "[]  -",
		"V=SPF1  A  ?mx   ~ALL": "[{+ a  32 128 invalid Prefix} {? mx  32 128 invalid Prefix}]  ~",
		"v=spf1 ip4:192.0.2.7/24 ip6:2001:db8::1 -ip4:192.0.2.9": "[{+ ip4  32 128 192.0.2.0/24} {+ ip6  32 128 2001:db8::1/128} {- ip4  32 128 192.0.2.9/32}]  \x00",
		"v=spf1 a:b.example/24//64 mx//64 a/8 -all a:never.seen": "[{+ a b.example 24 64 invalid Prefix} {+ mx  32 64 invalid Prefix} {+ a  8 128 invalid Prefix}]  -",
		"v=spf1 include:_spf.example exists:%{i}.x.example ptr":  "[{+ include _spf.example 32 128 invalid Prefix} {+ exists %{i}.x.example 32 128 invalid Prefix} {+ ptr  32 128 invalid Prefix}]  \x00",
		"v=spf1 a:%{d/}.example/24 redirect=r.example other=%%":  "[{+ a %{d/}.example 24 128 invalid Prefix}] r.example \x00",
		"v=spf1 exp=%{l1r-}.e.example ptr:p.example":             "[{+ ptr p.example 32 128 invalid Prefix}]  \x00",
	} {
		if !isSPF(text) {
			t.Errorf("%q is no SPF record", text)
			continue
		}
		s, err := parseSPF(text)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		all := make([]string, len(s.terms))
		for i, x := range s.terms {
			all[i] = fmt.Sprintf("{%c %s %s %d %d %s}", x.qualifier, x.name, x.domain, x.bits4, x.bits6, x.network)
		}
		if got := fmt.Sprintf("[%s] %s %c", strings.Join(all, " "), s.redirect, s.all); got != want {
			t.Errorf("%q is\n%q, want\n%q", text, got, want)
		}
	}
	for _, text := range []string{
		"v=spf1 a:", "v=spf1 include", "v=spf1 include:", "v=spf1 exists", "v=spf1 all:x", "v=spf1 ip4", "v=spf1 ip4:2001:db8::1", "v=spf1 ip6:192.0.2.1",
		"v=spf1 ip4:192.0.2.1/33", "v=spf1 ip4:192.0.2.1/08", "v=spf1 a/", "v=spf1 a/33", "v=spf1 a//129", "v=spf1 a/x", "v=spf1 ptr/24", "v=spf1 ip4:192.0.2", "v=spf1 ipv4:192.0.2.1",
		"v=spf1 -", "v=spf1 redirect=", "v=spf1 redirect=a redirect=b", "v=spf1 exp=a exp=b", "v=spf1 a:%", "v=spf1 a:%x", "v=spf1 a:%{", "v=spf1 a:%{}", "v=spf1 a:%{z}", "v=spf1 a:%{d1x}",
		"v=spf1 ip6:fe80::1%eth0", "v=spf1 a:\xc3\xa4.example", "v=spf1 \x01", "v=spf1" + strings.Repeat(" a", maxTerms),
	} {
		if s, err := parseSPF(text); err == nil {
			t.Errorf("%q is %+v", text, s)
		}
	}
	for _, text := range []string{"v=spf10 a", "spf1", "v=spf1a", "", " v=spf1"} {
		if isSPF(text) {
			t.Errorf("%q is taken for an SPF record", text)
		}
	}
}

func TestParseKeyRecord(t *testing.T) {
	private, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	spki, err := x509.MarshalPKIXPublicKey(private.Public())
	if err != nil {
		t.Fatal(err)
	}
	short, long := base64.StdEncoding.EncodeToString(x509.MarshalPKCS1PublicKey(&private.PublicKey)), base64.StdEncoding.EncodeToString(spki)
	public, _, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	ed := base64.StdEncoding.EncodeToString(public)
	for text, want := range map[string]string{
		"v=DKIM1; k=rsa; p=" + long: "1024 false",
		"p=" + short:                "1024 false",
		" v = DKIM1 ;\r\n\tt = s : y ; p=" + long[:9] + " \t" + long[9:]: "1024 true",
		"v=DKIM1;k=ed25519;p=" + ed + ";n=note;x=y; ":                    "0 false",
		"v=DKIM1; h=sha1:sha256; s=email; p=" + long:                     "1024 false",
		"v=DKIM1; p=": "0 false revoked",
	} {
		r, err := parseKeyRecord(text)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		got := fmt.Sprint(r.bits, r.testing)
		if r.public == nil {
			got += " revoked"
		}
		if got != want {
			t.Errorf("%q is %s, want %s", text, got, want)
		}
	}
	for text, want := range map[string]string{
		"":                          "p=",
		"v=DKIM2; p=" + long:        "v=DKIM1",
		"p=" + long + "; v=DKIM1":   "v=DKIM1",
		"v=DKIM1; k=rsa":            "no p=",
		"v=DKIM1; p=abc":            "base64",
		"v=DKIM1; p=" + ed:          "RSA key",
		"v=DKIM1; p=" + long[:100]:  "RSA key",
		"k=ed25519; p=" + long:      "Ed25519",
		"k=dsa; p=" + long:          "kind of key",
		"h=sha1; p=" + long:         "sha256",
		"s=tlsrpt; p=" + long:       "email",
		"p=; p=" + long:             "twice",
		"v=DKIM1 p=" + long:         "",
		"nonsense":                  "no tag",
		strings.Repeat("a=b;", 100): "more than 64 tags",
	} {
		if r, err := parseKeyRecord(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %+v %v, want %s", text, r, err, want)
		}
	}
}

func TestParsePolicy(t *testing.T) {
	for text, want := range map[string]struct {
		policy string
		faults []string // what each begins with
	}{
		"v=DMARC1; p=none": {"none none 100 false", nil},
		"v=DMARC1;p=Reject;sp=quarantine;pct=5;rua=mailto:a@b.c;":               {"reject quarantine 5 true", nil},
		"v = DMARC1 ; p=quarantine; adkim=S; aspf=r; fo=1; np=none":             {"quarantine quarantine 100 false", nil},
		"v=DMARC1; p=none; rua=mailto:a@b.c!10m, https://r.example/x":           {"none none 100 true", nil},
		"v=DMARC1; rua=mailto:a@b.c":                                            {"none none 100 true", []string{"it has no p="}},
		"v=DMARC1; p=maybe; sp=reject; rua=mailto:a@b.c":                        {"none none 100 true", []string{"p=maybe is no policy"}},
		"v=DMARC1; p=reject; sp=x; rua=mailto:a@b.c":                            {"none none 100 true", []string{"sp=x is no policy"}},
		"v=DMARC1; p=none;; rua=mailto:a@b.c":                                   {"none none 100 true", []string{"\"\" is no tag"}},
		"v=DMARC1; p=reject; fo; x y=z":                                         {"reject reject 100 false", []string{"\" fo\" is no tag", "\" x y=z\" is no tag"}},
		"v=DMARC1; p=reject; pct=100%":                                          {"reject reject 100 false", []string{"pct=100% is wrong"}},
		"v=DMARC1; p=reject; pct=101":                                           {"reject reject 100 false", []string{"pct=101 is wrong"}},
		"v=DMARC1; p=reject; adkim=relaxed; aspf=x; pct=-1; rua=a@b.c; sp=none": {"reject none 100 false", []string{"rua=a@b.c has no address", "adkim=relaxed is wrong", "aspf=x is wrong", "pct=-1 is wrong"}},
	} {
		if !isDMARC(text) {
			t.Errorf("%q is no DMARC record", text)
		}
		p, err := parsePolicy(text)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if got := fmt.Sprint(p.domain, " ", p.subdomain, " ", p.percent, " ", p.reports); got != want.policy || !slices.EqualFunc(p.faults, want.faults, strings.HasPrefix) {
			t.Errorf("%q: %s %q, want %+v", text, got, p.faults, want)
		}
	}
	for _, text := range []string{"v=DMARC1", "v=DMARC1; p=maybe", "v=DMARC1; p=none; sp=x", "v=DMARC1; p=none; p=none", "v=DMARC1; p", "v=DMARC1; rua=", "v=DMARC1; p=maybe; rua=a@b.c", "v=DMARC1" + strings.Repeat(";", 100)} {
		if p, err := parsePolicy(text); err == nil {
			t.Errorf("%q is %+v", text, p)
		}
	}
	for _, text := range []string{"", "v=DMARC12; p=none", "p=none; v=DMARC1", "v=dmarc1; p=none", "v=spf1 -all"} {
		if isDMARC(text) {
			t.Errorf("%q is taken for a DMARC record", text)
		}
	}
}

// Whatever is published, reading it ends in a record or an error.
func FuzzParseSPF(f *testing.F) {
	for _, text := range []string{"v=spf1 a:%{d/}.example/24//64 mx//64 ip4:192.0.2.1/24 include:%{i}.x redirect=r.example exp=e -all", "v=spf1 ~", "v=spf1 a:%{"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := parseSPF(text)
		if err == nil && len(s.terms) > maxTerms {
			t.Errorf("%d terms", len(s.terms))
		}
		isSPF(text)
	})
}

func FuzzParseKeyRecord(f *testing.F) {
	for _, text := range []string{"v=DKIM1; k=rsa; t=y:s; h=sha256; s=email; p=MCowBQYDK2VwAyEA", "p=;", "v=DKIM1; k=ed25519; p=11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo="} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if r, err := parseKeyRecord(text); err == nil && r == nil {
			t.Error("neither a record nor an error")
		}
	})
}

func FuzzParsePolicy(f *testing.F) {
	for _, text := range []string{"v=DMARC1; p=none; sp=reject; pct=50; rua=mailto:a@b.c; adkim=s", "v=DMARC1;;p=", "=;="} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := parsePolicy(text)
		if err == nil && (p.domain == "" || p.subdomain == "" || p.percent > 100) {
			t.Errorf("%+v", p)
		}
		isDMARC(text)
	})
}
