package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
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
		if s := o.Steps[0]; s.Kind != "split" || len(s.Paths) != 2 || s.Paths[0].Passed == 0 || s.Paths[1].Passed == 0 {
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

// What people entered with is known behind a wait, as in the engine.
func TestJourneySimulateKnowsTheContext(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "behind.yaml")
	write(t, file, "id: behind\nentry: {when: {event: signed_up}}\nsteps:\n  - {id: pause, delay: {for: 1h}, next: asked}\n  - {id: asked, split: {if: {context: plan, is: equals, value: gold}, then: exit, else: exit}}\n")
	got := mustRun(t, dir, "journey", "simulate", file, "--people", "100")
	if got.stderr != "" || !strings.Contains(got.stdout, "passed then") || !strings.Contains(got.stdout, "passed else") {
		t.Errorf("%+v", got)
	}
}

// A file is simulated without its templates: a step that leaves the class to its template is
// named. The file may be standard input.
func TestJourneySimulateFileWithoutTemplates(t *testing.T) {
	t.Parallel()
	const text = "id: receipts\nentry: {when: {event: bought}}\nsteps:\n  - {id: receipt, message: {template: receipt}, next: said}\n" +
		"  - {id: said, message: {template: receipt, class: transactional}, next: own}\n  - {id: own, message: {content: {subject: a, from: a@example.com, text: a}}}\n"
	var stdout, stderr strings.Builder
	m := Main{Args: []string{"journey", "simulate", "-", "--people", "10"}, Dir: t.TempDir(), Stdin: strings.NewReader(text), Stdout: &stdout, Stderr: &stderr}
	if code := m.Run(t.Context()); code != exitOK || !strings.Contains(stdout.String(), "receipt") {
		t.Fatalf("%d, %s%s", code, stdout.String(), stderr.String())
	}
	if got := stderr.String(); !strings.Contains(got, "steps.receipt.message.class: ") || strings.Count(got, "\n") != 1 {
		t.Errorf("warnings are %q", got)
	}
}

// Made-up people have a past that the rules of an entry ask for: some fit, and others
// do not. Nobody who has ordered lately is let in.
func TestJourneySimulateHasAnAudience(t *testing.T) {
	t.Parallel()
	file, err := filepath.Abs("../../docs/journeys/win-back.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var o struct{ Entered, Held, Mails int }
	got := mustRun(t, t.TempDir(), "journey", "simulate", file, "--people", "1000", "--from", "2026-12-01T00:00:00Z", "--often", "order=0", "--json")
	if err := json.Unmarshal([]byte(got.stdout), &o); err != nil {
		t.Fatalf("%v: %s", err, got.stdout)
	}
	if o.Entered < 100 || o.Entered > 600 || o.Held == 0 || o.Held > o.Entered/4 || o.Mails == 0 {
		t.Errorf("%+v", o)
	}
}

// What people do is read from a file, for those who are simulated; a line that says
// nothing is refused with its number.
func TestJourneySimulateEvents(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, err := filepath.Abs("../../docs/journeys/abandoned-cart.yaml")
	if err != nil {
		t.Fatal(err)
	}
	events := filepath.Join(dir, "events.jsonl")
	line := `{"external_id":"person-2","time":"2026-12-02T10:00:00Z","name":"cart_updated","properties":{"items":2,"total":30}}` + "\n"
	write(t, events, line+strings.Replace(line, "person-2", "stranger", 1))
	arguments := []string{"journey", "simulate", file, "--people", "3", "--from", "2026-12-01T00:00:00Z", "--events", events}
	got := mustRun(t, dir, arguments...).stdout
	if !strings.Contains(got, "entered 1,") || !strings.Contains(got, "person-2\n  2026-12-02 10:00:00") {
		t.Errorf("the command says\n%s", got)
	}
	big := filepath.Join(dir, "big.yaml")
	write(t, big, "id: big\nentry: {when: {purchase: shoe, where: {and: [{property: price, is: greater_than, value: 100}, {property: size, is: equals, value: 42}]}}}\nsteps: [{id: end, exit: {}}]\n")
	write(t, events, `{"external_id":"person-2","time":"2026-12-02T10:00:00Z","product_id":"shoe","price":120,"properties":{"size":42}}`+"\n"+
		`{"external_id":"person-3","time":"2026-12-02T10:00:00Z","product_id":"shoe","properties":{"size":42}}`+"\n")
	if got := mustRun(t, dir, slices.Replace(slices.Clone(arguments), 2, 3, big)...).stdout; !strings.Contains(got, "entered 1,") {
		t.Errorf("by a purchase of 120 and one of nothing\n%s", got)
	}
	called := filepath.Join(dir, "called.yaml")
	write(t, called, "id: called\nentry: {when: [{api: true}, {attribute: plan, from: free, to: gold}], who: {or: [{context: n, is: equals, value: 5}, {attribute: plan, is: equals, value: gold}]}}\nsteps: [{id: end, exit: {}}]\n")
	write(t, events, `{"external_id":"person-1","time":"2026-12-02T10:00:00Z","context":{"n":5}}`+"\n"+
		`{"external_id":"person-2","time":"2026-12-02T10:00:00Z","attributes":{"plan":["free","gold"]}}`+"\n"+
		`{"external_id":"person-3","time":"2026-12-02T10:00:00Z","attributes":{"plan":["gold","free"]}}`+"\n")
	if got := mustRun(t, dir, slices.Replace(slices.Clone(arguments), 2, 3, called)...).stdout; !strings.Contains(got, "entered 2,") {
		t.Errorf("by a call and a change of the plan\n%s", got)
	}
	if bad := sluiceRun(t, dir, arguments...); bad.code == 0 || !strings.Contains(bad.stderr, "by a call") {
		t.Errorf("a call of a journey that none enters so: %+v", bad)
	}
	write(t, events, line+"{}\n")
	if bad := sluiceRun(t, dir, arguments...); bad.code == 0 || !strings.Contains(bad.stderr, "line 2") {
		t.Errorf("%+v", bad)
	}
}

// Mail is opened and clicked as often as the command is told, and not by itself.
func TestJourneySimulateReactions(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, err := filepath.Abs("../../docs/journeys/abandoned-cart.yaml")
	if err != nil {
		t.Fatal(err)
	}
	clicked := func(more ...string) int {
		var o struct {
			Steps []struct {
				ID    string
				Paths []struct {
					Name   string
					Passed int
				}
			}
		}
		got := mustRun(t, dir, append([]string{"journey", "simulate", file, "--people", "1000", "--json"}, more...)...)
		if err := json.Unmarshal([]byte(got.stdout), &o); err != nil {
			t.Fatal(err)
		}
		for _, s := range o.Steps {
			if s.ID == "react" && s.Paths[0].Name == "clicked" {
				return s.Paths[0].Passed
			}
		}
		t.Fatalf("no step react: %s", got.stdout)
		return 0
	}
	if none, all := clicked(), clicked("--clicks", "100"); none != 0 || all == 0 {
		t.Errorf("%d and %d clicked", none, all)
	}
	if got := sluiceRun(t, dir, "journey", "simulate", file, "--opens", "101"); got.code != exitUsage {
		t.Errorf("%+v", got)
	}
}

// Users of the database take part with their own profiles: one by name, or so many by
// chance, with the segments that there are. Nothing is written.
func TestJourneySimulateUsers(t *testing.T) {
	t.Parallel()
	s := startServe(t, t.TempDir(), "SLUICE_ROOT_KEY="+testRoot)
	for n := range 12 {
		s.sent(t, 201, "/users/track/sync", fmt.Sprintf(`{"attributes":[{"external_id":"u-%d","email":"u-%d@example.com","plan":%q}]}`, n, n, []string{"gold", "free"}[n%2]))
	}
	mail, file := filepath.Join(s.dir, "welcome.mail"), filepath.Join(s.dir, "hello.yaml")
	write(t, mail, welcomeFile)
	mustRun(t, s.dir, "template", "put", mail)
	write(t, file, "id: hello\nentry: {when: {at: \"2026-12-02 09:00\"}}\nsteps:\n  - {id: is, split: {if: {attribute: plan, is: equals, value: gold}, then: mail, else: exit}}\n  - {id: mail, message: {template: welcome, from: us@example.org}}\n")
	type outcome struct {
		Entered, Mails int
		Ways           []struct{ Name string }
	}
	run := func(more ...string) (o outcome) {
		t.Helper()
		got := mustRun(t, s.dir, append([]string{"journey", "simulate", file, "--from", "2026-12-01T00:00:00Z", "--json"}, more...)...)
		if err := json.Unmarshal([]byte(got.stdout), &o); err != nil {
			t.Fatalf("%v: %s", err, got.stdout)
		}
		return o
	}
	if gold, free := run("--who", "u-6"), run("--who", "u-7"); gold.Entered != 1 || gold.Mails != 1 || free.Entered != 1 || free.Mails != 0 || free.Ways[0].Name != "u-7" {
		t.Errorf("%+v and %+v", gold, free)
	}
	if all := run("--sample", "100000"); all.Entered != 12 || all.Mails != 6 {
		t.Errorf("%+v", all)
	}
	some, again, others := run("--sample", "5"), run("--sample", "5"), 0
	if some.Entered != 5 || !reflect.DeepEqual(some, again) {
		t.Errorf("%+v and %+v", some, again)
	}
	for seed := range 5 {
		if o := run("--sample", "5", "--seed", strconv.Itoa(seed+2)); o.Entered != 5 {
			t.Errorf("%+v", o)
		} else if !reflect.DeepEqual(o, some) {
			others++
		}
	}
	if others == 0 {
		t.Error("another seed samples the same people")
	}
	for _, wrong := range [][2]string{{"--who", "nobody"}, {"--sample", "100001"}} {
		if got := sluiceRun(t, s.dir, "journey", "simulate", file, wrong[0], wrong[1]); got.code == exitOK || !strings.Contains(got.stderr, strings.Trim(wrong[1], "1")) {
			t.Errorf("%+v", got)
		}
	}
	if got := sluiceRun(t, s.dir, "journey", "simulate", file, "--who", "u-1", "--sample", "3"); got.code != exitUsage || !strings.Contains(got.stderr, "not both") {
		t.Errorf("%+v", got)
	}
}
