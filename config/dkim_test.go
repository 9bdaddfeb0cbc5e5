package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sluice/dkim"
)

func TestKeysOfDKIM(t *testing.T) {
	_, text, err := dkim.Generate("example.com", "s1", "ed25519")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	good, bad := filepath.Join(dir, "good.pem"), filepath.Join(dir, "bad.pem")
	for name, content := range map[string][]byte{good: text, bad: []byte("no key")} {
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c := Default()
	c.DKIM = []DKIM{{Domain: "Example.com", Keys: []Pair{{"s1", Secret(good)}}}}
	signers, err := c.Signers()
	if err != nil || signers["example.com"] == nil {
		t.Fatalf("signers: %v, %v", signers, err)
	}
	for _, name := range []string{bad, filepath.Join(dir, "none.pem"), "/dev/zero"} {
		c.DKIM[0].Keys[0].Value = Secret(name)
		if _, err := c.Signers(); err == nil || !strings.Contains(fmt.Sprint(err), "dkim.Example.com.keys") {
			t.Errorf("key %s: %v", name, err)
		}
	}
}
