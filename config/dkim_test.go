package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sluice/test/dkimtest"
)

func TestKeysOfDKIM(t *testing.T) {
	dir := t.TempDir()
	good, bad := filepath.Join(dir, "good.pem"), filepath.Join(dir, "bad.pem")
	for name, content := range map[string][]byte{good: dkimtest.Key(dkimtest.Ed25519), bad: []byte("no key")} {
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c := Default()
	c.DKIM = []DKIM{{Domain: "Example.com", Keys: []Pair{{"s1", Secret(good)}}}}
	signers, err := c.Signers()
	if err != nil || signers.For("example.com") == nil || signers.For("news.example.com") == nil {
		t.Fatalf("signers: %v, %v", signers, err)
	}
	c.DKIM = append(c.DKIM, DKIM{Domain: "Bücher.example", Keys: []Pair{{"s1", Secret(good)}}, Senders: []string{"Bücher.example", "*.zip.example"}})
	if signers, err = c.Signers(); err != nil {
		t.Fatal(err)
	}
	for sender, want := range map[string]string{"xn--bcher-kva.example": "xn--bcher-kva.example", "x.zip.example": "xn--bcher-kva.example", "x.example.com": "example.com"} {
		if s := signers.For(sender); s == nil || s.Domain() != want {
			t.Errorf("%s is signed for by %v, want %s", sender, s, want)
		}
	}
	if signers.For("news.xn--bcher-kva.example") != nil {
		t.Error("keys that are bound sign for others")
	}
	for _, senders := range [][]string{{"example.com"}, {"*.example.com"}, {"a b"}, {"*"}, {""}} {
		c.DKIM[1].Senders = senders
		if _, err := c.Signers(); err == nil || !strings.Contains(fmt.Sprint(err), "dkim.Bücher.example.senders") {
			t.Errorf("senders %q: %v", senders, err)
		}
	}
	c.DKIM = c.DKIM[:1]
	for _, name := range []string{bad, filepath.Join(dir, "none.pem"), "/dev/zero"} {
		c.DKIM[0].Keys[0].Value = Secret(name)
		if _, err := c.Signers(); err == nil || !strings.Contains(fmt.Sprint(err), "dkim.Example.com.keys") {
			t.Errorf("key %s: %v", name, err)
		}
	}
}
