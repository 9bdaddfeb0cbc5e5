package hook

import (
	"sluice"
	"sluice/mail"
)

// postmarkWords are the types of bounces that others call otherwise, or not at all.
var postmarkWords = map[string]string{
	"Transient":         sluice.EventDeferred,
	"Blocked":           sluice.EventRejected,
	"Unconfirmed":       sluice.EventRejected,
	"AddressChange":     sluice.EventAutoresponded,
	"Subscribe":         sluice.EventSubscribed,
	"ManualSuppression": sluice.EventUnsubscribed,
}

var postmarkReasons = map[string]Reason{
	"HardBounce":          ReasonBounced,
	"SoftBounce":          ReasonBounced,
	"VirusNotification":   ReasonOther,
	"BadEmailAddress":     ReasonInvalid,
	"ManuallyDeactivated": ReasonBlocked,
	"Blocked":             ReasonBlocked,
	"DMARCPolicy":         ReasonBlocked,
	"SpamNotification":    ReasonSpam,
	"SpamComplaint":       ReasonSpam,
	"Unsubscribe":         ReasonUnsubscribed,
	"ManualSuppression":   ReasonUnsubscribed,
}

// readPostmark reads a record. A bounce says in Type what it is, a change of a
// subscription in SuppressionReason why mail to the address stopped. That of a hard bounce
// or a complaint comes beside the record of it, which says more: it is no second event of
// that type.
func readPostmark(o object, _ *Request, _ *Result) []Event {
	kind := o.text("RecordType")
	switch {
	case kind == "SubscriptionChange" && o["SuppressSending"].Raw == "false":
		kind = "Subscribe"
	case kind == "SubscriptionChange":
		switch reason := o.text("SuppressionReason"); reason {
		case "":
			kind = "Unsubscribe"
		case "HardBounce", "SpamComplaint":
			kind += " " + reason // nothing that anybody knows
		default:
			kind = reason
		}
	case kind == "Bounce" || kind == "SpamComplaint":
		if t := o.text("Type"); t != "" && (kind == "Bounce" || word(postmarkWords, t) != sluice.EventUnknown) {
			kind = t
		}
	}
	e := Event{
		Type:         word(postmarkWords, kind),
		Recipient:    o.text("Email", "Recipient"),
		ProviderID:   o.text("MessageID"),
		RejectReason: postmarkReasons[kind],
		Description:  o.text("Description"),
		MTAResponse:  o.text("Details"),
		UserAgent:    o.text("UserAgent"),
		ClickURL:     o.text("OriginalLink"),
		Tags:         o.texts("Tag"),
	}
	r := refused(o.text("Type"), "")
	r.About = r.Said == mail.BounceOther && r.kind != "" // VirusNotification
	e.bounced(&r)
	if id := o.text("ID"); id != "" && id != "0" { // bounces have one
		e.EventID = id
	}
	e.timed(o.text("DeliveredAt"), o.text("BouncedAt"), o.text("ReceivedAt"), o.text("ChangedAt"))
	e.merge(o.inner("Metadata"))
	return unknownAs(e, kind)
}
