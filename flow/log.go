package flow

import (
	"context"
	"fmt"
	"strings"
	"time"
	"unsafe"

	"github.com/redis/rueidis"
	"golang.org/x/sync/errgroup"

	"sluice"
)

// Batch is one entry of a partition's log.
type Batch struct {
	Partition int
	Position  sluice.Position
	Prev      sluice.Position // the position of the entry before it
	Data      []byte          // encoded, see sluice.ReadBatch; never changed
}

// Log is the log of one partition: a Redis Stream of batches.
//
// The idea. Batches of a source have one way in, Append, which is the commit of the
// writer. Other scripts (writesEnds) write items that a name, a cursor or a mark keeps
// from coming twice.
// The source's seq is in the log's own slot and moves in the same script that
// writes the batch. So a repeat after a lost answer, a crash or a take-over
// writes nothing twice, and no id of an item is needed for it.
//
// The invariants. Entries do not change. Each names the one before it (prev),
// so a reader whose cursor is not its next entry's prev knows that something is
// missing. Redis itself skips a trimmed gap silently. Entries are removed only
// below the cursors of the followers that hold the trim, and after a delay where there
// is room: a cursor may go back (margin.go). A raise may move unread ones to the end. An applied id is never issued again: a
// process that takes over a log raises it to the cursor (Raise) before reading
// on.
//
// What was dropped. Consumer groups: an acknowledgement that is not part of
// the effect loses or doubles, and pending entries cost as much as the data.
// MAXLEN: it trims what was not read.
type Log struct {
	redis     *Redis
	partition Partition
}

// NewLog returns the log of a partition.
func NewLog(r *Redis, p Partition) *Log { return &Log{redis: r, partition: p} }

// String names the log, as GapError and Gaps do.
func (l *Log) String() string { return fmt.Sprintf("log of partition %d", l.partition.Number) }

// Gaps returns where followers record that they stand still at gaps of logs.
func (l *Log) Gaps() Gaps { return Gaps{Redis: l.redis} }

// Partition returns the number of the log's partition.
func (l *Log) Partition() int { return l.partition.Number }

// Appended says where a batch went.
type Appended struct {
	Position sluice.Position
	Repeated bool // it had been written before
	Entries  int  // in the log now that are not applied; -1: not counted
}

// Entry is a batch for a log, and the step of its source that it is.
type Entry struct {
	Log          *Log
	PrevSeq, Seq string
	Batch        []byte
}

// Append writes a batch, if its source stands at prevSeq, and moves the source
// to seq. If it stands at seq already, the batch was written before and the
// earlier position is returned. Any other seq is ErrConflict: read Seq again.
//
// internal tells that the batch moves what Redis holds already, which must
// work when it is full; else a full Redis answers ErrFull. A source's seq is
// compared for equality only; it may be any text without '|'.
func (l *Log) Append(ctx context.Context, source, prevSeq, seq string, batch []byte, internal bool) (Appended, error) {
	entries := [1]Entry{{Log: l, PrevSeq: prevSeq, Seq: seq, Batch: batch}}
	done, err := l.redis.appendAll(ctx, source, entries[:], internal, true)
	if err != nil {
		return Appended{}, err
	}
	return done[0].Appended, done[0].Err
}

// Outcome is what became of an entry.
type Outcome struct {
	Appended
	Err error
}

// AppendAll is Append for entries of several logs of one Redis, in as few calls
// as possible. An entry of a joint call costs Redis less than half of a call by
// itself. It returns an outcome for each entry, in their order. An outcome's
// Err may leave open whether the entry was written.
func AppendAll(ctx context.Context, source string, entries []Entry, internal bool) []Outcome {
	if len(entries) == 0 {
		return nil
	}
	r := entries[0].Log.redis
	all := make([]Outcome, len(entries))
	var group errgroup.Group
	group.SetLimit(parallelAppends)
	from := 0
	for _, call := range cutCalls(entries, func(e *Entry) int {
		if !r.oneServer() {
			return maxCallBytes // each by itself
		}
		return len(e.Batch)
	}) {
		out := all[from : from+len(call)]
		from += len(call)
		group.Go(func() error {
			done, err := r.appendAll(ctx, source, call, internal, true)
			copy(out, done)
			for i := range out {
				if err != nil {
					out[i].Err = err
				}
			}
			return nil
		})
	}
	_ = group.Wait() // each outcome has its own error
	return all
}

// appendAll is AppendAll in one call of a script, which Redis runs as a whole. The
// logs must be together (Redis.together). The error says that there is no outcome,
// and leaves open what was written. count asks how many entries the logs have now.
func (r *Redis) appendAll(ctx context.Context, source string, entries []Entry, internal, count bool) ([]Outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	const verb = "append to log"
	script := "append"
	if internal {
		script = "append-internal"
	}
	keys, args := make([]string, 0, 2*len(entries)), make([]string, 2, 3+3*len(entries))
	args[0], args[1] = source, "0"
	wanted := len(entries)
	if count {
		args[1], wanted = "1", 2*wanted
	}
	logs := make([]*Log, len(entries))
	for i := range entries {
		e := &entries[i]
		logs[i] = e.Log
		keys = append(keys, e.Log.partition.logKey(), e.Log.partition.sourcesKey())
		args = append(args, e.PrevSeq, e.Seq, rueidis.BinaryString(e.Batch))
	}
	result, err := r.writeEnd(ctx, script, logs, keys, args)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", verb, err)
	}
	answers, err := result.ToArray()
	if err == nil && len(answers) != wanted {
		err = fmt.Errorf("%d answers for %d batches", len(answers), len(entries))
	}
	if err != nil {
		return nil, r.wrap(verb, err)
	}
	all := make([]Outcome, len(entries))
	for i := range entries {
		if err := answers[i].Error(); err != nil {
			all[i].Err = r.wrap(fmt.Sprintf("%s of partition %d", verb, entries[i].Log.partition.Number), err)
			continue
		}
		if all[i].Appended, err = readAppended(&answers[i]); err != nil {
			all[i].Err = fmt.Errorf("%s of partition %d, source %s at %q: %w", verb, entries[i].Log.partition.Number, source, entries[i].PrevSeq, err)
			continue
		}
		if count {
			if n, err := answers[len(entries)+i].AsInt64(); err == nil { // else it is written all the same
				all[i].Entries = int(n)
			}
		}
		r.floors.see(entries[i].Log.partition.Number, all[i].Position, !all[i].Repeated)
	}
	return all, nil
}

// readAppended reads what append.lua answers of a log.
func readAppended(answer *rueidis.RedisMessage) (done Appended, err error) {
	done.Entries = -1
	if answer.IsString() {
		text, err := answer.ToString()
		if err != nil {
			return done, err
		}
		done.Position, err = sluice.ParsePosition(text)
		return done, err
	}
	fields, err := answer.ToArray()
	if err != nil {
		return done, err
	}
	if len(fields) != 2 {
		return done, fmt.Errorf("%d fields are no answer of the script", len(fields))
	}
	how, err := fields[0].AsInt64()
	if err != nil {
		return done, err
	}
	text, err := fields[1].ToString()
	if err != nil {
		return done, err
	}
	if how < 0 {
		return done, fmt.Errorf("%w: it stands at %q", sluice.ErrConflict, text)
	}
	done.Repeated = true
	done.Position, err = sluice.ParsePosition(text)
	return done, err
}

// Seq returns the seq at which a source stands, "" if it never wrote.
func (l *Log) Seq(ctx context.Context, source string) (string, error) {
	stands := l.redis.seqs(ctx, source, []*Log{l})
	return stands[0].seq, stands[0].err
}

// SeqsOf is Seq for several sources, in one call.
func (l *Log) SeqsOf(ctx context.Context, sources []string) ([]string, error) {
	values, err := Ask(ctx, l.redis, "read seqs of sources", l.redis.B().Hmget().Key(l.partition.sourcesKey()).Field(sources...).Build(), rueidis.RedisResult.ToArray)
	if err != nil {
		return nil, err
	}
	seqs := make([]string, len(values))
	for i := range values {
		if values[i].IsNil() {
			continue
		}
		value, err := values[i].ToString()
		if err == nil {
			seqs[i], err = seqIn(value)
		}
		if err != nil {
			return nil, fmt.Errorf("read seq of source %s in partition %d: %w", sources[i], l.partition.Number, err)
		}
	}
	return seqs, nil
}

// seqIn returns the seq of what is kept of a source.
func seqIn(value string) (string, error) {
	end := strings.LastIndexByte(value, '|')
	if end < 0 {
		return "", fmt.Errorf("%q has no id", value)
	}
	return value[:end], nil
}

// sourceSeq is the seq of a source in a log, or why it is not known.
type sourceSeq struct {
	seq string
	err error
}

// seqs is Seq for several logs, side by side: one after the other, a Redis that
// hangs would cost callTimeout for each.
func (r *Redis) seqs(ctx context.Context, source string, logs []*Log) []sourceSeq {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	commands := make([]rueidis.Completed, len(logs))
	for i, l := range logs {
		commands[i] = r.client.B().Hget().Key(l.partition.sourcesKey()).Field(source).Build()
	}
	all := make([]sourceSeq, len(logs))
	for i, answer := range r.client.DoMulti(ctx, commands...) {
		value, err := answer.ToString()
		if rueidis.IsRedisNil(err) {
			continue
		}
		if err != nil {
			all[i].err = r.wrap("read a source's seq", err)
			continue
		}
		if all[i].seq, err = seqIn(value); err != nil {
			all[i].err = fmt.Errorf("read seq of source %s in partition %d: %w", source, logs[i].partition.Number, err)
		}
	}
	return all
}

// Entries returns how many entries of the log are not applied yet, as far as
// its follower has reported (Settle).
func (l *Log) Entries(ctx context.Context) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return l.entriesOf(l.redis.client.DoMulti(ctx, l.askEntries()...))
}

func (l *Log) askEntries() rueidis.Commands {
	b := l.redis.client.B
	return rueidis.Commands{b().Xlen().Key(l.partition.logKey()).Build(), b().Hget().Key(l.partition.sourcesKey()).Field(appliedField).Build()}
}

func (l *Log) entriesOf(answers []rueidis.RedisResult) (int, error) {
	n, err := answers[0].AsInt64()
	if err != nil {
		return 0, l.redis.wrap("count a log's entries", err)
	}
	applied, err := answers[1].AsInt64()
	if err != nil && !rueidis.IsRedisNil(err) {
		return 0, l.redis.wrap("count a log's entries", err)
	}
	return int(max(0, n-applied)), nil
}

// Bytes returns how much of Redis's memory a log with entries takes, applied ones
// included. It costs Redis some milliseconds for a log of the largest size.
func (l *Log) Bytes(ctx context.Context) (int64, error) {
	return Ask(ctx, l.redis, "measure a log", l.redis.B().MemoryUsage().Key(l.partition.logKey()).Samples(0).Build(), rueidis.RedisResult.AsInt64)
}

// LogState is how far a log goes.
type LogState struct {
	Entries int             // that are not applied; -1: Redis does not tell
	Last    sluice.Position // of the last entry, zero if there is none
	Known   bool            // Last is known
}

// LogStates returns how far each of some logs goes. It asks for all of them at once:
// one after the other they cost a call each, and are shown every few seconds.
func LogStates(ctx context.Context, logs []*Log) []LogState {
	if len(logs) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	c := logs[0].redis.client
	var ask rueidis.Commands
	for _, l := range logs {
		ask = append(append(ask, l.askEntries()...), c.B().Hget().Key(l.partition.sourcesKey()).Field(tailField).Build())
	}
	answers, states := c.DoMulti(ctx, ask...), make([]LogState, len(logs))
	for i, l := range logs {
		s, of := &states[i], answers[3*i:]
		var err error
		if s.Entries, err = l.entriesOf(of); err != nil {
			s.Entries = -1
		}
		s.Last, err = l.lastOf(of[2])
		s.Known = err == nil
	}
	return states
}

// Read returns up to count batches after the cursor. It waits up to `wait` for
// the first one and returns none if there is none; wait 0 does not wait. The
// error is ErrGap if what comes right after the cursor is missing: the first
// batch follows one beyond the cursor. A batch that follows one before the
// cursor is no gap: Redis has gone back to there and a process has written
// before Raise could. The entries between are applied.
func (l *Log) Read(ctx context.Context, cursor sluice.Position, count int64, wait time.Duration) ([]Batch, error) {
	all, err := l.redis.readLogs(ctx, []*Log{l}, []sluice.Position{cursor}, count, wait)
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

// readLogs is Read for several logs, in one command: up to count batches of
// each. The logs must be together (Redis.together). It waits for the first
// batch of any, which may be all that comes then, whatever the others have.
func (r *Redis) readLogs(ctx context.Context, logs []*Log, cursors []sluice.Position, count int64, wait time.Duration) ([][]Batch, error) {
	keys, ids := make([]string, len(logs)), make([]string, len(logs))
	for i, l := range logs {
		keys[i], ids[i] = l.partition.logKey(), cursors[i].String()
	}
	var command rueidis.Completed
	if wait > 0 {
		command = r.client.B().Xread().Count(count).Block(wait.Milliseconds()).Streams().Key(keys...).Id(ids...).Build()
	} else {
		command = r.client.B().Xread().Count(count).Streams().Key(keys...).Id(ids...).Build()
	}
	ctx, cancel := context.WithTimeout(ctx, wait+callTimeout)
	defer cancel()
	all := make([][]Batch, len(logs))
	streams, err := r.client.Do(ctx, command).AsXRead()
	if rueidis.IsRedisNil(err) {
		return all, nil
	}
	if err != nil {
		return nil, r.wrap("read a log", err)
	}
	for i, l := range logs {
		if all[i], err = l.follow(cursors[i], streams[keys[i]]); err != nil {
			return nil, err
		}
		if n := len(all[i]); n > 0 {
			r.floors.see(l.partition.Number, all[i][n-1].Position, false)
		}
	}
	return all, nil
}

// follow returns the batches of entries, up to a gap.
func (l *Log) follow(cursor sluice.Position, entries []rueidis.XRangeEntry) ([]Batch, error) {
	batches := make([]Batch, 0, len(entries))
	for _, entry := range entries {
		b, err := l.batch(entry)
		if err != nil {
			return nil, err
		}
		if cursor.Before(b.Prev) {
			if len(batches) > 0 {
				return batches, nil // the next read meets the gap
			}
			return nil, &GapError{What: l.String(), Partition: l.partition.Number, Cursor: cursor, Start: b.Prev}
		}
		cursor = b.Position
		batches = append(batches, b)
	}
	return batches, nil
}

func (l *Log) batch(entry rueidis.XRangeEntry) (Batch, error) {
	position, err := sluice.ParsePosition(entry.ID)
	if err != nil {
		return Batch{}, err
	}
	prev, err := sluice.ParsePosition(entry.FieldValues["prev"])
	if err != nil {
		return Batch{}, fmt.Errorf("read log of partition %d: entry %s: %w", l.partition.Number, entry.ID, err)
	}
	data := entry.FieldValues["batch"] // no copy: entries read from a log do not change
	return Batch{Partition: l.partition.Number, Position: position, Prev: prev, Data: unsafe.Slice(unsafe.StringData(data), len(data))}, nil
}

// Trim removes all entries before the one at keep, for want of room, and notes that
// they may have been applied just now. The lease must be held.
func (l *Log) Trim(ctx context.Context, lease *Lease, keep sluice.Position) (int64, error) {
	return l.trim(ctx, lease, keep, "", "0")
}

// Again writes an item of a dead letter at the end of the log. A repeat under
// the same name does nothing for a day.
func (l *Log) Again(ctx context.Context, name string, batch []byte) error {
	p := l.partition
	_, err := l.writeTexts(ctx, "append to log again", "again",
		[]string{p.logKey(), p.sourcesKey(), p.replayKey(name)}, []string{rueidis.BinaryString(batch)})
	return err
}

// Last returns the position of the log's last entry, zero if there is none.
func (l *Log) Last(ctx context.Context) (sluice.Position, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return l.lastOf(l.redis.client.Do(ctx, l.askLast()))
}

// logEnds is Last of all these logs, asked for in one call.
func logEnds(ctx context.Context, logs []*Log) ([]sluice.Position, error) {
	if len(logs) == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	ask := make(rueidis.Commands, len(logs))
	for i, l := range logs {
		ask[i] = l.askLast()
	}
	ends := make([]sluice.Position, len(logs))
	for i, answer := range logs[0].redis.client.DoMulti(ctx, ask...) {
		var err error
		if ends[i], err = logs[i].lastOf(answer); err != nil {
			return nil, err
		}
	}
	return ends, nil
}

func (l *Log) askLast() rueidis.Completed {
	return l.redis.B().Hget().Key(l.partition.sourcesKey()).Field(tailField).Build()
}

func (l *Log) lastOf(answer rueidis.RedisResult) (sluice.Position, error) {
	id, err := answer.ToString()
	if rueidis.IsRedisNil(err) {
		return sluice.Position{}, nil
	}
	if err != nil {
		return sluice.Position{}, l.redis.wrap("read a log's end", err)
	}
	return sluice.ParsePosition(id)
}

// Oldest returns the oldest entry that is still in the log, if any.
func (l *Log) Oldest(ctx context.Context) (Batch, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return l.oldestOf(l.redis.client.Do(ctx, l.askOldest()))
}

func (l *Log) askOldest() rueidis.Completed {
	return l.redis.B().Xrange().Key(l.partition.logKey()).Start("-").End("+").Count(1).Build()
}

func (l *Log) oldestOf(answer rueidis.RedisResult) (Batch, bool, error) {
	entries, err := answer.AsXRange()
	if err != nil {
		return Batch{}, false, l.redis.wrap("read a log's beginning", err)
	}
	if len(entries) == 0 {
		return Batch{}, false, nil
	}
	b, err := l.batch(entries[0])
	return b, err == nil, err
}

// Forget ends what a log remembers of a source that will never write again.
func (l *Log) Forget(ctx context.Context, source string) error {
	return l.redis.Do(ctx, "forget a source", l.redis.B().Hdel().Key(l.partition.sourcesKey()).Field(source).Build())
}
