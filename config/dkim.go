package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"sluice/dkim"
)

// DKIM is with which keys the mail of a domain is signed.
type DKIM struct {
	Domain string // the key of the mapping
	Keys   []Pair `yaml:"keys" doc:"SELECTOR: FILE of private keys in PEM, RSA of 2048 bits or more, or Ed25519; mail is signed with each of them. Sign with both: old readers know only RSA."`
}

func newDKIM(domain string) DKIM { return DKIM{Domain: domain} }

// maxDKIMKeyBytes bounds a file with a key.
const maxDKIMKeyBytes = 64 << 10

// Signers reads the keys, and returns a signer for each domain, in lower case.
func (c *Config) Signers() (map[string]*dkim.Signer, error) {
	signers := make(map[string]*dkim.Signer, len(c.DKIM))
	for _, d := range c.DKIM {
		var keys []*dkim.Key
		for _, k := range d.Keys {
			key, err := readKey(d.Domain, k)
			if err != nil {
				return nil, c.wrong(joinPath(joinPath("dkim", d.Domain), "keys"), err)
			}
			keys = append(keys, key)
		}
		signer, err := dkim.NewSigner(keys...)
		if err != nil {
			return nil, c.wrong(joinPath("dkim", d.Domain), err)
		}
		signers[strings.ToLower(d.Domain)] = signer
	}
	return signers, nil
}

func readKey(domain string, k Pair) (*dkim.Key, error) {
	file, err := os.Open(string(k.Value))
	if err != nil {
		return nil, fmt.Errorf("the key of selector %s cannot be read: %w", k.Key, err)
	}
	defer func() { _ = file.Close() }() // only read
	text, err := io.ReadAll(io.LimitReader(file, maxDKIMKeyBytes))
	if err != nil {
		return nil, fmt.Errorf("the key of selector %s cannot be read: %w", k.Key, err)
	}
	return dkim.ParseKey(domain, k.Key, text)
}

// validateDKIM checks what can be checked without reading files: those are for
// the process that sends.
func (c *Config) validateDKIM() error {
	var errs []error
	for _, d := range c.DKIM {
		if len(d.Keys) == 0 {
			errs = append(errs, c.wrong(joinPath("dkim", d.Domain), errors.New("has no keys; want keys: {SELECTOR: FILE}")))
		}
	}
	return errors.Join(errs...)
}
