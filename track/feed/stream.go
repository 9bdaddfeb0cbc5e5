package feed

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"maps"
	"math"
	"slices"
	"sync/atomic"
	"time"

	"sluice"
	"sluice/store"
)

// Bounds of a stream.
const (
	streamRows = 200 // of a page

	// Behind is how long a stream may not have caught up before it skips what it has
	// missed.
	Behind = 30 * time.Second

	// mostCounted bounds how many events of a partition are counted that were missed.
	mostCounted = 100_000
)

// idVersion is the first byte of a stream's id.
const idVersion = 1

// errID says that a text is no id of a stream.
var errID = errors.New("it is not an id of this stream")

// Stats are counters of streams. Their zero value is ready.
type Stats struct {
	Open, Missed atomic.Int64
}

// Stream is a reader that follows the feed of all partitions, as fast as it is asked. What
// it has not asked for yet lies in SQL, so a slow one holds nobody up. One that has been
// live and cannot keep up skips to the present, and learns how much it has missed. One
// that goes on from an id skips nothing until it has caught up.
//
// It belongs to one goroutine.
type Stream struct {
	Heads  *Heads
	Filter Filter
	Behind time.Duration // 0: the constant

	at   map[int]sluice.Place
	late map[int]time.Time // since when a partition has not caught up
	live bool
	turn int // of the partitions
}

// Begin sets where the stream begins: at an id, at the present if that is empty, or, if
// all is set, at the oldest event that is stored.
func (s *Stream) Begin(ctx context.Context, id string, all bool) error {
	heads, err := s.Heads.Get(ctx)
	if err != nil {
		return err
	}
	s.at, s.late, s.live = make(map[int]sluice.Place), make(map[int]time.Time), false
	for part, head := range heads {
		if s.at[part] = (sluice.Place{Partition: part}); !all {
			s.at[part] = store.EndOf(part, head)
		}
	}
	if id != "" {
		return s.parse(id)
	}
	s.live = !all
	return nil
}

// Part is what a stream has next.
type Part struct {
	Events []store.StoredEvent

	// Missed is how many events were skipped before Events, or at least so many.
	Missed  int64
	AtLeast bool

	More bool // there may be more now
}

// Next returns the next events that the filter chooses, of one partition; none: there are
// no more for now, unless More.
func (s *Stream) Next(ctx context.Context) (p Part, err error) {
	heads, err := s.Heads.Get(ctx)
	if err != nil {
		return p, err
	}
	now := s.Heads.Clock.Now()
	var late []int
	for _, part := range slices.Sorted(maps.Keys(heads)) {
		at, known := s.at[part]
		if !known {
			at = sluice.Place{Partition: part} // nothing was stored of it before
			s.at[part] = at
		}
		if !store.EndOf(part, heads[part]).Behind(at) {
			delete(s.late, part)
			continue
		}
		if s.late[part].IsZero() {
			s.late[part] = now
		}
		late = append(late, part)
	}
	if len(late) == 0 {
		s.live = true
		return p, nil
	}
	if s.live && slices.ContainsFunc(late, func(part int) bool { return now.Sub(s.late[part]) > s.patience() }) {
		return s.skip(ctx, heads, late)
	}
	s.turn++
	part := late[s.turn%len(late)]
	page, err := s.Heads.Store.FeedPage(ctx, s.Heads.Follower, part, s.at[part], streamRows)
	if err != nil {
		return p, err
	}
	if s.at[part] = page.End; !store.EndOf(part, heads[part]).Behind(page.End) {
		delete(s.late, part)
	}
	p.Events = slices.DeleteFunc(page.Events, func(e store.StoredEvent) bool { return !s.Filter.Takes(&e.Event) })
	p.More = page.More || len(late) > 1
	return p, nil
}

func (s *Stream) patience() time.Duration {
	if s.Behind > 0 {
		return s.Behind
	}
	return Behind
}

// skip goes to the present, and counts what lies between.
func (s *Stream) skip(ctx context.Context, heads map[int]sluice.Position, late []int) (p Part, err error) {
	for _, part := range late {
		end := store.EndOf(part, heads[part])
		sums, err := s.Heads.Store.FeedCount(ctx, s.at[part], end, mostCounted, s.Filter.App, s.Filter.User)
		if err != nil {
			return p, err
		}
		counted := int64(0)
		for _, sum := range sums {
			if counted += sum.Count; s.Filter.TakesType(sum.Kind, sum.Name) {
				p.Missed += sum.Count
			}
		}
		p.AtLeast = p.AtLeast || counted == mostCounted
	}
	for _, part := range late { // when all could be counted
		s.at[part] = store.EndOf(part, heads[part])
		delete(s.late, part)
	}
	s.Heads.Streams.Missed.Add(p.Missed)
	p.More = true
	return p, nil
}

// ID names where the stream is: another stream that begins there misses nothing. It has
// the place of each partition, since there is no order between them.
func (s *Stream) ID() string {
	b := []byte{idVersion}
	for _, part := range slices.Sorted(maps.Keys(s.at)) {
		at := s.at[part]
		index := uint64(at.Index + 2) // from 1: a place may be before the first item
		if at.Index == math.MaxInt32 {
			index = 0
		}
		for _, n := range []uint64{uint64(part), at.Position.Major, at.Position.Minor, index} {
			b = binary.AppendUvarint(b, n)
		}
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

// parse reads an id. A partition that it does not have begins at the present.
func (s *Stream) parse(id string) error {
	b, err := base64.RawURLEncoding.DecodeString(id)
	if err != nil || len(b) == 0 || b[0] != idVersion {
		return errID
	}
	for b = b[1:]; len(b) > 0; {
		var n [4]uint64
		for i := range n {
			var read int
			if n[i], read = binary.Uvarint(b); read <= 0 {
				return errID
			}
			b = b[read:]
		}
		part := int(min(n[0], math.MaxInt32))
		if _, known := s.at[part]; !known || n[3] > math.MaxInt32 {
			return errID
		}
		at := sluice.Place{Partition: part, Position: sluice.Position{Major: n[1], Minor: n[2]}, Index: int(n[3]) - 2}
		if n[3] == 0 {
			at.Index = math.MaxInt32
		}
		s.at[part] = at
	}
	return nil
}

// IsIDError reports whether Begin has refused an id.
func IsIDError(err error) bool { return errors.Is(err, errID) }
