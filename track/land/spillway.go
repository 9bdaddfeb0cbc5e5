package land

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"sluice"
	"sluice/flow"
	"sluice/ingest/spill"
	"sluice/lib/deadline"
)

// Bounds of recording.
const (
	// answerWithin is how long a visitor waits for Redis, and up to deadlineStep
	// less. Then what is to be recorded goes to a file.
	answerWithin = 250 * time.Millisecond
	deadlineStep = 25 * time.Millisecond

	// tryEvery is how often Redis is tried while it does not answer. All others go to
	// the file at once.
	tryEvery = time.Second

	// releaseEvery is how often it is looked whether a file can be replayed.
	releaseEvery = time.Second

	// A file ends when Redis answers a ping and no write has failed for fileQuiet, and
	// fileHold after it was begun if Redis answers a ping at all. Redis may answer all the
	// time, and take no writes: by the ping alone there would be a file each second.
	fileQuiet = 10 * time.Second
	fileHold  = 5 * time.Minute
)

// Spillway is a file beside Redis. It knows whether Redis takes writes, and ends the file
// when it does again. Its methods may be called by several goroutines at once; Run once.
//
// While Redis takes none, one write a second tries it and the others go to the file at
// once. Else each visitor would wait for as long as Redis may take, and 512 connections
// would be all of them. A ping that is answered has the next write try at once, and says
// no more: the file is not ended by it while writes fail.
type Spillway struct {
	Spill *spill.Writer
	Ping  func(ctx context.Context) error // of Redis
	Clock sluice.Clock
	Log   *slog.Logger

	what     string // is recorded, in the log
	tryAt    atomic.Int64
	waits    deadline.Shared
	spilled  atomic.Int64
	spills   atomic.Int64 // since the file was released
	begunAt  atomic.Int64 // when the first of these was
	failedAt atomic.Int64 // when a write last failed, in ms
	full     atomic.Bool  // by that failure Redis answers and has no room, and no write has succeeded since

	complain sync.Mutex
	said     time.Time
}

// ready prepares a spillway of something.
func (s *Spillway) ready(what string) {
	s.what, s.waits.Timeout, s.waits.Step = what, answerWithin, deadlineStep
}

// Spilled returns how many records went to the file.
func (s *Spillway) Spilled() int64 { return s.spilled.Load() }

var errAway = errors.New("redis does not answer")

// Away reports whether Redis is known not to answer.
func (s *Spillway) Away() bool { return s.tryAt.Load() != 0 }

// offer has something written to Redis, unless that is known not to answer.
func (s *Spillway) offer(now time.Time, write func(ctx context.Context) error) error {
	at := s.tryAt.Load()
	if at != 0 && (now.UnixMilli() < at || !s.tryAt.CompareAndSwap(at, now.Add(tryEvery).UnixMilli())) {
		return errAway
	}
	err := write(s.waits.Context(now))
	if err == nil {
		if at != 0 {
			s.tryAt.Store(0)
		}
		if s.full.Load() {
			s.full.Store(false)
		}
		return nil
	}
	s.failedAt.Store(now.UnixMilli())
	s.full.Store(errors.Is(err, sluice.ErrFull) || errors.Is(err, flow.ErrReplicas))
	if _, one := errors.AsType[*flow.LogFullError](err); !one { // else other partitions may take theirs
		s.tryAt.CompareAndSwap(at, s.Clock.Now().Add(tryEvery).UnixMilli())
	}
	return err
}

// kept counts what went to the file, because of an error of Redis.
func (s *Spillway) kept(why error) {
	s.spilled.Add(1)
	if s.spills.Add(1) == 1 {
		s.begunAt.Store(s.Clock.Now().UnixMilli())
	}
	s.say(s.what+" go to a file until Redis takes them", why, "spilled", s.spilled.Load())
}

// say logs a failure, once a second at most.
func (s *Spillway) say(text string, err error, with ...any) {
	s.complain.Lock()
	defer s.complain.Unlock()
	now := s.Clock.Now()
	if since := now.Sub(s.said); since >= 0 && since < time.Second {
		return
	}
	s.said = now
	s.Log.Warn(text, append(with, "error", err)...)
}

// Run ends the file that is being written when Redis takes writes again, as far as that
// is known, so that it is replayed, until fetch ends; then it ends the file in any case.
func (s *Spillway) Run(fetch, _ context.Context) {
	for err := error(nil); err == nil; err = sluice.Pause(fetch, releaseEvery) {
		s.release(fetch)
	}
	s.end()
}

func (s *Spillway) end() {
	if err := s.Spill.Release(); err != nil {
		s.Log.Warn("the file of "+s.what+" was not ended well", "error", err)
	}
}

func (s *Spillway) release(ctx context.Context) {
	n := s.spills.Load()
	if n == 0 {
		return
	}
	ctx, stop := context.WithTimeout(ctx, releaseEvery)
	defer stop()
	if s.Ping(ctx) != nil {
		return
	}
	s.tryAt.Store(0)
	now := s.Clock.Now().UnixMilli()
	since := now - s.failedAt.Load() // below 0: the clock was set back
	var text string
	switch {
	case !s.full.Load() && (since < 0 || since >= fileQuiet.Milliseconds()):
		text = "redis answers, and no write has failed for some seconds: " + s.what + " of a file are replayed"
	case now-s.begunAt.Load() >= fileHold.Milliseconds():
		text = "redis answers, and it is not known whether it takes writes: " + s.what + " of a file are replayed as far as it does"
	default:
		return
	}
	s.end()
	if s.spills.Add(-n) > 0 { // these came meanwhile
		s.begunAt.Store(s.Clock.Now().UnixMilli())
	}
	s.Log.Info(text, "records", n)
}
