package simulate

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"sluice/journey"
	"sluice/journey/plan"
	"sluice/user/profile"
)

// Try is a simulation as people ask for it: what is not said is made up.
type Try struct {
	Plan     *plan.Plan
	Document string // of the plan, as plan.Document.Text writes it

	From   time.Time
	Days   int // 0: PresetDays
	People int // that are made up; 0: PresetPeople
	Seed   uint64

	Real  []Person // instead of made-up people; nil: these
	Still bool     // nobody does anything by itself

	Often         string // how often people do what: NAME=TIMES in 30 days, separated by commas; else PresetOften
	Opens, Clicks int    // percent of the mails

	Caps    []journey.Cap
	Control int // as in Input

	MaxHappenings int   // 0: the bound of that name
	MaxBytes      int64 // of values that are made up; 0: MaxMadeUpBytes
}

// MaxMadeUpBytes bounds the values that are made up. A document may ask for many of 64 KiB,
// and each person, and each thing that happens, has some of them.
const MaxMadeUpBytes = 8 << 30

// Presets of a Try.
const (
	PresetPeople = 10_000
	PresetDays   = 30
	PresetOften  = 1.5 // times in 30 days

	maxOften = 3000 // the same
)

// Input is what Run takes. An error says which member of the Try is wrong.
func (t *Try) Input() (*Input, error) {
	if y := t.From.UTC().Year(); y < 1970 || y > 2100 { // records have seconds of 32 bits
		return nil, fmt.Errorf("from: want a time of the years 1970 to 2100, got one of %d", y)
	}
	m, err := Mentions(t.Document)
	if err != nil {
		return nil, err
	}
	habits := habitsOf(t.Plan, m)
	if err := often(t.Often, habits); err != nil {
		return nil, err
	}
	in := &Input{Plan: t.Plan, From: t.From, Until: t.From.AddDate(0, 0, cmp.Or(t.Days, PresetDays)), People: t.Real, Caps: t.Caps, Control: t.Control,
		Reactions: Reactions{Opens: float64(t.Opens) / 100, Clicks: float64(t.Clicks) / 100, Seed: t.Seed}}
	people := len(t.Real)
	if t.Real == nil {
		people = cmp.Or(t.People, PresetPeople)
	}
	expected := 0.0 // things that people do
	for i := range habits {
		expected += habits[i].PerDay * float64(people) * in.Until.Sub(in.From).Hours() / 24
	}
	if err := t.bounded(people, expected, m); err != nil {
		return nil, err
	}
	if t.Real == nil {
		crowd := Crowd{People: people, Seed: t.Seed, SeenBefore: t.From, Attributes: m.Attributes, Events: m.Events, Products: m.Products}
		in.People = crowd.Make()
	}
	for i := range min(MaxSamples, len(in.People)) {
		in.Samples = append(in.Samples, i)
	}
	if t.Still {
		return in, nil
	}
	in.Happenings = Happen(len(in.People), habits, in.From, in.Until, t.Seed)
	return in, nil
}

// bounded refuses what would be too much, before any of it is made.
func (t *Try) bounded(people int, expected float64, m *Mentioned) error {
	bytes := 0.0
	if t.Real == nil {
		bytes += float64(people) * (bytesOf(m.Attributes) + float64(len(strings.Join(slices.Concat(m.Events, m.Products), "")))/2)
	}
	if !t.Still {
		if most := cmp.Or(t.MaxHappenings, MaxHappenings); expected > float64(most)*0.9 { // by chance it may be some more
			return fmt.Errorf("people: %d of them do some %.0f things in that time, at most %d are possible; take fewer people, days or times", people, expected, most*9/10)
		}
		bytes += expected * bytesOf(m.Properties)
	}
	if most := cmp.Or(t.MaxBytes, MaxMadeUpBytes); bytes > float64(most) {
		return fmt.Errorf("people: the values that %d of them and what they do have, as rules ask for them, come to some %.0f MB, at most %d are possible; take fewer people, days or times", people, bytes/(1<<20), most>>20)
	}
	return nil
}

// bytesOf is how much one person, or thing that happens, has of values on average.
func bytesOf(values map[string][]string) (bytes float64) {
	for name, all := range values {
		bytes += float64(len(name)) + float64(len(strings.Join(all, "")))/float64(len(all))
	}
	return bytes
}

// habitsOf have people do what a journey waits for, with the properties that its rules
// ask for.
func habitsOf(p *plan.Plan, m *Mentioned) (habits []Habit) {
	const perDay = PresetOften / 30
	names := p.Names()
	for _, name := range names.Events {
		habits = append(habits, Habit{Fact: journey.Fact{Kind: journey.FactEvent, Name: name}, PerDay: perDay, Properties: m.Properties})
	}
	for _, name := range names.Purchases {
		if name == journey.Any {
			name = "product"
		}
		habits = append(habits, Habit{Fact: journey.Fact{Kind: journey.FactPurchase, Name: name, Body: `{"currency":"EUR","price":10}`}, PerDay: perDay, Properties: m.Properties})
	}
	for i := range p.Entry.When {
		if on := &p.Entry.When[i]; on.Kind == plan.OnAPI {
			habits = append(habits, Habit{Fact: journey.Fact{Name: "api"}, PerDay: perDay, Properties: m.Properties})
		} else if f, ok := change(on); ok {
			habits = append(habits, Habit{Fact: f, PerDay: perDay})
		}
	}
	return habits
}

// change is a change of an attribute or a group that lets people in.
func change(on *plan.On) (f journey.Fact, ok bool) {
	var from, to string
	switch on.Kind {
	case plan.OnAttribute:
		const none, another = "null", `"another"`
		from, to = cmp.Or(on.From, unlike(on.To, none, another)), cmp.Or(on.To, unlike(on.From, another, none))
		f.Kind = journey.FactAttributes
	case plan.OnGroup:
		from, to = "null", profile.Quoted(cmp.Or(on.To, "subscribed"))
		f.Kind = journey.FactGroups
	default:
		return f, false
	}
	for _, name := range slices.Backward(on.Path) {
		from, to = "{"+profile.Quoted(name)+":"+from+"}", "{"+profile.Quoted(name)+":"+to+"}"
	}
	f.Name, f.Body = on.Name, "{"+profile.Quoted(on.Name)+":["+from+","+to+"]}"
	return f, true
}

// unlike is the first of two values that a given one is not.
func unlike(given, first, second string) string {
	if plan.SameValue(given, first) {
		return second
	}
	return first
}

// often takes over how often people do what.
func often(text string, habits []Habit) error {
	for part := range strings.SplitSeq(text, ",") {
		part = strings.TrimSpace(part)
		if part == "" {
			continue
		}
		name, times, _ := strings.Cut(part, "=")
		n, err := strconv.ParseFloat(times, 64)
		if err != nil || math.IsNaN(n) || n < 0 || n > maxOften {
			return fmt.Errorf("often: want NAME=TIMES, at most %d times in 30 days, got %.64q", maxOften, part)
		}
		i := slices.IndexFunc(habits, func(h Habit) bool { return h.Fact.Name == strings.TrimSpace(name) })
		if i < 0 {
			return fmt.Errorf("often: the journey asks for no event and no product %.64q, and nothing of that name lets people in", name)
		}
		habits[i].PerDay = n / 30
	}
	return nil
}
