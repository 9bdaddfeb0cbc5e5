package dkim

import (
	"bytes"
	"crypto"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"strings"
)

// minRSABits is the least that keys here have; RFC 8301, 3.2 asks signers for
// 1024 at least and 2048 rather.
const (
	minRSABits = 2048
	maxRSABits = 4096 // RFC 8301, 3.2: what verifiers have to understand
)

// Key signs for a domain.
type Key struct {
	domain, selector string
	signer           crypto.Signer
	algorithm        string // a=
	kind             string // k=
	hash             crypto.Hash
	bytes            int // of a signature
}

// ParseKey reads a private key from PEM: PKCS #8 or PKCS #1, RSA of 2,048 to
// 4,096 bits or Ed25519. domain and selector are ASCII names (d=, s=). Errors do
// not show the key.
func ParseKey(domain, selector string, text []byte) (*Key, error) {
	block, rest := pem.Decode(text)
	if block == nil {
		return nil, errors.New("read DKIM key: it is no PEM, want -----BEGIN PRIVATE KEY-----")
	}
	if len(bytes.TrimSpace(rest)) > 0 {
		return nil, errors.New("read DKIM key: something follows the key, want one key a file")
	}
	var parsed any
	var err error
	switch block.Type {
	case "PRIVATE KEY":
		parsed, err = x509.ParsePKCS8PrivateKey(block.Bytes)
	case "RSA PRIVATE KEY":
		parsed, err = x509.ParsePKCS1PrivateKey(block.Bytes)
	default:
		return nil, fmt.Errorf("read DKIM key: it is a %.40q, want PRIVATE KEY (`openssl pkcs8 -topk8 -nocrypt` makes one)", block.Type)
	}
	if err != nil {
		return nil, errors.New("read DKIM key: the key inside the PEM is broken, or has a password")
	}
	signer, ok := parsed.(crypto.Signer)
	if !ok {
		return nil, errors.New("read DKIM key: it cannot sign, want RSA or Ed25519")
	}
	return newKey(domain, selector, signer)
}

func newKey(domain, selector string, signer crypto.Signer) (*Key, error) {
	k := &Key{domain: strings.ToLower(domain), selector: strings.ToLower(selector), signer: signer}
	if !isName(k.domain) || !strings.Contains(k.domain, ".") {
		return nil, fmt.Errorf("read DKIM key: %q is no domain in ASCII", domain)
	}
	if !isName(k.selector) {
		return nil, fmt.Errorf("read DKIM key: %q is no selector, want letters, digits, hyphens and dots", selector)
	}
	switch private := signer.(type) {
	case *rsa.PrivateKey:
		if bits := private.N.BitLen(); bits < minRSABits || bits > maxRSABits {
			return nil, fmt.Errorf("read DKIM key: it has %d bits, want %d to %d", bits, minRSABits, maxRSABits)
		}
		if err := private.Validate(); err != nil {
			return nil, errors.New("read DKIM key: its numbers do not belong together")
		}
		private.Precompute()
		k.algorithm, k.kind, k.hash, k.bytes = "rsa-sha256", "rsa", crypto.SHA256, private.Size()
	case ed25519.PrivateKey:
		// RFC 8463, 3: the SHA-256 is what is signed, as a message of its own.
		k.algorithm, k.kind, k.hash, k.bytes = "ed25519-sha256", "ed25519", crypto.Hash(0), ed25519.SignatureSize
	default:
		return nil, fmt.Errorf("read DKIM key: a key of %T cannot be used, want RSA or Ed25519", signer)
	}
	return k, nil
}

// isName takes labels as RFC 6376, 3.1 and RFC 5321, 4.1.2 have them.
func isName(s string) bool {
	if len(s) > 253 {
		return false
	}
	for label := range strings.SplitSeq(s, ".") {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
		for i := range len(label) {
			if c := label[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' {
				return false
			}
		}
	}
	return true
}

// Public returns the public key.
func (k *Key) Public() crypto.PublicKey { return k.signer.Public() }

// RecordName returns the name of the TXT record that publishes the key.
func (k *Key) RecordName() string { return k.selector + "._domainkey." + k.domain }

// Record returns the text of that record (RFC 6376, 3.6.1; RFC 8463, 4). A TXT
// record's strings have 255 octets at most: zone files want a longer text in
// several strings, which RecordStrings returns.
func (k *Key) Record() (string, error) {
	var public []byte
	switch p := k.signer.Public().(type) {
	case ed25519.PublicKey:
		public = p
	default:
		var err error
		if public, err = x509.MarshalPKIXPublicKey(p); err != nil {
			return "", fmt.Errorf("encode the public key of %s: %w", k.RecordName(), err)
		}
	}
	return "v=DKIM1; k=" + k.kind + "; p=" + base64.StdEncoding.EncodeToString(public), nil
}

// RecordStrings cuts a record's text into strings as a zone file has them.
func RecordStrings(record string) []string {
	const most = 255
	var all []string
	for len(record) > most {
		all = append(all, record[:most])
		record = record[most:]
	}
	return append(all, record)
}
