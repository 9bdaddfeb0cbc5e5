// Package consent knows which people have asked for mail and have confirmed it
// from their own mailbox: double opt-in. It sends nothing.
package consent
