package flow

import (
	"strings"
	"testing"

	"sluice"
	"sluice/store"
	"sluice/store/sqlstore"
	"sluice/test/tables"
)

func newStore(t *testing.T) store.Store {
	t.Helper()
	return tables.Open(t, sqlstore.Options{})
}

func TestRedisAndDatabaseBelongTogether(t *testing.T) {
	r := dial(t)
	ours, theirs := newStore(t), newStore(t)
	identify := func(s store.Store, partitions int, replace bool, want string) {
		t.Helper()
		_, err := Identify(t.Context(), r, s, partitions, replace)
		if (err == nil) != (want == "") || (err != nil && !strings.Contains(err.Error(), want)) {
			t.Fatalf("identify: %v, want %q", err, want)
		}
	}
	identify(ours, 16, false, "")
	identify(ours, 16, false, "")
	identify(ours, 8, false, "set up for 16 partitions")
	identify(theirs, 16, false, "the database to no deployment yet")
	do(t, r, "FLUSHALL") // or another Redis on the same database
	identify(ours, 16, false, "belongs to no deployment yet")
	identify(ours, 16, true, "")
	identify(ours, 16, false, "")
	identify(theirs, 16, true, "")
	identify(ours, 16, false, "the database to deployment")
}

func TestAFirstStartThatCrashedIsFinished(t *testing.T) {
	r := dial(t)
	s := newStore(t)
	if _, _, err := r.identity(t.Context(), newDeployment(), ""); err != nil {
		t.Fatal(err)
	}
	first, err := Identify(t.Context(), r, s, 16, false)
	if err != nil {
		t.Fatal(err)
	}
	do(t, r, "HDEL", identityKey(), "settled") // it crashed a step later
	second, err := Identify(t.Context(), r, s, 16, false)
	if err != nil || second != first {
		t.Fatalf("%s after %s, %v", second, first, err)
	}
}

func TestAListOfAnotherDeploymentIsRefused(t *testing.T) {
	r := dial(t)
	l, lease := newList(t, r, Left)
	open := func(deployment string, replace bool, want string) {
		t.Helper()
		l.BelongTo(deployment, replace)
		_, err := l.Open(t.Context(), lease, sluice.Position{})
		if (err == nil) != (want == "") || (err != nil && !strings.Contains(err.Error(), want)) {
			t.Fatalf("open: %v, want %q", err, want)
		}
	}
	open("1", false, "")
	open("1", false, "")
	open("2", false, "another installation")
	open("2", true, "")
	open("1", false, "another installation")
}

// A second installation is pointed at the same list by mistake. It does not
// take the lease from the one that drains it, and says why it stands still.
func TestLeaseOfAnotherDeploymentIsLeftAlone(t *testing.T) {
	r := dial(t)
	keeper := func(deployment string, replace bool) (*Leases, *List) {
		list, err := NewList(r, "shared", Left)
		if err != nil {
			t.Fatal(err)
		}
		list.BelongTo(deployment, replace)
		l := NewLeases(r, &numbers{}, quiet())
		l.AddLists("intake", []*List{list})
		aloneForLong(l) // a process that is not among its members is dead to it
		return l, list
	}
	first, list := keeper("1", false)
	if err := first.tendAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	second, _ := keeper("2", false)
	if err := second.tendAll(t.Context()); err != nil { // the list was never opened: it belongs to no deployment
		t.Fatal(err)
	}
	if err := first.tendAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	held, _ := first.Held("intake")
	if held[0] == nil {
		if err := first.tendAll(t.Context()); err != nil {
			t.Fatal(err)
		}
		held, _ = first.Held("intake")
	}
	if _, err := list.Open(t.Context(), held[0], sluice.Position{}); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := second.tendAll(t.Context()); err == nil || !strings.Contains(err.Error(), "another installation") {
			t.Fatalf("the second looks after its leases: %v", err)
		}
		if err := first.tendAll(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if now, _ := first.Held("intake"); now[0] == nil || now[0].token != held[0].token {
		t.Error("the first has lost its lease")
	}
	if held, _ := second.Held("intake"); len(held) != 0 {
		t.Errorf("the second holds %v", held)
	}
	third, _ := keeper("3", true)
	if err := third.tendAll(t.Context()); err != nil {
		t.Fatal(err)
	}
	if held, _ := third.Held("intake"); len(held) != 1 {
		t.Error("who may take the list over does not")
	}
}
