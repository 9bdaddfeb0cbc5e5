package hook

import (
	"strings"

	"sluice"
)

// brevoWords are the events that others call otherwise. `request` comes for a mail that
// may yet be blocked, so it is not sent.
var brevoWords = map[string]string{
	"request":           sluice.EventQueued,
	"blocked":           sluice.EventRejected,
	"invalid_email":     sluice.EventBounced,
	"unique_opened":     sluice.EventOpened,
	"proxy_open":        sluice.EventOpened,
	"unique_proxy_open": sluice.EventOpened,
	"list_addition":     sluice.EventSubscribed,
	"error":             sluice.EventFailed,
}

var brevoReasons = map[string]Reason{
	"blocked":       ReasonBlocked,
	"invalid_email": ReasonInvalid,
	"spam":          ReasonSpam,
	"complaint":     ReasonSpam,
}

// readBrevo reads an event of Brevo, formerly Sendinblue. It has no id: `id` is that of
// the webhook. Of its times ts_epoch alone, in milliseconds, is surely UTC.
func readBrevo(o object, _ *Request, _ *Result) []Event {
	name := o.text("event")
	e := Event{
		Type:         word(brevoWords, name),
		Recipient:    o.text("email"),
		ProviderID:   o.text("message-id"),
		RejectReason: brevoReasons[name],
		MTAResponse:  o.text("reason"),
		UserAgent:    o.text("user_agent"),
		ClickURL:     o.text("link"),
		Tags:         o.texts("tags"),
	}
	e.timed(o.text("ts_epoch"), o.text("ts_event"), o.text("ts"))
	if strings.HasSuffix(name, "proxy_open") {
		e.Bot = name
	}
	if len(e.Tags) == 0 {
		for _, tag := range o.texts("tag") { // one, an array, or an array in a text
			e.Tags = append(e.Tags, listText(tag)...)
		}
	}
	r := refused(name, "")
	e.bounced(&r)
	e.mergeText("X-Mailin-custom", o.text("X-Mailin-custom"))
	return unknownAs(e, name)
}
