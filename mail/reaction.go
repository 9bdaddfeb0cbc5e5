package mail

import "sluice"

// Reaction is that a mail was opened or clicked, as a mail event says it that names one
// of our sends.
type Reaction struct {
	SendKey // Number is AnyNumber if the event names the message alone

	Click      bool // else it was opened
	TimeMillis int64
	Email      string          // of whom, if the event says so
	Event      sluice.EventKey // what its row is known by; zero: a repeat cannot be told
	Place      sluice.Place    // of the event
}

// AnyNumber stands for the send of a message that has one alone, or of the address.
const AnyNumber = -1
