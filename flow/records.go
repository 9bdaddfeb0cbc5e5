package flow

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"

	"github.com/redis/rueidis"
)

// Sizes of records.
const (
	// RecordBytes is one record: where a person is in a journey. One that is there
	// is not all zeros.
	RecordBytes = 16

	// BlockRecords is how many records one string has: with its header it fills
	// 8 KiB, which is one size class of Redis's allocator. 512 would take 10 KiB.
	BlockRecords = 511

	// ChunkBlocks is how many blocks a chunk of people has.
	ChunkBlocks  = 32
	ChunkRecords = ChunkBlocks * BlockRecords

	// listEntryBytes is an entry of a list: an offset and a record.
	listEntryBytes = 2 + RecordBytes

	// listEntriesAtMost is how many a list may have: with more it is no smaller
	// than a block.
	listEntriesAtMost = BlockRecords * RecordBytes / listEntryBytes

	denseBytes = BlockRecords * RecordBytes

	// changeBytes is how many bytes of a string cost as much as one change that is written
	// by itself: a call of the script takes Redis 3 µs, and 90 bytes of its file. A string is
	// written as a whole if its changes cost more: 24 of them in a block.
	changeBytes = 341

	// unitsAtOnce bounds the strings that one call reads: 512 KiB of records; of ways up to
	// 40 MB.
	unitsAtOnce = 64
)

// Record is one, as flow sees it: bytes. Package journey says what they mean.
type Record [RecordBytes]byte

// IsZero reports whether nothing is there.
func (r *Record) IsZero() bool { return *r == Record{} }

// Records are the records of the people of one partition in one journey.
//
// The idea. People have numbers from 1, given in their order of arrival. So the
// numbers of a journey that everybody is in are dense. A record stands in a
// string at the place of its number, and takes 16.2 bytes in all. A journey that
// few are in has lists instead, of number and record. A chunk of 16,352 people
// is one list. When that is full the chunk is divided into blocks of 511 people.
// A block is a list too, until the list would be as large as the string of all
// its records. So 1 % of all people take 20 bytes each.
//
// There is no index in Redis of who is due when. The holder of the partition's
// lease keeps in memory, for each unit (a list or a block), the earliest time in
// it: 4 bytes for up to 511 people. It reads all units once when it begins. What
// is due together lies together, in the order of the profiles.
//
// The invariants. Only Commit changes records, by the operations of units, and
// only one goroutine of the lease's holder makes these. A record is in one
// place. Lists keep room for a few more entries, so that a change that comes alone
// is a SETRANGE of some bytes. Where several come, the append-only file gets
// the whole string, if that is cheaper (changeBytes).
//
// What was tried and dropped. Cohorts, sets of up to 512 numbers that are due
// together: 1.6 to 2.4 bytes a person more, they have to be regrouped by block
// when they are due, and each step writes them anew. A sorted set of people by
// time: 104 bytes each. APPEND for lists: Redis then keeps as much room again.
type Records struct {
	log     *Log
	journey int

	// divided says of each chunk whether it is divided into blocks. The chunks
	// behind the last have nobody. Redis knows of so many of them.
	divided []bool
	known   int
}

// Records returns those of a journey, by its number. Load must be called first.
func (l *Log) Records(journey int) *Records { return &Records{log: l, journey: journey} }

// Unit is a string of records: a list or a block. Beside each is one of ways (ways.go).
type Unit struct {
	key   string
	first int64 // the number of the person at its first place
	span  int   // how many people it is for
	data  []byte
	near  int // the entry of a list that was found last: people are asked for in their order, mostly

	changed []int // entries or places that were changed
	whole   bool  // it is written as a whole

	isWays bool // data is ways; changed are bytes, or entries
}

// First is the number of the first person whom it is for, Span how many there
// are.
func (u *Unit) First() int64 { return u.first }
func (u *Unit) Span() int    { return u.span }

// dividedMark is what the key of a chunk has that is divided.
const dividedMark = "b"

// Load reads all records and hands each unit that has any to f, in their order, and
// those chunks that were divided. The unit's memory is f's.
func (r *Records) Load(ctx context.Context, f func(u *Unit) error) error {
	p := r.log.partition
	text, err := Ask(ctx, r.log.redis, "read journeys", r.log.redis.B().Hget().Key(p.journeysKey()).Field(strconv.Itoa(r.journey)).Build(), Text)
	if err != nil {
		return err
	}
	chunks := 0
	if text != "" {
		if chunks, err = strconv.Atoi(text); err != nil || chunks < 0 {
			return fmt.Errorf("read journey %d of partition %d: %q is no number of chunks", r.journey, p.Number, text)
		}
	}
	r.divided, r.known = make([]bool, chunks), chunks
	all := make([]*Unit, chunks)
	for i := range all {
		all[i] = r.chunk(i)
	}
	for piece := range slices.Chunk(all, unitsAtOnce) {
		if err := r.Read(ctx, piece); err != nil {
			return err
		}
		for _, u := range piece {
			if err := r.loaded(ctx, u, f); err != nil {
				return err
			}
		}
	}
	return nil
}

// loaded hands a chunk on, or the blocks that it is divided into.
func (r *Records) loaded(ctx context.Context, u *Unit, f func(u *Unit) error) error {
	if string(u.data) != dividedMark {
		if len(u.data) == 0 {
			return nil
		}
		return f(u)
	}
	chunk := int((u.first - 1) / ChunkRecords)
	r.divided[chunk] = true
	if err := f(u); err != nil {
		return err
	}
	blocks := r.blocks(chunk)
	if err := r.Read(ctx, blocks); err != nil {
		return err
	}
	for _, b := range blocks {
		if len(b.data) > 0 {
			if err := f(b); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *Records) chunk(i int) *Unit {
	return &Unit{key: r.log.partition.chunkKey(r.journey, i), first: int64(i)*ChunkRecords + 1, span: ChunkRecords}
}

func (r *Records) block(i int64) *Unit {
	return &Unit{key: r.log.partition.blockKey(r.journey, i), first: i*BlockRecords + 1, span: BlockRecords}
}

// blocks are those of a chunk.
func (r *Records) blocks(chunk int) []*Unit {
	all := make([]*Unit, ChunkBlocks)
	for i := range all {
		all[i] = r.block(int64(chunk)*ChunkBlocks + int64(i))
	}
	return all
}

// Of returns the unit, not read yet, that has the record of a person.
func (r *Records) Of(number int64) *Unit {
	chunk := int((number - 1) / ChunkRecords)
	if chunk < len(r.divided) && r.divided[chunk] {
		return r.block((number - 1) / BlockRecords)
	}
	return r.chunk(chunk)
}

// RecordOf reads the record of one person in a journey, by its number, without a lease
// and without Load; a zero one: there is none. It may be older than a commit that is
// under way.
func (l *Log) RecordOf(ctx context.Context, journey int, number int64) (Record, error) {
	if number < 1 {
		return Record{}, nil
	}
	r := l.Records(journey)
	u := r.chunk(int((number - 1) / ChunkRecords))
	if err := r.Read(ctx, []*Unit{u}); err != nil {
		return Record{}, err
	}
	if string(u.data) == dividedMark { // a chunk that is divided stays so
		u = r.block((number - 1) / BlockRecords)
		if err := r.Read(ctx, []*Unit{u}); err != nil {
			return Record{}, err
		}
	}
	return u.Get(number), nil
}

// RecordsOf reads the records of people in a journey as RecordOf does, of 32 at most by
// one call.
func (l *Log) RecordsOf(ctx context.Context, journey int, numbers []int64) ([]Record, error) {
	r := l.Records(journey)
	found := make([]Record, len(numbers))
	for from := 0; from < len(numbers); from += unitsAtOnce / 2 {
		piece := numbers[from:min(from+unitsAtOnce/2, len(numbers))]
		units := make(map[string]*Unit, 2)
		var all []*Unit
		for _, n := range piece {
			for _, u := range r.places(n) {
				if units[u.key] == nil {
					units[u.key] = u
					all = append(all, u)
				}
			}
		}
		if err := r.Read(ctx, all); err != nil {
			return nil, err
		}
		for i, n := range piece {
			if n < 1 {
				continue
			}
			u := units[r.chunk(int((n-1)/ChunkRecords)).key]
			if string(u.data) == dividedMark {
				u = units[r.block((n-1)/BlockRecords).key]
			}
			found[from+i] = u.Get(n)
		}
	}
	return found, nil
}

// places are the units that may have the record of a person: one of them has.
func (r *Records) places(number int64) []*Unit {
	if number < 1 {
		return nil
	}
	return []*Unit{r.chunk(int((number - 1) / ChunkRecords)), r.block((number - 1) / BlockRecords)}
}

// Read reads units, unitsAtOnce at most in a call.
func (r *Records) Read(ctx context.Context, units []*Unit) error {
	for piece := range slices.Chunk(units, unitsAtOnce) {
		keys := make([]string, len(piece))
		for i, u := range piece {
			keys[i] = u.key
		}
		values, err := Ask(ctx, r.log.redis, "read records of journeys", r.log.redis.B().Mget().Key(keys...).Build(), rueidis.RedisResult.ToArray)
		if err != nil {
			return err
		}
		if len(values) != len(piece) {
			return fmt.Errorf("read records of partition %d: %d answers for %d keys", r.log.partition.Number, len(values), len(piece))
		}
		for i, u := range piece {
			data, err := values[i].AsBytes() // the answer's own: nobody else reads it
			if err != nil && !rueidis.IsRedisNil(err) {
				return r.log.redis.wrap("read records of journeys", err)
			}
			if u.data = data; !u.valid() {
				return fmt.Errorf("read records of partition %d: %s has %d bytes, which is neither a list nor a block", r.log.partition.Number, u.key, len(u.data))
			}
		}
	}
	return nil
}

// valid reports whether its bytes are what a unit may have.
func (u *Unit) valid() bool {
	if u.isWays {
		return u.validWays()
	}
	if u.dense() || u.span == ChunkRecords && string(u.data) == dividedMark {
		return true
	}
	return len(u.data)%listEntryBytes == 0 && len(u.data)/listEntryBytes <= listEntriesAtMost
}

// dense reports whether each record is at its place.
func (u *Unit) dense() bool { return u.span == BlockRecords && len(u.data) == denseBytes }

// Each calls f for each record, in no order of numbers.
func (u *Unit) Each(f func(number int64, r *Record)) {
	if u.dense() {
		for i := range BlockRecords {
			if r := (*Record)(u.data[i*RecordBytes:]); !r.IsZero() {
				f(u.first+int64(i), r)
			}
		}
		return
	}
	for at := 0; at+listEntryBytes <= len(u.data); at += listEntryBytes {
		if r := (*Record)(u.data[at+2:]); !r.IsZero() {
			f(u.first+int64(binary.LittleEndian.Uint16(u.data[at:])), r)
		}
	}
}

// Get returns the record of a person; a zero one: there is none.
func (u *Unit) Get(number int64) Record {
	if at, ok := u.find(number); ok {
		return *(*Record)(u.data[at:])
	}
	return Record{}
}

// find returns where the record of a person is. Without one ok is false, and
// where there is room, or -1. What is searched is nearly always there.
func (u *Unit) find(number int64) (at int, ok bool) {
	offset := int(number - u.first)
	if u.dense() {
		return offset * RecordBytes, true
	}
	entries := len(u.data) / listEntryBytes
	if u.near >= entries {
		u.near = 0
	}
	for i := range entries {
		entry := u.near + i
		if entry >= entries {
			entry -= entries
		}
		at := entry * listEntryBytes
		if int(binary.LittleEndian.Uint16(u.data[at:])) == offset && !(*Record)(u.data[at+2:]).IsZero() {
			u.near = entry
			return at + 2, true
		}
	}
	for at := 2; at+RecordBytes <= len(u.data); at += listEntryBytes {
		if (*Record)(u.data[at:]).IsZero() {
			return at, false
		}
	}
	return -1, false
}

// Set sets the record of a person; a zero one removes it. It reports whether
// there was room: if not, the unit is unchanged and must be divided.
func (u *Unit) Set(number int64, r Record) bool {
	at, ok := u.find(number)
	switch {
	case !ok && r.IsZero():
		return true
	case at < 0 && !u.grow():
		return false
	case at < 0:
		at, _ = u.find(number)
	}
	if !u.dense() {
		binary.LittleEndian.PutUint16(u.data[at-2:], uint16(number-u.first))
	}
	copy(u.data[at:], r[:])
	u.changed = append(u.changed, at)
	return true
}

// grow makes room for one more entry at least. A list that is full becomes a
// block, if it is one's.
func (u *Unit) grow() bool {
	entries := len(u.data) / listEntryBytes
	u.whole = true
	if entries < listEntriesAtMost {
		more := min(max(entries/8, 1), listEntriesAtMost-entries)
		u.data = append(u.data, make([]byte, more*listEntryBytes)...)
		return true
	}
	if u.span != BlockRecords {
		u.whole = false
		return false
	}
	dense := make([]byte, denseBytes)
	u.Each(func(number int64, r *Record) { copy(dense[int(number-u.first)*RecordBytes:], r[:]) })
	u.data = dense
	return true
}

// Divide divides a full chunk: its records are in the blocks returned, which
// are written together with it.
func (r *Records) Divide(u *Unit) []*Unit {
	chunk := int((u.first - 1) / ChunkRecords)
	blocks := r.blocks(chunk)
	u.Each(func(number int64, record *Record) {
		blocks[(number-u.first)/BlockRecords].Set(number, *record)
	})
	u.data, u.changed, u.whole = []byte(dividedMark), nil, true
	for len(r.divided) <= chunk {
		r.divided = append(r.divided, false)
	}
	r.divided[chunk] = true
	return blocks
}

// Changed reports whether Operations has something.
func (u *Unit) Changed() bool { return u.whole || len(u.changed) > 0 }

// Operations are the operations of a commit that write what was changed in
// units. Afterwards they count as unchanged. Of units that are behind all there
// were, that is noted too.
func (r *Records) Operations(units []*Unit) (all []Operation) {
	chunks := r.known
	for _, u := range units {
		if !u.Changed() {
			continue
		}
		chunks = max(chunks, int((u.first-1)/ChunkRecords)+1)
		if u.isWays {
			all = append(all, u.waysOperations()...)
		} else {
			all = append(all, u.operations()...)
		}
		u.changed, u.whole = u.changed[:0], false
	}
	if chunks > r.known {
		r.known = chunks
		key := r.log.partition.journeysKey()
		all = append(all, Operation{Keys: []string{key}, Words: []string{"HSET", key, strconv.Itoa(r.journey), strconv.Itoa(chunks)}})
	}
	return all
}

// rewrites reports whether all of a unit is written, not each change.
func (u *Unit) rewrites() bool { return u.whole || len(u.changed)*changeBytes >= len(u.data) }

func (u *Unit) operations() (all []Operation) {
	keys := []string{u.key}
	if u.rewrites() {
		return []Operation{{Keys: keys, Words: []string{"SET", u.key, rueidis.BinaryString(u.data)}}}
	}
	for _, at := range u.changed {
		from := at
		if !u.dense() {
			from -= 2
		}
		all = append(all, Operation{Keys: keys, Words: []string{"SETRANGE", u.key, strconv.Itoa(from), rueidis.BinaryString(u.data[from : at+RecordBytes])}})
	}
	return all
}

// NoteOf returns a note of the partition's journeys: a text that a commit has set
// (Note), empty if none has.
func (l *Log) NoteOf(ctx context.Context, name string) (string, error) {
	return Ask(ctx, l.redis, "read a note of journeys", l.redis.B().Hget().Key(l.partition.journeysKey()).Field(noteMark+name).Build(), Text)
}

// Note is the operation of a commit that sets a note, or with an empty text removes it.
func (l *Log) Note(name, text string) Operation {
	key := l.partition.journeysKey()
	if text == "" {
		return Operation{Keys: []string{key}, Words: []string{"HDEL", key, noteMark + name}}
	}
	return Operation{Keys: []string{key}, Words: []string{"HSET", key, noteMark + name, text}}
}

// noteMark begins the fields that are notes: others are numbers of journeys.
const noteMark = "@"

// ClearJourneys removes all records of the partition, for a restore: the next process
// that opens it takes them from the checkpoint that was restored, because the cursor of
// what counts their changes is gone. Without one, as in a backup of an earlier version,
// facts up to now count as read, so that nobody is let into a journey a second time.
func (l *Log) ClearJourneys(ctx context.Context, nowMillis int64) error {
	p := l.partition
	if err := l.redis.Do(ctx, "empty journeys", l.redis.B().Hdel().Key(p.cursorsKey()).Field(JourneysFollower).Build()); err != nil {
		return err
	}
	fields, err := l.JourneyFields(ctx)
	if err != nil {
		return err
	}
	for _, journey := range JourneysIn(fields) {
		chunks, err := strconv.Atoi(fields[strconv.Itoa(journey)])
		if err != nil {
			return fmt.Errorf("empty journey %d of partition %d: %w", journey, p.Number, err)
		}
		for chunk := range chunks {
			if err := l.unlink(ctx, p.unitKeys(journey, chunk)); err != nil {
				return err
			}
		}
	}
	if err := l.unlink(ctx, []string{p.journeysKey()}); err != nil {
		return err
	}
	note := l.Note(FactsNote, fmt.Sprintf("%d-0/0", nowMillis))
	return l.redis.Do(ctx, "empty journeys", l.redis.B().Arbitrary(note.Words[0]).Keys(note.Words[1]).Args(note.Words[2:]...).Build())
}

// unitKeys are the keys of all units of a chunk.
func (p Partition) unitKeys(journey, chunk int) []string {
	keys := []string{p.chunkKey(journey, chunk)}
	for b := range ChunkBlocks {
		keys = append(keys, p.blockKey(journey, int64(chunk)*ChunkBlocks+int64(b)))
	}
	for _, key := range keys {
		keys = append(keys, waysKey(key))
	}
	return keys
}

// JourneysFollower is the follower under which changes of records are committed.
const JourneysFollower = "journey"

// FactsNote is the note of up to where facts were applied: MAJOR-MINOR/ITEM.
const FactsNote = "facts"
