package engine

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"sluice/config"
	"sluice/flow"
)

// others are the servers of Redis beside the main one that have lists and hashes, by
// their addresses. The zero value has none; several goroutines may use it.
type others struct {
	mu    sync.Mutex
	byURL map[config.URL]*otherServer
}

// otherServer is connected once, when it answers for the first time. From then on its
// client connects again by itself.
type otherServer struct {
	redis atomic.Pointer[flow.Redis] // nil: it has not answered yet

	asking sync.Mutex // held while it is asked; guards what follows
	asked  time.Time
	err    error
}

// dial connects to a server of the configuration, once. It returns soon after ctx has ended.
func (e *core) dial(ctx context.Context, url config.URL) (*flow.Redis, error) {
	if url == e.config.Redis {
		return e.redis, nil
	}
	return e.others.of(url).dial(ctx, url)
}

func (o *others) of(url config.URL) *otherServer {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.byURL == nil {
		o.byURL = make(map[config.URL]*otherServer)
	}
	if o.byURL[url] == nil {
		o.byURL[url] = new(otherServer)
	}
	return o.byURL[url]
}

// connected are the servers that have answered, in no order.
func (o *others) connected() (all []*flow.Redis) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, s := range o.byURL {
		if r := s.redis.Load(); r != nil {
			all = append(all, r)
		}
	}
	return all
}

// close ends all connections. Nobody dials any more.
func (o *others) close() {
	for _, r := range o.connected() {
		r.Close()
	}
}

// dial asks a server, unless it was asked a moment ago: others on it have that answer too.
func (s *otherServer) dial(ctx context.Context, url config.URL) (*flow.Redis, error) {
	s.asking.Lock()
	defer s.asking.Unlock()
	if r := s.redis.Load(); r != nil {
		return r, nil
	}
	if s.err != nil && time.Since(s.asked) < askedAgain {
		return nil, s.err
	}
	r, err := flow.Dial(ctx, url.Reveal())
	if err == nil {
		if err = r.TakesWrites(ctx); err != nil {
			r.Close()
		}
	}
	s.asked, s.err = time.Now(), err
	if err != nil {
		return nil, err
	}
	s.redis.Store(r)
	return r, nil
}
