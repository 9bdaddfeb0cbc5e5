// Package domain looks at the domains that mail is sent from: whether receivers
// will find in DNS what they want before they take it. SPF (RFC 7208), DKIM
// (RFC 6376, 8463), DMARC (RFC 7489), and a home for what comes back.
//
// Checker looks once; Watcher has a domain looked at when mail of it is met for
// the first time, and remembers what was found.
package domain
