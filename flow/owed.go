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

// Owed returns the number of pending sends in some lanes of one Redis, by the
// key that handed them in. Accounts whose day is long past are left out, and
// dropped.
func Owed(ctx context.Context, lanes []*Lanes, nowMillis int64) (map[string]mail.Load, error) {
	if len(lanes) == 0 {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	const verb = "read what waits of each key"
	redis := lanes[0].log.redis
	c := redis.client
	reads := make(rueidis.Commands, len(lanes))
	for i, l := range lanes {
		reads[i] = c.B().Hgetall().Key(l.log.partition.owedKey()).Build()
	}
	owed := make(map[string]mail.Load)
	var drops rueidis.Commands
	for i, answer := range c.DoMulti(ctx, reads...) {
		fields, err := answer.AsStrMap()
		if err != nil {
			return nil, redis.wrap(verb, err)
		}
		var old []string
		for field, text := range fields {
			account, bytes := strings.CutPrefix(field, owedBytes)
			key, dropped := mail.ParseAccount(account, nowMillis)
			if dropped {
				old = append(old, field)
				continue
			}
			n, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				return nil, fmt.Errorf("%s: field %.80q is %.80q: %w", verb, field, text, err)
			}
			load := owed[key]
			if bytes {
				load.Bytes += n
			} else {
				load.Sends += n
			}
			owed[key] = load
		}
		if len(old) > 0 {
			drops = append(drops, c.B().Hdel().Key(lanes[i].log.partition.owedKey()).Field(old[:min(len(old), maxCommandWords)]...).Build())
		}
	}
	for _, answer := range c.DoMulti(ctx, drops...) {
		if err := answer.Error(); err != nil {
			return nil, redis.wrap("drop accounts that are past", err)
		}
	}
	return owed, nil
}
