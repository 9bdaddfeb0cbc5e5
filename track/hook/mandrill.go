package hook

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha1"
	"encoding/base64"
	"maps"
	"slices"
	"strings"

	"sluice"
)

// mandrillSignature is the header with the signature.
const mandrillSignature = "X-Mandrill-Signature"

// verifyMandrill checks the HMAC of the URL and the fields of the form, in the order of
// their names.
func verifyMandrill(_ context.Context, r *Request, a *Access) error {
	if err := checkBody(r); err != nil {
		return refuse("%v", err)
	}
	values, err := form(r.Body)
	if err != nil {
		return refuse("%v", err)
	}
	signed := []byte(r.URL)
	for _, name := range slices.Sorted(maps.Keys(values)) {
		all := values[name]
		if len(all) > 1 { // one would be signed, and another one read
			return refuse("its form has the field %.100q %d times", name, len(all))
		}
		signed = append(append(signed, name...), all[0]...)
	}
	signature := r.Header.Get(mandrillSignature)
	good := a.anySecret(func(secret string) bool {
		mac := hmac.New(sha1.New, []byte(secret))
		mac.Write(signed)
		return equal(base64.StdEncoding.EncodeToString(mac.Sum(nil)), signature)
	})
	if !good {
		return refuse("its signature is of none of the keys, or it was posted to another URL than %.300q", beforeQuery(r.URL))
	}
	return nil
}

// beforeQuery returns a URL without what may be secret in it.
func beforeQuery(address string) string {
	address, _, _ = strings.Cut(address, "?")
	return address
}

// parseMandrill reads a form whose field mandrill_events is an array, or that array.
func parseMandrill(r *Request) (Result, error) {
	if err := checkBody(r); err != nil {
		return Result{}, err
	}
	text := clean(r.Body)
	if body := bytes.TrimSpace(r.Body); !bytes.HasPrefix(body, []byte("[")) && !bytes.HasPrefix(body, []byte("{")) {
		values, err := form(r.Body)
		if err != nil {
			return Result{}, err
		}
		text = clean([]byte(values.Get("mandrill_events")))
	}
	return readAll(text, r, readMandrill)
}

// mandrillReasons are of events, and of the state of an address that was not mailed.
var mandrillReasons = map[string]Reason{
	"hard_bounce": ReasonBounced,
	"soft_bounce": ReasonBounced,
	"hard-bounce": ReasonBounced,
	"soft-bounce": ReasonBounced,
	"spam":        ReasonSpam,
	"unsub":       ReasonUnsubscribed,
	"invalid":     ReasonInvalid,
}

// readMandrill reads an event of a mail, or of Mandrill's list of addresses that it does
// not mail. Mandrill gives events no id: `_id` is that of the mail.
func readMandrill(o object, _ *Request, _ *Result) []Event {
	name := o.text("event", "type")
	msg, reject := o.inner("msg"), o.inner("reject")
	if len(reject) == 0 {
		reject = msg.inner("reject")
	}
	e := Event{
		Type:         word(nil, name),
		Recipient:    msg.text("email"),
		ProviderID:   o.text("_id"),
		RejectReason: mandrillReasons[name],
		Description:  reject.text("detail", "reason"),
		MTAResponse:  msg.text("diag"),
		UserAgent:    o.text("user_agent"),
		ClickURL:     o.text("url"),
		Tags:         msg.texts("tags"),
	}
	if e.Type == sluice.EventRejected {
		e.RejectReason = mandrillReasons[strings.ToLower(reject.text("reason"))]
	}
	if e.Recipient == "" {
		e.Recipient = reject.text("email")
	}
	if e.ProviderID == "" {
		e.ProviderID = msg.text("_id")
	}
	if e.Description == "" {
		e.Description = msg.text("bounce_description")
	}
	if tries := msg.list("smtp_events"); e.MTAResponse == "" && len(tries) > 0 {
		e.MTAResponse = objectOf(tries[len(tries)-1]).text("diag")
	}
	r := refused(name, msg.text("bounce_description"))
	e.bounced(&r)
	e.timed(o.text("ts"))
	e.merge(msg.inner("metadata"))
	return unknownAs(e, name)
}
