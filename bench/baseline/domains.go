package baseline

import (
	"context"
	"fmt"
	"slices"

	"github.com/redis/rueidis"
)

// AddMembers adds members to a set, some thousands a command.
func (r *Redis) AddMembers(ctx context.Context, set string, members []string) error {
	for part := range slices.Chunk(members, 1000) {
		if err := r.client.Do(ctx, r.client.B().Sadd().Key(set).Member(part...).Build()).Error(); err != nil {
			return fmt.Errorf("add to set %s: %w", set, err)
		}
	}
	return nil
}

// BadDomainFetching is the old check of a bulk sender: all bad domains are fetched
// for each recipient, and looked through.
func (r *Redis) BadDomainFetching(ctx context.Context, set, domain string) (bool, error) {
	all, err := r.client.Do(ctx, r.client.B().Smembers().Key(set).Build()).AsStrSlice()
	if err != nil {
		return false, fmt.Errorf("fetch set %s: %w", set, err)
	}
	return slices.Contains(all, domain), nil
}

// BadDomainAsking is the fix that was proposed for it: Redis is asked for each
// recipient.
func (r *Redis) BadDomainAsking(ctx context.Context, set, domain string) (bool, error) {
	found, err := r.client.Do(ctx, r.client.B().Sismember().Key(set).Member(domain).Build()).AsBool()
	if err != nil && !rueidis.IsRedisNil(err) {
		return false, fmt.Errorf("ask set %s: %w", set, err)
	}
	return found, nil
}
