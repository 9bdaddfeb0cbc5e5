package servers

import (
	"context"

	"sluice/lib/child"
)

// Redis is the embedded Redis of the program: tests run on what users run on.
type Redis = child.Redis

// RedisOptions are what a private Redis is started with.
type RedisOptions = child.RedisOptions

// StartRedis is child.StartRedis.
func StartRedis(ctx context.Context, opt RedisOptions) (*Redis, error) {
	return child.StartRedis(ctx, opt)
}
