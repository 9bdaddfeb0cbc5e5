package run

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice"
	"sluice/journey"
	"sluice/journey/step"
	"sluice/store"
	"sluice/user"
)

const leftCart = `
id: cart
entry: {when: {event: cart}}
steps:
  - {id: first, message: {template: x, tags: first}, next: wait}
  - {id: wait, delay: {for: 1h}, next: remind}
  - {id: remind, message: {template: x, tags: remind}}
`

// merge has the store merge one person into another of the partition or of another one.
func (b *bed) merge(minor uint64, goes int64, into user.ID) {
	b.Helper()
	changes := &user.Changes{Put: []user.Row{{ID: user.ID{Number: goes}, MergedInto: into}}}
	profile := `{"external_id":"known","former":["` + (user.ID{Number: goes}).String() + `"],"fields":{"email":"known@example.com"}}`
	changes.Put = append(changes.Put, user.Row{ID: into, Profile: profile})
	b.apply(&store.Effect{Users: changes})
	b.fact(minor, goes, journey.FactMerged, into.String(), "")
}

// places are the items that carry places to other partitions.
func (b *bed) places() (all []user.Update) {
	b.Helper()
	batches, err := b.log.Read(b.Context(), sluice.Position{}, 1000, 0)
	if err != nil {
		b.Fatal(err)
	}
	for i := range batches {
		r, err := sluice.ReadBatch(batches[i].Data)
		if err != nil {
			b.Fatal(err)
		}
		for r.Next() {
			if r.Item.Kind != sluice.ItemUser {
				continue
			}
			var u user.Update
			if err := user.DecodeUpdate(r.Item.Payload, &u); err != nil {
				b.Fatal(err)
			}
			all = append(all, u)
		}
	}
	return all
}

// Who waits and is merged into another user waits on as that one: the same step, the
// same time, the same occurrence. The mail is made once, to the survivor.
func TestAPlaceGoesToTheSurvivor(t *testing.T) {
	b := newBed(t, 3)
	j := b.publish(leftCart)
	b.fact(1, 1, journey.FactEvent, "cart", "")
	b.passes(b.open())
	before := b.records(j)[1]
	b.clock.Move(time.Minute)
	b.merge(2, 1, user.ID{Number: 2})
	b.passes(b.open())
	got := b.records(j)
	after := got[2]
	if after.Former == 0 {
		t.Error("the record does not say whose place it was")
	}
	after.Former = 0
	if after != before || len(got) != 1 {
		t.Errorf("the survivor is %+v, want %+v; %d records", after, before, len(got))
	}
	b.clock.Move(time.Hour)
	b.passes(b.open())
	f := b.read()
	if f.sends["u1@example.com"] != 1 || f.sends["known@example.com"] != 1 {
		t.Errorf("mails to %v, want one before the merge, and one to the survivor", f.sends)
	}
	for name, want := range map[string]int64{"wait/entered": 1, "wait/passed": 1, "wait/exited": 0, "remind/passed": 1} {
		if n := f.counts["journey/cart/"+name]; n != want {
			t.Errorf("%s is %d, want %d", name, n, want)
		}
	}
}

// A survivor who has a place keeps it; so does one who may enter once and was in, and
// one who has entered since. The place of the one who goes ends then.
func TestASurvivorKeepsItsOwnPlace(t *testing.T) {
	at := uint32(time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC).Unix())
	for _, x := range []struct {
		name  string
		again bool
		own   journey.Record
		moves bool
	}{
		{"never in", false, journey.Record{}, true},
		{"inside", true, journey.Record{State: journey.StateInside, Version: 1, Step: 1, Due: at + 1, Entered: at - 99}, false},
		{"watched", true, journey.Record{State: journey.StateWatching, Version: 1, Step: 1, Due: at + 1, Entered: at - 99}, false},
		{"held", true, journey.Record{State: journey.StateControl, Version: 1, Entered: at - 99}, false},
		{"was in, once", false, journey.Record{State: journey.StateFinished, Version: 1, Entered: at - 99}, false},
		{"was in, may again", true, journey.Record{State: journey.StateExited, Version: 1, Entered: at - 99}, true},
		{"entered since", true, journey.Record{State: journey.StateFinished, Version: 1, Entered: at}, false},
	} {
		b := newBed(t, 3)
		text := leftCart
		if x.again {
			text = strings.Replace(text, "{when: {event: cart}}", "{when: {event: cart}, again_after: 0s}", 1)
		}
		j := b.publish(text)
		for _, home := range []int{0, 1} { // of the one who goes
			p := b.open()
			c := p.begin()
			r := journey.Record{State: journey.StateInside, Version: 1, Step: 1, Due: at + 3600, Entered: at}
			if err := c.set(t.Context(), p.journeys[0], 2, &x.own); err != nil {
				t.Fatal(err)
			}
			if home == 0 {
				if err := c.set(t.Context(), p.journeys[0], 1, &r); err != nil {
					t.Fatal(err)
				}
			}
			if err := c.commit(t.Context()); err != nil {
				t.Fatal(err)
			}
			left := b.read().counts["journey/cart/wait/exited"]
			if home == 0 {
				b.merge(10, 1, user.ID{Number: 2})
			} else {
				r.Former = 7
				place := journey.Place{Record: r}
				b.fact(20, 2, journey.FactPlace, "cart", place.Text())
			}
			b.passes(b.open())
			got := b.records(j)[2]
			if moved := got.Entered == r.Entered && got.Former != 0; moved != x.moves || !x.moves && got != x.own {
				t.Errorf("%s, home %d: the survivor is %+v", x.name, home, got)
			}
			if left = b.read().counts["journey/cart/wait/exited"] - left; left == 1 == x.moves {
				t.Errorf("%s, home %d: %d have left", x.name, home, left)
			}
		}
	}
}

// Who has been in a journey that is entered once, and is merged, has the survivor not enter
// it again: to the end or taken out, of the same partition or of another one.
func TestASurvivorHasBeenIn(t *testing.T) {
	sluice.WriteNewForms()
	at := uint32(time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC).Unix())
	for _, state := range []journey.State{journey.StateFinished, journey.StateExited} {
		for _, into := range []user.ID{{Number: 2}, {Partition: 1, Number: 2}} {
			for _, own := range []journey.Record{{}, {State: journey.StateInside, Version: 1, Step: 1, Due: at + 7200, Entered: at - 9}} {
				b := newBed(t, 3)
				j := b.publish(leftCart)
				been := journey.Record{State: state, Version: 1, Entered: at - 99, Occurrence: 3, Former: 7}
				p := b.open()
				c := p.begin()
				for number, r := range map[int64]*journey.Record{1: &been, 2: &own} {
					if err := c.set(t.Context(), p.journeys[0], number, r); err != nil {
						t.Fatal(err)
					}
				}
				if err := c.takeWays(t.Context(), p.journeys[0], 1, []int{0, 2}); err != nil {
					t.Fatal(err)
				}
				if err := c.commit(t.Context()); err != nil {
					t.Fatal(err)
				}
				b.merge(2, 1, into)
				b.endAnywhere()
				if into.Partition != 0 {
					places := b.places()
					if len(places) != 1 || places[0].Key.Name != into.String() {
						t.Fatalf("%+v went to the other partition, want one place", places)
					}
					b.fact(3, 2, journey.FactPlace, "cart", places[0].Body) // it is played by this one
				}
				b.fact(4, 2, journey.FactEvent, "cart", "")
				b.endAnywhere()
				want := been
				want.Former = 0
				if own.State != journey.StateNone {
					want = own
				}
				got := b.records(j)
				if got[2] != want || state == journey.StateExited != (got[1] == been) {
					t.Errorf("%v, into %v who is %v: records %+v; want %+v", state, into, own.State, got, want)
				}
				if ways := b.ways(j, 2)[2]; own.State == journey.StateNone && !slices.Equal(ways, []int{0, 2}) {
					t.Errorf("%v, into %v: the survivor took the branches %v", state, into, ways)
				}
				if n := b.read().counts["journey/cart/wait/exited"]; n != 0 {
					t.Errorf("%d have left, want none", n)
				}
			}
		}
	}
}

// To a survivor of another partition a place travels as one item, however often the
// session ends. There it is taken over once, also if it comes again.
func TestAPlaceTravelsOnce(t *testing.T) {
	sluice.WriteNewForms()
	b := newBed(t, 3)
	j := b.publish(leftCart)
	b.fact(1, 1, journey.FactEvent, "cart", "")
	b.passes(b.open())
	before := b.records(j)[1]
	far := user.ID{Partition: 1, Number: 9}
	b.merge(2, 1, far)
	b.endAnywhere()
	all := b.places()
	if len(all) != 1 || all[0].Op != user.OpPlace || all[0].Key.Name != far.String() || all[0].Name != "cart" {
		t.Fatalf("items %+v, want one place for %s", all, far)
	}
	if got := b.records(j); got[1].State != journey.StateNone {
		t.Errorf("whose place has gone is %+v", got[1])
	}
	if n := b.read().counts["journey/cart/wait/exited"]; n != 0 {
		t.Errorf("%d have left, want none", n)
	}
	// The other partition, played by this one.
	b.fact(3, 3, journey.FactPlace, "cart", all[0].Body)
	b.fact(4, 3, journey.FactPlace, "cart", all[0].Body) // as if the first partition had gone back
	b.fact(5, 3, journey.FactPlace, "other", all[0].Body)
	b.endAnywhere()
	b.fact(6, 2, journey.FactPlace, "cart", "what nobody has written")
	p := b.open()
	b.passes(p)
	if dropped, lost := p.stats.Dropped.Load(), p.stats.Lost.Load(); dropped != 1 || lost != 0 {
		t.Errorf("%d places were dropped and %d people are in no version, want 1 and none", dropped, lost)
	}
	got := b.records(j)[3]
	if got.Former != step.MarkOf(user.ID{Number: 1}) {
		t.Errorf("the place bears the mark %d", got.Former)
	}
	got.Former = 0
	if got != before {
		t.Errorf("the survivor is %+v, want %+v", got, before)
	}
	b.clock.Move(time.Hour)
	b.endAnywhere()
	b.fact(7, 3, journey.FactPlace, "cart", all[0].Body) // behind the end of the way
	b.endAnywhere()
	if f := b.read(); f.sends["u3@example.com"] != 1 {
		t.Errorf("the survivor has %d mails, want 1", f.sends["u3@example.com"])
	}
}

// What is decided again after Redis has lost the last moments, and a merge in between,
// bears the same name: that of the user whose place it was.
func TestAMovedPersonsMailHasItsName(t *testing.T) {
	var ids []string
	for _, merged := range []bool{false, true} {
		b := newBed(t, 3)
		j := b.publish(strings.Replace(leftCart, "id: first, message: {template: x, tags: first}", "id: first, delay: {for: 1m}", 1))
		b.fact(1, 1, journey.FactEvent, "cart", "")
		b.passes(b.open())
		if merged {
			b.merge(2, 1, user.ID{Number: 2})
			b.passes(b.open())
			b.merge(3, 2, user.ID{Number: 3}) // once more: its profile is to have both
			profile := `{"former":["` + (user.ID{Number: 1}).String() + `","` + (user.ID{Number: 2}).String() + `"],"fields":{"email":"u3@example.com"}}`
			b.apply(&store.Effect{Users: &user.Changes{Put: []user.Row{{ID: user.ID{Number: 3}, Profile: profile}}}})
			b.passes(b.open())
			if r := b.records(j)[3]; r.State != journey.StateInside {
				t.Fatalf("the survivor is %+v", r)
			}
		}
		for range 2 {
			b.clock.Move(time.Hour + time.Minute)
			b.passes(b.open())
		}
		mails := b.mails("remind")
		if len(mails) != 1 {
			t.Fatalf("%d mails, want 1", len(mails))
		}
		ids = append(ids, mails[0])
	}
	if ids[0] != ids[1] {
		t.Errorf("the mail is called %s, and after merges %s", ids[0], ids[1])
	}
}

// An entry by a call lets a person into the journey that it names, with its context, and
// into no other.
func TestEntryByACall(t *testing.T) {
	b := newBed(t, 3)
	text := `
id: called
entry: {when: {api: true}}
steps:
  - {id: split, split: {if: {context: size, is: equals, value: big}, then: big, else: small}}
  - {id: big, message: {template: x, tags: big}}
  - {id: small, message: {template: x, tags: small}}
`
	j, other := b.publish(text), b.publish(strings.Replace(text, "id: called", "id: other", 1))
	b.fact(1, 1, journey.FactEntered, "called", `{"size":"big"}`)
	b.fact(2, 2, journey.FactEntered, "called", "")
	b.fact(3, 2, journey.FactEntered, "called", "") // once
	b.fact(4, 99, journey.FactEntered, "called", "")
	b.passes(b.open())
	if big, small := b.mails("big"), b.mails("small"); len(big) != 1 || len(small) != 1 {
		t.Errorf("%d big and %d small mails, want one each", len(big), len(small))
	}
	if n, m := len(b.records(j)), len(b.records(other)); n != 2 || m != 0 {
		t.Errorf("%d and %d people, want 2 and none", n, m)
	}
}

// What somebody did before a merge is told also if the merge is stored by then.
func TestFactsOfBeforeAMerge(t *testing.T) {
	b := newBed(t, 3)
	j := b.publish(leftCart)
	b.fact(1, 1, journey.FactEvent, "cart", "")
	b.merge(2, 1, user.ID{Number: 2})
	b.passes(b.open())
	if r := b.records(j)[2]; r.State != journey.StateInside {
		t.Errorf("the survivor is %+v", r)
	}
	if f := b.read(); f.sends["known@example.com"] != 1 {
		t.Errorf("mails %v, want one to the survivor", f.sends)
	}
}

const thanksCart = `
id: thanks
entry: {when: {event: cart}, again_after: 0s}
steps:
  - {id: waits, wait_for: {within: 7d, paths: [{name: came, when: {event: bought}, next: thank}], otherwise: exit}}
  - {id: thank, message: {template: x}}
`

// Of whom no fact can move where they are, no profile is read.
func TestProfilesOfWhomFactsConcern(t *testing.T) {
	b := newBed(t, 4)
	j := b.publish(thanksCart)
	p := b.open()
	for n, step := range []struct {
		name   string
		number int64
		want   string
	}{
		{"bought", 1, "[]"}, // who is in no journey waits for nothing
		{"cart", 2, "[2]"},
		{"cart", 2, "[]"}, // and is inside now
		{"bought", 2, "[2]"},
		{"bought", 2, "[]"},
	} {
		b.profiles = nil
		b.fact(uint64(n+1), step.number, journey.FactEvent, step.name, "")
		p.told = false // no entry of the log says that there is a fact
		b.passes(p)
		if got := fmt.Sprint(b.profiles); got != step.want {
			t.Errorf("%s of person %d: profiles of %s were read, want %s", step.name, step.number, got, step.want)
		}
	}
	if r := b.records(j)[2]; r.State != journey.StateFinished || b.read().sends["u2@example.com"] != 1 {
		t.Errorf("person 2 is %+v", r)
	}
}

// Who takes over a place while facts are told hears what comes behind that, also if no fact
// could move that person before.
func TestFactsBehindAMerge(t *testing.T) {
	b := newBed(t, 3)
	b.publish(thanksCart)
	p := b.open()
	b.fact(1, 1, journey.FactEvent, "cart", "")
	b.passes(p)
	b.fact(2, 2, journey.FactEvent, "bought", "")
	b.merge(3, 1, user.ID{Number: 2})
	b.fact(4, 2, journey.FactEvent, "bought", "")
	b.passes(p)
	if f := b.read(); f.sends["known@example.com"] != 1 {
		t.Errorf("mails %v, want one to the survivor", f.sends)
	}
}

// A rule that is waited for is asked anew by a merge: what it looks at may have come with it,
// to who waits, or have been the survivor's, who waits in the place of the other one now.
func TestRulesAreAskedAfterAMerge(t *testing.T) {
	const text = `
id: cart
entry: {when: {event: cart}}
steps:
  - id: wait
    wait_for: {within: 3d, paths: [{name: bought, when: {rule: {purchase: shoe, is: exists}}, next: thanks}], otherwise: remind}
  - {id: thanks, message: {template: x, tags: thanks}}
  - {id: remind, message: {template: x, tags: remind}}
`
	buyer := func(id user.ID) user.Row {
		return user.Row{ID: id, Profile: `{"external_id":"known","fields":{"email":"known@example.com"},"purchases":{"shoe":[1,1700000000000,1700000000000]}}`}
	}
	for _, x := range []struct {
		name           string
		goes, stays    int64
		waits, another bool // the one who goes waits; its place comes from another partition
	}{
		{"the one who goes has bought", 2, 1, false, false},
		{"the one who stays has bought", 1, 2, true, false},
		{"the one who stays has bought, and has the lower number", 2, 1, true, false},
		{"the one who stays has bought, in another partition", 2, 1, true, true},
	} {
		b := newBed(t, 3)
		j := b.publish(text)
		waits := x.stays
		if x.waits {
			waits = x.goes
		}
		b.fact(1, waits, journey.FactEvent, "cart", "")
		b.passes(b.open())
		stays := user.ID{Number: x.stays}
		if b.apply(&store.Effect{Users: &user.Changes{Put: []user.Row{buyer(stays)}}}); x.another {
			place := journey.Place{Record: b.records(j)[x.goes]}
			b.fact(2, x.stays, journey.FactTookIn, (user.ID{Partition: 1, Number: x.goes}).String(), "")
			b.fact(3, x.stays, journey.FactPlace, "cart", place.Text())
		} else {
			b.apply(&store.Effect{Users: &user.Changes{Put: []user.Row{{ID: user.ID{Number: x.goes}, MergedInto: stays}}}})
			b.fact(2, x.goes, journey.FactMerged, stays.String(), "")
			b.fact(2, x.stays, journey.FactTookIn, (user.ID{Number: x.goes}).String(), "")
		}
		b.passes(b.open())
		if r := b.records(j)[x.stays]; r.State != journey.StateFinished || b.read().sends["known@example.com"] != 1 {
			t.Errorf("%s: the survivor is %+v, and has %d mails", x.name, r, b.read().sends["known@example.com"])
		}
	}
}

// Who is merged away leaves no branches: nobody would ever remove them, and their string is
// bounded.
func TestMergedPeopleLeaveNoWays(t *testing.T) {
	b := newBed(t, 3)
	j := b.publish("id: cart\nentry: {when: {event: cart}}\nsteps:\n  - {id: which, split: {if: {attribute: plan, is: equals, value: gold}, then: wait, else: wait}}\n  - {id: wait, delay: {for: 1h}}\n")
	b.fact(1, 1, journey.FactEvent, "cart", "")
	b.passes(b.open())
	b.merge(2, 1, user.ID{Number: 2})
	b.passes(b.open())
	if all := b.ways(j, 3); len(all[1]) != 0 || len(all[2]) != 1 || b.records(j)[2].State != journey.StateInside {
		t.Errorf("ways %v, want one of person 2 alone; records %v", all, b.records(j))
	}
}
