package flow

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"sluice"
)

// What a checkpoint of a partition's journeys needs of Redis: names for units, all that
// is noted beside them, and writing both anew.

// unitsOfChunk is how many names a chunk has: two of its own, and two for each of its
// blocks, one of records and one of ways.
const unitsOfChunk = 2 * (1 + ChunkBlocks)

// ID names a unit among those of its journey in its partition.
func (u *Unit) ID() int64 {
	id := (u.first - 1) / ChunkRecords * unitsOfChunk
	if u.span != ChunkRecords {
		id += 2 * (1 + (u.first-1)/BlockRecords%ChunkBlocks)
	}
	if u.isWays {
		id++
	}
	return id
}

// Unit returns the unit of a name, not read yet.
func (r *Records) Unit(id int64) *Unit {
	chunk, n := id/unitsOfChunk, id%unitsOfChunk
	u := r.chunk(int(chunk))
	if n > 1 {
		u = r.block(chunk*ChunkBlocks + n/2 - 1)
	}
	if n%2 == 1 {
		return u.ways()
	}
	return u
}

// LoadWays reads all ways, of people of whom Load has read the records, and hands each
// unit that has any to f.
func (r *Records) LoadWays(ctx context.Context, f func(u *Unit) error) error {
	var all []*Unit
	for chunk, divided := range r.divided {
		of := []*Unit{r.chunk(chunk)}
		if divided {
			of = append(of, r.blocks(chunk)...)
		}
		for _, u := range of {
			all = append(all, u.ways())
		}
	}
	for piece := range slices.Chunk(all, unitsAtOnce) {
		if err := r.Read(ctx, piece); err != nil {
			return err
		}
		for _, u := range piece {
			if len(u.data) > 0 {
				if err := f(u); err != nil {
					return err
				}
			}
		}
		clear(piece) // their memory is f's
	}
	return nil
}

// Bytes are a unit's, as Redis has them; none: it is not there.
func (u *Unit) Bytes() []byte { return u.data }

// JourneyFields are what Redis has of a partition's journeys beside their records, by
// field: how many chunks each has, and the notes. Recovery takes them (Fields).
func (l *Log) JourneyFields(ctx context.Context) (map[string]string, error) {
	return Ask(ctx, l.redis, "read what is noted of journeys", l.redis.B().Hgetall().Key(l.partition.journeysKey()).Build(), rueidis.RedisResult.AsStrMap)
}

// NoteIn is a note among such fields, empty if there is none.
func NoteIn(fields map[string]string, name string) string { return fields[noteMark+name] }

// SetNote sets a note among such fields.
func SetNote(fields map[string]string, name, text string) { fields[noteMark+name] = text }

// JourneysIn are the numbers of the journeys that have records, by such fields.
func JourneysIn(fields map[string]string) (numbers []int) {
	for field := range fields {
		if n, err := strconv.Atoi(field); err == nil {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	return numbers
}

// RecordsEnd is a number that no user of the partition exceeds of whom there are records of
// journeys: the end of the last chunk.
func (l *Log) RecordsEnd(ctx context.Context) (end int64, err error) {
	fields, err := l.JourneyFields(ctx)
	if err != nil {
		return 0, err
	}
	for _, journey := range JourneysIn(fields) {
		text := fields[strconv.Itoa(journey)]
		chunks, err := strconv.ParseInt(text, 10, 32)
		if err != nil {
			return 0, fmt.Errorf("read how many records journey %d has in partition %d: %q is no number of chunks", journey, l.Partition(), text)
		}
		end = max(end, chunks*ChunkRecords)
	}
	return end, nil
}

// Bounds of one commit of a recovery.
const (
	recoverBytes = CommitBytes
	recoverWords = 16_000
)

// Recovery writes the journeys of a partition anew: nothing of what Redis has of them
// stays. It is carried out by commits of the follower whose cursor counts the changes of
// records (JourneysFollower). So a process that has lost its lease, or was overtaken, writes nothing. The
// number in the cursor stays what it was until the last commit, which has the notes: a
// recovery that ends in the middle is begun again by the next process that looks.
type Recovery struct {
	Log      *Log
	Lease    *Lease
	From, To Reached
	Fields   map[string]string // see JourneyFields
	Items    []byte            // for the log, with the last commit

	at    Reached
	now   int64
	next  []Operation
	bytes int
	words int
}

// Run does it. each hands the units on: the number of a journey, a name and bytes.
func (r *Recovery) Run(ctx context.Context, nowMillis int64, each func(write func(journey int, unit int64, data []byte) error) error) error {
	r.at, r.now = r.From, nowMillis
	if err := r.clear(ctx); err != nil {
		return err
	}
	if err := each(func(journey int, unit int64, data []byte) error {
		u := r.Log.Records(journey).Unit(unit)
		if u.data = data; !u.valid() {
			return fmt.Errorf("write records of partition %d anew: unit %d of journey %d has %d bytes, which is neither a list nor a block", r.Log.Partition(), unit, journey, len(data))
		}
		return r.add(ctx, Operation{Keys: []string{u.key}, Words: []string{"SET", u.key, string(data)}})
	}); err != nil {
		return err
	}
	notes := fieldWords(r.Fields, func(field string) bool { return strings.HasPrefix(field, noteMark) })
	r.next = append(r.next, inPieces("HSET", r.Log.partition.journeysKey(), notes)...)
	return r.commit(ctx, r.To)
}

// clear removes all records that there are, and notes how many there will be: so the next
// clear finds them.
func (r *Recovery) clear(ctx context.Context) error {
	p := r.Log.partition
	before, err := r.Log.JourneyFields(ctx)
	if err != nil {
		return err
	}
	for _, journey := range JourneysIn(before) {
		chunks, err := strconv.Atoi(before[strconv.Itoa(journey)])
		if err != nil {
			return fmt.Errorf("read journey %d of partition %d: %w", journey, p.Number, err)
		}
		for chunk := range chunks {
			keys := p.unitKeys(journey, chunk)
			if err := r.add(ctx, Operation{Keys: keys, Words: append([]string{"UNLINK"}, keys...)}); err != nil {
				return err
			}
		}
	}
	key := p.journeysKey()
	counts := fieldWords(r.Fields, func(field string) bool { return !strings.HasPrefix(field, noteMark) })
	all := append([]Operation{{Keys: []string{key}, Words: []string{"DEL", key}}}, inPieces("HSET", key, counts)...)
	if err := r.flush(ctx); err != nil {
		return err
	}
	r.next = all // in one commit
	return r.flush(ctx)
}

// fieldWords are some of the fields with their values, in their order.
func fieldWords(fields map[string]string, which func(field string) bool) (words []string) {
	for _, field := range slices.Sorted(maps.Keys(fields)) {
		if which(field) {
			words = append(words, field, fields[field])
		}
	}
	return words
}

// add has an operation carried out by this commit or one to come.
func (r *Recovery) add(ctx context.Context, o Operation) error {
	r.next = append(r.next, o)
	r.words += len(o.Words) + len(o.Keys)
	for _, w := range o.Words {
		r.bytes += len(w)
	}
	if r.bytes < recoverBytes && r.words < recoverWords {
		return nil
	}
	return r.flush(ctx)
}

// flush commits what there is, under the number of before.
func (r *Recovery) flush(ctx context.Context) error {
	if len(r.next) == 0 {
		return nil
	}
	return r.commit(ctx, Reached{Position: sluice.Position{Major: r.From.Major, Minor: rand.Uint64()}})
}

func (r *Recovery) commit(ctx context.Context, to Reached) error {
	c := &Commit{Follower: JourneysFollower, From: r.at, To: to, Operations: r.next}
	if to == r.To {
		c.Log = r.Items
	}
	_, err := r.Log.Commit(ctx, r.Lease, c, r.now)
	if err != nil {
		return fmt.Errorf("write where people of partition %d are in journeys anew: %w", r.Log.Partition(), err)
	}
	r.at, r.next, r.bytes, r.words = to, r.next[:0], 0, 0
	return nil
}
