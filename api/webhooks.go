package api

import (
	"cmp"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"sluice"
	"sluice/lib/jsonscan"
	"sluice/lib/key"
	"sluice/store"
	"sluice/track/webhook"
	"sluice/user/profile"
)

// Paths of webhooks.
const (
	webhooksPath = "/v1/webhooks"
	webhookPath  = webhooksPath + "/{id}"
)

// Bounds of webhooks in requests.
const (
	maxWebhookBytes = 64 << 10 // of a body
	parallelTests   = 4

	defaultDeliveries = 100
	maxDeliveries     = store.WebhookSuccesses + store.WebhookFailures
)

// webhookShown is a webhook in an answer.
type webhookShown struct {
	ID      string   `json:"id"`
	URL     string   `json:"url"`
	Types   []string `json:"types"`
	Format  string   `json:"format"`
	Batch   int      `json:"batch"`
	Status  string   `json:"status"`
	Reason  string   `json:"reason,omitempty"`
	Failing string   `json:"failing,omitempty"`
	Rotated string   `json:"rotated,omitempty"`
	Created string   `json:"created"`
	Updated string   `json:"updated"`
	Secret  string   `json:"secret,omitempty"` // told once
}

// shownWebhook is a webhook as a caller may see it: of the URL, whose path may be a
// secret, only scheme and host without webhooks:write.
func (q *request) shownWebhook(w *store.Webhook) webhookShown {
	address := w.URL
	if !q.who.May(key.WebhooksWrite) {
		address = originOf(address)
	}
	return webhookShown{ID: w.ID, URL: address, Types: w.Types, Format: w.Format, Batch: w.Batch, Status: w.Status, Reason: w.Reason,
		Failing: timeText(w.FailingMillis), Rotated: timeText(w.RotatedMillis), Created: profile.TimeText(w.CreatedMillis), Updated: profile.TimeText(w.UpdatedMillis)}
}

// originOf is scheme and host of a URL; empty: it cannot be read.
func originOf(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" {
		return ""
	}
	return u.Scheme + "://" + u.Host
}

// listWebhooks is GET /v1/webhooks. There are few: they are one page.
func (q *request) listWebhooks() (any, error) {
	all, err := q.Webhooks.Store.Webhooks(q.Context())
	return listOf("webhooks", all, q.shownWebhook), err
}

// readWebhook reads what a body sets of a webhook. Of its URL the audit log
// has only scheme and host.
func (q *request) readWebhook() (*webhook.Change, error) {
	var address, format, status string
	var batch int
	var types jsonscan.Value
	q.says(sentRefused) // it may have a secret
	given, err := q.object(maxWebhookBytes, field{"url", &address}, field{"types", &types}, field{"format", &format}, field{"batch", number{&batch, store.MaxWebhookBatch}}, field{"status", &status})
	if err != nil {
		return nil, err
	}
	c := &webhook.Change{}
	for name, to := range map[string]func(){
		"url": func() { c.URL = &address }, "format": func() { c.Format = &format }, "batch": func() { c.Batch = &batch }, "status": func() { c.Status = &status },
	} {
		if _, ok := given[name]; ok {
			to()
		}
	}
	if _, ok := given["types"]; ok {
		list := []string{}
		if types.Kind != jsonscan.Array {
			return nil, refusal(sluice.CodeInvalid, "types: want an array of texts, got %s", types.Kind)
		}
		for elements := jsonscan.ReadArray(types.Raw); elements.Next(); {
			if elements.Value.Kind != jsonscan.String || len(list) > store.MaxWebhookTypes {
				return nil, refusal(sluice.CodeInvalid, "types: want an array of at most %d texts", store.MaxWebhookTypes)
			}
			list = append(list, elements.Value.Text())
		}
		c.Types = &list
	}
	q.says(webhookSays(c))
	return c, nil
}

// webhookSays is a change as the audit log has it.
func webhookSays(c *webhook.Change) string {
	var says []string
	if c.URL != nil {
		says = append(says, "url "+originOf(*c.URL))
	}
	if c.Types != nil {
		says = append(says, "types "+cmp.Or(strings.Join(*c.Types, ","), "all"))
	}
	if c.Format != nil {
		says = append(says, "format "+*c.Format)
	}
	if c.Batch != nil {
		says = append(says, "batch "+strconv.Itoa(*c.Batch))
	}
	if c.Status != nil {
		says = append(says, "status "+*c.Status)
	}
	return cmp.Or(strings.Join(says, "; "), "nothing")
}

// addWebhook is POST /v1/webhooks.
func (q *request) addWebhook() (any, error) {
	c, err := q.readWebhook()
	if err != nil {
		return nil, err
	}
	w, secret, err := q.Webhooks.Add(q.Context(), c)
	if err != nil {
		return nil, err
	}
	q.w.Header().Set("Location", webhooksPath+"/"+w.ID)
	q.status = http.StatusCreated
	q.became(q.auditWebhook(&w))
	shown := q.shownWebhook(&w)
	shown.Secret = secret
	return shown, nil
}

// getWebhook is GET /v1/webhooks/{id}.
func (q *request) getWebhook() (any, error) {
	w, err := q.Webhooks.Store.Webhook(q.Context(), q.PathValue("id"))
	return q.shownWebhook(&w), err
}

// changeWebhook is PATCH /v1/webhooks/{id}.
func (q *request) changeWebhook() (any, error) {
	c, err := q.readWebhook()
	if err != nil {
		return nil, err
	}
	w, err := q.Webhooks.Change(q.Context(), q.PathValue("id"), c)
	return q.shownWebhook(&w), changedMeanwhile(err)
}

// changedMeanwhile is what a caller is told who has changed what somebody else changed.
func changedMeanwhile(err error) error {
	if errors.Is(err, sluice.ErrConflict) {
		return refusal(sluice.CodeConflict, "somebody else has changed the webhook at the same time; read it, and change it again")
	}
	return err
}

// dropWebhook is DELETE /v1/webhooks/{id}.
func (q *request) dropWebhook() (any, error) {
	if _, err := q.Webhooks.Store.Webhook(q.Context(), q.PathValue("id")); err != nil {
		return nil, err
	}
	return nil, q.Webhooks.Store.DropWebhook(q.Context(), q.PathValue("id"))
}

// rotateWebhook is POST /v1/webhooks/{id}/rotate.
func (q *request) rotateWebhook() (any, error) {
	if _, err := q.object(maxWebhookBytes); err != nil {
		return nil, err
	}
	w, secret, err := q.Webhooks.Rotate(q.Context(), q.PathValue("id"))
	if err != nil {
		return nil, changedMeanwhile(err)
	}
	shown := q.shownWebhook(&w)
	shown.Secret = secret
	return shown, nil
}

// testWebhook is POST /v1/webhooks/{id}/test. It waits for the receiver.
func (q *request) testWebhook() (any, error) {
	if _, err := q.object(maxWebhookBytes); err != nil {
		return nil, err
	}
	done, err := takeAny(q.s.tests, "tests of webhooks are under way")
	if err != nil {
		return nil, err
	}
	defer done()
	return q.Webhooks.Test(q.Context(), q.PathValue("id"))
}

// replayWebhook is POST /v1/webhooks/{id}/replay.
func (q *request) replayWebhook() (any, error) {
	var from string
	if _, err := q.object(maxWebhookBytes, field{"from", &from}); err != nil {
		return nil, err
	}
	since, err := time.Parse(time.RFC3339, from)
	if err != nil {
		return nil, refusal(sluice.CodeInvalid, "from is %.64q, want a time such as 2026-01-31T10:20:00Z", from)
	}
	return nil, q.Webhooks.Replay(q.Context(), q.PathValue("id"), since)
}

// deliveryShown is an attempt in an answer.
type deliveryShown struct {
	Message   string `json:"webhook_id"`
	At        string `json:"at"`
	Outcome   string `json:"outcome"`
	Partition int    `json:"partition"`
	Events    int    `json:"events"`
	Attempt   int    `json:"attempt"`
	Status    int    `json:"status,omitempty"`
	Error     string `json:"error,omitempty"`
	Took      int64  `json:"took_ms"`
}

// webhookDeliveries is GET /v1/webhooks/{id}/deliveries.
func (q *request) webhookDeliveries() (any, error) {
	limit, err := q.query.number("limit", defaultDeliveries, maxDeliveries)
	if err != nil {
		return nil, err
	}
	if _, err := q.Webhooks.Store.Webhook(q.Context(), q.PathValue("id")); err != nil {
		return nil, err
	}
	all, err := q.Webhooks.Store.WebhookDeliveries(q.Context(), q.PathValue("id"), limit)
	return listOf("deliveries", all, shownDelivery), err
}

func shownDelivery(d *store.WebhookDelivery) deliveryShown {
	return deliveryShown{d.Message, profile.TimeText(d.AtMillis), d.Outcome, d.Partition, d.Events, d.Attempt, d.Status, d.Error, d.TookMillis}
}
