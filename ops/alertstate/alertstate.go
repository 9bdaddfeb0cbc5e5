// Package alertstate is the state of alerts that processes share in Redis. It is
// one hash in the slot of partition 0, where the lease of the alerting role is. The
// processes write there what is wrong with them, and the process that alerts people
// writes what it has told. What a process wrote counts while it lives.
package alertstate

import (
	"context"
	"slices"
	"strings"

	"github.com/redis/rueidis"

	"sluice/flow"
)

// Fields of the hash.
const (
	fieldPost = "post:" // and the process's id
	fieldTold = "told"
)

// State is the shared state of alerts.
type State struct {
	Redis  *flow.Redis
	Key    string // flow.Partition.AlertsKey of partition 0
	Leases *flow.Leases
}

// Post replaces what this process has written.
func (s *State) Post(ctx context.Context, text string) error {
	return s.Redis.Put(ctx, "write what is wrong for alerts", s.Key, fieldPost+s.Leases.ID(), text)
}

// Posts returns what the living processes have written, and removes what dead
// ones left.
func (s *State) Posts(ctx context.Context) (map[string]string, error) {
	all, err := flow.Ask(ctx, s.Redis, "read the state of alerts", s.Redis.B().Hgetall().Key(s.Key).Build(), rueidis.RedisResult.AsStrMap)
	if err != nil {
		return nil, err
	}
	posts := make(map[string]string)
	var left []string
	for field, text := range all {
		id, ok := strings.CutPrefix(field, fieldPost)
		switch {
		case !ok:
		case s.Leases.Dead(id):
			left = append(left, field)
		default:
			posts[id] = text
		}
	}
	if len(left) > 0 {
		slices.Sort(left)
		err = s.Redis.Do(ctx, "clear the state of alerts", s.Redis.B().Hdel().Key(s.Key).Field(left...).Build())
	}
	return posts, err
}

// Keep writes what was told. sluice.ErrLeaseLost: another process tells now.
func (s *State) Keep(ctx context.Context, lease *flow.Lease, text string) error {
	_, err := s.Redis.CallUnder(ctx, "keep what was told of alerts", "keep_alerts", lease, []string{s.Key}, []string{text})
	return err
}

// Kept returns what was told, "" if nothing was.
func (s *State) Kept(ctx context.Context) (string, error) {
	return flow.Ask(ctx, s.Redis, "read what was told of alerts", s.Redis.B().Hget().Key(s.Key).Field(fieldTold).Build(), flow.Text)
}
