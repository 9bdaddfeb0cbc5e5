// Package verp makes the addresses to which mail servers return what they could
// not deliver: one for each send, so a bounce names its mail even if nobody can
// read it (variable envelope return paths).
package verp
