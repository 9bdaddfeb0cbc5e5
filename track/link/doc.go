// Package link makes the URLs that tracked mails carry, and reads them when they
// are followed: a pixel, clicks, and pages about a subscription. What a link says
// is in it and signed, so that an answer needs no database, but for links
// too long to be in it.
package link
