package sqlstore_test

import (
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

// A primary that was replaced is not come back to: it may lack what was written since.
func TestReplacedPrimary(t *testing.T) {
	t.Parallel()
	name := newDatabase(t)
	first, err := proxy.New("tcp", mariadb.Addr())
	must(t, err)
	t.Cleanup(func() { _ = first.Close() })
	connector := sqlstore.SeveralHosts(t, strings.Replace(mariadb.URL(name), "@", "@"+first.Addr()+",", 1))
	for _, step := range []struct {
		refuse bool
		want   int
	}{{false, 1}, {true, 0}, {false, 0}} {
		first.Refuse(step.refuse)
		conn, err := connector.Connect(t.Context())
		must(t, err)
		if got := first.Connections(); got != step.want {
			t.Errorf("refused %v: there are %d connections to the first host, want %d", step.refuse, got, step.want)
		}
		must(t, conn.Close())
		for first.Cut() > 0 {
			<-time.After(time.Millisecond)
		}
	}
}
