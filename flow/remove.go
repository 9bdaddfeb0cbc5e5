package flow

import (
	"context"
	"fmt"
	"strconv"

	"github.com/redis/rueidis"

	"sluice"
	"sluice/mail"
)

// Placed is a send in a batch: its index there, from 0, and its id.
type Placed struct {
	Index int
	ID    string

	// Account is under what it is counted while it waits, with so many bytes; empty:
	// it is not.
	Account string
	Weight  int
}

// Remove takes sends that have ended in the ledger already out of a batch that
// waits. A marked send stays, and is not attempted again. It returns how many
// were taken out or are not attempted again; the others have left the batch
// before. Data of the batch is not looked at. For a batch that waits for a time
// the lease may be nil.
//
// Notes of sends that are not to be attempted have a bound, MaxCancels. Where
// more had ended, all sending of the partition stopped. So an ended send leaves
// at once, and only a marked one leaves a note.
func (l *Lanes) Remove(ctx context.Context, lease *Lease, b *LaneBatch, sends []Placed, nowMillis int64) (int64, error) {
	p := l.log.partition
	leaseKey, token := p.waitingKey(), "" // none is asked for
	if lease != nil {
		leaseKey, token = lease.key, lease.token
	}
	key, stays, left := p.laneKey(b.Lane), "", 0
	if b.Second != 0 {
		var err error
		key = p.laterKey(b.Second)
		if stays, left, err = l.without(ctx, key, b, sends); err != nil || stays == "" {
			return 0, err
		}
	}
	args := []string{token, strconv.FormatInt(nowMillis, 10), b.Lane, b.Entry, strconv.Itoa(b.Size), stays, strconv.Itoa(left)}
	for i := range sends {
		args = append(args, strconv.Itoa(sends[i].Index), sends[i].ID, sends[i].Account, strconv.Itoa(sends[i].Weight))
	}
	return l.log.redis.callInt(ctx, "take out of a lane what has ended", "remove",
		[]string{leaseKey, p.statesKey(), p.marksKey(), p.waitingKey(), p.cancelsKey(), key, p.owedKey()}, args)
}

// RemoveLater takes sends, by their ids, out of the batches that wait for a
// second; they have ended in the ledger already. It needs no lease: an entry is
// exchanged as a whole, if it is still there. Sends that have gone to their
// lane before are met there. pause is called with the size of each batch that
// was read. It returns how many were taken out.
func (l *Lanes) RemoveLater(ctx context.Context, second int64, ids map[string]bool, nowMillis int64, pause func(bytes int) error) (removed int64, err error) {
	err = l.walkSecond(ctx, second, func(b *LaneBatch, _ bool) error {
		r, err := sluice.ReadBatch(b.Data)
		if err != nil {
			return fmt.Errorf("read entry %s of the batches that wait for second %d: %w", b.Entry, second, err)
		}
		var found []Placed
		for r.Next() {
			var s mail.Send
			if r.Index < b.Size && r.Item.Kind == sluice.ItemSend && mail.DecodeSend(r.Item.Payload, &s) == nil && ids[s.ID()] {
				found = append(found, Placed{Index: r.Index, ID: s.ID(), Account: s.Account, Weight: s.Weight})
			}
		}
		if len(found) > 0 {
			n, err := l.Remove(ctx, nil, b, found, nowMillis)
			if removed += n; err != nil {
				return err
			}
		}
		return pause(len(b.Data))
	})
	return removed, err
}

// without reads a batch that waits for a time. It returns the batch without
// some of its sends, and how many are left; "": it is not there any more.
func (l *Lanes) without(ctx context.Context, key string, b *LaneBatch, sends []Placed) (stays string, left int, err error) {
	entries, err := Ask(ctx, l.log.redis, "read what waits for a time", l.log.redis.B().Xrange().Key(key).Start(b.Entry).End(b.Entry).Build(), rueidis.RedisResult.AsXRange)
	if err != nil || len(entries) == 0 {
		return "", 0, err
	}
	data := []byte(entries[0].FieldValues["batch"])
	r, err := sluice.ReadBatch(data)
	if err != nil {
		return "", 0, fmt.Errorf("read entry %s of the batches that wait for second %d: %w", b.Entry, b.Second, err)
	}
	gone := make(map[int]bool, len(sends))
	for i := range sends {
		gone[sends[i].Index] = true
	}
	rest := sluice.NewBatch(len(data))
	for r.Next() {
		if r.Index >= b.Size || gone[r.Index] {
			continue
		}
		left++
		rest = sluice.AppendItem(rest, r.Item.Kind, func(batch []byte) []byte { return append(batch, r.Item.Payload...) })
	}
	if err := r.Err(); err != nil {
		return "", 0, fmt.Errorf("read entry %s of the batches that wait for second %d: %w", b.Entry, b.Second, err)
	}
	return rueidis.BinaryString(rest), left, nil
}
