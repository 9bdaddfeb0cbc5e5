package engine_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"sluice/config"
	"sluice/test/servers"
	"sluice/track/link"
)

// TestDatabaseAwayWhileLongLinksAreClicked: a click whose target is in memory leads there
// while the database is killed; another is answered 503 and leads nowhere, and leads where
// it should when the database is back.
func TestDatabaseAwayWhileLongLinksAreClicked(t *testing.T) {
	postgres, err := servers.StartPostgres(t.Context(), servers.PostgresOptions{Dir: filepath.Join(t.TempDir(), "postgres"), Extra: []string{"-c", "fsync=off"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = postgres.Stop(context.Background()) })
	if err := postgres.CreateDatabase(t.Context(), "sluice"); err != nil {
		t.Fatal(err)
	}
	x := &tracked{}
	if x.keys, err = link.NewKeys("https://t.example.com", []byte(linkSecret)); err != nil {
		t.Fatal(err)
	}
	x.Engine = open(t, "embedded", postgres.URL("sluice"), 4, func(c *config.Config) {
		c.Track.URL, c.Track.Listen, c.Secret = x.keys.Base(), "127.0.0.1:0", linkSecret
	})
	known, other := "https://shop.example/?a="+strings.Repeat("x", 2000), "https://shop.example/?b="+strings.Repeat("y", 2000)
	if err := databaseOf(t, postgres.URL("sluice")).PutLinks(t.Context(), map[string]string{link.Hash(known): known, link.Hash(other): other}); err != nil {
		t.Fatal(err)
	}
	place := link.Place{Message: "019341d2f0a1b2c3d4e5f60718293a4b", Link: 1}
	click := func(target string) (int, string) {
		t.Helper()
		url, err := x.keys.Click(place, target)
		return x.visit(t, "GET", x.url(t, url, err), personsUA, "")
	}
	wants := func(target string, status int, location string) {
		t.Helper()
		if got, to := click(target); got != status || to != location {
			t.Errorf("%.30s: %d to %.30q, want %d to %.30q", target, got, to, status, location)
		}
	}
	// awaits is wants while the database answers, which it may do too late on a busy machine.
	awaits := func(target string, status int, location string) {
		t.Helper()
		await(t, "the database has answered in time", func() bool {
			got, to := click(target)
			if got != 503 && (got != status || to != location) {
				t.Fatalf("%.30s: %d to %.30q, want %d to %.30q", target, got, to, status, location)
			}
			return got != 503
		})
	}
	awaits(known, 302, known)
	if err := postgres.Kill(); err != nil {
		t.Fatal(err)
	}
	wants(known, 302, known)
	wants(other, 503, "")
	wants("https://evil.example/"+strings.Repeat("z", 2000), 503, "")
	if err := postgres.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	awaits(other, 302, other)
	awaits("https://evil.example/"+strings.Repeat("z", 2000), 404, "")
}
