package flow

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/rueidis"
)

// Set is a foreign set that is followed where it is: a producer that adds or
// removes a member need not know of it.
//
// The idea. Redis tells that a key has changed, with no setting of its owner's
// (CLIENT TRACKING in BCAST mode), but not which member. Keyspace notifications
// do not tell it either, and MONITOR halves a server. So beside the set is
// another one, of the members that have been taken over (`seen`). The
// difference is found inside Redis, in pieces of some hundred members, each a
// script of a millisecond at most: only changed members leave Redis. A member
// is entered into `seen` after it has been taken over, and so is found again if
// a process dies in between.
//
// What was tried and dropped. SDIFF, in one step: Redis answers nobody else for
// 114 ms each way, with 33,000 members on a busy machine. A piece takes 0.9 ms,
// and all pieces together half as long. SSCAN of the whole: all of it travels
// for each change. SCARD as the hint: one member added and another removed
// leave it as it was.
type Set struct {
	redis   *Redis
	keys    listKeys
	changed chan struct{}
}

// setPieceMembers is about how many members one script looks at.
const setPieceMembers = 500

// OpenSet connects to a server, by a connection of its own that is told of
// changes, for the set of a name.
func OpenSet(ctx context.Context, rawURL, name string) (*Set, error) {
	keys, err := newListKeys("set", name)
	if err != nil {
		return nil, err
	}
	option, err := clientOption(rawURL)
	if err != nil {
		return nil, err
	}
	s := &Set{keys: keys, changed: make(chan struct{}, 1)}
	plain := option // nobody else is to be told
	// One connection for all: the one that is told is the one that Ping keeps alive.
	option.DisableCache, option.PipelineMultiplex = false, -1
	option.ClientTrackingOptions = []string{"PREFIX", name, "BCAST"}
	option.OnInvalidations = s.told
	client, err := newClient(ctx, option)
	switch {
	case err == nil:
	case IsAway(err):
		return nil, fmt.Errorf("connect to redis %s, to be told of changes of set %s: %w", redactURL(rawURL), name, whyNot(ctx, plain, err))
	default:
		return nil, fmt.Errorf("connect to redis %s, to be told of changes of set %s: %w; is it running, and may this user CLIENT TRACKING?", redactURL(rawURL), name, err)
	}
	s.redis = &Redis{client: &patient{Client: client}, name: redactURL(rawURL), host: strings.Join(option.InitAddress, ",")}
	if err := s.redis.check(ctx, option); err != nil {
		client.Close()
		return nil, fmt.Errorf("connect to redis %s: %w", s.redis, err)
	}
	return s, nil
}

// Close ends the connection.
func (s *Set) Close() { s.redis.Close() }

// Name is the set's key.
func (s *Set) Name() string { return s.keys.list }

// Changed is sent to when the set has changed, or when it may have, since the
// connection was lost. Several changes may be one.
func (s *Set) Changed() <-chan struct{} { return s.changed }

// told is called with the keys that have changed; nil: any may have.
func (s *Set) told(keys []rueidis.RedisMessage) {
	ours := keys == nil || slices.ContainsFunc(keys, func(k rueidis.RedisMessage) bool {
		key, err := k.ToString()
		return err != nil || key == s.keys.list
	})
	if !ours {
		return
	}
	select {
	case s.changed <- struct{}{}:
	default: // no look since the last time
	}
}

// Ping makes sure that the connection lives: one that was lost is made anew, and
// Changed is sent to.
func (s *Set) Ping(ctx context.Context) error { return s.redis.Ping(ctx, s.keys.list) }

// Added calls f with members that the set has and that are not seen, piece by
// piece. Gone calls it with those that are seen and that the set no longer has.
// Some may come twice.
func (s *Set) Added(ctx context.Context, f func(members []string) error) error {
	return s.missing(ctx, s.keys.list, s.keys.seenKey(), f)
}

// Gone is said at Added.
func (s *Set) Gone(ctx context.Context, f func(members []string) error) error {
	return s.missing(ctx, s.keys.seenKey(), s.keys.list, f)
}

func (s *Set) missing(ctx context.Context, set, other string, f func(members []string) error) error {
	for cursor := "0"; ; {
		answer, err := s.redis.callTexts(ctx, "compare set "+s.keys.list, "missing", []string{set, other}, []string{cursor, strconv.Itoa(setPieceMembers)})
		if err != nil {
			return err
		}
		if len(answer) > 1 {
			if err := f(answer[1:]); err != nil {
				return err
			}
		}
		if cursor = answer[0]; cursor == "0" {
			return nil
		}
	}
}

// Without returns those of some texts that are no members of the set.
func (s *Set) Without(ctx context.Context, texts []string) (missing []string, err error) {
	for part := range slices.Chunk(texts, setPieceMembers) {
		command := s.redis.B().Smismember().Key(s.keys.list).Member(part...).Build()
		there, err := Ask(ctx, s.redis, "look for members of set "+s.keys.list, command, rueidis.RedisResult.AsIntSlice)
		if err != nil {
			return nil, err
		}
		for i, n := range there {
			if n == 0 {
				missing = append(missing, part[i])
			}
		}
	}
	return missing, nil
}

// See enters members as seen, or takes them out again.
func (s *Set) See(ctx context.Context, members []string, seen bool) error {
	c := s.redis
	for part := range slices.Chunk(members, setPieceMembers) {
		command := c.B().Srem().Key(s.keys.seenKey()).Member(part...).Build()
		if seen {
			command = c.B().Sadd().Key(s.keys.seenKey()).Member(part...).Build()
		}
		if err := c.Do(ctx, "note what is seen of set "+s.keys.list, command); err != nil {
			return err
		}
	}
	return nil
}

// Known returns the owner of the memory `seen`: the text that Know was last
// called with, "" if Redis has none, or has forgotten it.
func (s *Set) Known(ctx context.Context) (string, error) {
	return Ask(ctx, s.redis, "read whose memory of set "+s.keys.list+" there is", s.redis.B().Hget().Key(s.keys.stateKey()).Field("known").Build(), Text)
}

// Forget makes `seen` empty. Know notes its owner, once it is whole.
func (s *Set) Forget(ctx context.Context) error {
	return s.redis.Do(ctx, "forget what is seen of set "+s.keys.list, s.redis.B().Unlink().Key(s.keys.seenKey(), s.keys.stateKey()).Build())
}

// Know is said at Forget.
func (s *Set) Know(ctx context.Context, whose string) error {
	return s.redis.Do(ctx, "note whose memory of set "+s.keys.list+" there is", s.redis.B().Hset().Key(s.keys.stateKey()).FieldValue().FieldValue("known", whose).Build())
}
