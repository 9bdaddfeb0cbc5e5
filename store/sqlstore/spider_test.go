package sqlstore_test

import (
	"bufio"
	"database/sql"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice/store"
	"sluice/store/sqlstore"
	"sluice/test/proxy"
	"sluice/test/servers"
)

const (
	spiderFiles  = "../../deploy/mariadb/"
	spiderTables = 7
)

// sharded is a store whose events are on two servers behind a head, as docs/scale.md has it.
type sharded struct {
	*servers.Spider
	head   *sql.DB
	shards []*sql.DB
	url    string
	way    *proxy.Proxy // from the head to the second shard
}

func startSharded(t *testing.T) *sharded {
	t.Helper()
	server, err := servers.StartSpider(t.Context(), t.TempDir(), settingsOf(t, "spider.cnf"), 2)
	must(t, err)
	t.Cleanup(func() { _ = server.Close() })
	s := &sharded{Spider: server, url: server.Head.URL("sluice")}
	s.way, err = proxy.New("tcp", server.ShardAddr(1))
	must(t, err)
	t.Cleanup(func() { _ = s.way.Close() })
	must(t, server.Head.CreateDatabase(t.Context(), "sluice"))
	s.head = bypass(t, "mysql", server.Head.DSN("sluice")+"?multiStatements=true")
	for i, m := range server.Shards {
		s.shards = append(s.shards, bypass(t, "mysql", m.DSN("")+"?multiStatements=true"))
		exec(t, s.shards[i], s.file(t, "spider-shard.sql"))
	}
	first := open(t, s.url, sqlstore.Options{})
	must(t, first.Migrate(t.Context()))
	exec(t, s.head, s.file(t, "spider.sql"))
	s.wantColumns(t)
	return s
}

// wantColumns checks that the files have the columns that migrations make.
func (s *sharded) wantColumns(t *testing.T) {
	t.Helper()
	columns := func(db *sql.DB, table string) string {
		return fmt.Sprint(queryTexts(t, db, "SELECT COLUMN_NAME, COLUMN_TYPE, IS_NULLABLE, COLLATION_NAME, COLUMN_KEY FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = 'sluice' AND TABLE_NAME = '"+table+"' ORDER BY ORDINAL_POSITION"))
	}
	want := columns(s.head, "events_local")
	if got := columns(s.head, "events"); got != want {
		t.Errorf("the head's table has %s, migrations make %s", got, want)
	}
	for _, db := range s.shards {
		if got := columns(db, fmt.Sprint("events_", spiderTables-1)); got != want {
			t.Errorf("a shard's table has %s, migrations make %s", got, want)
		}
	}
}

// settingsOf returns the settings of a file as arguments.
func settingsOf(t *testing.T, name string) (arguments []string) {
	t.Helper()
	f, err := os.Open(filepath.Join(spiderFiles, name))
	must(t, err)
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if key, value, ok := strings.Cut(lines.Text(), "="); ok && !strings.HasPrefix(key, "#") {
			arguments = append(arguments, "--"+strings.TrimSpace(key)+"="+strings.TrimSpace(value))
		}
	}
	return arguments
}

// file returns a file of statements with the addresses of the test.
func (s *sharded) file(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(spiderFiles, name))
	must(t, err)
	replace := []string{"spider@'10.0.0.%'", "spider@'%'"}
	for i, address := range []string{s.ShardAddr(0), s.way.Addr()} {
		host, port, err := net.SplitHostPort(address)
		must(t, err)
		replace = append(replace, fmt.Sprintf("HOST '10.0.0.1%d', PORT 3306", i+1), fmt.Sprintf("HOST '%s', PORT %s", host, port))
	}
	return strings.NewReplacer(replace...).Replace(string(text))
}

// at counts the events at a shard.
func (s *sharded) at(t *testing.T, shard int) (n int) {
	t.Helper()
	for table := range spiderTables {
		var rows int
		must(t, s.shards[shard].QueryRowContext(t.Context(), fmt.Sprintf("SELECT COUNT(*) FROM sluice.events_%d", table)).Scan(&rows))
		n += rows
	}
	return n
}

// settle ends what a kill left prepared at a shard, as docs/scale.md says: in the way that
// the head has decided.
func (s *sharded) settle(t *testing.T, shard int) (ended []string) {
	t.Helper()
	for _, row := range queryTexts(t, s.shards[shard], "XA RECOVER FORMAT='SQL'") {
		xid, verb := row[3], "ROLLBACK"
		known := queryTexts(t, s.head, "SELECT status FROM mysql.spider_xa WHERE LEFT(data, gtrid_length) = '"+strings.Split(xid, "'")[1]+"'")
		if len(known) > 0 && known[0][0] == "COMMIT" {
			verb = "COMMIT"
		}
		exec(t, s.shards[shard], "XA "+verb+" "+xid)
		ended = append(ended, verb)
	}
	return ended
}

// spiderEvents have ids of the form of UUIDs.
func spiderEvents(batch, n int) []store.StoredEvent {
	list := events(n)
	for i := range list {
		list[i].ID = fmt.Sprintf("%08d-%04d-4abc-8abc-%012d", batch, i, i*i)
	}
	return list
}

// Events lie on two servers. One is killed before it has prepared its part of a
// transaction, when it has, and before it is told to commit.
func TestSpider(t *testing.T) {
	t.Parallel()
	s := startSharded(t)
	st := open(t, s.url, served)
	_, err := st.Cursors(t.Context(), "store", []int{0})
	must(t, err)
	const batch = 200
	first := spiderEvents(0, batch)
	if applied := storeEvents(t, st, first); applied.Rows != batch {
		t.Errorf("%+v", applied)
	}
	if applied := storeEvents(t, st, first); applied.Duplicates != batch {
		t.Errorf("a repeat: %+v", applied)
	}
	s.kill(t, st, spiderEvents(1, batch), 3, proxy.Rule{Pattern: []byte("xa prepare "), Stall: true}, "")
	s.want(t, 2*batch)
	s.kill(t, st, spiderEvents(2, batch), 4, proxy.Rule{Pattern: []byte("xa prepare "), Moment: proxy.After, Stall: true}, "ROLLBACK")
	s.want(t, 3*batch)
	s.kill(t, st, spiderEvents(3, batch), 5, proxy.Rule{Pattern: []byte("xa commit "), Stall: true}, "COMMIT")
	s.want(t, 4*batch)
	deleted, _, err := st.DeleteEvents(t.Context(), first[0].Kind, first[0].TimeMillis, first[batch-1].TimeMillis+1)
	if err != nil || deleted != 4*batch || s.at(t, 0)+s.at(t, 1) != 0 {
		t.Errorf("%d of %d events were deleted, %v", deleted, 4*batch, err)
	}
}

// kill kills the second shard at a point of the transaction that moves the cursor, and has
// the store repeat that until it has moved. ends is what becomes of what it had prepared.
func (s *sharded) kill(t *testing.T, st *sqlstore.Store, list []store.StoredEvent, to uint64, rule proxy.Rule, ends string) {
	t.Helper()
	armed, err := s.way.Arm(rule)
	must(t, err)
	done := make(chan error, 1)
	go func() { done <- apply(t.Context(), st, effectTo(to, list)) }()
	select {
	case <-armed.Fired():
	case err := <-done:
		t.Fatalf("the transaction came to its end before %q: %v", rule.Pattern, err)
	}
	for ends != "" && len(queryTexts(t, s.shards[1], "XA RECOVER")) == 0 {
		<-time.After(5 * time.Millisecond)
	}
	must(t, s.Shards[1].Kill())
	s.way.Cut()
	s.way.Resume()
	t.Logf("killed at %q: %v", rule.Pattern, <-done)
	must(t, s.Shards[1].Restart(t.Context()))
	if got := strings.Join(s.settle(t, 1), " "); got != ends {
		t.Errorf("killed at %q: the shard has %q to do, want %q", rule.Pattern, got, ends)
	}
	for began := time.Now(); ; <-time.After(20 * time.Millisecond) {
		cursors, err := st.Cursors(t.Context(), "store", []int{0})
		if err == nil && cursors[0].Major == to {
			return
		}
		if err = apply(t.Context(), st, effectTo(to, list)); time.Since(began) > 3*time.Minute {
			t.Fatalf("killed at %q: %v", rule.Pattern, err)
		}
	}
}

// want checks how many events are at both shards.
func (s *sharded) want(t *testing.T, events int) {
	t.Helper()
	if one, two := s.at(t, 0), s.at(t, 1); one == 0 || two == 0 || one+two != events {
		t.Errorf("%d and %d events are on the servers, want %d together", one, two, events)
	}
}
