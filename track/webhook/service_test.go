package webhook

import (
	"testing"

	"sluice/lib/outbound"
	"sluice/store"
)

// An endpoint whose host may not be posted to any more is changed and switched off, and is
// not switched on.
func TestAnEndpointThatIsNotAllowedAnyMore(t *testing.T) {
	k := newKit(t)
	w, _ := k.add("http://127.0.0.1:1/hook", 10)
	k.service.Guard = &outbound.Guard{}
	batch, on, off := 20, store.WebhookOn, store.WebhookOff
	for _, c := range []*Change{{Batch: &batch}, {Status: &off}} {
		if _, err := k.service.Change(t.Context(), w.ID, c); err != nil {
			t.Error(err)
		}
	}
	for _, c := range []*Change{{Status: &on}, {URL: &w.URL}} {
		if _, err := k.service.Change(t.Context(), w.ID, c); err == nil {
			t.Errorf("%+v is taken", c)
		}
	}
	if now, err := k.store.Webhook(t.Context(), w.ID); err != nil || now.Status != store.WebhookOff || now.Batch != 20 {
		t.Errorf("%+v, %v", now, err)
	}
	if _, _, err := k.service.Add(t.Context(), &Change{Status: &off}); err == nil {
		t.Error("an endpoint without a URL is made")
	}
}

// An endpoint fails on while a change says what is so already, and not after another one.
func TestAChangeThatChangesNothing(t *testing.T) {
	k := newKit(t)
	w, _ := k.add("http://127.0.0.1:1/hook", 10)
	w.FailingMillis = begin
	if err := k.store.ChangeWebhook(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	w.Revision++
	batch, on := 20, store.WebhookOn
	for _, c := range []*Change{{}, {URL: &w.URL, Format: &w.Format, Types: &[]string{}, Batch: &w.Batch, Status: &on}} {
		if now, err := k.service.Change(t.Context(), w.ID, c); err != nil || now.FailingMillis != begin || now.Revision != w.Revision {
			t.Errorf("%+v: %+v, %v", c, now, err)
		}
	}
	if now, err := k.service.Change(t.Context(), w.ID, &Change{Batch: &batch}); err != nil || now.FailingMillis != 0 || now.Revision != w.Revision+1 {
		t.Errorf("changed: %+v, %v", now, err)
	}
}
