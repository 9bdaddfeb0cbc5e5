package flow

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"sluice"
)

// A Redis can go back in time. A replica that lagged is promoted, a disk has
// not got the last writes, or an empty server takes the place of another. Marks
// are gone then, so mail that was sent seems to wait. The replication id tells:
// it is new with every start and every promotion (INFO replication). mark.lua
// compares it with the one that the lanes were read on, in the same step as it
// marks. So nothing is attempted out of lanes before they were checked for
// missing marks. In a separate step it could change in between; in a cluster
// the answer would come from any node.

// LaneState is the state that a process finds when it begins to send.
type LaneState struct {
	States   map[string]string // place (LaneBatch.Place) -> letters
	Marks    map[string]string // id of a send -> evidence
	Sublanes []string

	Server   string    // replication id of the Redis
	Moved    time.Time // when it was first seen to be another one; zero: never
	Compared bool      // lanes and ledger have been compared since
}

// Letters returns the letters of a batch.
func (s *LaneState) Letters(b *LaneBatch) string {
	if letters := s.States[b.Place()]; len(letters) == b.Size {
		return letters
	}
	return strings.Repeat(string(LetterWaiting), b.Size)
}

// Begin reads how the lanes stand, and notes on which Redis they are from now on.
func (l *Lanes) Begin(ctx context.Context, lease *Lease, nowMillis int64) (LaneState, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	c, p := l.log.redis.client, l.log.partition
	var s LaneState
	worked := ""
	if lease.Number > 1 { // from SQL: it rises also when Redis forgets
		worked = "1"
	}
	noted, err := l.log.redis.callTexts(ctx, "note on which redis lanes are", "stand", []string{lease.key, p.standingKey()},
		[]string{lease.token, strconv.FormatInt(nowMillis, 10), worked})
	if err != nil {
		return s, err
	}
	s.Server, s.Compared = noted[0], noted[2] == "1"
	if s.Server == "" {
		return s, fmt.Errorf("note on which redis lanes are: redis %s: INFO replication names no master_replid", l.log.redis)
	}
	if moved, err := strconv.ParseInt(noted[1], 10, 64); err == nil {
		s.Moved = time.UnixMilli(moved)
	}
	answers := c.DoMulti(ctx, c.B().Hgetall().Key(p.statesKey()).Build(), c.B().Hgetall().Key(p.marksKey()).Build())
	var errs [3]error
	s.States, errs[0] = answers[0].AsStrMap()
	s.Marks, errs[1] = answers[1].AsStrMap()
	s.Sublanes, errs[2] = l.Sublanes(ctx)
	return s, l.log.redis.wrap("read how lanes stand", errors.Join(errs[:]...))
}

// Sublanes returns the names of the sublanes that there are.
func (l *Lanes) Sublanes(ctx context.Context) ([]string, error) {
	return Ask(ctx, l.log.redis, "read which sublanes there are", l.log.redis.B().Smembers().Key(l.log.partition.sublanesKey()).Build(), rueidis.RedisResult.AsStrSlice)
}

// Walk hands out all batches that wait: those of lanes, of sublanes, then those
// that wait for a time. The Lane of the last is the one that they will enter,
// and their Entry is no place among the letters. While the lease is held and
// Due not called, sends recorded meanwhile, by any process, move only towards
// the end of this order. So nothing is passed over; some may come twice.
func (l *Lanes) Walk(ctx context.Context, each func(b *LaneBatch, later bool) error) error {
	if err := l.WalkLanes(ctx, func(string) bool { return true }, each); err != nil {
		return err
	}
	return l.WalkLater(ctx, each)
}

// WalkLanes is Walk for some of the lanes and sublanes.
func (l *Lanes) WalkLanes(ctx context.Context, which func(lane string) bool, each func(b *LaneBatch, later bool) error) error {
	walk := func(lanes []string) error {
		for _, lane := range lanes {
			if !which(lane) {
				continue
			}
			if err := l.walkLane(ctx, lane, each); err != nil {
				return err
			}
		}
		return nil
	}
	if err := walk(LaneNames); err != nil {
		return err
	}
	sublanes, err := l.Sublanes(ctx) // after the lanes: what moves goes there
	if err != nil {
		return err
	}
	return walk(sublanes)
}

// walkBatches is how many batches a read of a walk asks for.
const walkBatches = 4

func (l *Lanes) walkLane(ctx context.Context, lane string, each func(b *LaneBatch, later bool) error) error {
	after := "0-0"
	for {
		read, err := l.Read(ctx, map[string]string{lane: after}, walkBatches, 0)
		if err != nil || len(read[lane]) == 0 {
			return err
		}
		for i := range read[lane] {
			if err := each(&read[lane][i], false); err != nil {
				return err
			}
			after = read[lane][i].Entry
		}
	}
}

// dueSeconds is how many seconds a read of the index gives out.
const dueSeconds = 1000

// WalkLater is Walk for sends that wait for a time.
func (l *Lanes) WalkLater(ctx context.Context, each func(b *LaneBatch, later bool) error) error {
	p := l.log.partition
	from := "-inf"
	for {
		seconds, err := Ask(ctx, l.log.redis, "read for what sends wait", l.log.redis.B().Zrangebyscore().Key(p.dueKey()).Min(from).Max("+inf").Limit(0, dueSeconds).Build(), rueidis.RedisResult.AsStrSlice)
		if err != nil {
			return err
		}
		if len(seconds) == 0 {
			return nil
		}
		for _, text := range seconds {
			second, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				return fmt.Errorf("read the seconds that sends of partition %d wait for: %q is no number", p.Number, text)
			}
			if err := l.walkSecond(ctx, second, each); err != nil {
				return err
			}
			from = "(" + text
		}
	}
}

func (l *Lanes) walkSecond(ctx context.Context, second int64, each func(b *LaneBatch, later bool) error) error {
	key, from := l.log.partition.laterKey(second), "-"
	for {
		entries, err := Ask(ctx, l.log.redis, "read what waits for a time", l.log.redis.B().Xrange().Key(key).Start(from).End("+").Count(walkBatches).Build(), rueidis.RedisResult.AsXRange)
		if err != nil {
			return err
		}
		if len(entries) == 0 {
			return nil
		}
		for _, entry := range entries {
			b, err := l.batch(entry.FieldValues["lane"], entry)
			if err != nil {
				return err
			}
			b.Second = second
			if err := each(&b, true); err != nil {
				return err
			}
			from = "(" + entry.ID
		}
	}
}

// Compared notes that the lanes have been compared with the ledger, and in a text
// what was found. ErrConflict: it is another Redis by now.
func (l *Lanes) Compared(ctx context.Context, lease *Lease, server, found string) error {
	p := l.log.partition
	n, err := l.log.redis.callInt(ctx, "note that lanes were compared", "compared", []string{lease.key, p.standingKey()}, []string{lease.token, server, found})
	if err == nil && n == 0 {
		err = fmt.Errorf("note that lanes were compared: %w: it is another redis by now", sluice.ErrConflict)
	}
	return err
}

// Found returns what was found when the lanes were compared the last time. It
// also returns since when the Redis is the present one; zero if it never was
// another. due: they are still to be compared.
func (l *Lanes) Found(ctx context.Context) (found string, moved time.Time, due bool, err error) {
	fields, err := Ask(ctx, l.log.redis, "read how lanes were compared", l.log.redis.B().Hgetall().Key(l.log.partition.standingKey()).Build(), rueidis.RedisResult.AsStrMap)
	if err != nil {
		return "", moved, false, err
	}
	if ms, err := strconv.ParseInt(fields["moved"], 10, 64); err == nil {
		moved = time.UnixMilli(ms)
	}
	return fields["found"], moved, len(fields) > 0 && fields["compared"] != "1", nil
}

// Server returns the replication id of the Redis on which the lanes are worked
// off. It returns another text if they are to be compared with the ledger.
func (l *Lanes) Server(ctx context.Context) (string, error) {
	return Ask(ctx, l.log.redis, "read on which redis lanes are", l.log.redis.B().Hget().Key(l.log.partition.standingKey()).Field("server").Build(), Text)
}

// CompareAgain has the lanes compared with the ledger. To be called after another
// ledger, or other logs, were put in place. Running processes notice it within
// seconds.
func (l *Lanes) CompareAgain(ctx context.Context) error {
	return l.log.redis.Put(ctx, "have lanes compared", l.log.partition.standingKey(), "server", "restored")
}

// LogEnd returns the position of the last entry of the partition's log.
func (l *Lanes) LogEnd(ctx context.Context) (sluice.Position, error) { return l.log.Last(ctx) }

// LogEnds is LogEnd of all these lanes, asked for in one call.
func LogEnds(ctx context.Context, lanes []*Lanes) ([]sluice.Position, error) {
	logs := make([]*Log, len(lanes))
	for i, l := range lanes {
		logs[i] = l.log
	}
	return logEnds(ctx, logs)
}

// noteSource is the source of what Note writes.
const noteSource = "lanes"

// Note writes items about sends to the end of the log, in entries of at most
// sluice.MaxBatchBytes. An error leaves open how many.
func (l *Lanes) Note(ctx context.Context, items []byte) error {
	stands, err := l.log.Seq(ctx, noteSource)
	for err == nil && len(items) > 0 {
		end := 0
		for end < len(items) {
			n := 4 + int(binary.LittleEndian.Uint32(items[end:]))
			if end > 0 && end+n > sluice.MaxBatchBytes {
				break
			}
			end += n
		}
		seq := newToken()
		_, err = l.log.Append(ctx, noteSource, stands, seq, append(sluice.NewBatch(end), items[:end]...), true)
		stands, items = seq, items[end:]
	}
	return err
}

// ClearLanes removes all waiting sends, and all state of them.
func (l *Log) ClearLanes(ctx context.Context) error {
	p := l.partition
	keys := []string{p.statesKey(), p.marksKey(), p.cancelsKey(), p.doubtsKey(), p.givenKey(), p.waitingKey(), p.owedKey(), p.standingKey(), p.sublanesKey(), p.dueKey()}
	sublanes, err := Ask(ctx, l.redis, "empty lanes", l.redis.B().Smembers().Key(p.sublanesKey()).Build(), rueidis.RedisResult.AsStrSlice)
	if err != nil {
		return err
	}
	for _, lane := range append(sublanes, LaneNames...) {
		keys = append(keys, p.laneKey(lane))
	}
	for {
		seconds, err := Ask(ctx, l.redis, "empty lanes", l.redis.B().Zrangebyscore().Key(p.dueKey()).Min("-inf").Max("+inf").Limit(0, dueSeconds).Build(), rueidis.RedisResult.AsStrSlice)
		if err != nil {
			return err
		}
		if len(seconds) == 0 {
			break
		}
		later := make([]string, 0, len(seconds))
		for _, text := range seconds {
			if second, err := strconv.ParseInt(text, 10, 64); err == nil {
				later = append(later, p.laterKey(second))
			}
		}
		if len(later) > 0 {
			if err := l.unlink(ctx, later); err != nil {
				return err
			}
		}
		if err := l.redis.Do(ctx, "empty lanes", l.redis.B().Zrem().Key(p.dueKey()).Member(seconds...).Build()); err != nil {
			return err
		}
	}
	return l.unlink(ctx, keys)
}

func (l *Log) unlink(ctx context.Context, keys []string) error {
	return l.redis.Do(ctx, "empty lanes", l.redis.B().Unlink().Key(keys...).Build())
}

// SkipTo moves a cursor whose follower's effect is in Redis, without a lease:
// no process may be at work.
func (l *Log) SkipTo(ctx context.Context, follower string, to sluice.Position) error {
	return l.redis.Do(ctx, "move a cursor", l.redis.B().Hset().Key(l.partition.cursorsKey()).FieldValue().FieldValue(follower, to.String()).Build())
}
