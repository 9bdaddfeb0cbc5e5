package mail

import (
	"encoding/binary"
	"fmt"
	"math"

	"sluice"
)

// appendJourney appends what a send has of a journey: programs that know nothing of
// journeys do not read it, so it is written among the new forms.
func appendJourney(item []byte, s *Send) []byte {
	for _, t := range [...]string{s.Journey, s.Step, s.Variant} {
		item = sluice.AppendText(item, t)
	}
	more := uint64(s.Occurrence) << 1
	if s.IgnoresCaps {
		more |= 1
	}
	return binary.AppendUvarint(item, more)
}

// cutJourney reads what appendJourney wrote, if it is there, and returns what is behind.
func cutJourney(b []byte, s *Send, there bool) (rest []byte, err error) {
	s.Journey, s.Step, s.Variant, s.Occurrence, s.IgnoresCaps = "", "", "", 0, false
	if !there {
		return b, nil
	}
	if b, err = sluice.CutSome("send", b, &s.Journey, &s.Step, &s.Variant); err != nil {
		return nil, err
	}
	more, n := binary.Uvarint(b)
	if n <= 0 || more>>1 > math.MaxInt32 {
		return nil, fmt.Errorf("decode send: %w: its occurrence cannot be read", sluice.ErrBatchBroken)
	}
	s.Occurrence, s.IgnoresCaps = int(more>>1), more&1 != 0
	return b[n:], nil
}
