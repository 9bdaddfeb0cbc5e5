package smtpd

import (
	"sync/atomic"

	"sluice/lib/meter"
)

// reason is why something was refused, for the metrics.
type reason int

const (
	refusedCommand     reason = iota // unknown, out of order, ill-formed
	refusedLogin                     // no key, a wrong one, or none under TLS
	refusedAddress                   // of a sender or recipient
	refusedRecipients                // too many
	refusedRate                      // a key sends too fast
	refusedSize                      // of a message
	refusedContent                   // it cannot go out, or its X-Sluice-* are wrong
	refusedUnavailable               // not our client's fault: it may try again
	reasons
)

// stats counts. Its methods may be called by several goroutines at once.
type stats struct {
	messages, recipients atomic.Int64
	refused              [reasons]atomic.Int64
	seconds              meter.Seconds
	open                 atomic.Int64
}

// Snapshot is what was counted.
type Snapshot struct {
	Messages   int64            // accepted
	Recipients int64            // of these
	Refused    map[string]int64 // senders, recipients, messages and commands, by reason
	Seconds    meter.Snapshot   // from the end of a message's content to its answer
	Open       int64            // connections
}

func (s *stats) snapshot() Snapshot {
	words := [reasons]string{"command", "login", "address", "recipients", "rate", "size", "content", "unavailable"}
	out := Snapshot{
		Messages: s.messages.Load(), Recipients: s.recipients.Load(), Refused: make(map[string]int64, reasons),
		Seconds: s.seconds.Snapshot(), Open: s.open.Load(),
	}
	for i := range s.refused {
		out.Refused[words[i]] = s.refused[i].Load()
	}
	return out
}
