package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"sluice/lib/mime"
	"sluice/mail/dkim"
)

// DKIM is with which keys the mail of a domain is signed.
type DKIM struct {
	Domain string // the key of the mapping
	Keys   []Pair `yaml:"keys" doc:"SELECTOR: FILE of private keys in PEM, RSA of 2048 bits or more, or Ed25519; mail is signed with each of them. Sign with both: old readers know only RSA."`

	Senders []string `yaml:"senders" doc:"Domains of the header From that these keys sign for, and no others: news.example.com, or *.example.com for all subdomains. Default: the domain of the keys and its subdomains. sluice domain check says where receivers do not accept such a signature." sample:"[example.com, news.example.com]"`
}

func newDKIM(domain string) DKIM { return DKIM{Domain: domain} }

// maxDKIMKeyBytes bounds a file with a key.
const maxDKIMKeyBytes = 64 << 10

// Signers reads the keys, and returns which of them sign for whom; nil: there are
// none.
func (c *Config) Signers() (*dkim.Ring, error) {
	if len(c.DKIM) == 0 {
		return nil, nil
	}
	ring := &dkim.Ring{}
	for _, d := range c.DKIM {
		path := joinPath("dkim", d.Domain)
		domain, err := asciiDomain(d.Domain)
		if err != nil {
			return nil, c.wrong(path, err)
		}
		var keys []*dkim.Key
		for _, k := range d.Keys {
			key, err := readKey(domain, k)
			if err != nil {
				return nil, c.wrong(joinPath(path, "keys"), err)
			}
			keys = append(keys, key)
		}
		signer, err := dkim.NewSigner(keys...)
		if err != nil {
			return nil, c.wrong(path, err)
		}
		senders, err := d.senders()
		if err == nil {
			err = ring.Add(signer, senders...)
		}
		if err != nil {
			return nil, c.wrong(joinPath(path, "senders"), err)
		}
	}
	return ring, nil
}

// senders returns the domains that the keys sign for as DNS has them.
func (d *DKIM) senders() (all []string, err error) {
	for _, sender := range d.Senders {
		name, below := strings.CutPrefix(sender, "*.")
		if name, err = asciiDomain(name); err != nil {
			return nil, err
		}
		if below {
			name = "*." + name
		}
		all = append(all, name)
	}
	return all, nil
}

// asciiDomain returns a domain as DNS has it, in lower case.
func asciiDomain(text string) (string, error) {
	name, err := mime.DomainToASCII(text)
	if err != nil {
		return "", fmt.Errorf("%.80q is no domain, want a name such as example.com", text)
	}
	return strings.ToLower(name), nil
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

// dkim checks what can be checked without reading files: those are for
// the process that sends.
func (f *findings) dkim() {
	for _, d := range f.c.DKIM {
		if len(d.Keys) == 0 {
			f.add(joinPath("dkim", d.Domain), errors.New("has no keys; want keys: {SELECTOR: FILE}"))
		}
		if _, err := d.senders(); err != nil {
			f.add(joinPath(joinPath("dkim", d.Domain), "senders"), err)
		}
	}
}
