package ingest

import "sluice"

// maxMailWordBytes is as long as the longest name in MailWord.
const maxMailWordBytes = len("templaterenderingfailed")

// MailWord returns the one word for what mail providers call a mail event, or
// false for any other name, which is a customer's own. Upper and lower case,
// hyphens, spaces and underscores make no difference: "Hard Bounce",
// "hard_bounce" and "HardBounce" are one.
//
// The names are those of SES, SendGrid, Mailgun, Postmark, SparkPost, Netcore,
// Mandrill and Postal. Left out is what a customer may well call an event of
// its own: blocked, subscription, subscribe, error, invalid, failure, request.
//
// detailed says that the name tells more than the word (a hard bounce from a
// soft one), so it must be kept beside it.
func MailWord(name string) (word string, detailed, ok bool) {
	var folded [maxMailWordBytes]byte
	n := 0
	for i := range len(name) {
		c := name[i]
		switch {
		case 'A' <= c && c <= 'Z':
			c |= 0x20
		case c == '-' || c == ' ' || c == '_':
			continue
		}
		if n == len(folded) {
			return "", false, false
		}
		folded[n] = c
		n++
	}
	if word = plainMailWord(folded[:n]); word != "" {
		return word, false, true
	}
	if word = detailedMailWord(folded[:n]); word != "" {
		return word, true, true
	}
	return "", false, false
}

// plainMailWord knows the names that say just what the word says. The compiler
// searches the cases by length and halving, without making a string.
func plainMailWord(folded []byte) string {
	switch string(folded) {
	case "queued", "processed", "accepted", "injection", "injected":
		return sluice.EventQueued
	case "sent", "send":
		return sluice.EventSent
	case "deferred", "deferral", "delay", "delayed", "deliverydelay", "deliverydelayed":
		return sluice.EventDeferred
	case "delivered", "delivery":
		return sluice.EventDelivered
	case "bounced", "bounce":
		return sluice.EventBounced
	case "rejected", "reject", "dropped":
		return sluice.EventRejected
	case "failed", "renderingfailure", "generationfailure", "templaterenderingfailed", "smtpapierror":
		return sluice.EventFailed
	case "opened", "open":
		return sluice.EventOpened
	case "clicked", "click":
		return sluice.EventClicked
	case "complained", "complaint", "spam", "spamreport", "spamcomplaint", "spamnotification", "abuse":
		return sluice.EventComplained
	case "unsubscribed", "unsubscribe", "unsub":
		return sluice.EventUnsubscribed
	case "subscribed", "resubscribe", "resubscribed":
		return sluice.EventSubscribed
	case "autoresponded", "autoresponder", "autoresponse", "autoreply":
		return sluice.EventAutoresponded
	case "unknown":
		return sluice.EventUnknown
	}
	return ""
}

// detailedMailWord knows the names that say more than the word does.
func detailedMailWord(folded []byte) string {
	switch string(folded) {
	case "dnserror", "openrelaytest":
		return sluice.EventDeferred
	case "hardbounce", "hardbounced", "softbounce", "softbounced", "outofband", "virusnotification":
		return sluice.EventBounced
	case "policyrejection", "generationrejection", "bademailaddress", "manuallydeactivated", "dmarcpolicy":
		return sluice.EventRejected
	case "ampopen", "initialopen":
		return sluice.EventOpened
	case "ampclick":
		return sluice.EventClicked
	case "groupunsubscribe", "groupunsubscribed", "listunsubscribe", "listunsubscribed", "linkunsubscribe", "linkunsubscribed":
		return sluice.EventUnsubscribed
	case "groupresubscribe", "groupresubscribed":
		return sluice.EventSubscribed
	case "challengeverification":
		return sluice.EventAutoresponded
	}
	return ""
}
