package flow

import (
	"context"
	"strconv"
	"time"

	"github.com/redis/rueidis"
)

// FeedbackCount is a count of what became of mail.
type FeedbackCount struct {
	Field  string
	By     int64
	Always bool // it counts although the stretch of time has its most fields
}

// AddFeedback adds counts to those of a stretch of time, which is forgotten when ttl
// has passed without more of them. left is how many were left out, as the stretch has
// most fields already.
func (r *Redis) AddFeedback(ctx context.Context, stretch int64, counts []FeedbackCount, most int, ttl time.Duration) (left int64, err error) {
	args := []string{strconv.FormatInt(ttl.Milliseconds(), 10), strconv.Itoa(most)}
	for _, c := range counts {
		always := "0"
		if c.Always {
			always = "1"
		}
		args = append(args, c.Field, strconv.FormatInt(c.By, 10), always)
	}
	return r.callInt(ctx, "count what became of mail", "feedback", []string{feedbackKey(stretch)}, args)
}

// Feedback returns the counts of some stretches of time, added up.
func (r *Redis) Feedback(ctx context.Context, stretches []int64) (map[string]int64, error) {
	all := make(map[string]int64)
	for _, s := range stretches {
		counts, err := Ask(ctx, r, "read what became of mail", r.B().Hgetall().Key(feedbackKey(s)).Build(), rueidis.RedisResult.AsIntMap)
		if err != nil {
			return nil, err
		}
		for field, n := range counts {
			all[field] += n
		}
	}
	return all, nil
}

// ForgetFeedback removes counts from some stretches of time.
func (r *Redis) ForgetFeedback(ctx context.Context, stretches []int64, fields []string) error {
	for _, s := range stretches {
		if _, err := Ask(ctx, r, "forget what became of mail", r.B().Hdel().Key(feedbackKey(s)).Field(fields...).Build(), rueidis.RedisResult.AsInt64); err != nil {
			return err
		}
	}
	return nil
}
