package webhook

import (
	"testing"

	"sluice"
	"sluice/store"
)

// Mail by the transactional API is told of in Braze's words, and nothing else is.
func TestBrazeBody(t *testing.T) {
	ours := `{"send":"m.0","attempt":1,"reply":"550 no such user","reason":"x","metadata":{"campaign_id":"c-1","external_send_id":"s/1"}}`
	at := int64(1_780_000_000_123)
	for name, c := range map[string]struct{ properties, want string }{
		sluice.EventQueued:    {ours, `{"dispatch_id":"m","status":"sent","metadata":{"campaign_api_id":"c-1","enqueued_at":"2026-05-28T20:26:40.123Z","external_send_id":"s/1"}}`},
		sluice.EventSent:      {`{"metadata":{"campaign_id":"c-1"}}`, `{"dispatch_id":"m","status":"processed","metadata":{"campaign_api_id":"c-1","processed_at":"2026-05-28T20:26:40.123Z"}}`},
		sluice.EventDelivered: {ours, `{"dispatch_id":"m","status":"delivered","metadata":{"campaign_api_id":"c-1","delivered_at":"2026-05-28T20:26:40.123Z","external_send_id":"s/1"}}`},
		sluice.EventBounced:   {ours, `{"dispatch_id":"m","status":"bounced","metadata":{"bounced_at":"2026-05-28T20:26:40.123Z","campaign_api_id":"c-1","external_send_id":"s/1","reason":"550 no such user"}}`},
		sluice.EventRejected:  {`{"reason":"unsubscribe","metadata":{"campaign_id":"c-1"}}`, `{"dispatch_id":"m","status":"aborted","metadata":{"aborted_at":"2026-05-28T20:26:40.123Z","campaign_api_id":"c-1","reason":"unsubscribe"}}`},
		sluice.EventOpened:    {ours, ""},
		sluice.EventFailed:    {`{"send":"m.0","metadata":{"campaign_id":7}}`, ""},
	} {
		e := sluice.Event{Kind: sluice.KindMail, Name: name, Message: "m", TimeMillis: at, Properties: c.properties}
		if got := string(brazeBody(&e)); got != c.want {
			t.Errorf("%s: got  %s\nwant %s", name, got, c.want)
		}
		e.Kind = sluice.KindCustom
		if got := brazeBody(&e); got != nil {
			t.Errorf("a custom event: %s", got)
		}
	}
	b, w := batch{}, store.Webhook{Format: FormatBraze, Batch: 100}
	b.add(&w, &sluice.Event{Kind: sluice.KindMail, Name: sluice.EventSent, Message: "m", TimeMillis: at, Properties: ours})
	if len(b.events) != 1 || string(b.body(&w, sluice.SystemClock{}.Now())) != string(b.events[0]) {
		t.Errorf("a request: %s", b.body(&w, sluice.SystemClock{}.Now()))
	}
}
