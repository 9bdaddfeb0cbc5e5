package spool

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sluice"
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
	started := time.Now()
	bodies, err := s.Bodies.Bodies(ctx, messages)
	took := time.Since(started) / time.Duration(len(window))
	for _, it := range window {
		it.took[sluice.StageProfile] += took
	}
	return bodies, err
}

// make makes a send ready.
func (s *Sender) make(ctx context.Context, it *item, bodies map[string][]byte) *envelope {
	if it.broken != nil {
		return &envelope{}
	}
	now := s.Clock.Now().UnixMilli()
	send := &it.send
	if now > send.ExpiresMillis {
		return fault(send, reasonExpired, "it was not sent in time", now)
	}
	content := []byte(send.Content)
	if send.Content == "" {
		if content = bodies[send.Message]; content == nil {
			return fault(send, reasonNoBody, "its content is not in the database any more", now)
		}
	}
	made, err := s.Maker.Make(ctx, send, content, &it.took)
	switch {
	case errors.Is(err, ErrNotNow):
		v := deferred(send, now, now+notNowAfter.Milliseconds())
		v.outcome.Reply = clip(err.Error())
		return &envelope{verdict: v}
	case err != nil:
		return fault(send, reasonRendering, err.Error(), now)
	}
	return &envelope{Envelope: made}
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

// Make returns the content as it is. A template is an error.
func (Plain) Make(_ context.Context, s *sluice.Send, content []byte, _ *[sluice.Stages]time.Duration) (sluice.Envelope, error) {
	if s.Form != sluice.ContentMIME {
		return sluice.Envelope{}, fmt.Errorf("content of form %d cannot be rendered here", s.Form)
	}
	return sluice.Envelope{Send: s.ID(), From: s.From, To: s.To, Content: content}, nil
}
