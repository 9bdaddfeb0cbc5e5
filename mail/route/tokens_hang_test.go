package route

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"sluice"
	"sluice/flow"
)

// hangingRedis does not answer a route before it is let.
type hangingRedis struct {
	*flow.Redis
	route string
	hangs chan struct{}
}

func (r *hangingRedis) Pace(ctx context.Context, route string, asks []flow.PaceAsk) ([]flow.PaceGrant, error) {
	if route == r.route {
		<-r.hangs
	}
	return r.Redis.Pace(ctx, route, asks)
}

// TestARouteThatHangsKeepsNoOtherWaiting: in a cluster each route's tokens are on a server
// of their own. While one does not answer, the others have their pace.
func TestARouteThatHangsKeepsNoOtherWaiting(t *testing.T) {
	redis := &hangingRedis{dial(t), t.Name() + " hangs", make(chan struct{})}
	o := Options{Mode: On, Sink: &carrier{name: "sink"}, Redis: redis, Clock: sluice.SystemClock{}}
	for _, name := range []string{redis.route, t.Name()} {
		s := named(name)
		s.Pace = Pace{PerSecond: 1000, Size: 100}
		o.Routes = append(o.Routes, s)
	}
	o.Routes[0].Domains = []string{"hangs.example"}
	r, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { r.Run(ctx, slog.New(slog.DiscardHandler)) })
	defer running.Wait()
	defer stop()
	defer close(redis.hangs)
	takes := func(i int, domain string) bool {
		return r.Takes(r.routes[i].transport, mailTo("x@"+domain), nil, time.Now()).OK
	}
	deadline := time.Now().Add(3 * time.Minute)
	for taken := 0; taken < 300; { // more than one lease gives
		if takes(0, "hangs.example") {
			t.Fatal("a route has a token that nobody gave it")
		}
		if takes(1, "example.com") {
			taken++
			continue
		}
		<-time.After(time.Millisecond)
		if time.Now().After(deadline) {
			t.Fatalf("%d mails of the other route", taken)
		}
	}
}
