package flow

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/rueidis"

	"sluice/mail"
)

// owedBytes begins the fields that have the bytes of an account.
const owedBytes = "b "

// Owe are the operations of a commit that count sends which begin to wait.
func (l *Lanes) Owe(accounts map[string]mail.Load) []Operation {
	key := l.log.partition.owedKey()
	all := make([]Operation, 0, 2*len(accounts))
	for account, load := range accounts {
		all = append(all,
			Operation{Keys: []string{key}, Words: []string{"HINCRBY", key, account, strconv.FormatInt(load.Sends, 10)}},
			Operation{Keys: []string{key}, Words: []string{"HINCRBY", key, owedBytes + account, strconv.FormatInt(load.Bytes, 10)}})
	}
	return all
}

// Owing reads how much waits in some lanes of one Redis, by the key that handed it in. In
// a cluster a lane may be away alone: then it counts as at the last read, for what comes
// to the others must not fill a bound while they are emptied. Read may be called by one
// caller at a time.
type Owing struct {
	Lanes []*Lanes
	known []map[string]mail.Load // by lane, as it was read last; nil: it never was
}

// Read returns the pending sends by key. Accounts whose day is long past are left out,
// and dropped. It fails if no lane can be read, or one that never could.
func (o *Owing) Read(ctx context.Context, nowMillis int64) (map[string]mail.Load, error) {
	if len(o.Lanes) == 0 {
		return nil, nil
	}
	if o.known == nil {
		o.known = make([]map[string]mail.Load, len(o.Lanes))
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	redis := o.Lanes[0].log.redis
	c := redis.client
	reads := make(rueidis.Commands, len(o.Lanes))
	for i, l := range o.Lanes {
		reads[i] = c.B().Hgetall().Key(l.log.partition.owedKey()).Build()
	}
	owed := make(map[string]mail.Load)
	var drops rueidis.Commands
	unread := 0
	for i, answer := range c.DoMulti(ctx, reads...) {
		fields, err := answer.AsStrMap()
		if err != nil {
			if unread++; unread == len(o.Lanes) || o.known[i] == nil {
				return nil, redis.wrap("read what waits of each key", err)
			}
		} else {
			var old []string
			if o.known[i], old, err = loadsOf(fields, nowMillis); err != nil {
				return nil, err
			}
			if len(old) > 0 {
				drops = append(drops, c.B().Hdel().Key(o.Lanes[i].log.partition.owedKey()).Field(old[:min(len(old), maxCommandWords)]...).Build())
			}
		}
		for key, load := range o.known[i] {
			load.Add(owed[key])
			owed[key] = load
		}
	}
	for _, answer := range c.DoMulti(ctx, drops...) {
		if err := answer.Error(); err != nil {
			return nil, redis.wrap("drop accounts that are past", err)
		}
	}
	return owed, nil
}

// loadsOf reads what a lane has of each key, and which fields are long past.
func loadsOf(fields map[string]string, nowMillis int64) (loads map[string]mail.Load, old []string, err error) {
	loads = make(map[string]mail.Load)
	for field, text := range fields {
		account, bytes := strings.CutPrefix(field, owedBytes)
		key, dropped := mail.ParseAccount(account, nowMillis)
		if dropped {
			old = append(old, field)
			continue
		}
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, nil, fmt.Errorf("read what waits of each key: field %.80q is %.80q: %w", field, text, err)
		}
		load := loads[key]
		if bytes {
			load.Bytes += n
		} else {
			load.Sends += n
		}
		loads[key] = load
	}
	return loads, old, nil
}
