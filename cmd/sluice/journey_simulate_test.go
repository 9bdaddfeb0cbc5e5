package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The example of docs/journeys.md is what the command says.
func TestJourneySimulateDocument(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/journeys.md")
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(text), "<!-- simulated -->\n```\n")
	want, _, found := strings.Cut(after, "```\n")
	if !found {
		t.Fatal("docs/journeys.md has no simulated example")
	}
	file, err := filepath.Abs("../../docs/journeys/abandoned-cart.yaml")
	if err != nil {
		t.Fatal(err)
	}
	arguments := []string{"journey", "simulate", file, "--people", "1000", "--from", "2026-12-01T00:00:00Z"}
	if got := mustRun(t, t.TempDir(), arguments...).stdout; got != want {
		t.Errorf("the command says\n%s\nthe document\n%s", got, want)
	}
}

// Made-up events have properties for which the rules of the journey hold, and others:
// people take each way. How often they happen can be said, also as JSON.
func TestJourneySimulate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, err := filepath.Abs("../../docs/journeys/abandoned-cart.yaml")
	if err != nil {
		t.Fatal(err)
	}
	entered := func(often string) (n int) {
		t.Helper()
		var o struct {
			Entered int
			Steps   []struct {
				ID, Kind string
				Paths    []struct {
					Name   string
					Passed int
				}
			}
		}
		got := mustRun(t, dir, "journey", "simulate", file, "--people", "500", "--json", "--often", often)
		if err := json.Unmarshal([]byte(got.stdout), &o); err != nil {
			t.Fatalf("%v: %s", err, got.stdout)
		}
		if s := o.Steps[1]; s.Kind != "split" || len(s.Paths) != 2 || s.Paths[0].Passed == 0 || s.Paths[1].Passed == 0 {
			t.Errorf("not all ways are taken: %+v", s)
		}
		return o.Entered
	}
	if few, many := entered("cart_updated=1"), entered("cart_updated=10, cart_emptied=0"); few*3 > many {
		t.Errorf("%d and %d entered", few, many)
	}
	for _, often := range []string{"nothing=1", "cart_updated", "cart_updated=-1", "cart_updated=NaN"} {
		if got := sluiceRun(t, dir, "journey", "simulate", file, "--often", often); got.code != exitUsage || !strings.Contains(got.stderr, "--often") {
			t.Errorf("%s: %+v", often, got)
		}
	}
}
