package flow

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"

	"golang.org/x/sync/errgroup"

	"sluice"
)

// How a follower runs.
//
// A follower lives in sessions. A session begins by reading the cursors where
// the effect is stored, reads on from there, and applies batch after batch. It
// ends at the first error, whatever it was, or when its leases change. It keeps
// no state: the next session asks the store again for the cursors. So there is
// one way to recover, from a lost connection, an unknown commit, a zombie's
// commit, a restart, and it is exercised every day.
//
// Inside a session, reading and encoding go on beside applying (Pipe), with one
// encoded unit waiting between them. More would only hold memory, since one
// loader is the fastest that a table takes (docs/decisions/04-one-loader.md).
//
// Stopping has two phases, so every follower gets two contexts. `fetch` ends
// reading, and batches in hand are still applied; `work` ends everything.

// Pipe runs read and apply side by side. read hands units on by emit, which
// waits for apply. Pipe returns when read is done and all was applied, or with
// the first error. That fetch ended is no error.
func Pipe[T any](fetch, work context.Context, read func(ctx context.Context, emit func(T) error) error, apply func(ctx context.Context, unit T) error) error {
	readCtx, stopReading := context.WithCancelCause(fetch)
	defer stopReading(nil)
	units := make(chan T)
	done := make(chan error, 1)
	go func() { // ends when read returns: its context is cancelled by us at the latest
		defer close(units)
		done <- read(readCtx, func(unit T) error {
			select {
			case units <- unit:
				return nil
			case <-work.Done():
				return work.Err()
			case <-readCtx.Done():
				// Phase one: what was read is still applied, unless apply failed.
				if fetch.Err() == nil {
					return context.Cause(readCtx)
				}
			}
			select {
			case units <- unit:
				return nil
			case <-work.Done():
				return work.Err()
			}
		})
	}()
	var failed error
	for unit := range units {
		if failed != nil {
			continue // cannot be applied after the one before it failed
		}
		if failed = apply(work, unit); failed != nil {
			stopReading(failed)
		}
	}
	err := <-done
	if failed != nil {
		return failed
	}
	if fetch.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, fetch.Err())) {
		return nil
	}
	return err
}

// Backoff between the failed sessions of a follower.
const (
	backoffShortest = 20 * time.Millisecond
	backoffLongest  = 5 * time.Second
	// A session that lasted this long was healthy: its end starts over.
	backoffHealthy = 10 * time.Second

	// While a server is away the pauses between sessions are half of this to one and a
	// half, and one that lasts so long has found it again: a promotion ends within seconds. So is it told.
	awayLongest = time.Second
	awayHealthy = 500 * time.Millisecond
	awayTell    = 5 * time.Second
)

// Health is told how the sessions of followers fare. Its methods are called
// from several goroutines at once.
type Health interface {
	// Fine: the follower begins.
	Fine(follower string)

	// Lasts: a session of the follower that began then has run for a while. It is well,
	// unless the session has said itself since then that something fails: it may outlast
	// a server that is away.
	Lasts(follower string, began time.Time)

	// Failed: a session of the follower has ended with an error. Losing a lease
	// is none.
	Failed(follower string, err error, at time.Time)
}

// While returns a context that ends with its parent, or when this process holds other
// leases of a role than those. The caller calls stop when the session is over.
func (l *Leases) While(parent context.Context, role string, held map[int]*Lease) (ctx context.Context, stop context.CancelFunc) {
	return Share{Leases: l}.While(parent, role, held)
}

// Follow runs sessions until fetch ends. A session returns nil when it should
// simply be run again (its leases have changed).
func Follow(fetch, work context.Context, name string, log *slog.Logger, health Health, session func(fetch, work context.Context) error) {
	wait, longest, healthyAfter := backoffShortest, backoffLongest, backoffHealthy
	var told time.Time
	health.Fine(name)
	for fetch.Err() == nil {
		started := time.Now()
		healthy := time.AfterFunc(healthyAfter, func() { health.Lasts(name, started) })
		err := session(fetch, work)
		healthy.Stop()
		if fetch.Err() != nil {
			if err != nil {
				log.Warn("follower stopped in the middle of its work; the next one goes on from its cursor", "follower", name, "error", err)
			}
			return
		}
		if time.Since(started) > backoffHealthy {
			wait = backoffShortest
		}
		if err == nil {
			continue
		}
		if !errors.Is(err, sluice.ErrLeaseLost) {
			health.Failed(name, err, time.Now())
		}
		longest, healthyAfter = backoffLongest, backoffHealthy
		if IsAway(err) {
			longest, healthyAfter = awayLongest, awayHealthy
		}
		wait = min(wait, longest)
		pause := wait/2 + rand.N(wait)
		switch {
		case IsAway(err) && time.Since(told) < awayTell: // it was said a moment ago
		case errors.Is(err, sluice.ErrConflict), errors.Is(err, sluice.ErrLeaseLost):
			log.Info("follower starts over", "follower", name, "reason", err)
		case errors.Is(err, sluice.ErrGap):
			pause = backoffLongest
			log.Error("follower stands still: something is missing", "follower", name, "error", err)
		default:
			told = time.Now()
			log.Warn("follower failed, trying again", "follower", name, "error", err, "wait", pause.Round(time.Millisecond))
		}
		wait = min(2*wait, longest)
		_ = sluice.Pause(fetch, pause)
	}
}

// How logs are pulled.
const (
	pullWait = 1 * time.Second // a blocked read wakes up this often

	// pullPause is how long logs rest that have given all they had: batches
	// that come meanwhile are read together. pullBusyPause is the same for logs
	// that have given several batches: where so much comes, no caller waits for
	// a single one.
	pullPause     = 5 * time.Millisecond
	pullBusyPause = 20 * time.Millisecond

	// A read takes so many batches of each log: fewBatches, up to
	// sluice.MaxBatchBytes each, or manyBatches after a read of less than
	// littleBytes from each. Small ones may be very many: each append leaves one a
	// log.
	fewBatches  = 4
	manyBatches = 16
	littleBytes = 64 << 10
)

// Pull reads logs from their cursors, each in order, and hands the batches to
// emit until the context ends, or a read or emit fails. emit is called with
// batches of one log, by one goroutine a log at a time. Until it returns, its
// log is not read on, and the others are. Its context ends when Pull is to
// return: Pull waits for every call of emit. One blocked read for all logs of a
// Redis, in a cluster one for each log, is all that an idle follower costs.
func Pull(ctx context.Context, logs []*Log, cursors map[int]sluice.Position, emit func(context.Context, []Batch) error) error {
	if len(logs) == 0 {
		return nil
	}
	group, ctx := errgroup.WithContext(ctx)
	for _, places := range logs[0].redis.together(len(logs)) {
		p := puller{count: fewBatches, emit: emit, group: group, taken: make(chan int, len(places)), held: make(map[int]bool)}
		for _, i := range places {
			p.logs, p.cursors = append(p.logs, logs[i]), append(p.cursors, cursors[logs[i].Partition()])
		}
		group.Go(func() error { return p.run(ctx) })
	}
	return group.Wait()
}

// puller pulls logs that are together.
//
// What was tried and dropped. A blocked read for each log: with 16 logs, into
// which each append brings two items, there were 14 reads for each append. They
// cost Redis and this program more than the append.
type puller struct {
	logs    []*Log
	cursors []sluice.Position // as the logs
	count   int64             // batches of each that are asked for
	emit    func(context.Context, []Batch) error
	group   *errgroup.Group
	held    map[int]bool // logs with batches that emit has
	taken   chan int     // those of which it has returned
}

func (p *puller) run(ctx context.Context) error {
	for {
		places := p.free()
		if len(places) == 0 {
			if err := p.settle(ctx, nil, len(p.logs)-1); err != nil {
				return err
			}
			continue
		}
		logs, cursors := make([]*Log, len(places)), make([]sluice.Position, len(places))
		for n, i := range places {
			logs[n], cursors[n] = p.logs[i], p.cursors[i]
		}
		wait, asked := time.Duration(0), p.count
		if len(p.held) == 0 { // else those would have to wait for these
			wait = sluice.Rest(time.Now(), pullWait)
		}
		read, err := logs[0].redis.readLogs(ctx, logs, cursors, asked, wait)
		if err != nil {
			return err
		}
		pause, enough := pullPause, -1 // the whole pause
		most := p.handOn(ctx, places, read)
		if most > 1 {
			pause = pullBusyPause
		}
		if most == asked {
			enough = 0 // there is more
		}
		if most > 0 || wait == 0 {
			err = p.settle(ctx, time.After(pause), enough)
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
	}
}

// free returns the logs that can be read on.
func (p *puller) free() (places []int) {
	for i := range p.logs {
		if !p.held[i] {
			places = append(places, i)
		}
	}
	return places
}

// settle waits until the pause is over, or no more than so many logs are held.
func (p *puller) settle(ctx context.Context, pause <-chan time.Time, enough int) error {
	for len(p.held) > enough {
		select {
		case i := <-p.taken:
			delete(p.held, i)
		case <-pause:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// handOn hands on what was read of some logs. It returns how many batches the
// log has given that gave the most.
func (p *puller) handOn(ctx context.Context, places []int, read [][]Batch) (most int64) {
	bytes := 0
	for n, batches := range read {
		if len(batches) == 0 {
			continue
		}
		for j := range batches {
			bytes += len(batches[j].Data)
		}
		most = max(most, int64(len(batches)))
		i := places[n]
		p.cursors[i], p.held[i] = batches[len(batches)-1].Position, true
		p.group.Go(func() error { // ends when they are taken, or with ctx
			err := p.emit(ctx, batches)
			if err == nil {
				p.taken <- i
			}
			return err
		})
	}
	p.count = fewBatches
	if bytes < littleBytes*len(places) {
		p.count = manyBatches
	}
	return most
}
