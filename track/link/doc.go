// Package link makes the URLs that tracked mails carry, and reads them when they
// are followed: a pixel, clicks, and pages about a subscription. What a link says
// is in it and signed, so that an answer needs neither Redis nor a database.
package link
