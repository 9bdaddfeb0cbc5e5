package run

import (
	"context"
	"slices"

	"sluice/flow"
	"sluice/journey"
	"sluice/journey/plan"
	"sluice/journey/step"
	"sluice/user"
)

// What one commit, and one group of people, may come to in bytes.
//
// The idea. People are counted where they are read: so many units, so many of a group. But a
// mail may have 4 KiB, an update much more, a profile 4 MiB, and who goes from journey to
// journey by one decision has the mails of all. So a version knows to how many bytes one
// person comes at most, and a group is no more people than come to decisionBytes. A commit
// that has as much takes no other group. Who would go on into another journey by it stays at
// the step go, and who enters by a fact stays at the first step that makes something: both
// are due at once, and the next commits have them.
//
// The invariant. A commit that began empty moves one person at least, so nobody stays for
// good. It has decisionBytes, and up to a group more, and what one fact comes to without
// mails and updates.
//
// What was dropped. To divide what is too large when it is committed: records, mails and the
// place of a fact belong together. To refuse it: the partition could only try the same again.
const (
	decisionBytes = flow.CommitBytes / 2

	// profilesBytes bounds the profiles that are in memory for a group of people or a page of
	// facts, and up to a profile more, or those whom one item names.
	profilesBytes = 32 << 20

	// goneAtOnce bounds how many former users are asked for at once: their rows have profiles.
	goneAtOnce = 16

	// mailBytes is what a mail has beside its content: names, address, ids, times. Of the
	// context it has contextBytes more, mostly.
	mailBytes    = 256
	contextBytes = 1 << 10

	// updateBytes is what an update has beside its body.
	updateBytes = 64
)

// bytesOf is what a step of a version comes to, for one person.
func (v *version) bytesOf(at int) int {
	s := &v.walk.Plan().Steps[at]
	switch m := v.mails[at]; {
	case s.Kind == plan.StepUpdate:
		return updateBytes + len(s.Update)
	case m == nil:
		return 0
	case m.with != nil:
		return mailBytes + contextBytes + len(m.send.Content)
	default:
		return mailBytes + len(m.send.Content)
	}
}

// weigh finds of how many people a decision may be.
func (v *version) weigh() {
	v.mostBytes = max(v.walk.Most(v.bytesOf), 1)
	v.atOnce = max(min(mailsAtOnce/max(v.walk.MostMails(), 1), decisionBytes/v.mostBytes), 1)
}

// bytesNow is what the commit comes to so far.
func (c *change) bytesNow() int { return len(c.items) + c.bytes + c.wayBytes }

// heavy reports whether the commit has as much as it may.
func (c *change) heavy() bool { return c.bytesNow() >= decisionBytes }

// goers finds for whom of those who go on into other journeys the commit has room; the
// others stay at their step. One who was there before goes all the same, if nobody else does:
// so a version of which one person comes to more than a commit lets people in.
type goers struct {
	c     *change
	bytes int
	many  map[*inside]int
	gone  bool
}

// takes reports whether a person goes on now. at is the step go.
func (g *goers) takes(target *inside, p *step.Person, at int) bool {
	v := target.current
	if v == nil { // nobody enters: it costs nothing
		return true
	}
	was := p.Record.State == journey.StateInside && int(p.Record.Step) == at
	cost := v.mostBytes + len(p.Given.Context)
	fits := g.bytes+cost <= decisionBytes && g.many[target] < v.atOnce && len(g.c.order) < changeUnits
	if !fits && (g.gone || !was) {
		return false
	}
	g.bytes, g.gone = g.bytes+cost, true
	g.many[target]++
	return true
}

// readProfiles reads the profiles of people, who are in the order of their numbers, and
// returns of how many of the first of them it has: those who are missing among them. Where
// profiles are large it is not all, and their order may be another one.
func (p *part) readProfiles(ctx context.Context, people []step.Person) (n int, err error) {
	bytes := 0
	take := func(at int, profile string) bool {
		people[at].Profile = profile
		bytes += len(profile)
		return bytes < profilesBytes
	}
	first, last := people[0].ID.Number, people[len(people)-1].ID.Number
	if span := last - first + 1; span <= rangeFactor*int64(len(people)) {
		next := 0
		err = p.store.EachProfile(ctx, p.log.Partition(), first-1, int(span), func(number int64, profile string) bool {
			for next < len(people) && people[next].ID.Number < number {
				next++
			}
			if next < len(people) && people[next].ID.Number == number && !take(next, profile) {
				return false
			}
			return number < last
		})
	} else {
		numbers := make([]int64, len(people))
		for i := range people {
			numbers[i] = people[i].ID.Number
		}
		err = p.store.ProfilesOf(ctx, p.log.Partition(), numbers, func(number int64, profile string) bool {
			at, ok := slices.BinarySearch(numbers, number)
			return !ok || take(at, profile)
		})
	}
	if err != nil || bytes < profilesBytes {
		return len(people), err
	}
	some, others := make([]step.Person, 0, len(people)), make([]step.Person, 0, len(people))
	for i := range people {
		if people[i].Profile != "" {
			some = append(some, people[i])
		} else {
			others = append(others, people[i])
		}
	}
	copy(people, slices.Concat(some, others))
	return len(some), nil
}

// profilesOf reads the profiles of people whom facts are about, of those who are asked for, as
// they are now. It returns of how many of the first facts it has them: of all, unless they are
// large. What somebody did before a merge is told with the profile of the survivor: the fact of
// the merge comes behind it.
func (p *part) profilesOf(ctx context.Context, facts []journey.Fact, asked map[int64]bool) (profiles map[user.ID]string, told int, err error) {
	var numbers []int64 // in the order of the facts
	seen := make(map[int64]bool)
	for i := range facts {
		if n := facts[i].Number; asked[n] && !seen[n] {
			seen[n] = true
			numbers = append(numbers, n)
		}
	}
	profiles = make(map[user.ID]string, len(numbers))
	if len(numbers) == 0 {
		return profiles, len(facts), nil
	}
	bytes, err := p.addProfiles(ctx, profiles, numbers)
	if err != nil || bytes < profilesBytes {
		return profiles, len(facts), err
	}
	clear(profiles)
	clear(seen)
	bytes = 0
	for told < len(facts) {
		f := &facts[told]
		if bytes >= profilesBytes && told > 0 && f.Place != facts[told-1].Place {
			return profiles, told, nil
		}
		if asked[f.Number] && !seen[f.Number] {
			seen[f.Number] = true
			n, err := p.addProfiles(ctx, profiles, []int64{f.Number})
			if err != nil {
				return nil, 0, err
			}
			bytes += n
		}
		told++
	}
	return profiles, told, nil
}

// addProfiles reads profiles until they have profilesBytes, and returns how many they have.
func (p *part) addProfiles(ctx context.Context, profiles map[user.ID]string, numbers []int64) (bytes int, err error) {
	id := func(number int64) user.ID { return user.ID{Partition: p.log.Partition(), Number: number} }
	err = p.store.ProfilesOf(ctx, p.log.Partition(), numbers, func(number int64, profile string) bool {
		profiles[id(number)] = profile
		bytes += len(profile)
		return bytes < profilesBytes
	})
	if err != nil || bytes >= profilesBytes {
		return bytes, err
	}
	var gone []user.ID // or merged: nearly always nobody is
	for _, n := range numbers {
		if _, ok := profiles[id(n)]; !ok {
			gone = append(gone, id(n))
		}
	}
	for len(gone) > 0 && bytes < profilesBytes {
		some := gone[:min(len(gone), goneAtOnce)]
		gone = gone[len(some):]
		a, err := p.store.Users(ctx, user.Query{IDs: some})
		if err != nil {
			return 0, err
		}
		for _, id := range some {
			if row, ok := a.Owner(id); ok {
				profiles[id] = row.Profile
				bytes += len(row.Profile)
			}
		}
	}
	return bytes, nil
}
