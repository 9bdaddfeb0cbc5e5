package account

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"sluice"
	"sluice/lib/key"
	"sluice/store"
	"sluice/store/sqlstore"
	"sluice/test/clocktest"
	"sluice/test/tables"
)

const password = "correct horse battery"

var here = netip.MustParseAddr("192.0.2.1")

// open returns a service on a database of its own, with an admin and an editor.
func open(t *testing.T) (*Service, *clocktest.Clock) {
	t.Helper()
	db := tables.Open(t, sqlstore.Options{})
	clock := clocktest.At(time.Unix(1_700_000_000, 0))
	s := New(db, clock)
	for _, a := range [][2]string{{"ann", key.Owner}, {"Bob@Example.com ", key.Editor}} {
		if _, err := s.Add(t.Context(), a[0], a[1], password); err != nil {
			t.Fatal(err)
		}
	}
	return s, clock
}

func code(err error) sluice.Code {
	if e, ok := errors.AsType[*sluice.Error](err); ok {
		return e.Code
	}
	return ""
}

// A session is its account's, for 12 hours, and ends everywhere with its account.
func TestSessions(t *testing.T) {
	s, clock := open(t)
	other := New(s.Store, clock) // another process
	signIn := func() string {
		t.Helper()
		token, _, err := s.SignIn(t.Context(), "BOB@example.com", password, here)
		if err != nil {
			t.Fatal(err)
		}
		return token
	}
	live := func(of *Service, token string) bool {
		t.Helper()
		who, n, err := of.Session(t.Context(), token)
		if err == nil && (n.Account.Name != "bob@example.com" || !who.May(key.SendingWrite) || who.May(key.AccountsManage)) {
			t.Errorf("the session is %+v, %+v", who, n)
		}
		return err == nil
	}
	bob, err := s.Store.Account(t.Context(), "bob@example.com")
	if err != nil {
		t.Fatal(err)
	}
	ends := map[string]func(token string) error{
		"sign out":      func(token string) error { return s.SignOut(t.Context(), token) },
		"end sessions":  func(string) error { return s.EndSessions(t.Context(), bob.ID) },
		"password":      func(string) error { return s.Change(t.Context(), bob.ID, "", password) },
		"twelve hours":  func(string) error { clock.Move(SessionHours * time.Hour); return nil },
		"remove (last)": func(string) error { return nil },
	}
	for name, end := range ends {
		token := signIn()
		if !live(s, token) || !live(other, token) || live(s, token[:len(token)-1]+"_") || live(s, "") {
			t.Errorf("before %s: the session is not in force, or another text is", name)
		}
		if name == "remove (last)" {
			continue
		}
		if err := end(token); err != nil {
			t.Fatal(err)
		}
		if live(s, token) {
			t.Errorf("%s: the session goes on where it was ended", name)
		}
		clock.Move(believeFor)
		if live(other, token) {
			t.Errorf("%s: the session goes on in another process", name)
		}
	}
	token := signIn()
	if err := s.Remove(t.Context(), bob.ID); err != nil || live(s, token) {
		t.Errorf("removed: %v, and its session goes on: %t", err, live(s, token))
	}
}

// away is a store that does not answer.
type away struct{ store.AccountStore }

func (away) Account(context.Context, string) (store.Account, error) {
	return store.Account{}, sluice.Refuse(sluice.CodeUnavailable, "the database does not answer")
}

// Attempts that nobody could decide do not count as failed: who tried while the database
// was away, or while too many signed in, signs in when it is over. Wrong ones still count.
func TestUndecidedAttempts(t *testing.T) {
	s, _ := open(t)
	const many = 2 * triesOfName
	there := s.Store
	s.Store = away{there}
	for range many {
		if _, _, err := s.SignIn(t.Context(), "ann", password, here); code(err) != sluice.CodeUnavailable {
			t.Fatalf("while the database is away: %v", err)
		}
	}
	s.Store = there
	for range cap(s.hasher.waiting) {
		s.hasher.waiting <- struct{}{}
	}
	for range many {
		if _, _, err := s.SignIn(t.Context(), "ann", password, here); code(err) != sluice.CodeTooFast || !strings.Contains(err.Error(), "some seconds") {
			t.Fatalf("while too many sign in: %v", err)
		}
	}
	for range cap(s.hasher.waiting) {
		<-s.hasher.waiting
	}
	if _, _, err := s.SignIn(t.Context(), "ann", password, here); err != nil {
		t.Errorf("afterwards: %v", err)
	}
	for range triesOfBoth {
		if _, _, err := s.SignIn(t.Context(), "ann", "a wrong password", here); code(err) != sluice.CodeForbidden {
			t.Fatalf("a wrong password: %v", err)
		}
	}
	if _, _, err := s.SignIn(t.Context(), "ann", password, here); code(err) != sluice.CodeTooFast {
		t.Errorf("after %d wrong ones: %v", triesOfBoth, err)
	}
}

// ending is a store in which something happens just before a session is added.
type ending struct {
	store.AccountStore
	before func()
}

func (e *ending) AddSession(ctx context.Context, n store.Session) error {
	e.before()
	return e.AccountStore.AddSession(ctx, n)
}

// Who signs in while all sessions of the account are ended has none behind it, and may sign
// in again.
func TestEndingMeetsSigningIn(t *testing.T) {
	s, clock := open(t)
	bob, err := s.Store.Account(t.Context(), "bob@example.com")
	if err != nil {
		t.Fatal(err)
	}
	meets := New(&ending{s.Store, func() {
		clock.Move(time.Millisecond)
		if err := s.EndSessions(t.Context(), bob.ID); err != nil {
			t.Error(err)
		}
	}}, clock)
	if token, _, err := meets.SignIn(t.Context(), bob.Name, password, here); code(err) != sluice.CodeForbidden || token != "" {
		t.Errorf("a session is left: %q %v", token, err)
	}
	token, _, err := s.SignIn(t.Context(), bob.Name, password, here)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Session(t.Context(), token); err != nil {
		t.Error(err)
	}
}

// The last admin can neither be removed nor become less.
func TestLastAdminStays(t *testing.T) {
	s, _ := open(t)
	ann, err := s.Store.Account(t.Context(), "ann")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Remove(t.Context(), ann.ID); code(err) != sluice.CodeConflict {
		t.Errorf("remove: %v", err)
	}
	if err := s.Change(t.Context(), ann.ID, key.Viewer, ""); code(err) != sluice.CodeConflict {
		t.Errorf("change: %v", err)
	}
	if _, err := s.Add(t.Context(), "carl", key.Owner, password); err != nil {
		t.Fatal(err)
	}
	if err := s.Remove(t.Context(), ann.ID); err != nil {
		t.Errorf("remove one of two: %v", err)
	}
}

// A change whose password is refused has not changed the role either.
func TestChangeIsWhole(t *testing.T) {
	s, _ := open(t)
	bob, err := s.Store.Account(t.Context(), "bob@example.com")
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		role, password string
		want           sluice.Code
		left           string
	}{
		{key.Viewer, "short", sluice.CodeInvalid, key.Editor},
		{"king", password, sluice.CodeInvalid, key.Editor},
		{key.Viewer, "another good password", "", key.Viewer},
	} {
		err := s.Change(t.Context(), bob.ID, tt.role, tt.password)
		now, lost := s.ByID(t.Context(), bob.ID)
		if code(err) != tt.want || (err == nil) != (tt.want == "") || lost != nil || now.Role != tt.left || (now.Password == bob.Password) != (err != nil) {
			t.Errorf("%s, %s: %v, and the account is %s, %v", tt.role, tt.password, err, now.Role, lost)
		}
	}
}

// between is a store in which something happens after an account was read.
type between struct {
	store.AccountStore
	do func()
}

func (b between) Account(ctx context.Context, name string) (store.Account, error) {
	a, err := b.AccountStore.Account(ctx, name)
	b.do()
	return a, err
}

// A sign-in with a password that is changed meanwhile is refused like a wrong one.
func TestSignInMeetsAChange(t *testing.T) {
	s, clock := open(t)
	for name, do := range map[string]func(id string) error{
		"reset":   func(id string) error { return s.Reset(t.Context(), id, "another good password") },
		"removed": func(id string) error { return s.Remove(t.Context(), id) },
	} {
		a, err := s.Add(t.Context(), name, key.Editor, password)
		if err != nil {
			t.Fatal(err)
		}
		beside := New(between{s.Store, func() {
			if err := do(a.ID); err != nil {
				t.Error(err)
			}
		}}, clock)
		token, _, err := beside.SignIn(t.Context(), name, password, here)
		if code(err) != sluice.CodeForbidden || token != "" {
			t.Errorf("%s: %q %v, want that it is refused", name, token, err)
		}
	}
}

// Attempts are counted by name and network, by name, and by network, for a while; one that
// succeeds forgets those of its name from its network.
func TestThrottle(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	at := func(text string) netip.Addr { return netip.MustParseAddr(text) }
	th := newThrottle()
	tries := func(name, from string, n int) (refused int) {
		for range n {
			if th.begin(name, at(from), now) != nil {
				refused++
			}
		}
		return refused
	}
	if n := tries("ann", "192.0.2.1", triesOfBoth+3); n != 3 {
		t.Errorf("%d attempts on a name were refused, want 3", n)
	}
	if n := tries("ann", "192.0.2.9", 1); n != 0 {
		t.Error("the name is locked from another address")
	}
	now = now.Add(throttleWindow)
	if n := tries("ann", "192.0.2.1", triesOfBoth-1); n != 0 {
		t.Errorf("%d attempts were refused after the while", n)
	}
	th.succeeded("ann", at("192.0.2.1"), now)
	if n := tries("ann", "192.0.2.1", triesOfBoth); n != 0 {
		t.Errorf("%d attempts were refused after one that succeeded", n)
	}
	now = now.Add(throttleWindow)
	all := 0
	for i := range triesOfName + 7 { // each from a network of its own
		all += tries("ann", fmt.Sprintf("198.51.100.%d", i), 1)
	}
	if all != 7 {
		t.Errorf("%d attempts on a name from everywhere were refused, want 7", all)
	}
	now = now.Add(throttleWindow)
	refused := 0
	for i := range triesOfAddress + 5 { // each a name and an address of one /64
		refused += tries(strings.Repeat("x", i+1), "2001:db8::"+string("0123456789abcdef"[i%16]), 1)
	}
	if refused != 5 {
		t.Errorf("%d attempts from a network were refused, want 5", refused)
	}
	now = now.Add(throttleWindow)
	for i := range triesOfName + 7 { // each from a /64 of its own, of one /48
		tries("ann", fmt.Sprintf("2001:db8:7:%x::1", i), 1)
	}
	if n := tries("ann", "192.0.2.1", 1); n != 0 {
		t.Error("who has a /48 locks a name")
	}
	if n := tries("bob", "2001:db8:7:1::1", 1); n != 0 {
		t.Error("and another name from there")
	}
}

// What is kept of a password is matched by it alone, and a forged row costs no memory.
func TestPasswords(t *testing.T) {
	h := newHasher()
	kept, err := h.hash(t.Context(), password)
	if err != nil {
		t.Fatal(err)
	}
	again, err := h.hash(t.Context(), password)
	if err != nil || kept == again {
		t.Errorf("two hashes of a password are alike: %v", err)
	}
	for _, tt := range []struct {
		kept, password string
		want           bool
	}{
		{kept, password, true}, {again, password, true}, {kept, password + " ", false}, {kept, "", false}, {absent, "", false}, {absent, password, false}, {"", "", false},
		{strings.Replace(kept, "m=19456", "m=4194304", 1), password, false}, {strings.Replace(kept, "t=2", "t=0", 1), password, false}, {strings.TrimSuffix(kept, kept[len(kept)-4:]), password, false},
	} {
		if got, err := h.matches(t.Context(), tt.kept, tt.password); err != nil || got != tt.want {
			t.Errorf("%q matches %q: %t %v", tt.kept, tt.password, got, err)
		}
	}
	for _, bad := range []string{"", "eleven char", strings.Repeat("x", MaxPasswordBytes+1), "\xff" + password} {
		if code(CheckPassword(bad)) != sluice.CodeInvalid {
			t.Errorf("%q is taken for a password", bad)
		}
	}
	if err := CheckPassword(NewPassword()); err != nil {
		t.Error(err)
	}
}

// The first account is made by a link, once, in its time.
func TestFirst(t *testing.T) {
	db := tables.Open(t, sqlstore.Options{})
	clock := clocktest.At(time.Unix(1_700_000_000, 0))
	s := New(db, clock)
	links := make([]string, 2)
	for i := range links {
		link, err := s.Setup(t.Context())
		if err != nil || link == "" {
			t.Fatal(link, err)
		}
		links[i] = link
		clock.Move(SetupMinutes * time.Minute / 2)
	}
	clock.Move(time.Second)
	for i := range 2 * triesOfAddress { // a stranger, at the same address as the holder
		want := sluice.CodeForbidden
		if i >= triesOfAddress {
			want = sluice.CodeTooFast
		}
		if _, _, err := s.First(t.Context(), strings.Repeat("x", secretChars), "eve", password, here); code(err) != want {
			t.Fatalf("guess %d: %v, want %s", i, err, want)
		}
	}
	for _, tt := range []struct {
		token string
		want  sluice.Code
	}{{links[0], sluice.CodeTooFast}, {links[1], ""}, {links[1], sluice.CodeTooFast}} {
		session, a, err := s.First(t.Context(), tt.token, "ann", password, here)
		if code(err) != tt.want || (err == nil) != (tt.want == "") {
			t.Errorf("%q: %v, want %q", tt.token, err, tt.want)
		}
		if err == nil && (session == "" || a.Role != key.Owner) {
			t.Errorf("the first account is %+v", a)
		}
	}
	if token, err := s.Setup(t.Context()); err != nil || token != "" {
		t.Errorf("a link with an account: %q %v", token, err)
	}
}
