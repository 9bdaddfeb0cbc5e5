package config

import (
	"errors"
	"fmt"
	"os"

	"sluice"
	"sluice/lib/mime"
)

// MaxSMTPMessageMB bounds a message that is handed in by SMTP.
const MaxSMTPMessageMB = sluice.MaxMessageBytes >> 20

// SelfSigned is the value of smtpd.tls_cert that asks for a certificate made at
// the start.
const SelfSigned = "self-signed"

// SMTPD is the SMTP listener.
type SMTPD struct {
	Listen       string `yaml:"listen" doc:"Where mail is taken in by SMTP: 127.0.0.1:2525 for programs on this machine, 0.0.0.0:587 for others, which needs tls_cert. Empty: nowhere." sample:"127.0.0.1:2525"`
	TLSCert      string `yaml:"tls_cert" doc:"File with the certificate and its chain (PEM), for STARTTLS. Read again when it changes. Without it there is no TLS, on loopback, where keys may go in clear. 'self-signed' makes one at the start, to try TLS out on loopback: most mailers use TLS where it is offered, and refuse that one." sample:"/etc/sluice/fullchain.pem"`
	TLSKey       string `yaml:"tls_key" doc:"File with the certificate's key (PEM)." sample:"/etc/sluice/privkey.pem"`
	Hostname     string `yaml:"hostname" doc:"What the listener calls itself, and what stands behind the @ of a Message-ID that it adds. Default: the machine's name." sample:"mail.example.com"`
	RequireAuth  bool   `yaml:"require_auth" doc:"false: programs on this machine (127.0.0.1, ::1) may hand in mail without a key. All others need one."`
	MaxMessageMB int    `yaml:"max_message_megabytes" range:"1..25" doc:"The largest message, with its attachments, 1 to 25. Of 25, 1 KiB is for the headers that are added."`
}

func (f *findings) smtpd() {
	s := &f.c.SMTPD
	if s.Hostname != "" && !mime.IsHostname(s.Hostname) {
		f.add("smtpd.hostname", fmt.Errorf("is %q, want a name such as mail.example.com", s.Hostname))
	}
	if files := s.TLSCert != "" && s.TLSCert != SelfSigned; files != (s.TLSKey != "") {
		f.add("smtpd.tls_cert", errors.New("and smtpd.tls_key belong together: give the files of both or neither"))
	}
	if s.Listen != "" {
		err := checkListen(s.Listen)
		if err == nil && s.TLSKey == "" && !isLoopback(s.Listen) {
			err = fmt.Errorf("%s can be reached from other machines, and there is no certificate in files to protect their keys; listen on 127.0.0.1, or set smtpd.tls_cert and smtpd.tls_key", s.Listen)
		}
		f.add("smtpd.listen", err)
	}
}

// SMTPHostname returns what the SMTP listener calls itself.
func (c *Config) SMTPHostname() string {
	if c.SMTPD.Hostname != "" {
		return c.SMTPD.Hostname
	}
	if name, err := os.Hostname(); err == nil && mime.IsHostname(name) {
		return name
	}
	return "localhost"
}
