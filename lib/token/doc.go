// Package token makes texts that only this deployment can have made: what a
// link in a mail carries, so that nothing has to be kept until it is followed.
package token
