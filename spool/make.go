package spool

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"sluice"
	"sluice/mime"
)

// notNowAfter is when a send is made again that could not be made, through no
// fault of its own.
const notNowAfter = 1 * time.Minute

// envelope is a send made ready, or what follows if it could not be.
type envelope struct {
	sluice.Envelope
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
	return s.Bodies.Bodies(ctx, messages)
}

// make makes a window ready.
func (s *Sender) make(ctx context.Context, window []*item, bodies map[string][]byte) map[*item]*envelope {
	now := s.Clock.Now().UnixMilli()
	made := make(map[*item]*envelope, len(window))
	mails, of := make([]Mail, 0, len(window)), make([]*item, 0, len(window))
	took := make([][sluice.Stages]time.Duration, len(window))
	for _, it := range window {
		content := []byte(it.send.Content)
		if len(content) == 0 {
			content = bodies[it.send.Message]
		}
		switch {
		case it.broken != nil:
			made[it] = &envelope{}
		case now > it.send.ExpiresMillis:
			made[it] = fault(&it.send, reasonExpired, "it was not sent in time", now)
		case content == nil:
			made[it] = fault(&it.send, reasonNoBody, "its content is not in the database any more", now)
		default:
			mails, of = append(mails, Mail{Send: &it.send, Content: content, Took: &took[len(mails)]}), append(of, it)
		}
	}
	s.Maker.Make(ctx, mails)
	ended := s.Clock.Now()
	for i := range mails {
		m := &mails[i]
		of[i].report(m.Took, ended)
		switch {
		case errors.Is(m.Err, ErrNotNow):
			v := deferred(m.Send, now, now+notNowAfter.Milliseconds())
			v.outcome.Reply = clip(m.Err.Error())
			made[of[i]] = &envelope{verdict: v}
		case errors.Is(m.Err, ErrUnwanted):
			made[of[i]] = &envelope{verdict: verdict{outcome: suppressedOutcome(m.Send, sluice.SuppressUnsubscribe.String(), now)}}
		case m.Err != nil:
			made[of[i]] = fault(m.Send, reasonRendering, m.Err.Error(), now)
		default:
			made[of[i]] = &envelope{Envelope: m.Envelope}
		}
	}
	return made
}

// fault is a send that fails before it is attempted.
func fault(send *sluice.Send, reason, text string, nowMillis int64) *envelope {
	v := failed(send, sluice.BlameMessage, nowMillis)
	v.outcome.Reason, v.outcome.Reply = reason, clip(text)
	return &envelope{verdict: v}
}

func clip(s string) string { return s[:min(len(s), sluice.MaxReplyBytes)] }

// Plain makes envelopes of contents that go out as they are.
type Plain struct{}

// Make takes contents as they are. A template is an error.
func (Plain) Make(_ context.Context, mails []Mail) {
	for i := range mails {
		m := &mails[i]
		if m.Send.Form != sluice.ContentMIME {
			m.Err = fmt.Errorf("content of form %d cannot be rendered here", m.Send.Form)
			continue
		}
		m.Envelope = envelopeOf(m.Send, m.Content)
	}
}

// envelopeOf is the envelope of a send that is ready to go.
func envelopeOf(s *sluice.Send, content []byte) sluice.Envelope {
	e := sluice.Envelope{Send: s.ID(), From: s.From, To: s.To, Content: content}
	e.EightBit, e.UTF8 = mime.Octets(content)
	e.UTF8 = e.UTF8 || !isASCII(s.From) || !isASCII(s.To)
	if s.Tags != "" {
		e.Tags = strings.Split(s.Tags, ",")
	}
	return e
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}
