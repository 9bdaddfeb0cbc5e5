package ses

import (
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"sluice/mail"
	"sluice/mail/via/httponce"
)

// class is what a refusal means. The kind, where it is not said, is
// mail.ResultDeferred. What an operator can fix shall cost no mail, and mail
// that waits too long expires anyway.
type class struct {
	kind      mail.ResultKind
	blame     mail.Blame
	throttled bool
	after     time.Duration
}

var (
	ours      = class{blame: mail.BlameRoute}
	slower    = class{blame: mail.BlameRoute, throttled: true}
	paused    = class{blame: mail.BlameRoute, after: 10 * time.Minute} // until somebody at AWS or an operator acts
	message   = class{kind: mail.ResultFailed, blame: mail.BlameMessage}
	openEnded = class{kind: mail.ResultInDoubt, blame: mail.BlameRoute}
)

// notVerified is the name of a refusal that is one sender's.
const notVerified = "MailFromDomainNotVerifiedException"

// refusals are by the names that AWS gives them: those of SendEmail
// (API_SendEmail, section Errors) and those of all its services.
var refusals = map[string]class{
	"TooManyRequestsException":  slower,
	"ThrottlingException":       slower,
	"Throttling":                slower,
	"ThrottledException":        slower,
	"RequestLimitExceeded":      slower,
	"RequestThrottled":          slower,
	"RequestThrottledException": slower,
	"SlowDown":                  slower,
	"LimitExceededException":    {blame: mail.BlameRoute, throttled: true, after: 10 * time.Minute}, // the quota of a day

	"AccountSuspendedException": paused,
	"SendingPausedException":    paused,
	notVerified:                 paused,

	"NotFoundException":              ours, // the configuration set
	"AccessDeniedException":          ours,
	"AccessDenied":                   ours,
	"UnrecognizedClientException":    ours,
	"InvalidClientTokenId":           ours,
	"InvalidSignatureException":      ours,
	"SignatureDoesNotMatch":          ours,
	"IncompleteSignature":            ours,
	"MissingAuthenticationToken":     ours,
	"MissingAuthenticationException": ours,
	"ExpiredToken":                   ours,
	"ExpiredTokenException":          ours,
	"RequestExpired":                 ours, // a clock is wrong
	"NotAuthorized":                  ours,
	"OptInRequired":                  ours,

	"MessageRejected":          message,
	"MessageRejectedException": message,
	"BadRequestException":      message,
	"ValidationException":      message,
	"ValidationError":          message,
	"SerializationException":   message,

	"InternalServiceErrorException": openEnded,
	"InternalFailure":               openEnded,
	"InternalServerError":           openEnded,
	"ServiceUnavailable":            openEnded,
	"ServiceUnavailableException":   openEnded,
}

// meaningOf says what an answer means.
func meaningOf(a *httponce.Answer) mail.Result {
	var body struct {
		MessageID string `json:"MessageId"`
		Type      string `json:"__type"`
		Code      string `json:"code"`
		Message   string `json:"message"` // in whichever case: encoding/json does not mind
	}
	_ = json.Unmarshal(a.Body, &body) // what it is not in stays empty
	r := mail.Result{Code: a.Status}
	if a.Status >= 200 && a.Status < 300 {
		// SES has taken it, even if the answer was cut before the id.
		r.Kind, r.ID, r.Text = mail.ResultSent, body.MessageID, "accepted "+body.MessageID
		r.Text = mail.ReplyText(r.Text)
		return r
	}
	name := errorName(a.Header.Get("X-Amzn-Errortype"), body.Type, body.Code)
	c, known := refusals[name]
	if !known {
		c = byStatus(a.Status)
	}
	r.Kind, r.Blame, r.Throttled, r.RetryAfter = c.kind, c.blame, c.throttled, c.after
	if r.Kind == 0 {
		r.Kind = mail.ResultDeferred
	}
	switch text := strings.ToLower(body.Message); {
	case strings.Contains(text, "is not verified"), strings.Contains(text, "are not verified"):
		// "Email address is not verified": a sender that SES does not know, or the
		// sandbox, in which recipients must be known as well. That is ours to mend.
		r.Kind, r.Blame, r.RetryAfter, r.OfSender = mail.ResultDeferred, mail.BlameRoute, paused.after, true
	case r.Throttled && strings.Contains(text, "daily"):
		r.RetryAfter = refusals["LimitExceededException"].after // of 24 rolling hours
	}
	r.OfSender = r.OfSender || name == notVerified
	if r.Blame == mail.BlameRoute && !r.Throttled {
		r.Cause = a.Cause()
	}
	r.Text = mail.ReplyText(strings.TrimSpace(name + " " + body.Message))
	if r.Text == "" {
		r.Text = "status " + http.StatusText(a.Status)
	}
	return r
}

func byStatus(status int) class {
	switch {
	case status == http.StatusTooManyRequests:
		return slower
	case status == http.StatusRequestEntityTooLarge:
		return message
	case status >= 500:
		return openEnded
	}
	return ours // a redirect, a proxy's refusal, or a name that is new
}

// errorName returns the name of an error, which stands in a header, or in the
// body as __type or code: NAME, NAME:URL or SPACE#NAME.
func errorName(texts ...string) string {
	for _, s := range texts {
		s, _, _ = strings.Cut(s, ":")
		if _, behind, ok := strings.Cut(s, "#"); ok {
			s = behind
		}
		if s = strings.TrimSpace(s); s != "" {
			return s
		}
	}
	return ""
}
