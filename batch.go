package sluice

import (
	"encoding/binary"
	"errors"
	"fmt"
	"unsafe"
)

// A batch is an immutable group of items, written as one entry of a log:
//
//	batch = version byte, item, item, ...
//	item  = length of what follows (uint32), kind (byte), payload
//
// Integers are little-endian, texts carry their length as a uvarint. The form
// is ours, and not MessagePack or JSON, for three reasons. An item is read in
// place: texts point into the batch, and nothing is allocated. A Lua script can
// write one (struct.pack('<I4B', ...)). An item of an unknown kind is skipped
// whole. It is no smaller or faster than MessagePack written by hand would be
// (BenchmarkEncoding; docs/decisions/06-client-and-encoding.md).

// BatchVersion is the first byte of every batch.
const BatchVersion = 1

// ItemKind says what an item's payload is. The numbers are stored for as long
// as logs and dead letters live: never change one.
type ItemKind byte

// The kinds of items.
const (
	ItemEvent  ItemKind = 1 // an Event
	ItemDead   ItemKind = 2 // a DeadLetter on its way to the store
	ItemMarker ItemKind = 3 // nothing to apply: a note that the log was raised
	ItemCount  ItemKind = 4 // a Count
	ItemUser   ItemKind = 5 // a user.Update

	ItemSend    ItemKind = 6  // a Send that was accepted
	ItemOutcome ItemKind = 7  // an Outcome
	ItemCancel  ItemKind = 8  // an Outcome that holds if the send is not attempted yet
	ItemDecide  ItemKind = 9  // an Outcome that somebody has decided on, of a send in doubt
	ItemKnown   ItemKind = 10 // a Send that waits in a lane and is not in the ledger

	ItemContext ItemKind = 11 // a journey.Kept

	newestItem = ItemContext // raise it with each new kind; see Forms
)

// ItemHeaderBytes is what an item costs beyond its payload.
const ItemHeaderBytes = 5

// Errors of a batch that cannot be read.
var (
	ErrBatchVersion = errors.New("batch of an unknown version")
	ErrBatchBroken  = errors.New("batch is broken")
)

// NewBatch returns an empty batch to append items to, with room for size bytes.
func NewBatch(size int) []byte {
	return append(make([]byte, 0, size+1), BatchVersion)
}

// AppendItem appends an item whose payload the function write appends.
func AppendItem(batch []byte, kind ItemKind, write func([]byte) []byte) []byte {
	start := len(batch)
	batch = append(batch, 0, 0, 0, 0, byte(kind))
	batch = write(batch)
	binary.LittleEndian.PutUint32(batch[start:], uint32(len(batch)-start-4))
	return batch
}

// An event's first byte is its kind, a bit that it counts for no profile, and its
// origin in the two highest bits.
const (
	apartBit    = 1 << 5
	originShift = 6
)

// AppendEvent appends an event to a batch.
func AppendEvent(batch []byte, e *Event) []byte {
	start := len(batch)
	first := byte(e.Kind) | byte(e.Origin)<<originShift
	if e.Apart {
		first |= apartBit
	}
	batch = append(batch, 0, 0, 0, 0, byte(ItemEvent), first)
	batch = binary.LittleEndian.AppendUint64(batch, uint64(e.TimeMillis))
	for _, s := range [...]string{e.ID, e.Name, e.App, e.Email, e.User, e.Message, e.Properties} {
		batch = AppendText(batch, s)
	}
	binary.LittleEndian.PutUint32(batch[start:], uint32(len(batch)-start-4))
	if PretendNext && WritesNewForms() {
		batch[start+4] = byte(ItemNext)
	}
	return batch
}

// Apart returns an item so that it counts for no profile, if it is an event.
func Apart(item []byte) []byte {
	if len(item) <= ItemHeaderBytes || ItemKind(item[ItemHeaderBytes-1]) != ItemEvent {
		return item
	}
	apart := append([]byte(nil), item...)
	apart[ItemHeaderBytes] |= apartBit
	return apart
}

// AppendDead appends a dead letter to a batch. Its place and id are not
// carried: they are given where it is stored.
func AppendDead(batch []byte, d *DeadLetter) []byte {
	start := len(batch)
	batch = append(batch, 0, 0, 0, 0, byte(ItemDead))
	batch = binary.LittleEndian.AppendUint64(batch, uint64(d.TimeMillis))
	batch = AppendText(batch, d.Source)
	batch = AppendText(batch, string(d.Form))
	batch = AppendText(batch, d.Reason)
	batch = append(batch, d.Payload...)
	binary.LittleEndian.PutUint32(batch[start:], uint32(len(batch)-start-4))
	return batch
}

// AppendCount appends a count to a batch.
func AppendCount(batch []byte, c *Count) []byte {
	start := len(batch)
	batch = append(batch, 0, 0, 0, 0, byte(ItemCount), byte(c.Kind))
	batch = binary.LittleEndian.AppendUint64(batch, uint64(c.TimeMillis))
	batch = binary.LittleEndian.AppendUint64(batch, uint64(c.By))
	batch = AppendText(batch, c.App)
	batch = AppendText(batch, c.Name)
	binary.LittleEndian.PutUint32(batch[start:], uint32(len(batch)-start-4))
	return batch
}

// AppendText appends a text of an item: its length as a uvarint, and its bytes.
func AppendText(b []byte, s string) []byte {
	b = binary.AppendUvarint(b, uint64(len(s)))
	return append(b, s...)
}

// Item is one item of a batch, still encoded.
type Item struct {
	Kind    ItemKind
	Payload []byte
}

// BatchReader walks over the items of a batch:
//
//	r, err := ReadBatch(b)
//	for r.Next() { use(r.Item) }
//	err = r.Err()
type BatchReader struct {
	Item  Item
	Index int // of Item in the batch, from 0
	rest  []byte
	err   error
}

// ReadBatch begins to read a batch. The error is ErrBatchVersion or
// ErrBatchBroken, wrapped.
func ReadBatch(batch []byte) (*BatchReader, error) {
	if len(batch) == 0 {
		return nil, fmt.Errorf("read batch: %w: it is empty", ErrBatchBroken)
	}
	if batch[0] != BatchVersion {
		return nil, fmt.Errorf("read batch: %w: version %d, this program reads %d", ErrBatchVersion, batch[0], BatchVersion)
	}
	return &BatchReader{Index: -1, rest: batch[1:]}, nil
}

// Next moves to the next item and reports whether there is one.
func (r *BatchReader) Next() bool {
	if len(r.rest) == 0 || r.err != nil {
		return false
	}
	if len(r.rest) < ItemHeaderBytes {
		r.err = fmt.Errorf("read batch: %w: %d bytes after item %d", ErrBatchBroken, len(r.rest), r.Index)
		return false
	}
	n := uint64(binary.LittleEndian.Uint32(r.rest))
	if n < 1 || n > uint64(len(r.rest)-4) {
		r.err = fmt.Errorf("read batch: %w: item %d says it has %d bytes, %d are left", ErrBatchBroken, r.Index+1, n, len(r.rest)-4)
		return false
	}
	r.Item = Item{Kind: ItemKind(r.rest[4]), Payload: r.rest[ItemHeaderBytes : 4+n]}
	r.rest = r.rest[4+n:]
	r.Index++
	return true
}

// Err returns why Next stopped before the end, or nil.
func (r *BatchReader) Err() error { return r.err }

// DecodeEvent reads an event. Its texts share memory with the payload, which
// must not be changed afterwards.
func DecodeEvent(payload []byte, e *Event) error {
	if len(payload) < 9 {
		return fmt.Errorf("decode event: %w: %d bytes", ErrBatchBroken, len(payload))
	}
	e.Kind, e.Origin, e.Apart = EventKind(payload[0]&(apartBit-1)), Origin(payload[0]>>originShift), payload[0]&apartBit != 0
	e.TimeMillis = int64(binary.LittleEndian.Uint64(payload[1:]))
	return CutTexts("event", payload[9:], &e.ID, &e.Name, &e.App, &e.Email, &e.User, &e.Message, &e.Properties)
}

// DecodeDead reads a dead letter. Its texts and payload share memory with the
// given payload.
func DecodeDead(payload []byte, d *DeadLetter) error {
	if len(payload) < 8 {
		return fmt.Errorf("decode dead letter: %w: %d bytes", ErrBatchBroken, len(payload))
	}
	d.TimeMillis = int64(binary.LittleEndian.Uint64(payload))
	b := payload[8:]
	var form string
	for _, s := range [...]*string{&d.Source, &form, &d.Reason} {
		var ok bool
		if *s, b, ok = CutText(b); !ok {
			return fmt.Errorf("decode dead letter: %w: a text is cut short", ErrBatchBroken)
		}
	}
	d.Form, d.Payload = Form(form), b
	return nil
}

// DecodeCount reads a count. Its texts share memory with the payload.
func DecodeCount(payload []byte, c *Count) error {
	if len(payload) < 17 {
		return fmt.Errorf("decode count: %w: %d bytes", ErrBatchBroken, len(payload))
	}
	c.Kind = EventKind(payload[0])
	c.TimeMillis = int64(binary.LittleEndian.Uint64(payload[1:]))
	c.By = int64(binary.LittleEndian.Uint64(payload[9:]))
	return CutTexts("count", payload[17:], &c.App, &c.Name)
}

// CutText reads a text of an item and returns what is behind it. The text shares memory
// with the item. ok is false if the text is cut short.
func CutText(b []byte) (text string, rest []byte, ok bool) {
	n, w := binary.Uvarint(b)
	if w <= 0 || n > uint64(len(b)-w) {
		return "", nil, false
	}
	b = b[w:]
	if n == 0 {
		return "", b, true
	}
	return unsafe.String(&b[0], int(n)), b[n:], true
}

// CutTexts reads texts to the end of an item. Errors call the item what.
func CutTexts(what string, b []byte, texts ...*string) error {
	rest, err := CutSome(what, b, texts...)
	if err == nil && len(rest) != 0 {
		err = fmt.Errorf("decode %s: %w: %d bytes too many", what, ErrBatchBroken, len(rest))
	}
	return err
}

// CutSome reads texts and returns what is behind them. Errors call the item what.
func CutSome(what string, b []byte, texts ...*string) (rest []byte, err error) {
	for _, t := range texts {
		var ok bool
		if *t, b, ok = CutText(b); !ok {
			return nil, fmt.Errorf("decode %s: %w: a text is cut short", what, ErrBatchBroken)
		}
	}
	return b, nil
}
