// Package token makes texts that only this deployment can have made, for links
// in mails. So nothing has to be kept until a link is followed.
package token
