package run

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"sluice/journey"
	"sluice/mail"
	"sluice/user"
)

// asks looks at what a step has waited for: in a mail at once, and behind a wait in a rule
// and in another mail.
const asks = `
id: cart
entry: {when: {event: cart}}
steps:
  - id: react
    wait_for:
      within: 1d
      RANKED
      paths:
        - {name: gold, when: {attribute: tier, to: gold}, next: now}
        - {name: bought, when: [{event: ordered}, {event: called}], next: now}
      otherwise: exit
  - {id: now, message: {template: waited, tags: now}, next: pause}
  - {id: pause, delay: {for: 1h}, next: worth}
  - {id: worth, split: {if: {property: total, step: react, is: greater_than, value: 20}, then: thanks, else: small}}
  - {id: thanks, message: {template: waited, tags: thanks}}
  - {id: small, message: {template: x, tags: small}}
`

func (b *bed) withWaited() {
	b.Helper()
	err := b.store.AddTemplate(b.Context(), mail.Template{ID: "waited", Name: "waited", Current: 1}, mail.TemplateVersion{Template: "waited", Version: 1, Class: mail.ClassMarketing,
		Subject: "Your order", Text: "{{waited.react.total}} {{waited.react.items[0]}} {{context.total}}", From: "us@example.org"})
	if err != nil {
		b.Fatal(err)
	}
}

// ordered is an order, of more than a context may have.
func ordered(total int) string {
	return fmt.Sprintf(`{"other":"%s","total":%d,"items":["a"]}`, strings.Repeat("x", journey.MaxContextBytes), total)
}

// Properties of the event that a step has waited for are known behind it: at once, behind a
// wait, whether the store has them or not, whichever process goes on, and for who takes the
// place over.
func TestWhatWasWaitedForIsKnownBehind(t *testing.T) {
	for _, taken := range []bool{false, true} {
		b := newBed(t, 6)
		b.follows = true
		b.withWaited()
		b.publish(strings.Replace(asks, "      RANKED\n", "", 1))
		for n := range int64(5) {
			b.fact(uint64(n)+1, n+1, journey.FactEvent, "cart", `{"total":1}`)
		}
		p := b.open()
		again := func() {
			t.Helper()
			if taken {
				b.stored(everything)
				p = b.open()
			}
			b.passes(p)
		}
		again()
		b.fact(11, 1, journey.FactEvent, "ordered", ordered(30))
		b.fact(12, 2, journey.FactEvent, "ordered", ordered(10))
		b.fact(13, 3, journey.FactEvent, "called", "")
		b.fact(14, 4, journey.FactAttributes, "", `{"tier":["silver","gold"]}`)
		b.fact(15, 5, journey.FactEvent, "ordered", ordered(50))
		again()
		b.merge(16, 5, user.ID{Number: 6})
		again()
		b.clock.Move(time.Hour)
		again()
		f := b.read()
		if f.counts["journey/cart/worth/passed/then"] != 2 || f.counts["journey/cart/worth/passed"] != 3 {
			t.Errorf("%v: %v, want two whose order is worth more than 20", taken, f.counts)
		}
		const known, unknown = `"waited":{"react":{"total":%d,"items":["a"]}},"context":{"total":1}`, `"waited":{},"context":{"total":1}`
		for to, want := range map[string][]string{
			profileAddress(1): {fmt.Sprintf(known, 30), fmt.Sprintf(known, 30)}, profileAddress(2): {fmt.Sprintf(known, 10), ""}, profileAddress(3): {unknown, ""},
			profileAddress(4): {unknown, ""}, profileAddress(5): {fmt.Sprintf(known, 50)}, "known@example.com": {fmt.Sprintf(known, 50)},
		} {
			got := f.contents[to]
			if len(got) != len(want) {
				t.Errorf("%v: %s has the mails %q, want %d", taken, to, got, len(want))
				continue
			}
			for i := range want {
				if !strings.Contains(got[i], want[i]) || want[i] == "" && strings.Contains(got[i], "waited") {
					t.Errorf("%v: %s has the mail %s, want %s", taken, to, got[i], want[i])
				}
			}
		}
	}
}

// What is noted, as of a ranked wait or in a pause, has its properties with it, until
// something else takes its place.
func TestWhatIsNotedHasItsProperties(t *testing.T) {
	b := newBed(t, 4)
	b.follows = true
	b.withWaited()
	b.publish(strings.Replace(asks, "RANKED", "ranked: true", 1))
	for n := range int64(4) {
		b.fact(uint64(n)+1, n+1, journey.FactEvent, "cart", map[bool]string{false: `{"total":1}`}[n == 3]) // the last one enters with nothing
	}
	b.passes(b.open())
	b.fact(11, 1, journey.FactEvent, "ordered", ordered(30))
	b.fact(12, 2, journey.FactEvent, "ordered", ordered(30))
	b.fact(13, 4, journey.FactEvent, "ordered", ordered(30))
	b.passes(b.open())
	b.fact(14, 2, journey.FactAttributes, "", `{"tier":["silver","gold"]}`) // ends the wait
	b.fact(15, 4, journey.FactAttributes, "", `{"tier":["silver","gold"]}`)
	b.fact(16, 1, journey.FactEvent, "ordered", ordered(1)) // the first one counts
	b.passes(b.open())
	b.status("cart", journey.StatusPaused)
	b.fact(17, 3, journey.FactEvent, "ordered", ordered(40))
	b.passes(b.open())
	b.status("cart", journey.StatusLive)
	for range 2 {
		b.stored(everything)
		b.clock.Move(24 * time.Hour)
		b.passes(b.open())
	}
	f := b.read()
	if f.counts["journey/cart/worth/passed/then"] != 2 || f.counts["journey/cart/worth/passed"] != 2 || f.counts["journey/cart/react/passed/gold"] != 2 {
		t.Errorf("%v", f.counts)
	}
	if got := f.contents[profileAddress(1)]; len(got) != 2 || !strings.Contains(got[1], `"total":30`) {
		t.Errorf("who ordered twice has the mails %q", got)
	}
	for _, n := range []int{2, 4} {
		if got := f.contents[profileAddress(n)]; len(got) == 0 || strings.Contains(strings.Join(got, " "), `"total":30`) {
			t.Errorf("%d, who went another path in the end, has the mails %q", n, got)
		}
	}
}
