package spool

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"sluice"
	"sluice/lib/mime"
	"sluice/mail"
)

// A send that could not be made, through no fault of its own, is made again after
// notNowSoonest to notNowLatest. Each time leaves an outcome in the log, and while the
// database is away all mail by templates waits so.
const (
	notNowSoonest = 3 * time.Second
	notNowLatest  = 1 * time.Minute
)

// notNowWait is as long as a transactional send is old: somebody may wait for one that
// was just accepted, and a look-up that failed once mostly works again in seconds. For
// marketing mail nobody waits, and there may be a hundred thousand.
func notNowWait(send *mail.Send, nowMillis int64) time.Duration {
	if send.Class != mail.ClassTransactional {
		return notNowLatest
	}
	age := time.Duration(nowMillis-send.AcceptedMillis) * time.Millisecond
	return min(max(age, notNowSoonest), notNowLatest)
}

// maxWindowBytes bounds the contents of a window, up to one more. Of the largest
// mails that there may be, ten workers with 16 each, signed, would have 8 GB.
const maxWindowBytes = 16 << 20

// ErrNotNow in a Mail's Err says that it is retried. ErrSlow says so too, but
// counts as an attempt: each retry is later. ErrParked says that it waits until
// an operator has fixed what the error tells. ErrUnwanted says that its
// recipient is not in its audience. ErrAborted says that the template itself does
// not want it sent. ErrNoRoom says that the mails before it
// fill the window: it belongs to the next.
var (
	ErrNoRoom   = errors.New("the window is full")
	ErrNotNow   = errors.New("cannot be made now")
	ErrParked   = errors.New("waits")
	ErrSlow     = errors.New("takes too long to make")
	ErrUnwanted = errors.New("the recipient does not want it")
	ErrAborted  = errors.New("aborted")
)

// parkedFor is when a parked send is looked at again: each time is an event in
// its life, and an operator has to act before.
const parkedFor = 30 * time.Minute

// envelope is a send made ready, or what follows if it could not be.
type envelope struct {
	mail.Envelope
	verdict verdict
}

// bodies reads the contents of those that do not carry them, by message.
func (s *Sender) bodies(ctx context.Context, window []*item) (map[string][]byte, error) {
	var messages []string
	seen := make(map[string]bool)
	for _, it := range window {
		if m := it.send.Message; it.broken == nil && it.send.Content == "" && !seen[m] {
			seen[m] = true
			messages = append(messages, m)
		}
	}
	if len(messages) == 0 {
		return nil, nil
	}
	return s.Bodies.Bodies(ctx, messages, maxWindowBytes)
}

// make makes a window ready. Those that there is no room for are left out.
func (s *Sender) make(ctx context.Context, window []*item, bodies map[string][]byte) map[*item]*envelope {
	now, apart := s.Clock.Now().UnixMilli(), sluice.ClocksApart(s.Clock)
	made := make(map[*item]*envelope, len(window))
	read := 0
	for _, b := range bodies {
		read += len(b)
	}
	mails, of := make([]Mail, 0, len(window)), make([]*item, 0, len(window))
	took := make([][mail.Stages]time.Duration, len(window))
	for _, it := range window {
		content := []byte(it.send.Content)
		if len(content) == 0 {
			content = bodies[it.send.Message]
		}
		switch {
		case it.broken != nil:
			made[it] = &envelope{}
		case now > it.send.ExpiresMillis && !apart:
			made[it] = fault(&it.send, reasonExpired, "it was not sent in time", now)
		case content == nil && read >= maxWindowBytes: // it was not asked for to the end
		case content == nil:
			made[it] = fault(&it.send, reasonNoBody, "its content is not in the database any more", now)
		default:
			mails, of = append(mails, Mail{Send: &it.send, Content: content, Took: &took[len(mails)]}), append(of, it)
		}
	}
	s.makeAll(ctx, mails, func(i int) []byte {
		if own := mails[i].Send.Content; own != "" {
			return []byte(own)
		}
		return bodies[mails[i].Send.Message]
	})
	ended := s.Clock.Now()
	for i := range mails {
		m := &mails[i]
		of[i].report(m.Took, ended)
		switch {
		case errors.Is(m.Err, ErrNoRoom):
		case errors.Is(m.Err, ErrNotNow), errors.Is(m.Err, ErrSlow), errors.Is(m.Err, ErrParked):
			made[of[i]] = &envelope{verdict: notNow(m.Send, m.Err, now)}
		case errors.Is(m.Err, ErrUnwanted):
			made[of[i]] = &envelope{verdict: verdict{outcome: suppressedOutcome(m.Send, mail.SuppressUnsubscribe.String(), now)}}
		case errors.Is(m.Err, ErrAborted):
			made[of[i]] = aborted(m.Send, m.Err, now)
		case m.Err != nil:
			made[of[i]] = fault(m.Send, reasonRendering, m.Err.Error(), now)
		default:
			m.Envelope.Partition = of[i].part.number
			made[of[i]] = &envelope{Envelope: m.Envelope}
		}
	}
	return made
}

// fitting returns those of a window that were made, and puts the others back: they
// are of the next.
func (s *Sender) fitting(window []*item, made map[*item]*envelope) []*item {
	if len(made) == len(window) {
		return window
	}
	var fit, later []*item
	for _, it := range window {
		if made[it] != nil {
			fit = append(fit, it)
		} else {
			later = append(later, it)
		}
	}
	putBack(later)
	s.wake(true) // others may take them meanwhile
	return fit
}

// notNow is the verdict on a send that could not be made now. What was too slow
// counts as an attempt. A template that is too slow for good may have thousands
// of mails. Made again every minute until they expire, they would leave no time
// for other mail.
func notNow(send *mail.Send, err error, nowMillis int64) verdict {
	again, after := *send, notNowWait(send, nowMillis)
	switch {
	case errors.Is(err, ErrSlow):
		again.Attempts++
		after = backoff(again.Attempts, &mail.Result{})
	case errors.Is(err, ErrParked):
		after = parkedFor
	}
	v := deferred(&again, nowMillis, nowMillis+after.Milliseconds())
	v.outcome.Reply = clip(err.Error())
	return v
}

// fault is a send that fails before it is attempted.
func fault(send *mail.Send, reason, text string, nowMillis int64) *envelope {
	v := failed(send, mail.BlameMessage, nowMillis)
	v.outcome.Reason, v.outcome.Reply = reason, clip(text)
	return &envelope{verdict: v}
}

// aborted is a send whose template ends it by abort_message. Nothing failed: it is
// cancelled. One that was in doubt stays so, for it may have arrived.
func aborted(send *mail.Send, why error, nowMillis int64) *envelope {
	v := verdict{outcome: outcomeOf(send, mail.SendCancelled, "", nowMillis)}
	if send.Doubted {
		v.keep(send)
	}
	v.outcome.Reason, v.outcome.Reply = mail.ReasonAborted, clip(why.Error())
	return &envelope{verdict: v}
}

func clip(s string) string { return s[:min(len(s), mail.MaxReplyBytes)] }

// Plain makes envelopes of contents that go out as they are.
type Plain struct{}

// Make takes contents as they are. A template is an error.
func (Plain) Make(_ context.Context, mails []Mail) {
	for i := range mails {
		m := &mails[i]
		if m.Send.Form != mail.ContentMIME {
			m.Err = fmt.Errorf("content of form %d cannot be rendered here", m.Send.Form)
			continue
		}
		_, m.Content = mail.CutTrack(m.Content)
		m.Envelope = envelopeOf(m.Send, m.Content)
	}
}

// envelopeOf is the envelope of a send that is ready to go.
func envelopeOf(s *mail.Send, content []byte) mail.Envelope {
	e := mail.Envelope{Send: s.ID(), From: s.From, To: s.To, Content: content}
	e.EightBit, e.UTF8 = mime.Octets(content)
	e.UTF8 = e.UTF8 || !mime.IsASCII(s.From) || !mime.IsASCII(s.To)
	if s.Tags != "" {
		e.Tags = strings.Split(s.Tags, ",")
	}
	return e
}
