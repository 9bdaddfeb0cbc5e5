package mime

import (
	"slices"
	"strings"
	"testing"
)

// Each author counts, however the header is written. An author that cannot be
// read is no author that could be checked.
func TestAuthorDomains(t *testing.T) {
	for from, want := range map[string]string{
		"a@example.com":                                        "example.com",
		"Ann <a@Example.COM>":                                  "example.com",
		"Ann <a@example.com>, Bob <b@example.net>":             "example.com example.net",
		"a@example.com, b@EXAMPLE.com":                         "example.com",
		"a@example.com,\r\n\t\"Smith, Bob\" <b@example.net>":   "example.com example.net",
		"\"x@bad.example\" <a@example.com>":                    "example.com",
		"\"a@bad.example\"@example.com":                        "example.com",
		"a@example.com (y@bad.example)":                        "example.com",
		"=?windows-1252?Q?Z=F6?= <a@example.com>":              "example.com",
		"=?utf-8?q?x=40bad.example=2C?= <a@example.com>":       "example.com",
		"Zoë <zoë@bücher.example>":                             "xn--bcher-kva.example",
		"team: Ann <a@example.com>, b@example.net;, c@zip.zip": "example.com example.net zip.zip",

		"": "", "nobody": "", "nobody:;": "", "<>": "", "a@example.com b@example.net": "", "x@bad.example <a@example.com>": "", "a@[192.0.2.1]": "",
		"a@example.com, b": "", "a@b..com": "", "a@192.0.2.1": "", "(x@bad.example) a@example.com": "", // an address may begin like that, and none does
	} {
		got, err := AuthorDomains([]byte("Subject: x\r\nfrom : " + from + "\r\nTo: to@other.example\r\n\r\nFrom: body@other.example\r\n"))
		if (err == nil) != (want != "") || !slices.Equal(got, strings.Fields(want)) {
			t.Errorf("%q: %q, %v, want %q", from, got, err, want)
		}
		if err != nil && !strings.HasPrefix(err.Error(), "headers.From: ") {
			t.Errorf("%q: %v", from, err)
		}
	}
	if got, err := AuthorDomains([]byte("Subject: x\r\n\r\nFrom: body@other.example\r\n")); err == nil {
		t.Errorf("no header From: %q", got)
	}
}
