package flow

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// ErrReplicas says that something was written, and that too few replicas have received it
// within the time for that. A failover may lose it. It can be written again as if the
// answer had been lost.
var ErrReplicas = errors.New("too few replicas of redis have received it in time")

// Replicas is how many replicas of a master must have received what a Writer has written
// before its caller is told so, and what forwarders, imports and replays have before they
// forget it. The zero value waits for none.
type Replicas struct {
	Least  int
	Within time.Duration
}

// replicasGrace is how much longer than Replicas.Within the answer of Redis is waited for.
const replicasGrace = time.Second

// await returns when replicas have received all that was appended to some logs, which are
// together, on a Redis. ErrReplicas: too few have, or the Redis is another one by now. It
// costs a call of its own after the append.
//
// WAIT counts what its connection has written, and the append went by another one. So it
// follows a small write on a connection of its own, which comes after the append on the
// same server. A server that was promoted in between would confirm its own writes: the
// script refuses it.
func (n Replicas) await(ctx context.Context, logs []*Log, on string) error {
	if n.Least <= 0 {
		return nil
	}
	r := logs[0].redis
	if on == "" || r.floors.server(logs) != on {
		return fmt.Errorf("wait for %d replicas: %w: redis %s became another one meanwhile", n.Least, ErrReplicas, r)
	}
	ctx, cancel := context.WithTimeout(ctx, n.Within+replicasGrace)
	defer cancel()
	for again := newPatience(); ; {
		have, err := n.ask(ctx, logs[0], on)
		switch {
		case err == nil && have >= int64(n.Least):
			return nil
		case err == nil:
			return fmt.Errorf("wait for %d replicas: %w: %d have within %s", n.Least, ErrReplicas, have, n.Within)
		case !refusedForNow(err) || !again.pause(ctx):
			return fmt.Errorf("wait for %d replicas: %w: %w", n.Least, ErrReplicas, r.wrap("ask", err))
		}
	}
}

// From returns a wait for what a log has been given by the time of the wait, by whatever
// way: it returns when replicas have received that. ErrReplicas: too few have, or the Redis
// has become another one since From.
//
// From writes, and so learns of a Redis that was promoted: a try that finds all written by
// an earlier one appends nothing by which the process would.
func (n Replicas) From(ctx context.Context, l *Log) (wait func(context.Context) error, err error) {
	if n.Least <= 0 {
		return func(context.Context) error { return nil }, nil
	}
	logs := []*Log{l}
	asking, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	answer, err := l.redis.writeEnd(asking, "replicated", logs, []string{l.partition.replicatedKey()}, nil)
	if err == nil {
		err = l.redis.wrap("write before replicas are waited for", answer.Error())
	}
	if err != nil {
		return nil, err
	}
	on := l.redis.floors.server(logs)
	return func(ctx context.Context) error { return n.await(ctx, logs, on) }, nil
}

// server returns the Redis that some logs, which are together, are on, for await after an
// append to them. Those that this process has not written to yet it raises first, as the
// append would: else nobody could say whether the Redis of before confirms it. The zero
// value asks nothing.
func (n Replicas) server(ctx context.Context, logs []*Log) (on string, err error) {
	if n.Least <= 0 {
		return "", nil
	}
	r := logs[0].redis
	if on = r.floors.server(logs); on == "" {
		if err := r.raiseFor(ctx, logs, on); err != nil {
			return "", err
		}
		on = r.floors.server(logs)
	}
	return on, nil
}

func (n Replicas) ask(ctx context.Context, l *Log, on string) (have int64, err error) {
	c, release := l.redis.client.Dedicate()
	defer release()
	answers := c.DoMulti(ctx,
		c.B().Eval().Script(replicatedScript).Numkeys(1).Key(l.partition.replicatedKey()).Arg(on).Build(),
		c.B().Wait().Numreplicas(int64(n.Least)).Timeout(n.Within.Milliseconds()).Build())
	if err := answers[0].Error(); err != nil {
		return 0, err
	}
	return answers[1].AsInt64()
}

// replicatedScript is the text of replicated.lua.
var replicatedScript = func() string {
	text, err := luaFiles.ReadFile("lua/replicated.lua")
	if err != nil {
		panic(err) // the file is part of the program
	}
	return guarded(string(text))
}()
