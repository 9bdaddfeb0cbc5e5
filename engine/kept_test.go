package engine_test

import (
	"database/sql"
	"errors"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"sluice"
	"sluice/config"
	"sluice/engine"
	"sluice/flow"
	"sluice/ingest/spill"
	"sluice/store"
	"sluice/test/servers"
)

// kept is what an engine that waits for replicas has outside of Redis: a spill file, an
// import of which no piece was taken, and a dead letter.
type kept struct {
	*engine.Engine
	log      *logged
	database *sql.DB
	spilled  string // the pattern of spill files
	of       store.FileImport
}

const keptPiece = `{"event":"imported","user_id":"u","time":1790000000}` + "\n"

func openKept(t *testing.T, redis string) *kept {
	t.Helper()
	path, dir := filepath.Join(t.TempDir(), "sluice.db"), ""
	k := &kept{}
	k.Engine, k.log = openLogged(t, redis, "sqlite:"+path, 4, 1, func(c *config.Config) {
		c.WaitReplicas, c.WaitReplicasMS = 1, 200
		dir = engine.SpillDir(c)
	})
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	var err error
	k.of, err = k.Services().Imports.Begin(t.Context(), store.FileImport{Name: "f", SizeBytes: int64(len(keptPiece)), Options: store.ImportOptions{Kind: store.ImportEvents, Format: "ndjson"}})
	must(err)
	k.database, err = sql.Open("sqlite", "file:"+path+"?_pragma=busy_timeout(20000)")
	must(err)
	t.Cleanup(func() { _ = k.database.Close() })
	item := sluice.AppendEvent(nil, &sluice.Event{Kind: sluice.KindCustom, TimeMillis: time.Now().UnixMilli(), ID: "d", Name: "dead"})
	_, err = k.database.ExecContext(t.Context(), "INSERT INTO dead_letters (id, source, form, part, pos_major, pos_minor, item, reason, found_at, size, payload) VALUES (1, 'x', 'item', 2, 0, 0, 0, 'x', ?, ?, ?)",
		time.Now().UnixMilli(), len(item), item)
	must(err)

	r, err := flow.Dial(t.Context(), redis)
	must(err)
	defer r.Close()
	deployment, err := r.Deployment(t.Context())
	must(err)
	w := spill.Open(dir, strconv.FormatUint(deployment, 10), sluice.SystemClock{})
	must(w.Write(sluice.Event{Kind: sluice.KindMail, TimeMillis: time.Now().UnixMilli(), ID: "s", Name: "opened", Email: "ann@example.com"}))
	must(w.Release())
	k.spilled = filepath.Join(dir, "*"+spill.Suffix)
	return k
}

// takes has the piece taken, and the dead letter replayed.
func (k *kept) takes(t *testing.T) (piece, dead error) {
	t.Helper()
	_, piece = k.Services().Imports.Piece(t.Context(), k.of.ID, 0, keptPiece)
	return piece, k.Services().Replay(t.Context(), 1)
}

func (k *kept) hasFile() bool {
	left, err := filepath.Glob(k.spilled)
	return err != nil || len(left) > 0
}

// text returns what a query finds in one cell.
func (k *kept) text(t *testing.T, query string) (found string) {
	t.Helper()
	if err := k.database.QueryRowContext(t.Context(), query).Scan(&found); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return found
}

// TestWhatIsKeptStaysUntilReplicasHaveIt: where replicas are waited for, a spill file, the
// place of a piece of an import and a dead letter stay as they are until replicas have what
// was made of them. It is stored once.
func TestWhatIsKeptStaysUntilReplicasHaveIt(t *testing.T) {
	c, err := servers.StartRedisCluster(t.Context(), servers.ClusterOptions{Dir: filepath.Join(t.TempDir(), "cluster"), Masters: 3, Replicas: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	replicas := c.Nodes[3:]
	for _, r := range replicas {
		if err := r.Pause(); err != nil {
			t.Fatal(err)
		}
	}
	k := openKept(t, c.URL())
	const state = "SELECT next_offset || ' ' || (SELECT COUNT(*) FROM dead_letters) FROM imports"
	for range 2 { // the second writes nothing
		if piece, dead := k.takes(t); !errors.Is(piece, flow.ErrReplicas) || !errors.Is(dead, flow.ErrReplicas) {
			t.Errorf("without replicas: %v; %v", piece, dead)
		}
		if got := k.text(t, state); got != "0 1" {
			t.Errorf("the next piece's place and dead letters are %s, want 0 1", got)
		}
	}
	await(t, "the spill file was replayed", func() bool { return strings.Contains(k.log.String(), "spill file ") })
	if !k.hasFile() {
		t.Error("the spill file is gone, and no replica has what it had")
	}
	for _, r := range replicas {
		if err := r.Continue(); err != nil {
			t.Fatal(err)
		}
	}
	await(t, "all are taken", func() bool {
		piece, dead := k.takes(t)
		var refused *sluice.Error // gone: it was dropped
		return piece == nil && (dead == nil || errors.As(dead, &refused)) && !k.hasFile()
	})
	const names = "SELECT COALESCE(GROUP_CONCAT(name || ' ' || n, ', '), '') FROM (SELECT name, COUNT(*) AS n FROM events GROUP BY name ORDER BY name)"
	await(t, "all are stored", func() bool { return strings.Count(k.text(t, names), " ") >= 5 })
	if got := k.text(t, names); got != "dead 1, imported 1, opened 1" {
		t.Errorf("events: %s", got)
	}
}
