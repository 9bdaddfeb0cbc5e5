package engine

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"time"

	"sluice"
	"sluice/api"
	"sluice/config"
	"sluice/ingest"
	"sluice/lib/outbound"
	"sluice/ops/alert"
	"sluice/store"
	"sluice/store/sqlstore"
	"sluice/track/feed"
	"sluice/track/webhook"
	"sluice/user"
)

const (
	// webhookSecret is the name of the secret in the database that those of webhooks are
	// made of.
	webhookSecret = "webhooks"

	webhookRootBytes = 32

	// webhookFailing is after what time of failures people are told.
	webhookFailing = time.Hour
)

// NewWebhooks returns what the API and the command do with webhooks.
func NewWebhooks(cfg *config.Config, store *sqlstore.Store, clock sluice.Clock) *webhook.Service {
	guard := &outbound.Guard{}
	for _, host := range cfg.Webhooks.AllowHosts {
		guard.Allow = append(guard.Allow, strings.ToLower(host))
	}
	secrets := func(ctx context.Context) (*webhook.Secrets, error) {
		fresh := make([]byte, webhookRootBytes)
		_, _ = rand.Read(fresh) // never fails (crypto/rand)
		root, err := store.Secret(ctx, webhookSecret, fresh)
		return &webhook.Secrets{Root: root}, err
	}
	return &webhook.Service{Store: store, Guard: guard, Secrets: secrets, Follower: ingest.StoreRole, Clock: clock}
}

func (e *core) openWebhooks() {
	e.feed = &feed.Heads{Store: e.store, Follower: ingest.StoreRole, Clock: e.clock}
	e.hooks = NewWebhooks(e.config, e.store, e.clock)
}

// poster returns what posts events to webhooks.
func (e *core) poster() *webhook.Sender {
	return &webhook.Sender{
		Store: e.store, Heads: e.feed, Leases: e.leases, Clock: e.clock, Log: e.log, Guard: e.hooks.Guard, Secrets: e.hooks.Secrets,
		GiveUp: time.Duration(e.config.Webhooks.GiveUpHours) * time.Hour, Stats: &e.posted, Kept: Retention(e.config).Events,
		Announce: func(ctx context.Context, event *sluice.Event) error {
			_, err := e.intake().Record(ctx, user.Key{Kind: user.KeyExternal, Name: event.Name}, []sluice.Event{*event}, nil, "", 0)
			return err
		},
	}
}

// snapshotWebhooks adds what was posted, and what streams read.
func (e *core) snapshotWebhooks(s *api.Stats) {
	s.Streams, s.StreamMissed = int(e.feed.Streams.Open.Load()), e.feed.Streams.Missed.Load()
	if e.config.HasRole(config.RoleStore) {
		p := &e.posted
		s.Webhooks = &api.Posted{Delivered: p.Delivered.Load(), Failed: p.Failed.Load(), GivenUp: p.GivenUp.Load(), Events: p.Events.Load(), LagSeconds: float64(p.Lag.Load()) / 1000}
	}
}

// webhookProblems tells which webhooks get nothing though somebody wants them to.
func webhookProblems(all []store.Webhook, now time.Time) (found []alert.Problem) {
	for i := range all {
		w := &all[i]
		summary := ""
		switch {
		case w.Status == store.WebhookFailing || w.Status == store.WebhookGone || w.Status == store.WebhookRestored:
			summary = fmt.Sprintf("webhook %s was switched off: %s", w.ID, w.Reason)
		case w.Status == store.WebhookOn && w.FailingMillis != 0 && now.Sub(time.UnixMilli(w.FailingMillis)) >= webhookFailing:
			summary = fmt.Sprintf("nothing has reached webhook %s since %s; `sluice webhook deliveries` shows why", w.ID, time.UnixMilli(w.FailingMillis).UTC().Format(time.RFC3339))
		default:
			continue
		}
		found = append(found, alert.Problem{Kind: alert.Endpoint, Subject: w.ID, Summary: summary})
	}
	return found
}
