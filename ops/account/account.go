package account

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/sync/singleflight"

	"sluice"
	"sluice/lib/key"
	"sluice/store"
)

// Bounds of sessions and links.
const (
	// SessionHours is how long somebody stays signed in.
	SessionHours = 12

	// SetupMinutes is how long a link for the first account holds.
	SetupMinutes = 15

	// believeFor is how long a look at a session is believed: with the time that a look
	// takes, a session that was ended is refused everywhere after 5 s.
	believeFor  = 4 * time.Second
	lookTimeout = time.Second

	maxKnown      = 4096 // sessions in memory
	maxUnknown    = 4096 // hashes in memory that are no sessions
	maxNameBytes  = 100
	secretBytes   = 32 // of sessions and links: 256 bits
	secretChars   = 43
	parallelLooks = 4 // at sessions that are known, and as many at others
)

// IDPrefix begins the id of an account where ids of keys stand as well.
const IDPrefix = "account:"

// Service signs people in and says who a session is. Its methods may be called from
// several goroutines at once. Errors that a caller has made are *sluice.Error.
type Service struct {
	Store store.AccountStore
	Clock sluice.Clock

	hasher   *hasher
	throttle *throttle
	linking  chan struct{} // for links of the first account
	looking  chan struct{} // for sessions that are new here, or made up
	again    chan struct{} // for those that are known

	exists   atomic.Bool // there is an account
	counting singleflight.Group

	// By the hash of a session, apart: made-up ones do not drive out those that are used.
	mu      sync.Mutex
	known   map[string]known
	unknown map[string]time.Time // until when it is believed that there is none
}

// known is what a look has found.
type known struct {
	session store.Session
	until   time.Time
}

// New returns a service.
func New(s store.AccountStore, clock sluice.Clock) *Service {
	return &Service{
		Store: s, Clock: clock, hasher: newHasher(), throttle: newThrottle(),
		linking: make(chan struct{}, 1), looking: make(chan struct{}, parallelLooks), again: make(chan struct{}, parallelLooks),
		known: make(map[string]known), unknown: make(map[string]time.Time),
	}
}

// newSecret makes what a browser keeps, and what is stored of it.
func newSecret() (text, hash string) {
	random := make([]byte, secretBytes)
	_, _ = rand.Read(random) // never fails (crypto/rand)
	text = base64.RawURLEncoding.EncodeToString(random)
	return text, hashOf(text)
}

func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// CheckName returns a name as it is kept, in lower case, or why it can be none.
func CheckName(name string) (string, error) {
	name = strings.ToLower(strings.TrimSpace(name))
	if name == "" || len(name) > maxNameBytes || !utf8.ValidString(name) || strings.ContainsFunc(name, func(r rune) bool { return unicode.IsControl(r) || unicode.IsSpace(r) }) {
		return "", sluice.Refuse(sluice.CodeInvalid, "name: want 1 to %d bytes without spaces, such as an address of mail", maxNameBytes)
	}
	return name, nil
}

// newAccount makes an account out of what somebody has given.
func (s *Service) newAccount(ctx context.Context, name, role, password string) (store.Account, error) {
	name, err := CheckName(name)
	if err != nil {
		return store.Account{}, err
	}
	if !slices.Contains(key.Roles, role) {
		return store.Account{}, sluice.Refuse(sluice.CodeInvalid, "role is %.32q, want %s", role, strings.Join(key.Roles, ", "))
	}
	if err := CheckPassword(password); err != nil {
		return store.Account{}, err
	}
	hash, err := s.hasher.hash(ctx, password)
	if err != nil {
		return store.Account{}, err
	}
	now := s.Clock.Now()
	return store.Account{ID: sluice.NewUUID(now), Name: name, Role: role, Password: hash, CreatedMillis: now.UnixMilli(), UpdatedMillis: now.UnixMilli()}, nil
}

// Add makes an account.
func (s *Service) Add(ctx context.Context, name, role, password string) (store.Account, error) {
	a, err := s.newAccount(ctx, name, role, password)
	if err == nil {
		err = s.Store.AddAccount(ctx, a)
	}
	return a, err
}

// Setup makes a link's token for the first account, for SetupMinutes; empty: there is an
// account.
func (s *Service) Setup(ctx context.Context) (token string, err error) {
	many, err := s.Store.CountAccounts(ctx)
	if err != nil || many > 0 {
		return "", err
	}
	token, hash := newSecret()
	return token, s.Store.AddSetup(ctx, hash, s.Clock.Now().Add(SetupMinutes*time.Minute).UnixMilli())
}

// First makes the first account for the holder of a link, and signs it in. Who has no
// link is counted by address, and never keeps out who has one.
func (s *Service) First(ctx context.Context, token, name, password string, from netip.Addr) (session string, a store.Account, err error) {
	now := s.Clock.Now()
	if name, err = CheckName(name); err == nil {
		err = CheckPassword(password)
	}
	if err == nil {
		err = s.checkLink(ctx, token, from, now)
	}
	if err != nil {
		return "", a, err
	}
	if a, err = s.newAccount(ctx, name, key.Owner, password); err != nil {
		return "", a, err
	}
	if err = s.Store.AddFirstAccount(ctx, hashOf(token), now.UnixMilli(), a); err != nil {
		return "", a, err
	}
	session, err = s.begin(ctx, &a)
	return session, a, err
}

// errLink is the answer to what is no link, or none any more.
var errLink = sluice.Refuse(sluice.CodeForbidden, "this link was used, or is older than %d minutes; restart the program for another, or run `sluice account add`", SetupMinutes)

// checkLink refuses what is no link for the first account. It asks the database before
// it counts, by one request at a time: a link has 256 random bits, which nobody guesses.
func (s *Service) checkLink(ctx context.Context, token string, from netip.Addr, now time.Time) error {
	holds := false
	if len(token) == secretChars {
		ctx, cancel := context.WithTimeout(ctx, lookTimeout)
		defer cancel()
		select {
		case s.linking <- struct{}{}:
			defer func() { <-s.linking }()
		case <-ctx.Done():
			return errAway
		}
		var err error
		if holds, err = s.Store.HasSetup(ctx, hashOf(token), now.UnixMilli()); err != nil {
			return err
		}
	}
	if holds {
		return nil
	}
	if err := s.throttle.begin("", from, now); err != nil {
		return err
	}
	return errLink
}

// errAway: the database does not answer, or others have its time.
var errAway = sluice.Refuse(sluice.CodeUnavailable, "sessions cannot be checked now, the database does not answer; try again")

// Any reports whether there is an account. Once there is one this is remembered for good.
// Before, those who ask at once share one look.
func (s *Service) Any(ctx context.Context) (bool, error) {
	if s.exists.Load() {
		return true, nil
	}
	many, err, _ := s.counting.Do("", func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookTimeout)
		defer cancel()
		return s.Store.CountAccounts(ctx)
	})
	if err != nil {
		return false, err
	}
	if many.(int64) > 0 {
		s.exists.Store(true)
	}
	return many.(int64) > 0, nil
}

// SignIn returns a new session for a name and its password.
func (s *Service) SignIn(ctx context.Context, name, password string, from netip.Addr) (session string, a store.Account, err error) {
	if a, err = s.verify(ctx, name, password, from); err == nil {
		session, err = s.begin(ctx, &a)
	}
	return session, a, err
}

// verify returns the account of a name, for its password. Attempts are counted.
func (s *Service) verify(ctx context.Context, name, password string, from netip.Addr) (a store.Account, err error) {
	now := s.Clock.Now()
	if name, err = CheckName(name); err != nil || len(password) > MaxPasswordBytes {
		return a, errSignIn
	}
	if err = s.throttle.begin(name, from, now); err != nil {
		return a, err
	}
	a, ok, err := s.compare(ctx, name, password)
	if err != nil {
		s.throttle.undo(name, from, s.Clock.Now()) // nobody learned whether it was right
		return a, err
	}
	if !ok {
		return a, errSignIn
	}
	s.throttle.succeeded(name, from, now)
	return a, nil
}

// compare returns the account of a name, and whether a password is that account's. An
// error says that this could not be found out.
func (s *Service) compare(ctx context.Context, name, password string) (a store.Account, ok bool, err error) {
	a, err = s.Store.Account(ctx, name)
	kept := a.Password
	if sluice.IsNotFound(err) {
		kept, err = absent, nil
	}
	if err == nil {
		ok, err = s.hasher.matches(ctx, kept, password)
	}
	return a, ok && a.ID != "", err
}

// errSignIn does not say whether there is such an account.
var errSignIn = sluice.Refuse(sluice.CodeForbidden, "name or password is wrong")

// errChanged is for who has the password. An account that lost all its sessions meanwhile
// is such a one: this session would be left.
var errChanged = sluice.Refuse(sluice.CodeForbidden, "the account was changed at this moment; sign in again")

// errOldPassword is for who is signed in.
var errOldPassword = sluice.Refuse(sluice.CodeForbidden, "the old password is wrong")

// ChangeOwn gives the account of a session a new password, for who has the old one. All
// its sessions end; the one that is returned is new. An admin who has made the account, or
// has given it a password, knows it no more then.
func (s *Service) ChangeOwn(ctx context.Context, own store.Account, old, password string, from netip.Addr) (session string, a store.Account, err error) {
	c := store.AccountChange{ID: own.ID}
	if err = CheckPassword(password); err != nil {
		return "", a, err
	}
	if a, err = s.verify(ctx, own.Name, old, from); errors.Is(err, errSignIn) || err == nil && a.ID != own.ID {
		err = errOldPassword
	}
	if err == nil {
		c.Password, err = s.hasher.hash(ctx, password)
	}
	if err != nil {
		return "", a, err
	}
	defer s.forget()
	c.Was = &a // hashing takes a while: an admin's reset since then stands
	if err = s.Store.ChangeAccount(ctx, c); err == nil {
		a, err = s.Store.Account(ctx, a.Name)
	}
	e, refused := errors.AsType[*sluice.Error](err)
	switch {
	case refused && e.Code == sluice.CodeConflict:
		err = errChanged
	case err != nil:
	case a.Password != c.Password: // somebody else has changed it since
		err = errChanged
	default:
		session, err = s.begin(ctx, &a)
	}
	return session, a, err
}

// begin makes a session, if the account is as a has it.
func (s *Service) begin(ctx context.Context, a *store.Account) (string, error) {
	now := s.Clock.Now()
	text, hash := newSecret()
	err := s.Store.AddSession(ctx, store.Session{Hash: hash, Account: *a, CreatedMillis: now.UnixMilli(), EndMillis: now.Add(SessionHours * time.Hour).UnixMilli()})
	if e, ok := errors.AsType[*sluice.Error](err); ok && e.Code == sluice.CodeConflict {
		return "", errChanged // since it was compared
	}
	if err != nil {
		return "", err
	}
	s.exists.Store(true)
	s.mu.Lock()
	defer s.mu.Unlock()
	put(s.known, maxKnown, hash, known{}) // not believed yet, but no stranger
	return text, nil
}

// errSession is the one answer to everything that is no session.
var errSession = sluice.Refuse(sluice.CodeUnauthorized, "you are not signed in, or no longer")

// Session returns the session that a browser holds, and what it may do, in the form of
// the identity of a key. *sluice.Error unauthorized: it has ended, or never was.
func (s *Service) Session(ctx context.Context, text string) (key.Identity, store.Session, error) {
	if len(text) != secretChars {
		return key.Identity{}, store.Session{}, errSession
	}
	n, err := s.look(ctx, hashOf(text))
	if err != nil {
		return key.Identity{}, n, err
	}
	if n.Account.ID == "" || s.Clock.Now().UnixMilli() >= n.EndMillis {
		return key.Identity{}, n, errSession
	}
	return key.NewIdentity(IDPrefix+n.Account.ID, n.Account.Name, key.PermissionsOf(n.Account.Role)), n, nil
}

// look returns what is known of a session, the zero Session if there is none.
func (s *Service) look(ctx context.Context, hash string) (store.Session, error) {
	now := s.Clock.Now()
	s.mu.Lock()
	k, found := s.known[hash]
	until := s.unknown[hash]
	s.mu.Unlock()
	switch {
	case found && now.Before(k.until):
		return k.session, nil
	case now.Before(until):
		return store.Session{}, nil
	}
	slots := s.looking
	if found {
		slots = s.again
	}
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	select {
	case slots <- struct{}{}:
		defer func() { <-slots }()
	case <-ctx.Done():
		return store.Session{}, errAway
	}
	n, err := s.Store.Session(ctx, hash)
	none := sluice.IsNotFound(err)
	if err != nil && !none {
		return n, errAway
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if none {
		delete(s.known, hash)
		put(s.unknown, maxUnknown, hash, now.Add(believeFor))
		return store.Session{}, nil
	}
	put(s.known, maxKnown, hash, known{n, now.Add(believeFor)})
	return n, nil
}

// put adds to a map, and drops any other entry if it is full. What is used comes back.
func put[V any](m map[string]V, most int, hash string, v V) {
	for h := range m {
		if len(m) < most {
			break
		}
		delete(m, h)
	}
	m[hash] = v
}

// forget has this process look at all sessions anew. They keep the slots of those that
// are known.
func (s *Service) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for h := range s.known {
		s.known[h] = known{}
	}
}

// SignOut ends a session.
func (s *Service) SignOut(ctx context.Context, text string) error {
	defer s.forget()
	return s.Store.DropSession(ctx, hashOf(text))
}

// Reset gives an account a new password, and ends its sessions.
func (s *Service) Reset(ctx context.Context, id, password string) error {
	return s.change(ctx, store.AccountChange{ID: id}, password)
}

// change makes a change, and sets a password unless it is empty, after everything about
// it was checked.
func (s *Service) change(ctx context.Context, c store.AccountChange, password string) (err error) {
	if password != "" {
		if err = CheckPassword(password); err != nil {
			return err
		}
		if c.Password, err = s.hasher.hash(ctx, password); err != nil {
			return err
		}
	}
	defer s.forget()
	return s.Store.ChangeAccount(ctx, c)
}

// ByID returns an account.
func (s *Service) ByID(ctx context.Context, id string) (store.Account, error) {
	all, err := s.Store.Accounts(ctx)
	if err != nil {
		return store.Account{}, err
	}
	i := slices.IndexFunc(all, func(a store.Account) bool { return a.ID == id })
	if i < 0 {
		return store.Account{}, sluice.Refuse(sluice.CodeNotFound, "there is no account %.64q", id)
	}
	return all[i], nil
}

// Change gives an account another role, a new password, or both; empty: as it was. After
// an error neither is changed, or both, and sessions of the old password may be left: it
// is to be repeated. The last admin stays one.
func (s *Service) Change(ctx context.Context, id, role, password string) error {
	if _, err := s.ByID(ctx, id); err != nil {
		return err
	}
	c := store.AccountChange{ID: id, Role: role}
	if role != "" && !slices.Contains(key.Roles, role) {
		return sluice.Refuse(sluice.CodeInvalid, "role is %.32q, want %s", role, strings.Join(key.Roles, ", "))
	}
	if role != "" && role != key.Owner {
		c.Keep = key.Owner
	}
	return s.change(ctx, c, password)
}

// Remove removes an account with its sessions. The last admin stays.
func (s *Service) Remove(ctx context.Context, id string) error {
	if _, err := s.ByID(ctx, id); err != nil {
		return err
	}
	defer s.forget()
	return s.Store.DropAccount(ctx, id, key.Owner)
}

// EndSessions ends all sessions of an account.
func (s *Service) EndSessions(ctx context.Context, id string) error {
	if _, err := s.ByID(ctx, id); err != nil {
		return err
	}
	defer s.forget()
	return s.Store.DropSessions(ctx, id)
}
