package ingest

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"
	"unsafe"

	"sluice"
	"sluice/flow"
)

// Bounds of requests.
const (
	// MaxRequestItems bounds the items of one request.
	MaxRequestItems = 10_000

	// MaxListedRefusals bounds how many refused items an answer names.
	MaxListedRefusals = 100

	// MaxIdempotencyKeyBytes bounds the key of a request.
	MaxIdempotencyKeyBytes = 255

	// idempotencyTTL is how long a request's key is remembered.
	idempotencyTTL = 24 * time.Hour

	// idField is the field of a request's events that holds their own id.
	idField = "event_id"

	// keptDraftBytes is the most memory that is kept for the next request.
	keptDraftBytes = 1 << 20
)

// Intake takes in the events of requests. It parses them as the router parses
// elements of lists, and has them written to the logs of their partitions.
//
// What makes a repeat harmless. The store knows an event by (time, id). An
// event with `event_id` and a time brings both. With an Idempotency-Key, what
// an event lacks is made so that a repeat makes the same. The id is a hash of
// (sender, key, index of the item). The time is when the key was first seen.
// Redis remembers it for 24 hours, from before the first append. Redis
// remembers the hash of the body as well, and another body under the same key
// is rejected. It would get the ids of the first and be left out silently.
//
// What was tried and dropped. A time made of the key itself is no time. The
// time of the first answer, kept after the append, is lost in the crash that
// makes the repeat necessary. Leaving the time out of the store's unique key
// needs an index on random ids, which collapses when it outgrows memory.
type Intake struct {
	Writer     *flow.Writer
	Redis      *flow.Redis
	Names      *flow.OnceNames // bounds those of requests for mail (Once); nil: nothing does
	Partitions int
	Clock      sluice.Clock
	Stats      *Stats
	Bounds     TimeBounds
}

// Request is the events of one request. The items' memory must stay unchanged
// until Accept returns.
type Request struct {
	Items          []string // JSON objects
	Sender         string   // the sender: the id of a key of the API
	Consent        bool     // it is trusted with consent: its opt-ins count
	IdempotencyKey string   // empty: none was given
	Key            string   // under which key its name is counted (Once); empty: the bound of a key is not asked
	Dead           string   // refused items are kept as dead letters of this source; empty: their sender is told
	Body           string   // what the items were cut out of: tells repeats from other requests
}

// Accepted is what became of a request.
type Accepted struct {
	Items        int            // durably written
	RefusedItems int            // will never be taken as they are
	Refused      []sluice.Error // of those, the first MaxListedRefusals
}

// Accept writes a request's events and returns when they are durable. Items
// that are no events are refused one by one. Errors: a *sluice.Error (invalid)
// for the request as a whole. flow.LogFullError and flow.ErrClosed mean that
// nothing was written. Any other error, sluice.ErrFull among them, leaves open
// which of the events were written.
func (in *Intake) Accept(ctx context.Context, r *Request) (Accepted, error) {
	d := drafts.Get().(*draft)
	defer d.giveBack()
	d.reset(in.Partitions)
	options := EventOptions{Now: in.Clock.Now().UnixMilli(), Dedupe: idField, Optional: true, Arena: &d.arena}
	if r.Consent {
		options.Origin = sluice.OriginTrusted
	}
	if r.IdempotencyKey != "" {
		first, err := firstSeen(ctx, r, options.Now, in.Redis.Once)
		if err != nil {
			return Accepted{}, err
		}
		options.Now, options.StableNow = first, true
	}
	later := laterMillis(in.Clock, options.Now)
	var done Accepted
	for i, raw := range r.Items {
		if err := d.take(raw, i, r, &options, in.Bounds, later); err != nil {
			done.refuse(i, raw, err)
			if r.Dead != "" {
				d.bury(raw, r.Dead, err, options.Now)
			}
			continue
		}
		done.Items++
	}
	if len(d.used) == 0 {
		return done, nil
	}
	if err := in.Writer.Write(ctx, d.parts()...); err != nil {
		return Accepted{}, err
	}
	in.Stats.Accepted.Add(int64(done.Items))
	return done, nil
}

// refuse notes that an item is refused, and why.
func (a *Accepted) refuse(index int, raw string, err error) {
	a.RefusedItems++
	if len(a.Refused) >= MaxListedRefusals {
		return
	}
	code := sluice.CodeInvalid
	if len(raw) > sluice.MaxElementBytes {
		code = sluice.CodeTooLarge
	}
	a.Refused = append(a.Refused, sluice.Error{Code: code, Message: err.Error(), Index: index})
}

// Once returns when a request for mail with an IdempotencyKey was first seen,
// and a name under which its work can be done once. ErrOtherBody means that
// another body came with this key before; the time and the name are those of
// that one. Other errors are those of Accept.
func (in *Intake) Once(ctx context.Context, r *Request) (first time.Time, name string, err error) {
	once := in.Redis.Once
	if in.Names != nil {
		once = func(ctx context.Context, name, value string, ttl time.Duration) (string, error) {
			return in.Names.Once(ctx, r.Key, name, value, ttl)
		}
	}
	millis, err := firstSeen(ctx, r, in.Clock.Now().UnixMilli(), once)
	if err != nil && !errors.Is(err, ErrOtherBody) {
		return time.Time{}, "", err
	}
	hash := requestHash(r, nil)
	return time.UnixMilli(millis), hex.EncodeToString(hash[:16]), err
}

// Seen is Once for a request that was seen before, whatever its body; the time is zero if
// it was not. It remembers nothing.
func (in *Intake) Seen(ctx context.Context, r *Request) (first time.Time, name string, err error) {
	redis := in.Redis
	if in.Names != nil {
		redis = in.Names.Redis
	}
	millis, err := firstSeen(ctx, r, 0, func(ctx context.Context, name, value string, _ time.Duration) (string, error) {
		known, err := redis.OnceOf(ctx, name)
		return cmp.Or(known, value), err
	})
	if errors.Is(err, ErrOtherBody) {
		err = nil
	}
	if err != nil || millis == 0 {
		return time.Time{}, "", err
	}
	hash := requestHash(r, nil)
	return time.UnixMilli(millis), hex.EncodeToString(hash[:16]), nil
}

// firstSeen returns when a request was first seen, in milliseconds; once remembers
// its name.
func firstSeen(ctx context.Context, r *Request, now int64, once func(ctx context.Context, name, value string, ttl time.Duration) (string, error)) (int64, error) {
	print := bodyPrint(r)
	name := requestHash(r, nil)
	first, err := once(ctx, hex.EncodeToString(name[:16]), strconv.FormatInt(now, 10)+"|"+print, idempotencyTTL)
	if err != nil {
		return 0, err
	}
	when, seen, _ := strings.Cut(first, "|")
	millis, err := strconv.ParseInt(when, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("read when a request was first seen: %q: %w", first, err)
	}
	if seen != print {
		return millis, ErrOtherBody
	}
	return millis, nil
}

// bodyPrint tells the bodies of requests apart.
func bodyPrint(r *Request) string {
	body := sha256.Sum256(unsafe.Slice(unsafe.StringData(r.Body), len(r.Body)))
	return hex.EncodeToString(body[:16])
}

// ErrOtherBody means that the request's Idempotency-Key came with another body
// before.
var ErrOtherBody error = &sluice.Error{Code: sluice.CodeInvalid, Index: -1,
	Message: "this Idempotency-Key came with another body before: give each request a key of its own, and repeat a request as it was"}

// requestHash hashes the sender of a request, its key, and more. The parts
// carry their lengths, so that no two requests are the same text.
func requestHash(r *Request, more []byte) [sha256.Size]byte {
	var buf [2 * (binary.MaxVarintLen64 + MaxIdempotencyKeyBytes)]byte
	b := buf[:0]
	for _, s := range [...]string{r.Sender, r.IdempotencyKey} {
		b = append(binary.AppendUvarint(b, uint64(len(s))), s...)
	}
	return sha256.Sum256(append(b, more...))
}

// derivedID is the id of an event that has none, in a request with a key: 25
// characters that no producer would choose by chance.
func derivedID(dst []byte, r *Request, index int) []byte {
	var number [binary.MaxVarintLen64]byte
	h := requestHash(r, binary.AppendUvarint(number[:0], uint64(index)+1))
	return base64.RawURLEncoding.AppendEncode(append(dst, "ik-"...), h[:16])
}

// draft is the memory of one request on its way. For each partition it holds
// items encoded one after the other, cut into parts that fit into a batch.
type draft struct {
	partitions []draftPartition
	used       []int // partitions that have items
	arena      Arena
	event      sluice.Event // the one that was parsed last
	id         []byte
	list       []flow.Part
}

type draftPartition struct {
	data  []byte
	ends  []partEnd // of the parts but the last
	items int       // of the last part
}

type partEnd struct{ bytes, items int }

var drafts = sync.Pool{New: func() any { return &draft{} }}

func (d *draft) reset(partitions int) {
	if len(d.partitions) != partitions {
		*d = draft{partitions: make([]draftPartition, partitions)}
	}
}

// giveBack keeps the memory for another request, unless it is large.
func (d *draft) giveBack() {
	bytes := 0
	for _, n := range d.used {
		p := &d.partitions[n]
		bytes += cap(p.data)
		*p = draftPartition{data: p.data[:0], ends: p.ends[:0]}
	}
	clear(d.list)
	d.event = sluice.Event{} // it shares memory with the request
	d.used, d.list = d.used[:0], d.list[:0]
	if bytes <= keptDraftBytes {
		drafts.Put(d)
	}
}

// take parses an item and encodes it for its partition, or says why not.
func (d *draft) take(raw string, index int, r *Request, options *EventOptions, bounds TimeBounds, later int64) error {
	e := &d.event
	d.arena.Reset()
	if err := ParseEvent(raw, options, e); err != nil {
		*e = sluice.Event{}
		return err
	}
	if err := bounds.Check(e.TimeMillis, options.Now, later); err != nil {
		return err
	}
	if e.ID == "" && r.IdempotencyKey != "" {
		d.id = derivedID(d.id[:0], r, index)
		e.ID = unsafe.String(unsafe.SliceData(d.id), len(d.id))
	}
	p := d.partition(partitionOf(e, raw, len(d.partitions)))
	before := len(p.data)
	p.data = sluice.AppendEvent(p.data, e)
	p.added(before)
	return nil
}

// bury keeps an item that was refused, the one taken last, as a dead letter. One that is
// an event, and only its time is out of bounds, can be replayed.
func (d *draft) bury(raw, source string, why error, now int64) {
	letter := sluice.DeadLetter{Source: source, Form: sluice.FormElement, Reason: why.Error(), Payload: []byte(raw), TimeMillis: now}
	n := int(hashText(raw) % uint64(len(d.partitions)))
	if d.event.Name != "" {
		n = partitionOf(&d.event, raw, len(d.partitions))
		letter.Form, letter.Payload = sluice.FormItem, sluice.AppendEvent(nil, &d.event)
	}
	p := d.partition(n)
	before := len(p.data)
	p.data = sluice.AppendDead(p.data, &letter)
	p.added(before)
}

// partition returns the items of a partition, to add to.
func (d *draft) partition(n int) *draftPartition {
	p := &d.partitions[n]
	if p.items == 0 && len(p.ends) == 0 {
		d.used = append(d.used, n)
	}
	return p
}

// added notes that an item has been appended to the data, which ended at
// `before`. A part that is full ends there.
func (p *draftPartition) added(before int) {
	start := 0
	if len(p.ends) > 0 {
		start = p.ends[len(p.ends)-1].bytes
	}
	if p.items > 0 && (len(p.data)-start >= sluice.MaxBatchBytes || p.items == sluice.MaxBatchItems) {
		p.ends = append(p.ends, partEnd{before, p.items})
		p.items = 0
	}
	p.items++
}

// parts returns the request's parts, those of a partition in order.
func (d *draft) parts() []flow.Part {
	for _, n := range d.used {
		p := &d.partitions[n]
		start := 0
		for _, end := range append(p.ends, partEnd{len(p.data), p.items}) {
			d.list = append(d.list, flow.Part{Partition: n, Items: p.data[start:end.bytes], Count: end.items})
			start = end.bytes
		}
	}
	return d.list
}
