// Package dkimtest makes keys of DKIM, as operators make them by other programs.
package dkimtest

import (
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
)

// The kinds of keys.
const (
	RSA     = "rsa"
	Ed25519 = "ed25519"
)

// Key returns the PEM of a new key: Ed25519, or RSA of 2,048 bits.
func Key(kind string) []byte {
	var key crypto.Signer
	var err error
	if _, key, err = ed25519.GenerateKey(rand.Reader); kind == RSA {
		key, err = rsa.GenerateKey(rand.Reader, 2048)
	}
	if err != nil {
		panic(err) // the machine has no randomness
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		panic(err) // of these two kinds
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}
