package engine_test

import (
	"context"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"sluice/api"
	"sluice/config"
	"sluice/engine"
	"sluice/test/proxy"
	"sluice/test/servers"
)

// openBesideHung is an engine with a list "healthy" on its main Redis, and "hung" on one
// that takes what it is asked and does not answer any more.
func openBesideHung(t *testing.T) *engine.Engine {
	t.Helper()
	var urls []string
	for _, name := range []string{"main", "other"} {
		redis, err := servers.StartRedis(t.Context(), servers.RedisOptions{Dir: filepath.Join(t.TempDir(), name), AppendFsync: "everysec"})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = redis.Stop(context.Background()) })
		urls = append(urls, redis.URL())
	}
	u, err := url.Parse(urls[1])
	if err != nil {
		t.Fatal(err)
	}
	network, target := "tcp", u.Host
	if u.Scheme == "unix" {
		network, target = "unix", u.Path
	}
	way, err := proxy.New(network, target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = way.Close() })
	other := "redis://" + way.Addr()
	e := open(t, urls[0], "sqlite:"+filepath.Join(t.TempDir(), "sluice.db"), 2, func(c *config.Config) {
		c.Lists = []config.List{{Name: "hung", Take: config.TakeLeft, Redis: config.URL(other)}, {Name: "healthy", Take: config.TakeLeft}}
	})
	await(t, "both lists are drained, and all servers answer", func() bool { return e.Stats().Leases["intake"] == 2 && e.Ready() == nil })
	way.Stall()
	t.Cleanup(way.Resume)
	return e
}

// TestAHungListHidesNoOther: of lists on other servers it is known how much they hold.
func TestAHungListHidesNoOther(t *testing.T) {
	e := openBesideHung(t)
	lists := make(map[string]api.List)
	defer func() { t.Logf("%+v", lists) }()
	// A look has a second: it may take some until a connection that hangs is given up.
	await(t, "the other list is known while one hangs", func() bool {
		clear(lists)
		for _, l := range e.Stats().Lists {
			lists[l.Name] = l
		}
		hung, healthy := lists["hung"], lists["healthy"]
		return hung.Waiting == -1 && hung.Held == -1 && healthy.Waiting == 0 && healthy.Held == 0
	})
}

// TestAHungListSaysNothingOfTheDatabase: readiness names the server that does not answer.
func TestAHungListSaysNothingOfTheDatabase(t *testing.T) {
	e := openBesideHung(t)
	var err error
	defer func() { t.Log(err) }()
	await(t, "the Redis that hangs is named alone", func() bool {
		err = e.Ready()
		return err != nil && strings.Contains(err.Error(), "redis: ") && !strings.Contains(err.Error(), "database: ")
	})
}
