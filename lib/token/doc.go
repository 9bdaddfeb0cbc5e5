// Package token makes texts that only this deployment can have made, and that expire: for
// links in mails. So nothing has to be kept until a link is followed. Links
// below track.url have tokens without an end: package track/link.
package token
