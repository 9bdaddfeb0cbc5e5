package api

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"sluice"
	"sluice/lib/key"
	"sluice/store"
)

// Bounds of looking up keys.
const (
	// believeFor is how long a look is believed. A revoked key is refused
	// everywhere 5 s later at most: this, and the time that the look takes.
	believeFor     = 4 * time.Second
	lookKeyTimeout = time.Second

	// maxKnownKeys and maxUnknownKeys bound what is remembered of either sort;
	// apart, so that guesses do not drive out keys that are used.
	maxKnownKeys   = 4096
	maxUnknownKeys = 4096

	// parallelLooks bounds what strangers with made-up keys can ask of the
	// database at once. Looks at known keys have places of their own. Otherwise many
	// such strangers in front of a slow database would lock them out. They are more,
	// as known keys cannot be made up without end.
	parallelLooks    = 2
	parallelRenewals = 16

	// maxListedKeys bounds the ids that are taken from the list of all keys.
	maxListedKeys = 100_000

	// listKeysTimeout bounds reading that list, relistAfter is when it is read again
	// if a key is asked for that it has not.
	listKeysTimeout = 10 * time.Second
	relistAfter     = 30 * time.Second
)

// authority says which key or operator a request comes from.
//
// It keeps what the database said for a few seconds, under the key's public id:
// a key's hash, or that there is none. The secret is compared here, so that
// guessing secrets of a known id asks the database nothing. When the database
// is away, keys cannot be checked once the last look is too old. A revoked key
// must not live on because of it. The root key needs no database.
//
// All ids are read at once when the first key is asked for, by one query that
// waits for no place. So a key that was not seen since a restart is not taken
// for a made-up one, and has the places of known keys. All keys are read so again
// where more known keys are looked at than have places: hundreds of keys that become
// old at once, in front of a database that is far, would wait too long for their turn.
type authority struct {
	root    key.Hash
	hasRoot bool
	keys    func() store.KeyStore // nil: the program does not run
	clock   sluice.Clock
	looks   singleflight.Group
	looking chan struct{} // for keys that are new here
	again   chan struct{} // for those that are known, or in the list
	within  time.Duration // that a look may take; lookKeyTimeout, but for tests

	mu      sync.Mutex
	known   map[string]knownKey
	unknown map[string]time.Time // until when it is believed
	listed  map[string]bool      // the ids of all keys as of the last list; nil: not read yet
	listAt  time.Time            // when it was last begun to be read
}

type knownKey struct {
	identity key.Identity
	hash     key.Hash
	revoked  bool
	until    time.Time
}

func newAuthority(rootKey string, keys func() store.KeyStore, clock sluice.Clock) *authority {
	return &authority{
		root: key.HashOf(rootKey), hasRoot: rootKey != "", keys: keys, clock: clock,
		looking: make(chan struct{}, parallelLooks), again: make(chan struct{}, parallelRenewals), within: lookKeyTimeout,
		known: make(map[string]knownKey), unknown: make(map[string]time.Time),
	}
}

// errUnauthorized is the one answer to everything that is no good key.
var errUnauthorized = &sluice.Error{Code: sluice.CodeUnauthorized, Index: -1,
	Message: "a key is needed: Authorization: Bearer slk_...; `sluice key create` makes one"}

// identify returns who sent an Authorization header, or an *sluice.Error.
func (a *authority) identify(ctx context.Context, header string) (key.Identity, error) {
	scheme, text, ok := strings.Cut(header, " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") {
		return key.Identity{}, errUnauthorized
	}
	return a.identifyKey(ctx, strings.TrimSpace(text))
}

// identifyKey returns whose key a text is, or an *sluice.Error.
func (a *authority) identifyKey(ctx context.Context, text string) (key.Identity, error) {
	hash := key.HashOf(text)
	if a.hasRoot && a.root.Equal(hash) {
		return key.Root(), nil
	}
	id, ok := key.ID(text)
	if !ok {
		return key.Identity{}, errUnauthorized
	}
	k, found, err := a.lookUp(ctx, id)
	if err != nil {
		return key.Identity{}, &sluice.Error{Code: sluice.CodeUnavailable, Index: -1,
			Message: "keys cannot be checked now, the database does not answer; nothing was taken in, send it again"}
	}
	if !found || !k.hash.Equal(hash) || k.revoked {
		return key.Identity{}, errUnauthorized
	}
	return k.identity, nil
}

// lookUp returns what is known of a key.
func (a *authority) lookUp(ctx context.Context, id string) (knownKey, bool, error) {
	now := a.clock.Now()
	a.mu.Lock()
	k, found := a.known[id]
	until := a.unknown[id]
	a.mu.Unlock()
	switch {
	case found && now.Before(k.until):
		return k, true, nil
	case now.Before(until):
		return knownKey{}, false, nil
	}
	if !found {
		if k, found = a.list(ctx, id, now); found && now.Before(k.until) {
			return k, true, nil
		}
	}
	// Shared by all who ask for this key now, so it outlives each of them. What is kept of
	// the id is a copy: it is a part of a header, of which a stranger may send 16 KB.
	id = strings.Clone(id)
	result, err, _ := a.looks.Do(id, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), a.within)
		defer cancel()
		if !found {
			return a.ask(ctx, id, a.looking, nil)
		}
		var renewed <-chan singleflight.Result
		if len(a.again) == cap(a.again) {
			renewed = a.readAll(ctx, false)
		}
		return a.ask(ctx, id, a.again, renewed)
	})
	if err != nil {
		return knownKey{}, false, err
	}
	k = result.(knownKey)
	return k, k.identity.ID != "", nil
}

// list reports whether a key is in the list of all keys, and what the list said of
// it. While there is no list callers wait for it, a second at most; later it is
// read again beside them, if it is old.
func (a *authority) list(ctx context.Context, id string, now time.Time) (knownKey, bool) {
	a.mu.Lock()
	first, old := a.listed == nil, now.Sub(a.listAt) >= relistAfter
	if old {
		a.listAt = now
	}
	a.mu.Unlock()
	if first || old {
		read := a.readAll(ctx, first)
		if first {
			timer := time.NewTimer(a.within)
			defer timer.Stop()
			select {
			case <-read:
			case <-timer.C:
			case <-ctx.Done():
			}
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.known[id], a.listed[id]
}

// readAll begins to read the list, or shares in the reading that is under way.
func (a *authority) readAll(ctx context.Context, first bool) <-chan singleflight.Result {
	return a.looks.DoChan("", func() (any, error) { // no key has this id; it ends with its deadline
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), listKeysTimeout)
		defer cancel()
		return nil, a.readList(ctx, first)
	})
}

// readList reads all keys, unless it is for the first list and there is one. They are known
// from then on, as after a look.
func (a *authority) readList(ctx context.Context, first bool) error {
	a.mu.Lock()
	done := first && a.listed != nil
	a.mu.Unlock()
	if done {
		return nil
	}
	keys := a.keys()
	if keys == nil {
		return errors.New("the program does not run")
	}
	until := a.clock.Now().Add(believeFor)
	all, err := keys.APIKeys(ctx)
	if err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.listed = make(map[string]bool, min(len(all), maxListedKeys))
	for i := range all[:min(len(all), maxListedKeys)] {
		a.listed[all[i].ID] = true
		k, seen := a.known[all[i].ID]
		if seen && k.until.Before(until) || !seen && len(a.known) < maxKnownKeys {
			a.known[all[i].ID] = knownOf(&all[i], until)
		}
	}
	return nil
}

// knownOf is what is remembered of a key.
func knownOf(stored *store.APIKey, until time.Time) knownKey {
	k := knownKey{identity: key.NewIdentity(stored.ID, stored.Name, stored.Permissions), revoked: stored.RevokedMillis != 0, until: until}
	if copy(k.hash[:], stored.Hash) != len(k.hash) {
		k.revoked = true // a hash of another length is no hash of a key
	}
	return k
}

// ask asks the database, when a slot is free; the zero knownKey: there is no such key. If
// renewed, a reading of all keys, ends before that, what it has found of the key is returned.
func (a *authority) ask(ctx context.Context, id string, slots chan struct{}, renewed <-chan singleflight.Result) (knownKey, error) {
	keys := a.keys()
	if keys == nil {
		return knownKey{}, errors.New("the program does not run")
	}
	for waits := true; waits; {
		select {
		case slots <- struct{}{}:
			waits = false
		case <-renewed:
			if k, ok := a.believed(id); ok {
				return k, nil
			}
			renewed = nil
		case <-ctx.Done():
			return knownKey{}, ctx.Err()
		}
	}
	defer func() { <-slots }()
	until := a.clock.Now().Add(believeFor)
	stored, err := keys.APIKey(ctx, id)
	if sluice.IsNotFound(err) {
		a.mu.Lock()
		defer a.mu.Unlock()
		delete(a.known, id)
		makeRoom(a.unknown, maxUnknownKeys)
		a.unknown[id] = until
		return knownKey{}, nil
	}
	if err != nil {
		return knownKey{}, err
	}
	k := knownOf(&stored, until)
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.unknown, id)
	makeRoom(a.known, maxKnownKeys)
	a.known[id] = k
	return k, nil
}

// believed returns what is known of a key and need not be asked for.
func (a *authority) believed(id string) (knownKey, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	k, found := a.known[id]
	return k, found && a.clock.Now().Before(k.until)
}

// makeRoom drops any entry of a map that is full. Go's order is as good as any,
// and what is used comes back with the next look.
func makeRoom[V any](m map[string]V, most int) {
	for id := range m {
		if len(m) < most {
			return
		}
		delete(m, id)
	}
}
