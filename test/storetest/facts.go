package storetest

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice"
	"sluice/journey"
	"sluice/store"
	"sluice/user"
)

// aFact makes a fact of an item.
func aFact(part int, major uint64, item int, number int64, kind journey.FactKind) journey.Fact {
	return journey.Fact{
		Place: sluice.Place{Partition: part, Position: sluice.Position{Major: major, Minor: 7}, Index: item}, Number: number,
		Kind: kind, Name: "ä '\\", TimeMillis: 1_760_000_000_123, Body: `{"a":"ä🌍\\n\t'` + strings.Repeat("x", 100) + `"}`,
	}
}

// factsOfOneRow makes facts that are one row of a partition.
func factsOfOneRow(part, many int) (facts []journey.Fact) {
	for i := range many {
		facts = append(facts, aFact(part, 1<<64-1, i, 1<<63-1, journey.FactPurchase))
	}
	return facts
}

// testFacts: facts are read in the order of their places, never a part of those of a
// place. The same again is the same fact. They go in pieces.
func testFacts(t *testing.T, f *fixture) {
	f.start(t)
	const items, each = 300, 3
	var facts []journey.Fact
	for i := range items {
		for n := range each {
			facts = append(facts, aFact(2, uint64(1_760_000_000_000+i/100), i%100, int64(n+1), journey.FactEvent))
		}
	}
	facts = append(facts, aFact(2, 1_760_000_000_100, 0, 1, journey.FactAttributes), aFact(2, 1_760_000_000_100, 0, 1, journey.FactGroups), aFact(3, 1, 0, 1<<62, journey.FactDeleted))
	facts[0].Name, facts[0].Body = "", ""
	shuffled := slices.Clone(facts)
	slices.Reverse(shuffled)
	f.apply(t, store.Effect{JourneyFacts: shuffled}, 0, 0)
	read := func(part, limit int) ([]journey.Fact, []int) {
		return f.factsBehind(t, sluice.Place{Partition: part}, limit)
	}
	all, pages := read(2, 1)
	if !reflect.DeepEqual(all, facts[:len(facts)-1]) {
		t.Fatalf("%d facts, want %d; the first is %+v", len(all), len(facts)-1, all[0])
	}
	want(t, "pages", fmt.Sprint(pages), "[255 255 255 137]")
	all, pages = read(3, 10_000)
	if len(pages) != 1 || !reflect.DeepEqual(all, facts[len(facts)-1:]) {
		t.Fatalf("of partition 3: %+v", all)
	}

	// What is written again is the same facts, beside one that is new.
	again := slices.Clone(facts)
	again[1].Body = "{}"
	f.apply(t, store.Effect{JourneyFacts: again}, 0, 0)
	f.apply(t, store.Effect{JourneyFacts: []journey.Fact{aFact(2, 1_760_000_000_200, 1, 9, journey.FactEvent)}}, 0, 0)
	all, _ = read(2, 10_000)
	if len(all) != len(facts) || all[1].Body != facts[1].Body {
		t.Fatalf("%d facts after some came again, want %d", len(all), len(facts))
	}

	// Those up to a place go, but for those of a pack that has others too.
	upTo := facts[(items-100)*each].Place // the first item of the last hundred
	f.apply(t, store.Effect{FactsUpTo: map[int]sluice.Place{2: upTo, 9: upTo}}, 0, 0)
	all, _ = read(2, 10_000)
	if len(all) != len(facts)-2*255 || !reflect.DeepEqual(all[0], facts[2*255]) {
		t.Fatalf("%d are left, the first is %+v", len(all), all[0].Place)
	}
	all, _ = f.factsBehind(t, upTo, 10_000)
	if len(all) != len(facts)-200*each-each || !reflect.DeepEqual(all[0], facts[201*each]) {
		t.Fatalf("%d are behind the place up to which they go, the first is %+v", len(all), all[0].Place)
	}
	want(t, "facts of partition 3", f.count(t, "journey_facts WHERE part = 3"), 1)

	// A page ends when the bodies are large, behind the whole of an item.
	var large []journey.Fact
	for i := range 6 {
		for n := range 2 {
			one := aFact(5, 7, i, int64(n+1), journey.FactEvent)
			one.Body = strings.Repeat("x", store.FactsBytes/6)
			large = append(large, one)
		}
	}
	f.apply(t, store.Effect{JourneyFacts: large}, 0, 0)
	all, pages = read(5, 10_000)
	want(t, "pages of large facts", fmt.Sprint(pages), "[8 4]")
	if !reflect.DeepEqual(all, large) {
		t.Errorf("%d large facts, want %d", len(all), len(large))
	}
}

// factsBehind reads the facts of a partition behind a place, and says how many each page had.
func (f *fixture) factsBehind(t *testing.T, after sluice.Place, limit int) (all []journey.Fact, pages []int) {
	t.Helper()
	for {
		page, err := f.journeys(t).Facts(f.ctx, after.Partition, after, limit)
		must(t, err)
		if len(page) == 0 {
			return all, pages
		}
		all, pages, after = append(all, page...), append(pages, len(page)), page[len(page)-1].Place
	}
}

// testFactsAtRandom: whatever transactions write, facts are read from any place on as they
// were written, and those up to a place go, but for what lies in one row with later ones.
func testFactsAtRandom(t *testing.T, f *fixture) {
	f.start(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	var model []journey.Fact
	for item := 0; len(model) < 6000; {
		var facts []journey.Fact
		for range r.IntN(60) * r.IntN(10) {
			item += 1 + r.IntN(3)
			for n := range 1 + r.IntN(1+r.IntN(3)*r.IntN(80)) {
				one := aFact(2, uint64(1_760_000_000_000+item/50), item%50, int64(n+1), journey.FactKind(1+r.IntN(10)))
				if one.Body = strings.Repeat("ä\n \t\\'", r.IntN(20)); r.IntN(40) == 0 {
					one.Body = strings.Repeat("x", r.IntN(40_000))
				}
				one.Name = one.Name[:r.IntN(2)*len(one.Name)]
				facts = append(facts, one)
			}
		}
		shuffled := slices.Clone(facts)
		r.Shuffle(len(facts), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
		f.apply(t, store.Effect{JourneyFacts: shuffled}, 0, 0)
		model = append(model, facts...)
	}
	behind := func(p sluice.Place) []journey.Fact {
		i := slices.IndexFunc(model, func(x journey.Fact) bool {
			return x.Place.Position.Major > p.Position.Major || x.Place.Position.Major == p.Position.Major && x.Place.Index > p.Index
		})
		if i < 0 { // it is the last
			return nil
		}
		return model[i:]
	}
	for range 20 {
		from, limit := model[r.IntN(len(model)-1)].Place, 1+r.IntN(3000)
		all, pages := f.factsBehind(t, from, limit)
		if want := behind(from); !reflect.DeepEqual(all, want) || slices.Max(append(pages, 0)) > max(limit, store.MinFacts) {
			t.Fatalf("behind %v: %d facts, want %d, in pages of %v", from, len(all), len(want), pages)
		}
	}
	erased := int64(1 + r.IntN(3))
	n, err := f.store.(store.RetentionStore).EraseFacts(f.ctx, []store.Erasure{{Name: user.ID{Partition: 2, Number: erased}.String()}})
	must(t, err)
	before := len(model)
	model = slices.DeleteFunc(model, func(x journey.Fact) bool {
		return x.Number == erased && !slices.Contains(journey.Lasting, x.Kind)
	})
	want(t, "erased", n, before-len(model))
	upTo := model[r.IntN(len(model)/2)].Place
	for rows, last := f.count(t, "journey_facts"), 0; rows != last; { // each time a thousand rows at most
		f.apply(t, store.Effect{FactsUpTo: map[int]sluice.Place{2: upTo}}, 0, 0)
		rows, last = f.count(t, "journey_facts"), rows
	}
	all, _ := f.factsBehind(t, sluice.Place{Partition: 2}, 1000)
	if late := behind(upTo); len(all) < len(late) || len(all) > len(late)+store.MinFacts || !reflect.DeepEqual(all[len(all)-len(late):], late) {
		t.Fatalf("%d facts are left, want %d and up to %d of the last row", len(all), len(late), store.MinFacts)
	}
}

// testFactsGoInPieces: a transaction deletes a thousand rows of facts at most.
func testFactsGoInPieces(t *testing.T, f *fixture) {
	f.start(t)
	const many, atOnce, piece = 2250, 15, 1000
	var facts []journey.Fact
	for i := range many {
		facts = append(facts, aFact(0, 1_760_000_000_000+uint64(i/1000), i%1000, 1, journey.FactEvent))
	}
	for few := range slices.Chunk(facts, atOnce) {
		f.apply(t, store.Effect{JourneyFacts: few}, 0, 0)
	}
	last := facts[many-2].Place
	for _, left := range []int{many - piece, many - 2*piece, 1, 1} {
		f.apply(t, store.Effect{FactsUpTo: map[int]sluice.Place{0: last}}, 0, 0)
		want(t, "facts left", f.count(t, "journey_facts"), left)
	}
}

// testEraseFacts: what the named users did and were goes, and nothing else.
func testEraseFacts(t *testing.T, f *fixture) {
	f.start(t)
	const many = 2500
	var facts, of3 []journey.Fact
	for i := range many {
		facts = append(facts, aFact(4, uint64(i+1), 0, 1, journey.FactAttributes))
		of3 = append(of3, aFact(3, uint64(i+1), 0, 1, journey.FactEvent), aFact(3, uint64(i+1), 0, 2, journey.FactPurchase))
	}
	few := []journey.Fact{aFact(3, many+1, 0, 1, journey.FactGroups), aFact(3, many+1, 0, 1, journey.FactMerged), aFact(3, many+1, 0, 1, journey.FactTookIn), aFact(3, many+1, 0, 1, journey.FactDeleted)}
	f.apply(t, store.Effect{JourneyFacts: append(facts, of3...)}, 0, 0)
	f.apply(t, store.Effect{JourneyFacts: few}, 0, 0)
	keep := f.store.(store.RetentionStore)
	for _, erased := range []int{many + 1, 0} {
		n, err := keep.EraseFacts(f.ctx, []store.Erasure{{Name: "u-1"}, {Name: user.ID{Partition: 3, Number: 1}.String()}, {Name: user.ID{Partition: 3, Number: 3}.String()}})
		must(t, err)
		want(t, "erased", n, erased)
	}
	left, _ := f.factsBehind(t, sluice.Place{Partition: 3}, 1000)
	wanted := append(slices.DeleteFunc(of3, func(x journey.Fact) bool { return x.Number == 1 }), few[1:]...)
	if !reflect.DeepEqual(left, wanted) {
		t.Errorf("%d facts of partition 3 are left, want %d", len(left), len(wanted))
	}
	others, _ := f.factsBehind(t, sluice.Place{Partition: 4}, 1000)
	want(t, "facts of partition 4", len(others), many)

	n, err := keep.EraseFacts(f.ctx, []store.Erasure{{Name: user.ID{Partition: 3, Number: 2}.String()}})
	must(t, err)
	want(t, "erased", n, many)
	want(t, "rows of partition 3", f.count(t, "journey_facts WHERE part = 3"), 3)
}

// testErasedPackGoes: a pack whose last facts are erased goes when those that are left are read.
func testErasedPackGoes(t *testing.T, f *fixture) {
	f.start(t)
	const many, left = 20, 15
	var facts []journey.Fact
	for i := range many {
		facts = append(facts, aFact(3, uint64(i+1), 0, int64(1+i/left), journey.FactEvent))
	}
	f.apply(t, store.Effect{JourneyFacts: facts}, 0, 0)
	n, err := f.store.(store.RetentionStore).EraseFacts(f.ctx, []store.Erasure{{Name: user.ID{Partition: 3, Number: 2}.String()}})
	must(t, err)
	want(t, "erased", n, many-left)
	got, _ := f.factsBehind(t, sluice.Place{Partition: 3}, 1000)
	if !reflect.DeepEqual(got, facts[:left]) {
		t.Errorf("%d facts are left, want %d", len(got), left)
	}
	f.apply(t, store.Effect{FactsUpTo: map[int]sluice.Place{3: facts[left-1].Place}}, 0, 0)
	want(t, "rows", f.count(t, "journey_facts"), 0)
}
