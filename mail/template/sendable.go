package template

import (
	"errors"
	"strings"

	"sluice/lib/mime"
	"sluice/mail"
)

// replyTo is the one header whose value is addresses.
const replyTo = "Reply-To"

// CheckSendable refuses a version of which no mail can be built, whatever the values of a
// recipient are: by the name of a header, or by a text that is the same for everybody. It is
// asked when somebody writes a version. Compile does not ask it, as Compile also loads
// versions of earlier programs. The error is an *Error.
func CheckSendable(v *mail.TemplateVersion) error {
	if from := alike(v.From); from != "" {
		if err := unsendable(partNames[partFrom], onlyError(mime.ParseMailbox(from))); err != nil {
			return err
		}
	}
	for part, source := range [...]string{partSubject: v.Subject, partPreheader: v.Preheader} {
		if len(alike(source)) > mime.MaxValueBytes {
			err := newError(KindLimit, 0, "has more than %d bytes, which no header may have", mime.MaxValueBytes)
			err.Part = partNames[part]
			return err
		}
	}
	for _, h := range v.Headers {
		if err := unsendable(headerPart+h.Name, checkSendableHeader(h)); err != nil {
			return err
		}
	}
	return nil
}

// checkSendableHeader looks at one header as the mail is built of it. An empty value leaves
// the header out.
func checkSendableHeader(h mail.TemplateHeader) error {
	value := alike(h.Value)
	if strings.EqualFold(h.Name, replyTo) {
		if value == "" {
			return nil
		}
		return onlyError(mime.ParseMailbox(value))
	}
	if value == "" {
		value = "x" // what becomes of the source is checked when the mail is built
	}
	return mime.CheckHeader(mime.Header{Name: h.Name, Value: value})
}

// alike is what a source of one line becomes for everybody; empty: nothing, or it differs
// from one recipient to the next.
func alike(source string) string {
	if strings.Contains(source, "{{") || strings.Contains(source, "{%") {
		return ""
	}
	return mime.OneLine(source)
}

func onlyError[T any](_ T, err error) error { return err }

// unsendable says in which part of a version something is that no mail can have.
func unsendable(part string, err error) error {
	if err == nil {
		return nil
	}
	reason := err.Error()
	if e, ok := errors.AsType[*mime.Error](err); ok {
		reason = e.Reason
	}
	wrong := newError(KindSyntax, 0, "%s", reason)
	wrong.Part = part
	return wrong
}
