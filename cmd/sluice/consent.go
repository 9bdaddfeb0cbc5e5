package main

import (
	"context"
	"crypto/rand"

	"sluice/consent"
	"sluice/token"
)

// tokenSecret is the name of the secret in the database that signs links.
const tokenSecret = "token"

// openConsent prepares the forms of double opt-in. Links are signed by the
// configuration's secret, or by one that is made once and kept in the database;
// what that has signed stays good when a secret is configured later.
func (e *engine) openConsent(ctx context.Context) (*consent.Service, error) {
	forms := e.config.Forms()
	if len(forms) == 0 {
		return consent.New(nil, "", nil, e.clock), nil
	}
	var secrets [][]byte
	for _, text := range []string{e.config.Secret.Reveal(), e.config.SecretPrevious.Reveal()} {
		if text != "" {
			secrets = append(secrets, []byte(text))
		}
	}
	fresh := make([]byte, token.MinSecretBytes)
	_, _ = rand.Read(fresh) // never fails (crypto/rand)
	kept, err := e.store.Secret(ctx, tokenSecret, fresh)
	if err != nil {
		return nil, err
	}
	if e.config.Secret == "" {
		secrets = append([][]byte{kept}, secrets...)
	} else {
		secrets = append(secrets, kept)
	}
	keys, err := token.NewKeys(secrets...)
	if err != nil {
		return nil, err
	}
	return consent.New(forms, e.config.PublicURL, keys, e.clock), nil
}
