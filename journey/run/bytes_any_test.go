package run

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/flow"
)

// anyJourneys makes journeys of mails, updates and waits of any size that lead to each other
// in any way, in chains and in circles.
func anyJourneys(random *rand.Rand) (texts []string) {
	many := 2 + random.IntN(4)
	for n := range many {
		var b strings.Builder
		when, again := []string{"signup", "other"}[min(n, 1)], []string{"", ", again_after: 0s"}[random.IntN(2)]
		fmt.Fprintf(&b, "id: j%d\nentry: {when: {event: %s}%s}\nsteps:\n", n, when, again)
		steps := 1 + random.IntN(4)
		for at := range steps {
			id, next := fmt.Sprintf("j%ds%d", n, at), fmt.Sprintf("j%ds%d", n, at+1)
			if at == steps-1 {
				next = []string{"exit", "on", "on"}[random.IntN(3)]
			}
			switch random.IntN(4) {
			case 0:
				fmt.Fprintf(&b, "  - {id: %s, delay: {for: 1h}, next: %s}\n", id, next)
			case 1:
				fmt.Fprintf(&b, "  - {id: %s, update: {attributes: {a: %s}}, next: %s}\n", id, strings.Repeat("x", 1+random.IntN(20_000)), next)
			default:
				fmt.Fprintf(&b, "  - {id: %s, message: {content: {subject: s, from: us@example.org, text: %s}}, next: %s}\n", id, strings.Repeat("x", 1+random.IntN(3_600)), next)
			}
			if next == "on" {
				fmt.Fprintf(&b, "  - {id: on, go: {journey: j%d}}\n", (n+1+random.IntN(many-1))%many)
			}
		}
		texts = append(texts, b.String())
	}
	return texts
}

// Whatever journeys there are, and however many people walk in them at once: each person gets
// what one person alone gets, no commit has more than it may, and there is an end to it.
func TestAnyJourneysAreDivided(t *testing.T) {
	const people, worlds, atMost = 150, 8, 3_000
	first := rand.Uint64()
	for seed := first; seed < first+worlds; seed++ {
		var alone found
		for _, people := range []int{1, people} {
			texts := anyJourneys(rand.New(rand.NewPCG(seed, 1)))
			b := newBed(t, people)
			for n := range texts {
				b.draft(fmt.Sprint("j", n))
			}
			for n, text := range texts {
				b.publishAgain(fmt.Sprint("j", n), text)
			}
			b.enterAllAt(people, uint64(b.clock.Now().UnixMilli()))
			for range 4 {
				p := b.open()
				for passes := 0; ; passes++ {
					worked, err := p.pass(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					if !worked {
						break
					}
					if passes == atMost {
						t.Fatalf("seed %d: no end after %d passes:\n%.2000s", seed, passes, strings.Join(texts, "\n"))
					}
				}
				b.clock.Move(time.Hour)
			}
			f := b.read()
			if alone.sends == nil {
				alone = f
			}
			want := slices.Sorted(slices.Values(alone.steps[profileAddress(1)]))
			for n := 1; n <= people; n++ {
				if got := slices.Sorted(slices.Values(f.steps[profileAddress(n)])); !slices.Equal(got, want) {
					t.Fatalf("seed %d: of %d people the %d. has mails of the steps %v, one alone of %v:\n%.2000s", seed, people, n, got, want, strings.Join(texts, "\n"))
				}
			}
			if f.updates != alone.updates*people {
				t.Errorf("seed %d: %d updates of %d people, one alone has %d", seed, f.updates, people, alone.updates)
			}
			if most := b.largest(); most > flow.CommitBytes+flow.CommitBytes/4 {
				t.Errorf("seed %d: the largest commit has %d bytes of items", seed, most)
			}
		}
	}
}
