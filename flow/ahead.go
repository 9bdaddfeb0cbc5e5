package flow

import (
	"context"
)

// Ahead reads the pages of a list while the page before is worked on. To wait
// for Redis, and to pass its answer through the client, takes about as long as
// parsing. Before, the two went one after the other. It holds one page more
// than is worked on.
//
// Only its goroutine reads. Stop it before the reader is closed.
type Ahead struct {
	reader *ListReader
	stop   context.CancelFunc
	pages  chan Page
	empty  chan struct{} // taken by a caller that does not want to wait: nothing is there
	ended  chan struct{} // closed when the goroutine has ended
	err    error         // why it ended
}

// ReadAhead begins to read ahead, until the context ends or Stop is called.
func ReadAhead(ctx context.Context, reader *ListReader) *Ahead {
	ctx, stop := context.WithCancel(ctx)
	a := &Ahead{reader: reader, stop: stop, pages: make(chan Page), empty: make(chan struct{}), ended: make(chan struct{})}
	go a.read(ctx) // ends with the context, at the latest by Stop
	return a
}

// Stop ends the reading and waits for its end.
func (a *Ahead) Stop() {
	a.stop()
	<-a.ended
}

func (a *Ahead) read(ctx context.Context) {
	defer close(a.ended)
	pause := pollSoonest
	for {
		page, err := a.reader.Next(ctx, false)
		if err != nil {
			a.err = err
			return
		}
		if len(page.Elements) > 0 {
			pause = pollSoonest
			select {
			case a.pages <- page:
			case <-ctx.Done():
				a.err = ctx.Err()
				return
			}
			continue
		}
		pause = a.reader.await(ctx, pause, a.empty)
		if ctx.Err() != nil {
			a.err = ctx.Err()
			return
		}
	}
}

// Next is ListReader.Next, in advance.
func (a *Ahead) Next(ctx context.Context, wait bool) (Page, error) {
	empty := a.empty
	if wait {
		empty = nil // no page comes by this way
	}
	select {
	case page := <-a.pages:
		return page, nil
	case <-empty:
		return Page{}, nil
	case <-a.ended:
		return Page{}, a.err
	case <-ctx.Done():
		return Page{}, ctx.Err()
	}
}
