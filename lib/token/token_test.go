package token

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

var (
	now    = time.Unix(1_700_000_000, 0)
	first  = bytes.Repeat([]byte("a"), MinSecretBytes)
	second = bytes.Repeat([]byte("b"), MinSecretBytes)
)

func keys(t testing.TB, secrets ...[]byte) *Keys {
	t.Helper()
	k, err := NewKeys(secrets...)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func sign(t testing.TB, k *Keys, fields ...string) string {
	t.Helper()
	text, err := k.Sign("optin", now.Add(time.Hour), fields...)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// What was signed comes back, until it expires, and needs no escape in a URL.
func TestRoundTrip(t *testing.T) {
	k := keys(t, first)
	for _, fields := range [][]string{nil, {""}, {"news", "ann@example.com", `{"a":"ä\n"}`}, slices.Repeat([]string{"x"}, MaxFields), {"\x00\xff"}} {
		text := sign(t, k, fields...)
		got, err := k.Open("optin", text, now)
		if err != nil || !slices.Equal(got, fields) {
			t.Errorf("%q: got %q %v", fields, got, err)
		}
		if strings.Trim(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			t.Errorf("%s does not stand in a URL as it is", text)
		}
	}
	text := sign(t, k, "x")
	if _, err := k.Open("optin", text, now.Add(time.Hour-time.Second)); err != nil {
		t.Errorf("in its last second: %v", err)
	}
	if _, err := k.Open("optin", text, now.Add(time.Hour)); !errors.Is(err, ErrExpired) {
		t.Errorf("an hour later: %v", err)
	}
}

// Every change of any byte is seen, whatever it is changed into, and so is what
// is cut off or added.
func TestTampering(t *testing.T) {
	k := keys(t, first)
	text := sign(t, k, "news", "ann@example.com")
	for i := range text {
		for c := range byte(255) {
			changed := []byte(text)
			if changed[i] == c {
				continue
			}
			changed[i] = c
			if _, err := k.Open("optin", string(changed), now); !errors.Is(err, ErrInvalid) {
				t.Fatalf("byte %d changed into %q: %v", i, string(c), err)
			}
		}
		for _, other := range []string{text[:i], text[i+1:], text[:i] + text[i+1:], text[:i] + "A" + text[i:], text[:i] + "\n" + text[i:]} {
			if _, err := k.Open("optin", other, now); other != text && !errors.Is(err, ErrInvalid) {
				t.Fatalf("%q: %v", other, err)
			}
		}
	}
	for _, other := range []string{text + "=", text + "\r\n", text + "A", strings.Repeat("A", MaxTextBytes+4)} {
		if _, err := k.Open("optin", other, now); !errors.Is(err, ErrInvalid) {
			t.Errorf("%q: %v", other, err)
		}
	}
}

// A token of one purpose or secret is none of another; a previous secret's are
// good while it is known.
func TestPurposesAndSecrets(t *testing.T) {
	old := sign(t, keys(t, first), "x")
	for _, purpose := range []string{"", "opti", "optin ", "unsubscribe"} {
		if _, err := keys(t, first).Open(purpose, old, now); !errors.Is(err, ErrInvalid) {
			t.Errorf("taken for %q: %v", purpose, err)
		}
	}
	if _, err := keys(t, second).Open("optin", old, now); !errors.Is(err, ErrInvalid) {
		t.Errorf("by another secret: %v", err)
	}
	rotated := keys(t, second, first)
	if _, err := rotated.Open("optin", old, now); err != nil {
		t.Errorf("by the previous secret: %v", err)
	}
	if _, err := keys(t, second).Open("optin", sign(t, rotated, "x"), now); err != nil {
		t.Errorf("the new secret does not sign: %v", err)
	}
}

func TestBounds(t *testing.T) {
	if _, err := NewKeys(); err == nil {
		t.Error("keys without a secret")
	}
	if _, err := NewKeys(first, []byte("hunter2")); err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("a short secret: %v", err)
	}
	k := keys(t, first)
	if _, err := k.Sign("optin", now, slices.Repeat([]string{"x"}, MaxFields+1)...); err == nil {
		t.Error("too many fields were signed")
	}
	if _, err := k.Sign("optin", now, strings.Repeat("x", MaxTextBytes)); err == nil {
		t.Error("too long a token was signed")
	}
}

// Nothing but what was signed is taken, and nothing makes it fail otherwise.
func FuzzOpen(f *testing.F) {
	k := keys(f, first)
	good := sign(f, k, "news", "ann@example.com")
	f.Add(good)
	f.Add("")
	f.Add(good[:50])
	f.Fuzz(func(t *testing.T, text string) {
		fields, err := k.Open("optin", text, now)
		if (err == nil) != (text == good) {
			t.Errorf("%q: %q %v", text, fields, err)
		}
	})
}

// What comes behind a good signature is read within its bounds.
func FuzzFields(f *testing.F) {
	f.Add([]byte("\x04news\x00"))
	f.Add([]byte("\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"))
	f.Fuzz(func(t *testing.T, b []byte) {
		fields, err := readFields(b)
		if err == nil && len(fields) > MaxFields {
			t.Errorf("%d fields", len(fields))
		}
	})
}

// A derived key is of its purpose and of its secret, and none that signs.
func TestDerive(t *testing.T) {
	derive := func(purpose string, secrets ...[]byte) [][]byte {
		all, err := keys(t, secrets...).Derive(purpose)
		if err != nil || len(all) != len(secrets) {
			t.Fatal(len(all), err)
		}
		return all
	}
	both := derive("return path", first, second)
	signs, err := deriveKey(first, infoPrefix+"return path")
	if err != nil {
		t.Fatal(err)
	}
	for name, other := range map[string][]byte{"the other secret's": both[1], "another purpose's": derive("x", first)[0], "the one that signs": signs} {
		if bytes.Equal(both[0], other) {
			t.Errorf("the key is %s", name)
		}
	}
	if again := derive("return path", second, first); !bytes.Equal(again[1], both[0]) || !bytes.Equal(again[0], both[1]) {
		t.Error("keys change with the order of secrets")
	}
}
