package hook

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"
)

// Bounds of what is asked of SNS.
const (
	askTimeout    = 5 * time.Second
	maxAsking     = 2 // at a time
	maxReplyBytes = 64 << 10
)

// ErrUnconfirmed is what the error of a confirmation wraps that SNS has not taken. SNS
// asks again.
var ErrUnconfirmed = errors.New("the subscription is not confirmed")

// confirm confirms a subscription to one of the topics. It waits for SNS, five seconds at
// most. What it calls follows from the topic (Confirmation.URL), and a redirect is not
// followed.
func (r *Receiver) confirm(ctx context.Context, s *Source, c *Confirmation) error {
	switch {
	case c.Ended:
		return nil
	case !slices.Contains(s.Topics, c.Topic):
		return refuse("the topic %.300q is none of ours", c.Topic)
	case c.URL() == "":
		return refuse("the topic %.300q has no ARN of SNS", c.Topic)
	}
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	select {
	case r.asking <- struct{}{}:
		defer func() { <-r.asking }()
	case <-ctx.Done():
		return fmt.Errorf("%w: others are being confirmed", ErrUnconfirmed)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.URL(), nil)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnconfirmed, err)
	}
	answer, err := r.client.Do(request)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnconfirmed, errors.Unwrap(err)) // the URL has the token in it
	}
	defer answer.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, maxReplyBytes))
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%w: SNS answers %s", ErrUnconfirmed, answer.Status)
	}
	r.log.Info("a subscription of SNS is confirmed", "hook", s.Name, "topic", c.Topic)
	return nil
}
