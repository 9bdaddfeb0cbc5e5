package transfer

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice"
	"sluice/flow"
	"sluice/store/sqlstore"
	"sluice/test/clocktest"
	"sluice/test/servers"
	"sluice/test/tables"
)

// The logs are copied, and what holds their trim is kept up, while lists are copied: that may
// take longer than a hold lives.
func TestBackupHoldsTheTrimWhileListsAreCopied(t *testing.T) {
	server, err := servers.StartRedis(t.Context(), servers.RedisOptions{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Kill() })
	redis, err := flow.Dial(t.Context(), server.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(redis.Close)
	db := tables.Open(t, sqlstore.Options{})
	if _, err := flow.Identify(t.Context(), redis, db, 1, false); err != nil {
		t.Fatal(err)
	}
	event := sluice.Event{Kind: sluice.KindCustom, ID: "e", Name: "n", TimeMillis: time.Now().UnixMilli()}
	entry, err := flow.NewLog(redis, flow.Partitions(1)[0]).Append(t.Context(), "api:x", "", "1", sluice.AppendEvent(sluice.NewBatch(0), &event), false)
	if err != nil {
		t.Fatal(err)
	}
	list, err := flow.NewList(redis, "q", flow.Left)
	if err != nil {
		t.Fatal(err)
	}
	hold := func() string {
		t.Helper()
		at, err := flow.Ask(t.Context(), redis, "look at the hold", redis.B().Arbitrary("EVAL",
			"local key = redis.call('KEYS', 'sluice:*:hold')[1] return key and redis.call('GET', key)", "0").Build(), flow.Text)
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	reached := false
	b := &Backup{Database: db, Redis: redis, Lists: []*flow.List{list}, Clock: sluice.SystemClock{}, Program: "test", Progress: func(what string) {
		if !strings.HasPrefix(what, "list q: ") {
			return
		}
		for began := time.Now(); hold() != entry.Position.String(); clocktest.Rest(began) {
			if time.Since(began) > 3*time.Minute {
				t.Fatalf("while a list is copied, the log is held at %q, want %s", hold(), entry.Position)
			}
		}
		reached = true
	}}
	m, err := b.Run(t.Context(), filepath.Join(t.TempDir(), "b.tar"))
	if err != nil {
		t.Fatal(err)
	}
	if !reached || len(m.Logs) != 1 || m.Logs[0].Entries != 1 {
		t.Errorf("list reached: %v; logs %+v", reached, m.Logs)
	}
}
