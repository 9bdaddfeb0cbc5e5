package transfer

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"sluice"
	"sluice/flow"
	"sluice/store"
	"sluice/store/sqlstore"
	"sluice/test/servers"
	"sluice/test/tables"
)

// newerSchema is a database with a schema that is newer, and can be used all the same.
type newerSchema struct{ Database }

func (newerSchema) Snapshot(context.Context) (store.Snapshot, error) {
	return nil, errors.New("its schema has another version")
}

// A backup of a newer program is refused before anything is emptied for it. A newer
// schema of the database refuses none.
func TestRestoreOfANewerBackup(t *testing.T) {
	t.Parallel() // each restore looks for seconds whether somebody runs
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
	log := flow.NewLog(redis, flow.Partitions(1)[0])
	event := sluice.Event{Kind: sluice.KindCustom, ID: "e", Name: "n", TimeMillis: 1}
	entry, err := log.Append(t.Context(), "api:x", "", "1", sluice.AppendEvent(sluice.NewBatch(0), &event), false)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "b.tar")
	b := &Backup{Database: db, Redis: redis, Clock: sluice.SystemClock{}, Program: "test"}
	if _, err := b.Run(t.Context(), file); err != nil {
		t.Fatal(err)
	}
	archive, err := OpenArchive(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = archive.Close() })
	archive.Tables = append(archive.Tables, ManifestTable{DumpTable: store.DumpTable{Name: "of_tomorrow"}})
	for _, r := range []*Restore{{Tables: true, Logs: true}, {Tables: true}, {Logs: true}} {
		r.Database, r.Redis, r.Archive, r.Replace = db, redis, archive, true
		if _, err := r.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "of_tomorrow") {
			t.Errorf("tables %v, logs %v: %v; want the table that is not known", r.Tables, r.Logs, err)
		}
		if half, err := db.Restoring(t.Context()); half || err != nil {
			t.Errorf("tables %v, logs %v: the database is marked as half restored: %v, %v", r.Tables, r.Logs, half, err)
		}
		if _, end, err := log.Span(t.Context()); end != entry.Position || err != nil {
			t.Errorf("tables %v, logs %v: the log ends at %s: %v; want %s", r.Tables, r.Logs, end, err, entry.Position)
		}
	}
	archive.Tables = archive.Tables[:len(archive.Tables)-1]
	r := &Restore{Database: newerSchema{db}, Redis: redis, Archive: archive, Replace: true, Tables: true, Logs: true}
	if _, err := r.Run(t.Context()); err != nil {
		t.Errorf("into a newer schema: %v", err)
	}
}
