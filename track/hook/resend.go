package hook

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"strings"

	"sluice"
	"sluice/lib/jsonscan"
)

// svixSignature is the header with the signatures.
const svixSignature = "Svix-Signature"

// svix returns a header of Svix, which signs for Resend, under its own name or that of
// Standard Webhooks.
func svix(h http.Header, name string) string {
	if s := h.Get("Svix-" + name); s != "" {
		return s
	}
	return h.Get("Webhook-" + name)
}

// verifyResend checks the HMAC of id, time and raw body. The header has one or several
// signatures, each with its version.
func verifyResend(_ context.Context, r *Request, a *Access) error {
	id, seconds := svix(r.Header, "Id"), svix(r.Header, "Timestamp")
	if id == "" {
		return refuse("it has no id")
	}
	if _, err := a.checkSeconds(seconds, maxAge); err != nil {
		return err
	}
	signatures := svix(r.Header, "Signature")
	if len(signatures) > MaxTextBytes {
		return refuse("it has too many signatures")
	}
	good := a.anySecret(func(secret string) bool {
		key, ok := svixKey(secret)
		if !ok {
			return false
		}
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(id + "." + seconds + "."))
		mac.Write(r.Body)
		want, found := "v1,"+base64.StdEncoding.EncodeToString(mac.Sum(nil)), false
		for signature := range strings.FieldsSeq(signatures) {
			if equal(signature, want) {
				found = true
			}
		}
		return found
	})
	if !good {
		return refuse("its signature is of none of the secrets")
	}
	return nil
}

// svixKey reads a secret.
func svixKey(secret string) (key []byte, ok bool) {
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	return key, err == nil && len(key) > 0
}

// resendWords are the events that others call otherwise.
var resendWords = map[string]string{"scheduled": sluice.EventQueued, "suppressed": sluice.EventRejected}

// readResend reads an event. Its id is a header; without it, it follows from the body.
func readResend(o object, r *Request, _ *Result) []Event {
	kind := o.text("type")
	name, ours := strings.CutPrefix(kind, "email.")
	data := o.inner("data")
	e := Event{
		Type:       sluice.EventUnknown, // of contacts and domains
		ProviderID: data.text("email_id"),
		EventID:    svix(r.Header, "Id"),
		UserAgent:  data.inner("click").text("userAgent"),
		ClickURL:   data.inner("click").text("link"),
	}
	if ours {
		e.Type = word(resendWords, name)
	}
	e.timed(o.text("created_at")) // that of data is the mail's
	// It does not say which of several recipients it means: held against the first, a bounce
	// or complaint would cut off somebody else.
	to := data.texts("to")
	if len(to) == 1 {
		e.Recipient = address(to[0])
	}
	switch e.Type {
	case sluice.EventBounced:
		bounce := data.inner("bounce")
		e.Description = bounce.text("message")
		if e.RejectReason = ReasonBounced; strings.Contains(e.Description, "suppressed sending") || bounce.text("subType") == "Suppressed" {
			e.RejectReason = ReasonBlocked
		}
		e.MTAResponse = strings.Join(bounce.texts("diagnosticCode"), "\n")
		said := refused(bounce.text("type"), bounce.text("subType"))
		e.bounced(&said)
	case sluice.EventComplained:
		e.OneOf = len(to)
	case sluice.EventRejected:
		e.Description, e.RejectReason = data.inner("suppressed").text("message"), ReasonBlocked
	case sluice.EventFailed:
		e.Description = data.inner("failed").text("reason")
	}
	if tags := data["tags"]; tags.Kind == jsonscan.Object {
		e.merge(objectOf(tags))
	}
	for _, v := range data.list("tags") {
		if tag := objectOf(v); tag.text("name") != "" {
			e.set(tag.text("name"), tag["value"])
		}
	}
	e.headers(data.list("headers"))
	return unknownAs(e, kind)
}
