package engine

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"sluice/config"
)

// However an address comes into the log, its local part does not stand there, and
// the rest of the line does.
func TestLogMasksAddresses(t *testing.T) {
	for text, want := range map[string]string{
		"ann.b+c@example.com":                         "***@example.com",
		"550 5.1.1 <ann@example.com>... no such user": "550 5.1.1 <***@example.com>... no such user",
		`address "ann b"@example.com is none`:         `address ***@example.com is none`,
		`%64q: "\"ann b\"@example.com"`:               `%64q: "***@example.com"`,
		"ann@a.example, jörg@b.example;ann@c.example": "***@a.example, ***@b.example;***@c.example",
		"/v1/x?email=ann%40example.com&n=1":           "/v1/x?email=***%40example.com&n=1",
		"mailto:ann@example.com":                      "mailto:***@example.com",
		"no address, @ alone":                         "no address, @ alone",
		"redis://10.0.0.7:6379":                       "redis://10.0.0.7:6379",
		"'ann@example.com'":                           "'***@example.com'",
	} {
		if got := maskAddresses(text); got != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
	}
	for _, format := range []string{"text", "json"} {
		cfg := config.Default()
		cfg.Log.Format = format
		var b bytes.Buffer
		log := NewLogger(cfg, &b).With("who", "ann@example.com")
		log.Warn("mail to ann@example.com failed", "error", fmt.Errorf("send: %w", errors.New("550 <ann@example.com>")), "to", []string{"ann@example.com"}, "n", 7,
			"map", map[string]int{"ann@example.com": 1})
		log.WithGroup("g").Info("again", "address", "ann@example.com", "mailed", 3)
		if got := b.String(); strings.Contains(got, "ann") || strings.Count(got, "example.com") != 7 || !strings.Contains(got, "550") || !strings.Contains(got, "mailed") {
			t.Errorf("%s: %s", format, got)
		}
	}
}
