package hook

import (
	"strings"

	"sluice"
	"sluice/lib/jsonscan"
	"sluice/mail"
)

// mailjetWords are the events that others call otherwise: `sent` is what the receiver has
// taken.
var mailjetWords = map[string]string{"sent": sluice.EventDelivered, "blocked": sluice.EventRejected}

// mailjetReasons are the errors of bounces and blocks.
var mailjetReasons = map[string]Reason{
	"user unknown":          ReasonBounced,
	"mailbox inactive":      ReasonBounced,
	"quota exceeded":        ReasonBounced,
	"blacklisted":           ReasonBlocked,
	"spam reporter":         ReasonSpam,
	"invalid domain":        ReasonBounced,
	"no mail host":          ReasonBounced,
	"relay/access denied":   ReasonBounced,
	"greylisted":            ReasonOther,
	"typofix":               ReasonInvalid,
	"sender blocked":        ReasonBlocked,
	"content blocked":       ReasonBlocked,
	"policy issue":          ReasonBlocked,
	"preblocked":            ReasonBlocked,
	"duplicate in campaign": ReasonOther,
}

// readMailjet reads an event. It has no id of its own.
func readMailjet(o object, _ *Request, _ *Result) []Event {
	e := Event{
		Type:        word(mailjetWords, o.text("event")),
		Recipient:   o.text("email"),
		ProviderID:  o.text("MessageID"),
		MTAResponse: o.text("smtp_reply"),
		UserAgent:   o.text("agent"),
		ClickURL:    o.text("url"),
		Tags:        o.texts("customcampaign"),
	}
	e.timed(o.text("time"))
	if why := o.text("error"); why != "" {
		if e.RejectReason = mailjetReasons[strings.ToLower(why)]; e.RejectReason == "" {
			e.RejectReason = ReasonOther
		}
		e.Description = why
		if about := o.text("error_related_to"); about != "" {
			e.Description = about + ": " + why
		}
		if strings.EqualFold(why, "greylisted") && !o.is("hard_bounce") {
			e.Type = sluice.EventDeferred // Mailjet tries again
		}
	}
	if comment := o.text("comment"); e.Description == "" {
		e.Description = comment
	}
	e.bounced(mailjetRefusal(o))
	e.mergeText("Payload", o.text("Payload"))
	if id := o.text("CustomID"); id != "" {
		e.setText("CustomID", id)
	}
	return unknownAs(e, o.text("event"))
}

// mailjetRefusal says what a bounce is: `hard_bounce` is true or false, and some errors
// are not about the address.
func mailjetRefusal(o object) *refusal {
	text := o.text("error")
	why := mailjetReasons[strings.ToLower(text)]
	r := &refusal{subtype: text}
	r.Blocked, r.About = blames(why), blames(why) || why == ReasonOther || strings.EqualFold(text, "quota exceeded")
	if o["hard_bounce"].Kind != jsonscan.None {
		if r.kind, r.Said = "soft_bounce", mail.BounceSoft; o.is("hard_bounce") {
			r.kind, r.Said = "hard_bounce", mail.BounceHard
		}
	}
	return r
}
