package flow

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"sluice"
	"sluice/lib/faults"
)

// Bounds of reading a list.
const (
	pageElements      = 2000
	firstPageElements = 64
	pageBytes         = 512 << 10

	// maxHeldChunks bounds how many chunks are held that are not applied.
	maxHeldChunks = 256

	// evenElementBytes is the mean element size up to which a chunk is read by
	// plain LRANGE; above it, pages are measured inside Redis (page.lua).
	evenElementBytes = 1 << 10

	// unevenBytes is how many bytes of a chunk may be in elements that its head
	// did not let expect, at least: of a large chunk a tenth of its memory, up to eight
	// times as much. sampledNodes is how many nodes of 8 KB are its head.
	unevenBytes  = 4 << 20
	sampledNodes = 64

	// A list is looked at this often while it is empty, growing slowly. This
	// ends when Redis is asked to say when it is not empty (listen.go), or goes
	// on if Redis cannot say. None of the looks writes, but each costs half a
	// millisecond of a slow core: 22 a second are 1 % of it. With the store's
	// wait an element of a quiet list is a row of a table within 100 ms all the same.
	pollSoonest = 2 * time.Millisecond
	pollLatest  = 45 * time.Millisecond

	// lostChunk is the size of a chunk that was held, not dropped, and is gone.
	// Its end is never reached: a read of it finds nothing, which is a gap.
	lostChunk = math.MaxUint64
)

// Side is the end of a foreign list where its oldest element is.
type Side string

// The sides: producers that RPUSH leave the oldest element left.
const (
	Left  Side = "left"
	Right Side = "right"
)

// List is a list that foreign programs push to, drained in place.
//
// The idea. The elements of the list are held by renaming the list, one step
// whatever its length. RENAME costs nothing per element. Taking by LRANGE,
// LTRIM and XADD in Lua costs 1.3 to 1.7 µs an element
// (docs/decisions/01-hold-by-rename.md). That is most of what a second core has
// to give beside a bulk load. No other program uses the held chunk. It is read
// by pages, bounded in count and bytes. It is dropped from its head as far as
// its follower has committed, at once or a while later (kept.go).
//
// The invariants. An element is in the list or in a chunk, never in both or
// neither. Chunks are numbered upwards and never pushed to. A Position is
// (number of the chunk, elements of it consumed). The follower's cursor is
// stored with its effect. The state here (last, first, base, done) says only
// what remains in Redis and what of it is applied. It may lag behind the cursor
// but never lead it. At most maxHeldChunks are not applied: beyond that the
// list itself is the back pressure.
//
// What was dropped. Copying batches into a stream (see above). Reading the list
// in place and trimming it by count. A producer that pushes at the other end,
// or an old consumer that still pops, moves what the count means.
type List struct {
	redis *Redis
	keys  listKeys
	name  string
	side  Side

	id string // not empty: these are hashes (hashes.go)

	deployment string // the deployment that drains it; empty: it is not checked
	replace    bool   // take it over from another deployment

	listenFor time.Duration // listenWait, but in tests

	deafUntil atomic.Int64 // Redis is not asked to say what changes before, in milliseconds since 1970
}

// BelongTo makes OpenKeeping refuse a list that another deployment drains: each would
// take half of it, and drop what the other has not stored. With replace it is
// taken over. To be called before anything else.
func (l *List) BelongTo(deployment string, replace bool) {
	l.deployment, l.replace = deployment, replace
}

// errForeign says that another deployment drains a list.
var errForeign = errors.New("it is drained by another installation of Sluice, with another database; " +
	"if this one takes its place, start once with --accept-gaps")

// askOwner asks which deployment drains the list.
func (l *List) askOwner() rueidis.Completed {
	return l.redis.B().Hget().Key(l.keys.stateKey()).Field("deployment").Build()
}

// checkOwner reads from the answer to askOwner whether this deployment may drain the list.
// Only OpenKeeping settles it.
func (l *List) checkOwner(answer rueidis.RedisResult) error {
	owner, err := Text(answer)
	if err != nil {
		return l.redis.wrap("ask whose "+l.String()+" is", err)
	}
	if owner != "" && owner != l.deployment && l.deployment != "" && !l.replace {
		return fmt.Errorf("redis %s: %s: %w", l.redis, l, errForeign)
	}
	return nil
}

// NewList returns a foreign list on a server.
func NewList(r *Redis, key string, side Side) (*List, error) {
	keys, err := newListKeys("list", key)
	if err != nil {
		return nil, err
	}
	if side != Left && side != Right {
		return nil, fmt.Errorf("list %s: take %q: want left or right", key, side)
	}
	return &List{redis: r, keys: keys, name: key, side: side, listenFor: listenWait}, nil
}

// Name returns the list's key; of hashes, the set's key, "@" and their id.
func (l *List) Name() string { return l.name }

// String says what it is, for messages.
func (l *List) String() string { return l.keys.kind + " " + l.name }

// Source names it in cursors, logs and dead letters.
func (l *List) Source() string { return l.keys.kind + ":" + l.name }

// Waiting returns how many elements are in the list, or keys in the set, not
// held yet.
func (l *List) Waiting(ctx context.Context) (int64, error) {
	count := l.redis.B().Llen().Key(l.keys.list).Build()
	if l.id != "" {
		count = l.redis.B().Scard().Key(l.keys.list).Build()
	}
	return Ask(ctx, l.redis, "measure "+l.String(), count, rueidis.RedisResult.AsInt64)
}

// Again puts the element of a dead letter back into the list, to be taken
// last. A repeat under the same name does nothing for a day.
func (l *List) Again(ctx context.Context, name string, element []byte) error {
	if l.id != "" {
		return l.countAgain(ctx, name, element)
	}
	_, err := l.redis.callInt(ctx, "push to "+l.String()+" again", "push",
		[]string{l.keys.list, l.keys.replayKey(name)}, []string{rueidis.BinaryString(element), string(l.side)})
	return err
}

// Page is a run of elements of one held chunk.
type Page struct {
	From, To sluice.Position
	Elements []string
	Bytes    int // about what they take in Redis
}

// Stretch is the page as a piece of the kept part of a list.
func (p *Page) Stretch() Stretch {
	return Stretch{First: p.From, Last: sluice.Position{Major: p.To.Major, Minor: p.To.Minor - 1}, Entries: len(p.Elements), Bytes: p.Bytes}
}

// ListReader reads a list under a lease, from a cursor. One goroutine calls
// Next and Close; any may call Committed and KeepFrom.
type ListReader struct {
	list  *List
	lease *Lease

	// Owned by the goroutine that calls Next.
	last   uint64          // the newest chunk held
	chunk  uint64          // the one being read; last+1: none
	next   uint64          // offset of the next element to read
	size   uint64          // elements of the chunk in all, dropped ones included
	even   bool            // elements of the chunk are small
	limit  int             // elements of the next page
	first  uint64          // the oldest chunk still in Redis
	base   uint64          // elements dropped from its head
	hole   uint64          // chunks hole+1 to raised were never there
	raised uint64          // (open.lua)
	done   sluice.Position // up to here it is applied, as Redis was told
	due    time.Time       // when hashes are drained next
	empty  bool            // a list had nothing at the last look
	told   bool            // Redis was told under this lease what cut is

	keeps bool // applied elements stay until KeepFrom says otherwise (kept.go)

	mu        sync.Mutex
	committed sluice.Position
	keep      sluice.Position // what lies before it is not kept
	cutKnown  bool            // cut is
	cut       time.Time       // when that was applied which went last for want of room; zero: nothing has
}

func (l *List) openAt(ctx context.Context, lease *Lease, cursor sluice.Position, keeps bool) (*ListReader, error) {
	r, ended, err := l.open(ctx, lease, cursor, keeps)
	if err != nil {
		return nil, err
	}
	if r.gapBehind(cursor, ended) {
		return nil, &GapError{What: l.String(), Cursor: cursor, Start: r.start()}
	}
	r.committed, r.keeps = cursor, keeps
	if r.first <= r.hole && r.hole < cursor.Major {
		r.KeepFrom(cursor, 0) // the elements missing in the hole were applied: no reader can go on from before it
	}
	r.goTo(cursor)
	if err := r.enter(ctx); err != nil {
		return nil, err
	}
	return r, r.drop(ctx)
}

// start is where the part in Redis begins.
func (r *ListReader) start() sluice.Position {
	return sluice.Position{Major: r.first, Minor: r.base}
}

// At returns the position of the element that is read next.
func (r *ListReader) At() sluice.Position {
	return sluice.Position{Major: r.chunk, Minor: r.next}
}

// goTo has the reader go on at a position, or at the first one after it that is
// there.
func (r *ListReader) goTo(p sluice.Position) {
	if p.Before(r.start()) {
		p = r.start()
	}
	if r.chunk, r.next = p.Major, p.Minor; r.chunk > r.hole && r.chunk <= r.raised {
		r.chunk, r.next = r.raised+1, 0
	}
}

// gapBehind reports whether elements after the cursor are gone.
func (r *ListReader) gapBehind(cursor, ended sluice.Position) bool {
	start := r.start()
	untouched := r.first == 1 && r.base == 0
	behindHole := r.first == r.raised+1 && cursor.Major > r.hole && cursor.Major <= r.raised
	return cursor.Before(start) && cursor != ended && !untouched && !behindHole
}

// OpenOldest begins to read with the oldest held element, for a follower whose
// cursors are in many places. newest is the furthest of them. Applied elements
// that another follower has kept are dropped.
func (l *List) OpenOldest(ctx context.Context, lease *Lease, newest sluice.Position) (*ListReader, error) {
	r, _, err := l.open(ctx, lease, newest, false)
	if err != nil {
		return nil, err
	}
	r.committed = r.done
	r.goTo(r.done)
	return r, r.enter(ctx)
}

// open reads the list's state and makes sure that no chunk number up to the
// cursor's is handed out again. ended is where the chunk before the oldest ended.
func (l *List) open(ctx context.Context, lease *Lease, cursor sluice.Position, keeps bool) (r *ListReader, ended sluice.Position, err error) {
	answer, err := l.redis.callTexts(ctx, "open "+l.String(), "open",
		[]string{lease.key, l.keys.stateKey()}, []string{
			lease.token, strconv.FormatUint(cursor.Major, 10), cursor.String(), l.deployment, strconv.FormatBool(l.replace), l.id, strconv.FormatBool(keeps)})
	if err != nil {
		return nil, ended, err
	}
	var n [5]uint64
	for i, text := range []string{answer[0], answer[1], answer[2], answer[4], answer[5]} {
		if n[i], err = strconv.ParseUint(text, 10, 64); err != nil {
			return nil, ended, fmt.Errorf("open %s: its state %q cannot be read: %w", l, answer, err)
		}
	}
	done, doneErr := sluice.ParsePosition(answer[6])
	if ended, err = sluice.ParsePosition(answer[3]); err != nil || doneErr != nil {
		return nil, ended, fmt.Errorf("open %s: its state %q cannot be read: %w", l, answer, errors.Join(err, doneErr))
	}
	r = &ListReader{list: l, lease: lease, limit: firstPageElements, last: n[0], first: n[1], base: n[2], hole: n[3], raised: n[4]}
	if done.Major > r.last+1 {
		done = sluice.Position{} // of a Redis that knew chunks that are not there: no follower has applied these
	}
	r.done = r.applied(done)
	return r, ended, nil
}

// enter looks at the chunk to be read: its size, and whether it is even.
func (r *ListReader) enter(ctx context.Context) error {
	if r.chunk > r.last {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	c, key := r.list.redis.client, r.list.keys.heldKey(r.chunk)
	answers := c.DoMulti(ctx,
		c.B().Llen().Key(key).Build(),
		c.B().MemoryUsage().Key(key).Samples(0).Build(),
		c.B().MemoryUsage().Key(key).Samples(sampledNodes).Build())
	n, err := answers[0].AsInt64()
	if err != nil {
		return r.list.redis.wrap("measure a held chunk of "+r.list.String(), err)
	}
	var memory [2]int64 // of all elements; of all, as the first ones let expect
	for i := range memory {
		if memory[i], err = answers[1+i].AsInt64(); err != nil && !rueidis.IsRedisNil(err) {
			return r.list.redis.wrap("measure a held chunk of "+r.list.String(), err)
		}
	}
	r.size, r.even = uint64(n), n == 0 || isEven(n, memory[0], memory[1])
	if r.chunk == r.first {
		r.size += r.base
	}
	if n == 0 {
		r.size = lostChunk
	}
	return nil
}

// isEven reports whether a chunk's elements are small and none can be much
// larger than the others: its memory is what its head lets expect. Pages by
// LRANGE are then bounded by their count.
func isEven(n, memory, expected int64) bool {
	unexpected := max(memory-expected, expected-memory)
	return memory/n <= evenElementBytes && unexpected <= max(unevenBytes, min(memory/10, 8*unevenBytes))
}

// leave goes on to the next chunk.
func (r *ListReader) leave() {
	r.chunk, r.next, r.size = r.after(r.chunk), 0, 0
}

// after returns the number of the chunk after one.
func (r *ListReader) after(chunk uint64) uint64 {
	if chunk++; chunk > r.hole && chunk <= r.raised {
		return r.raised + 1
	}
	return chunk
}

// Next returns the next page. With wait it waits for one until the context
// ends; without, it returns an empty page when nothing is there now. It fails
// with a *GapError, each time, when the chunk to be read is gone. To go on,
// tell Committed the gap's Start and open the list again.
func (r *ListReader) Next(ctx context.Context, wait bool) (Page, error) {
	pause := pollSoonest
	for {
		if err := r.drop(ctx); err != nil {
			return Page{}, err
		}
		for r.chunk <= r.last {
			if r.next < r.size {
				return r.read(ctx)
			}
			r.leave()
			if err := r.enter(ctx); err != nil {
				return Page{}, err
			}
		}
		held, err := r.hold(ctx)
		if err != nil {
			return Page{}, err
		}
		if held {
			continue
		}
		if !wait {
			return Page{}, nil
		}
		pause = r.await(ctx, pause, nil)
		if ctx.Err() != nil {
			return Page{}, ctx.Err()
		}
	}
}

// hold takes the elements that wait in the list, if any, as the next chunk.
// Nothing is held while maxHeldChunks are not applied yet.
func (r *ListReader) hold(ctx context.Context) (bool, error) {
	r.empty = false
	if r.last+1 >= r.done.Major+maxHeldChunks || time.Now().Before(r.due) {
		return false, nil
	}
	l := r.list
	script, args := "hold", []string{r.lease.token, strconv.FormatUint(r.last, 10)}
	if l.id != "" {
		script, args = "drain", append(args, drainBounds...)
	}
	if err := faults.Hit("take"); err != nil {
		return false, err
	}
	answer, err := l.redis.callTexts(ctx, "hold "+l.String(), script,
		[]string{r.lease.key, l.keys.list, l.keys.stateKey(), l.keys.heldKey(r.last + 1)}, args)
	if err != nil {
		return false, err
	}
	if err := faults.Hit("taken"); err != nil {
		return false, err
	}
	n, err := strconv.ParseInt(answer[0], 10, 64)
	if err != nil {
		return false, fmt.Errorf("hold %s: count %q: %w", l, answer[0], err)
	}
	last, err := strconv.ParseUint(answer[1], 10, 64)
	if err != nil {
		return false, fmt.Errorf("hold %s: chunk number %q: %w", l, answer[1], err)
	}
	if l.id != "" {
		r.due = nextDrain(time.Now(), answer[2] == "1")
	}
	switch {
	case n == 0:
		r.empty = l.id == ""
		return false, nil
	case last != r.last+1:
		return false, fmt.Errorf("hold %s: %w: chunk %d was held last, redis says %d; it has gone back in time", l, sluice.ErrConflict, r.last, last)
	}
	// n is -1 if an earlier call held the chunk and its answer was lost.
	r.last = last
	return true, r.enter(ctx)
}

// read reads the next page of the current chunk, which has more elements.
func (r *ListReader) read(ctx context.Context) (Page, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if err := faults.Hit("read"); err != nil {
		return Page{}, err
	}
	index := r.next
	if r.chunk == r.first {
		index -= r.base
	}
	elements, err := r.elements(ctx, int64(index), int64(r.limit))
	if err != nil {
		return Page{}, r.list.redis.wrap("read "+r.list.String(), err)
	}
	at := sluice.Position{Major: r.chunk, Minor: r.next}
	if len(elements) == 0 {
		return Page{}, &GapError{What: r.list.String(), Cursor: at, Start: sluice.Position{Major: r.chunk + 1}}
	}
	r.next += uint64(len(elements))
	bytes := r.learn(elements) + len(elements)*heldElementBytes
	if at.Minor == 0 {
		bytes += heldChunkBytes
	}
	return Page{From: at, To: sluice.Position{Major: r.chunk, Minor: r.next}, Elements: elements, Bytes: bytes}, nil
}

// learn sizes the next page by this one, and returns how many bytes this one has.
func (r *ListReader) learn(elements []string) (total int) {
	for _, e := range elements {
		total += len(e)
	}
	r.limit = max(1, min(pageElements, 4*r.limit, pageBytes/(total/len(elements)+1)))
	return total
}

// elements reads n elements of the chunk from an index on. The index counts
// from the chunk's head as it is in Redis. It means something else once Redis
// has gone back to before a drop, or beside a reader that drops (listcopy.go).
// Therefore the state is read behind the elements, and must be the one that this
// reader knows.
func (r *ListReader) elements(ctx context.Context, from, n int64) ([]string, error) {
	l, c := r.list, r.list.redis.client
	key, state := l.keys.heldKey(r.chunk), l.keys.stateKey()
	want := []string{strconv.FormatUint(r.first, 10), strconv.FormatUint(r.base, 10), strconv.FormatUint(r.last, 10)}
	if !r.even {
		return l.redis.call(ctx, "page", []string{key, state}, append([]string{
			strconv.FormatInt(from, 10), strconv.FormatInt(n, 10), strconv.Itoa(pageBytes), string(l.side)}, want...)).AsStrSlice()
	}
	start, stop := from, from+n-1
	if l.side == Right {
		start, stop = -from-n, -from-1
	}
	answers := c.DoMulti(ctx,
		c.B().Lrange().Key(key).Start(start).Stop(stop).Build(),
		c.B().Hmget().Key(state).Field("first", "base", "last").Build())
	is, err := answers[1].ToArray()
	if err != nil {
		return nil, err
	}
	for i, unset := range []string{"1", "0", "0"} {
		if text, err := is[i].ToString(); (err == nil && text != want[i]) || (err != nil && unset != want[i]) {
			return nil, fmt.Errorf("%w: redis is not where this reader has left it; it has gone back in time", sluice.ErrConflict)
		}
	}
	out, err := answers[0].AsStrSlice()
	if l.side == Right {
		slices.Reverse(out)
	}
	return out, err
}
