package simulate

import (
	"container/heap"
	"math"
	"time"

	"sluice/journey"
	"sluice/journey/plan"
	"sluice/journey/step"
	"sluice/user/profile"
)

// dues are who is due when, by seconds. People who have moved meanwhile stay in it:
// the caller looks at their records.
type dues struct {
	seconds seconds // each once
	people  map[uint32][]int32
}

type seconds []uint32

func (s seconds) Len() int           { return len(s) }
func (s seconds) Less(i, j int) bool { return s[i] < s[j] }
func (s seconds) Swap(i, j int)      { s[i], s[j] = s[j], s[i] }

// Push and Pop are for package heap.
func (s *seconds) Push(x any) { *s = append(*s, x.(uint32)) }

// Pop removes the last.
func (s *seconds) Pop() any {
	last := len(*s) - 1
	x := (*s)[last]
	*s = (*s)[:last]
	return x
}

func (d *dues) add(second uint32, person int32) {
	if d.people == nil {
		d.people = make(map[uint32][]int32)
	}
	if len(d.people[second]) == 0 {
		heap.Push(&d.seconds, second)
	}
	d.people[second] = append(d.people[second], person)
}

// first is the earliest second at which somebody may be due.
func (d *dues) first() (time.Time, bool) {
	if len(d.seconds) == 0 {
		return time.Time{}, false
	}
	return time.Unix(int64(d.seconds[0]), 0), true
}

// until removes and returns all who may be due by a moment.
func (d *dues) until(now time.Time) (all []int32) {
	for len(d.seconds) > 0 && int64(d.seconds[0]) <= now.Unix() {
		second := heap.Pop(&d.seconds).(uint32)
		all = append(all, d.people[second]...)
		delete(d.people, second)
	}
	return all
}

// schedule is when some people are let in.
type schedule struct {
	on   *plan.Schedule
	zone *time.Location // of these people; nil: they have none
	who  []int32
	at   time.Time // the next moment
}

// plan finds the schedules of the journey: one for all people, or one for each zone.
func (r *runner) plan() {
	before := r.in.From.Add(-time.Nanosecond)
	for i := range r.in.Plan.Entry.When {
		on := r.in.Plan.Entry.When[i].At
		if on == nil {
			continue
		}
		groups, order := make(map[string]*schedule), []string(nil)
		for p := range r.in.People {
			name := ""
			if on.Zone.User {
				name = zoneName(r.profiles[p])
			}
			g := groups[name]
			if g == nil {
				g = &schedule{on: on, zone: profile.Zone(name)}
				groups[name], order = g, append(order, name)
			}
			g.who = append(g.who, int32(p))
		}
		for _, name := range order {
			g := groups[name]
			var ok bool
			if g.at, ok = on.Next(before, g.zone); ok {
				r.schedules = append(r.schedules, *g)
			}
		}
	}
}

// release lets people in whose schedule is due.
func (r *runner) release(now time.Time) error {
	left := r.schedules[:0]
	for i := range r.schedules {
		s := r.schedules[i]
		if !s.at.After(now) {
			if most := r.in.Plan.Entry.PerRun; most > 0 {
				r.runRoom = int(most) - r.enteredByRun(&s, now)
			}
			room := r.runRoom
			err := r.enter(s.who, now)
			r.ran += room - r.runRoom
			r.runRoom = math.MaxInt
			if err != nil {
				return err
			}
			var ok bool
			if s.at, ok = s.on.Next(now, s.zone); !ok {
				continue
			}
		}
		left = append(left, s)
	}
	r.schedules = left
	return nil
}

// enteredByRun is how many have entered by the run that is due. What comes in the zones of
// people in a day of UTC is one run.
func (r *runner) enteredByRun(s *schedule, now time.Time) int {
	if day := now.Unix() / (24 * 60 * 60); !s.on.Zone.User || day != r.runDay {
		r.runDay, r.ran = day, 0
	}
	return r.ran
}

// enter lets people in who may enter.
func (r *runner) enter(who []int32, now time.Time) error {
	may := make([]int32, 0, len(who))
	for _, i := range who {
		if r.journey.MayEnter(&step.Person{Record: r.records[i].AsOf(now), Profile: r.profiles[i]}, now) {
			may = append(may, i)
		}
	}
	return r.inBatches(may, func(batch []int32) error {
		if _, err := r.walk().Enter(r.these(batch), now, &r.out); err != nil {
			return err
		}
		r.settle(batch, now)
		return nil
	})
}

// room is how many may enter by now.
func (r *runner) room(now time.Time) int {
	room := MaxPeople * MaxDays
	if e := &r.in.Plan.Entry; e.Total > 0 || e.PerDay > 0 {
		if e.Total > 0 {
			room = min(room, int(e.Total)-r.total.Entered)
		}
		if r.enteredToday(now, 0); e.PerDay > 0 {
			room = min(room, int(e.PerDay)-r.enteredOn)
		}
	}
	return room
}

// enteredToday counts entries of a day, of UTC.
func (r *runner) enteredToday(now time.Time, more int) {
	if day := now.Unix() / (24 * 60 * 60); day != r.today {
		r.today, r.enteredOn = day, 0
	}
	r.enteredOn += more
}

// tell lets something happen: the profile first, as the store does.
func (r *runner) tell(h *Happening, now time.Time) error {
	if h.Person < 0 || h.Person >= len(r.in.People) {
		return nil
	}
	r.reacted(h)
	r.profiles[h.Person] = changed(r.profiles[h.Person], &h.Fact, now)
	if h.Fact.Kind == 0 {
		return r.call(h, now)
	}
	return r.told(h, now)
}

// call is a call of the API.
func (r *runner) call(h *Happening, now time.Time) error {
	r.context = h.Fact.Body
	err := r.enter([]int32{int32(h.Person)}, now)
	r.context = ""
	return err
}

// told tells the journey of a fact.
func (r *runner) told(h *Happening, now time.Time) error {
	i := int32(h.Person)
	state := r.records[i].AsOf(now).State
	if state == journey.StateNone || state == journey.StateFinished || state == journey.StateExited {
		r.context = h.Fact.Properties()
		defer func() { r.context = "" }()
	}
	p := r.these([]int32{i})[0]
	came, err := r.walk().Fact(&p, &h.Fact, now, &r.out)
	if err != nil || !came {
		return err
	}
	if r.out.Waited {
		r.contexts[i] = r.keeps.Of(r.out.Context)
	}
	r.settle([]int32{i}, now)
	return nil
}
