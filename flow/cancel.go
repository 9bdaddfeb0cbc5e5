package flow

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"sluice"
)

// A cancelled send is noted beside the lanes until it is met in its lane and
// recorded. A note is the send's id and when it was made. Redis does not know
// whether a send is in a lane: one that had left before its cancel came would
// keep its note for ever. So a note of Cancel says that it is one, and the
// sending process looks in the ledger for the send's end (Notes, Tidy). Notes
// of Remove are of sends that are marked although the ledger has them as ended.
// They stay until they are met, whatever the ledger says.

// MaxCancels bounds the cancelled sends of a partition that were not met yet in
// their lane.
const MaxCancels = 1_000_000

// openNote begins the notes of Cancel; toldNote ends them if the outcome is in the
// log.
const (
	openNote = "c"
	toldNote = "!"
)

// cancelledField of the cursors is how far cancels were noted that Lanes.Cancel was given:
// the position of their batch, and how many of its items.
const cancelledField = "spool:cancels"

// Cancel is a send that is not to be attempted any more: an item of a batch of the log
// says so.
type Cancel struct {
	Item int // its number in the batch
	ID   string
	Log  []byte // the item for the log by which the ledger learns it
}

// Cancel notes that sends are not to be attempted any more, one at least, in the order of
// their items. For each that is not marked, its item goes to the log; a marked one is
// cancelled if it has to wait once more. What was noted before of the batch at a position
// is passed over. It returns for how many there was no room. The lease is that of the log.
func (l *Lanes) Cancel(ctx context.Context, lease *Lease, at sluice.Position, cancels []Cancel, nowMillis int64) (refused int, err error) {
	p := l.log.partition
	args := []string{lease.token, strconv.FormatInt(nowMillis, 10), strconv.Itoa(l.CancelsAtMost), cancelledField, at.String()}
	for i := range cancels {
		args = append(args, strconv.Itoa(cancels[i].Item), cancels[i].ID, rueidis.BinaryString(cancels[i].Log))
	}
	answer, err := l.log.writeTexts(ctx, "cancel sends", "cancel", []string{lease.key, p.marksKey(), p.cancelsKey(), p.logKey(), p.sourcesKey(), p.cursorsKey()}, args)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(answer[1])
}

// CancelRoom returns how many more sends can be cancelled.
func (l *Lanes) CancelRoom(ctx context.Context) (int64, error) {
	n, err := Ask(ctx, l.log.redis, "count cancelled sends", l.log.redis.B().Hlen().Key(l.log.partition.cancelsKey()).Build(), rueidis.RedisResult.AsInt64)
	return max(0, int64(l.CancelsAtMost)-n), err
}

// Revived are the operations of a commit by which sends are not cancelled any more.
func (l *Lanes) Revived(ids []string) []Operation {
	return inPieces("HDEL", l.log.partition.cancelsKey(), ids)
}

// Cancelled returns which of the sends are noted as not to be attempted any more;
// nil: none is.
func (l *Lanes) Cancelled(ctx context.Context, ids []string) ([]bool, error) {
	r, key := l.log.redis, l.log.partition.cancelsKey()
	n, err := Ask(ctx, r, "count cancelled sends", r.B().Hlen().Key(key).Build(), rueidis.RedisResult.AsInt64)
	if err != nil || n == 0 || len(ids) == 0 {
		return nil, err
	}
	notes, err := r.fields(ctx, "read cancelled sends", key, ids...)
	if err != nil {
		return nil, err
	}
	all := make([]bool, len(ids))
	for i := range notes {
		all[i] = notes[i] != ""
	}
	return all, nil
}

// CancelNote is a note of Cancel.
type CancelNote struct {
	ID       string
	AtMillis int64

	value string
}

// Notes reads notes of Cancel, a page at a time, in no order: about so many notes
// of all kinds are looked at. next is where to go on, "0" at the end; cursor is
// "0" at first. A note may come twice.
func (l *Lanes) Notes(ctx context.Context, cursor string, count int64) (notes []CancelNote, next string, err error) {
	at, err := strconv.ParseUint(cursor, 10, 64)
	if err != nil {
		return nil, "", fmt.Errorf("read notes of cancelled sends: cursor %q is no number", cursor)
	}
	page, err := Ask(ctx, l.log.redis, "read notes of cancelled sends", l.log.redis.B().Hscan().Key(l.log.partition.cancelsKey()).Cursor(at).Count(count).Build(), rueidis.RedisResult.AsScanEntry)
	if err != nil {
		return nil, "", err
	}
	for i := 0; i+1 < len(page.Elements); i += 2 {
		value := page.Elements[i+1]
		digits, open := strings.CutPrefix(strings.TrimSuffix(value, toldNote), openNote)
		if millis, err := strconv.ParseInt(digits, 10, 64); open && err == nil {
			notes = append(notes, CancelNote{ID: page.Elements[i], AtMillis: millis, value: value})
		}
	}
	return notes, strconv.FormatUint(page.Cursor, 10), nil
}

// Tidy drops the notes of sends that have left. It keeps those of sends that
// are in a lane until they are met there, and what they say of the log. The lease is
// that of sending.
func (l *Lanes) Tidy(ctx context.Context, lease *Lease, gone, kept []CancelNote) error {
	args := []string{lease.token}
	for i := range gone {
		args = append(args, gone[i].ID, gone[i].value, "")
	}
	for i := range kept {
		args = append(args, kept[i].ID, kept[i].value, strings.TrimPrefix(kept[i].value, openNote))
	}
	_, err := l.log.redis.callInt(ctx, "tidy notes of cancelled sends", "tidy", []string{lease.key, l.log.partition.cancelsKey()}, args)
	return err
}
