package sqlstore_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"sluice"
	"sluice/lib/doctor"
	"sluice/mail"
	"sluice/store"
	"sluice/store/sqlstore"
	"sluice/test/servers"
)

// Processes on two nodes of a Galera cluster migrate one after the other, a write
// that meets one of another node is repeated, and a process goes on with another
// node when its own is killed.
func TestGalera(t *testing.T) {
	t.Parallel()
	g, err := servers.StartGalera(t.Context(), t.TempDir(), 3)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.Close() })
	must(t, g.Nodes[0].CreateDatabase(t.Context(), "sluice"))
	open := func(url string) *sqlstore.Store {
		s, err := sqlstore.Open(t.Context(), url, calm)
		must(t, err)
		t.Cleanup(func() { _ = s.Close() })
		return s
	}
	one, other := open(g.Nodes[0].URL("sluice")), open(g.Nodes[1].URL("sluice"))
	var both sync.WaitGroup
	for _, s := range []*sqlstore.Store{one, other} {
		both.Go(func() {
			if err := s.Migrate(t.Context()); err != nil {
				t.Errorf("migrate on two nodes at once: %v", err)
			}
		})
	}
	both.Wait()
	collide(t, one, other)
	seeEachOther(t, one, other)
	signInBeside(t, one, other, open(g.Nodes[2].URL("sluice")))
	must(t, other.Close())
	wantHosts(t, "all nodes", g.URL("sluice"), doctor.SeverityOK)
	moving := open(g.URL("sluice"))
	moveOn(t, g, moving)
	wantHosts(t, "two of three nodes", g.URL("sluice"), doctor.SeverityWarning)
	comeBack(t, g, moving)
	leaveAlone(t, g)
}

// collide has two nodes change one row again and again.
func collide(t *testing.T, nodes ...*sqlstore.Store) {
	t.Helper()
	const times = 20
	var all sync.WaitGroup
	for _, s := range nodes {
		all.Go(func() {
			for range times {
				if _, err := s.TakeLease(t.Context(), "role", []int{1}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	numbers, err := nodes[0].TakeLease(t.Context(), "role", []int{1})
	must(t, err)
	if got := numbers[1]; got != uint64(times*len(nodes)+1) {
		t.Errorf("%d leases were numbered, want %d", got, times*len(nodes)+1)
	}
}

// seeEachOther has a node asked for what another one has just stored. It is large, so that
// applying it takes a moment.
func seeEachOther(t *testing.T, nodes ...*sqlstore.Store) {
	t.Helper()
	const times, bytes = 40, 1 << 20
	for n := range times {
		id := sluice.NewMessageID(time.Now().UnixMilli())
		must(t, nodes[n%2].AddBodies(t.Context(), []mail.Body{{Message: id, Recipients: 1, CreatedMillis: time.Now().UnixMilli(), Data: make([]byte, bytes)}}))
		found, err := nodes[1-n%2].Bodies(t.Context(), []string{id}, 2*bytes)
		if err != nil || len(found[id]) != bytes {
			t.Fatalf("content %d is not found at the other node (%v): its mail would fail", n, err)
		}
	}
}

// signInBeside has people sign in at one node while two others change their password: no
// session of a password that was changed is left.
func signInBeside(t *testing.T, nodes ...*sqlstore.Store) {
	t.Helper()
	const rounds, signIns = 40, 4
	now := time.Now().UnixMilli()
	for round := range rounds {
		a := store.Account{ID: fmt.Sprint("a", round), Name: fmt.Sprint("ann", round), Role: "viewer", Password: "old", CreatedMillis: now, UpdatedMillis: now}
		must(t, nodes[0].AddAccount(t.Context(), a))
		if _, err := nodes[2].Account(t.Context(), a.Name); err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		for n, s := range nodes[:2] {
			all.Go(func() {
				if err := s.ChangeAccount(t.Context(), store.AccountChange{ID: a.ID, Password: fmt.Sprint("new", n)}); err != nil {
					t.Error(err)
				}
			})
		}
		for n := range signIns {
			all.Go(func() {
				for range 5 { // with the password that the account has there
					is, err := nodes[2].Account(t.Context(), a.Name)
					if err == nil {
						_ = nodes[2].AddSession(t.Context(), store.Session{Hash: fmt.Sprint(round, " ", n, " ", is.Password), Account: is, CreatedMillis: now, EndMillis: now + 1_000_000})
					}
				}
			})
		}
		all.Wait()
		is, err := nodes[0].Account(t.Context(), a.Name)
		must(t, err)
		for n := range signIns {
			for _, password := range []string{"old", "new0", "new1"} {
				if _, err := nodes[0].Session(t.Context(), fmt.Sprint(round, " ", n, " ", password)); err == nil && password != is.Password {
					t.Errorf("round %d: a session of the password %s is left, it is %s", round, password, is.Password)
				}
			}
		}
	}
}

// moveOn kills the node that a process is connected to.
func moveOn(t *testing.T, g *servers.Galera, s *sqlstore.Store) {
	t.Helper()
	at := func() uint64 {
		cursors, err := s.Cursors(t.Context(), "store", []int{0})
		if err != nil {
			return 0
		}
		return cursors[0].Major
	}
	at() // makes the row
	must(t, apply(t.Context(), s, effectTo(1, events(100))))
	must(t, g.Nodes[0].Kill())
	began := time.Now()
	for at() != 2 { // as a follower does after every error
		err := apply(t.Context(), s, effectTo(2, events(100)))
		if time.Since(began) > 3*time.Minute {
			t.Fatal(err)
		}
		<-time.After(20 * time.Millisecond)
	}
	t.Logf("written by another node after %s", time.Since(began).Round(10*time.Millisecond))
}

// comeBack starts the first node again: all connections of a process leave the second.
func comeBack(t *testing.T, g *servers.Galera, s *sqlstore.Store) {
	t.Helper()
	must(t, g.Rejoin(t.Context(), 0))
	var sessions [2]func() int
	for i := range sessions {
		db, err := sql.Open("mysql", g.Nodes[i].DSN("sluice"))
		must(t, err)
		t.Cleanup(func() { _ = db.Close() })
		db.SetMaxOpenConns(1)
		sessions[i] = func() (n int) {
			must(t, db.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM information_schema.processlist WHERE db = 'sluice' AND id <> CONNECTION_ID()").Scan(&n))
			return n
		}
	}
	if sessions[1]() == 0 {
		t.Fatal("the process is not at the second node: this test shows nothing")
	}
	began := time.Now()
	for sessions[1]() > 0 || sessions[0]() == 0 {
		if time.Since(began) > 3*time.Minute {
			t.Fatalf("there are %d sessions at the first node, which is well again, and %d at the second", sessions[0](), sessions[1]())
		}
		again(t, func() error {
			cursors, err := s.Cursors(t.Context(), "store", []int{0}) // an attempt that failed may have moved it
			if err != nil {
				return err
			}
			return apply(t.Context(), s, effectTo(cursors[0].Major+1, events(1)))
		})
		again(t, func() error { _, err := s.TakeLease(t.Context(), "role", []int{1}); return err })
		<-time.After(50 * time.Millisecond)
	}
	t.Logf("all connections are back after %s", time.Since(began).Round(10*time.Millisecond))
}

// leaveAlone kills two nodes: the third one says why it serves nothing.
func leaveAlone(t *testing.T, g *servers.Galera) {
	t.Helper()
	must(t, errors.Join(g.Nodes[0].Kill(), g.Nodes[1].Kill()))
	for began := time.Now(); ; <-time.After(50 * time.Millisecond) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		s, err := sqlstore.Open(ctx, g.URL("sluice"), sqlstore.Options{})
		cancel()
		if err == nil {
			_ = s.Close()
		} else if strings.Contains(err.Error(), "Galera node serves nothing") && sqlstore.IsAway(err) {
			break
		}
		if time.Since(began) > 3*time.Minute {
			t.Fatalf("a node without the others says %v", err)
		}
	}
	// One that the others have excluded is not connected to them at all.
	db, err := sql.Open("mysql", g.Nodes[2].DSN(""))
	must(t, err)
	defer db.Close()
	_, err = db.ExecContext(t.Context(), "SET GLOBAL wsrep_cluster_address = 'gcomm://127.0.0.1:1'")
	must(t, err)
	_, err = sqlstore.Open(t.Context(), g.Nodes[2].URL("sluice"), sqlstore.Options{})
	if err == nil || !strings.Contains(err.Error(), "Galera node serves nothing") || !sqlstore.IsAway(err) {
		t.Errorf("a node that was excluded, as the only host, says %v", err)
	}
}
