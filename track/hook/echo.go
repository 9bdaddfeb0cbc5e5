package hook

import (
	"errors"
	"fmt"
	"strings"

	"sluice/mail/via/ses"
)

// echoes are the headers of a mail by SMTP by which a provider gives its events what
// names the send, in the order of Providers: a name, and a value in which %s is the id.
// What each of them becomes is read by the provider's reader, and found by ownSend.
var echoes = map[string]string{
	"ses":       "X-SES-MESSAGE-TAGS: " + ses.SendTag + "=%s",
	"sendgrid":  `X-SMTPAPI: {"unique_args":{"send":"%s"}}`,
	"mailgun":   `X-Mailgun-Variables: {"send":"%s"}`,
	"postmark":  "X-PM-Metadata-send: %s",
	"sparkpost": `X-MSYS-API: {"metadata":{"send":"%s"}}`,
	"netcore":   `X-APIHEADER: {"send":"%s"}`,
	"brevo":     `X-Mailin-custom: {"send":"%s"}`,
	"mailjet":   `X-MJ-EventPayload: {"send":"%s"}`,
	"mandrill":  `X-MC-Metadata: {"send":"%s"}`,
}

// Echo returns what makes a line of a header of the id of a send (mail.Send.ID), without
// its line break, so that the provider's events name the send again. resend takes none by
// SMTP.
func (p Provider) Echo() (func(send string) string, error) {
	form, ok := echoes[p.Name]
	if !ok {
		return nil, errors.New("takes no header by which its events name a mail")
	}
	return func(send string) string {
		if p.Name == "ses" { // a value of a tag has no dot; ownSend puts it back
			send = strings.ReplaceAll(send, ".", "-")
		}
		return fmt.Sprintf(form, send)
	}, nil
}
