// Package land answers what mails that were sent bring back by HTTP: the pixel
// that is loaded when a mail is opened, the links in it, and the page to
// unsubscribe. What happened becomes an ordinary mail event in the log of the
// send's partition, and is durable before it is answered.
package land
