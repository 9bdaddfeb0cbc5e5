package ingest

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"math"
	"slices"
	"strconv"
	"time"
	"unsafe"

	"golang.org/x/sync/errgroup"

	"sluice"
	"sluice/flow"
	"sluice/lib/faults"
	"sluice/store"
	"sluice/user"
)

// Bounds of an import.
const (
	// parallelImports bounds how many partitions are written at once.
	parallelImports = 16

	// importGiveUp is how long an append that fails is tried again.
	importGiveUp = time.Minute
	importPause  = 500 * time.Millisecond
)

// Import reads the lines of a file into the logs, as the router reads lists.
//
// The idea. Its effect is in many logs, so its position is too. In each log the
// seq of the source "import:ID" is the number of the last line that is in it
// (compare Router). An interrupted import is run again from the first line, and
// leaves out, log by log, the lines that are there. Reading is cheap, so no
// place in a packed file has to be remembered. That needs a source that is the
// same for the same content and options, and differs for any other.
//
// An event without an id of its own gets one of the content: a hash over the
// app that the import is for and the file from its beginning up to its line. So
// the same file, packed or not, by name or by a pipe, makes the same ids, also
// long after the logs have forgotten it; for two apps it makes two events of
// each line. A file that has grown since is imported again for its new
// lines. It must bring a time: the moment of taking would be another one each
// time.
//
// An update of a user has no id by which a repeat would be recognised: the seqs
// alone say that it was applied. So they are forgotten only when all of it is
// in. Before that, the source's seq in the first log becomes "done", and it
// goes last. So a run that is interrupted while it forgets is known to have
// been whole. Imported once more after that, all of it is applied once more.
//
// What was tried and dropped. A hash of the whole file and the line's number: a
// pipe has no hash before its end. The lines of a file that has grown would all
// be new.
type Import struct {
	Logs []*flow.Log // by partition

	// Source is "import:" and what tells this content with these options from
	// any other. Known says that it may have been begun before. Events have
	// "events:" before it, except those of an import that the program of 0.1
	// has begun. That goes on as it was, under the source and with the
	// partitions of then.
	Source string
	Known  bool

	// Options say how lines become events; Parse, if set, does it instead.
	Options EventOptions
	Parse   func(line string, e *sluice.Event) error

	// Items, if set, makes items that belong together of each line.
	Items func(line string) (LineItems, error)

	// Counts has events count for the profiles of their users. What an operator
	// imports is history, which profiles may have already.
	Counts bool

	// Update, if set, makes updates of users of the lines, and no events. The
	// time is filled in.
	Update func(line string, u *user.Update) error

	// Kept refuses events that are past their retention, by the clock.
	Kept  Retention
	Clock sluice.Clock

	// Reject is told of each line that cannot be taken.
	Reject func(line store.Line, reason error) error

	// Part, if set, says that what next returns is a part of a file, behind this
	// point: the logs remember the source for the parts that follow (Forget). Once
	// Run has returned nil, it is the point behind the part. Logs that are full are an
	// error (flow.LogFullError), and not waited for.
	Part *ImportPoint

	// Wrote, if set, is told of batches that are in logs, in no order between the
	// logs. What a run that was killed could not tell, the next one tells.
	Wrote func(batches []store.ImportedBatch) error

	// Waiting, if set, is told what is waited for.
	Waiting func(what string)

	// BacklogBytes is what the logs of partitions that stand still may hold, all
	// together, before the import waits for them (room.go).
	BacklogBytes int

	// Replicas must have all lines of the run, also those that an earlier one has
	// written, before Run returns nil.
	Replicas flow.Replicas

	seen  [sha256.Size]byte // hash over all lines so far
	hash  hash.Hash
	arena Arena
	id    []byte
	whole bool // an earlier run has imported everything

	source    string // under which it appends
	partition func(e *sluice.Event, raw string, partitions int) int
}

// ImportPoint is where an import stands between two parts of its file. The zero value is
// the beginning.
type ImportPoint struct {
	Line int64  `json:"line"`           // the number of the last line
	Seen string `json:"seen,omitempty"` // hexadecimal: the hash over all lines up to it
}

// importDone is the seq of an import of users that is whole.
const importDone = "done"

// Imported counts what became of the lines.
type Imported struct {
	Lines    int64
	Written  int64 // appended to the logs
	Known    int64 // an earlier run had appended them
	Rejected int64
}

// importUnit is what is appended together.
type importUnit struct {
	batches []partBatch // by partition
	placed  []store.ImportedBatch
	to      int64 // the last line
	bytes   int
	done    Imported // up to its end
}

// Run imports what next returns until io.EOF. done is told where it is, after
// each unit that is durable. An error leaves a part imported: run it again.
func (im *Import) Run(ctx context.Context, next func() (store.Line, error), done func(Imported)) (Imported, error) {
	received, err := im.receive(ctx)
	if err != nil {
		return Imported{}, err
	}
	at, err := im.positions(ctx)
	if err == nil {
		err = im.wroteBefore(ctx, at)
	}
	if err == nil && im.Part != nil {
		err = im.room(ctx)
	}
	if err != nil {
		return Imported{}, err
	}
	have := append([]int64(nil), at...) // owned by the reading side
	var all Imported
	retried := false
	end := int64(0) // the last line
	err = flow.Pipe(ctx, ctx, func(ctx context.Context, emit func(importUnit) error) error {
		return im.read(ctx, next, have, emit)
	}, func(ctx context.Context, u importUnit) error {
		again, err := im.append(ctx, &u, at)
		if retried = retried || again; err != nil {
			return err
		}
		all, end = u.done, u.to
		done(all)
		return nil
	})
	if err == nil {
		err = ctx.Err()
	}
	if err == nil {
		err = received(at)
	}
	if err != nil {
		return all, err
	}
	if im.Part != nil {
		im.Part.Line, im.Part.Seen = max(im.Part.Line, end), hex.EncodeToString(im.seen[:])
		return all, nil
	}
	if !retried { // else a late copy of a batch would be news to a log that forgot
		err = im.forget(ctx, at)
	}
	return all, err
}

// positions reads up to which line each log has this import, and decides under which
// source it goes on; 0: none.
func (im *Import) positions(ctx context.Context) (at []int64, err error) {
	im.source, im.partition = im.Source, partitionBefore
	if im.Part == nil || im.Update != nil {
		if at, err = im.positionsOf(ctx); err != nil || im.Update != nil || slices.Max(at) > 0 {
			return at, err
		}
	}
	if err := im.begin(); err != nil {
		return nil, err
	}
	return im.positionsOf(ctx)
}

// begin begins with events, where others have read up to.
func (im *Import) begin() error {
	im.source, im.partition = EventSource(im.Source), partitionOf
	if im.Options.App != "" { // what 0.1 has begun goes on without it
		im.seen = sha256.Sum256([]byte("app " + im.Options.App))
	}
	if im.Part == nil || im.Part.Seen == "" {
		return nil
	}
	seen, err := hex.DecodeString(im.Part.Seen)
	if err != nil || len(seen) != len(im.seen) {
		return fmt.Errorf("go on with %s: %.80q is no hash of its lines", im.source, im.Part.Seen)
	}
	copy(im.seen[:], seen)
	return nil
}

// Try returns what Run would make of the next line: an event, or an update of a user; or
// why it would be rejected. Both hold until the next call.
func (im *Import) Try(line store.Line) (*sluice.Event, *user.Update, error) {
	if im.partition == nil {
		if err := im.begin(); err != nil {
			return nil, nil, err
		}
	}
	item, err := im.item(line)
	if item.update != nil {
		return nil, item.update, err
	}
	return &item.event, nil, err
}

// EventSource is the source in the logs of an import of events.
func EventSource(source string) string { return "events:" + source }

// Forget makes logs forget sources: what they imported is known by its ids alone from then
// on, and an update of a user would be applied again.
func Forget(ctx context.Context, logs []*flow.Log, sources ...string) error {
	for _, source := range sources {
		for _, log := range logs {
			if err := log.Forget(ctx, source); err != nil {
				return err
			}
		}
	}
	return nil
}

func (im *Import) positionsOf(ctx context.Context) ([]int64, error) {
	at := make([]int64, len(im.Logs))
	if !im.Known {
		return at, nil
	}
	seqs := make([]string, len(im.Logs))
	err := im.eachLog(ctx, func(ctx context.Context, p int) (err error) {
		seqs[p], err = im.Logs[p].Seq(ctx, im.source)
		return err
	})
	if err != nil {
		return nil, err
	}
	for p, seq := range seqs {
		if seq == "" {
			continue
		}
		if seq == importDone {
			im.whole = true
			for i := range at {
				at[i] = math.MaxInt64
			}
			return at, nil
		}
		if at[p], err = strconv.ParseInt(seq, 10, 64); err != nil {
			return nil, fmt.Errorf("read where %s was broken off in partition %d: %w", im.source, p, err)
		}
	}
	return at, nil
}

// eachLog calls do for all logs, several at once.
func (im *Import) eachLog(ctx context.Context, do func(ctx context.Context, p int) error) error {
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(parallelImports)
	for p := range im.Logs {
		group.Go(func() error { return do(groupCtx, p) })
	}
	return group.Wait()
}

// room returns a *flow.LogFullError if a log is full. That of a partition that stands
// still may hold more (room.go): the piece is written into it.
func (im *Import) room(ctx context.Context) error {
	room := room{backlogBytes: im.BacklogBytes}
	return im.eachLog(ctx, func(ctx context.Context, p int) error {
		entries, err := im.Logs[p].Entries(ctx)
		if err != nil || entries < maxLogEntries {
			return err
		}
		stands, full, err := room.standing(ctx, im.Logs[p], entries)
		if err == nil && (!stands || full) {
			err = &flow.LogFullError{Partition: p, Entries: entries}
		}
		return err
	})
}

// forget ends what the logs remember, the first log last: repeats of events are
// known by (time, id) from now on.
func (im *Import) forget(ctx context.Context, at []int64) error {
	if im.Update != nil && !im.whole {
		marker := sluice.AppendItem(sluice.NewBatch(16), sluice.ItemMarker, func(b []byte) []byte { return b })
		if _, err := im.Logs[0].Append(ctx, im.source, seqOf(at[0]), importDone, marker, false); err != nil {
			return fmt.Errorf("note that it is done: %w; import it again: nothing is applied twice", err)
		}
		at[0] = math.MaxInt64
	}
	for p, line := range slices.Backward(at) {
		if line == 0 {
			continue
		}
		if err := faults.Hit("import-forget"); err != nil {
			return err
		}
		if err := im.Logs[p].Forget(ctx, im.source); err != nil {
			return err
		}
	}
	return nil
}

// seqOf is a line's number as a seq; before the first there is none.
func seqOf(line int64) string {
	if line == 0 {
		return ""
	}
	return strconv.FormatInt(line, 10)
}

// read gathers lines to units.
func (im *Import) read(ctx context.Context, next func() (store.Line, error), have []int64, emit func(importUnit) error) error {
	var done Imported
	for {
		u := importUnit{batches: make([]partBatch, len(im.Logs)), placed: make([]store.ImportedBatch, len(im.Logs))}
		var err error
		for lines, largest := 0, 0; u.bytes < flushBytes && largest < sluice.MaxBatchBytes && lines < flushRows; lines++ {
			var line store.Line
			if line, err = next(); err != nil {
				break
			}
			done.Lines++
			u.to = line.Number
			var size int
			if size, err = im.add(line, have, &u, &done); err != nil {
				break
			}
			largest = max(largest, size)
			if ctx.Err() != nil {
				return ctx.Err()
			}
		}
		if err != nil && err != io.EOF {
			return err
		}
		u.done = done
		if u.to > 0 {
			if emitErr := emit(u); emitErr != nil {
				return emitErr
			}
		}
		if err == io.EOF {
			return nil
		}
	}
}

// add takes a line into the batch of its partition and returns that one's size.
func (im *Import) add(line store.Line, have []int64, u *importUnit, done *Imported) (int, error) {
	item, err := im.item(line)
	if err != nil {
		done.Rejected++
		return 0, im.Reject(line, err)
	}
	if line.Number <= have[item.partition] {
		done.Known++
		return 0, nil
	}
	done.Written++
	b := &u.batches[item.partition]
	if b.data == nil {
		b.data = sluice.NewBatch(min(sluice.MaxBatchBytes, flushBytes/len(im.Logs))) // nearly always it gets full
	}
	before := len(b.data)
	b.data = item.append(b.data)
	b.items++
	if item.items != nil {
		b.items += item.items.Count - 1
	}
	note(&u.placed[item.partition], item.event.TimeMillis)
	u.bytes += len(b.data) - before
	if b.items >= sluice.MaxBatchItems {
		return sluice.MaxBatchBytes, nil
	}
	return len(b.data), nil
}

// LineItems are items that go to one log in one step.
type LineItems struct {
	Partition  int
	Items      []byte // as in a batch
	Count      int
	TimeMillis int64
}

// importItem is what became of a line.
type importItem struct {
	partition int
	event     sluice.Event
	update    *user.Update // nil: it is an event
	items     *LineItems   // nil: it is an event or an update
}

func (i *importItem) append(batch []byte) []byte {
	switch {
	case i.update != nil:
		return user.AppendUpdate(batch, i.update)
	case i.items != nil:
		return append(batch, i.items.Items...)
	}
	return sluice.AppendEvent(batch, &i.event)
}

// item makes an event of a line, or an update of a user.
func (im *Import) item(line store.Line) (item importItem, err error) {
	if im.Update != nil {
		item.update = &user.Update{}
		if err = line.Refused; err == nil {
			err = im.Update(line.Text, item.update)
		}
		item.update.TimeMillis = im.Clock.Now().UnixMilli()
		item.partition = item.update.Key.Partition(len(im.Logs))
		return item, err
	}
	if im.Items != nil {
		items, err := im.Items(line.Text)
		item.items, item.partition, item.event.TimeMillis = &items, items.Partition, items.TimeMillis
		return item, err
	}
	im.note(line)
	im.arena.Reset()
	if err = line.Refused; err == nil {
		err = im.parse(line.Text, &item.event)
	}
	if err == nil {
		err = im.Kept.CheckKept(&item.event, im.Clock.Now())
	}
	item.event.Apart = item.event.Apart || !im.Counts
	item.partition = im.partition(&item.event, line.Text, len(im.Logs))
	return item, err
}

// note adds a line to the hash over all lines.
func (im *Import) note(line store.Line) {
	if im.hash == nil {
		im.hash = sha256.New()
	}
	var number [binary.MaxVarintLen64]byte
	im.hash.Reset()
	im.hash.Write(im.seen[:]) // never fails (hash.Hash)
	im.hash.Write(binary.AppendVarint(number[:0], line.Number))
	im.hash.Write(unsafe.Slice(unsafe.StringData(line.Text), len(line.Text)))
	im.hash.Sum(im.seen[:0])
}

func (im *Import) parse(text string, e *sluice.Event) error {
	if im.Parse != nil {
		return im.Parse(text, e)
	}
	options := im.Options
	options.Now, options.Arena = -1, &im.arena // no event has that time
	options.Origin = sluice.OriginTrusted      // an operator imports it
	if err := ParseEvent(text, &options, e); err != nil {
		return err
	}
	if e.TimeMillis == -1 {
		return errors.New("time is missing: want time, timestamp or ts; a repeated import would give it another")
	}
	if e.ID == "" {
		im.id = base64.RawURLEncoding.AppendEncode(append(im.id[:0], "im-"...), im.seen[:16])
		e.ID = unsafe.String(unsafe.SliceData(im.id), len(im.id))
	}
	return nil
}

// append writes a unit to the logs and moves at. again tells that an append
// was sent more than once.
func (im *Import) append(ctx context.Context, u *importUnit, at []int64) (again bool, err error) {
	if err := faults.Hit("import"); err != nil {
		return false, err
	}
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(parallelImports)
	retried := make([]bool, len(u.batches))
	for p := range u.batches {
		if u.batches[p].items == 0 {
			continue
		}
		group.Go(func() (err error) {
			retried[p], err = im.appendOne(groupCtx, p, u, at)
			return err
		})
	}
	err = group.Wait()
	var placed []store.ImportedBatch
	for p, r := range retried {
		again = again || r
		if !u.placed[p].Position.IsZero() { // also if another log failed
			placed = append(placed, u.placed[p])
		}
	}
	if wroteErr := im.wrote(placed); wroteErr != nil {
		err = errors.Join(err, wroteErr)
	}
	if err == nil {
		err = faults.Hit("imported")
	}
	return again, err
}

func (im *Import) appendOne(ctx context.Context, p int, u *importUnit, at []int64) (again bool, err error) {
	prev := seqOf(at[p])
	until := time.Now().Add(importGiveUp)
	for {
		done, err := im.Logs[p].Append(ctx, im.source, prev, seqOf(u.to), u.batches[p].data, false)
		if err == nil {
			at[p] = u.to
			u.placed[p].Partition, u.placed[p].Position = p, done.Position
			if im.Part != nil {
				return again, nil // the next part asks
			}
			if done.Entries >= maxLogEntries {
				im.tell("the logs are full: waiting for the store")
			}
			_, err := (&room{im.BacklogBytes, func(why error) { im.tell(why.Error()) }}).wait(ctx, im.Logs[p], done.Entries)
			return again, err
		}
		full := errors.Is(err, sluice.ErrFull)
		if errors.Is(err, sluice.ErrConflict) {
			return again, fmt.Errorf("another import of the same file is running: %w", err)
		}
		if !full && time.Now().After(until) {
			return again, fmt.Errorf("%w; import it again: it goes on from there", err)
		}
		im.tell(err.Error())
		again = again || !full
		if err := sluice.Pause(ctx, importPause); err != nil {
			return again, err
		}
	}
}

func (im *Import) tell(what string) {
	if im.Waiting != nil {
		im.Waiting(what)
	}
}
