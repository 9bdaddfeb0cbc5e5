package config

import (
	"log/slog"
	"net/url"
	"strings"

	"sluice/flow"
)

// redacted stands where a secret would.
const redacted = "[redacted]"

// hiddenPassword stands where a password of a URL would.
const hiddenPassword = "xxxxx"

// Secret is a text that no log, error or listing ever shows. Reveal gives it.
type Secret string

// Reveal returns the secret itself. Each call of it is a place to look at.
func (s Secret) Reveal() string { return string(s) }

// String returns a stand-in, or nothing for an empty secret.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return redacted
}

// GoString keeps %#v from showing the secret.
func (s Secret) GoString() string { return s.String() }

// MarshalJSON writes the stand-in.
func (s Secret) MarshalJSON() ([]byte, error) { return []byte(`"` + s.String() + `"`), nil }

// MarshalText writes the stand-in, for encoders that ask for text.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// LogValue logs the stand-in.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// URL is the address of a server, perhaps with a password, which is left out
// wherever the URL is printed. Reveal gives the whole.
type URL string

// Reveal returns the URL with its password, for dialling.
func (u URL) Reveal() string { return string(u) }

// String returns the URL with its secrets replaced.
func (u URL) String() string { return redactURL(string(u)) }

// GoString keeps %#v from showing the password.
func (u URL) GoString() string { return u.String() }

// MarshalText writes the URL with its secrets replaced; JSON takes it too.
func (u URL) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

// LogValue logs the URL with its secrets replaced.
func (u URL) LogValue() slog.Value { return slog.StringValue(u.String()) }

// redactURL replaces the password and every parameter that sounds like one. A
// URL that cannot be read may hold a password anywhere, so nothing of it but
// its scheme is shown.
func redactURL(raw string) string {
	if !strings.ContainsAny(raw, "@?") || strings.HasPrefix(raw, "sqlite:") {
		return raw // no place for a secret: sqlite:FILE, embedded, host:port
	}
	u, err := flow.ParseURL(raw)
	// An @ without a user before it, or a second one, is a password that was not
	// written with %XX and has been cut at a / or ?.
	at := strings.Count(raw, "@")
	if err != nil || u.Opaque != "" || u.Scheme == "" || at > 1 || (at == 1 && u.User == nil) {
		scheme, _, found := strings.Cut(raw, ":")
		if !found || strings.ContainsAny(scheme, "@/?") {
			return redacted
		}
		return scheme + ":" + redacted
	}
	if _, has := u.User.Password(); has {
		u.User = url.UserPassword(u.User.Username(), hiddenPassword)
	}
	q := u.Query()
	for name := range q {
		if low := strings.ToLower(name); strings.Contains(low, "pass") || strings.Contains(low, "secret") ||
			strings.Contains(low, "token") || strings.Contains(low, "key") || strings.Contains(low, "mechanismproperties") {
			q.Set(name, hiddenPassword)
			u.RawQuery = q.Encode()
		}
	}
	return u.String()
}
