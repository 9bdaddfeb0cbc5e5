package verp

import (
	"bytes"
	"strings"
	"testing"

	"sluice/lib/mime"
	"sluice/lib/token"
)

var (
	first  = bytes.Repeat([]byte("a"), token.MinSecretBytes)
	second = bytes.Repeat([]byte("b"), token.MinSecretBytes)
	some   = Send{Partition: 65535, Message: strings.Repeat("0f", 16), Number: 49_999}
)

func keys(t testing.TB, secrets ...[]byte) *Keys {
	t.Helper()
	tokens, err := token.NewKeys(secrets...)
	if err != nil {
		t.Fatal(err)
	}
	k, err := New(tokens)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func local(t testing.TB, k *Keys, s Send) string {
	t.Helper()
	text, err := k.Local(s)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// What was made comes back in whatever case, and fits into a local part (RFC 5321,
// 4.5.3.1.1).
func TestRoundTrip(t *testing.T) {
	k := keys(t, first)
	for _, s := range []Send{{Message: strings.Repeat("00", 16)}, some, {Partition: 7, Message: strings.Repeat("c5", 16), Number: 1}} {
		text := local(t, k, s)
		if len(text) != LocalBytes || LocalBytes > 64 {
			t.Errorf("%s has %d characters", text, len(text))
		}
		if _, err := mime.ParseAddress(text + "@bounces.example.com"); err != nil {
			t.Errorf("%s is no local part: %v", text, err)
		}
		for _, seen := range []string{text, strings.ToUpper(text), strings.ToUpper(text[:20]) + text[20:]} {
			if got, err := k.Read(seen); err != nil || got != s {
				t.Errorf("%s: got %v %v, want %v", seen, got, err, s)
			}
		}
	}
}

// What another secret has made, or was changed in any character, names nothing.
func TestForged(t *testing.T) {
	k := keys(t, first)
	text := local(t, k, some)
	wrong := []string{"", "postmaster", text[1:], text + "a", strings.Repeat("a", LocalBytes), strings.Repeat("ä", LocalBytes/2), local(t, keys(t, second), some)}
	for i := range text {
		for _, c := range []byte("a7=\n") {
			if text[i] != c {
				wrong = append(wrong, text[:i]+string(c)+text[i+1:])
			}
		}
	}
	last := strings.IndexByte("abcdefghijklmnopqrstuvwxyz234567", text[LocalBytes-1])
	wrong = append(wrong, text[:LocalBytes-1]+string("abcdefghijklmnopqrstuvwxyz234567"[last|1])) // a bit of no byte
	for _, w := range wrong {
		if s, err := k.Read(w); err != ErrInvalid {
			t.Errorf("%q: got %v %v", w, s, err)
		}
	}
}

// What an earlier secret has signed stays good beside the one that signs now.
func TestRotation(t *testing.T) {
	before, after := keys(t, first), keys(t, second, first)
	if s, err := after.Read(local(t, before, some)); err != nil || s != some {
		t.Errorf("after the rotation: %v %v", s, err)
	}
	if s, err := before.Read(local(t, after, some)); err != ErrInvalid {
		t.Errorf("by the secret of before alone: %v %v", s, err)
	}
}

// What cannot be named is an error, and no address of something else.
func TestLocalRefuses(t *testing.T) {
	for _, s := range []Send{{}, {Message: "x"}, {Message: strings.Repeat("0F", 16)}, {Message: some.Message, Number: 65536}, {Message: some.Message, Partition: -1}} {
		if text, err := keys(t, first).Local(s); err == nil {
			t.Errorf("%v: %s", s, text)
		}
	}
}

// FuzzRead looks whether whatever is read is what Local makes of it.
func FuzzRead(f *testing.F) {
	k := keys(f, first)
	f.Add(local(f, k, some))
	f.Add(strings.ToUpper(local(f, k, some)))
	f.Add(strings.Repeat("a", LocalBytes))
	f.Fuzz(func(t *testing.T, text string) {
		s, err := k.Read(text)
		if err != nil {
			return
		}
		if again := local(t, k, s); again != strings.ToLower(text) {
			t.Errorf("%q is read as %v, whose address is %q", text, s, again)
		}
	})
}
