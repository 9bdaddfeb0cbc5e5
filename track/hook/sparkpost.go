package hook

import (
	"maps"
	"slices"

	"sluice"
)

// sparkpostWords are types that others call otherwise. The first open comes as `open`
// too, so `initial_open` would count it twice.
var sparkpostWords = map[string]string{"initial_open": sluice.EventUnknown, "amp_initial_open": sluice.EventUnknown}

// sparkpostClasses are the classes of bounces: the reason, and what it is if it is no
// bounce.
var sparkpostClasses = map[string]struct {
	reason Reason
	is     string
}{
	"1":   {ReasonOther, ""},
	"10":  {ReasonInvalid, ""},
	"20":  {ReasonBounced, ""},
	"21":  {ReasonBounced, ""},
	"22":  {ReasonBounced, ""},
	"23":  {ReasonBounced, ""},
	"24":  {ReasonTimedOut, ""},
	"25":  {ReasonBlocked, ""},
	"30":  {ReasonBounced, ""},
	"40":  {ReasonBounced, ""},
	"50":  {ReasonBlocked, ""},
	"51":  {ReasonSpam, ""},
	"52":  {ReasonSpam, ""},
	"53":  {ReasonOther, ""},
	"54":  {ReasonBlocked, ""},
	"60":  {ReasonOther, sluice.EventAutoresponded},
	"70":  {ReasonBounced, ""},
	"80":  {ReasonOther, sluice.EventSubscribed},
	"90":  {ReasonUnsubscribed, sluice.EventUnsubscribed},
	"100": {ReasonOther, sluice.EventAutoresponded},
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
	}
	e.merge(o.inner("rcpt_meta"))
	return unknownAs(e, o.text("type"))
}
