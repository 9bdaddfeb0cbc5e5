package step

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"
	"time"

	"sluice/journey"
	"sluice/journey/plan"
	"sluice/user"
	"sluice/user/rule"
)

// MaxPeople are decided about at once.
const MaxPeople = rule.MaxProfiles

// Person is somebody who is decided about.
type Person struct {
	ID      user.ID
	Record  journey.Record
	Profile string     // its text; empty: there is none any more
	Given   rule.Given // what rules may ask beside it

	// Ways are the branches taken before, if the rules of the journey ask what was
	// passed in itself.
	Ways []int

	// Of is the version that the record is of, where a newer one decides about the person: in
	// that, conversions may have other numbers. nil: it is the same, or not known any more.
	Of *Journey

	// By is what the caller has to know of how the person comes to a journey.
	By uint8

	// EnteredAt is the second of what lets the person in, for Enter, or has the person go on;
	// 0: now. The same fact, or run, that is met again after Redis has gone back has the
	// same one, and so its mails have the same names.
	EnteredAt uint32
}

// Did is something that a person does in a step.
type Did struct {
	Person int // index
	Step   int
}

// Bounds of missingAgain.
const (
	missingLeast = 5 * time.Second
	missingMost  = 10 * time.Minute
)

// missingAgain is when is looked again at a person who has no profile. A database that
// has gone back by some seconds lacks those whom it met in these seconds, and has them
// again soon. So who entered just now does not wait long, and each look waits twice as
// long as the one before it.
func missingAgain(r *journey.Record, now time.Time) time.Duration {
	return min(max(now.Sub(time.Unix(int64(r.Entered), 0)), missingLeast), missingMost)
}

// Way is a branch that a person took, by its number in the plan.
type Way struct {
	Person int // index
	Branch int
}

// Count is what is counted of a step.
type Count struct {
	Step int
	Path int // of its paths, or the number of a conversion; -1: none
	What What
}

// What is counted of steps.
type What uint8

// What is counted.
const (
	Entered What = 1 + iota
	Passed
	Exited
	LeftOut   // mail: for the quiet hours, or nobody wants it, or there is no address, or it was overdue
	Converted // Path is the conversion
	Held      // entered, and is in the control group
	HeldConverted
	Capped   // mail: the person got as much as caps allow
	Limited  // wanted to enter, and as many had as the journey lets in
	Withheld // mail: the person is in the control group of all journeys
	Treated  // entered, and is not in the control group: of versions with conversions or such a group

	// ConvertedAt is Converted by the step where the person is then, or went to the end by.
	ConvertedAt

	// GlobalControl and GlobalOthers are entries and conversions of those who go through the
	// journey, by whether they are in the control group of all journeys. Step is its
	// percentage, Path the conversion; -1: an entry.
	GlobalControl
	GlobalOthers
)

// String returns the word that names of counts have.
func (w What) String() string {
	return [...]string{"", "entered", "passed", "exited", "left_out", "converted", "held", "held_converted", "capped", "limited", "withheld", "treated", "converted", "global_control", "global_others"}[w]
}

// Compare orders counts by step, what and path.
func (c Count) Compare(other Count) int {
	return cmp.Or(cmp.Compare(c.Step, other.Step), cmp.Compare(c.What, other.What), cmp.Compare(c.Path, other.Path))
}

// CountName names a count in the series: journey/ID/STEP/WHAT, and behind that the
// path or the conversion; of a conversion over all steps journey/ID/WHAT/NAME. Of a group of
// all journeys (GlobalGroup) it is journey/ID/GROUP/entered, or converted/NAME.
func (j *Journey) CountName(c Count) string {
	if c.What == GlobalControl || c.What == GlobalOthers {
		name := "journey/" + j.p.ID + "/" + GlobalGroup(c.What, c.Step) + "/"
		if c.Path < 0 {
			return name + Entered.String()
		}
		return name + Converted.String() + "/" + j.p.Conversions[c.Path].Name
	}
	if c.What == Converted || c.What == HeldConverted {
		return "journey/" + j.p.ID + "/" + c.What.String() + "/" + j.p.Conversions[c.Path].Name
	}
	s := &j.p.Steps[c.Step]
	name := "journey/" + j.p.ID + "/" + s.ID + "/" + c.What.String()
	switch {
	case c.What == ConvertedAt:
		name += "/" + j.p.Conversions[c.Path].Name
	case c.Path >= 0:
		name += "/" + s.Paths[c.Path].Name
	}
	return name
}

// PathCountName names the count of a conversion by those who took a path of a random step
// with a control: journey/ID/STEP/converted/PATH/NAME.
func (j *Journey) PathCountName(x Experiment, conversion int) string {
	return "journey/" + j.p.ID + "/" + x.Step + "/" + Converted.String() + "/" + x.Path + "/" + j.p.Conversions[conversion].Name
}

// Result is what becomes of people. It may be used again, which saves memory.
type Result struct {
	Records []journey.Record // by person
	Mails   []Did
	Updates []Did
	Goes    []Did
	Ways    []Way // branches that were taken, in their order
	Counts  map[Count]int

	// Room takes room for people who enter, and returns for how many there is; nil: for
	// all. It is for Enter, and Fact.
	Room func(want int) (int, error)

	// Closed: nobody enters by a fact.
	Closed bool

	// ByRun: people enter by a run. Who is kept at a step then is due as of its time.
	ByRun bool

	// GlobalControl is the percentage of all people who get no marketing mail of any journey,
	// by whom entries and conversions are counted too; 0: there are none.
	GlobalControl int

	// Waited: the fact is one that a step has waited for, and of its properties Context, which
	// is the person's from now on, has what is looked at later.
	Waited  bool
	Context string

	due   bool      // people go on whose time has come
	at    [][]int32 // by step: who is there
	texts []string
	ids   []uint64
	given []rule.Given
	holds []uint64
}

// reset begins a new result.
func (r *Result) reset(people, steps int) {
	r.Records = append(r.Records[:0], make([]journey.Record, people)...)
	r.Waited, r.Context, r.due = false, "", false
	r.Mails, r.Updates, r.Goes, r.Ways = r.Mails[:0], r.Updates[:0], r.Goes[:0], r.Ways[:0]
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

// Stop takes people out because the journey was stopped. Who has finished already is
// watched no longer, and leaves no step. Others stay as they are.
func (j *Journey) Stop(people []Person, now time.Time, out *Result) {
	out.reset(len(people), len(j.p.Steps))
	for i := range people {
		out.Records[i] = people[i].Record
		switch people[i].Record.State {
		case journey.StateInside:
			out.exit(i, min(int(people[i].Record.Step), len(j.p.Steps)-1), journey.Cause{Kind: journey.CauseStopped}, second(now))
		case journey.StateWatching:
			out.Records[i].State, out.Records[i].Due = journey.StateFinished, 0
		}
	}
}

// Stay takes back that somebody has passed a step.
func (r *Result) Stay(at int) {
	key := Count{at, -1, Passed}
	if r.Counts[key]--; r.Counts[key] == 0 {
		delete(r.Counts, key)
	}
}

// NoMail counts a mail of a step that was not made in the end (Mailing.Judge).
func (r *Result) NoMail(at int, why What) { r.count(at, -1, why) }

// Enter lets people in at the first step, those of whom the rule of the journey holds.
// The others keep their records. It returns how many entered. People of whom MayEnter
// says no must not be among them.
func (j *Journey) Enter(people []Person, now time.Time, out *Result) (entered int, err error) {
	out.reset(len(people), len(j.p.Steps))
	everybody := j.p.Entry.Who == nil
	if !everybody {
		some := make([]int32, len(people))
		for i := range some {
			some[i] = int32(i)
		}
		if err := out.match(j.p.Entry.Who, people, some, now); err != nil {
			return 0, err
		}
	}
	room, err := out.room(everybody, len(people))
	if err != nil {
		return 0, err
	}
	for i := range people {
		r := people[i].Record
		if !everybody && out.holds[i] == 0 {
			out.Records[i] = r
			continue
		}
		if entered == room {
			out.Records[i] = r
			out.count(0, -1, Limited)
			continue
		}
		entered++
		out.Records[i] = r.Again(cmp.Or(people[i].EnteredAt, second(now)))
		if j.p.Control > 0 && int(rule.Bucket(people[i].ID, "control/"+j.p.ID)) < j.p.Control {
			out.Records[i].State = journey.StateControl
			out.count(0, -1, Held)
			continue
		}
		if j.p.Control > 0 || len(j.p.Conversions) > 0 {
			out.count(0, -1, Treated)
		}
		out.countGlobal(j, &people[i], &out.Records[i], -1)
		out.arrive(j, i, 0, now)
	}
	return entered, j.walk(people, now, out)
}

// room takes room for those who want to enter: all, or those of whom the rule holds.
func (r *Result) room(everybody bool, people int) (int, error) {
	want := people
	if !everybody {
		want = 0
		for _, holds := range r.holds[:people] {
			want += int(holds & 1)
		}
	}
	if r.Room == nil || want == 0 {
		return want, nil
	}
	return r.Room(want)
}

// MayEnter reports whether a person may enter by now, as far as earlier times decide. What
// lets the person in may be later than now, where the clock of this process is behind.
func (j *Journey) MayEnter(p *Person, now time.Time) bool {
	switch p.Record.State {
	case journey.StateNone:
		return p.Profile != ""
	case journey.StateInside, journey.StateWatching:
		return false
	}
	again, ok := j.AgainAt(&p.Record)
	return p.Profile != "" && ok && again <= max(now.Unix(), int64(p.EnteredAt))
}

// AgainAt returns the Unix second from which on somebody who is out may enter again; false:
// never.
//
// Who is in the control group may enter no earlier than one who has finished and is watched
// for a conversion: else the group would have more entries for as many conversions. Nobody
// takes people out of that group. So who was taken out, beside such a group, is watched to the
// end too.
func (j *Journey) AgainAt(r *journey.Record) (unix int64, ok bool) {
	after := j.p.Entry.AgainSeconds
	if r.State == journey.StateControl || j.p.Control > 0 { // who has finished is watched so long anyway
		after = max(after, j.watch)
	}
	return int64(r.Entered) + after, !j.p.Entry.Once
}

// Due lets people go on whose time has come, MaxPeople at most. Their records must be
// of this version, and inside or watching.
//
// The idea. All people walk together, step by step in an order of the steps in which no
// way goes back. At a step there are those who have come so far: their profiles are
// read once for all rules of the step. So a person goes through any number of steps
// that do not wait, and each step is asked once for 512 people.
func (j *Journey) Due(people []Person, now time.Time, out *Result) error {
	out.reset(len(people), len(j.p.Steps))
	out.due = true
	for i := range people {
		r := people[i].Record
		out.Records[i] = r
		at := int(r.Step)
		switch {
		case r.State == journey.StateWatching:
			out.Records[i].State, out.Records[i].Due = journey.StateFinished, 0
		case at >= len(j.p.Steps), people[i].Profile == "":
			// A fact says who is deleted or merged. A row that is missing without one may
			// be of a database that has gone back, and come again; so may a version.
			out.Records[i].Due = second(now.Add(missingAgain(&people[i].Record, now)))
			if at < len(j.p.Steps) && j.p.Steps[at].Kind == plan.StepGo {
				out.Records[i].Rank = journey.RankMissing
			}
		default:
			j.leave(i, at, now, out)
		}
	}
	return j.walk(people, now, out)
}

// leave lets a person go on who has waited at a step until the end.
func (j *Journey) leave(i, at int, now time.Time, out *Result) {
	s := &j.p.Steps[at]
	switch s.Kind {
	case plan.StepDelay:
		out.pass(j, i, at, now)
	case plan.StepWait:
		path, to := -1, s.Next
		if best := int(out.Records[i].Rank); best > 0 && best <= len(s.Paths) {
			path, to = best-1, s.Paths[best-1].Next
		}
		out.Records[i].Rank = 0
		out.take(j, i, at, path)
		out.arrive(j, i, to, now)
	default: // what kept the person is over: the hours without mail
		out.Records[i].Rank = 0
		out.at[at] = append(out.at[at], int32(i))
	}
}

// walk takes everybody as far as they go without waiting.
func (j *Journey) walk(people []Person, now time.Time, out *Result) error {
	for _, at := range j.order {
		if len(out.at[at]) == 0 {
			continue
		}
		s := &j.p.Steps[at]
		out.holds = out.holds[:0]
		if s.Rules != nil {
			people := j.onTheWay(people, out.at[at], out)
			if err := out.match(s.Rules, people, out.at[at], now); err != nil {
				return fmt.Errorf("journey %s: step %s: %w", j.p.ID, s.ID, err)
			}
		}
		for n, i := range out.at[at] {
			var holds uint64
			if s.Rules != nil {
				holds = out.holds[n]
			}
			if holds>>s.ExitBit != 0 { // a rule of exit_when
				out.exit(int(i), at, j.exitRule(bits.TrailingZeros64(holds>>s.ExitBit)), second(now))
				continue
			}
			j.do(s, at, int(i), &people[i], holds, now, out)
		}
	}
	return nil
}

// do does what a step says, for one person.
func (j *Journey) do(s *plan.PlanStep, at, i int, p *Person, holds uint64, now time.Time, out *Result) {
	switch s.Kind {
	case plan.StepSplit, plan.StepAudiences:
		path, to := -1, s.Next
		if first := bits.TrailingZeros64(holds); first < s.ExitBit {
			path, to = first, s.Paths[first].Next
		}
		out.take(j, i, at, path)
		out.arrive(j, i, to, now)
	case plan.StepRandom:
		bucket, path := int(rule.Bucket(p.ID, s.Seed)), 0
		for path < len(s.Paths)-1 && bucket >= s.Paths[path].UpTo {
			path++
		}
		out.take(j, i, at, path)
		out.arrive(j, i, s.Paths[path].Next, now)
	case plan.StepDelay:
		until, ok := end(s.Delay, out.since(i, p, now), p)
		if !ok {
			out.take(j, i, at, -1)
			out.arrive(j, i, s.Delay.Date.Otherwise, now)
			return
		}
		out.wait(i, at, until)
	case plan.StepWait:
		j.await(s, at, i, p, holds, now, out)
	case plan.StepMessage:
		j.message(s, at, i, p, now, out)
	case plan.StepUpdate:
		if j.held {
			out.hold(i, at, p, now)
			return
		}
		out.Updates = append(out.Updates, Did{i, at})
		out.pass(j, i, at, now)
	case plan.StepGo:
		out.Goes = append(out.Goes, Did{i, at})
		out.count(at, -1, Passed)
		out.arrive(j, i, plan.Out, now)
	case plan.StepExit:
		out.count(at, -1, Passed)
		out.arrive(j, i, plan.Out, now)
	}
}

// await lets a person wait, unless a rule that is waited for holds already. Of a ranked
// wait only the best path ends it; another one is noted, for a better one may come yet.
func (j *Journey) await(s *plan.PlanStep, at, i int, p *Person, holds uint64, now time.Time, out *Result) {
	path := slices.IndexFunc(s.Paths, func(path plan.PlanPath) bool {
		return slices.ContainsFunc(path.When, func(on plan.On) bool { return on.Kind == plan.OnRule && holds&(1<<on.Rule) != 0 })
	})
	if path == 0 || path > 0 && !s.Ranked {
		out.take(j, i, at, path)
		out.arrive(j, i, s.Paths[path].Next, now)
		return
	}
	if path > 0 {
		out.Records[i].Rank = uint8(path) + 1
	}
	out.wait(i, at, out.since(i, p, now).Add(time.Duration(s.Within)*time.Second))
}

// since is from when a wait counts: now, or as of what had the person enter or go on, which
// may be the time that was waited for. That is later where the clock of this process is
// behind. The wait would be over at once where the clock is right again, or by another process.
func (r *Result) since(i int, p *Person, now time.Time) time.Time {
	second := max(p.EnteredAt, r.Records[i].Entered)
	if r.due {
		second = max(second, p.Record.Due)
	}
	if came := time.Unix(int64(second), 0); came.After(now) {
		return came
	}
	return now
}

// message makes a mail, or keeps the person until mail may leave.
func (j *Journey) message(s *plan.PlanStep, at, i int, p *Person, now time.Time, out *Result) {
	if j.paused || j.held {
		out.hold(i, at, p, now)
		return
	}
	if j.skips {
		out.count(at, -1, LeftOut)
		out.pass(j, i, at, now)
		return
	}
	if j.stay[at] {
		out.hold(i, at, p, now)
		return
	}
	switch until, skip := j.Quiet(at, p, now); {
	case until.Equal(now):
	case skip:
		out.count(at, -1, LeftOut)
		out.pass(j, i, at, now)
		return
	default:
		out.wait(i, at, until)
		return
	}
	out.Mails = append(out.Mails, Did{i, at})
	out.pass(j, i, at, now)
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

// arrive puts a person at a step, or at the end of the way.
func (r *Result) arrive(j *Journey, i, at int, now time.Time) {
	record := &r.Records[i]
	if at != plan.Out {
		record.Step = uint16(at)
		r.at[at] = append(r.at[at], int32(i))
		r.count(at, -1, Entered)
		return
	}
	record.State, record.Due = journey.StateFinished, 0
	if last := time.Unix(int64(record.Entered)+j.watch, 0); j.watch > 0 && last.After(now) {
		record.State, record.Due = journey.StateWatching, second(last)
	}
}

// pass lets a person go on behind a step.
func (r *Result) pass(j *Journey, i, at int, now time.Time) {
	r.count(at, -1, Passed)
	r.arrive(j, i, j.p.Steps[at].Next, now)
}

// take counts that a person leaves a step by one of its paths, or -1: by none of them.
func (r *Result) take(j *Journey, i, at, path int) {
	branch := j.p.Steps[at].Otherwise
	if path >= 0 {
		branch = j.p.Steps[at].Paths[path].Branch
	}
	r.Ways = append(r.Ways, Way{i, branch})
	r.count(at, path, Passed)
}

// wait keeps a person at a step until a time.
func (r *Result) wait(i, at int, until time.Time) {
	record := &r.Records[i]
	record.State, record.Step, record.Due = journey.StateInside, uint16(at), second(until)
}

// hold keeps a person at a step who goes on as soon as something else allows it. Who was inside
// is due as of what had the person come there. Who goes on into another journey enters that as
// of then, and its mails are named by it: as of now they would have other names if the way is
// decided again, by a Redis that has gone back. Who has just entered is due now, for that may
// be as of long ago; its record has when it entered. By a run it is due as of that, for its mail
// is late as the run is.
func (r *Result) hold(i, at int, p *Person, now time.Time) {
	r.wait(i, at, now)
	record := &r.Records[i]
	entered := record.Entered != p.Record.Entered || record.Occurrence != p.Record.Occurrence
	switch {
	case entered && !r.ByRun:
	case p.EnteredAt != 0:
		record.Due = p.EnteredAt
	case r.due && p.Record.Due != 0:
		record.Due = p.Record.Due
	}
}

// exit takes a person out who is at a step.
func (r *Result) exit(i, at int, why journey.Cause, second uint32) {
	r.Records[i].Leave(why, second)
	r.count(at, -1, Exited)
}

// exitRule is the trigger of exit_when that has a rule, by the number of the rule.
func (j *Journey) exitRule(number int) journey.Cause {
	at := slices.IndexFunc(j.p.Exit, func(on plan.On) bool { return on.Kind == plan.OnRule && on.Rule == number })
	return journey.Cause{Kind: journey.CauseExit, Index: max(at, 0)}
}

func (r *Result) count(at, path int, what What) { r.Counts[Count{at, path, what}]++ }
