package step

import (
	"cmp"
	"fmt"
	"math"
	"time"

	"sluice/journey"
	"sluice/lib/jsonscan"
	"sluice/user"
	"sluice/user/profile"
	"sluice/user/rule"
)

// MaxPeople are decided about at once.
const MaxPeople = rule.MaxProfiles

// Person is somebody who is decided about.
type Person struct {
	ID      user.ID
	Record  journey.Record
	Profile string // its text; empty: there is none any more
	Given   rule.Given
}

// Did is something that a person does in a step.
type Did struct {
	Person int // index
	Step   int
}

// Count is what is counted of a step.
type Count struct {
	Step int
	Path int // of Paths; -1: by Next, or the step itself
	What What
}

// What is counted of steps.
type What uint8

// What is counted.
const (
	Entered What = 1 + iota
	Passed
	Exited
)

// String returns the word that names of counts have.
func (w What) String() string { return [...]string{"", "entered", "passed", "exited"}[w] }

// Compare orders counts by step, what and path.
func (c Count) Compare(other Count) int {
	return cmp.Or(cmp.Compare(c.Step, other.Step), cmp.Compare(c.What, other.What), cmp.Compare(c.Path, other.Path))
}

// CountName names a count in the series: journey/ID/STEP/WHAT, and behind that the path.
func (j *Journey) CountName(journey string, c Count) string {
	s := &j.steps[c.Step]
	name := "journey/" + journey + "/" + s.ID + "/" + c.What.String()
	if c.Path >= 0 {
		name += "/" + s.Paths[c.Path].Name
	}
	return name
}

// Result is what becomes of people. It may be used again, which saves memory.
type Result struct {
	Records []journey.Record // by person
	Mails   []Did
	Updates []Did
	Goes    []Did
	Counts  map[Count]int

	at    [][]int32 // by step: who is there
	texts []string
	ids   []uint64
	holds []uint64
	given []rule.Given
}

// reset begins a new result.
func (r *Result) reset(people, steps int) {
	r.Records = append(r.Records[:0], make([]journey.Record, people)...)
	r.Mails, r.Updates, r.Goes = r.Mails[:0], r.Updates[:0], r.Goes[:0]
	if r.Counts == nil {
		r.Counts = make(map[Count]int)
	}
	clear(r.Counts)
	for len(r.at) < steps {
		r.at = append(r.at, nil)
	}
	for i := range r.at {
		r.at[i] = r.at[i][:0]
	}
}

// Enter lets people in at the first step, those of whom the rule of the journey holds.
// The others keep their records. It returns how many entered. Who is inside already
// must not be among them.
func (j *Journey) Enter(people []Person, now time.Time, out *Result) (entered int, err error) {
	out.reset(len(people), len(j.steps))
	if err := j.audience(people, now, out); err != nil {
		return 0, err
	}
	for i := range people {
		r := people[i].Record
		if j.o.Who == nil || out.holds[i] == 1 {
			if r.State != journey.StateNone && r.Occurrence < journey.MaxOccurrence {
				r.Occurrence++
			}
			r.State, r.Entered = journey.StateInside, second(now)
			entered++
		}
		out.Records[i] = r
		if r.State == journey.StateInside {
			out.arrive(j, i, j.first, now)
		}
	}
	return entered, j.walk(people, now, out)
}

// audience asks the rule of who may enter.
func (j *Journey) audience(people []Person, now time.Time, out *Result) error {
	if j.o.Who == nil {
		return nil
	}
	for i := range people {
		out.at[0] = append(out.at[0], int32(i))
	}
	err := out.match(j.o.Who, people, out.at[0], now)
	out.at[0] = out.at[0][:0]
	return err
}

// MayEnter reports whether a person may enter by now, as far as earlier times decide it.
func (j *Journey) MayEnter(p *Person, now time.Time) bool {
	switch p.Record.State {
	case journey.StateNone:
		return p.Profile != ""
	case journey.StateInside, journey.StateWatching:
		return false
	}
	return p.Profile != "" && j.o.Again >= 0 && !time.Unix(int64(p.Record.Entered), 0).Add(j.o.Again).After(now)
}

// match asks rules of some of the people: their bits are in holds.
func (r *Result) match(set *rule.Set, people []Person, some []int32, now time.Time) error {
	r.texts, r.ids, r.given = r.texts[:0], r.ids[:0], r.given[:0]
	for _, i := range some {
		r.texts = append(r.texts, people[i].Profile)
		r.ids = append(r.ids, people[i].ID.Hash())
		r.given = append(r.given, people[i].Given)
	}
	r.holds = append(r.holds[:0], make([]uint64, len(some))...)
	_, err := set.MatchGiven(r.texts, r.ids, now.UnixMilli(), r.given, r.holds)
	return err
}

// Due lets people go on whose time has come, MaxPeople at most. Their records must be
// of this version, and inside or watching.
//
// The idea. All people walk together, step by step in the order of the steps, which is
// one in which no way goes back. At a step there are those who have come so far: their
// profiles are read once for all rules of the step. So a person goes through any number
// of steps that do not wait, and each step is asked once for 512 people.
func (j *Journey) Due(people []Person, now time.Time, out *Result) error {
	out.reset(len(people), len(j.steps))
	for i := range people {
		r := people[i].Record
		out.Records[i] = r
		step := int(r.Step)
		switch {
		case r.State == journey.StateWatching:
			out.Records[i].State, out.Records[i].Due = journey.StateFinished, 0
		case people[i].Profile == "":
			out.exit(i, step)
		case step >= len(j.steps):
			return fmt.Errorf("person %s is in step %d of %d", people[i].ID, step, len(j.steps))
		case j.steps[step].Kind == Delay || j.steps[step].Kind == Wait: // it is over
			out.count(step, -1, Passed)
			out.arrive(j, i, j.steps[step].Next, now)
		default: // what kept the person is over: the hours without mail
			out.at[step] = append(out.at[step], int32(i))
		}
	}
	return j.walk(people, now, out)
}

// walk takes everybody as far as they go without waiting.
func (j *Journey) walk(people []Person, now time.Time, out *Result) error {
	for s := range j.steps {
		if len(out.at[s]) == 0 {
			continue
		}
		switch step := &j.steps[s]; step.Kind {
		case Choose:
			if err := j.choose(s, people, now, out); err != nil {
				return err
			}
		case Delay, Wait:
			for _, i := range out.at[s] {
				out.wait(int(i), s, step.Delay.end(now, j.o.Zone, zoneOf(&people[i], step.Delay.needsZone(j.o.Zone))))
			}
		case Message:
			for _, i := range out.at[s] {
				j.message(s, int(i), &people[i], now, out)
			}
		case Random:
			for _, i := range out.at[s] {
				path := j.chance(step, people[i].ID)
				out.count(s, path, Passed)
				out.arrive(j, int(i), step.Paths[path].Next, now)
			}
		case Update:
			for _, i := range out.at[s] {
				out.Updates = append(out.Updates, Did{int(i), s})
				out.pass(j, int(i), s, now)
			}
		case Go:
			for _, i := range out.at[s] {
				out.Goes = append(out.Goes, Did{int(i), s})
				out.count(s, -1, Passed)
				out.arrive(j, int(i), Finish, now)
			}
		default:
			return fmt.Errorf("step %s is of kind %d, which this program does not know", step.ID, step.Kind)
		}
	}
	return nil
}

// choose sends each by the first path whose rule holds.
func (j *Journey) choose(s int, people []Person, now time.Time, out *Result) error {
	step, here := &j.steps[s], out.at[s]
	if err := out.match(j.sets[s], people, here, now); err != nil {
		return fmt.Errorf("step %s: %w", step.ID, err)
	}
	for n, i := range here {
		path, next := -1, step.Next
		for p := range step.Paths {
			if out.holds[n]&(1<<p) != 0 {
				path, next = p, step.Paths[p].Next
				break
			}
		}
		out.count(s, path, Passed)
		out.arrive(j, int(i), next, now)
	}
	return nil
}

// message makes a mail, or keeps the person until mail may leave.
func (j *Journey) message(s, i int, p *Person, now time.Time, out *Result) {
	if j.o.Quiet != nil {
		until := j.o.Quiet.until(now, zoneOf(p, j.o.Quiet.Zone == nil))
		switch {
		case until.Equal(now):
		case j.o.Quiet.Skip:
			out.pass(j, i, s, now)
			return
		default:
			out.wait(i, s, until)
			return
		}
	}
	out.Mails = append(out.Mails, Did{i, s})
	out.pass(j, i, s, now)
}

// chance is the path of a person, the same at each time and in each version of which
// the weights are alike.
func (j *Journey) chance(step *Step, id user.ID) int {
	total := 0
	for i := range step.Paths {
		total += step.Paths[i].Weight
	}
	at := int(rule.Bucket(id, j.o.Seed+"/"+step.ID)) * total // in ten-thousandths
	for i := range step.Paths {
		if at -= step.Paths[i].Weight * buckets; at < 0 {
			return i
		}
	}
	return len(step.Paths) - 1
}

// buckets are how many rule.Bucket has.
const buckets = 10_000

// zoneOf returns a person's own zone, UTC if there is none, or if it is not wanted.
func zoneOf(p *Person, wanted bool) *time.Location {
	if !wanted {
		return time.UTC
	}
	m := jsonscan.Read(p.Profile)
	for m.Next() {
		if m.Key != "fields" {
			continue
		}
		fields := jsonscan.Read(m.Value.Raw)
		for fields.Next() {
			if fields.Key == "time_zone" {
				if zone := profile.Zone(fields.Value.Text()); zone != nil {
					return zone
				}
			}
		}
	}
	return time.UTC
}

// arrive puts a person at a step, or at the end of the way.
func (r *Result) arrive(j *Journey, i, step int, now time.Time) {
	if step != Finish {
		r.at[step] = append(r.at[step], int32(i))
		r.count(step, -1, Entered)
		return
	}
	record := &r.Records[i]
	record.State, record.Due = journey.StateFinished, 0
	if j.o.Watch > 0 {
		if end := time.Unix(int64(record.Entered), 0).Add(j.o.Watch); end.After(now) {
			record.State, record.Due = journey.StateWatching, second(end)
		}
	}
}

// pass lets a person go on behind a step.
func (r *Result) pass(j *Journey, i, step int, now time.Time) {
	r.count(step, -1, Passed)
	r.arrive(j, i, j.steps[step].Next, now)
}

// wait keeps a person at a step until a time.
func (r *Result) wait(i, step int, until time.Time) {
	record := &r.Records[i]
	record.State, record.Step, record.Due = journey.StateInside, uint16(step), second(until)
}

// exit takes a person out.
func (r *Result) exit(i, step int) {
	record := &r.Records[i]
	record.State, record.Due = journey.StateExited, 0
	r.count(step, -1, Exited)
}

func (r *Result) count(step, path int, what What) { r.Counts[Count{step, path, what}]++ }

// second is a moment as records have it, the next whole second.
func second(t time.Time) uint32 {
	s := t.Unix()
	if t.Nanosecond() > 0 {
		s++
	}
	return uint32(min(max(s, 1), math.MaxUint32-1))
}
