package flow

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"sluice"
)

const (
	// namesEvery is how often a process at most adds up what it has remembered with
	// what others have.
	namesEvery = time.Second

	// namesHours is how many hours before this one count: a name is remembered for a
	// day, from some time in its hour on.
	namesHours = 24
)

// OnceNames remembers names of requests for a day (Redis.Once), up to a number:
// they wait in Redis's memory for as long as they are known.
//
// How many there are is counted by the hour, in a hash that all processes add to,
// once a second, when names come. What a process has not added yet when it is killed
// is missing, and an answer that was lost is added twice: either is forgotten with
// its hour, a day later.
type OnceNames struct {
	Redis *Redis
	Most  int64 // 0: no bound
	Clock sluice.Clock

	adding sync.Mutex // held by the one who adds up

	mu      sync.Mutex
	pending map[int64]int64 // by hour: remembered here and not added yet
	known   map[int64]int64 // by hour, of all processes
	added   time.Time       // when that was known last
}

// Once is Redis.Once. An *sluice.Error says that no more names are remembered;
// those that are known are answered all the same.
func (o *OnceNames) Once(ctx context.Context, name, value string, ttl time.Duration) (first string, err error) {
	if full := o.Admit(ctx); full != nil {
		c := o.Redis.client
		first, err = answer(ctx, c, c.B().Get().Key(onceKey(name)).Build(), rueidis.RedisResult.ToString)
		if rueidis.IsRedisNil(err) {
			return "", full
		}
		return first, o.Redis.wrap("look for a request", err)
	}
	first, err = o.Redis.Once(ctx, name, value, ttl)
	if err == nil && first == value {
		o.Add(1)
	}
	return first, err
}

// Admit returns an *sluice.Error if no more names are remembered.
func (o *OnceNames) Admit(ctx context.Context) error {
	if o == nil || o.Most == 0 {
		return nil
	}
	o.addUp(ctx)
	have := o.have()
	if have < o.Most {
		return nil
	}
	return &sluice.Error{Code: sluice.CodeUnavailable, Index: -1, Message: fmt.Sprintf(
		"Redis remembers %d names of requests of the last 24 hours, and at most %d; this Idempotency-Key would be one more. Nothing was taken in. Send events with event_id and time and without the key, send other requests later, or raise idempotency_names", have, o.Most)}
}

// Add counts keys of Redis that were written to remember names, for a day.
func (o *OnceNames) Add(keys int64) {
	if o == nil || o.Most == 0 {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.pending == nil {
		o.pending = make(map[int64]int64)
	}
	o.pending[o.hour()] += keys
}

func (o *OnceNames) hour() int64 { return o.Clock.Now().Unix() / 3600 }

// have is how many names there are, as far as this process knows.
func (o *OnceNames) have() (sum int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	oldest := o.hour() - namesHours
	for _, hours := range [...]map[int64]int64{o.known, o.pending} {
		for hour, n := range hours {
			if hour >= oldest {
				sum += n
			}
		}
	}
	return sum
}

// addUp adds what was remembered here and reads what all have, if that was not done
// a moment ago. If it fails, what is known holds until the next time: names may be on
// other servers than their sums.
func (o *OnceNames) addUp(ctx context.Context) {
	if !o.adding.TryLock() {
		return
	}
	defer o.adding.Unlock()
	o.mu.Lock()
	now := o.Clock.Now()
	if !o.added.IsZero() && now.Sub(o.added) < namesEvery {
		o.mu.Unlock()
		return
	}
	o.added = now
	sent := maps.Clone(o.pending)
	o.mu.Unlock()
	known, err := o.Redis.countNames(ctx, sent, o.hour()-namesHours)
	if err != nil {
		return // it is among the failed calls of the metrics
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for hour, n := range sent {
		if o.pending[hour] -= n; o.pending[hour] == 0 {
			delete(o.pending, hour)
		}
	}
	o.known = known
}

// countNames adds names to hours and returns how many all hours have from the oldest
// on; those before go.
func (r *Redis) countNames(ctx context.Context, add map[int64]int64, oldest int64) (map[int64]int64, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	const verb = "count names of requests"
	c, key := r.client, namesKey()
	commands := make(rueidis.Commands, 0, len(add)+1)
	for hour, n := range add {
		commands = append(commands, c.B().Hincrby().Key(key).Field(strconv.FormatInt(hour, 10)).Increment(n).Build())
	}
	answers := c.DoMulti(ctx, append(commands, c.B().Hgetall().Key(key).Build())...)
	for i := range answers {
		if err := answers[i].Error(); err != nil {
			return nil, r.wrap(verb, err)
		}
	}
	fields, err := answers[len(answers)-1].AsIntMap()
	if err != nil {
		return nil, r.wrap(verb, err)
	}
	known, old := make(map[int64]int64, len(fields)), []string(nil)
	for field, n := range fields {
		if hour, err := strconv.ParseInt(field, 10, 64); err != nil || hour < oldest {
			old = append(old, field)
		} else {
			known[hour] = n
		}
	}
	if len(old) > 0 {
		err = c.Do(ctx, c.B().Hdel().Key(key).Field(old...).Build()).Error()
	}
	return known, r.wrap(verb, err)
}
