package mail

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"

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
	return binary.AppendUvarint(binary.AppendUvarint(item, more), uint64(s.Person))
}

// cutJourney reads what appendJourney wrote, if it is there, and returns what is behind.
func cutJourney(b []byte, s *Send, there bool) (rest []byte, err error) {
	s.Journey, s.Step, s.Variant, s.Occurrence, s.Person, s.IgnoresCaps = "", "", "", 0, 0, false
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
	person, m := binary.Uvarint(b[n:])
	if m <= 0 || person > math.MaxInt64 {
		return nil, fmt.Errorf("decode send: %w: its person cannot be read", sluice.ErrBatchBroken)
	}
	s.Occurrence, s.Person, s.IgnoresCaps = int(more>>1), int64(person), more&1 != 0
	return b[n+m:], nil
}

// PausedLane begins the names of sublanes in which mail of paused journeys waits.
const PausedLane = "journey:"

// InLane is how much of the mail that waits in a lane of a partition counts where journeys
// make more for it. Mail of paused journeys does not, and none of a message that is stopped:
// no journey makes that.
type InLane struct {
	Own   int64            // in the lane itself
	Apart int64            // in its sublanes of domains and routes, where it cannot leave now
	Tags  map[string]int64 // in those of tags that are stopped; nil: there are none
}

// InLanes adds up how many sends wait in each lane (flow.Lanes.Waiting).
func InLanes(waiting map[string]int64) map[string]InLane {
	all := make(map[string]InLane, len(waiting))
	for name, n := range waiting {
		lane, sub, apart := strings.Cut(name, "@")
		in := all[lane]
		stop, stopped := ParseSelector(sub)
		switch {
		case !apart:
			in.Own += n
		case strings.HasPrefix(sub, PausedLane), stopped && stop.By == SelectMessage:
		case stopped && stop.By == SelectTag:
			if in.Tags == nil {
				in.Tags = make(map[string]int64, 1)
			}
			in.Tags[stop.Value] += n
		default:
			in.Apart += n
		}
		all[lane] = in
	}
	return all
}

// Leave is what a journey says of its mail that is about to leave. The zero value: it may.
type Leave struct {
	// Cancel, if not empty, is why it must not leave any more: the reason of its outcome.
	Cancel string

	// AgainMillis, if not 0, is when it is asked about again; it waits until then.
	AgainMillis int64
}
