package land

import (
	"context"
	"time"

	"sluice"
	"sluice/user"
	"sluice/user/consent"
)

// Choices makes durable what people choose on the pages of mails. Record may be called
// by several goroutines at once; Run once.
//
// Redis has 250 ms. What it does not take by then goes to a file, if it only stops mail,
// and is done then: a person who wants no more mail has said so once. What would have
// mail come again does not go there. It could be replayed behind a later word that stops
// mail, and mail must not come against that. Its person is told to try again.
type Choices struct {
	Spillway

	To consent.Writer // to Redis
}

var _ consent.Writer = (*Choices)(nil)

// NewChoices returns one; its fields are filled in by the caller.
func NewChoices() *Choices {
	c := &Choices{}
	c.ready("choices of people")
	return c
}

// Record implements consent.Writer. What is in the file counts as written. The error is
// that of Redis if nothing was written; then parts of it may yet be in the log.
func (c *Choices) Record(_ context.Context, key user.Key, events []sluice.Event, updates []user.Update, name string, ttl time.Duration) (written bool, err error) {
	err = c.offer(c.Clock.Now(), func(ctx context.Context) (err error) {
		written, err = c.To.Record(ctx, key, events, updates, name, ttl)
		return err
	})
	if err == nil || !stops(events, updates) {
		return written, err
	}
	var items []byte
	for i := range events {
		items = sluice.AppendEvent(items, &events[i])
	}
	for i := range updates {
		items = user.AppendUpdate(items, &updates[i])
	}
	if failed := c.Spill.WriteItems(items); failed != nil {
		c.say("a choice of a person is not kept: neither Redis nor the disk takes it", failed, "redis", err)
		return false, err
	}
	c.kept(err)
	return true, nil
}

// stops reports whether these only stop mail.
func stops(events []sluice.Event, updates []user.Update) bool {
	for i := range events {
		if events[i].Name == sluice.EventSubscribed {
			return false
		}
	}
	for i := range updates {
		if op := updates[i].Op; op != user.OpSubscribe && op != user.OpGroup || updates[i].Body != "unsubscribed" {
			return false
		}
	}
	return len(updates) > 0
}
