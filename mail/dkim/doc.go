// Package dkim signs mails (RFC 6376; Ed25519 by RFC 8463). It is pure: keys and
// bytes in, header lines out; where keys are kept is not its business.
package dkim
