// Package land answers what mails that were sent bring back by HTTP: the pixel
// that is loaded when a mail is opened, the links in it, and the page to
// unsubscribe. What happened becomes an ordinary mail event in the log of the
// send's partition or, while that fails, in a file, and is durable before it is answered. If
// neither takes it, it is counted as lost, and answered all the same.
package land
