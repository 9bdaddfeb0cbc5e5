package braze

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"sluice"
	"sluice/mail"
	"sluice/store"
	"sluice/user/profile"
)

// newCampaigns adds the templates that are campaigns, and others that are none.
func newCampaigns(t *testing.T) *written {
	t.Helper()
	w := newMailing(t)
	add := func(id string, v mail.TemplateVersion) {
		t.Helper()
		v.Subject, v.Text = "Order {{ order }}", "{{api_trigger_properties.${order}}}"
		if err := w.store.AddTemplate(t.Context(), mail.Template{ID: id, Name: id}, v); err != nil {
			t.Fatal(err)
		}
	}
	add("receipt", mail.TemplateVersion{Class: mail.ClassTransactional, From: "Shop {{ order }} <shop@example.com>"})
	add("news", mail.TemplateVersion{Class: mail.ClassMarketing, From: "shop@example.com"})
	add("from-nobody", mail.TemplateVersion{Class: mail.ClassTransactional})
	add("archived", mail.TemplateVersion{Class: mail.ClassTransactional, From: "shop@example.com"})
	if err := w.store.PutTemplate(t.Context(), mail.Template{ID: "archived", Name: "x", Current: 1, ArchivedMillis: 1}); err != nil {
		t.Fatal(err)
	}
	return w
}

const receipt = "/transactional/v1/campaigns/receipt/send"

// A campaign is a template; its mail is transactional and urgent, and has what
// the call says beside what is known of the user.
func TestTransactional(t *testing.T) {
	w := newCampaigns(t)
	status, text := w.call(t, receipt, `{"external_send_id":"o-7/+=_","trigger_properties":{"order":7},"recipient":{"external_user_id":"ann"}}`)
	drafts, contents := w.handed(t)
	at := profile.TimeText(now.UnixMilli())
	if len(drafts) != 1 || status != 201 || text != fmt.Sprintf(`{"dispatch_id":%q,"status":"sent","metadata":{"external_send_id":"o-7/+=_","campaign_api_id":"receipt","received_at":%q,"enqueued_at":%q},"message":"success"}`, drafts[0].ID, at, at) {
		t.Fatalf("%d %s, %d messages", status, text, len(drafts))
	}
	d, c := drafts[0], contents[0]
	if d.Class != mail.ClassTransactional || d.Priority != mail.PriorityHigh || d.From != "shop@example.com" || fmt.Sprint(d.To, d.Users) != "[ann@example.com] [ann]" ||
		d.Metadata != `{"campaign_id":"receipt","external_send_id":"o-7/+=_"}` || c.Template != "receipt" || c.Version != 1 || c.Variables != `{"order":7}` || c.State != "" {
		t.Errorf("%+v %+v", d, c)
	}

	// By an alias, in a list of one as some clients write it, without anything else.
	if status, text = w.call(t, receipt, `{"recipient":[{"user_alias":{"alias_name":"c","alias_label":"cookie"}}]}`); status != 201 || strings.Contains(text, "external_send_id") {
		t.Errorf("%d %s", status, text)
	}
	if drafts, _ = w.handed(t); len(drafts) != 1 || drafts[0].To[0] != "cid@example.com" {
		t.Errorf("%+v", drafts)
	}
}

// A repeat sends nothing; it tells what has become of the first, also if it
// names somebody else.
func TestTransactionalOnce(t *testing.T) {
	w := newCampaigns(t)
	ask := func(who string) (int, string) {
		return w.call(t, receipt, `{"external_send_id":"once","recipient":{"external_user_id":"`+who+`"}}`)
	}
	call := func(who string) (string, string) {
		t.Helper()
		status, text := ask(who)
		if status != 201 {
			t.Fatalf("%d %s", status, text)
		}
		id, _, _ := strings.Cut(strings.TrimPrefix(text, `{"dispatch_id":"`), `"`)
		return id, text
	}
	first, _ := call("ann")
	again, _ := call("ann") // before the ledger has it: the name makes it one
	if _, text := ask("bob"); !strings.HasPrefix(text, "unavailable: ") || !strings.Contains(text, "another external_send_id") {
		t.Errorf("for another address, of a mail that no ledger has: %s", text)
	}
	drafts, _ := w.handed(t)
	if first != again || len(drafts) != 2 || drafts[0].ID != drafts[1].ID || drafts[1].To[0] != "ann@example.com" {
		t.Errorf("%s %s: %+v", first, again, drafts)
	}
	s := mail.Send{Message: first, Recipients: 1, Priority: mail.PriorityHigh, Class: mail.ClassTransactional, To: "ann@example.com", AcceptedMillis: now.UnixMilli()}
	w.apply(t, store.Effect{Sends: []mail.StoredSend{{Send: s}}})
	o := mail.Outcome{Message: first, Recipients: 1, Was: mail.SendWaiting, State: mail.SendFailed, Event: sluice.EventBounced, Attempts: 1, Reply: "5.1.1 nobody", TimeMillis: now.UnixMilli() + 1000}
	w.apply(t, store.Effect{Outcomes: []mail.StoredOutcome{{Outcome: o}}})
	if other, _ := call("bob"); other != first {
		t.Errorf("for another address: %s, want %s", other, first)
	}
	if id, text := call("ann"); id != first || !strings.Contains(text, `"status":"bounced"`) || !strings.Contains(text, `"reason":"5.1.1 nobody"`) || !strings.Contains(text, `"bounced_at":"2026-11-21T10:20:31.123Z"`) {
		t.Errorf("%s", text)
	}
	if drafts, _ := w.handed(t); len(drafts) != 0 {
		t.Errorf("sent again: %+v", drafts)
	}
}

// A repeat whose user has no address any more is told of the first mail. One that was
// aborted before is not remembered.
func TestTransactionalOnceWithoutAddress(t *testing.T) {
	w := newCampaigns(t)
	ask := func(who string) (int, string) {
		return w.call(t, receipt, `{"external_send_id":"once","recipient":{"external_user_id":"`+who+`"}}`)
	}
	if status, text := ask("nobody"); status != 201 || !strings.Contains(text, `"status":"aborted"`) {
		t.Fatalf("%d %s", status, text)
	}
	status, text := ask("ann")
	if drafts, _ := w.handed(t); status != 201 || len(drafts) != 1 {
		t.Fatalf("%d %s, %d messages", status, text, len(drafts))
	}
	first, _, _ := strings.Cut(strings.TrimPrefix(text, `{"dispatch_id":"`), `"`)
	if _, text := ask("nobody"); !strings.HasPrefix(text, "unavailable: ") {
		t.Errorf("of a mail that no ledger has: %s", text)
	}
	s := mail.Send{Message: first, Recipients: 1, Priority: mail.PriorityHigh, Class: mail.ClassTransactional, To: "ann@example.com", AcceptedMillis: now.UnixMilli()}
	w.apply(t, store.Effect{Sends: []mail.StoredSend{{Send: s}}})
	if status, text := ask("nobody"); status != 201 || !strings.Contains(text, first) || !strings.Contains(text, `"status":"sent"`) {
		t.Errorf("%d %s, want that of %s", status, text, first)
	}
	if drafts, _ := w.handed(t); len(drafts) != 0 {
		t.Errorf("sent again: %+v", drafts)
	}
}

// What has become of a mail is told in Braze's words, with the reason.
func TestTransactionalStates(t *testing.T) {
	for want, row := range map[string]mail.SendRow{
		"processed ":                                  {State: mail.SendSent},
		"bounced 5.1.1 nobody":                        {State: mail.SendFailed, Attempts: 1, Reply: "5.1.1 nobody"},
		"aborted rendering html, line 1: a":           {State: mail.SendFailed, Reason: "rendering", Reply: "html, line 1: a"},
		"aborted unsubscribed":                        {State: mail.SendSuppressed, Reason: "unsubscribed"},
		"aborted cancelled":                           {State: mail.SendCancelled, Reason: "purged"},
		"aborted html, line 2: the template: no time": {State: mail.SendCancelled, Reason: mail.ReasonAborted, Reply: "html, line 2: the template: no time"},
	} {
		var b transactionalBody
		b.tell(&row)
		if got := b.Status + " " + b.Metadata.Reason; got != want || (b.Metadata.AbortedAt != "") != (b.Status == statusAborted) {
			t.Errorf("%+v: got %q, want %q", row, got, want)
		}
	}
}

// What is written of the recipient comes before the mail is made.
func TestTransactionalAttributes(t *testing.T) {
	w := newCampaigns(t)
	if status, text := w.call(t, receipt, `{"recipient":{"external_user_id":"ann","attributes":{"first_name":"Anna","plan":"gold"}}}`); status != 201 {
		t.Fatalf("%d %s", status, text)
	}
	if got := w.took(); got != `1 1:ann ||{"first_name":"Anna","plan":"gold"}` {
		t.Errorf("%s", got)
	}
	// A user without an address by then cannot be mailed, and it is said.
	for _, who := range []string{`"external_user_id":"dan"`, `"external_user_id":"none"`} {
		w.drafts = nil
		status, text := w.call(t, receipt, `{"external_send_id":"x","recipient":{`+who+`}}`)
		if status != 201 || !strings.Contains(text, `"status":"aborted"`) || !strings.Contains(text, `"reason":"User not emailable"`) || len(w.drafts) != 0 || w.once["transactional x"] != "" {
			t.Errorf("%s: %d %s", who, status, text)
		}
	}
	w.late = fmt.Errorf("late")
	if _, text := w.call(t, receipt, `{"recipient":{"external_user_id":"ann","attributes":{}}}`); !strings.Contains(text, "nothing was sent") || len(w.drafts) != 0 {
		t.Errorf("%s", text)
	}
}

// Attributes of a call with an external_send_id are written once, whatever becomes of the
// mail. A repeat changes nothing of anybody, nor does one that names somebody else.
func TestTransactionalAttributesOnce(t *testing.T) {
	w := newCampaigns(t)
	ask := func(who string) (int, string) {
		return w.call(t, receipt, `{"external_send_id":"once","recipient":{"external_user_id":"`+who+`","attributes":{"orders":{"inc":1}}}}`)
	}
	w.late = errors.New("late")
	if status, text := ask("ann"); status != 0 || !strings.Contains(text, "under its external_send_id all of it is taken in once") {
		t.Errorf("not applied in time: %d %s", status, text)
	}
	w.late = nil
	for range 2 {
		if status, text := ask("ann"); status != 201 {
			t.Errorf("a repeat: %d %s", status, text)
		}
	}
	ask("bob")
	if got := w.took(); got != `1 1:ann ||{"orders":{"inc":1}}` {
		t.Errorf("written:\n%s", got)
	}
}

// When the attributes of a call are in, and the mail is not, the answer says so: it does not
// say that nothing was done.
func TestTransactionalAttributesBeforeAFailure(t *testing.T) {
	for _, id := range []string{"", `"external_send_id":"x",`} {
		const attributes = `"recipient":{"external_user_id":"ann","attributes":{"orders":{"inc":1}}}}`
		again := map[bool]string{true: "is incremented again", false: "is taken in once"}[id == ""]
		w := newCampaigns(t)
		w.submitted = &sluice.Error{Code: sluice.CodeUnavailable, Index: -1, Message: "too much waits"}
		if status, text := w.call(t, receipt, `{`+id+attributes); status != 0 || !strings.HasPrefix(text, "unavailable: the attributes were taken in. Of the mail: too much waits. Send it again") || !strings.Contains(text, again) {
			t.Errorf("%s no room: %d %s", id, status, text)
		}
		w = newCampaigns(t)
		w.applied = func() { _ = w.store.Close() }
		if status, text := w.call(t, receipt, `{`+id+attributes); status != 0 || !strings.HasPrefix(text, "unavailable: the attributes were taken in. No mail was: the database does not answer") || !strings.Contains(text, again) {
			t.Errorf("%s no database: %d %s", id, status, text)
		}
	}
}

func TestTransactionalRefusals(t *testing.T) {
	w := newCampaigns(t)
	ann := `"recipient":{"external_user_id":"ann"}`
	for _, x := range [][3]string{
		{"receipt", `{`, BadRequest},
		{"Receipt", `{` + ann + `}`, string(badCampaign)},
		{"none", `{` + ann + `}`, string(noCampaign)},
		{"news", `{` + ann + `}`, string(otherCampaign)},
		{"archived", `{` + ann + `}`, string(archivedCampaign)},
		{"from-nobody", `{` + ann + `}`, "The campaign has no sender"},
		{"receipt", `{}`, string(noRecipients)},
		{"receipt", `{"recipient":{}}`, string(noRecipients)},
		{"receipt", `{"recipient":[{"external_user_id":"ann"},{"external_user_id":"bob"}]}`, string(noRecipients)},
		{"receipt", `{"recipient":{"external_user_id":"ann","user_alias":{"alias_name":"c","alias_label":"cookie"}}}`, "Only one of"},
		{"receipt", `{"external_send_id":"",` + ann + `}`, "'external_send_id'"},
		{"receipt", `{"external_send_id":"a b",` + ann + `}`, "'external_send_id'"},
		{"receipt", `{"external_send_id":7,` + ann + `}`, "'external_send_id'"},
		{"receipt", `{"external_send_id":"` + strings.Repeat("x", 201) + `",` + ann + `}`, "'external_send_id'"},
		{"receipt", `{"trigger_properties":[],` + ann + `}`, "'trigger_properties'"},
		{"receipt", `{"recipient":{"external_user_id":"ann","attributes":[]}}`, "'attributes'"},
		{"receipt", `{"recipient":{"external_user_id":"ann","attributes":{"email":"x"}}}`, "'email'"},
		{"receipt", `{"recipient":{"external_user_id":"ann","attributes":{"note":"` + strings.Repeat("x", sluice.MaxElementBytes) + `"}}}`, string(errTooLarge)},
	} {
		status, text := w.call(t, "/transactional/v1/campaigns/"+x[0]+"/send", x[1])
		if status != 400 || !strings.Contains(text, x[2]) {
			t.Errorf("%s %.100s: %d %s, want %s", x[0], x[1], status, text, x[2])
		}
	}
	if drafts, _ := w.handed(t); len(drafts) != 0 || len(w.updates) != 0 {
		t.Errorf("done: %+v %s", drafts, w.took())
	}
}
