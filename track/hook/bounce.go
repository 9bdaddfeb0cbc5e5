package hook

import (
	"encoding/json"
	"maps"
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
)

// refusal is what a provider says of a mail that came back, beside the reply.
type refusal struct {
	kind, subtype string // the provider's words
	code          string // an enhanced code (RFC 3463) in a member of its own, or ""

	said    mail.BounceClass // what the words mean: hard or soft, else they mean nothing
	about   bool             // it is about the message, its sender, or a full mailbox
	blocked bool             // it is about the sender, unless the code says more
	final   bool             // nobody tries again, for whatever reason
}

// refused makes a refusal of two words of a provider that says hard or soft, in whatever
// spelling: SES and Resend, Postmark, Netcore, Brevo, Mandrill.
func refused(kind, subtype string) refusal {
	r := refusal{kind: kind, subtype: subtype}
	switch fold(kind) {
	case "permanent", "hard", "hardbounce":
		r.said = mail.BounceHard
	case "transient", "temporary", "soft", "softbounce":
		r.said = mail.BounceSoft
	}
	switch fold(subtype) {
	case "mailboxfull", "messagetoolarge", "contentrejected", "attachmentrejected":
		r.about = true
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
	bare := false
	e.Status, _ = mail.EnhancedCode(r.code)
	for _, reply := range []string{e.MTAResponse, e.Description} {
		if e.Status == "" {
			var alone bool
			e.Status, alone = mail.EnhancedCode(reply)
			bare = bare || alone
		}
	}
	e.BounceType, e.BounceSubtype = lineUpTo(r.kind, MaxTagBytes), lineUpTo(r.subtype, MaxTagBytes)
	class := r.class(e.Status, e.MTAResponse, bare)
	if class == mail.BounceOther && r.blocked {
		class = mail.BounceBlock
	}
	e.BounceClass = class.String()
}

// class judges a refusal as ingest judges what another system posts. A code about the
// sender, the message or a full mailbox comes before the provider's word, and that before
// any other code. What says neither is soft, unless it has a reply of three digits alone.
func (r *refusal) class(code, text string, bare bool) mail.BounceClass {
	judged := mail.BounceClassOf(code, text)
	temporary := strings.HasPrefix(code, "4")
	switch {
	case r.about || mail.NotOfAddress(code):
		return min(judged, mail.BounceBlock)
	case r.blocked:
		return min(judged, mail.BounceSoft)
	case r.said == mail.BounceSoft && code == "" && fold(r.subtype) == "general": // it may be the answer of an absent person
		return mail.BounceOther
	case r.said == mail.BounceHard && temporary:
		return judged
	case r.said != mail.BounceOther:
		return r.said
	case r.final && !temporary:
		return max(judged, mail.BounceSoft)
	case code != "" || bare || judged == mail.BounceBlock:
		return judged
	}
	return mail.BounceSoft
}

// facts returns the metadata with what the event says of a refusal or of a program. These
// come before a member of the sender's with their name. Events may share the map of
// metadata, so it is not changed.
func (e *Event) facts() map[string]json.RawMessage {
	all := make(map[string]json.RawMessage, len(e.Metadata)+5)
	maps.Copy(all, e.Metadata)
	for name, text := range map[string]string{
		keyBounceClass: e.BounceClass, keyBounceType: e.BounceType, keyBounceSubtype: e.BounceSubtype, keyStatus: e.Status, keyBot: e.Bot,
	} {
		if raw, err := json.Marshal(text); err == nil && text != "" {
			all[name] = raw
		}
	}
	return all
}

// blames reports whether a reason is about the sender of the mail, or its content.
func blames(why Reason) bool { return why == ReasonBlocked || why == ReasonSpam }
