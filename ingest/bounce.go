package ingest

import (
	"strings"
	"unicode/utf8"

	"sluice"
	"sluice/lib/jsonscan"
	"sluice/mail"
)

// verdict is what a mail that came back says of its address. Only soft and hard
// count; what is below them is silent.
type verdict = mail.BounceClass

const (
	silent = mail.BounceOther
	soft   = mail.BounceSoft
	hard   = mail.BounceHard
)

// ownBounce judges what became of a mail of ours: `bounced`, or `failed` because its
// time was over after a last reply that may pass.
func ownBounce(name, reply string) verdict {
	code, text, _ := strings.Cut(reply, " ")
	switch v := mail.BounceClassOf(code, text); {
	case name == sluice.EventBounced, name == sluice.EventFailed && v == soft && code[0] == '4':
		return v
	}
	return silent // it is not for the recipient that it has failed
}

// A mail that another system has sent comes back as an event whose members are
// in the producer's words. The members read here are those of the webhooks of
// SES, SendGrid, Mailgun, Postmark, SparkPost and Netcore, and ours. They are
// read at the top level and inside the objects of these webhooks.
//
// What they mean together is judged by mail.Refusal, as for webhooks.

// bounceFacts is what the members of an event say. About is also an answer that is no
// bounce; Blocked is SendGrid's; Final is Mailgun's.
type bounceFacts struct {
	mail.Refusal
	address  string
	block    bool // the class says that it was refused because of its sender
	sendgrid bool
	typed    bool // it has SendGrid's `type` "bounce"
	rank     int  // of the member that the code is of; 1 is the best
}

// of judges an event `bounced`, or `failed`, that a producer reports.
func (f *bounceFacts) of(e *sluice.Event) verdict {
	f.read(e.Properties, 0)
	if e.Name == sluice.EventFailed && !f.Final {
		return silent // not for the recipient; only Mailgun's word for a bounce is this one
	}
	return f.verdict()
}

// returned reports whether the event says that the mail came back for good: it was read
// by of.
func (f *bounceFacts) returned(e *sluice.Event) bool {
	return e.Name == sluice.EventBounced || e.Name == sluice.EventFailed && f.Final
}

// class is the verdict, or a block: that it is about the sender changes nothing of the
// address.
func (f *bounceFacts) class() mail.BounceClass {
	v := f.verdict()
	if v == silent && (f.block || f.Blocked || mail.BounceClassOf(f.Code, "") == mail.BounceBlock) {
		return mail.BounceBlock
	}
	return v
}

func (f *bounceFacts) verdict() verdict {
	if f.typed && f.sendgrid && f.Said == silent {
		f.Said = hard
	}
	return f.Class()
}

// maxBounceLevels is how deep objects are looked into: SES has a status in a list in
// an object.
const maxBounceLevels = 3

// read reads the members of an object.
func (f *bounceFacts) read(object string, level int) {
	if level > maxBounceLevels || object == "" {
		return
	}
	m := jsonscan.Read(object)
	for m.Next() {
		key := foldWord(m.Key)
		switch m.Value.Kind {
		case jsonscan.Object:
			switch key {
			case "bounce", "deliverystatus", "eventdata", "properties":
				f.read(m.Value.Raw, level+1)
			}
		case jsonscan.Array:
			if key == "bouncedrecipients" {
				f.recipients(m.Value.Raw, level+1)
			}
		case jsonscan.String, jsonscan.Number:
			f.member(key, m.Value.Text())
		}
	}
}

// recipients reads what SES says of the one of several addresses that the event is of.
func (f *bounceFacts) recipients(list string, level int) {
	all := jsonscan.ReadArray(list)
	for all.Next() {
		if all.Value.Kind != jsonscan.Object {
			continue
		}
		mine, m := true, jsonscan.Read(all.Value.Raw)
		for m.Next() {
			if foldWord(m.Key) == "emailaddress" {
				mine = strings.EqualFold(strings.TrimSpace(m.Value.Text()), f.address)
			}
		}
		if mine {
			f.read(all.Value.Raw, level)
		}
	}
}

// member reads a member by its name without case, spaces, `_` and `-`.
func (f *bounceFacts) member(key, value string) {
	switch key {
	case "sgmessageid", "sgeventid":
		f.sendgrid = true
	case "event", "eventname", "name":
		f.named(foldWord(value))
	case "type":
		f.typedAs(foldWord(value))
	case "bouncetype":
		f.bounceType(foldWord(value))
	case "bouncesubtype":
		switch foldWord(value) {
		case "general":
			f.General = true
		case "mailboxfull", "messagetoolarge", "contentrejected", "attachmentrejected":
			f.About = true
		}
	case "bounceclass":
		f.sparkpost(value)
	case "severity":
		f.Final = f.Final || foldWord(value) == "permanent"
		f.About = f.About || foldWord(value) == "temporary" // it is tried again
	case "status", "enhancedcode", "enhancedstatuscode":
		f.coded(value, 1)
	case "reply", "response", "mtaresponse", "diagnosticcode", "rawreason", "bouncereason":
		f.coded(value, 2)
	case "reason", "description", "details", "message", "code":
		f.coded(value, 3)
	}
	if key == "reason" && (value == "suppress-complaint" || value == "suppress-unsubscribe") {
		f.About = true // Mailgun has not sent it because of what a person had said
	}
}

// named reads a name of an event that says more than `bounced`.
func (f *bounceFacts) named(word string) {
	switch word {
	case "hardbounce", "hardbounced":
		f.say(hard)
	case "softbounce", "softbounced":
		f.say(soft)
	case "virusnotification":
		f.About = true
	}
}

// typedAs reads Postmark's Type, or SendGrid's type. What else Postmark calls a bounce
// is an answer, a complaint, about the message, or it is tried again.
func (f *bounceFacts) typedAs(word string) {
	switch word {
	case "bounce":
		f.typed = true
	case "blocked":
		f.Blocked = true
	case "transient", "dnserror", "openrelaytest", "autoresponder", "addresschange", "challengeverification", "spamnotification",
		"bademailaddress", "manuallydeactivated", "dmarcpolicy", "unconfirmed":
		f.About = true
	default:
		f.named(word)
	}
}

// bounceType reads what SES and Netcore call it.
func (f *bounceFacts) bounceType(word string) {
	switch word {
	case "permanent", "hard", "hardbounce":
		f.say(hard)
	case "transient", "temporary", "soft", "softbounce":
		f.say(soft)
	}
}

// say takes the word, hard or soft; of two the milder one counts.
func (f *bounceFacts) say(word verdict) {
	if f.Said == silent || word < f.Said {
		f.Said = word
	}
}

// sparkpost reads the class that SparkPost gives: 10 and 30 are hard, blocks and
// what is about the message say nothing. The words are those of mail.BounceClass,
// which `sluice bounce parse` writes.
func (f *bounceFacts) sparkpost(class string) {
	switch class {
	case "10", "30", "hard":
		f.say(hard)
	case "20", "21", "24", "40", "70", "soft":
		f.say(soft)
	case "25", "50", "51", "52", "54", "block":
		f.About, f.block = true, true
	default:
		f.About = true
	}
}

// coded takes the enhanced code of a reply, if its member is a better place than the
// one before.
func (f *bounceFacts) coded(reply string, rank int) {
	code, bare := mail.EnhancedCode(reply)
	f.Bare = f.Bare || bare
	if code != "" && (f.rank == 0 || rank < f.rank) {
		f.Code, f.rank = code, rank
	}
}

// foldWord makes one of what differs in case, spaces, `_` and `-` alone. Most
// members of events are one already: they cost nothing.
func foldWord(s string) string {
	at := strings.IndexFunc(s, func(r rune) bool {
		return r == ' ' || r == '_' || r == '-' || 'A' <= r && r <= 'Z' || r >= utf8.RuneSelf
	})
	if at < 0 {
		return s
	}
	return strings.ToLower(wordSigns.Replace(s))
}

var wordSigns = strings.NewReplacer(" ", "", "_", "", "-", "")
