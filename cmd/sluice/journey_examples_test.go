package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The lines of docs/journeys.md that apply the three examples do so, as they stand
// there, without a warning, and who signs up then is in one.
func TestJourneyExamplesApply(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/journeys.md")
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)<!-- applied -->\n```sh\n(.*?)```").FindStringSubmatch(string(text))
	if block == nil {
		t.Fatal("docs/journeys.md has no lines that apply the examples")
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	made, shown, found := strings.Cut(block[1], "\n\n")
	if !found {
		t.Fatal("the lines have no second part")
	}
	s := startServe(t, t.TempDir(), "SLUICE_ROOT_KEY="+testRoot)
	for line := range strings.Lines(made) {
		words := strings.Fields(strings.ReplaceAll(line, " docs/", " "+root+"/docs/"))
		if words[0] != "./bin/sluice" {
			t.Fatalf("%q is no line of the command", line)
		}
		if got := mustRun(t, s.dir, words[1:]...); got.stderr != "" {
			t.Errorf("%s: %s", line, got.stderr)
		}
	}
	body := regexp.MustCompile(`(?s)-d '(.*?)'`).FindStringSubmatch(shown)
	if body == nil {
		t.Fatalf("nobody signs up in\n%s", shown)
	}
	s.sent(t, 201, "/users/track", body[1])
	awaitPlace(t, s, "ann", `"state":"inside","step":"a-day"`)
	await(t, "ann's mail is sent", func() bool {
		got := mustRun(t, s.dir, "journey", "why", "welcome", "--user", "ann").stdout
		return strings.Contains(got, "is at step a-day") && strings.Contains(got, "sent")
	})
}
