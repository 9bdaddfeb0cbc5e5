package flow

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"sluice"
	"sluice/lib/faults"
)

// The kept part of a list.
//
// A database that fails over to a replica which lagged takes the cursor back,
// and the elements after it are read again (margin.go). So a follower whose
// effect is in the database may keep what it has applied in its chunks for a
// while. The state says up to where it is applied (done) beside where the
// stored part begins (first, base). The part between is no backlog, for back
// pressure, metrics and doctor. A process that knows only first and base reads
// rightly too, by its cursor; it keeps nothing.

// About how much memory of Redis an element takes beside its bytes, and a chunk.
const (
	heldElementBytes = 8
	heldChunkBytes   = 256
)

// dropChunks bounds how many chunks one call drops, or measures.
const dropChunks = 128

// keptPieces is the least number of pieces into which the kept part is cut.
const keptPieces = 8

// OpenKeeping opens the list for a follower that keeps applied elements until it tells
// KeepFrom otherwise.
func (l *List) OpenKeeping(ctx context.Context, lease *Lease, cursor sluice.Position) (*ListReader, error) {
	return l.openAt(ctx, lease, cursor, true)
}

// Committed tells up to where the effect of what was read is committed. With the
// next call of Next or Close Redis is told, and it is dropped if it is not kept.
func (r *ListReader) Committed(position sluice.Position) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.committed.Before(position) {
		r.committed = position
	}
}

// KeepFrom returns from where on applied elements are still kept. It also
// returns how long ago the newest element that went for want of room was
// applied, or NeverCut.
func (r *ListReader) KeepFrom(position sluice.Position, cut time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.keep.Before(position) {
		r.keep = position
	}
	if r.cutKnown, r.cut = true, (time.Time{}); cut >= 0 {
		r.cut = time.Now().Add(-cut)
	}
}

// Cut returns how long ago the newest applied element that went for want of
// room was applied, or NeverCut. known: the last holder of the lease has noted
// it (Log.Cut).
func (r *ListReader) Cut(ctx context.Context) (ago time.Duration, known bool, err error) {
	return r.list.redis.cut(ctx, "read how far back "+r.list.String()+" is kept", r.list.keys.stateKey(), r.lease)
}

// cutText is what drop.lua is to note of what has gone for want of room.
func (r *ListReader) cutText() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case !r.cutKnown:
		return ""
	case r.cut.IsZero():
		return "never"
	}
	return strconv.FormatInt(time.Since(r.cut).Milliseconds(), 10)
}

// Close drops the committed elements that are not kept. It does not give the
// lease back.
func (r *ListReader) Close(ctx context.Context) error { return r.drop(ctx) }

// applied returns up to where the list is applied, for a caller that has noted
// a position: elements that are gone were applied.
func (r *ListReader) applied(noted sluice.Position) sluice.Position {
	if noted.Before(r.start()) {
		return r.start()
	}
	return noted
}

// drop tells Redis what is committed, and removes the part of it that is not
// kept.
func (r *ListReader) drop(ctx context.Context) error {
	r.mu.Lock()
	committed, keep := r.committed, r.keep
	r.mu.Unlock()
	if !r.keeps || committed.Before(keep) {
		keep = committed
	}
	for {
		chunks := r.before(keep)
		done := r.applied(committed)
		if len(chunks) == 0 && done == r.done && (r.told || r.cutText() == "") {
			return nil
		}
		if err := r.dropHead(ctx, done, keep, chunks); err != nil {
			return err
		}
		if r.chunk < r.first {
			r.goTo(r.start())
			if err := r.enter(ctx); err != nil {
				return err
			}
		}
	}
}

// before returns the oldest chunks of which something lies before a position.
func (r *ListReader) before(keep sluice.Position) (chunks []uint64) {
	for at := r.start(); at.Before(keep) && at.Major <= r.last && len(chunks) < dropChunks; {
		chunks = append(chunks, at.Major)
		at = sluice.Position{Major: r.after(at.Major)}
	}
	return chunks
}

// dropHead notes the applied position. It drops what some chunks, the oldest,
// have before keep.
func (r *ListReader) dropHead(ctx context.Context, done, keep sluice.Position, chunks []uint64) error {
	l := r.list
	if err := faults.Hit("drop"); err != nil {
		return err
	}
	keys := []string{r.lease.key, l.keys.stateKey()}
	cut := r.cutText()
	args := []string{r.lease.token, string(l.side), done.String(), "", strconv.FormatUint(r.first, 10), cut}
	for _, chunk := range chunks {
		keys, args = append(keys, l.keys.heldKey(chunk)), append(args, strconv.FormatUint(chunk, 10))
	}
	if n := len(chunks); n > 0 {
		last := chunks[n-1]
		if last == keep.Major {
			args[3] = strconv.FormatUint(keep.Minor, 10)
		}
		args = append(args, strconv.FormatUint(r.after(last), 10))
	}
	answer, err := l.redis.callTexts(ctx, "drop from "+l.String(), "drop", keys, args)
	if err != nil {
		return err
	}
	first, err := strconv.ParseUint(answer[0], 10, 64)
	if err == nil {
		r.base, err = strconv.ParseUint(answer[1], 10, 64)
	}
	if err != nil {
		return fmt.Errorf("drop from %s: the answer %q cannot be read: %w", l, answer, err)
	}
	r.first, r.told = first, r.told || cut != ""
	r.done = r.applied(done) // a dropped element is applied: there is nothing more to tell
	return nil
}

// Kept returns the kept applied elements, newest first and in pieces, up to so
// many bytes and one piece more. whole: that is all of them. It is for a
// session that has just opened the list.
func (r *ListReader) Kept(ctx context.Context, mostBytes int) (all []Stretch, whole bool, err error) {
	var chunks []uint64
	for chunk := r.first; chunk <= min(r.done.Major, r.last); chunk = r.after(chunk) {
		chunks = append(chunks, chunk)
	}
	for bytes := 0; len(chunks) > 0; {
		some := chunks[max(0, len(chunks)-dropChunks):]
		chunks = chunks[:len(chunks)-len(some)]
		pieces, err := r.measure(ctx, some, max(1, mostBytes/keptPieces))
		if err != nil {
			return nil, false, err
		}
		for _, piece := range pieces {
			if bytes >= mostBytes {
				return all, false, nil
			}
			all, bytes = append(all, piece), bytes+piece.Bytes
		}
	}
	return all, true, nil
}

// measure returns the applied part of some chunks, newest first, in pieces of
// so many bytes.
func (r *ListReader) measure(ctx context.Context, chunks []uint64, pieceBytes int) (pieces []Stretch, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	l, c := r.list, r.list.redis.client
	var commands rueidis.Commands
	for _, chunk := range chunks {
		key := l.keys.heldKey(chunk)
		commands = append(commands, c.B().Llen().Key(key).Build(), c.B().MemoryUsage().Key(key).Samples(sampledNodes).Build())
	}
	answers := c.DoMulti(ctx, commands...)
	for i := len(chunks) - 1; i >= 0; i-- {
		n, err := answers[2*i].AsInt64()
		var memory int64
		if err == nil {
			memory, err = answers[2*i+1].AsInt64()
		}
		if err != nil && !rueidis.IsRedisNil(err) {
			return nil, l.redis.wrap("measure what is kept of "+l.String(), err)
		}
		from := uint64(0)
		if chunks[i] == r.first {
			from = r.base
		}
		to := from + uint64(n)
		if chunks[i] == r.done.Major {
			to = min(to, r.done.Minor)
		}
		for to > from {
			many := min(to-from, max(1, uint64(pieceBytes)*uint64(n)/max(1, uint64(memory))))
			pieces = append(pieces, Stretch{
				First: sluice.Position{Major: chunks[i], Minor: to - many}, Last: sluice.Position{Major: chunks[i], Minor: to - 1},
				Entries: int(many), Bytes: int(uint64(memory) * many / uint64(n)),
			})
			to -= many
		}
	}
	return pieces, nil
}
