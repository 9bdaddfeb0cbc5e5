package simulate

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"sluice/journey"
	"sluice/journey/plan"
	"sluice/journey/step"
	"sluice/user"
)

// Bounds of a simulation, which is kept in memory.
const (
	MaxPeople     = 1_000_000
	MaxHappenings = 10_000_000
	MaxSamples    = 100
	MaxDays       = 3 * 366

	// MaxFollowing is how many facts may follow from mails and updates. More come of a
	// journey that lets people in again by what it does itself.
	MaxFollowing = 10_000_000
)

// Person is somebody who takes part.
type Person struct {
	Name    string // for samples
	ID      user.ID
	Profile string // as profile.Append writes it
}

// Happening is something that happens to a person. Kind, Name and Body of the fact are
// as in journey.Fact; without a kind it is a call of the API that lets the person
// enter, and Body is the context. The profile is changed as the store would.
type Happening struct {
	Person int // index
	At     time.Time
	Fact   journey.Fact
}

// Input is what is simulated.
type Input struct {
	Plan        *plan.Plan
	From, Until time.Time
	People      []Person
	Happenings  []Happening // in any order; those outside of the time are left out
	Samples     []int       // indexes of people whose ways are told
	Reactions   Reactions

	Caps    []journey.Cap
	Control int // percent of all people who get no marketing mail of any journey

	MaxFollowing int // fewer than the bound of that name; 0: that
}

// Outcome is what came of it.
type Outcome struct {
	Entered   int          `json:"entered"`    // times that somebody entered, those of the control group included
	Held      int          `json:"held"`       // of them in the control group
	NotLetIn  int          `json:"not_let_in"` // times that a limit of the entry kept somebody out
	Mails     int          `json:"mails"`
	Inside    int          `json:"inside"`   // people at the end
	Finished  int          `json:"finished"` // the same; those who are only watched for conversions included
	Exited    int          `json:"exited"`   // the same
	Steps     []StepCounts `json:"steps"`
	Converted []Conversion `json:"converted"`
	Ways      []Way        `json:"ways"` // of the samples, in their order
}

// StepCounts are what is counted of a step.
type StepCounts struct {
	ID      string        `json:"id"`
	Kind    plan.StepKind `json:"kind"`
	Entered int           `json:"entered"`
	Passed  int           `json:"passed"`
	Exited  int           `json:"exited"`
	Waiting int           `json:"waiting"` // at the end
	Mails   int           `json:"mails"`

	// Mails that were not made. These people passed.
	LeftOut  int `json:"left_out"` // quiet hours, or there is no address, or it is not wanted
	Capped   int `json:"capped"`
	Withheld int `json:"withheld"` // from the control group of all journeys

	Paths []PathCounts `json:"paths"`
}

// PathCounts is how many went a way out of a step that has several.
type PathCounts struct {
	Name   string `json:"name"`
	Passed int    `json:"passed"`
}

// Conversion is how many people converted, in the control group and else.
type Conversion struct {
	Name     string `json:"name"`
	People   int    `json:"people"`
	Held     int    `json:"held"`
	OfPeople int    `json:"of_people"` // how many entered: not held
	Not      int    `json:"of_held"`   // held
}

// Way is the way of one person.
type Way struct {
	Name  string `json:"name"`
	Moves []Move `json:"moves"`
}

// Move is one step of a way.
type Move struct {
	At   time.Time `json:"at"`
	Step string    `json:"step"` // empty: of the journey as a whole
	What string    `json:"what"` // entered, mail, passed, exited, waits until TIME, ...
	Path string    `json:"path"` // of passed, where there are several
}

// runner is a simulation that runs.
//
// The idea. There is one next moment: of the earliest due record, happening or
// schedule. At each all that happens is told first, then those go on who are due, up to
// step.MaxPeople at once, and then schedules let people in. So an exit at the very second at
// which a mail is due comes before the mail, and who is out by the second of a schedule may
// enter by it.
type runner struct {
	in       *Input
	over     func() error // whether the time for it is over
	journey  *step.Journey
	holding  *step.Journey // the same, but that people stay at message steps
	now      time.Time
	records  []journey.Record
	profiles []string
	context  string           // with which people enter by what is carried out
	contexts map[int32]string // of people inside, what the plan looks at after waits
	keeps    plan.Members

	dues      dues
	schedules []schedule
	next      int // of the happenings
	reactions reactions
	pace      pace

	mailings []step.Mailing   // by step
	mailed   []journey.Mailed // the same
	got      [][]got          // by person, the oldest first; nil: nobody asks
	ways     [][]int          // by person; nil: nobody asks

	sampled map[int32]*Way
	people  []step.Person
	befores []journey.Record // of people who were decided about
	out     step.Result
	unmade  []step.Count // mails of a decision

	today     int64 // of today's entries
	enteredOn int
	runRoom   int // of a run of a schedule
	runDay    int64
	ran       int // who have entered by the run of that day
	total     Outcome
	counts    map[step.Count]int
}

// Run simulates. It ends early with an error of ctx.
func Run(ctx context.Context, in Input) (*Outcome, error) {
	if len(in.People) > MaxPeople || len(in.Happenings) > MaxHappenings || len(in.Samples) > MaxSamples {
		return nil, fmt.Errorf("simulate journey: want at most %d people, %d happenings and %d samples, got %d, %d and %d",
			MaxPeople, MaxHappenings, MaxSamples, len(in.People), len(in.Happenings), len(in.Samples))
	}
	if in.Until.Before(in.From) || in.Until.Sub(in.From) > MaxDays*24*time.Hour {
		return nil, fmt.Errorf("simulate journey: want a time of at most %d days, got %s to %s", MaxDays, in.From, in.Until)
	}
	j, err := step.New(in.Plan)
	if err != nil {
		return nil, fmt.Errorf("simulate journey: %w", err)
	}
	in.Happenings = slices.Clone(in.Happenings)
	slices.SortStableFunc(in.Happenings, func(a, b Happening) int { return a.At.Compare(b.At) })
	r := &runner{in: &in, over: func() error { return context.Cause(ctx) }, journey: j, holding: j.Paused(), runRoom: math.MaxInt, records: make([]journey.Record, len(in.People)), profiles: make([]string, len(in.People)),
		contexts: make(map[int32]string), keeps: in.Plan.Context(), sampled: make(map[int32]*Way), counts: make(map[step.Count]int)}
	for i := range in.People {
		r.profiles[i] = in.People[i].Profile
	}
	for _, i := range in.Samples {
		if i < 0 || i >= len(in.People) {
			return nil, fmt.Errorf("simulate journey: sample %d is none of %d people", i, len(in.People))
		}
		r.sampled[int32(i)] = &Way{Name: in.People[i].Name}
	}
	for r.next < len(in.Happenings) && in.Happenings[r.next].At.Before(in.From) {
		r.next++
	}
	r.prepareMail()
	r.plan()
	r.out.Room = func(want int) (int, error) { return max(min(want, r.room(r.now), r.runRoom), 0), nil }
	if err := r.run(); err != nil {
		return nil, fmt.Errorf("simulate journey: %w", err)
	}
	return r.outcome(), nil
}

func (r *runner) run() error {
	for {
		now, ok := r.moment()
		if !ok || now.After(r.in.Until) {
			return nil
		}
		if err := r.over(); err != nil {
			return err
		}
		if most := cmp.Or(r.in.MaxFollowing, MaxFollowing); r.reactions.made > most {
			return fmt.Errorf("more than %d things follow from mails and updates of the journey: does it let people in again by what it does itself? Set entry.again_after, or simulate fewer people or days", most)
		}
		r.now = now
		for ; r.next < len(r.in.Happenings) && !r.in.Happenings[r.next].At.After(now); r.next++ {
			if err := r.tell(&r.in.Happenings[r.next], now); err != nil {
				return err
			}
		}
		if err := r.react(now); err != nil {
			return err
		}
		if err := r.goOn(r.dues.until(now), now); err != nil {
			return err
		}
		if err := r.release(now); err != nil {
			return err
		}
		if err := r.goOnPaced(now); err != nil {
			return err
		}
	}
}

// moment is the next at which anything happens.
func (r *runner) moment() (next time.Time, ok bool) {
	earlier := func(t time.Time) {
		if !ok || t.Before(next) {
			next, ok = t, true
		}
	}
	if at, some := r.dues.first(); some {
		earlier(at)
	}
	if r.next < len(r.in.Happenings) {
		earlier(r.in.Happenings[r.next].At)
	}
	if r.reactions.Len() > 0 {
		earlier(r.reactions.all[0].At)
	}
	if len(r.pace.queue) > 0 {
		earlier(r.pace.next(r.in.Plan.PerMinute))
	}
	for i := range r.schedules {
		earlier(r.schedules[i].at)
	}
	return next, ok
}

// goOn lets people go on who are due. Those whom the rate of mails decides about wait
// for it.
func (r *runner) goOn(due []int32, now time.Time) error {
	slices.Sort(due) // in the order of the profiles, and each once
	due = slices.DeleteFunc(slices.Compact(due), func(i int32) bool {
		paced := r.isDue(i, now) && r.paces(i)
		if paced {
			r.pace.queue = append(r.pace.queue, i)
		}
		return paced
	})
	return r.move(due, now, r.walk())
}

// isDue reports whether a person is due still: others have moved meanwhile.
func (r *runner) isDue(person int32, now time.Time) bool {
	rec := &r.records[person]
	return rec.Waits() && int64(rec.Due) <= now.Unix()
}

// move lets those of some people go on who are due.
func (r *runner) move(some []int32, now time.Time, walk *step.Journey) error {
	some = slices.DeleteFunc(some, func(i int32) bool { return !r.isDue(i, now) })
	return r.inBatches(some, func(some []int32) error {
		if err := walk.Due(r.these(some), now, &r.out); err != nil {
			return err
		}
		r.settle(some, now)
		return nil
	})
}

// inBatches calls f for as many people as can be decided at once; samples are alone.
func (r *runner) inBatches(all []int32, f func([]int32) error) error {
	batch := make([]int32, 0, step.MaxPeople)
	for n, i := range all {
		if len(batch) == 0 { // all may be let in at one moment
			if err := r.over(); err != nil {
				return err
			}
		}
		if r.sampled[i] != nil {
			if err := f([]int32{i}); err != nil {
				return err
			}
		} else {
			batch = append(batch, i)
		}
		if len(batch) == step.MaxPeople || n == len(all)-1 && len(batch) > 0 {
			if err := f(batch); err != nil {
				return err
			}
			batch = batch[:0]
		}
	}
	return nil
}

// these are people as package step wants them.
func (r *runner) these(some []int32) []step.Person {
	r.people = r.people[:0]
	for _, i := range some {
		p := step.Person{ID: r.in.People[i].ID, Record: r.records[i], Profile: r.profiles[i], Ways: r.waysOf(i)}
		p.Given.Context, p.Given.Known = r.contexts[i], r.known(i, r.now)
		if r.records[i].State != journey.StateInside {
			p.Given.Context = r.context
		}
		r.people = append(r.people, p)
	}
	return r.people
}

// settle takes over what was decided about some people, and has follow what follows.
func (r *runner) settle(some []int32, now time.Time) {
	r.befores = r.befores[:0]
	for n, i := range some {
		before := r.records[i]
		r.befores = append(r.befores, before)
		r.records[i] = r.out.Records[n]
		if inside := r.records[i].State == journey.StateInside; r.keeps.Any() && inside != (before.State == journey.StateInside) {
			delete(r.contexts, i)
			if kept := r.keeps.Of(r.context); inside && kept != "" {
				r.contexts[i] = kept
			}
		}
		if rec := &r.records[i]; rec.Waits() && *rec != before {
			r.dues.add(rec.Due, i)
		}
	}
	r.keepWays(some, r.befores)
	r.judge(some, now)
	for n, i := range some {
		if way := r.sampled[i]; way != nil {
			r.note(way, i, &r.befores[n], now)
		}
	}
	entered := r.out.Counts[step.Count{Step: 0, Path: -1, What: step.Entered}] + r.out.Counts[step.Count{Step: 0, Path: -1, What: step.Held}]
	r.total.Entered += entered
	r.runRoom -= entered
	r.enteredToday(now, entered)
	for c, n := range r.out.Counts {
		r.counts[c] += n
	}
	r.pace.tokens -= float64(len(r.out.Mails))
	for _, did := range r.out.Mails {
		r.total.Mails++
		r.counts[step.Count{Step: did.Step, Path: -1, What: whatMail}]++
	}
	for _, did := range r.out.Updates {
		r.update(some[did.Person], did.Step, now)
	}
}

// whatMail counts mails among what package step counts.
const whatMail step.What = 200

// outcome sums up.
func (r *runner) outcome() *Outcome {
	o := &r.total
	o.Converted, o.Ways = []Conversion{}, []Way{}
	for i := range r.in.Plan.Steps {
		s := &r.in.Plan.Steps[i]
		count := func(path int, what step.What) int { return r.counts[step.Count{Step: i, Path: path, What: what}] }
		c := StepCounts{Paths: []PathCounts{}, ID: s.ID, Kind: s.Kind, Entered: count(-1, step.Entered), Exited: count(-1, step.Exited), Mails: count(-1, whatMail),
			LeftOut: count(-1, step.LeftOut), Capped: count(-1, step.Capped), Withheld: count(-1, step.Withheld), Passed: count(-1, step.Passed)}
		others := c.Passed
		for n := range s.Paths {
			c.Paths = append(c.Paths, PathCounts{s.Paths[n].Name, count(n, step.Passed)})
			c.Passed += count(n, step.Passed)
		}
		if s.Otherwise >= 0 && len(s.Paths) > 0 {
			c.Paths = append(c.Paths, PathCounts{s.OtherwiseName(), others})
		}
		o.Steps = append(o.Steps, c)
	}
	o.NotLetIn = r.counts[step.Count{Step: 0, Path: -1, What: step.Limited}]
	o.Held = r.counts[step.Count{Step: 0, Path: -1, What: step.Held}]
	for i := range r.records {
		switch rec := &r.records[i]; rec.State {
		case journey.StateInside:
			o.Inside++
			o.Steps[rec.Step].Waiting++
		case journey.StateFinished, journey.StateWatching:
			o.Finished++
		case journey.StateExited:
			o.Exited++
		}
	}
	for i := range r.in.Plan.Conversions {
		o.Converted = append(o.Converted, Conversion{Name: r.in.Plan.Conversions[i].Name,
			People: r.counts[step.Count{Step: 0, Path: i, What: step.Converted}], Held: r.counts[step.Count{Step: 0, Path: i, What: step.HeldConverted}],
			OfPeople: o.Entered - o.Held, Not: o.Held})
	}
	for _, i := range r.in.Samples {
		o.Ways = append(o.Ways, *r.sampled[int32(i)])
	}
	return o
}

// String writes the outcome for people, a line a step, then the ways of the samples.
func (o *Outcome) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "entered %d, of them in the control group %d, kept out by limits %d\n", o.Entered, o.Held, o.NotLetIn)
	fmt.Fprintf(&b, "mails %d; at the end inside %d, finished %d, exited %d\n\n", o.Mails, o.Inside, o.Finished, o.Exited)
	fmt.Fprintf(&b, "%-24s %-10s %9s %9s %9s %9s %9s\n", "step", "kind", "entered", "passed", "exited", "waiting", "mails")
	for i := range o.Steps {
		s := &o.Steps[i]
		fmt.Fprintf(&b, "%-24s %-10s %9d %9d %9d %9d %9d\n", s.ID, s.Kind, s.Entered, s.Passed, s.Exited, s.Waiting, s.Mails)
		for _, no := range []struct {
			mail string
			n    int
		}{{"left out", s.LeftOut}, {"capped", s.Capped}, {"withheld", s.Withheld}} {
			if no.n > 0 {
				fmt.Fprintf(&b, "  %-33s %49d\n", no.mail, no.n)
			}
		}
		for _, p := range s.Paths {
			fmt.Fprintf(&b, "  %-33s %19d\n", p.Name, p.Passed)
		}
	}
	for _, c := range o.Converted {
		fmt.Fprintf(&b, "\nconverted (%s): %d of %d; in the control group %d of %d\n", c.Name, c.People, c.OfPeople, c.Held, c.Not)
	}
	for i := range o.Ways {
		fmt.Fprintf(&b, "\n%s\n", o.Ways[i].Name)
		for _, m := range o.Ways[i].Moves {
			fmt.Fprintf(&b, "  %s  %-24s %s\n", m.At.UTC().Format(time.DateTime), m.Step, strings.TrimSpace(m.What+" "+m.Path))
		}
	}
	return b.String()
}
