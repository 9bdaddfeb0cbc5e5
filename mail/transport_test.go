package mail

import (
	"strings"
	"testing"
)

func TestReplyText(t *testing.T) {
	for text, want := range map[string]string{
		"550 no\r\nsuch user\x00": "550 no  such user",
		" a\u2028b ":              "a b",
		"\xff\xfeok":              "ok",
		strings.Repeat("x", MaxReplyBytes-1) + "é": strings.Repeat("x", MaxReplyBytes-1),
	} {
		if got := ReplyText(text); got != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
	}
}
