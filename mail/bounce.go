package mail

import (
	"regexp"
	"strings"
)

// BounceClass is what a refused mail says of its address. The classes rise: a
// higher one says more, so of two the milder is the lesser.
type BounceClass uint8

// The classes.
const (
	BounceOther BounceClass = iota // nothing: it is about the message, a full mailbox, or unknown
	BounceBlock                    // nothing: it is about the sender
	BounceSoft                     // it cannot be reached, for a reason that may pass
	BounceHard                     // there is no such mailbox
)

// String returns other, block, soft or hard.
func (c BounceClass) String() string { return [...]string{"other", "block", "soft", "hard"}[c] }

// BounceClassOf judges a refusal. Our own SMTP replies, the events of providers
// and the reports of other servers all come here. code is the enhanced code
// (RFC 3463), or "". text is the rest of the reply, or "". The code decides.
// Without one that says what has happened, words of the text tell a block.
func BounceClassOf(code, text string) BounceClass {
	switch {
	case hardBounces[code]:
		return BounceHard
	case !isRefusal(code) || code[1:] == ".0.0":
		if SaysListed(text) {
			return BounceBlock
		}
		return BounceOther
	case code[1:4] == ".7.":
		return BounceBlock
	case passedOver[code[1:]]:
		return BounceOther
	case code[1:4] == ".1." || code[1:4] == ".2.":
		return BounceSoft
	}
	return BounceOther
}

// hardBounces are the enhanced codes (RFC 3463, 3.2 and 3.3) that say an
// address no longer works. They are: no such mailbox, no such domain, bad
// syntax, moved without a trace, null MX (RFC 7505), disabled. Codes 5.7.x are
// about us and are left out. So are a full mailbox, a message that was not
// liked, and a refusal without such a code.
var hardBounces = map[string]bool{"5.1.1": true, "5.1.2": true, "5.1.3": true, "5.1.6": true, "5.1.10": true, "5.2.1": true}

// passedOver are the ends of enhanced codes that say nothing of an address.
// They are about a full mailbox, a mailbox that takes no message of that size,
// or the sender's address.
var passedOver = map[string]bool{".2.2": true, ".2.3": true, ".1.7": true, ".1.8": true}

// isRefusal reports whether an enhanced code is one of classes 4 and 5.
func isRefusal(code string) bool { return len(code) >= 5 && (code[0] == '4' || code[0] == '5') }

// NotOfAddress reports whether an enhanced code is about the message or the
// sender, or says that the mailbox is full. Codes x.3.4 and x.6 are about the
// message, x.7 about its sender (RFC 3463).
func NotOfAddress(code string) bool {
	if len(code) < 5 {
		return false
	}
	return passedOver[code[1:]] || code[1:] == ".3.4" || code[1:4] == ".6." || code[1:4] == ".7."
}

// listedWords finds the words by which servers say that they refuse the sender, not
// the mail. They are looked for in refusals only. They are whole words, for names
// of hosts and people have parts of them: marblehead, greylisted, unblocked. The
// names of lists count inside of words too, such as barracudacentral.
var listedWords = regexp.MustCompile(`(?i)(?:^|[^a-z])(?:(?:block|black|deny)[-_ ]?list(?:s|ed|ing)?|blocked|listed|reputation|(?:dnsb|rb|surb)ls?)(?:$|[^a-z])|spamhaus|spamcop|barracuda`)

// notListed finds what is no word of listedWords: addresses, hosts in < and >, and
// "not listed", which servers say of a recipient. A URL in < and > is kept, as
// it may name the list.
var notListed = regexp.MustCompile(`(?i)<[^<>\s/]*>|[^\s<>(),;:"]*@[^\s<>(),;:"]*|(?:\bnot|n't)(?:\s+(?:currently|presently|yet|be|been))*\s+listed\b`)

// SaysListed reports whether the text of a refusal says that its sender is on a
// list, or has a bad name.
func SaysListed(text string) bool {
	return listedWords.MatchString(notListed.ReplaceAllString(text, " - "))
}

// EnhancedCode finds the enhanced code (RFC 3463) of a reply: at its start, or right
// behind a code of three digits of the same class. bare: there is only such a code.
// What else has dots, as addresses of machines do, is none.
func EnhancedCode(reply string) (code string, bare bool) {
	reply = strings.TrimSpace(reply)
	if rest, found := strings.CutPrefix(strings.ToLower(reply), "smtp;"); found { // RFC 3464, 2.3.6
		reply = strings.TrimSpace(rest)
	}
	digits := digitsOf(reply)
	if digits == 3 && (reply[0] == '4' || reply[0] == '5') {
		class := reply[0]
		rest := strings.TrimLeft(reply[digits:], " -#")
		if code := leadingCode(rest); code != "" && code[0] == class && len(rest) < len(reply)-digits {
			return code, false
		}
		return "", true
	}
	return leadingCode(reply), false
}

// leadingCode returns the enhanced code that a text begins with, or "".
func leadingCode(s string) string {
	if s == "" || s[0] != '2' && s[0] != '4' && s[0] != '5' {
		return ""
	}
	at := 1
	for range 2 {
		if at >= len(s) || s[at] != '.' {
			return ""
		}
		n := digitsOf(s[at+1:])
		if n == 0 || n > 3 {
			return ""
		}
		at += 1 + n
	}
	if at < len(s) && (s[at] == '.' || 'a' <= s[at]|0x20 && s[at]|0x20 <= 'z') {
		return ""
	}
	return s[:at]
}

func digitsOf(s string) (n int) {
	for n < len(s) && '0' <= s[n] && s[n] <= '9' {
		n++
	}
	return n
}

// Refusal is what somebody else says of a mail that came back: a provider by a webhook,
// or a producer by an event.
type Refusal struct {
	Code string // the enhanced code (RFC 3463), or ""
	Text string // the rest of the reply, or ""; words of it tell a block
	Bare bool   // there is a reply, of three digits without an enhanced code

	Said    BounceClass // what their word for it means: hard or soft; else it means nothing
	General bool        // SES's subtype: of a soft bounce it may be the answer of an absent person
	About   bool        // it is about the message, its sender, or a full mailbox
	Blocked bool        // it is about the sender, unless the code says more
	Final   bool        // nobody tries again, for whatever reason
}

// Class judges a refusal. A code about the sender, the message or a full mailbox comes
// before their word, and that before any other code. A word for hard does not count with
// a code of class 4. What says neither is soft, as five days of it suppress and one does
// not. But a reply of three digits alone says nothing: most such refusals are about the
// sender.
func (r *Refusal) Class() BounceClass {
	if c := r.class(); c != BounceOther || !r.Blocked {
		return c
	}
	return BounceBlock
}

func (r *Refusal) class() BounceClass {
	judged := BounceClassOf(r.Code, r.Text)
	temporary := strings.HasPrefix(r.Code, "4")
	switch {
	case r.About || NotOfAddress(r.Code):
		return min(judged, BounceBlock)
	case r.Blocked:
		return min(judged, BounceSoft)
	case r.Said == BounceSoft && r.General && r.Code == "":
		return BounceOther
	case r.Said == BounceHard && temporary:
		return judged
	case r.Said == BounceHard || r.Said == BounceSoft:
		return r.Said
	case r.Final && !temporary:
		return max(judged, BounceSoft)
	case r.Code != "" || r.Bare || judged == BounceBlock:
		return judged
	}
	return BounceSoft
}
