package engine_test

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"sluice/config"
	"sluice/engine"
)

// replayed asks an engine to replay the first dead letter, and returns its answer.
func replayed(t *testing.T, e *engine.Engine) (status int, answer string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+e.Address()+"/v1/dead/1/replay", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+rootKey)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(text)
}

// A process without the role intake has opened no list. It says so, and does not say that
// the list is not in the configuration; a process that drains lists replays it.
func TestReplayWithoutTheRoleIntake(t *testing.T) {
	redis, database := beside(t, "").URL(), "sqlite:"+filepath.Join(t.TempDir(), "sluice.db")
	lists := func(c *config.Config) { c.Lists = []config.List{{Name: "clicks", Take: config.TakeLeft}} }
	first := open(t, redis, database, 2, lists)
	redisDo(t, redis, "RPUSH", "clicks", "no event")
	await(t, "it is dead", func() bool { return first.Stats().Dead == 1 })
	if err := first.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}

	stores := open(t, redis, database, 2, lists, func(c *config.Config) { c.Roles = []string{config.RoleStore} })
	status, answer := replayed(t, stores)
	if status != http.StatusConflict || !strings.Contains(answer, "it does not drain them") || strings.Contains(answer, "configuration") {
		t.Errorf("without the role: %d %s", status, answer)
	}
	if err := stores.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}

	if status, answer := replayed(t, open(t, redis, database, 2, lists)); status != http.StatusNoContent {
		t.Errorf("with the role: %d %s", status, answer)
	}
}

// A process without the role intake connects to no server of lists and hashes. At its start
// it says nothing of them.
func TestStartWithoutTheRoleIntake(t *testing.T) {
	cfg := config.Default()
	cfg.Data, cfg.Listen, cfg.Partitions, cfg.Roles = t.TempDir(), "127.0.0.1:0", 2, []string{config.RoleStore}
	cfg.Redis, cfg.Database, cfg.RootKey = config.URL(beside(t, "").URL()), config.URL("sqlite:"+filepath.Join(t.TempDir(), "sluice.db")), rootKey
	cfg.Lists = []config.List{{Name: "clicks", Take: config.TakeLeft, Redis: "redis://lists.example:6379"}}
	cfg.Hashes = []config.Hashes{{Dirty: "dirty", Redis: []config.URL{"redis://hashes.example:6379"}}}
	var said bytes.Buffer
	e, err := engine.Open(t.Context(), engine.Options{Config: cfg, Log: slog.New(slog.NewTextHandler(&said, nil))})
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if log := said.String(); strings.Contains(log, ".example") || !strings.Contains(log, "lists=0 hashes=0") {
		t.Errorf("a start without the role says:\n%s", log)
	}
}
