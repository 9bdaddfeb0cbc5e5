package account

import (
	"context"
	"testing"

	"sluice"
	"sluice/lib/key"
	"sluice/store"
)

// Who is signed in gets a new password for the old one. Sessions of before end, in other
// browsers and in other processes too; wrong old passwords count as those of a sign-in.
func TestChangeOwn(t *testing.T) {
	const next = "correct horse battery two"
	s, clock := open(t)
	other := New(s.Store, clock) // another process
	here1, bob, err := s.SignIn(t.Context(), "bob@example.com", password, here)
	if err != nil {
		t.Fatal(err)
	}
	there, _, err := s.SignIn(t.Context(), "bob@example.com", password, here)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		old, new string
		want     sluice.Code
	}{
		{"wrong horse battery", next, sluice.CodeForbidden}, {"", next, sluice.CodeForbidden}, {password, "short", sluice.CodeInvalid},
	} {
		if _, _, err := s.ChangeOwn(t.Context(), bob, tt.old, tt.new, here); code(err) != tt.want {
			t.Errorf("%q to %q: %v", tt.old, tt.new, err)
		}
	}
	renewed, a, err := s.ChangeOwn(t.Context(), bob, password, next, here)
	if err != nil || a.ID != bob.ID {
		t.Fatalf("%+v %v", a, err)
	}
	clock.Move(believeFor)
	for _, of := range []*Service{s, other} {
		if who, _, err := of.Session(t.Context(), renewed); err != nil || !who.May(key.SendingWrite) {
			t.Errorf("the new session: %+v %v", who, err)
		}
		for _, ended := range []string{here1, there} {
			if _, _, err := of.Session(t.Context(), ended); code(err) != sluice.CodeUnauthorized {
				t.Errorf("a session of the old password: %v", err)
			}
		}
	}
	if _, _, err := s.SignIn(t.Context(), "bob@example.com", password, here); code(err) != sluice.CodeForbidden {
		t.Errorf("the old password: %v", err)
	}
	if _, _, err := s.SignIn(t.Context(), "bob@example.com", next, here); err != nil {
		t.Errorf("the new password: %v", err)
	}
	for range triesOfBoth {
		_, _, err = s.ChangeOwn(t.Context(), bob, "wrong horse battery", next, here)
	}
	if _, _, again := s.ChangeOwn(t.Context(), bob, next, password, here); code(err) != sluice.CodeForbidden || code(again) != sluice.CodeTooFast {
		t.Errorf("guesses of the old password: %v, then %v", err, again)
	}
	gone := bob
	gone.ID = "another account of this name"
	clock.Move(throttleWindow)
	if _, _, err := s.ChangeOwn(t.Context(), gone, next, password, here); code(err) != sluice.CodeForbidden {
		t.Errorf("an account that took the name: %v", err)
	}
}

// meanwhile does something before an account is changed.
type meanwhile struct {
	store.AccountStore
	do func()
}

func (b meanwhile) ChangeAccount(ctx context.Context, c store.AccountChange) error {
	b.do()
	return b.AccountStore.ChangeAccount(ctx, c)
}

// A password that an admin sets while a change by the old one is under way stays: who has the
// old one may be the reason. The same goes for sessions that are ended meanwhile.
func TestChangeOwnBesideAnAdmin(t *testing.T) {
	const given, taken = "given by the admin", "taken by a stranger"
	s, clock := open(t)
	_, bob, err := s.SignIn(t.Context(), "bob@example.com", password, here)
	if err != nil {
		t.Fatal(err)
	}
	admin := New(s.Store, clock)
	stranger := New(meanwhile{s.Store, func() {
		if err := admin.EndSessions(t.Context(), bob.ID); err != nil {
			t.Error(err)
		}
	}}, clock)
	if session, _, err := stranger.ChangeOwn(t.Context(), bob, password, taken, here); code(err) != sluice.CodeForbidden || session != "" {
		t.Errorf("while the sessions were ended: %q %v", session, err)
	}
	stranger = New(meanwhile{s.Store, func() {
		if err := admin.Reset(t.Context(), bob.ID, given); err != nil {
			t.Error(err)
		}
	}}, clock)
	if session, _, err := stranger.ChangeOwn(t.Context(), bob, password, taken, here); code(err) != sluice.CodeForbidden || session != "" {
		t.Errorf("while an admin gave a password: %q %v", session, err)
	}
	if _, _, err := s.SignIn(t.Context(), "bob@example.com", given, here); err != nil {
		t.Errorf("the admin's password: %v", err)
	}
}
