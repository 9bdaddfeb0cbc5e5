package engine

import (
	"fmt"
	"io"
	"log/slog"
	"strings"
	"unicode/utf8"

	"sluice/config"
)

// Erasures do not reach the program's log, and more people read it than the
// database. So it contains no address: what errors and replies of servers say of one
// is masked where a line is written. The domain stays, which is what a fault is
// about.

// masked stands for the local part of an address.
const masked = "***"

// MaskAttr masks the addresses in a value of the log. It is a ReplaceAttr.
func MaskAttr(_ []string, a slog.Attr) slog.Attr {
	switch a.Value.Kind() {
	case slog.KindString:
		if text := a.Value.String(); hasAt(text) {
			a.Value = slog.StringValue(maskAddresses(text))
		}
	case slog.KindAny:
		if _, source := a.Value.Any().(*slog.Source); source {
			return a
		}
		if text := fmt.Sprint(a.Value.Any()); hasAt(text) {
			a.Value = slog.StringValue(maskAddresses(text))
		}
	}
	return a
}

// escapedAt is an @ in a URL.
const escapedAt = "%40"

func hasAt(text string) bool {
	return strings.Contains(text, "@") || strings.Contains(text, escapedAt)
}

// maskAddresses puts masked in the place of what stands before each @ of a text, as
// far back as a local part may reach.
func maskAddresses(text string) string {
	var b strings.Builder
	for {
		at := strings.IndexByte(text, '@')
		if escaped := strings.Index(text, escapedAt); escaped >= 0 && (at < 0 || escaped < at) {
			at = escaped
		}
		if at < 0 {
			b.WriteString(text)
			return b.String()
		}
		begin := localBegin(text[:at])
		b.WriteString(text[:begin])
		if begin < at {
			b.WriteString(masked)
		}
		b.WriteByte(text[at])
		text = text[at+1:]
	}
}

// localBegin returns where the local part begins that ends a text. That is behind
// the opening quote of a quoted one, or behind the last character that no local part
// has (RFC 5321, 4.1.2). It counts :, / and = among these: a local part may have
// them, but in most logs they separate it from what is before.
func localBegin(text string) int {
	for _, quote := range []string{`\"`, `"`} {
		if inner, ok := strings.CutSuffix(text, quote); ok {
			if open := strings.LastIndex(inner, quote); open >= 0 {
				return open
			}
			break
		}
	}
	for i := len(text); i > 0; {
		r, n := utf8.DecodeLastRuneInString(text[:i])
		if r <= ' ' || strings.ContainsRune("\"'<>()[]{},;:/=?&|\\@", r) {
			return i
		}
		i -= n
	}
	return 0
}

// NewLogger returns the program's log as the configuration wants it.
func NewLogger(cfg *config.Config, w io.Writer) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(cfg.Log.Level)); err != nil {
		level = slog.LevelInfo // the configuration was checked
	}
	options := &slog.HandlerOptions{Level: level, ReplaceAttr: MaskAttr}
	if cfg.Log.Format == "json" {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}
