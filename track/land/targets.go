package land

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"sluice"
	"sluice/track/link"
)

// Bounds of long targets.
const (
	targetsBytes   = 4 << 20 // in memory
	targetWithin   = time.Second
	parallelLooks  = 8 // in the database, at once
	retryAfterText = "5"
)

// Targets are where long targets of links are kept. store.LinkStore is one.
type Targets interface {
	Link(ctx context.Context, hash string) (target string, err error)
}

// targets finds long targets by their hashes, in memory before the database. The oldest
// are forgotten first. Its methods may be called by several goroutines at once.
type targets struct {
	of    Targets
	looks chan struct{}

	mu    sync.Mutex
	most  int // bytes
	bytes int
	kept  map[string]string
	order []string
}

func newTargets(of Targets) *targets {
	return &targets{of: of, looks: make(chan struct{}, parallelLooks), most: targetsBytes, kept: make(map[string]string)}
}

// errNoTarget says that nothing is kept under a hash.
var errNoTarget = errors.New("no such target")

// find returns a target. errNoTarget: there is none. Any other error: it cannot be looked
// up now.
func (t *targets) find(ctx context.Context, hash string) (string, error) {
	t.mu.Lock()
	target, ok := t.kept[hash]
	t.mu.Unlock()
	if ok {
		return target, nil
	}
	ctx, stop := context.WithTimeout(ctx, targetWithin)
	defer stop()
	select { // a database that hangs has few of our connections
	case t.looks <- struct{}{}:
	case <-ctx.Done():
		return "", ctx.Err()
	}
	defer func() { <-t.looks }()
	target, err := t.of.Link(ctx, hash)
	if sluice.IsNotFound(err) {
		return "", errNoTarget
	}
	if err != nil {
		return "", err
	}
	if link.Hash(target) != hash { // somebody has changed the row: the token signs the hash
		return "", errNoTarget
	}
	t.put(hash, target)
	return target, nil
}

// put keeps a target in memory.
func (t *targets) put(hash, target string) {
	size := len(hash) + len(target) + 64
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, ok := t.kept[hash]; ok || size > t.most {
		return
	}
	for t.bytes+size > t.most {
		oldest := t.order[0]
		t.bytes -= len(oldest) + len(t.kept[oldest]) + 64
		delete(t.kept, oldest)
		t.order = t.order[1:]
	}
	hash = strings.Clone(hash) // a request's has its whole head behind it
	t.kept[hash] = target
	t.order = append(t.order, hash)
	t.bytes += size
}
