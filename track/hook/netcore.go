package hook

import (
	"strings"

	"sluice"
	"sluice/lib/jsonscan"
)

// netcoreWords are the events that others call otherwise: `sent` is what the receiver
// has taken.
var netcoreWords = map[string]string{"sent": sluice.EventDelivered, "invalid": sluice.EventRejected}

// readNetcore reads an event of Netcore, formerly Pepipost. Its members are in upper
// case. In the form for those who come from SendGrid they are in lower case, and some
// have SendGrid's names.
func readNetcore(o object, _ *Request, _ *Result) []Event {
	name := strings.ToLower(o.text("EVENT", "event"))
	e := Event{
		Type:        word(netcoreWords, name),
		Recipient:   o.text("EMAIL", "email"),
		ProviderID:  o.text("TRANSID", "transid", "sg_message_id"),
		EventID:     o.text("sg_event_id"),
		Description: o.text("BOUNCE_REASON", "bounce_reason"),
		MTAResponse: o.text("RESPONSE", "response", "reason"),
		UserAgent:   o.text("USERAGENT", "useragent"),
		ClickURL:    o.text("URL", "CLICKED_URL", "LINK", "url"), // which one is not documented
	}
	seconds := o.text("TIMESTAMP", "timestamp")
	e.timed(seconds)
	if e.EventID == "" && e.ProviderID != "" && seconds != "" && e.Recipient != "" { // else it follows from the element
		e.EventID = derived(e.ProviderID, name, seconds, e.Recipient, e.ClickURL)
	}
	for _, key := range []string{"TAGS", "tags", "category"} {
		for _, tags := range o.texts(key) {
			for tag := range strings.SplitSeq(tags, ",") {
				e.Tags = append(e.Tags, strings.TrimSpace(tag))
			}
		}
	}
	switch reply := strings.ToLower(e.MTAResponse); {
	case name == "invalid":
		e.RejectReason = ReasonInvalid
	case e.Type == sluice.EventRejected && strings.Contains(reply, "unsub"):
		e.RejectReason = ReasonUnsubscribed
	case e.Type == sluice.EventRejected:
		e.RejectReason = ReasonBlocked
	}
	r := refused(o.text("BOUNCE_TYPE", "bounce_type"), "")
	e.bounced(&r)
	e.netcoreMetadata(o)
	return unknownAs(e, name)
}

// netcoreMetadata takes what the sender gave along: X-APIHEADER, a text or an object, and
// members that begin with customargs.
func (e *Event) netcoreMetadata(o object) {
	for name, v := range o {
		switch {
		case strings.EqualFold(name, "X-APIHEADER"), strings.HasPrefix(name, "customargs"):
			switch {
			case v.Kind == jsonscan.Object:
				e.merge(objectOf(v))
			case textOf(v) != "":
				e.mergeText(name, textOf(v))
			}
		}
	}
}
