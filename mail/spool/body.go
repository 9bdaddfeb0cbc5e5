package spool

import (
	"context"
	"sync"

	"sluice/mail"
)

// groupBytes is how much the contents of one transaction have together, and up
// to a request more.
const groupBytes = 8 << 20

// BodyWriter stores contents in groups: all that arrive while a transaction
// runs are stored by the next one, and each caller waits for its own. So the
// database syncs once for many messages.
type BodyWriter struct {
	Store BodyStore

	mu      sync.Mutex
	open    *bodyGroup // nil: empty
	writing bool
}

// BodyStore is where contents are stored. mail.SendStore is one.
type BodyStore interface {
	AddBodies(ctx context.Context, bodies []mail.Body) error
}

// bodyGroup is what is stored together; done is closed when err is set.
type bodyGroup struct {
	bodies []mail.Body
	bytes  int
	done   chan struct{}
	err    error
}

// Add stores contents and returns when they are durable. An error, also the
// context's end, leaves open whether they are.
func (w *BodyWriter) Add(ctx context.Context, bodies []mail.Body) error {
	if len(bodies) == 0 {
		return nil
	}
	g, err := w.join(ctx, bodies)
	if err != nil {
		return err
	}
	select {
	case <-g.done:
		return g.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// join puts contents into the open group, and has it written if nobody does.
func (w *BodyWriter) join(ctx context.Context, bodies []mail.Body) (*bodyGroup, error) {
	for {
		w.mu.Lock()
		if w.open == nil || w.open.bytes < groupBytes {
			break
		}
		full := w.open
		w.mu.Unlock()
		select { // until it has left
		case <-full.done:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	defer w.mu.Unlock()
	if w.open == nil {
		w.open = &bodyGroup{done: make(chan struct{})}
	}
	g := w.open
	g.bodies = append(g.bodies, bodies...)
	for i := range bodies {
		g.bytes += len(bodies[i].Data)
	}
	if !w.writing {
		w.writing = true
		go w.write(context.WithoutCancel(ctx)) // ends when nobody waits
	}
	return g, nil
}

// write stores groups until there is none. The store bounds how long each takes.
func (w *BodyWriter) write(ctx context.Context) {
	for {
		w.mu.Lock()
		g := w.open
		w.open = nil
		w.writing = g != nil
		w.mu.Unlock()
		if g == nil {
			return
		}
		g.err = w.Store.AddBodies(ctx, g.bodies)
		close(g.done)
	}
}
