package ingest_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice"
	"sluice/flow"
	"sluice/test/servers"
)

// forwarded puts a row on its way from partition 1 to another.
func (b *bed) forwarded(id, to int) {
	b.Helper()
	items := sluice.AppendEvent(nil, &sluice.Event{Kind: sluice.KindCustom, TimeMillis: 1700000000000, Name: "forwarded"})
	_, err := b.db.ExecContext(b.Context(), "INSERT INTO forwards (part, id, to_part, items) VALUES (1, ?, ?, ?)", id, to, items)
	b.must(err)
}

// Where replicas are waited for, what is forwarded stays in the database until they have
// it, and arrives once.
func TestAForwardStaysUntilReplicasHaveIt(t *testing.T) {
	b := newBed(t, "sqlite")
	var pair [2]*servers.Redis // a master and its replica
	for i, name := range []string{"master", "replica"} {
		options := servers.RedisOptions{Dir: filepath.Join(t.TempDir(), name), Listen: "tcp", Extra: []string{"--repl-diskless-sync-delay", "0"}}
		if i > 0 {
			_, port, _ := strings.Cut(pair[0].Addr(), ":")
			options.Extra = append(options.Extra, "--replicaof", "127.0.0.1 "+port)
		}
		one, err := servers.StartRedis(t.Context(), options)
		b.must(err)
		t.Cleanup(func() { _ = one.Kill() })
		pair[i] = one
	}
	master, err := flow.Dial(b.Context(), pair[0].URL())
	b.must(err)
	t.Cleanup(master.Close)
	b.eventually("the replica follows", func() bool {
		info, err := master.Info(b.Context(), "replication")
		return err == nil && strings.Contains(info["slave0"], "state=online")
	})
	b.must(pair[1].Pause())
	b.forwarded(1, 0)
	e := start(b, setup{redis: pair[0].URL(), replicas: flow.Replicas{Least: 1, Within: 100 * time.Millisecond}})
	b.awaitSum("events", 1)
	b.eventually("the replica has been waited for", func() bool {
		return strings.Contains(e.log.String(), "too few replicas") || b.count("forwards") == 0
	})
	if b.count("forwards") != 1 {
		t.Error("what no replica has is forgotten")
	}
	b.must(pair[1].Continue())
	b.eventually("it is forgotten when the replica has it", func() bool { return b.count("forwards") == 0 })
	b.forwarded(2, 0)
	e.stop()
	e = start(b, setup{redis: pair[0].URL(), replicas: flow.Replicas{Least: 1, Within: 10 * time.Second}})
	b.awaitSum("events", 2)
	b.eventually("nothing is on its way", func() bool { return b.count("forwards") == 0 })
	e.stop()
	b.checkCounts("events", 2, 0)
}
