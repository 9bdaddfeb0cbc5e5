package engine

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync"
	"time"

	"sluice/lib/token"
	"sluice/mail"
	"sluice/mail/spool"
	"sluice/mail/suppress"
	"sluice/track/link"
	"sluice/track/rewrite"
	"sluice/user/consent"
	"sluice/user/profile"
)

// tokenSecret is the name of the secret in the database that signs links.
const tokenSecret = "token"

// openConsent prepares the forms of double opt-in, and the links by which
// somebody unsubscribes. Links are signed by the configuration's secret, or by one that is made once and kept in the database;
// what that has signed stays good when a secret is configured later.
func (e *core) openConsent(ctx context.Context) (*consent.Service, error) {
	forms := e.config.Forms()
	if e.config.PublicURL == "" { // then there are no forms
		return e.knowing(consent.New(nil, "", nil, e.clock)), nil
	}
	keys, err := e.tokenKeys(ctx)
	if err != nil {
		return nil, err
	}
	return e.knowing(consent.New(forms, e.config.PublicURL, keys, e.clock)), nil
}

// knowing returns a service that knows the suppressions. That somebody has unsubscribed
// hides behind a stronger reason, a complaint: then mail is stopped, and an unsubscription
// is a new one, with its row of events.
func (e *core) knowing(service *consent.Service) *consent.Service {
	list := e.suppressions.List
	service.Stopped = func(address string) (stopped, stays bool) {
		v, stopped := list.Check(address, mail.ClassMarketing, "")
		return stopped, stopped && (v.Match != suppress.MatchAddress || v.Reason != mail.SuppressUnsubscribe)
	}
	service.Unsubscribed = func(address string) bool {
		stopped, stays := service.Stopped(address)
		return stopped && !stays
	}
	service.Pages = e.config.SubscriptionPages()
	return service
}

// unsubscribeLinks makes the links by which recipients unsubscribe, to pages of the
// listener for opens and clicks.
type unsubscribeLinks struct {
	keys       *link.Keys
	partitions int
}

// UnsubscribeURL implements spool.Links. A group whose name is too long for a link is left
// out: then the link unsubscribes from all marketing mail.
func (l unsubscribeLinks) UnsubscribeURL(s *mail.Send, group string) (string, error) {
	address, ok := profile.NormalAddress(s.To)
	if !ok {
		return "", fmt.Errorf("make a link to unsubscribe: %.64q is no address", s.To)
	}
	if len(group) > link.MaxGroupBytes {
		group = ""
	}
	p := link.Place{Partition: mail.SendPartition(address, l.partitions), Message: s.Message, Send: s.Number}
	return l.keys.Page(link.KindUnsubscribe, p, link.Subject{Address: address, Group: group})
}

// unsubscribes returns what makes the links by which recipients unsubscribe.
func (e *core) unsubscribes() spool.Links {
	if e.config.SubscriptionPages() != "" {
		return unsubscribeLinks{e.links, e.config.Partitions}
	}
	return e.consent
}

// tokenKeys returns what signs links and return paths.
func (e *core) tokenKeys(ctx context.Context) (*token.Keys, error) {
	secrets, err := e.linkSecrets(ctx)
	if err != nil {
		return nil, err
	}
	return token.NewKeys(secrets...)
}

// linkSecrets returns the secrets that links are signed by: the first one signs,
// the others have signed before. The database's is made when it is first asked for.
func (e *core) linkSecrets(ctx context.Context) ([][]byte, error) {
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
		return append([][]byte{kept}, secrets...), nil
	}
	return append(secrets, kept), nil
}

// openLinks returns the keys of the links in tracked mails; nil: nothing is tracked.
func (e *core) openLinks(ctx context.Context) (*link.Keys, error) {
	if e.config.Track.URL == "" {
		return nil, nil
	}
	secrets, err := e.linkSecrets(ctx)
	if err != nil {
		return nil, err
	}
	return link.NewKeys(e.config.Track.URL, secrets...)
}

// tracker returns what puts links and pixels into mails.
func (e *core) tracker() *rewrite.Tracker {
	t := &e.config.Track
	s := rewrite.Settings{Opens: t.Opens, Clicks: t.Clicks, Transactional: t.Transactional, ExceptApps: t.ExceptApps, Partitions: e.config.Partitions}
	if e.config.PublicURL != "" {
		s.Own = []string{e.config.PublicURL + consent.UnsubscribePath, e.config.PublicURL + consent.ConfirmPath}
	}
	tracker := rewrite.New(e.links, s)
	tracker.Kept, tracker.Log = e.store, e.log
	return tracker
}

// untrackedLogged is how often it is logged at most that mail leaves untracked.
const untrackedLogged = 1 * time.Minute

// untracked returns what logs that mail leaves without links and pixel: how many
// since it was logged before. It may be called from several goroutines at once.
func (e *core) untracked() func(mails int, why error) {
	var mu sync.Mutex
	var logged time.Time
	since := 0
	return func(mails int, why error) {
		mu.Lock()
		defer mu.Unlock()
		since += mails
		if now := e.clock.Now(); now.Sub(logged) >= untrackedLogged {
			e.log.Warn("mails leave without links and pixel: the database did not say which recipients may be tracked", "mails", since, "error", why)
			logged, since = now, 0
		}
	}
}
