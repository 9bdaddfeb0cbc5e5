package hook

import (
	"cmp"
	"context"
	"strconv"
	"strings"

	"sluice"
	"sluice/lib/jsonscan"
	"sluice/mail/via/ses"
)

// verifySES checks what SNS signs. What is no message of SNS, because its delivery is
// `raw` or something else has unwrapped it, tells a secret instead.
func verifySES(ctx context.Context, r *Request, a *Access) error {
	if err := checkBody(r); err != nil {
		return refuse("%v", err)
	}
	o, err := readObject(strings.TrimSpace(clean(r.Body)))
	if err != nil {
		return refuse("%v", err)
	}
	if o.text("Signature", "SigningCertURL", "SignatureVersion") == "" {
		return verifyShared(ctx, r, a)
	}
	return a.checkSNS(ctx, o, r.Header.Get(snsTypeHeader))
}

// readSES reads a message of SNS with an event of SES in it, or that event alone.
func readSES(o object, _ *Request, out *Result) []Event {
	switch kind := o.text("Type"); {
	case kind == snsConfirmation || kind == snsUnsubscribed:
		out.confirm(o, kind)
		return nil
	case kind == snsNotification:
		return readNotification(o, out)
	}
	if o.text("source") == "aws.ses" { // EventBridge has passed it on
		return readSESEvent(o.inner("detail"), o.text("id"), o.text("time"), out)
	}
	return readSESEvent(o, "", "", out)
}

// snsTest is what SES publishes when a topic is set as the destination of its events.
const snsTest = "Successfully validated SNS topic"

func readNotification(o object, out *Result) []Event {
	message := o.text("Message")
	if strings.HasPrefix(message, snsTest) {
		out.Notes = append(out.Notes, "SES says that it may publish to the topic "+lineUpTo(o.text("TopicArn"), MaxTextBytes))
		return nil
	}
	inner, err := readObject(clean([]byte(message)))
	if err != nil {
		return []Event{{Type: sluice.EventUnknown, EventID: o.text("MessageId"), Description: message}}
	}
	return readSESEvent(inner, o.text("MessageId"), o.text("Timestamp"), out)
}

// sesSubscribed is what SES publishes when a topic is set for the notifications of an
// identity.
const sesSubscribed = "AmazonSnsSubscriptionSucceeded"

// sesDetails are the members with what an event says, where they are not the name of
// the event in lower case.
var sesDetails = map[string]string{"Rendering Failure": "failure", "RenderingFailure": "failure", "DeliveryDelay": "deliveryDelay"}

// readSESEvent reads an event of SES: an event of its recipients. published is when SNS
// published it.
func readSESEvent(o object, id, published string, out *Result) []Event {
	name := o.text("eventType", "notificationType")
	if name == sesSubscribed {
		out.Notes = append(out.Notes, lineUpTo("SES says that it publishes notifications: "+o.text("message"), MaxTextBytes))
		return nil
	}
	key, ok := sesDetails[name]
	if !ok {
		key = strings.ToLower(name)
	}
	detail, sent := o.inner(key), o.inner("mail")
	if id == "" {
		id = detail.text("feedbackId")
	}
	e := Event{
		Type:       word(nil, name),
		ProviderID: sent.text("messageId"),
		EventID:    id,
		UserAgent:  detail.text("userAgent"),
	}
	// A sent, rejected or failed mail has no time but that of the mail.
	e.timed(detail.text("timestamp"), sent.text("timestamp"), published)
	e.sesTags(sent)
	recipients := sesRecipients(detail, sent)
	switch name {
	case "Bounce":
		e.Description, e.RejectReason = detail.joined("bounceType", "bounceSubType"), ReasonBounced
	case "Complaint":
		e.Description, e.RejectReason = detail.joined("complaintFeedbackType", "complaintSubType"), ReasonSpam
		if len(recipients) > 1 {
			e.OneOf = len(recipients)
		}
	case "Delivery":
		e.MTAResponse = detail.text("smtpResponse")
	case "DeliveryDelay":
		e.Description = detail.text("delayType")
	case "Reject":
		e.Description, e.RejectReason = detail.text("reason"), ReasonBlocked
	case "Click":
		e.ClickURL = detail.text("link")
	case "Rendering Failure", "RenderingFailure":
		e.Description = detail.text("errorMessage")
	case "Subscription":
		e.Type, e.Description = sesSubscription(detail), detail.text("source")
	default:
		e = unknownAs(e, name)[0]
	}
	return perRecipient(e, recipients, refused(detail.text("bounceType"), detail.text("bounceSubType")))
}

// sesRecipient is one address that an event is about.
type sesRecipient struct{ address, reply, status string }

// sesRecipients are those that the event itself names, else all of the mail. SES sends to
// 50 at most. One without an address is passed over.
func sesRecipients(detail, sent object) (all []sesRecipient) {
	for _, key := range []string{"bouncedRecipients", "complainedRecipients", "delayedRecipients"} {
		listed := detail.list(key)
		for _, v := range listed {
			if o := objectOf(v); o.text("emailAddress") != "" && len(all) < maxValues {
				all = append(all, sesRecipient{o.text("emailAddress"), o.text("diagnosticCode"), o.text("status")})
			}
		}
		if len(listed) > 0 { // it is not about the others of the mail
			return all
		}
	}
	to := detail.texts("recipients") // of a delivery
	if len(to) == 0 {
		to = sent.texts("destination")
	}
	for _, one := range to {
		all = append(all, sesRecipient{address: one})
	}
	return all
}

// perRecipient makes an event of each recipient of it; of none, one.
func perRecipient(e Event, recipients []sesRecipient, r refusal) []Event {
	e.bound()
	all := make([]Event, max(len(recipients), 1))
	for i := range all {
		all[i] = e
		if i < len(recipients) {
			all[i].Recipient, r.Code = address(recipients[i].address), recipients[i].status
			all[i].MTAResponse = cmp.Or(recipients[i].reply, e.MTAResponse)
		}
		all[i].bounced(&r)
	}
	return all
}

// sesTags takes the tags of the mail. Those of our transport are tags, and name the
// send; others are metadata. SES's own begin with `ses:` and are left out. Mail by SMTP
// may have headers instead, and notifications have no tags but in such a header.
func (e *Event) sesTags(sent object) {
	tags := sent.inner("tags")
	if len(tags) == 0 {
		tags = headerTags(sent.list("headers"))
	}
	for name := range tags {
		values := tags.texts(name)
		if strings.HasPrefix(name, "ses:") || len(values) == 0 {
			continue
		}
		if len(values) == 1 {
			e.setText(name, values[0])
		} else {
			e.set(name, tags[name])
		}
	}
	for n := 1; n <= MaxTags; n++ {
		name := ses.TagPrefix + strconv.Itoa(n)
		if tags[name].Kind == jsonscan.None {
			break
		}
		e.Tags = append(e.Tags, tags.texts(name)...)
		delete(e.metadata, name)
	}
	e.headers(sent.list("headers"))
}

// headerTags are the tags in the header of a mail by which it was sent with them:
// `name=value, name=value`.
func headerTags(all []jsonscan.Value) object {
	var e Event
	for _, v := range all {
		o := objectOf(v)
		if !strings.EqualFold(o.text("name"), "X-SES-MESSAGE-TAGS") {
			continue
		}
		for tag := range strings.SplitSeq(o.text("value"), ",") {
			if name, value, ok := strings.Cut(tag, "="); ok && len(e.metadata) < maxMembers {
				e.setText(strings.TrimSpace(name), strings.TrimSpace(value))
			}
		}
	}
	return e.metadata
}

// headers takes tags and metadata of a mail's headers: X-Tag, X-Tags (a JSON array) and
// X-Metadata (a JSON object).
func (e *Event) headers(all []jsonscan.Value) {
	for _, v := range all {
		o := objectOf(v)
		value := o.text("value")
		switch strings.ToLower(o.text("name")) {
		case "x-tag":
			e.Tags = append(e.Tags, value)
		case "x-tags":
			e.Tags = append(e.Tags, listText(value)...)
		case "x-metadata":
			if o, err := readObject(clean([]byte(value))); err == nil {
				e.merge(o)
			}
		}
	}
}

// sesSubscription says which way a subscription has changed: away, if the person left
// all topics or one more than before.
func sesSubscription(detail object) string {
	was, is := detail.inner("oldTopicPreferences"), detail.inner("newTopicPreferences")
	switch {
	case is.is("unsubscribeAll"):
		return sluice.EventUnsubscribed
	case was.is("unsubscribeAll"):
		return sluice.EventSubscribed
	}
	before, changed := sesTopics(was), ""
	for topic, status := range sesTopics(is) {
		switch {
		case status == before[topic]:
		case status == "optout":
			return sluice.EventUnsubscribed
		default:
			changed = sluice.EventSubscribed
		}
	}
	if changed == "" {
		return sluice.EventUnknown
	}
	return changed
}

// sesTopics is the status of each topic, in lower case and without signs.
func sesTopics(preferences object) map[string]string {
	all := make(map[string]string)
	for _, v := range append(preferences.list("topicSubscriptionStatus"), preferences.list("topicPreferences")...) {
		o := objectOf(v)
		all[o.text("topicName")] = strings.ToLower(strings.ReplaceAll(o.text("subscriptionStatus"), "_", ""))
	}
	return all
}
