// Package consent knows who has asked for mail and has confirmed it from his own
// mailbox: double opt-in. It sends nothing.
package consent
