package journey

import (
	"encoding/binary"
	"fmt"
	"strings"

	"sluice"
)

// MaxContextBytes bounds what is kept of the context of one person. A member that would
// be too much is left out.
const MaxContextBytes = 4 << 10

// Kept is the context of one person in one journey, kept while the person waits: an item
// of the person's log, in the commit by which the person enters, and a row of
// journey_context. A later one of the same person and journey replaces it.
type Kept struct {
	Partition int // of the log; it is not in the item
	Journey   int64
	Number    int64 // the person, in that partition

	// Entered and Occurrence are those of the record: the row is of no other time in
	// the journey.
	Entered    uint32
	Occurrence uint16

	// EndedMillis is when the person left; 0: it is inside. An item that says so has no
	// body, and leaves that of the row.
	EndedMillis int64
	Body        string // an object
}

// keptBytes is the size of an item's payload without the body.
const keptBytes = 8 + 8 + 4 + 2 + 8

// Append appends it as an item.
func (k *Kept) Append(batch []byte) []byte {
	return sluice.AppendItem(batch, sluice.ItemContext, func(b []byte) []byte {
		b = binary.LittleEndian.AppendUint64(b, uint64(k.Journey))
		b = binary.LittleEndian.AppendUint64(b, uint64(k.Number))
		b = binary.LittleEndian.AppendUint32(b, k.Entered)
		b = binary.LittleEndian.AppendUint16(b, k.Occurrence)
		b = binary.LittleEndian.AppendUint64(b, uint64(k.EndedMillis))
		return append(b, k.Body...)
	})
}

// Decode reads the payload of an item. It shares no memory with it.
func (k *Kept) Decode(b []byte) error {
	if len(b) < keptBytes {
		return fmt.Errorf("decode the context of a person in a journey: want %d bytes, got %d", keptBytes, len(b))
	}
	k.Journey, k.Number = int64(binary.LittleEndian.Uint64(b)), int64(binary.LittleEndian.Uint64(b[8:]))
	k.Entered, k.Occurrence = binary.LittleEndian.Uint32(b[16:]), binary.LittleEndian.Uint16(b[20:])
	k.EndedMillis, k.Body = int64(binary.LittleEndian.Uint64(b[22:])), string(b[keptBytes:])
	return nil
}

// Of reports whether it is of a person's time in the journey that a record is of.
func (k *Kept) Of(r *Record) bool { return k.Entered == r.Entered && k.Occurrence == r.Occurrence }

// waitedPrefix begins the names of members of a context that are properties of events that
// steps have waited for.
const waitedPrefix = "wait_for:"

// WaitedMember is the name that a property of the event which a step wait_for has waited for
// has in the context: what such an event says is kept beside what the person entered with.
func WaitedMember(step, property string) string { return waitedPrefix + step + "/" + property }

// WaitedIn takes such a name apart; false: it is that of something else.
func WaitedIn(member string) (step, property string, ok bool) {
	rest, ok := strings.CutPrefix(member, waitedPrefix)
	if !ok {
		return "", "", false
	}
	step, property, ok = strings.Cut(rest, "/")
	return step, property, ok && ValidID(step) // else somebody has called a property of an event so
}

// HasWaited reports whether a context may have such members.
func HasWaited(context string) bool { return strings.Contains(context, waitedPrefix) }
