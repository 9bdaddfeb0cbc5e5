package flow

import (
	"context"
	"time"

	"github.com/redis/rueidis"
)

const (
	// listenWait is how long nothing is looked at while Redis has promised to
	// tell: the bounded poll behind the hint.
	listenWait = time.Second

	// listenAgain is when a Redis that would not tell is asked again.
	listenAgain = time.Minute
)

// await waits until there may be something in a list that had nothing. It also
// ends with the context, or when the list is taken to be empty. pause is how
// long to wait if Redis says nothing meanwhile; it returns the next one.
//
// To look at an empty list again and again cost an idle process more than
// everything else it does. So Redis is asked to say when the list changes
// (CLIENT TRACKING). That was made for caches: it takes nothing from the list
// and needs no setting on the server. A pushed element is then taken at once,
// and not at the next look.
func (r *ListReader) await(ctx context.Context, pause time.Duration, empty chan<- struct{}) (next time.Duration) {
	if rest := time.Until(r.due); rest > pause {
		pause = rest // hashes: nothing is asked before
	}
	var pushed <-chan struct{}
	if r.empty && pause >= pollLatest {
		var stop func()
		if pushed, stop = r.list.listen(ctx); pushed != nil {
			pause = r.list.listenFor
			defer stop()
		}
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case empty <- struct{}{}:
	case <-pushed:
		return pollSoonest
	case <-timer.C:
	case <-ctx.Done():
	}
	return min(2*pause, pollLatest)
}

// listen has Redis say when the list changes. The channel is ready then, or if
// something is in it already, or if Redis can say nothing any more. nil: not
// available, because the server does not allow it or does not answer. The
// caller must call stop in the end.
func (l *List) listen(ctx context.Context) (pushed <-chan struct{}, stop func()) {
	if time.Now().UnixMilli() < l.deafUntil.Load() {
		return nil, nil
	}
	c, release := l.redis.client.Dedicate()
	said := make(chan struct{}, 1)
	say := func() {
		select {
		case said <- struct{}{}:
		default:
		}
	}
	lost := c.SetOnInvalidations(func([]rueidis.RedisMessage) { say() }) // of this key or, if Redis is flushed, of all
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	answers := c.DoMulti(ctx, c.B().Arbitrary("CLIENT", "TRACKING", "ON").Build(), c.B().Llen().Key(l.keys.list).Build())
	err := answers[0].Error()
	n, lenErr := answers[1].AsInt64()
	if err != nil || lenErr != nil {
		release()
		l.deafUntil.Store(time.Now().Add(listenAgain).UnixMilli())
		return nil, nil
	}
	if n > 0 {
		say()
	}
	go func() { // ends when the connection is given back, or lost
		<-lost
		say()
	}()
	return said, release
}
