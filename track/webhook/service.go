package webhook

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"sluice"
	"sluice/lib/outbound"
	"sluice/store"
	"sluice/track/feed"
)

// Service is what people do with endpoints, by the API and by the command.
type Service struct {
	Store    Store
	Guard    *outbound.Guard
	Follower string // that stores the logs
	Clock    sluice.Clock

	// Secrets returns what secrets are made of. It is made when it is first asked for.
	Secrets func(ctx context.Context) (*Secrets, error)
}

// Change is what people set of an endpoint; nil: it stays as it is.
type Change struct {
	URL, Format *string
	Types       *[]string
	Batch       *int
	Status      *string // on or off
}

// DefaultBatch is how many events a request has at most, unless it is set.
const DefaultBatch = 100

// apply sets what a change has, and says what is wrong with it. A URL that stays as it is
// is not checked where the endpoint is not switched on: one whose host may not be posted to
// any more can be switched off.
func (s *Service) apply(w *store.Webhook, c *Change) error {
	if c.URL != nil {
		w.URL = *c.URL
	}
	if len(w.URL) > store.MaxWebhookURL {
		return sluice.Refuse(sluice.CodeInvalid, "url has %d bytes, the limit is %d", len(w.URL), store.MaxWebhookURL)
	}
	if c.URL != nil || w.URL == "" || c.Status != nil && *c.Status == store.WebhookOn {
		if err := s.Guard.Check(w.URL); err != nil {
			return sluice.Refuse(sluice.CodeInvalid, "url %v", err)
		}
	}
	if c.Types != nil {
		w.Types = *c.Types
	}
	if err := feed.CheckTypes(w.Types); err != nil {
		return sluice.Refuse(sluice.CodeInvalid, "types: %v", err)
	}
	if c.Format != nil {
		w.Format = *c.Format
	}
	if w.Format != FormatStandard && w.Format != FormatBraze {
		return sluice.Refuse(sluice.CodeInvalid, "format is %.32q, want standard or braze", w.Format)
	}
	if c.Batch != nil {
		w.Batch = *c.Batch
	}
	if w.Batch < 1 || w.Batch > store.MaxWebhookBatch {
		return sluice.Refuse(sluice.CodeInvalid, "batch is %d, want 1 to %d", w.Batch, store.MaxWebhookBatch)
	}
	if c.Status != nil {
		if *c.Status != store.WebhookOn && *c.Status != store.WebhookOff {
			return sluice.Refuse(sluice.CodeInvalid, "status is %.32q, want on or off", *c.Status)
		}
		if *c.Status != w.Status {
			w.Status, w.Reason = *c.Status, ""
		}
	}
	return nil
}

// Add makes an endpoint, which gets what is stored from now on, and returns its secret as
// well, which is told this once.
func (s *Service) Add(ctx context.Context, c *Change) (w store.Webhook, secret string, err error) {
	now := s.Clock.Now()
	w = store.Webhook{ID: sluice.NewUUID(now), Types: []string{}, Format: FormatStandard, Batch: DefaultBatch, Status: store.WebhookOn, Secret: 1,
		CreatedMillis: now.UnixMilli(), UpdatedMillis: now.UnixMilli()}
	if err := s.apply(&w, c); err != nil {
		return w, "", err
	}
	secrets, err := s.Secrets(ctx)
	if err != nil {
		return w, "", err
	}
	key := secrets.Of(w.ID, w.Secret)
	w.SecretMark = Mark(key)
	return w, Text(key), s.Store.AddWebhook(ctx, w, s.Follower)
}

// Change changes an endpoint. It writes nothing if all is so already: a program that says
// the same again and again keeps no endpoint from being switched off.
func (s *Service) Change(ctx context.Context, id string, c *Change) (store.Webhook, error) {
	w, err := s.Store.Webhook(ctx, id)
	was := w
	if err == nil {
		err = s.apply(&w, c)
	}
	if err != nil || w.URL == was.URL && w.Format == was.Format && w.Batch == was.Batch && w.Status == was.Status && slices.Equal(w.Types, was.Types) {
		return w, err
	}
	return s.write(ctx, w)
}

// write writes an endpoint that was changed. How long it fails is counted from then on:
// what was changed may be what was wrong.
func (s *Service) write(ctx context.Context, w store.Webhook) (store.Webhook, error) {
	w.UpdatedMillis, w.FailingMillis = s.Clock.Now().UnixMilli(), 0
	if err := s.Store.ChangeWebhook(ctx, w); err != nil {
		return w, err
	}
	w.Revision++
	return w, nil
}

// Rotate replaces the secret of an endpoint and returns the new one. Both sign for
// RotationOverlap, unless the one before is replaced within that time: then it ends.
func (s *Service) Rotate(ctx context.Context, id string) (w store.Webhook, secret string, err error) {
	if w, err = s.Store.Webhook(ctx, id); err != nil {
		return w, "", err
	}
	secrets, err := s.Secrets(ctx)
	if err != nil {
		return w, "", err
	}
	w.Secret++
	key := secrets.Of(w.ID, w.Secret)
	w.SecretMark, w.RotatedMillis = Mark(key), s.Clock.Now().UnixMilli()
	w, err = s.write(ctx, w)
	return w, Text(key), err
}

// Tested is what a test of an endpoint has found.
type Tested struct {
	Delivered  bool   `json:"delivered"`
	Status     int    `json:"status,omitempty"` // of HTTP
	Error      string `json:"error,omitempty"`
	TookMillis int64  `json:"took_ms"`
}

// Test posts a message of the type webhook.test at once, once, also to an endpoint that
// is off.
func (s *Service) Test(ctx context.Context, id string) (Tested, error) {
	w, err := s.Store.Webhook(ctx, id)
	if err != nil {
		return Tested{}, err
	}
	secrets, err := s.Secrets(ctx)
	if err != nil {
		return Tested{}, err
	}
	now := s.Clock.Now()
	body := wrap(TypeTest, now.UnixMilli(), []byte(`{"webhook":`+string(feed.Quote(w.ID))+`}`))
	client := s.Guard.Client()
	defer client.CloseIdleConnections()
	a := post(ctx, client, secrets, &w, "msg_test_"+strings.ReplaceAll(sluice.NewUUID(now), "-", ""), now, body)
	return Tested{a.failure == "", a.status, a.failure, a.took.Milliseconds()}, nil
}

// Replay has an endpoint get again what was stored since a time, in the order in which it
// was stored.
func (s *Service) Replay(ctx context.Context, id string, since time.Time) error {
	w, err := s.Store.Webhook(ctx, id)
	if err != nil {
		return err
	}
	if now := s.Clock.Now(); since.After(now) || since.UnixMilli() < 1 {
		return sluice.Refuse(sluice.CodeInvalid, "from is %s, want a time between 1970 and now", since.UTC().Format(time.RFC3339))
	}
	if err := s.Store.RewindWebhook(ctx, id, s.Follower, since.UnixMilli()); err != nil {
		return err
	}
	// A new revision has the sender read the lanes again; so has any other change.
	if _, err = s.write(ctx, w); errors.Is(err, sluice.ErrConflict) {
		err = nil
	}
	return err
}
