package smtp

import (
	"bytes"
	"fmt"
	"strconv"

	"sluice"
	"sluice/lib/mime"
	"sluice/mail"
)

// maxAddressBytes bounds an address: RFC 5321, 4.5.3.1.3 gives a path 256
// octets with its angle brackets.
const maxAddressBytes = sluice.MaxEmailBytes

// plan is how an envelope goes out.
type plan struct {
	eightBit, utf8 bool
}

// begin says how an envelope goes out to this server, right before its first octet is
// written, or why it does not. One that its sender holds back uses up no room.
func (s *session) begin(e *mail.Envelope) (plan, *mail.Result) {
	if r, held := e.Held(); held {
		s.carried--
		r.Connected = true
		return plan{}, &r
	}
	return s.check(e)
}

// check says how an envelope goes out to this server, or why it cannot. What
// the server does not offer is not sent to it, and nothing is repaired here.
func (s *session) check(e *mail.Envelope) (plan, *mail.Result) {
	never := func(blame mail.Blame, enhanced, format string, args ...any) (plan, *mail.Result) {
		return plan{}, &mail.Result{Kind: mail.ResultFailed, Blame: blame, Enhanced: enhanced, Text: oneLine(fmt.Sprintf(format, args...))}
	}
	if bad := addressProblem(e.From); bad != "" {
		return never(mail.BlameMessage, "5.1.7", "sender %q %s", e.From, bad)
	}
	if bad := addressProblem(e.To); bad != "" || e.To == "" {
		if bad == "" {
			bad = "is empty"
		}
		return never(mail.BlameRecipient, "5.1.3", "recipient %q %s", e.To, bad)
	}
	if at, found := bareLineEnd(e.Content); found {
		return never(mail.BlameMessage, "5.6.0", "the content has a CR or LF that stands alone at octet %d: lines end in CR LF", at) // a bare CR or LF may be an end of message to another server
	}
	if most := s.offers.maxBytes; most > 0 && int64(len(e.Content)) > most {
		return never(mail.BlameMessage, "5.3.4", "the message has %d octets, %s takes %d", len(e.Content), s.remote, most)
	}
	p := plan{utf8: e.UTF8 || !mime.IsASCII(e.From) || !mime.IsASCII(e.To)}
	p.eightBit = p.utf8 || e.EightBit || !mime.IsASCIIBytes(e.Content)
	switch {
	case p.utf8 && !s.offers.utf8: // RFC 6531, 3.2
		return never(mail.BlameMessage, "5.6.7", "an address or a header is not ASCII, and %s does not offer SMTPUTF8", s.remote)
	case p.eightBit && !s.offers.eightBit: // RFC 6152, 3
		return never(mail.BlameMessage, "5.6.3", "the content has octets above 127, and %s does not offer 8BITMIME", s.remote)
	}
	return p, nil
}

// addressProblem says what keeps an address from standing in a command: what
// would end the command or the path, or add a parameter.
func addressProblem(a string) string {
	if len(a) > maxAddressBytes {
		return "is longer than " + strconv.Itoa(maxAddressBytes) + " octets"
	}
	quoted := false
	for i := 0; i < len(a); i++ {
		switch c := a[i]; {
		case c < ' ' || c == 0x7f:
			return "has a control character"
		case c == '<' || c == '>':
			return "has an angle bracket"
		case c == '"':
			quoted = !quoted
		case c == '\\' && quoted:
			i++ // RFC 5321, 4.1.2: quoted-pair
			if i == len(a) || a[i] < ' ' || a[i] == 0x7f {
				return "ends in a backslash, or has a control character behind one"
			}
		case c == ' ' && !quoted:
			return "has a space"
		}
	}
	if quoted {
		return "has a quotation mark without its other one"
	}
	return ""
}

// wordProblem says what keeps a text from being one word of a command.
func wordProblem(w string) string {
	for i := range len(w) {
		if w[i] <= ' ' || w[i] >= 0x7f {
			return "has a space, a control character or one that is not ASCII"
		}
	}
	if w == "" {
		return "is empty"
	}
	return ""
}

// bareLineEnd finds a CR without its LF, or an LF without its CR.
func bareLineEnd(content []byte) (at int, found bool) {
	lines := 0
	for from := 0; ; lines++ {
		i := bytes.IndexByte(content[from:], '\n')
		if i < 0 {
			break
		}
		if from+i == 0 || content[from+i-1] != '\r' {
			return from + i, true
		}
		from += i + 1
	}
	if bytes.Count(content, []byte("\r")) == lines {
		return 0, false
	}
	for i, c := range content { // there is one: where it is does not have to be fast
		if c == '\r' && (i+1 == len(content) || content[i+1] != '\n') {
			return i, true
		}
	}
	return 0, false
}

// addMail adds MAIL with its parameters.
func (s *session) addMail(e *mail.Envelope, p plan) {
	s.out.say("MAIL FROM:<", e.From, ">")
	if s.offers.size {
		var digits [20]byte
		s.out.say(" SIZE=")
		s.out.put(strconv.AppendInt(digits[:0], int64(len(e.Content)), 10))
	}
	if p.eightBit {
		s.out.say(" BODY=8BITMIME")
	}
	if p.utf8 {
		s.out.say(" SMTPUTF8")
	}
	s.out.say("\r\n")
}

func (s *session) addRcpt(e *mail.Envelope) { s.out.say("RCPT TO:<", e.To, ">\r\n") }

// addBdat announces the content as one chunk, the last: servers make those wait
// that come in several.
func (s *session) addBdat(e *mail.Envelope) {
	var digits [20]byte
	s.out.say("BDAT ")
	s.out.put(strconv.AppendInt(digits[:0], int64(len(e.Content)), 10))
	s.out.say(" LAST\r\n")
}

var dot = []byte(".")

// addDotted adds the content and the dot behind it; a line that begins with a
// dot gets another (RFC 5321, 4.5.2). An empty content is a dot alone.
func (s *session) addDotted(content []byte) {
	if len(content) > 0 && content[0] == '.' {
		s.out.put(dot)
	}
	rest := content
	for {
		i := bytes.Index(rest, []byte("\r\n."))
		if i < 0 {
			break
		}
		s.out.put(rest[:i+3])
		s.out.put(dot)
		rest = rest[i+3:]
	}
	s.out.put(rest)
	if len(content) > 0 && !bytes.HasSuffix(content, []byte("\r\n")) {
		s.out.say("\r\n")
	}
	s.out.say(".\r\n")
}
