package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc64"
	"maps"
	"math"
	"slices"
	"time"

	"sluice"
	"sluice/flow"
	"sluice/lib/faults"
	"sluice/store"
)

const (
	// checkpointEvery is how long changes of records wait for a checkpoint, if nothing
	// else is asked for. All partitions of a process are written one behind the other,
	// and then wait for the store: within a minute all is there.
	checkpointEvery = 40 * time.Second

	// checkpointAgain is how long a checkpoint that failed rests.
	checkpointAgain = 10 * time.Second

	// checkpointAtStop is how long a process that stops takes for the last ones.
	checkpointAtStop = 5 * time.Second

	// storedEvery is how often is asked whether the store has what the commits of a
	// checkpoint have appended.
	storedEvery = 100 * time.Millisecond

	// pictureBytes is how much of one partition is kept in memory to be written, in one
	// partition of the process at a time. Moves stand still while what is above it goes.
	pictureBytes = 64 << 20

	// pieceBytes is how much one transaction writes. In SQLite the store follower waits
	// for it: 0.3 s at most were measured. With smaller ones the checkpoint waits for a
	// transaction of the store between two of them: 1 MB took 24 s where 16 MB took 4.
	pieceBytes = 16 << 20

	// pictureUnits are read from Redis at once: 512 KiB of records; of ways up to 40 MB.
	pictureUnits = 64
)

// saver keeps the checkpoint of a partition: where people are, in SQL.
//
// The idea. Between two commits nothing changes. Then the goroutine of the partition
// copies the units that were changed since the last checkpoint, some milliseconds for
// 10 MB, and goes on. Another goroutine writes the copy to SQL, in rows that do not
// count yet. It waits until the store has all that the commits up to that number have
// appended to the log. The last transaction makes all rows count at once
// (store.CheckpointStore).
//
// The invariants. A checkpoint is never ahead of the store's items: else a mail that
// Redis loses would never be sent, though the record says that it was made. What is
// copied is of one number: before it counts the cursor is read, and a commit of another
// session shows there. What SQL has is known by the hashes of its rows, which every session reads
// and compares with Redis: so nothing depends on what a session before has told.
//
// What was dropped. Rows with the place of the facts each, so that they may be of
// different moments: a person who goes from one journey to another would be in both, or
// in none. Copies of units that change while they are to be written, so that moves never
// stand still: 64 MB are four million people of one partition in 40 seconds.
type saver struct {
	p     *part
	every time.Duration
	busy  chan struct{} // has room for the one who copies
	turn  bool          // this one has the room, and copies at the next look

	row     store.Checkpoint        // as SQL has it
	slots   map[store.UnitKey]int   // which row is to be written next; 0 if it is missing
	changed map[store.UnitKey]bool  // since the last copy
	since   time.Time               // of the first change that SQL has not; zero: it has all
	after   time.Time               // of the first change behind the copy that is being written
	due     time.Time               // when the next copy is made
	writing chan written            // nil: no copy is being written
	taken   map[store.UnitKey]bool  // units of that copy
	stop    context.CancelCauseFunc // ends the writing
	ctx     context.Context         // of the writing
}

// written is what became of a copy.
type written struct {
	row   store.Checkpoint
	bytes int64
	err   error
}

var hashes = crc64.MakeTable(crc64.ECMA)

func hashOf(data []byte) int64 { return int64(crc64.Checksum(data, hashes)) }

// errClosed ends the writing of a session that is over.
var errClosed = errors.New("the session is over")

// openSaver makes this session the only one that writes the checkpoint, and reads what
// SQL has: the hashes of the units that count.
func (p *part) openSaver(ctx context.Context) (have map[store.UnitKey]int64, err error) {
	s := &saver{p: p, every: p.every, busy: p.saving, slots: make(map[store.UnitKey]int), changed: make(map[store.UnitKey]bool)}
	if s.every == 0 {
		s.every = checkpointEvery
	}
	if s.busy == nil {
		s.busy = make(chan struct{}, 1)
	}
	partition := p.log.Partition()
	if s.row, err = p.store.ClaimCheckpoint(ctx, partition); err != nil {
		return nil, err
	}
	rows, err := p.store.UnitRows(ctx, partition)
	if err != nil {
		return nil, err
	}
	have = make(map[store.UnitKey]int64)
	of := make(map[store.UnitKey]uint64)
	for i := range rows {
		r := &rows[i]
		if r.Number > s.row.At.Major { // a writer has ended in the middle
			s.changed[r.UnitKey] = true
			continue
		}
		if of[r.UnitKey] <= r.Number {
			of[r.UnitKey], have[r.UnitKey], s.slots[r.UnitKey] = r.Number, r.Hash, 1-r.Slot
		}
	}
	s.ctx, s.stop = context.WithCancelCause(ctx)
	p.saver = s
	return have, nil
}

// see compares a unit with what SQL has of it.
func (s *saver) see(have map[store.UnitKey]int64, key store.UnitKey, data []byte) {
	if hash, ok := have[key]; !ok || hash != hashOf(data) {
		s.changed[key] = true
	}
	delete(have, key)
}

// unseen takes the units that SQL has and Redis has not.
func (s *saver) unseen(have map[store.UnitKey]int64) {
	for key, hash := range have {
		if hash != hashOf(nil) {
			s.changed[key] = true
		}
	}
}

// opened says that the session has read all: from now on it knows of each change.
func (s *saver) opened() {
	if s.p.at.Position == s.row.At && len(s.changed) == 0 {
		return
	}
	s.since = time.Now()
	age := s.p.clock.Now().Sub(time.UnixMilli(s.row.SavedMillis))
	s.due = s.since.Add(max(s.every-max(age, 0), 0))
	s.p.stats.waits(s.p.log.Partition(), s.since)
}

// touch notes the units that a commit has changed.
func (s *saver) touch(keys []store.UnitKey) {
	for _, key := range keys {
		s.changed[key] = true
	}
	now := time.Now()
	if s.since.IsZero() {
		s.since, s.due = now, now.Add(s.every)
		s.p.stats.waits(s.p.log.Partition(), now)
	}
	if s.writing != nil && s.after.IsZero() {
		s.after = now
	}
}

// look begins a checkpoint if it is time, and takes note of one that has ended.
func (s *saver) look(ctx context.Context) error {
	if s.writing != nil {
		select {
		case w := <-s.writing:
			return s.ended(ctx, w)
		default:
			return nil
		}
	}
	if !s.turn {
		select {
		case s.turns() <- struct{}{}:
		default:
			return nil // it is not time, or another partition's turn
		}
	}
	return s.begin(ctx)
}

// turns takes one who may copy: the partition that has put something in begins at its
// next look, and takes it out again. It takes nobody before it is time.
func (s *saver) turns() chan<- struct{} {
	if s.turn || s.writing != nil || s.since.IsZero() || time.Now().Before(s.due) {
		return nil
	}
	return s.busy
}

// begin copies what was changed, and has it written. The place in busy is taken.
func (s *saver) begin(ctx context.Context) error {
	s.turn = false
	w := &copying{s: s, row: s.row}
	if err := w.copy(ctx); err != nil {
		<-s.busy
		s.row.Stamp = w.row.Stamp
		return s.failed(ctx, err)
	}
	s.taken, s.changed = s.changed, make(map[store.UnitKey]bool)
	s.after = time.Time{}
	done := make(chan written, 1)
	s.writing = done
	at := s.p.at.Position
	go func() { // ends with s.ctx
		bytes := int64(w.written + w.bytes)
		err := w.flush(s.ctx)
		<-s.busy
		if err == nil {
			err = w.finish(s.ctx, at)
		}
		done <- written{w.row, bytes, err}
	}()
	return nil
}

// copying is a copy of what was changed, and how far it is written.
type copying struct {
	s       *saver
	row     store.Checkpoint
	units   []store.Unit
	bytes   int // of units
	written int
	end     sluice.Position // of the log
}

// copy copies the changed units as they are now. What is more than pictureBytes is
// written at once.
func (w *copying) copy(ctx context.Context) error {
	s, p := w.s, w.s.p
	fields, err := p.log.JourneyFields(ctx)
	if err != nil {
		return err
	}
	notes, err := json.Marshal(fields)
	if err != nil {
		return err
	}
	keys := slices.SortedFunc(maps.Keys(s.changed), compareUnits)
	for len(keys) > 0 {
		n := 1
		for n < min(len(keys), pictureUnits) && keys[n].Journey == keys[0].Journey {
			n++
		}
		if err := w.read(ctx, keys[:n]); err != nil {
			return err
		}
		keys = keys[n:]
		if w.bytes >= pictureBytes {
			if err := w.flush(ctx); err != nil {
				return err
			}
		}
	}
	if w.end, err = p.log.Last(ctx); err != nil {
		return err
	}
	w.row.At, w.row.Notes = p.at.Position, string(notes)
	return faults.Hit("checkpoint-copied")
}

func compareUnits(a, b store.UnitKey) int {
	if a.Journey != b.Journey {
		return int(a.Journey - b.Journey)
	}
	return int(a.Unit - b.Unit)
}

// read copies units of one journey.
func (w *copying) read(ctx context.Context, keys []store.UnitKey) error {
	records := w.s.p.log.Records(int(keys[0].Journey))
	units := make([]*flow.Unit, len(keys))
	for i, key := range keys {
		units[i] = records.Unit(key.Unit)
	}
	if err := records.Read(ctx, units); err != nil {
		return err
	}
	for i, u := range units {
		row := store.UnitRow{UnitKey: keys[i], Slot: w.s.slots[keys[i]], Number: w.s.p.at.Major, Hash: hashOf(u.Bytes())}
		w.units = append(w.units, store.Unit{UnitRow: row, Data: u.Bytes()})
		w.bytes += len(u.Bytes())
	}
	return nil
}

// flush writes the units that are in memory.
func (w *copying) flush(ctx context.Context) error {
	for len(w.units) > 0 {
		n, bytes := 0, 0
		for n < len(w.units) && (n == 0 || bytes+len(w.units[n].Data) <= pieceBytes) {
			bytes += len(w.units[n].Data)
			n++
		}
		row, err := w.s.p.store.PutUnits(ctx, w.row, w.units[:n])
		if err != nil {
			return err
		}
		w.row = row
		clear(w.units[:n])
		w.units, w.bytes, w.written = w.units[n:], w.bytes-bytes, w.written+bytes
		if err := faults.Hit("checkpoint-put"); err != nil {
			return err
		}
	}
	return nil
}

// finish makes a copy the checkpoint, once the store has passed what its commits have
// appended. A Redis that goes back meanwhile takes from the log what the store is waited
// for, and gives the places of it to others: then the commit is not there any more.
func (w *copying) finish(ctx context.Context, at sluice.Position) error {
	p := w.s.p
	for {
		if stored, err := p.stored(ctx, w.end); err != nil {
			return err
		} else if stored {
			break
		}
		if err := sluice.Pause(ctx, storedEvery); err != nil {
			return err
		}
	}
	now, err := p.log.Cursor(ctx, cursor)
	if err != nil {
		return err
	}
	if now.Position != at && (now.Minor != p.session || now.Major < at.Major) {
		return fmt.Errorf("finish the checkpoint of partition %d: %w: redis has gone back, or another session has moved people", p.log.Partition(), sluice.ErrConflict)
	}
	if err := faults.Hit("checkpoint-finish"); err != nil {
		return err
	}
	w.row.SavedMillis = p.clock.Now().UnixMilli()
	row, err := p.store.FinishCheckpoint(ctx, w.row)
	if err == nil {
		w.row = row
	}
	return err
}

// stored reports whether the store has what the log has up to a position.
func (p *part) stored(ctx context.Context, end sluice.Position) (bool, error) {
	at, err := p.storedUpTo(ctx)
	return err == nil && !at.Before(end), err
}

// storedUpTo returns up to where the store has the log; where nobody stores it, all of it.
func (p *part) storedUpTo(ctx context.Context) (sluice.Position, error) {
	if p.storedBy == "" {
		return sluice.Position{Major: math.MaxUint64, Minor: math.MaxUint64}, nil
	}
	at, err := p.store.Cursors(ctx, p.storedBy, []int{p.log.Partition()})
	return at[p.log.Partition()], err
}

// ended takes note of a copy that was written, or not.
func (s *saver) ended(ctx context.Context, w written) error {
	s.writing = nil
	if w.err != nil {
		maps.Copy(s.changed, s.taken)
		s.row.Stamp = w.row.Stamp
		return s.failed(ctx, w.err)
	}
	for key := range s.taken {
		s.slots[key] = 1 - s.slots[key]
	}
	s.row, s.taken = w.row, nil
	s.since = s.after
	s.due = s.since.Add(s.every)
	s.p.stats.waits(s.p.log.Partition(), s.since)
	s.p.stats.Saved.Add(1)
	s.p.stats.SavedBytes.Add(w.bytes)
	return faults.Hit("checkpoint-finished")
}

// failed has a checkpoint tried again later. A conflict ends the session: what is known
// of SQL, or of Redis, is old.
func (s *saver) failed(ctx context.Context, err error) error {
	if errors.Is(err, sluice.ErrConflict) || ctx.Err() != nil || s.ctx.Err() != nil {
		return err
	}
	s.due = time.Now().Add(checkpointAgain)
	s.p.stats.Unsaved.Add(1)
	s.p.say("a checkpoint of where people are in journeys was not written, trying again", err)
	return nil
}

// last writes the last checkpoint of a process that stops. People do not move any more.
func (s *saver) last(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, checkpointAtStop)
	defer cancel()
	for {
		if s.writing != nil {
			select {
			case w := <-s.writing:
				if err := s.ended(ctx, w); err != nil {
					return err
				}
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if s.since.IsZero() {
			return nil
		}
		if !s.turn {
			select {
			case s.busy <- struct{}{}:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if err := s.begin(ctx); err != nil || s.writing == nil {
			return err
		}
	}
}

// close ends what is being written, and waits for it.
func (s *saver) close() {
	s.stop(errClosed)
	if s.turn {
		<-s.busy
	}
	if s.writing != nil {
		<-s.writing
	}
	s.p.stats.waits(s.p.log.Partition(), time.Time{})
}
