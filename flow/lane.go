package flow

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"sluice/lib/faults"
	"sluice/mail"
)

// Bounds of lanes.
const (
	// MaxLaneSends bounds the sends of one batch in a lane: a script handles the
	// letters of a batch as a whole.
	MaxLaneSends = 512

	// maxDoubts bounds the sends in doubt of a partition that are kept until an
	// operator decides about them: at most 4.5 KB each.
	maxDoubts = 2_000

	// LaterName is under what all that waits for a time is counted.
	LaterName = "later"

	// dueBatches is how many batches one call moves to the lanes.
	dueBatches = 4
)

// Lanes are where the sends of one partition wait.
//
// The idea. Sends wait in batches, entries of a stream for each priority;
// batches do not change. Beside a batch that is being worked on is a text with
// a letter for each of its sends. w: it waits; m: it is marked; d: it is done
// with here. All sends of a batch without a text wait, so a million waiting
// sends cost their bytes and nothing else. When no letter is w or m, batch and
// text go. Sends that wait for a time (scheduled or deferred) are in batches of
// their own. There is a stream for each second, with an index of the seconds.
// When its second has come, a batch goes to the end of its lane.
//
// The invariants. Only the holder of the lease of sending marks. Only the
// process that knows a mark's evidence records. So a process that has lost the
// lease may still report the outcome of its marked sends, until its successor
// has given them up. Sends enter from the log in one step with a cursor
// (Commit). A send is in exactly one place with a letter w or m. The process
// that packs it for later writes the new place and the letter d in one step.
//
// What was dropped. A sorted set of sends by priority and time: 191 bytes for
// each beside its content, and each taken by itself. A list for each lane:
// what finishes out of order has to be removed from its middle.
type Lanes struct {
	log *Log

	// CancelsAtMost is MaxCancels; set before the lanes are used, where a test has
	// no time for so many.
	CancelsAtMost int
}

// Lanes returns the lanes of the log's partition.
func (l *Log) Lanes() *Lanes { return &Lanes{log: l, CancelsAtMost: MaxCancels} }

// Partition returns the partition's number.
func (l *Lanes) Partition() int { return l.log.Partition() }

// LaneName names the lane of a priority and a class. Classes have lanes of
// their own so that one can be stopped. Ids of entries are times, so a reader
// of both lanes can go by the millisecond of arrival.
func LaneName(p mail.Priority, c mail.Class) string {
	p, c = min(max(p, mail.PriorityHigh), mail.PriorityLow), min(max(c, mail.ClassTransactional), mail.ClassMarketing)
	return LaneNames[2*int(p-mail.PriorityHigh)+int(c-mail.ClassTransactional)]
}

// MarketingLane is how the names of lanes of marketing mail end.
const MarketingLane = "-marketing"

// LaneNames are all lanes but sublanes, the most urgent first, of each priority
// those of transactional mail first.
var LaneNames = []string{"high", "high-marketing", "normal", "normal-marketing", "low", "low-marketing"}

// LaneBatch is a batch of sends in a lane.
type LaneBatch struct {
	Lane  string
	Entry string // its id in the lane's stream
	Size  int    // sends
	Data  []byte // a batch of items

	Second int64 // for which it waits before it enters the lane; 0: it is there
}

// Place names the batch among the letters.
func (b *LaneBatch) Place() string { return b.Lane + " " + b.Entry }

// Packed is a batch of sends that is to wait. It waits in a lane, in a sublane,
// or for a second (Second not 0), to enter its lane then. Or it holds sends in
// doubt, each of which waits by itself until an operator decides (Doubt).
type Packed struct {
	Lane   string
	Second int64
	Doubt  bool

	// What Operations needs; Record packs by itself.
	Size int
	Data []byte
}

// Sublane is the name of a domain's own lane beside a lane.
func Sublane(lane, domain string) string { return lane + "@" + domain }

// how says it to record.lua.
func (p *Packed) how() (how, second string) {
	switch {
	case p.Doubt:
		return "doubt", strconv.Itoa(maxDoubts)
	case p.Second != 0:
		return "later", strconv.FormatInt(p.Second, 10)
	case strings.Contains(p.Lane, "@"):
		return "sublane", ""
	}
	return "lane", ""
}

// key is the stream that it goes to.
func (p *Packed) key(partition Partition) string {
	switch {
	case p.Doubt:
		return partition.doubtsKey()
	case p.Second != 0:
		return partition.laterKey(p.Second)
	}
	return partition.laneKey(p.Lane)
}

// Operations are the operations of a commit that put batches where they wait.
func (l *Lanes) Operations(batches []*Packed) []Operation {
	partition := l.log.partition
	all := make([]Operation, 0, len(batches)+4)
	counts := make(map[string]int, 4)
	var due []string
	for _, p := range batches {
		key := p.key(partition)
		all = append(all, Operation{Keys: []string{key}, Words: []string{"XADD", key, "*", "lane", p.Lane, "n", strconv.Itoa(p.Size), "batch", rueidis.BinaryString(p.Data)}})
		how, second := p.how()
		if how != "later" {
			counts[p.Lane] += p.Size
			continue
		}
		counts[LaterName] += p.Size
		due = append(due, second, second)
	}
	all = append(all, inPieces("ZADD", partition.dueKey(), due)...)
	for lane, n := range counts {
		all = append(all, Operation{Keys: []string{partition.waitingKey()}, Words: []string{"HINCRBY", partition.waitingKey(), lane, strconv.Itoa(n)}})
	}
	return all
}

// LaneRead is what one read of lanes gave.
type LaneRead map[string][]LaneBatch // by lane

// Read returns up to count batches of each lane after an entry ("0-0": from its
// beginning). It waits up to `wait` for the first one; 0 does not wait.
func (l *Lanes) Read(ctx context.Context, after map[string]string, count int64, wait time.Duration) (LaneRead, error) {
	if len(after) == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, wait+callTimeout)
	defer cancel()
	c := l.log.redis.client
	words := []string{"XREAD", "COUNT", strconv.FormatInt(count, 10)}
	if wait > 0 {
		words = append(words, "BLOCK", strconv.FormatInt(wait.Milliseconds(), 10))
	}
	words = append(words, "STREAMS")
	var keys, ids, lanes []string
	for lane, entry := range after {
		lanes, keys, ids = append(lanes, lane), append(keys, l.log.partition.laneKey(lane)), append(ids, entry)
	}
	command := c.B().Arbitrary(words...).Keys(keys...).Args(ids...)
	var built rueidis.Completed
	if wait > 0 {
		built = command.Blocking()
	} else {
		built = command.ReadOnly()
	}
	streams, err := c.Do(ctx, built).AsXRead()
	if rueidis.IsRedisNil(err) {
		return nil, nil
	}
	if err != nil {
		return nil, l.log.redis.wrap("read lanes", err)
	}
	read := make(LaneRead)
	for i, lane := range lanes {
		for _, entry := range streams[keys[i]] {
			b, err := l.batch(lane, entry)
			if err != nil {
				return nil, err
			}
			read[lane] = append(read[lane], b)
		}
	}
	return read, nil
}

func (l *Lanes) batch(lane string, entry rueidis.XRangeEntry) (LaneBatch, error) {
	size, err := strconv.Atoi(entry.FieldValues["n"])
	if err != nil || size < 1 || size > MaxLaneSends {
		return LaneBatch{}, fmt.Errorf("read lane %s of partition %d: entry %s has %q as its number of sends, want 1 to %d", lane, l.Partition(), entry.ID, entry.FieldValues["n"], MaxLaneSends)
	}
	return LaneBatch{Lane: lane, Entry: entry.ID, Size: size, Data: []byte(entry.FieldValues["batch"])}, nil
}

// The letters of sends.
const (
	LetterWaiting = 'w'
	LetterMarked  = 'm'
	LetterDone    = 'd'
)

// Marks returns the evidence of the marks of sends, "" of one that has none.
func (l *Lanes) Marks(ctx context.Context, ids []string) ([]string, error) {
	return l.log.redis.fields(ctx, "read marks", l.log.partition.marksKey(), ids...)
}

// LanePlace is where a send is: a batch and its index there.
type LanePlace struct {
	Batch *LaneBatch
	Index int
}

// What Mark answers for a send.
const (
	Marked    = 'm'
	Cancelled = 'c' // marked as well, but not to be attempted
	Ended     = 'e' // the same, and its outcome is in the log already
	NotHere   = '-' // it does not wait: another process has it
)

// streams numbers the keys of streams that a script gets.
type streams struct {
	keys    []string
	numbers map[string]string
}

func (s *streams) number(key string) string {
	n, ok := s.numbers[key]
	if !ok {
		s.keys = append(s.keys, key)
		n = strconv.Itoa(len(s.keys))
		s.numbers[key] = n
	}
	return n
}

// Mark notes durably that sends are about to be attempted. evidence says which
// process marks, when and for what. It is the key to recording them, so it must
// be new each time. Sends of one batch stand together. The answer has a letter
// for each.
//
// server is that of the LaneState that the places were read with. In another
// Redis, which may lack marks of a moment ago, nothing is marked (ErrConflict).
func (l *Lanes) Mark(ctx context.Context, lease *Lease, server, evidence string, places []LanePlace, ids []string) (string, error) {
	p := l.log.partition
	s := streams{numbers: make(map[string]string, 2), keys: []string{lease.key, p.statesKey(), p.marksKey(), p.cancelsKey()}}
	args := make([]string, 0, 3+7*len(places))
	args = append(args, lease.token, evidence, server)
	for i := 0; i < len(places); {
		b, n := places[i].Batch, i+1
		for n < len(places) && places[n].Batch == b {
			n++
		}
		args = append(args, b.Place(), s.number(p.laneKey(b.Lane)), b.Entry, strconv.Itoa(b.Size), strconv.Itoa(n-i))
		for ; i < n; i++ {
			args = append(args, strconv.Itoa(places[i].Index), ids[i])
		}
	}
	answer, err := run(ctx, l.log.redis, "mark sends", "mark", s.keys, args, rueidis.RedisResult.ToString)
	if err != nil {
		return "", err
	}
	if len(answer) != len(places) {
		return "", fmt.Errorf("mark %d sends of partition %d: the script answered %d letters", len(places), p.Number, len(answer))
	}
	return answer, nil
}

// Recorded is what has become of a marked send.
type Recorded struct {
	LanePlace
	ID, Evidence string // of its mark
	Server       string // that of the LaneState that it was marked, or seen marked, with

	// Given says that another process has marked it and is taken for dead: it
	// is in doubt. Late says that it was given up like that, and its own
	// process reports the outcome all the same. Either all sends of a call are
	// late, or none.
	Given, Late bool

	Waits bool   // it was not attempted and waits where it was
	Log   []byte // an item, or nil

	// Packed is where it waits anew: an index of Record's, from 0; -1: nowhere.
	Packed int
	Item   []byte // for that batch

	// Account is under what it is counted while it waits, with so many bytes; empty:
	// it is not.
	Account string
	Weight  int
}

// Record records sends. The process that has marked them may do so as long as
// its marks stand, also without the lease. Sends with marks that do not stand
// are passed over, so the call may be repeated. But a mark that Redis has
// forgotten, being another one by now, counts as one that stands (record.lua).
// A send that was passed over may be recorded as late. That counts if it was
// given up and nothing has been recorded of it since. Record returns how many
// were recorded, and what Redis refused of the rest.
func (l *Lanes) Record(ctx context.Context, packed []Packed, sends []Recorded) (recorded int, refused []string, err error) {
	p := l.log.partition
	s := streams{numbers: make(map[string]string, 8), keys: []string{p.statesKey(), p.marksKey(), p.waitingKey(), p.logKey(), p.sourcesKey(), p.dueKey(), p.sublanesKey(), p.cancelsKey(), p.givenKey(), p.doubtsKey(), p.owedKey()}}
	args := make([]string, 0, 1+4*len(packed)+15*len(sends))
	args = append(args, strconv.Itoa(len(packed)))
	for i := range packed {
		w := &packed[i]
		how, second := w.how()
		args = append(args, s.number(w.key(p)), w.Lane, how, second)
	}
	for i := range sends {
		r := &sends[i]
		letter := "d"
		if r.Waits {
			letter = "w"
		}
		args = append(args, r.ID, r.Evidence, s.number(p.laneKey(r.Batch.Lane)), r.Batch.Lane, r.Batch.Entry, strconv.Itoa(r.Batch.Size), strconv.Itoa(r.Index),
			letter, rueidis.BinaryString(r.Log), strconv.Itoa(r.Packed+1), rueidis.BinaryString(r.Item), r.Server, r.how(), r.Account, strconv.Itoa(r.Weight))
	}
	answer, err := l.log.writeTexts(ctx, "record sends", "record", s.keys, args)
	if err != nil {
		return 0, nil, err
	}
	recorded, err = strconv.Atoi(answer[0])
	return recorded, answer[1:], err
}

// how says it to record.lua.
func (r *Recorded) how() string {
	switch {
	case r.Given:
		return "given"
	case r.Late:
		return "late"
	}
	return ""
}

// CloseSublanes removes the empty ones among some sublanes, and returns for
// each whether it is removed. The lease of sending must be held. A process that
// has marked may still move sends to a sublane, which then exists again.
func (l *Lanes) CloseSublanes(ctx context.Context, lease *Lease, names []string) (closed []bool, err error) {
	p := l.log.partition
	keys, args := []string{lease.key, p.sublanesKey(), p.waitingKey()}, []string{lease.token}
	for _, name := range names {
		keys, args = append(keys, p.laneKey(name)), append(args, name)
	}
	answer, err := l.log.redis.callTexts(ctx, "remove empty sublanes", "close", keys, args)
	if err == nil && len(answer) != len(names) {
		err = fmt.Errorf("remove empty sublanes of partition %d: %d answers for %d", p.Number, len(answer), len(names))
	}
	for i := range answer {
		closed = append(closed, answer[i] == "1")
	}
	return closed, err
}

// Due moves batches that are due by now to the ends of their lanes, a few at a
// time, and reports whether there are more. The lease of sending must be held.
func (l *Lanes) Due(ctx context.Context, lease *Lease, nowSecond int64) (more bool, err error) {
	p := l.log.partition
	seconds, err := Ask(ctx, l.log.redis, "read what is due", l.log.redis.B().Zrangebyscore().Key(p.dueKey()).Min("-inf").Max(strconv.FormatInt(nowSecond, 10)).Limit(0, 2).Build(), rueidis.RedisResult.AsStrSlice)
	if err != nil {
		return false, err
	}
	if len(seconds) == 0 {
		return false, nil
	}
	second, err := strconv.ParseInt(seconds[0], 10, 64)
	if err != nil {
		return false, fmt.Errorf("read the due second of partition %d: %q is no number", p.Number, seconds[0])
	}
	keys := []string{lease.key, p.dueKey(), p.waitingKey(), p.laterKey(second)}
	args := []string{lease.token, seconds[0], strconv.Itoa(dueBatches)}
	for _, lane := range LaneNames {
		keys, args = append(keys, p.laneKey(lane)), append(args, lane)
	}
	if err := faults.Hit("due"); err != nil {
		return false, err
	}
	answer, err := l.log.redis.callTexts(ctx, "release what is due", "due", keys, args)
	if err == nil {
		err = faults.Hit("due-moved")
	}
	if err != nil {
		return false, err
	}
	return len(seconds) > 1 || answer[1] != "0", nil
}

// Doubts returns the sends that are kept in doubt, as items, by their ids; nil: it
// is not, or not any more.
func (l *Lanes) Doubts(ctx context.Context, ids []string) ([][]byte, error) {
	texts, err := l.log.redis.fields(ctx, "read sends in doubt", l.log.partition.doubtsKey(), ids...)
	if err != nil {
		return nil, err
	}
	items := make([][]byte, len(ids))
	for i := range texts {
		if texts[i] != "" {
			items[i] = []byte(texts[i])
		}
	}
	return items, nil
}

// Settled are the operations of a commit by which sends are kept in doubt no more.
func (l *Lanes) Settled(ids []string) []Operation {
	return inPieces("HDEL", l.log.partition.doubtsKey(), ids)
}

// Waiting returns how many sends are in each lane, and under "later" how many
// wait for a time. Marked ones are among them.
func (l *Lanes) Waiting(ctx context.Context) (map[string]int64, error) {
	return WaitingIn(ctx, []*Lanes{l})
}

// WaitingIn is Waiting of all these lanes together, asked for in one call.
func WaitingIn(ctx context.Context, lanes []*Lanes) (map[string]int64, error) {
	all := make(map[string]int64)
	if len(lanes) == 0 {
		return all, nil
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	redis := lanes[0].log.redis
	ask := make(rueidis.Commands, len(lanes))
	for i, l := range lanes {
		ask[i] = redis.client.B().Hgetall().Key(l.log.partition.waitingKey()).Build()
	}
	for _, answer := range redis.client.DoMulti(ctx, ask...) {
		counts, err := answer.AsIntMap()
		if err != nil {
			return all, redis.wrap("count waiting sends", err)
		}
		for lane, n := range counts {
			all[lane] += n
		}
	}
	return all, nil
}
