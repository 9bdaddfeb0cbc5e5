package flow

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/redis/rueidis"

	"sluice"
)

// Bounds of copying what is held.
const (
	// copyTries bounds how often a page is asked for again because its follower
	// has dropped elements meanwhile.
	copyTries = 1000
)

// HeldPage is a run of elements of a held chunk, in the order of taking.
type HeldPage struct {
	Chunk, Offset uint64
	Fresh         bool     // what was copied before this page was dropped meanwhile: its effect is committed
	Elements      []string // none: all that was held has been dropped
}

// CopyHeld hands all that is held of a list to emit, while its follower goes on.
// It returns the list's state to put back with it. Elements held later are not
// in it; elements dropped meanwhile may be. A caller that copies a list before
// the database's snapshot and the end of the logs has every element in one of
// them.
func (l *List) CopyHeld(ctx context.Context, emit func(HeldPage) error) (map[string]string, error) {
	if l.id != "" {
		return nil, nil // hashes are named by their server, which is gone if this is needed
	}
	now, _, err := l.lookAt(ctx)
	if err != nil {
		return nil, err
	}
	state := map[string]string{"last": strconv.FormatUint(now.last, 10), "hole": strconv.FormatUint(now.hole, 10), "raised": strconv.FormatUint(now.raised, 10)}
	last, at, fresh := now.last, now.done, true // what is kept though it is applied is not copied
	copied := false
	for tries := 0; at.Major <= last; {
		if at.Before(now.start()) {
			at, fresh = now.done, true
			continue
		}
		elements, err := l.copyPage(ctx, now, at.Major, at.Minor)
		if errors.Is(err, sluice.ErrConflict) && tries < copyTries {
			tries++
			was := now
			if now, _, err = l.lookAt(ctx); err != nil {
				return nil, err
			}
			now.chunk, now.even, now.limit = was.chunk, was.even, was.limit // measured once a chunk
			continue
		}
		if err != nil {
			return nil, err
		}
		tries = 0
		if len(elements) == 0 {
			at = sluice.Position{Major: now.after(at.Major)}
			continue
		}
		if err := emit(HeldPage{Chunk: at.Major, Offset: at.Minor, Fresh: fresh, Elements: elements}); err != nil {
			return nil, err
		}
		at.Minor += uint64(len(elements))
		fresh, copied = false, true
	}
	if fresh && copied {
		return state, emit(HeldPage{Chunk: at.Major, Fresh: true})
	}
	return state, nil
}

// lookAt reads the list's state without a lease. ended is where the chunk before the
// oldest ended.
func (l *List) lookAt(ctx context.Context) (r *ListReader, ended sluice.Position, err error) {
	state, err := l.state(ctx, "last", "first", "base", "hole", "raised", "done", "ended")
	if err != nil {
		return nil, ended, err
	}
	r = &ListReader{list: l, limit: firstPageElements, first: 1}
	for i, n := range []*uint64{&r.last, &r.first, &r.base, &r.hole, &r.raised} {
		if state[i] != "" && err == nil {
			*n, err = strconv.ParseUint(state[i], 10, 64)
		}
	}
	done, doneErr := sluice.ParsePosition(state[5])
	ended, endedErr := sluice.ParsePosition(state[6])
	if err = cmp.Or(err, doneErr, endedErr); err != nil {
		return nil, ended, fmt.Errorf("look at %s: its state %q cannot be read: %w", l, state, err)
	}
	r.done = r.applied(done)
	return r, ended, nil
}

// copyPage reads a page, as the list's reader does, if the list is where `at` saw it.
func (l *List) copyPage(ctx context.Context, at *ListReader, chunk, next uint64) ([]string, error) {
	if at.chunk != chunk {
		at.chunk = chunk
		if err := at.enter(ctx); err != nil {
			return nil, err
		}
	}
	if chunk == at.first {
		next -= at.base
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	elements, err := at.elements(ctx, int64(next), int64(at.limit))
	if err != nil {
		return nil, l.redis.wrap("copy what is held of "+l.String(), err)
	}
	if len(elements) > 0 {
		at.learn(elements)
	}
	return elements, nil
}

// HeldRestore puts back what CopyHeld has copied.
type HeldRestore struct {
	list  *List
	first uint64
	base  uint64
	chunk uint64   // being filled; 0: none yet
	whole []uint64 // chunks put back, at most as many as can be held
}

// PutBackHeld begins to put back what was held. It returns nil if the list has
// a state: then it is at work, or was, and what it holds is newer.
func (l *List) PutBackHeld(ctx context.Context) (*HeldRestore, error) {
	state, err := l.state(ctx, "last")
	if err != nil || state[0] != "" || l.id != "" {
		return nil, err
	}
	return &HeldRestore{list: l}, nil
}

// Write adds a page.
func (h *HeldRestore) Write(ctx context.Context, p HeldPage) error {
	l, c := h.list, h.list.redis
	var commands rueidis.Commands
	if p.Fresh || h.chunk == 0 {
		for _, n := range h.whole {
			commands = append(commands, c.B().Unlink().Key(l.keys.heldKey(n)).Build())
		}
		h.first, h.base, h.whole = p.Chunk, p.Offset, nil
	}
	if len(p.Elements) == 0 {
		h.chunk = 0
		return c.Do(ctx, "put back what was held of "+l.String(), commands...)
	}
	key := l.keys.heldKey(p.Chunk)
	if p.Chunk != h.chunk || p.Fresh {
		commands = append(commands, c.B().Unlink().Key(key).Build()) // of a restore that was broken off
		h.whole = append(h.whole, p.Chunk)
	}
	h.chunk = p.Chunk
	if l.side == Right {
		commands = append(commands, c.B().Lpush().Key(key).Element(p.Elements...).Build())
	} else {
		commands = append(commands, c.B().Rpush().Key(key).Element(p.Elements...).Build())
	}
	return c.Do(ctx, "put back what was held of "+l.String(), commands...)
}

// Finish writes the list's state. What lies before what was put back is
// committed: ended, the cursor of the list's follower if it has one, says so.
func (h *HeldRestore) Finish(ctx context.Context, state map[string]string, ended sluice.Position) error {
	l, c := h.list, h.list.redis
	if h.chunk == 0 {
		last, err := strconv.ParseUint(state["last"], 10, 64)
		if err != nil {
			return fmt.Errorf("put back %s: its last chunk is %q: %w", l, state["last"], err)
		}
		h.first = last + 1
	}
	set := c.B().Hset().Key(l.keys.stateKey()).FieldValue().
		FieldValue("first", strconv.FormatUint(h.first, 10)).FieldValue("base", strconv.FormatUint(h.base, 10))
	for _, name := range []string{"last", "hole", "raised"} {
		set = set.FieldValue(name, state[name])
	}
	if !ended.IsZero() {
		set = set.FieldValue("ended", ended.String())
	}
	return c.Do(ctx, "put back the state of "+l.String(), set.Build())
}
