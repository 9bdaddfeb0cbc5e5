package smtp

import (
	"strings"

	"sluice/mail"
)

// step is what a reply answers.
type step byte

const (
	stepConnect step = iota // the greeting
	stepHello
	stepTLS
	stepLogin
	stepMail
	stepRcpt
	stepData
	stepEnd // the dot, or BDAT LAST
)

func (s step) String() string {
	return [...]string{"the connection", "EHLO", "STARTTLS", "AUTH", "MAIL", "RCPT", "DATA", "the content"}[s]
}

// slowerWords are those by which servers say that they want less. They are looked
// for in refusals only, in lower case.
var slowerWords = []string{"throttl", "too many", "too fast", "too much", "rate limit", "ratelimit", "sending rate", "unusual rate", "rate that", "quota", "exceeded", "slow down"}

func saysSlower(text []byte) bool {
	lower := strings.ToLower(string(text))
	for _, w := range slowerWords {
		if strings.Contains(lower, w) {
			return true
		}
	}
	return false
}

// meaningOf says what a refusal means for the mail, whose fault it is and whether
// the server wants less. It is about replies of 4xx and 5xx only.
//
// What is refused before MAIL is no attempt at any mail. What is refused at MAIL
// because of who we are is tried again once the route works: it would be
// refused for every mail. So is what is refused for want of a login, at whatever
// step. All else that is refused at RCPT or later has failed for this recipient,
// whatever the reason, but for 503, 552 and commands that are not known, which
// are tried again. One who is not to blame is not suppressed.
func meaningOf(at step, code int, enhanced string, text []byte) (kind mail.ResultKind, blame mail.Blame, throttled bool) {
	listed := mail.SaysListed(string(text))
	slower := saysSlower(text)
	switch {
	case at < stepMail:
		return mail.ResultUntried, mail.BlameRoute, code < 500 && slower
	case code == 421:
		return mail.ResultDeferred, mail.BlameRoute, slower
	case code < 500:
		blame, throttled = blameOfDeferral(at, code, enhanced, slower, listed)
		return mail.ResultDeferred, blame, throttled
	case code == 503 || unknownCommand(code, enhanced): // about commands, not about mail
		return mail.ResultDeferred, mail.BlameNobody, false
	case code == 530 || code == 535 || code == 538: // RFC 4954, 6: any command but a few may be answered so
		return mail.ResultDeferred, mail.BlameRoute, false
	case at == stepRcpt && code == 552:
		return mail.ResultDeferred, mail.BlameRecipient, false // RFC 5321, 4.5.3.1.10
	case at == stepMail:
		return refusedSender(enhanced, listed)
	}
	return mail.ResultFailed, blameOfFailure(at, enhanced, listed), false
}

func blameOfDeferral(at step, code int, enhanced string, slower, listed bool) (blame mail.Blame, throttled bool) {
	security := strings.HasPrefix(enhanced, "4.7.")
	mailbox := strings.HasPrefix(enhanced, "4.1.") || strings.HasPrefix(enhanced, "4.2.")
	switch {
	case at == stepRcpt && mailbox:
		return mail.BlameRecipient, false // full, greylisted, or gets too many itself
	case code == 454, security && slower:
		return mail.BlameRoute, true
	case listed, at == stepMail && security:
		return mail.BlameRoute, false
	case security || strings.HasPrefix(enhanced, "4.3.") || strings.HasPrefix(enhanced, "4.4."):
		return mail.BlameNobody, false
	case at == stepRcpt || mailbox:
		return mail.BlameRecipient, false
	}
	return mail.BlameNobody, false
}

// refusedSender judges 5xx at MAIL.
func refusedSender(enhanced string, listed bool) (mail.ResultKind, mail.Blame, bool) {
	if listed || strings.HasPrefix(enhanced, "5.7.") {
		return mail.ResultDeferred, mail.BlameRoute, false
	}
	return mail.ResultFailed, mail.BlameMessage, false
}

// blameOfFailure judges 5xx at RCPT and later.
func blameOfFailure(at step, enhanced string, listed bool) mail.Blame {
	sender := enhanced == "5.1.7" || enhanced == "5.1.8"
	address := strings.HasPrefix(enhanced, "5.1.") || strings.HasPrefix(enhanced, "5.2.")
	switch {
	case listed:
		return mail.BlameRoute
	case sender || strings.HasPrefix(enhanced, "5.6.") || enhanced == "5.3.4":
		return mail.BlameMessage
	case address:
		return mail.BlameRecipient
	case at != stepRcpt:
		return mail.BlameMessage
	case enhanced == "":
		return mail.BlameRecipient
	}
	return mail.BlameNobody // a policy, a fault of the system: not who it is for
}

// unknownCommand reports whether a reply says that there is no such command.
func unknownCommand(code int, enhanced string) bool {
	return (code == 500 || code == 502) && (enhanced == "" || enhanced == "5.5.1" || enhanced == "5.5.2")
}

// refused is the result of a refusal.
func (s *session) refused(at step, r reply) mail.Result {
	enhanced, text := cutEnhanced(r.code, r.text)
	kind, blame, throttled := meaningOf(at, r.code, enhanced, text)
	cause := mail.Cause("")
	switch {
	case at == stepLogin:
		cause = mail.CauseLogin
	case at == stepTLS:
		cause = mail.CauseTLS
	case blame == mail.BlameRoute:
		cause = mail.CauseRejected
	}
	return mail.Result{
		OfSender: at == stepMail && kind == mail.ResultDeferred && strings.HasPrefix(enhanced, "5.7.") && !mail.SaysListed(string(text)),
		Cause:    cause,
		Kind:     kind, Blame: blame, Throttled: throttled,
		Code: r.code, Enhanced: enhanced, Text: oneLine(string(text)), Remote: s.remote, Closed: r.code == 421,
	}
}

// taken is the result of a mail that the server has taken.
func (s *session) taken(r reply) mail.Result {
	enhanced, text := cutEnhanced(r.code, r.text)
	line := oneLine(string(text))
	return mail.Result{Kind: mail.ResultSent, Code: r.code, Enhanced: enhanced, Text: line, Remote: s.remote, ID: queueID(line)}
}

// queueID finds what the server calls a mail: "Ok: queued as 4ABC" (Postfix and
// many more), or "Ok 0100018c-..." (SES), which stands alone.
func queueID(text string) string {
	const queued = "queued as "
	if i := strings.Index(text, queued); i >= 0 {
		id, _, _ := strings.Cut(text[i+len(queued):], " ")
		return strings.TrimRight(id, ".,;)>")
	}
	if id, ok := strings.CutPrefix(text, "Ok "); ok && len(id) >= 16 && !strings.ContainsAny(id, " :") {
		return id
	}
	return ""
}

// untried is the result of a mail that was surely not taken.
func untried(err error, blame mail.Blame) mail.Result {
	return mail.Result{Kind: mail.ResultUntried, Blame: blame, Cause: mail.CauseOf(err), Text: oneLine(err.Error())}
}

// refusal is the error of a server that does not let us in.
type refusal struct {
	at     step
	result mail.Result
}

func (r *refusal) Error() string {
	return "the server refuses " + r.at.String() + ": " + r.result.Text
}
