package storetest

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"sluice"
	"sluice/store"
)

// anAccount is one of a name.
func anAccount(name string) store.Account {
	return store.Account{ID: "id-" + name, Name: name, Role: "viewer", Password: "$argon2id$" + name, CreatedMillis: 1_700_000_000_123, UpdatedMillis: 1_700_000_000_123}
}

func accountsOf(t *testing.T, f *fixture) store.AccountStore {
	t.Helper()
	accounts, ok := f.store.(store.AccountStore)
	if !ok {
		t.Fatal("the store keeps no accounts")
	}
	return accounts
}

// testAccounts: accounts are kept by name, and a session ends with its account's
// password.
func testAccounts(t *testing.T, f *fixture) {
	s := accountsOf(t, f)
	_, err := s.Account(f.ctx, "ann")
	wantCode(t, err, sluice.CodeNotFound)
	ann, bob := anAccount("ann"), anAccount("bøb@example.com")
	must(t, s.AddAccount(f.ctx, bob))
	must(t, s.AddAccount(f.ctx, ann))
	other := ann
	other.ID = "other"
	wantCode(t, s.AddAccount(f.ctx, other), sluice.CodeConflict)
	if all, err := s.Accounts(f.ctx); err != nil || !reflect.DeepEqual(all, []store.Account{ann, bob}) {
		t.Errorf("list: %+v %v", all, err)
	}
	sessions := make([]store.Session, 3)
	for i, a := range []store.Account{ann, bob, bob} {
		sessions[i] = store.Session{Hash: fmt.Sprint("h", i), Account: a, CreatedMillis: 1_700_000_000_001, EndMillis: 1_700_000_000_000 + int64(i)*1000}
		must(t, s.AddSession(f.ctx, sessions[i]))
		sessions[i].Account.Password, sessions[i].Account.CreatedMillis, sessions[i].Account.UpdatedMillis = "", 0, 0
		if got, err := s.Session(f.ctx, sessions[i].Hash); err != nil || got != sessions[i] {
			t.Errorf("session: %+v %v, want %+v", got, err, sessions[i])
		}
	}
	live := func(want ...string) {
		t.Helper()
		var got []string
		for i := range sessions {
			if _, err := s.Session(f.ctx, sessions[i].Hash); err == nil {
				got = append(got, sessions[i].Hash)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("sessions %v, want %v", got, want)
		}
	}
	must(t, s.ChangeAccount(f.ctx, store.AccountChange{ID: bob.ID, Role: "admin"}))
	if got, err := s.Session(f.ctx, "h1"); err != nil || got.Account.Role != "admin" {
		t.Errorf("a session has the role %q %v, want the account's new one", got.Account.Role, err)
	}
	must(t, f.store.(store.RetentionStore).DropEnded(f.ctx, 1_700_000_000_500, "")) // h0 ended before
	live("h1", "h2")
	must(t, s.DropSession(f.ctx, "h1"))
	live("h2")
	must(t, s.ChangeAccount(f.ctx, store.AccountChange{ID: ann.ID, Password: "new"}))
	live("h2")
	now, err := s.Account(f.ctx, bob.Name)
	must(t, err)
	older, other := now, now
	older.UpdatedMillis--
	other.Password = "another"
	for _, was := range []*store.Account{&older, &other} {
		wantCode(t, s.ChangeAccount(f.ctx, store.AccountChange{ID: bob.ID, Password: "refused", Was: was}), sluice.CodeConflict)
	}
	live("h2")
	must(t, s.ChangeAccount(f.ctx, store.AccountChange{ID: bob.ID, Password: "new", Was: &now}))
	live()
	if got, err := s.Account(f.ctx, bob.Name); err != nil || got.Password != "new" || got.Role != "admin" {
		t.Errorf("changed: %+v %v", got, err)
	}
	sessions[0].Account.Password = ann.Password
	wantCode(t, s.AddSession(f.ctx, sessions[0]), sluice.CodeConflict) // it has a new one
	live()
	testEndedWhileBegun(t, f, s, ann)
	if n, err := s.CountAccounts(f.ctx); err != nil || n != 1 {
		t.Errorf("%d accounts %v, want 1", n, err)
	}
}

// testEndedWhileBegun: a session that begins while all of its account's are ended does
// not stay. It removes the account.
func testEndedWhileBegun(t *testing.T, f *fixture, s store.AccountStore, a store.Account) {
	read := func() (now store.Account) {
		t.Helper()
		now, err := s.Account(f.ctx, a.Name)
		must(t, err)
		return now
	}
	session := store.Session{Hash: "h0", Account: read(), CreatedMillis: 1_700_000_000_001, EndMillis: 1_700_000_000_000}
	must(t, s.AddSession(f.ctx, session))
	before := read()
	must(t, s.DropSessions(f.ctx, a.ID))
	_, err := s.Session(f.ctx, session.Hash)
	wantCode(t, err, sluice.CodeNotFound)
	session.Account = before // it signs in while all its sessions are ended
	wantCode(t, s.AddSession(f.ctx, session), sluice.CodeConflict)
	session.Account = read()
	must(t, s.AddSession(f.ctx, session))
	must(t, s.DropSession(f.ctx, session.Hash))
	must(t, s.DropAccount(f.ctx, a.ID, "admin"))
	wantCode(t, s.AddSession(f.ctx, session), sluice.CodeConflict) // it is gone
}

// testLastAccount: of accounts that take a role from each other at once one keeps it, and
// what else the change would have done is not done.
func testLastAccount(t *testing.T, f *fixture) {
	s := accountsOf(t, f)
	a, b := anAccount("a"), anAccount("b")
	a.Role, b.Role = "admin", "admin"
	for round := range 8 {
		must(t, s.AddAccount(f.ctx, a))
		must(t, s.AddAccount(f.ctx, b))
		var wg sync.WaitGroup
		errs := make([]error, 2)
		for i, of := range []string{a.ID, b.ID} {
			wg.Go(func() {
				if round%2 == i {
					errs[i] = s.DropAccount(f.ctx, of, "admin")
					return
				}
				errs[i] = s.ChangeAccount(f.ctx, store.AccountChange{ID: of, Role: "viewer", Password: "new", Keep: "admin"})
			})
		}
		wg.Wait()
		all, err := s.Accounts(f.ctx)
		must(t, err)
		admins := slices.DeleteFunc(all, func(x store.Account) bool { return x.Role != "admin" })
		if (errs[0] == nil) == (errs[1] == nil) || len(admins) != 1 || admins[0].Password == "new" {
			t.Errorf("round %d: the admins %+v are left, of %v", round, admins, errs)
		}
		for _, err := range errs {
			if err != nil {
				wantCode(t, err, sluice.CodeConflict)
			}
		}
		must(t, s.ChangeAccount(f.ctx, store.AccountChange{ID: "nobody", Role: "viewer", Keep: "admin"}))
		must(t, s.DropAccount(f.ctx, a.ID, ""))
		must(t, s.DropAccount(f.ctx, b.ID, ""))
		must(t, s.DropAccount(f.ctx, b.ID, "admin")) // nobody had it
	}
}

// testPasswordBesideSession: a sign-in beside a change of the password leaves no session
// of the old one.
func testPasswordBesideSession(t *testing.T, f *fixture) {
	s, a := accountsOf(t, f), anAccount("a")
	must(t, s.AddAccount(f.ctx, a))
	for round := range 20 {
		n := store.Session{Hash: fmt.Sprint("h", round), Account: a, CreatedMillis: 1, EndMillis: 4_000_000_000_123}
		a.Password = fmt.Sprint("new", round)
		var wg sync.WaitGroup
		wg.Go(func() { _ = s.AddSession(f.ctx, n) }) // refused, if it is second
		wg.Go(func() {
			if err := s.ChangeAccount(f.ctx, store.AccountChange{ID: a.ID, Password: a.Password}); err != nil {
				t.Error(err)
			}
		})
		wg.Wait()
		if _, err := s.Session(f.ctx, n.Hash); err == nil {
			t.Errorf("round %d: a session of the old password is left", round)
		}
	}
}

// testFirstAccount: of holders of links who come at once one makes the first account.
func testFirstAccount(t *testing.T, f *fixture) {
	s := accountsOf(t, f)
	const now = 1_700_000_000_000
	must(t, s.AddSetup(f.ctx, "ended", now-1))
	must(t, s.AddSetup(f.ctx, "a", now+1))
	must(t, s.AddSetup(f.ctx, "b", now+1))
	for hash, want := range map[string]bool{"ended": false, "a": true, "c": false} {
		if has, err := s.HasSetup(f.ctx, hash, now); err != nil || has != want {
			t.Errorf("the link %q holds: %t %v", hash, has, err)
		}
	}
	wantCode(t, s.AddFirstAccount(f.ctx, "ended", now, anAccount("x")), sluice.CodeForbidden)
	wantCode(t, s.AddFirstAccount(f.ctx, "c", now, anAccount("x")), sluice.CodeForbidden)
	var wg sync.WaitGroup
	errs := make([]error, 2)
	for i, hash := range []string{"a", "b"} {
		wg.Go(func() { errs[i] = s.AddFirstAccount(f.ctx, hash, now, anAccount(hash)) })
	}
	wg.Wait()
	if n, err := s.CountAccounts(f.ctx); err != nil || n != 1 || (errs[0] == nil) == (errs[1] == nil) {
		t.Errorf("%d accounts %v, of %v", n, err, errs)
	}
	must(t, s.AddSetup(f.ctx, "late", now+1))
	wantCode(t, s.AddFirstAccount(f.ctx, "late", now, anAccount("x")), sluice.CodeForbidden)
}

// testAudit: the log is read from its end, and dropped from its beginning.
func testAudit(t *testing.T, f *fixture) {
	s := accountsOf(t, f)
	var want []store.AuditEntry
	for i := range 5 {
		e := store.AuditEntry{ID: fmt.Sprintf("%08x", i), TimeMillis: 1_700_000_000_000 + int64(i), Account: "a", Name: "ann", Method: "POST", Path: "/v1/ä", Detail: `{"x":1}`}
		must(t, s.AddAudit(f.ctx, e))
		want = append(want, e)
	}
	slices.Reverse(want)
	want[0].Status, want[0].Detail, want[0].Before, want[0].After = 204, "done", `{"role":"ädmin"}`, `{"x":"`+strings.Repeat("ß", (store.MaxAuditView-8)/2)+`"}`
	must(t, s.FinishAudit(f.ctx, want[0]))
	for _, tt := range []struct {
		before string
		limit  int
		want   []store.AuditEntry
	}{{"", 10, want}, {"", 2, want[:2]}, {want[1].ID, 2, want[2:4]}} {
		if got, err := s.Audit(f.ctx, tt.before, tt.limit); err != nil || !slices.Equal(got, tt.want) {
			t.Errorf("before %q: %+v %v, want %+v", tt.before, got, err, tt.want)
		}
	}
	must(t, f.store.(store.RetentionStore).DropEnded(f.ctx, 0, want[2].ID))
	if got, err := s.Audit(f.ctx, "", 10); err != nil || !slices.Equal(got, want[:3]) {
		t.Errorf("after a drop: %+v %v", got, err)
	}
}

// fillAccounts writes a row into each table of accounts.
func (f *fixture) fillAccounts(t *testing.T) {
	t.Helper()
	s, a := accountsOf(t, f), anAccount("bøb@example.com")
	must(t, s.AddAccount(f.ctx, a))
	must(t, s.AddSession(f.ctx, store.Session{Hash: "h", Account: a, CreatedMillis: 1_700_000_000_123, EndMillis: 4_000_000_000_123}))
	must(t, s.AddSetup(f.ctx, "h", 4_000_000_000_123))
	must(t, s.AddAudit(f.ctx, store.AuditEntry{ID: "1", TimeMillis: 1_700_000_000_123, Account: a.ID, Name: a.Name, Method: "POST", Path: "/v1/ä", Status: 204, Detail: "a\n'\\", Before: "{}", After: `{"a":"\n"}`}))
}
