package hook

import (
	"cmp"
	"context"
	"crypto/ecdsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"strings"

	"sluice"
	"sluice/mail"
)

// The headers of a signed request of SendGrid.
const (
	sendgridSignature = "X-Twilio-Email-Event-Webhook-Signature"
	sendgridTime      = "X-Twilio-Email-Event-Webhook-Timestamp"
)

// verifySendGrid checks an ECDSA signature of the time and the raw body.
func verifySendGrid(_ context.Context, r *Request, a *Access) error {
	seconds := r.Header.Get(sendgridTime)
	if _, err := a.checkSeconds(seconds, maxAge); err != nil {
		return err
	}
	signature, err := base64.StdEncoding.DecodeString(r.Header.Get(sendgridSignature))
	if err != nil || len(signature) == 0 {
		return refuse("it has no signature in base64")
	}
	h := sha256.New()
	h.Write([]byte(seconds))
	h.Write(r.Body)
	sum := h.Sum(nil)
	good := a.anySecret(func(secret string) bool {
		key, ok := publicKey(secret)
		return ok && ecdsa.VerifyASN1(key, sum, signature)
	})
	if !good {
		return refuse("its signature is of none of the keys")
	}
	return nil
}

// publicKey reads the key that SendGrid shows: a SubjectPublicKeyInfo in base64, with or
// without the lines that PEM has around it.
func publicKey(text string) (*ecdsa.PublicKey, bool) {
	var b strings.Builder
	for l := range strings.Lines(text) {
		if l = strings.TrimSpace(l); !strings.HasPrefix(l, "-----") {
			b.WriteString(l)
		}
	}
	der, err := base64.StdEncoding.DecodeString(b.String())
	if err != nil {
		return nil, false
	}
	key, err := x509.ParsePKIXPublicKey(der)
	if err != nil {
		return nil, false
	}
	ec, ok := key.(*ecdsa.PublicKey)
	return ec, ok
}

// sendgridReasons are the types of a bounce and the reasons of a drop, in lower case.
var sendgridReasons = map[string]Reason{
	"invalid":                ReasonInvalid,
	"unsubscribed address":   ReasonUnsubscribed,
	"bounce":                 ReasonBounced,
	"bounced address":        ReasonBounced,
	"blocked":                ReasonBlocked,
	"expired":                ReasonTimedOut,
	"spam reporting address": ReasonSpam,
}

// sendgridMembers are the members that SendGrid gives events. All others are the
// sender's unique arguments. `sg_machine_open` is kept beside these. django-anymail puts
// `anymail_id` there, its name of the message.
var sendgridMembers = wordSet(`anymail_id asm_group_id attempt bounce_classification category cert_err email event ip
	marketing_campaign_id marketing_campaign_name newsletter nlvx_campaign_id nlvx_campaign_split_id nlvx_user_id
	pool post_type reason response send_at sg_content_type sg_event_id sg_message_id smtp-id status timestamp tls
	type url url_offset useragent`)

// wordSet makes a set of words.
func wordSet(words string) map[string]bool {
	set := make(map[string]bool)
	for word := range strings.FieldsSeq(words) {
		set[word] = true
	}
	return set
}

func readSendGrid(o object, _ *Request, out *Result) []Event {
	e := Event{
		Type:      word(nil, o.text("event")),
		Recipient: o.text("email"),
		EventID:   o.text("sg_event_id"),
		UserAgent: o.text("useragent"),
		ClickURL:  o.text("url"),
		Tags:      o.texts("category"),
	}
	e.timed(o.text("timestamp"))
	e.metadata = out.metadata()
	e.MessageID, e.ProviderID = cmp.Or(o.text("anymail_id"), ownMessage(o.text("smtp-id"))), sendgridID(o)
	if o.is("sg_machine_open") {
		e.Bot = "sg_machine_open"
	}
	switch why := strings.ToLower(o.text("type", "reason")); {
	case e.Type == sluice.EventRejected: // no server of a receiver has been asked
		e.Description = o.text("reason")
		e.RejectReason = sendgridReasons[why]
		if e.RejectReason == "" {
			e.RejectReason = sendgridReasons[strings.ToLower(e.Description)]
		}
	default:
		e.MTAResponse = o.text("response", "reason")
		if e.Type == sluice.EventBounced {
			e.Description = o.text("bounce_classification")
			e.RejectReason = sendgridReasons[why]
			e.bounced(sendgridRefusal(o))
		}
	}
	for name, v := range o {
		if !sendgridMembers[name] {
			e.set(name, v)
		}
	}
	e.describe(o.text("event"))
	return out.only(&e)
}

// sendgridRefusal says what a bounce is: one for good, or, if it is `blocked`, one because
// of the sender.
func sendgridRefusal(o object) *refusal {
	r := &refusal{kind: o.text("type"), subtype: o.text("bounce_classification"), Refusal: mail.Refusal{Code: o.text("status")}}
	r.Blocked = fold(r.kind) == "blocked"
	if fold(r.kind) == "bounce" {
		r.Said = mail.BounceHard
	}
	return r
}

// sendgridID returns SendGrid's name of the message. What follows its first dot differs
// between the events of one message. Older ones begin with the name of a machine, such as
// filter0001, which names nothing without the rest; in later ones time and number follow
// it before the dot (filterdrecv-p3-...).
func sendgridID(o object) string {
	whole := o.text("sg_message_id")
	id, _, _ := strings.Cut(whole, ".")
	switch {
	case whole == "":
		return o.text("smtp-id") // which not all events of a message have
	case strings.HasPrefix(id, "filter") && !strings.Contains(id, "-"):
		return whole
	}
	return id
}

// unknownAs returns the event, described by the provider's name of its type if that is
// one that nobody knows and nothing else describes it.
func unknownAs(e Event, name string) []Event {
	e.describe(name)
	return []Event{e}
}

// describe describes an event of a type that nobody knows.
func (e *Event) describe(name string) {
	if e.Type == sluice.EventUnknown && e.Description == "" {
		e.Description = name
	}
}
