package engine_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"sluice/config"
	"sluice/test/proxy"
)

// TestWhoIsCutOffFromTheDatabaseHoldsNothingThatNeedsIt: of two processes one does not
// reach the database. The other gets all that it held, also what one process alone does,
// such as to release what was scheduled: it would stand still for the whole deployment.
func TestWhoIsCutOffFromTheDatabaseHoldsNothingThatNeedsIt(t *testing.T) {
	redis, database := sharedServers(t)
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	way, err := proxy.New("tcp", u.Host)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = way.Close() })
	const partitions = 4
	list := func(cfg *config.Config) { cfg.Lists = []config.List{{Name: "clicks", Take: config.TakeLeft}} }
	// The first is alone at its start, so it holds what has one place.
	apart := open(t, redis, strings.Replace(database, u.Host, way.Addr(), 1), partitions, list)
	alone := []string{"schedule", "webhook", "keep", "pausing", "intake"}
	await(t, "the first holds what one process does", func() bool {
		held := apart.Stats().Leases
		for _, role := range alone {
			if held[role] != 1 {
				return false
			}
		}
		return true
	})
	other := open(t, redis, database, partitions, list)
	await(t, "both store and move people", func() bool {
		return other.Stats().Leases["store"] == partitions/2 && other.Stats().Leases["journey"] == partitions/2
	})
	way.Stall()
	t.Cleanup(way.Resume)
	await(t, "the other holds all that needs the database", func() bool {
		held := other.Stats().Leases
		for _, role := range []string{"store", "send", "journey"} {
			if held[role] != partitions {
				return false
			}
		}
		for _, role := range alone {
			if held[role] != 1 {
				return false
			}
		}
		return true
	})
}

// TestADatabaseThatHangsIsTold: a database takes what it is asked and does not answer. People
// are told of that meanwhile.
func TestADatabaseThatHangsIsTold(t *testing.T) {
	redis, database := sharedServers(t)
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	way, err := proxy.New("tcp", u.Host)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = way.Close() })
	var told atomic.Bool
	operators := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) {
		body, _ := io.ReadAll(io.LimitReader(q.Body, 1<<20))
		told.CompareAndSwap(false, bytes.Contains(body, []byte(`"alert":"follower","subject":"alerts","status":"firing"`)))
	}))
	t.Cleanup(operators.Close)
	e := open(t, redis, strings.Replace(database, u.Host, way.Addr(), 1), 4, func(cfg *config.Config) {
		cfg.Alerts.Webhook, cfg.Alerts.HoldSeconds = config.Secret(operators.URL), 0
	})
	await(t, "it tells", func() bool { return e.Stats().Leases["alert"] == 1 })
	way.Stall()
	t.Cleanup(way.Resume)
	await(t, "people are told that the database does not answer", told.Load)
}
