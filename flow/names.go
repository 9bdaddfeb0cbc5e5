package flow

import (
	"context"
	"maps"
	"strconv"
	"strings"
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

// OnceNames remembers names of requests for mail for a day (Redis.Once), up to
// a number. One key of the API may have up to half of it. They use Redis's
// memory for as long as they are known. Names of requests with events are not
// counted here: mail must never keep events from being accepted.
//
// The names are counted by the hour and key, in a hash that all processes add
// to, once a second, when names come. A killed process loses what it has not
// added yet, and an addition whose answer was lost is made twice. Either is
// forgotten with its hour, a day later.
type OnceNames struct {
	Redis *Redis
	Most  int64 // 0: no bound
	Clock sluice.Clock

	adding sync.Mutex // held by the caller that adds up

	mu      sync.Mutex
	pending map[namesOf]int64 // remembered here and not added yet
	known   map[namesOf]int64 // of all processes
	added   time.Time         // when that was known last
}

// namesOf are the names that one key has given in one hour.
type namesOf struct {
	hour int64  // since 1970
	key  string // empty: none, or that of the operator
}

// String is its field in Redis: HOUR, or HOUR and KEY.
func (n namesOf) String() string {
	return strings.TrimSuffix(strconv.FormatInt(n.hour, 10)+" "+n.key, " ")
}

func parseNamesOf(field string) (n namesOf, err error) {
	hour, key, _ := strings.Cut(field, " ")
	n.key = key
	n.hour, err = strconv.ParseInt(hour, 10, 64)
	return n, err
}

// Once is Redis.Once for a name that a key of the API gives; empty: the bound of a
// key is not asked. An *sluice.Error says that no more names are remembered; those
// that are known are answered all the same.
func (o *OnceNames) Once(ctx context.Context, key, name, value string, ttl time.Duration) (first string, err error) {
	if full := o.admit(ctx, key); full != nil {
		first, err = o.Redis.OnceOf(ctx, name)
		if err == nil && first == "" {
			return "", full
		}
		return first, err
	}
	first, err = o.Redis.Once(ctx, name, value, ttl)
	if err == nil && first == value {
		o.Add(key, 1)
	}
	return first, err
}

// admit returns an *sluice.Error if no more names are remembered.
func (o *OnceNames) admit(ctx context.Context, key string) error {
	if o.Most == 0 {
		return nil
	}
	o.addUp(ctx)
	have, ofKey := o.have(key)
	const advice = "Nothing was taken in. Send mail without the key, send it later, or raise idempotency_names"
	switch half := o.Most / 2; {
	case have >= o.Most:
		return sluice.Refuse(sluice.CodeUnavailable,
			"Redis remembers %d names of requests for mail of the last 24 hours, and at most %d; this Idempotency-Key would be one more. "+advice, have, o.Most)
	case key != "" && ofKey >= half:
		return sluice.Refuse(sluice.CodeTooFast,
			"Redis remembers %d names of requests for mail that this key has sent in the last 24 hours, and at most %d, half of all; this Idempotency-Key would be one more. "+advice, ofKey, half)
	}
	return nil
}

// Used is how much of the bound is taken, 0 to 1 and beyond; 0 without a bound.
func (o *OnceNames) Used(ctx context.Context) float64 {
	if o == nil || o.Most == 0 {
		return 0
	}
	o.addUp(ctx)
	have, _ := o.have("")
	return float64(have) / float64(o.Most)
}

// Add counts what was written to remember names of a key for a day, in names.
func (o *OnceNames) Add(key string, names int64) {
	if o == nil || o.Most == 0 || names == 0 {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.pending == nil {
		o.pending = make(map[namesOf]int64)
	}
	o.pending[namesOf{o.hour(), key}] += names
}

func (o *OnceNames) hour() int64 { return o.Clock.Now().Unix() / 3600 }

// have is how many names there are, and how many of a key, as far as this process
// knows.
func (o *OnceNames) have(key string) (all, ofKey int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	oldest := o.hour() - namesHours
	for _, hours := range [...]map[namesOf]int64{o.known, o.pending} {
		for of, n := range hours {
			if of.hour < oldest {
				continue
			}
			if all += n; of.key == key {
				ofKey += n
			}
		}
	}
	return all, ofKey
}

// addUp adds the names remembered here and reads those of all, if that was not
// done a moment ago. If it fails, the known numbers hold until the next time:
// names may be on other servers than their sums.
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
	for of, n := range sent {
		if o.pending[of] -= n; o.pending[of] == 0 {
			delete(o.pending, of)
		}
	}
	o.known = known
}

// countNames adds names to hours and returns how many all hours have from the oldest
// on; those before go.
func (r *Redis) countNames(ctx context.Context, add map[namesOf]int64, oldest int64) (map[namesOf]int64, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	const verb = "count names of requests"
	c, key := r.client, namesKey()
	commands := make(rueidis.Commands, 0, len(add)+1)
	for of, n := range add {
		commands = append(commands, c.B().Hincrby().Key(key).Field(of.String()).Increment(n).Build())
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
	known, old := make(map[namesOf]int64, len(fields)), []string(nil)
	for field, n := range fields {
		if of, err := parseNamesOf(field); err != nil || of.hour < oldest {
			old = append(old, field)
		} else {
			known[of] = n
		}
	}
	if len(old) > 0 {
		err = c.Do(ctx, c.B().Hdel().Key(key).Field(old[:min(len(old), maxCommandWords)]...).Build()).Error()
	}
	return known, r.wrap(verb, err)
}
