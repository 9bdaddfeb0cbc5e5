package flow

import (
	"context"
	"strconv"
	"time"

	"github.com/redis/rueidis"
)

// Bounds of the records of sender domains.
const (
	maxSenderDomains = 1000
	senderDomainTTL  = 8 * 24 * time.Hour
)

// SenderDomains is where processes keep the results of their checks of sender
// domains. It is a text for each domain, and a sorted set of the names by the
// time of the check.
type SenderDomains struct{ Redis *Redis }

// Found returns the record of a domain, empty if there is none.
func (s SenderDomains) Found(ctx context.Context, domain string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	c := s.Redis.client
	text, err := c.Do(ctx, c.B().Get().Key(senderDomainKey(domain)).Build()).ToString()
	if rueidis.IsRedisNil(err) {
		return "", nil
	}
	return text, s.Redis.wrap("read what was found about sender domain "+domain, err)
}

// Keep stores a text of a domain. It drops domains whose texts are from before
// a time, and the oldest of too many.
func (s SenderDomains) Keep(ctx context.Context, domain, text string, atMillis, forgetMillis int64) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	c := s.Redis.client
	for _, r := range c.DoMulti(ctx,
		c.B().Set().Key(senderDomainKey(domain)).Value(text).Ex(senderDomainTTL).Build(),
		c.B().Zadd().Key(senderDomainsKey()).ScoreMember().ScoreMember(float64(atMillis), domain).Build(),
		c.B().Zremrangebyscore().Key(senderDomainsKey()).Min("-inf").Max("("+strconv.FormatInt(forgetMillis, 10)).Build(),
		c.B().Zremrangebyrank().Key(senderDomainsKey()).Start(0).Stop(-maxSenderDomains-1).Build()) {
		if err := r.Error(); err != nil {
			return s.Redis.wrap("keep what was found about sender domain "+domain, err)
		}
	}
	return nil
}

// Names returns the domains of which something was kept since a time, the newest
// first, most at most.
func (s SenderDomains) Names(ctx context.Context, sinceMillis int64, most int) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	c := s.Redis.client
	names, err := c.Do(ctx, c.B().Zrevrangebyscore().Key(senderDomainsKey()).Max("+inf").Min(strconv.FormatInt(sinceMillis, 10)).Limit(0, int64(most)).Build()).AsStrSlice()
	return names, s.Redis.wrap("read the names of sender domains", err)
}
