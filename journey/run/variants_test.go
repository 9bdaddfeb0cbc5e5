package run

import (
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/journey"
)

// compares has two random steps; the ways of the first come together at a mail.
const compares = `
id: compares
entry: {when: {event: signup}}
steps:
  - {id: before, message: {template: x}, next: draw}
  - {id: draw, random: {paths: [{name: one, weight: 30, next: hour}, {name: two, weight: 30, next: day}, {name: held-back, weight: 40, control: true, next: both}]}}
  - {id: hour, delay: {for: 1h}, next: own}
  - {id: own, message: {template: x}, next: both}
  - {id: day, delay: {for: 2h}, next: again}
  - {id: again, random: {paths: [{name: a, weight: 50, next: both}, {name: b, weight: 50, next: exit}]}}
  - {id: both, message: {template: x}}
conversions: {name: bought, when: {purchase: "*"}, within: 3d}
`

// A mail says which path of a random step its person took last before, also where ways
// have come together and in another process. Conversions are counted by the paths of the
// step that has a control.
func TestVariants(t *testing.T) {
	const people = 60
	b := newBed(t, people)
	b.publish(compares)
	b.enterAll(people)
	p := b.open()
	b.passes(p)
	for range 3 {
		b.clock.Move(time.Hour)
		p = b.open()
		b.passes(p)
	}
	var facts uint64
	for n := range int64(people) {
		facts++
		b.fact(1000+facts, n+1, journey.FactPurchase, "shoe", `{}`)
	}
	b.passes(b.open())
	f := b.read()
	took := make(map[string]int64)
	for n := 1; n <= people; n++ {
		steps, variants := f.steps[profileAddress(n)], f.variants[profileAddress(n)]
		way := strings.Join(variants, ",")
		took[way]++
		want := map[string][]string{",one,one": {"before", "own", "both"}, ",a": {"before", "both"}, "": {"before"}, ",held-back": {"before", "both"}}[way]
		if want == nil || !slices.Equal(steps, want) {
			t.Errorf("person %d has the mails %v with the variants %q", n, steps, variants)
		}
	}
	c := func(name string) int64 { return f.counts["journey/compares/"+name] }
	if took[",one,one"] != c("draw/passed/one") || took[",a"]+took[""] != c("draw/passed/two") || took[",a"] != c("again/passed/a") || took[",held-back"] != c("draw/passed/held-back") || len(took) != 4 {
		t.Errorf("%v, %v", took, f.counts)
	}
	for _, path := range []string{"one", "two", "held-back"} {
		if got, want := c("draw/converted/"+path+"/bought"), c("draw/passed/"+path); got != want || want == 0 {
			t.Errorf("%d who went %s have converted, want %d", got, path, want)
		}
	}
	if at := c("both/converted/bought") + c("again/converted/bought"); at != people || c("again/converted/bought") != took[""] {
		t.Errorf("%d have converted at the steps by which they went to the end, want %d: %v", at, people, f.counts)
	}
	for name := range f.counts {
		if strings.Contains(name, "again/converted/a/") || strings.Contains(name, "again/converted/b/") {
			t.Errorf("%s: the step has no control", name)
		}
	}
}
