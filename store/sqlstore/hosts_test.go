package sqlstore_test

import (
	"database/sql/driver"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"sluice/store/sqlstore"
	"sluice/test/proxy"
)

// Of several hosts the first that takes writes is used: one that is dead, and a
// replica, are passed over.
func TestSeveralHosts(t *testing.T) {
	t.Parallel()
	const dead = "@127.0.0.1:1,"
	all := map[string]string{
		"mysql":    strings.Replace(mariadb.URL(newDatabase(t)), "@", dead, 1),
		"postgres": strings.Replace(postgres.URL(newPostgresDatabase(t)), "@", dead, 1),
	}
	for name, url := range all {
		s, err := sqlstore.Open(t.Context(), url, sqlstore.Options{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if err := s.Migrate(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		_ = s.Close()
		to, err := sqlstore.TransportOf(url)
		if err != nil || len(to.Hosts) < 1 || to.Hosts[0] != "127.0.0.1" {
			t.Errorf("%s: %+v, %v", name, to, err)
		}
	}
	_, err := sqlstore.Open(t.Context(), "mysql://root:s3cret@127.0.0.1:1,127.0.0.1:2/x", sqlstore.Options{})
	if err == nil || !sqlstore.IsAway(err) || !strings.Contains(err.Error(), "no server of 2 takes writes") || strings.Contains(err.Error(), "s3cret") {
		t.Error(err)
	}
	if _, err := sqlstore.Open(t.Context(), "mysql://root@127.0.0.1:1,,b/x", sqlstore.Options{}); err == nil || !strings.Contains(err.Error(), "hosts is empty") {
		t.Error(err)
	}
}

// A server that does not answer is told of on one line, once, though the driver tries it
// with TLS and without.
func TestAnErrorOfAConnectionIsOneLine(t *testing.T) {
	t.Parallel()
	_, err := sqlstore.Open(t.Context(), "postgres://u:s3cret@127.0.0.1:1/x", sqlstore.Options{})
	if err == nil || !sqlstore.IsAway(err) || strings.ContainsAny(err.Error(), "\n\t") || strings.Count(err.Error(), "connection refused") != 1 || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("%q", err)
	}
}

// A primary that was replaced is not come back to: it may lack what was written since. A
// connection to it that was idle is used no more.
func TestReplacedPrimary(t *testing.T) {
	t.Parallel()
	for name, of := range map[string]struct{ url, addr string }{
		"mysql": {mariadb.URL(newDatabase(t)), mariadb.Addr()}, "postgres": {postgres.URL(newPostgresDatabase(t)), postgres.Addr()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			first, err := proxy.New("tcp", of.addr)
			must(t, err)
			t.Cleanup(func() { _ = first.Close() })
			connector := sqlstore.SeveralHosts(t, strings.Replace(of.url, "@", "@"+first.Addr()+",", 1))
			connect := func() driver.Conn {
				t.Helper()
				conn, err := connector.Connect(t.Context())
				must(t, err)
				t.Cleanup(func() { _ = conn.Close() })
				return conn
			}
			usable := func(conn driver.Conn) error { return conn.(driver.SessionResetter).ResetSession(t.Context()) }
			before := connect()
			if err := usable(before); err != nil || first.Connections() != 1 {
				t.Fatalf("there are %d connections to the first host, want 1 (%v)", first.Connections(), err)
			}
			first.Refuse(true)
			other := connect()
			first.Refuse(false)
			after := connect()
			if got := first.Connections(); got != 1 {
				t.Errorf("there are %d connections to the first host, want that of before alone", got)
			}
			if err := errors.Join(usable(other), usable(after)); err != nil {
				t.Error(err)
			}
			if err := usable(before); !errors.Is(err, driver.ErrBadConn) {
				t.Errorf("a connection to the first host is still used: %v", err)
			}
		})
	}
}

// A server that is stopped takes connections and says nothing. It does not keep the next one
// from being used.
func TestStoppedHost(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0") // its kernel takes connections
	must(t, err)
	t.Cleanup(func() { _ = silent.Close() })
	for name, url := range map[string]string{
		"mysql": mariadb.URL(newDatabase(t)) + "?timeout=1s", "postgres": postgres.URL(newPostgresDatabase(t)) + "&connect_timeout=2",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			again(t, func() error { // its time bounds the good host as well
				s, err := sqlstore.Open(t.Context(), strings.Replace(url, "@", "@"+silent.Addr().String()+",", 1), sqlstore.Options{})
				if err == nil {
					err = s.Close()
				}
				return err
			})
		})
	}
}

// A node that says nothing does not keep a process from coming back to one behind it.
func TestComeBackPastAStoppedHost(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = silent.Close() })
	second, err := proxy.New("tcp", mariadb.Addr())
	must(t, err)
	t.Cleanup(func() { _ = second.Close() })
	connector := sqlstore.SeveralHosts(t, strings.Replace(mariadb.URL(newDatabase(t)), "@", "@"+silent.Addr().String()+","+second.Addr()+",", 1)+"?timeout=2s")
	sqlstore.TakeForGalera(connector)
	connect := func() {
		t.Helper()
		again(t, func() error { // its time bounds the good hosts as well
			conn, err := connector.Connect(t.Context())
			if err == nil {
				t.Cleanup(func() { _ = conn.Close() })
			}
			return err
		})
	}
	second.Refuse(true)
	connect()
	if second.Connections() != 0 {
		t.Fatal("the first connection is not to the third host: this test shows nothing")
	}
	second.Refuse(false)
	for limit := time.Now().Add(time.Minute); second.Connections() == 0 && time.Now().Before(limit); {
		connect()
	}
	if second.Connections() == 0 {
		t.Error("the second host, which is well again, is not come back to")
	}
}
