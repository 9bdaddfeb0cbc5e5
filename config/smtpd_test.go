package config

import (
	"strings"
	"testing"
)

func TestSMTPD(t *testing.T) {
	for _, tt := range []struct{ text, wrong string }{
		{"smtpd: {listen: '127.0.0.1:2525'}", ""},
		{"smtpd: {listen: 'localhost:0', require_auth: false, hostname: mail.example.com, max_message_megabytes: 1}", ""},
		{"smtpd: {listen: '0.0.0.0:587', tls_cert: a.pem, tls_key: b.pem}", ""},
		{"smtpd: {listen: '0.0.0.0:587'}", "smtpd.listen 0.0.0.0:587 can be reached from other machines"},
		{"smtpd: {listen: ':587'}", "smtpd.listen :587 can be reached"},
		{"smtpd: {listen: '2525'}", "smtpd.listen is \"2525\""},
		{"smtpd: {listen: '127.0.0.1:2525', tls_cert: self-signed}", ""},
		{"smtpd: {listen: '0.0.0.0:587', tls_cert: self-signed}", "there is no certificate in files"},
		{"smtpd: {tls_cert: self-signed, tls_key: a.pem}", "smtpd.tls_cert and smtpd.tls_key belong together"},
		{"smtpd: {tls_cert: a.pem}", "smtpd.tls_cert and smtpd.tls_key belong together"},
		{"smtpd: {hostname: 'a b'}", "smtpd.hostname is \"a b\""},
		{"smtpd: {hostname: 'a..b'}", "smtpd.hostname"},
		{"smtpd: {max_message_megabytes: 26}", "smtpd.max_message_megabytes is 26, want 1 to 25"},
	} {
		c, err := load(t, tt.text, nil, nil)
		switch {
		case tt.wrong == "" && err != nil:
			t.Errorf("%s: %v", tt.text, err)
		case tt.wrong == "" && c.SMTPHostname() == "":
			t.Errorf("%s: there is no name of the host", tt.text)
		case tt.wrong != "" && (err == nil || !strings.Contains(err.Error(), tt.wrong)):
			t.Errorf("%s: %v, want %s", tt.text, err, tt.wrong)
		}
	}
}
