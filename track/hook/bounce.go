package hook

import (
	"encoding/json"
	"strconv"
	"strings"

	"sluice"
	"sluice/mail"
)

// Names of what a provider says of a refusal, in the metadata of an event. Ingest judges
// a posted event by members of these names.
const (
	keyBounceClass   = "bounce_class"
	keyBounceType    = "bounce_type"
	keyBounceSubtype = "bounce_subtype"
	keyStatus        = "status"
	keyBot           = "bot"
	keyOneOf         = "one_of"
)

// refusal is what a provider says of a mail that came back, beside the reply. Its Code
// is an enhanced code in a member of its own.
type refusal struct {
	mail.Refusal
	kind, subtype string // the provider's words
}

// refused makes a refusal of two words of a provider that says hard or soft, in whatever
// spelling: SES and Resend, Postmark, Netcore, Brevo, Mandrill.
func refused(kind, subtype string) refusal {
	r := refusal{kind: kind, subtype: subtype}
	r.General = fold(subtype) == "general"
	switch fold(kind) {
	case "permanent", "hard", "hardbounce":
		r.Said = mail.BounceHard
	case "transient", "temporary", "soft", "softbounce":
		r.Said = mail.BounceSoft
	}
	switch fold(subtype) {
	case "mailboxfull", "messagetoolarge", "contentrejected", "attachmentrejected":
		r.About = true
	}
	return r
}

// fold makes one of words that differ in case, `_` and `-` alone.
func fold(s string) string { return strings.ToLower(foldSigns.Replace(s)) }

var foldSigns = strings.NewReplacer(" ", "", "_", "", "-", "")

// bounced sets what the refusal of a mail means, if the event is one. The enhanced code
// is that of the provider, else that of the reply.
func (e *Event) bounced(r *refusal) {
	if e.Type != sluice.EventBounced {
		return
	}
	all := r.Refusal
	e.Status, _ = mail.EnhancedCode(r.Code)
	for _, reply := range []string{e.MTAResponse, e.Description} {
		if e.Status == "" {
			var alone bool
			e.Status, alone = mail.EnhancedCode(reply)
			all.Bare = all.Bare || alone
		}
	}
	e.BounceType, e.BounceSubtype = lineUpTo(r.kind, MaxTagBytes), lineUpTo(r.subtype, MaxTagBytes)
	all.Code, all.Text = e.Status, e.MTAResponse
	e.BounceClass = all.Class().String()
}

// facts returns the metadata with what the event says of a refusal or of a program. These
// come before a member of the sender's with their name. Events may share the
// metadata, so they are not changed.
func (e *Event) facts() map[string]json.RawMessage {
	all := make(map[string]json.RawMessage, len(e.Metadata)+5)
	for _, m := range e.Metadata {
		all[m.Name] = json.RawMessage(m.Value)
	}
	for name, text := range map[string]string{
		keyBounceClass: e.BounceClass, keyBounceType: e.BounceType, keyBounceSubtype: e.BounceSubtype, keyStatus: e.Status, keyBot: e.Bot,
	} {
		if raw, err := json.Marshal(text); err == nil && text != "" {
			all[name] = raw
		}
	}
	if e.OneOf > 1 {
		all[keyOneOf] = json.RawMessage(strconv.Itoa(e.OneOf))
	}
	return all
}

// blames reports whether a reason is about the sender of the mail, or its content.
func blames(why Reason) bool { return why == ReasonBlocked || why == ReasonSpam }
