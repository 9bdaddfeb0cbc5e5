package api

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
	"unsafe"

	"sluice"
	"sluice/lib/key"
	"sluice/store"
	"sluice/store/sqlstore"
	"sluice/test/clocktest"
	"sluice/test/proxy"
	"sluice/test/servers"
	"sluice/test/tables"
)

func openKeys(t *testing.T) *sqlstore.Store {
	t.Helper()
	return tables.Open(t, sqlstore.Options{})
}

func addKey(t *testing.T, s *sqlstore.Store, permissions ...string) (id, text string) {
	t.Helper()
	id, text = key.New()
	hash := key.HashOf(text)
	if err := s.AddKey(t.Context(), store.APIKey{ID: id, Name: "n", Permissions: permissions, Hash: hash[:], CreatedMillis: 1}); err != nil {
		t.Fatal(err)
	}
	return id, text
}

func TestAuthority(t *testing.T) {
	const root = "0123456789abcdef0123456789abcdef"
	db := openKeys(t)
	clock := clocktest.At(time.UnixMilli(1_700_000_000_000))
	a := newAuthority(root, func() store.KeyStore { return db }, clock)
	id, text := addKey(t, db, "events:write")
	plainID, plain := addKey(t, db)
	otherID, other := key.New()

	good := func(header, want string) {
		t.Helper()
		if who, err := a.identify(t.Context(), header); err != nil || who.ID != want {
			t.Errorf("%q: %v %v, want %s", header, who, err, want)
		}
	}
	bad := func(header string) {
		t.Helper()
		if who, err := a.identify(t.Context(), header); !errors.Is(err, errUnauthorized) || who.ID != "" {
			t.Errorf("%q: %v %v, want unauthorized", header, who, err)
		}
	}
	good("Bearer "+root, key.RootID)
	good("Bearer "+text, id)
	good("bearer  "+text+" ", id)
	good("Bearer "+plain, plainID)
	if who, _ := a.identify(t.Context(), "Bearer "+plain); who.May(key.EventsWrite) {
		t.Error("a key without permissions may write")
	}
	flip := byte('a')
	if text[len(text)-2] == 'a' {
		flip = 'b'
	}
	for _, header := range []string{"", "Bearer", "Bearer ", text, "Basic " + text, "Bearer " + root[1:], "Bearer " + text[:len(text)-1],
		"Bearer " + other, "Bearer slk_" + id + text[4+key.IDChars:len(text)-2] + string(flip) + text[len(text)-1:],
		"Bearer slk_" + id + other[4+key.IDChars:]} {
		bad(header)
	}

	// A revoked key is refused when the look has become old, not before.
	if err := db.RevokeKey(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	clock.Move(believeFor - time.Millisecond)
	good("Bearer "+text, id)
	clock.Move(time.Millisecond)
	bad("Bearer " + text)

	// An unknown one is asked for again then as well.
	bad("Bearer " + other)
	hash := key.HashOf(other)
	if err := db.AddKey(t.Context(), store.APIKey{ID: otherID, Hash: hash[:], CreatedMillis: 1}); err != nil {
		t.Fatal(err)
	}
	bad("Bearer " + other)
	clock.Move(believeFor)
	good("Bearer "+other, otherID)

	// Without the database, what is known is believed no longer than that.
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	good("Bearer "+other, otherID)
	clock.Move(believeFor)
	var e *sluice.Error
	if _, err := a.identify(t.Context(), "Bearer "+other); !errors.As(err, &e) || e.Code != sluice.CodeUnavailable {
		t.Errorf("without a database: %v", err)
	}
	good("Bearer "+root, key.RootID)
}

// However many guess keys, and however long the database takes over them, whose
// key is known is looked up.
func TestGuessesDoNotLockOut(t *testing.T) {
	db := openKeys(t)
	clock := clocktest.At(time.UnixMilli(1_700_000_000_000))
	a := newAuthority("", func() store.KeyStore { return db }, clock)
	_, text := addKey(t, db, "events:write")
	if _, err := a.identify(t.Context(), "Bearer "+text); err != nil {
		t.Fatal(err)
	}
	for range parallelLooks {
		a.looking <- struct{}{} // those who guess
	}
	clock.Move(believeFor)
	if _, err := a.identify(t.Context(), "Bearer "+text); err != nil {
		t.Error(err)
	}
}

// slowKeys is a database that answers looks at single keys when it is told to.
type slowKeys struct {
	store.KeyStore
	asked  chan string // the ids, as it is asked for them
	answer chan struct{}
	away   chan struct{} // it has no answer for all keys, and says so here; nil: it has
}

func (s *slowKeys) APIKey(ctx context.Context, id string) (store.APIKey, error) {
	select {
	case s.asked <- id:
	case <-ctx.Done():
		return store.APIKey{}, ctx.Err()
	}
	select {
	case <-s.answer:
		return s.KeyStore.APIKey(ctx, id)
	case <-ctx.Done():
		return store.APIKey{}, ctx.Err()
	}
}

func (s *slowKeys) APIKeys(ctx context.Context) ([]store.APIKey, error) {
	if s.away != nil {
		s.away <- struct{}{}
		return nil, errors.New("no list")
	}
	return s.KeyStore.APIKeys(ctx)
}

// Known keys that become old at the same time are looked at beside each other. If they are
// more than have places, one question for all of them answers those that would wait.
func TestManyKeysAreRenewedAtOnce(t *testing.T) {
	db := openKeys(t)
	slow := &slowKeys{KeyStore: db, asked: make(chan string), answer: make(chan struct{})}
	clock := clocktest.At(time.UnixMilli(1_700_000_000_000))
	a := newAuthority("", func() store.KeyStore { return slow }, clock)
	a.within = time.Minute // the machine may be busy
	texts := make([]string, parallelRenewals+3)
	var revoked string
	for i := range texts {
		revoked, texts[i] = addKey(t, db, "events:write")
	}
	if _, err := a.identify(t.Context(), "Bearer "+texts[0]); err != nil { // by the list
		t.Fatal(err)
	}
	if err := db.RevokeKey(t.Context(), revoked); err != nil {
		t.Fatal(err)
	}
	clock.Move(believeFor)
	var renewals sync.WaitGroup
	defer renewals.Wait()
	for _, text := range texts[:parallelRenewals] {
		renewals.Go(func() {
			if _, err := a.identify(t.Context(), "Bearer "+text); err != nil {
				t.Error(err)
			}
		})
	}
	for range parallelRenewals { // all ask, none has an answer
		select {
		case <-slow.asked:
		case <-time.After(3 * time.Minute):
			t.Fatal("a known key waits for others")
		}
	}
	for i, text := range texts[parallelRenewals:] {
		_, err := a.identify(t.Context(), "Bearer "+text)
		if last := parallelRenewals+i == len(texts)-1; last != errors.Is(err, errUnauthorized) || !last && err != nil {
			t.Errorf("key %d, while all places are taken: %v; the last is revoked", i, err)
		}
	}
	close(slow.answer)
	renewals.Wait()

	// Without the list it waits for a place.
	slow.away = make(chan struct{})
	clock.Move(believeFor)
	for range parallelRenewals {
		a.again <- struct{}{}
	}
	renewals.Go(func() {
		if _, err := a.identify(t.Context(), "Bearer "+texts[0]); err != nil {
			t.Error(err)
		}
	})
	select {
	case <-slow.away:
	case <-time.After(3 * time.Minute):
		t.Fatal("all keys are not asked for, where all places are taken")
	}
	<-a.again
	<-slow.asked
	renewals.Wait()
}

// What is remembered is bounded, and guesses do not drive out real keys.
func TestAuthorityIsBounded(t *testing.T) {
	db := openKeys(t)
	a := newAuthority("", func() store.KeyStore { return db }, clocktest.At(time.UnixMilli(1)))
	id, text := addKey(t, db, "events:write")
	if _, err := a.identify(t.Context(), "Bearer "+text); err != nil {
		t.Fatal(err)
	}
	for i := range maxUnknownKeys {
		a.unknown[fmt.Sprint(i)] = time.UnixMilli(2)
	}
	for range 10 {
		_, guess := key.New()
		if _, err := a.identify(t.Context(), "Bearer "+guess); !errors.Is(err, errUnauthorized) {
			t.Fatal(err)
		}
	}
	_, guess := key.New()
	header := "Bearer" + strings.Repeat(" ", 16_000) + guess
	if _, err := a.identify(t.Context(), header); !errors.Is(err, errUnauthorized) {
		t.Fatal(err)
	}
	sent, _ := key.ID(header[len(header)-len(guess):])
	for kept := range a.unknown {
		if kept == sent && unsafe.StringData(kept) == unsafe.StringData(sent) {
			t.Error("16 bytes of a header keep all of it")
		}
	}
	if _, kept := a.unknown[sent]; !kept || len(a.unknown) != maxUnknownKeys {
		t.Errorf("%d unknown keys are remembered", len(a.unknown))
	}
	if _, ok := a.known[id]; !ok {
		t.Error("guesses drove out a key")
	}
	for i := range maxKnownKeys {
		a.known[fmt.Sprint(i)] = knownKey{}
	}
	_, more := addKey(t, db)
	if _, err := a.identify(t.Context(), "Bearer "+more); err != nil || len(a.known) > maxKnownKeys {
		t.Errorf("%d keys are remembered (%v)", len(a.known), err)
	}
	// No root key is set: the empty text must not be it.
	if _, err := a.identify(t.Context(), "Bearer "); !errors.Is(err, errUnauthorized) {
		t.Error("the empty key is the root key")
	}
}

// A key not seen since a restart is good at once, even while 10,000 made-up
// ones are asked for and the database is far away.
func TestAFloodOfGuessesAfterARestart(t *testing.T) {
	server, err := servers.StartMariaDB(t.Context(), servers.MariaDBOptions{Dir: filepath.Join(t.TempDir(), "mariadb")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Kill() })
	if err := server.CreateDatabase(t.Context(), "d"); err != nil {
		t.Fatal(err)
	}
	line, err := proxy.NewLine("tcp", server.Addr(), 50*time.Millisecond) // 100 ms a question: 20 guesses a second
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = line.Close() })
	near, err := sqlstore.Open(t.Context(), "mysql://root@"+server.Addr()+"/d", sqlstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer near.Close()
	if err := near.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	id, text := addKey(t, near, "events:write")
	revokedID, revoked := addKey(t, near, "events:write")
	if err := near.RevokeKey(t.Context(), revokedID); err != nil {
		t.Fatal(err)
	}
	far, err := sqlstore.Open(t.Context(), "mysql://root@"+line.Addr()+"/d", sqlstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	for within := lookKeyTimeout; ; within *= 4 { // a busy machine needs longer, the flood lasts longer too
		who, err, refused := amidGuesses(t, far, within, text, revoked)
		if within < time.Minute && (unavailable(err) || unavailable(refused)) {
			continue
		}
		if err != nil || who.ID != id {
			t.Errorf("a key that was not seen since the start: %v, %v", who, err)
		}
		if !errors.Is(refused, errUnauthorized) {
			t.Errorf("a revoked key: %v", refused)
		}
		return
	}
}

// unavailable reports whether a key could not be checked in time.
func unavailable(err error) bool {
	e, ok := errors.AsType[*sluice.Error](err)
	return ok && e.Code == sluice.CodeUnavailable
}

// amidGuesses asks for a good key and for a revoked one, while more made-up ones are asked for
// than the database answers in the time that each has.
func amidGuesses(t *testing.T, keys store.KeyStore, within time.Duration, text, revoked string) (who key.Identity, err, refused error) {
	t.Helper()
	a := newAuthority("", func() store.KeyStore { return keys }, sluice.SystemClock{})
	a.within = within
	var flood, begun sync.WaitGroup
	begun.Add(10_000)
	for range 10_000 {
		flood.Go(func() {
			_, guess := key.New()
			begun.Done()
			if who, err := a.identify(t.Context(), "Bearer "+guess); err == nil {
				t.Errorf("a made-up key is that of %s", who.ID)
			}
		})
	}
	begun.Wait()
	defer flood.Wait()
	who, err = a.identify(t.Context(), "Bearer "+text)
	_, refused = a.identify(t.Context(), "Bearer "+revoked)
	return who, err, refused
}
