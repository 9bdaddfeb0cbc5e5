// Package senderdomains keeps in Redis what checks of sender domains have found,
// for all processes.
package senderdomains

import (
	"context"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"sluice/flow"
)

// Bounds of the records of sender domains.
const (
	maxDomains = 1000
	recordTTL  = 8 * 24 * time.Hour
)

// Domains is a text for each domain, and a sorted set of the names by the time of
// the check.
type Domains struct{ Redis *flow.Redis }

// Found returns the record of a domain, empty if there is none.
func (d Domains) Found(ctx context.Context, domain string) (string, error) {
	return flow.Ask(ctx, d.Redis, "read what was found about sender domain "+domain, d.Redis.B().Get().Key(flow.SenderDomainKey(domain)).Build(), flow.Text)
}

// Keep stores a text of a domain. It drops domains whose texts are from before
// a time, and the oldest of too many.
func (d Domains) Keep(ctx context.Context, domain, text string, atMillis, forgetMillis int64) error {
	b, names := d.Redis.B(), flow.SenderDomainsKey()
	return d.Redis.Do(ctx, "keep what was found about sender domain "+domain,
		b.Set().Key(flow.SenderDomainKey(domain)).Value(text).Ex(recordTTL).Build(),
		b.Zadd().Key(names).ScoreMember().ScoreMember(float64(atMillis), domain).Build(),
		b.Zremrangebyscore().Key(names).Min("-inf").Max("("+strconv.FormatInt(forgetMillis, 10)).Build(),
		b.Zremrangebyrank().Key(names).Start(0).Stop(-maxDomains-1).Build())
}

// Names returns up to limit sender domains checked since a time, newest first.
func (d Domains) Names(ctx context.Context, sinceMillis int64, limit int) ([]string, error) {
	command := d.Redis.B().Zrevrangebyscore().Key(flow.SenderDomainsKey()).Max("+inf").Min(strconv.FormatInt(sinceMillis, 10)).Limit(0, int64(limit)).Build()
	return flow.Ask(ctx, d.Redis, "read the names of sender domains", command, rueidis.RedisResult.AsStrSlice)
}
