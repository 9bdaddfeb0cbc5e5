package engine

import (
	"context"
	"crypto/rand"

	"sluice/lib/token"
	"sluice/mail"
	"sluice/mail/suppress"
	"sluice/user/consent"
)

// tokenSecret is the name of the secret in the database that signs links.
const tokenSecret = "token"

// openConsent prepares the forms of double opt-in, and the links by which
// somebody unsubscribes. Links are signed by the configuration's secret, or by one that is made once and kept in the database;
// what that has signed stays good when a secret is configured later.
func (e *core) openConsent(ctx context.Context) (*consent.Service, error) {
	forms := e.config.Forms()
	if e.config.PublicURL == "" { // then there are no forms
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
	service := consent.New(forms, e.config.PublicURL, keys, e.clock)
	list := e.suppressions.List
	service.Unsubscribed = func(address string) bool {
		v, suppressed := list.Check(address, mail.ClassMarketing, "")
		return suppressed && v.Match == suppress.MatchAddress && v.Reason == mail.SuppressUnsubscribe
	}
	return service, nil
}
