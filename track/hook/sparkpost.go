package hook

import (
	"maps"
	"slices"

	"sluice"
	"sluice/mail"
)

// sparkpostWords are types that others call otherwise. The first open comes as `open`
// too, so `initial_open` would count it twice.
var sparkpostWords = map[string]string{"initial_open": sluice.EventUnknown, "amp_initial_open": sluice.EventUnknown}

// sparkpostClasses are the classes of bounces: the reason, and what it is if it is no
// bounce. Of those that are neither hard nor soft none is about the address.
var sparkpostClasses = map[string]struct {
	reason Reason
	is     string
	says   mail.BounceClass
}{
	"1":   {ReasonOther, "", mail.BounceOther},
	"10":  {ReasonInvalid, "", mail.BounceHard},
	"20":  {ReasonBounced, "", mail.BounceSoft},
	"21":  {ReasonBounced, "", mail.BounceSoft},
	"22":  {ReasonBounced, "", mail.BounceOther},
	"23":  {ReasonBounced, "", mail.BounceOther},
	"24":  {ReasonTimedOut, "", mail.BounceSoft},
	"25":  {ReasonBlocked, "", mail.BounceOther},
	"30":  {ReasonBounced, "", mail.BounceHard},
	"40":  {ReasonBounced, "", mail.BounceSoft},
	"50":  {ReasonBlocked, "", mail.BounceOther},
	"51":  {ReasonSpam, "", mail.BounceOther},
	"52":  {ReasonSpam, "", mail.BounceOther},
	"53":  {ReasonOther, "", mail.BounceOther},
	"54":  {ReasonBlocked, "", mail.BounceOther},
	"60":  {ReasonOther, sluice.EventAutoresponded, mail.BounceOther},
	"70":  {ReasonBounced, "", mail.BounceSoft},
	"80":  {ReasonOther, sluice.EventSubscribed, mail.BounceOther},
	"90":  {ReasonUnsubscribed, sluice.EventUnsubscribed, mail.BounceOther},
	"100": {ReasonOther, sluice.EventAutoresponded, mail.BounceOther},
}

// readSparkPost reads an element: an object `msys` of events by their class. An empty one
// is a test.
func readSparkPost(o object, _ *Request, _ *Result) (all []Event) {
	msys, there := o["msys"]
	if !there {
		return []Event{{Type: sluice.EventUnknown}}
	}
	classes := objectOf(msys)
	for _, class := range slices.Sorted(maps.Keys(classes)) {
		all = append(all, readSparkPostEvent(objectOf(classes[class]))...)
	}
	return all
}

func readSparkPostEvent(o object) []Event {
	e := Event{
		Type:        word(sparkpostWords, o.text("type")),
		Recipient:   o.text("raw_rcpt_to", "rcpt_to"), // the first has upper and lower case as they were
		ProviderID:  o.text("transmission_id"),        // what the call that sent it answered; message_id differs
		EventID:     o.text("event_id"),
		MTAResponse: o.text("raw_reason", "reason"),
		UserAgent:   o.text("user_agent"),
		ClickURL:    o.text("target_link_url"),
		Tags:        append(o.texts("campaign_id"), o.texts("rcpt_tags")...),
	}
	e.timed(o.text("timestamp"))
	if class := o.text("bounce_class"); class != "" {
		known, ok := sparkpostClasses[class]
		if e.RejectReason = ReasonOther; ok {
			e.RejectReason = known.reason
		}
		if known.is != "" {
			e.Type = known.is
		}
		e.bounced(&refusal{kind: class, Refusal: mail.Refusal{Said: known.says, About: known.says == mail.BounceOther, Blocked: blames(e.RejectReason)}})
	} else {
		e.bounced(&refusal{})
	}
	e.merge(o.inner("rcpt_meta"))
	return unknownAs(e, o.text("type"))
}
