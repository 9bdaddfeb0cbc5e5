package baseline

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/rueidis"
)

// Redis is the server that the old designs and the producers of a bench speak
// to. Its methods may be called from several goroutines.
type Redis struct{ client rueidis.Client }

// Dial connects to redis://USER:PASSWORD@HOST:PORT/DB or unix:///SOCKET.
func Dial(url string) (*Redis, error) {
	option, err := rueidis.ParseURL(url)
	if err != nil { // it may show a password
		return nil, errors.New("read redis url: want redis://USER:PASSWORD@HOST:PORT/DB or unix:///SOCKET")
	}
	// What takes elements away must not be sent twice.
	option.DisableCache, option.DisableRetry = true, true
	client, err := rueidis.NewClient(option)
	if err != nil {
		return nil, fmt.Errorf("connect to redis: %w", err)
	}
	return &Redis{client}, nil
}

// Close ends the connections.
func (r *Redis) Close() { r.client.Close() }

// Keys returns how many keys the database holds.
func (r *Redis) Keys(ctx context.Context) (int64, error) {
	n, err := r.client.Do(ctx, r.client.B().Dbsize().Build()).AsInt64()
	if err != nil {
		return 0, fmt.Errorf("count redis's keys: %w", err)
	}
	return n, nil
}

// Clear removes all keys of the database.
func (r *Redis) Clear(ctx context.Context) error {
	if err := r.client.Do(ctx, r.client.B().Flushdb().Build()).Error(); err != nil {
		return fmt.Errorf("empty redis: %w", err)
	}
	return nil
}

// Push appends to a list: one RPUSH for each group, all in one round trip.
func (r *Redis) Push(ctx context.Context, key string, groups ...[]string) error {
	commands := make(rueidis.Commands, len(groups))
	for i, items := range groups {
		commands[i] = r.client.B().Rpush().Key(key).Element(items...).Build()
	}
	for _, answer := range r.client.DoMulti(ctx, commands...) {
		if err := answer.Error(); err != nil {
			return fmt.Errorf("push to list %s: %w", key, err)
		}
	}
	return nil
}

// Rename puts a key in the place of another, in one step.
func (r *Redis) Rename(ctx context.Context, key, to string) error {
	if err := r.client.Do(ctx, r.client.B().Rename().Key(key).Newkey(to).Build()).Error(); err != nil {
		return fmt.Errorf("rename %s to %s: %w", key, to, err)
	}
	return nil
}

// Length returns how many elements a list holds.
func (r *Redis) Length(ctx context.Context, key string) (int64, error) {
	n, err := r.client.Do(ctx, r.client.B().Llen().Key(key).Build()).AsInt64()
	if err != nil {
		return 0, fmt.Errorf("ask for the length of list %s: %w", key, err)
	}
	return n, nil
}

// Rewrite asks Redis to rewrite its append-only file. One that is under way
// already is as good.
func (r *Redis) Rewrite(ctx context.Context) error {
	err := r.client.Do(ctx, r.client.B().Bgrewriteaof().Build()).Error()
	if err != nil && !strings.Contains(err.Error(), "already in progress") {
		return fmt.Errorf("ask redis to rewrite its file: %w", err)
	}
	return nil
}

// Info returns the fields of a section of INFO.
func (r *Redis) Info(ctx context.Context, section string) (map[string]string, error) {
	text, err := r.client.Do(ctx, r.client.B().Info().Section(section).Build()).ToString()
	if err != nil {
		return nil, fmt.Errorf("read redis's state: %w", err)
	}
	fields := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			fields[name] = value
		}
	}
	return fields, nil
}

// Settings returns the values of settings.
func (r *Redis) Settings(ctx context.Context, names ...string) (map[string]string, error) {
	values, err := r.client.Do(ctx, r.client.B().ConfigGet().Parameter(names...).Build()).AsStrMap()
	if err != nil {
		return nil, fmt.Errorf("read redis's settings: %w", err)
	}
	return values, nil
}
