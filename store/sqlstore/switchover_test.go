package sqlstore_test

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"sluice"
	"sluice/mail"
	"sluice/store/sqlstore"
	"sluice/test/servers"
	"sluice/user"
)

// pair is a primary and its replica, which are switched over in order. Their user may not
// write where read_only is set.
type pair struct {
	servers [2]*servers.MariaDB
	past    [2]*sql.DB
	url     string
}

func startPair(t *testing.T) *pair {
	t.Helper()
	p := &pair{}
	for i := range p.servers {
		var err error
		options := servers.MariaDBOptions{Dir: filepath.Join(t.TempDir(), fmt.Sprint("server", i)), Extra: append(servers.ReplicaArguments(i+1), "--loose-debug-no-sync")}
		p.servers[i], err = servers.StartMariaDB(t.Context(), options)
		must(t, err)
		t.Cleanup(func() { _ = p.servers[i].Kill() })
		p.past[i] = bypass(t, "mysql", p.servers[i].DSN(""))
	}
	must(t, p.servers[1].Follow(t.Context(), p.servers[0], p.servers[0].Addr()))
	for _, statement := range []string{"CREATE DATABASE app", "CREATE USER app@'%' IDENTIFIED BY 's3cret'", "GRANT ALL ON app.* TO app@'%'"} {
		exec(t, p.past[0], statement)
	}
	p.url = "mysql://app:s3cret@" + p.servers[0].Addr() + "," + p.servers[1].Addr() + "/app"
	p.await(t)
	return p
}

// await returns when the replica has all that the primary has.
func (p *pair) await(t *testing.T) {
	t.Helper()
	has := queryTexts(t, p.past[0], "SELECT @@GLOBAL.gtid_binlog_pos")[0][0]
	if got := queryTexts(t, p.past[1], "SELECT MASTER_GTID_WAIT('"+has+"', 60)")[0][0]; got != "0" {
		t.Fatalf("the replica does not reach %s", has)
	}
}

// switchOver has the replica take the primary's place. The primary stays alive, and can be
// read.
func (p *pair) switchOver(t *testing.T) {
	t.Helper()
	exec(t, p.past[0], "SET GLOBAL read_only = 1")
	p.await(t)
	must(t, p.servers[1].Promote(t.Context()))
}

// Behind a planned switchover nothing is read from the old primary: neither by the process
// that has written to the new one, nor by one that has only read.
func TestPlannedSwitchover(t *testing.T) {
	t.Parallel()
	p := startPair(t)
	storing := migrated(t, p.url, sqlstore.Options{})
	sending := open(t, p.url, sqlstore.Options{})
	_, err := storing.Suppress(t.Context(), []mail.Suppression{{Entry: "a@example.com", Reason: mail.SuppressManual, TimeMillis: 1}})
	must(t, err)
	last := func(s *sqlstore.Store) int64 {
		t.Helper()
		a, err := s.Users(t.Context(), user.Query{Numbers: []int{0}})
		must(t, err)
		return a.Numbers[0].User
	}
	// twice reads by two connections at once.
	twice := func(s *sqlstore.Store) (inner, outer int64) {
		t.Helper()
		must(t, s.SuppressionChanges(t.Context(), 0, 1, func(*mail.Suppression) { inner = last(s) }))
		return inner, last(s)
	}
	twice(storing)
	twice(sending)
	p.switchOver(t)

	id, message := user.ID{Number: 1}, sluice.NewMessageID(time.Now().UnixMilli())
	first := effectTo(1, nil)
	first.Users = &user.Changes{Put: []user.Row{{ID: id, Profile: `{"custom":{"a":1}}`}}, Numbers: map[int]user.Numbers{0: {User: 1}}}
	again(t, func() error { return apply(t.Context(), storing, first) })
	must(t, storing.AddBodies(t.Context(), []mail.Body{{Message: message, Recipients: 1, CreatedMillis: 1, Data: []byte("content")}}))
	bodies, err := sending.Bodies(t.Context(), []string{message}, 0)
	if err != nil || string(bodies[message]) != "content" {
		t.Errorf("a process that only reads does not find the content of a mail: it would fail that (%v)", err)
	}

	exec(t, p.past[0], "SET GLOBAL read_only = 0") // by mistake
	if inner, outer := twice(storing); inner != 1 || outer != 1 {
		t.Errorf("the process that has given the number 1 reads %d and %d as the last one: it would give it again", inner, outer)
	}
	found, err := storing.Users(t.Context(), user.Query{IDs: []user.ID{id}})
	if err != nil || found.Users[id].Profile == "" {
		t.Errorf("the user it has just written is not found: %v", err)
	}
}

// again tries a transaction as a follower does after an error of the connection.
func again(t *testing.T, do func() error) {
	t.Helper()
	for began := time.Now(); ; <-time.After(20 * time.Millisecond) {
		err := do()
		if err == nil {
			return
		}
		if !sqlstore.IsAway(err) || time.Since(began) > 3*time.Minute {
			t.Fatal(err)
		}
	}
}
