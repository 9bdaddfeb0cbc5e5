package main

import (
	"context"
	"maps"
	"sync"
	"time"

	"sluice"
	"sluice/flow"
	"sluice/mail"
)

// maxWatchedMails bounds the mails of which something is known: what becomes of one is
// known within seconds.
const maxWatchedMails = 200_000

// mailCounts is what became of the mails of a journey.
type mailCounts struct{ sent, opened, clicked, bounced int64 }

// watched is a message: its journey, and what has happened to it before that was known.
// A mail and what happens to it may be in different logs, which are read side by side.
type watched struct {
	journey string
	counts  mailCounts
}

// watchedMail counts what passes through the logs about mail of journeys, and tells the
// shop of clicks.
type watchedMail struct {
	shop *shop

	mu     sync.Mutex
	counts map[string]mailCounts // by journey

	// Messages. When now is full it becomes before.
	now, before map[string]watched
}

func newWatchedMail(s *shop) *watchedMail {
	return &watchedMail{shop: s, counts: make(map[string]mailCounts), now: make(map[string]watched)}
}

// of returns the counts of all journeys.
func (w *watchedMail) of() map[string]mailCounts {
	w.mu.Lock()
	defer w.mu.Unlock()
	return maps.Clone(w.counts)
}

// follow reads the logs until ctx ends.
func (w *watchedMail) follow(ctx context.Context, logs []*flow.Log) error {
	err := flow.Tail(ctx, logs, false, w.batch)
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func (w *watchedMail) batch(b flow.Batch) error {
	r, err := sluice.ReadBatch(b.Data)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for r.Next() {
		switch r.Item.Kind {
		case sluice.ItemSend:
			var s mail.Send
			if err := mail.DecodeSend(r.Item.Payload, &s); err != nil {
				return err
			}
			if s.Journey != "" {
				m := w.mail(s.Message)
				m.journey = s.Journey
				w.note(s.Message, m)
			}
		case sluice.ItemEvent:
			var e sluice.Event
			if err := sluice.DecodeEvent(r.Item.Payload, &e); err != nil {
				return err
			}
			if e.Kind == sluice.KindMail && e.Origin != sluice.OriginOwnRepeat {
				w.happened(&e)
			}
		}
	}
	return r.Err()
}

// mail returns what is known of a message.
func (w *watchedMail) mail(message string) watched {
	if m, ok := w.now[message]; ok {
		return m
	}
	return w.before[message]
}

func (w *watchedMail) note(message string, m watched) {
	if len(w.now) >= maxWatchedMails/2 {
		w.before, w.now = w.now, make(map[string]watched)
	}
	if m.journey != "" {
		c := w.counts[m.journey]
		c.add(m.counts)
		w.counts[m.journey], m.counts = c, mailCounts{}
	}
	w.now[message] = m
}

func (w *watchedMail) happened(e *sluice.Event) {
	m := w.mail(e.Message)
	switch e.Name {
	case sluice.EventDelivered:
		m.counts.sent++
	case sluice.EventBounced:
		m.counts.sent++
		m.counts.bounced++
	case sluice.EventOpened:
		m.counts.opened++
	case sluice.EventClicked:
		m.counts.clicked++
		w.shop.clicked(e.Email, time.Now())
	default:
		return
	}
	w.note(e.Message, m)
}

func (c *mailCounts) add(o mailCounts) {
	c.sent += o.sent
	c.opened += o.opened
	c.clicked += o.clicked
	c.bounced += o.bounced
}
