// Package set holds in memory the addresses that must not be mailed: a table of 64-bit hashes
// that many goroutines read while others change it.
package set

import (
	"hash/maphash"
	"math"
	"math/bits"
	"sync"
	"sync/atomic"

	"sluice"
)

// Set is a set of texts, each with one or more marks.
//
// The idea. A text is a 64-bit hash under a key that is drawn when the set is
// made (hash/maphash). The first eight bits of it choose one of 256 tables; the
// other 56 and the mark are one word. An entry is eight bytes, and is read and
// written as a whole. Eight places for entries are a line, and each line has
// eight tags, a byte of the hash of each entry. An entry is in the line that
// its hash names or in the next one with a free place. At most 3/4 of the
// places are in use. A look for what is not there, as most are, ends at the
// tags. They take 1.3 bytes an entry, which the machine's caches hold, where
// the whole does not fit them. 10,000,000 entries cost some 125 MB. A text with
// two marks is two entries, and a look finds both.
//
// The invariants. A writer of a table holds its lock; a reader holds none. A
// word is written before its tag, an end before its word, and what is removed
// loses its tag. So a reader sees each entry as it was before or as it is
// after. Places of what is gone are taken again, but are not free: a look goes
// on behind them. A table that is too full is written anew beside, and its
// pointer is changed when it is whole.
//
// What it gives up. Two texts may have one hash. Of n entries one is taken for
// a text that was never added with a probability of n / 2^64. With 10,000,000
// entries that is 5e-13 a look. So of a hundred million mails a month one is
// wrongly held back in 1,500 years. Keeping the texts would cost three times
// the memory, and asking the database about each match a round trip. The key
// differs in each process and after each start. So nobody can make up an
// address that is found, and what was found by chance is not found the next
// time.
//
// What was tried and dropped. Words without tags, in places one by one or in
// lines. Every look waits for memory, 220 to 320 ns on a machine that others
// use, where one read of memory takes 220. Locks of readers (sync.RWMutex, one
// a table): every look reads the few domains, and would write to their lock.
// Large pages for the words too. They are read for one look in ten, and one
// large piece of memory would stay until the last of the tables has outgrown
// it. Fewer places in use, 5/8, for fewer looks at a second line: they cost as
// much, and 24 MB more.
type Set struct {
	seed   maphash.Seed
	clock  sluice.Clock
	count  atomic.Int64
	tables [tables]table
}

// Mark is what is known of an entry besides that it is there: seven bits, not
// all of them 0.
type Mark byte

// MaxMark is the largest mark.
const MaxMark Mark = 1<<7 - 1

const (
	tableBits = 8
	tables    = 1 << tableBits

	// A word is 56 bits of the hash, mayEnd, and the mark.
	mayEnd   = 1 << 7
	hashMask = ^uint64(1<<8 - 1)

	// Tags of places without an entry; those of entries are above.
	tagFree = 0
	tagGone = 1

	// A table whose places are more than 3/4 in use is written anew, so large
	// that 9/16 are. That is a third larger, if nothing has been removed.
	linePlaces       = 8
	fullNum, fullDen = 3, 4
	roomNum, roomDen = 16, 9
)

type table struct {
	places atomic.Pointer[places]

	mu   sync.Mutex
	live int // entries
	used int // entries, and what is gone
}

type places struct {
	tags  []atomic.Uint64 // of a line each, its first place's in the lowest byte
	words []atomic.Uint64
	ends  atomic.Pointer[[]atomic.Uint32] // in seconds since 1970, of entries with mayEnd; nil: there are none
}

func newPlaces(n int) *places {
	return placesOf(make([]atomic.Uint64, linesOf(n)))
}

// placesOf returns empty places with such tags, one word for each line.
func placesOf(tags []atomic.Uint64) *places {
	return &places{tags: tags, words: make([]atomic.Uint64, len(tags)*linePlaces)}
}

// linesOf is how many lines so many places are.
func linesOf(places int) int { return max(1, (places+linePlaces-1)/linePlaces) }

// New returns an empty set. The clock says when entries end.
func New(clock sluice.Clock) *Set { return &Set{seed: maphash.MakeSeed(), clock: clock} }

// Hash is a text as the set knows it. Other sets know it otherwise.
type Hash uint64

// Hash returns the hash of a text.
func (s *Set) Hash(text []byte) Hash { return Hash(maphash.Bytes(s.seed, text)) }

// HashOf returns the hash of a text.
func (s *Set) HashOf(text string) Hash { return Hash(maphash.String(s.seed, text)) }

// Len returns how many entries there are, those that have ended and are still
// in memory included.
func (s *Set) Len() int { return int(s.count.Load()) }

// Find returns the smallest mark of a text that has all bits of `with` and none
// of `without`; 0: there is none. It allocates nothing and waits for nobody.
func (s *Set) Find(h Hash, with, without Mark) (found Mark) {
	p := s.tables[h>>(64-tableBits)].places.Load()
	if p == nil {
		return 0
	}
	hash := uint64(h) << tableBits
	tag := tagOf(hash)
	for line := p.start(hash); ; line = p.next(line) {
		tags := p.tags[line].Load()
		for m := places8(tags, tag); m != 0; m &= m - 1 {
			i := line*linePlaces + bits.TrailingZeros64(m)/8
			word := p.words[i].Load()
			if mark := Mark(word) & MaxMark; word&hashMask == hash && (found == 0 || mark < found) &&
				mark&with == with && mark&without == 0 && (word&mayEnd == 0 || p.lasts(i, word, s.clock)) {
				found = mark
			}
		}
		if places8(tags, tagFree) != 0 {
			return found
		}
	}
}

// Near reads the tags that looks for these hashes begin with, and so brings
// them into the processor's caches. Reads that do not wait for each other take
// 4 to 12 ns each where one alone takes 70 to 160. So it is worth it for a few
// at once.
func (s *Set) Near(hashes []Hash) {
	for _, h := range hashes {
		if p := s.tables[h>>(64-tableBits)].places.Load(); p != nil {
			p.tags[p.start(uint64(h)<<tableBits)].Load()
		}
	}
}

// tagOf is the tag of a hash, from bits that decide nothing else.
func tagOf(hash uint64) byte {
	tag := byte(hash >> 8)
	if tag <= tagGone {
		tag += 2
	}
	return tag
}

const lowBits, highBits = 0x0101010101010101, 0x8080808080808080

// places8 returns the high bit of each byte of tags that is one tag, and perhaps
// of bytes above the first such (Hacker's Delight, 6-1).
func places8(tags uint64, tag byte) uint64 {
	x := tags ^ lowBits*uint64(tag)
	return (x - lowBits) &^ x & highBits
}

// start is the line that a hash names: the part of all lines that it is of all
// hashes.
func (p *places) start(hash uint64) int {
	high, _ := bits.Mul64(hash, uint64(len(p.tags)))
	return int(high)
}

func (p *places) next(line int) int {
	if line++; line == len(p.tags) {
		return 0
	}
	return line
}

// lasts reports whether the entry in a place is there and has not ended.
func (p *places) lasts(i int, word uint64, clock sluice.Clock) bool {
	end := (*p.ends.Load())[i].Load()
	return int64(end) > clock.Now().Unix() && p.words[i].Load() == word
}

// EndSeconds is an end as Add takes it, from milliseconds since 1970; 0 stays 0.
func EndSeconds(millis int64) uint32 {
	if millis <= 0 {
		return 0
	}
	return uint32(min((millis+999)/1000, math.MaxUint32))
}

// Add adds an entry that ends at a second since 1970; 0: never. Of one that is
// there it sets the end.
func (s *Set) Add(h Hash, mark Mark, end uint32) {
	t := &s.tables[h>>(64-tableBits)]
	t.mu.Lock()
	defer t.mu.Unlock()
	word := uint64(h)<<tableBits | uint64(mark)
	if end != 0 {
		word |= mayEnd
	}
	p := t.places.Load()
	if p == nil {
		p = t.rewrite(s, newPlaces(linePlaces))
	}
	i, there := p.search(word)
	switch {
	case there:
		p.put(i, word, end)
		return
	case p.tag(i) == tagGone:
	case (t.used+1)*fullDen > len(p.words)*fullNum:
		p = t.rewrite(s, newPlaces((t.lasting(s.clock)+1)*roomNum/roomDen))
		i, _ = p.search(word)
		t.used++
	default:
		t.used++
	}
	p.put(i, word, end)
	p.setTag(i, tagOf(word&hashMask))
	t.live++
	s.count.Add(1)
}

// search returns the place of an entry with the hash and the mark of a word, or
// the one where it goes.
func (p *places) search(word uint64) (i int, there bool) {
	tag, goes := tagOf(word&hashMask), -1
	for line := p.start(word & hashMask); ; line = p.next(line) {
		tags := p.tags[line].Load()
		for m := places8(tags, tag); m != 0; m &= m - 1 {
			i := line*linePlaces + bits.TrailingZeros64(m)/8
			if p.tag(i) == tag && (p.words[i].Load()^word)&^mayEnd == 0 {
				return i, true
			}
		}
		if m := places8(tags, tagGone); m != 0 && goes < 0 {
			goes = line*linePlaces + bits.TrailingZeros64(m)/8
		}
		if m := places8(tags, tagFree); m != 0 {
			if goes < 0 {
				goes = line*linePlaces + bits.TrailingZeros64(m)/8
			}
			return goes, false
		}
	}
}

func (p *places) tag(i int) byte {
	return byte(p.tags[i/linePlaces].Load() >> (8 * (i % linePlaces)))
}

func (p *places) setTag(i int, tag byte) {
	shift := 8 * (i % linePlaces)
	tags := &p.tags[i/linePlaces]
	tags.Store(tags.Load()&^(0xff<<shift) | uint64(tag)<<shift)
}

// put writes an entry, its end first.
func (p *places) put(i int, word uint64, end uint32) {
	if end != 0 {
		ends := p.ends.Load()
		if ends == nil {
			made := make([]atomic.Uint32, len(p.words))
			ends = &made
			p.ends.Store(ends)
		}
		(*ends)[i].Store(end)
	}
	p.words[i].Store(word)
}

// Remove removes an entry. One that is not there is no error.
func (s *Set) Remove(h Hash, mark Mark) {
	t := &s.tables[h>>(64-tableBits)]
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.places.Load()
	if p == nil {
		return
	}
	if i, there := p.search(uint64(h)<<tableBits | uint64(mark)); there {
		p.setTag(i, tagGone)
		t.live--
		s.count.Add(-1)
	}
}

// lasting counts the entries that have not ended.
func (t *table) lasting(clock sluice.Clock) (n int) {
	p := t.places.Load()
	for i := range p.words {
		if p.lastsAt(i, clock) {
			n++
		}
	}
	return n
}

// lastsAt reports whether a place has an entry that has not ended.
func (p *places) lastsAt(i int, clock sluice.Clock) bool {
	word := p.words[i].Load()
	return p.tag(i) > tagGone && (word&mayEnd == 0 || p.lasts(i, word, clock))
}

// rewrite writes a table anew into empty places, without what is gone or has
// ended. Readers go on in the old ones until the new ones are whole.
func (t *table) rewrite(s *Set, next *places) *places {
	before := t.live
	t.live = 0
	if p := t.places.Load(); p != nil {
		for i := range p.words {
			if !p.lastsAt(i, s.clock) {
				continue
			}
			word, end := p.words[i].Load(), uint32(0)
			if word&mayEnd != 0 {
				end = (*p.ends.Load())[i].Load()
			}
			j, _ := next.search(word)
			next.put(j, word, end)
			next.setTag(j, tagOf(word&hashMask))
			t.live++
		}
	}
	t.used = t.live
	s.count.Add(int64(t.live - before))
	t.places.Store(next)
	return next
}

// Reserve makes room for so many entries in all, so that adding them writes no
// table anew. It is for a set that is empty. The tags of all tables are one
// piece of memory then, in large pages where the system has them.
func (s *Set) Reserve(entries int) {
	each := float64(entries) / tables
	each += 4 * math.Sqrt(each) // how far one table is from the mean
	lines := linesOf(int(each)*fullDen/fullNum + linePlaces)
	tags := makeWords(lines * tables)
	for i := range s.tables {
		t := &s.tables[i]
		t.mu.Lock()
		t.rewrite(s, placesOf(tags[i*lines:(i+1)*lines:(i+1)*lines]))
		t.mu.Unlock()
	}
}
