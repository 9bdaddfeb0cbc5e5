package desk

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"sluice/journey/plan"
	"sluice/store"
)

const branching = `
id: j
entry: {when: {event: e}}
steps:
  - {id: split, split: {if: {attribute: a, is: exists}, then: hello, else: draw}}
  - {id: hello, message: {template: x}, next: wait}
  - {id: wait, wait_for: {within: 1d, paths: [{name: bought, when: {event: f}, next: exit}, {name: asked, when: {event: g}, next: join}], otherwise: join}}
  - {id: draw, random: {paths: [{name: half, weight: 50, next: note}, {name: rest, weight: 50, next: exit}]}}
  - {id: note, message: {template: x}, next: join}
  - {id: join, audiences: {paths: [{name: gold, if: {attribute: b, is: exists}, next: last}], otherwise: exit}}
  - {id: last, delay: {for: 1d}}
conversions: {name: bought, when: {event: f}, within: 1d}
`

// A branch has entered, passed, exited and waiting people as a step has, mails and
// conversions: those of the steps that it alone leads to. Where ways meet again it is over.
func TestCountsOfBranches(t *testing.T) {
	doc, err := plan.ParseYAML(branching)
	if err != nil {
		t.Fatal(err)
	}
	var rows []store.SeriesRow
	for name, n := range map[string]int64{
		"split/entered": 100, "split/passed/then": 60, "split/passed": 40,
		"hello/entered": 60, "hello/passed": 60, "hello/sent": 55, "hello/opened": 20, "hello/opened_raw": 25, "hello/clicked": 3, "hello/clicked_raw": 4,
		"wait/entered": 60, "wait/passed/bought": 10, "wait/passed": 25, "wait/exited": 5, "wait/converted/bought": 7,
		"draw/entered": 40, "draw/passed/half": 22, "draw/passed/rest": 18,
		"note/entered": 22, "note/passed": 22, "note/sent": 20, "join/entered": 47, "join/passed/gold": 30, "join/passed": 17,
		"last/entered": 30, "last/passed": 10, "last/exited": 2, "last/converted/bought": 1,
	} {
		rows = append(rows, store.SeriesRow{Name: "journey/j/" + name, Count: n})
	}
	c := countsOf(rows, "journey/j/", doc)
	c.addBranches(doc)
	for step, want := range map[string]string{
		"split": "then 60 20 35 5 sent 55 20 25 3 4 map[bought:7], else 40 0 40 0 sent 20 0 0 0 0 map[]",
		"wait":  "bought 10 0 10 0 sent 0 0 0 0 0 map[], asked 0 0 0 0 sent 0 0 0 0 0 map[], otherwise 25 0 25 0 sent 0 0 0 0 0 map[]",
		"draw":  "half 22 0 22 0 sent 20 0 0 0 0 map[], rest 18 0 18 0 sent 0 0 0 0 0 map[]",
		"join":  "gold 30 18 10 2 sent 0 0 0 0 0 map[bought:1], otherwise 17 0 17 0 sent 0 0 0 0 0 map[]",
		"hello": "",
	} {
		var got []string
		for _, b := range c.at(step).Paths {
			got = append(got, fmt.Sprintf("%s %d %d %d %d sent %d %d %d %d %d %v", b.Branch, b.Entered, b.Waiting, b.Passed, b.Exited, b.Sent, b.Opened, b.OpenedRaw, b.Clicked, b.ClickedRaw, b.Converted))
		}
		if strings.Join(got, ", ") != want {
			t.Errorf("%s:\ngot  %s\nwant %s", step, strings.Join(got, ", "), want)
		}
	}
}

// A draft may lead nowhere, or back: its branches are counted all the same.
func TestCountsOfBranchesOfADraft(t *testing.T) {
	doc := &plan.Document{Steps: []plan.Step{
		{ID: "a", Split: &plan.Split{Then: "b", Else: "nowhere"}}, {ID: "b", Delay: &plan.Delay{For: "1h"}, Next: "a"}, {ID: "c", Audiences: &plan.Audiences{}},
	}}
	c := countsOf([]store.SeriesRow{{Name: "journey/j/a/passed/then", Count: 3}, {Name: "journey/j/b/entered", Count: 2}}, "journey/j/", doc)
	c.addBranches(doc)
	if p := c.at("a").Paths; len(p) != 2 || p[0].Entered != 3 || p[0].Waiting != 2 || p[0].Passed != 1 || p[1].Branch != "else" {
		t.Errorf("%+v", p)
	}
}

// Whatever drafts look like, a step is of a branch alone if nobody comes to it without that.
// A document of thousands of branches is looked through once for each step.
func TestStepsOfABranchAlone(t *testing.T) {
	chance, found := rand.New(rand.NewPCG(1, 2)), 0
	for range 3000 {
		steps, doc := 1+chance.IntN(7), &plan.Document{}
		for i := range steps {
			s := plan.Step{ID: fmt.Sprint(i), Random: &plan.Random{}}
			for range chance.IntN(4) {
				s.Random.Paths = append(s.Random.Paths, plan.RandomPath{Next: fmt.Sprint(chance.IntN(steps + 2))})
			}
			doc.Steps = append(doc.Steps, s)
		}
		g := graphOf(doc)
		for from := range g.ways {
			for n, to := range g.ways[from] {
				behind, others := make([]bool, steps), make([]bool, steps)
				g.visit(to, nowhere, behind)
				g.ways[from][n] = nowhere
				g.visit(g.first, nowhere, others)
				g.ways[from][n] = to
				var want []int
				for at := range steps {
					if behind[at] && !others[at] {
						want = append(want, at)
					}
				}
				found += len(want)
				if got := g.alone(from, n); !slices.Equal(got, want) {
					t.Fatalf("%v: by way %d of step %d people come to %v alone, want %v", g.ways, n, from, got, want)
				}
			}
		}
		if len(g.leads) > steps {
			t.Fatalf("%d steps were looked through %d times", steps, len(g.leads))
		}
	}
	if found == 0 {
		t.Error("no branch had a step of its own")
	}
}
