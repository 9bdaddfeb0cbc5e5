package hook

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"strconv"
	"strings"
	"time"

	"sluice"
	"sluice/lib/jsonscan"
	"sluice/mail"
)

// verifyMailgun checks the HMAC of a time and a token, which stand in the body: an
// object `signature`, and `parent-signature` if a subaccount has sent the mail. The old
// form has them as fields.
func verifyMailgun(ctx context.Context, r *Request, a *Access) error {
	if err := checkBody(r); err != nil {
		return refuse("%v", err)
	}
	all := make([]object, 0, 2)
	if text := strings.TrimSpace(clean(r.Body)); strings.HasPrefix(text, "{") {
		o, err := readObject(text)
		if err != nil {
			return refuse("%v", err)
		}
		all = append(all, o.inner("signature"), o.inner("parent-signature"))
	} else {
		values, err := form(r.Body)
		if err != nil {
			return refuse("%v", err)
		}
		all = append(all, lastFields(values, "timestamp", "token", "signature"))
	}
	why := refuse("it has no signature")
	signed := false
	for _, o := range all {
		if len(o) == 0 {
			continue
		}
		made, err := a.checkMailgun(o.text("timestamp"), o.text("token"), o.text("signature"))
		if err != nil {
			why = err
			continue
		}
		signed = true
		// Each of them holds for this body alone. One that was passed over here could be
		// taken out of the body and put into another one.
		if err := a.oneBody(ctx, o.text("signature"), r.Body, made); err != nil {
			return err
		}
	}
	if signed {
		return nil
	}
	return why
}

// mailgunMaxAge is how old a signed time may be. Mailgun repeats for 8 hours and 5 minutes
// in all, with the signature of the first attempt.
const mailgunMaxAge = 9 * time.Hour

// checkMailgun checks a signature of a time and a token, and returns the time.
func (a *Access) checkMailgun(seconds, token, signature string) (made time.Time, err error) {
	if made, err = a.checkSeconds(seconds, mailgunMaxAge); err != nil {
		return made, err
	}
	if token == "" {
		return made, refuse("it has no token")
	}
	good := a.anySecret(func(secret string) bool {
		mac := hmac.New(sha256.New, []byte(secret))
		mac.Write([]byte(seconds + token))
		return equal(hex.EncodeToString(mac.Sum(nil)), signature)
	})
	if !good {
		return made, refuse("its signature is of none of the keys")
	}
	return made, nil
}

// oneBody refuses a body if another one came with a signature that is good. An error that
// does not wrap ErrRefused says that this could not be asked.
func (a *Access) oneBody(ctx context.Context, signature string, body []byte, made time.Time) error {
	if a.FirstBody == nil {
		return nil
	}
	fits, err := a.FirstBody(ctx, signature, body, made)
	if err == nil && !fits {
		err = refuse("its token came with another body before")
	}
	return err
}

// lastFields returns fields of a form as an object. Of several of one name the last is
// Mailgun's: those before it are the sender's variables.
func lastFields(values url.Values, names ...string) object {
	var e Event
	for _, name := range names {
		if all := values[name]; len(all) > 0 {
			e.setText(name, all[len(all)-1])
		}
	}
	return e.metadata
}

// parseMailgun reads a JSON object, or the form that Mailgun posted before 2018.
func parseMailgun(r *Request) (Result, error) {
	if trimmed := strings.TrimSpace(clean(r.Body[:min(len(r.Body), 64)])); strings.HasPrefix(trimmed, "{") || strings.HasPrefix(trimmed, "[") {
		return parseJSON(readMailgun)(r)
	}
	var out Result
	if err := checkBody(r); err != nil {
		return out, err
	}
	values, err := form(r.Body)
	if err != nil {
		return out, err
	}
	if len(values["event"]) == 0 {
		return out, errNotJSON
	}
	out.add(string(r.Body), readMailgunForm(values), make(map[string]bool))
	return out, nil
}

var mailgunReasons = map[string]Reason{
	"bounce":               ReasonBounced,
	"suppress-bounce":      ReasonBounced,
	"suppress-complaint":   ReasonSpam,
	"suppress-unsubscribe": ReasonUnsubscribed,
	"espblock":             ReasonBlocked,
}

func readMailgun(whole object, _ *Request, _ *Result) []Event {
	o := whole.inner("event-data")
	if o == nil {
		o = whole // it was unwrapped
	}
	status := o.inner("delivery-status")
	headers := o.inner("message", "headers")
	e := Event{
		Type:        word(nil, o.text("event")),
		Recipient:   o.text("recipient"),
		ProviderID:  headers.text("message-id"),
		EventID:     whole.inner("signature").text("token"), // `id` is unique for a day only
		Description: status.text("description"),
		MTAResponse: status.text("message"),
		UserAgent:   o.inner("client-info").text("user-agent"),
		ClickURL:    o.text("url"),
		Bot:         o.inner("client-info").text("bot"),
		Tags:        o.texts("tags"),
	}
	e.timed(o.text("timestamp"))
	if e.Type == sluice.EventFailed {
		if e.Type = sluice.EventBounced; o.text("severity") == "temporary" {
			e.Type = sluice.EventDeferred
		}
	}
	if why := o.text("reason"); why != "" {
		if e.RejectReason = mailgunReasons[why]; e.RejectReason == "" {
			e.RejectReason = ReasonOther
		}
	}
	e.bounced(&refusal{
		kind: o.text("severity"), subtype: o.text("reason"),
		Refusal: mail.Refusal{Code: status.text("enhanced-code"), Final: o.text("severity") == "permanent",
			About: e.RejectReason == ReasonSpam || e.RejectReason == ReasonUnsubscribed}, // it was not sent because of what a person had said
	})
	if e.Type == sluice.EventRejected {
		if e.Description == "" {
			e.Description = o.inner("reject").text("reason")
		}
		if e.Recipient == "" {
			e.Recipient = address(headers.text("to"))
		}
	}
	e.merge(o.inner("user-variables"))
	return unknownAs(e, o.text("event"))
}

// mailgunFields are the fields that Mailgun gives a form. All others are the sender's
// variables.
var mailgunFields = wordSet(`event recipient domain ip country region city user-agent device-type client-type
	client-name client-os campaign-id campaign-name tag mailing-list timestamp token signature body-plain h message-id
	Message-Id message-headers url code error reason description notification attachment-count attachment-x
	X-Mailgun-Tag X-Mailgun-Sid X-Mailgun-Variables`)

// readMailgunForm reads the old form. The sender's variables are mixed with Mailgun's own
// fields: of several fields of one name Mailgun's is the first, but for those of the
// signature, where it is the last.
func readMailgunForm(values url.Values) []Event {
	signed := lastFields(values, "timestamp", "token")
	e := Event{
		Type:        word(nil, values.Get("event")),
		Recipient:   values.Get("recipient"),
		ProviderID:  values.Get("Message-Id"),
		EventID:     signed.text("token"),
		Description: values.Get("description"),
		MTAResponse: values.Get("error"),
		UserAgent:   values.Get("user-agent"),
		ClickURL:    values.Get("url"),
		Tags:        values["tag"],
	}
	if e.ProviderID == "" {
		e.ProviderID = values.Get("message-id")
	}
	if e.MTAResponse == "" {
		e.MTAResponse = values.Get("notification")
	}
	if len(e.Tags) == 0 {
		e.Tags = values["X-Mailgun-Tag"]
	}
	e.timed(signed.text("timestamp"))
	e.RejectReason = mailgunCode(values.Get("code"))
	e.bounced(&refusal{Refusal: mail.Refusal{Code: values.Get("code"), Final: true, About: e.RejectReason == ReasonSpam}})
	if headers := values.Get("message-headers"); headers != "" {
		e.mailgunVariables(headers)
	} else {
		e.mailgunFields(values)
	}
	return unknownAs(e, values.Get("event"))
}

// mailgunCode makes a reason of the code of a form: that of SMTP, one of Mailgun's own
// above it, or an enhanced one (RFC 3463).
func mailgunCode(code string) Reason {
	class, _, _ := strings.Cut(code, ".")
	n, err := strconv.Atoi(class)
	switch {
	case err != nil:
		return ""
	case n == 499: // no server of the receiver could be reached
		return ReasonTimedOut
	case n == 605, 400 <= n && n < 600, n == 4 || n == 5:
		return ReasonBounced
	case n == 607:
		return ReasonSpam
	}
	return ReasonOther
}

// mailgunVariables takes the sender's variables of the headers of the mail, an array of
// arrays of name and value.
func (e *Event) mailgunVariables(headers string) {
	n := 0
	for all := jsonscan.ReadArray(clean([]byte(headers))); all.Next() && n < maxValues; n++ {
		pair := object{"": all.Value}.texts("")
		if len(pair) == 2 && strings.EqualFold(pair[0], "X-Mailgun-Variables") {
			e.mergeText(pair[0], pair[1])
		}
	}
}

// mailgunFields takes the sender's variables of the form itself.
func (e *Event) mailgunFields(values url.Values) {
	for name, all := range values {
		last := len(all) - 1
		switch {
		case !mailgunFields[name]:
			e.setText(name, all[last])
		case last == 0 || name == "tag" || name == "X-Mailgun-Tag":
		case name == "timestamp" || name == "token" || name == "signature":
			e.setText(name, all[0])
		default:
			e.setText(name, all[last])
		}
	}
}
