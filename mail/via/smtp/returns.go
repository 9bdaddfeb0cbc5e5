package smtp

import (
	"slices"

	"sluice/mail"
)

// ReturnTo has mail come back to addresses that path makes, each for one envelope;
// an empty one leaves the envelope's sender. It is called once, before Deliver.
func (r *Relay) ReturnTo(path func(e *mail.Envelope) string) { r.returns = path }

// returned returns envelopes with their return paths. A null one stays: such a mail
// is a notice itself, and must not come back to anybody (RFC 5321, 4.5.5).
func (r *Relay) returned(envelopes []mail.Envelope) []mail.Envelope {
	if r.returns == nil {
		return envelopes
	}
	envelopes = slices.Clone(envelopes) // they are the caller's
	for i := range envelopes {
		e := &envelopes[i]
		if e.From == "" {
			continue
		}
		if path := r.returns(e); path != "" {
			e.From = path
		}
	}
	return envelopes
}
