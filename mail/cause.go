package mail

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"os"
	"syscall"
)

// Cause is why a route does not work, as a word of a small set.
type Cause string

// The causes.
const (
	CauseDNS         Cause = "dns"         // the host's name is not found
	CauseRefused     Cause = "refused"     // nobody listens there
	CauseUnreachable Cause = "unreachable" // no network leads there
	CauseTimeout     Cause = "timeout"     // no answer in time
	CauseCertificate Cause = "certificate" // TLS: who signed it is not trusted, or it is another's, or too old
	CauseTLS         Cause = "tls"         // TLS failed otherwise, or is not offered
	CauseLogin       Cause = "login"       // user and password are not accepted
	CauseRejected    Cause = "rejected"    // the other side refuses us
	CauseLost        Cause = "lost"        // the connection ended
)

// CauseOf returns the cause that an error of a connection tells of.
func CauseOf(err error) Cause {
	if err == nil {
		return ""
	}
	if _, ok := errors.AsType[*net.DNSError](err); ok {
		return CauseDNS
	}
	if isCertificate(err) {
		return CauseCertificate
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return CauseTLS
	}
	if _, ok := errors.AsType[tls.AlertError](err); ok {
		return CauseTLS
	}
	timeout, ok := errors.AsType[net.Error](err)
	switch {
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, os.ErrNotExist): // of a socket's path
		return CauseRefused
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH):
		return CauseUnreachable
	case ok && timeout.Timeout(), errors.Is(err, context.DeadlineExceeded):
		return CauseTimeout
	}
	return CauseLost
}

func isCertificate(err error) bool {
	_, verification := errors.AsType[*tls.CertificateVerificationError](err)
	_, unknown := errors.AsType[x509.UnknownAuthorityError](err)
	_, name := errors.AsType[x509.HostnameError](err)
	_, invalid := errors.AsType[x509.CertificateInvalidError](err)
	return verification || unknown || name || invalid
}
