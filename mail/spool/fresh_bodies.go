package spool

import (
	"container/list"
	"context"
	"maps"
	"sync"

	"sluice/mail"
)

// maxFreshBytes bounds the contents that are held in memory until they are sent.
const maxFreshBytes = 32 << 20

// FreshBodies is a store of contents that holds the newest ones in memory as
// well. So a mail that is sent at once, by the process that took it in, needs
// no query to the database. They are held once they are durable, and one that
// is not here, or not any more, is read.
type FreshBodies struct {
	Store Contents

	mu    sync.Mutex
	held  map[string]*list.Element // by message; their values are mail.Body
	order list.List                // the oldest first
	bytes int
}

// Contents is where contents are stored and read. mail.SendStore is one.
type Contents interface {
	BodyStore
	Bodies
}

var _ Contents = (*FreshBodies)(nil)

// AddBodies implements BodyStore.
func (f *FreshBodies) AddBodies(ctx context.Context, bodies []mail.Body) error {
	if err := f.Store.AddBodies(ctx, bodies); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.held == nil {
		f.held = make(map[string]*list.Element)
	}
	for i := range bodies {
		b := &bodies[i]
		if f.held[b.Message] != nil {
			continue // it came again; the database keeps the first as well
		}
		f.held[b.Message] = f.order.PushBack(*b)
		f.bytes += len(b.Data)
	}
	for f.bytes > maxFreshBytes {
		f.dropLocked(f.order.Front())
	}
	return nil
}

func (f *FreshBodies) dropLocked(e *list.Element) {
	b := f.order.Remove(e).(mail.Body)
	delete(f.held, b.Message)
	f.bytes -= len(b.Data)
}

// Bodies implements Bodies. What belongs to a single send is given out once.
// Nobody may change what it returns.
func (f *FreshBodies) Bodies(ctx context.Context, messages []string, mostBytes int) (map[string][]byte, error) {
	found, missing := f.take(messages)
	if len(missing) == 0 {
		return found, nil
	}
	read, err := f.Store.Bodies(ctx, missing, mostBytes)
	if err != nil {
		return nil, err
	}
	maps.Copy(read, found)
	return read, nil
}

func (f *FreshBodies) take(messages []string) (found map[string][]byte, missing []string) {
	found = make(map[string][]byte, len(messages))
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, m := range messages {
		e := f.held[m]
		if e == nil {
			missing = append(missing, m)
			continue
		}
		b := e.Value.(mail.Body)
		found[m] = b.Data
		if b.Recipients <= 1 {
			f.dropLocked(e)
		}
	}
	return found, missing
}
