package journey

import (
	"encoding/binary"
	"fmt"

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
