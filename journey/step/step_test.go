package step

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"sluice/journey"
	"sluice/user"
	"sluice/user/rule"
)

var start = time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC) // a Monday

func mustJourney(t *testing.T, steps []Step, o Options) *Journey {
	t.Helper()
	j, err := New(steps, 0, o)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func compiled(t *testing.T, text string) *rule.Rule {
	t.Helper()
	r, err := rule.Compile(text)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func zone(t *testing.T, name string) *time.Location {
	t.Helper()
	z, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return z
}

// Everybody who enters gets through as far as nothing waits, each by one way.
func TestEachPersonTakesOneWay(t *testing.T) {
	j := mustJourney(t, []Step{
		{ID: "split", Kind: Choose, Next: 3, Paths: []Path{
			{Name: "gold", Next: 1, Rule: compiled(t, `{"attribute":"plan","is":"equals","value":"gold"}`)},
			{Name: "old", Next: 2, Rule: compiled(t, `{"attribute":"score","is":"greater_than","value":50}`)}}},
		{ID: "thanks", Kind: Message, Next: 4},
		{ID: "remind", Kind: Message, Next: 4},
		{ID: "mark", Kind: Update, Next: 4},
		{ID: "pause", Kind: Delay, Next: 5, Delay: Pause{For: time.Hour}},
		{ID: "chance", Kind: Random, Paths: []Path{{Name: "a", Next: Finish, Weight: 1}, {Name: "b", Next: 6, Weight: 3}}},
		{ID: "last", Kind: Message, Next: Finish},
	}, Options{Seed: "j"})
	people := make([]Person, MaxPeople)
	want := make(map[string]int)
	for i := range people {
		plan, score := []string{"gold", "free"}[i%2], i%100
		people[i] = Person{ID: user.ID{Number: int64(i) + 1}, Profile: fmt.Sprintf(`{"custom":{"plan":%q,"score":%d}}`, plan, score)}
		switch {
		case plan == "gold":
			want["thanks"]++
		case score > 50:
			want["remind"]++
		default:
			want["mark"]++
		}
	}
	var out Result
	if _, err := j.Enter(people, start, &out); err != nil {
		t.Fatal(err)
	}
	got, once := make(map[string]int), make(map[int]int)
	for _, d := range append(append([]Did{}, out.Mails...), out.Updates...) {
		got[j.Steps()[d.Step].ID]++
		once[d.Person]++
	}
	for i := range people {
		if once[i] != 1 {
			t.Fatalf("person %d went %d ways", i, once[i])
		}
		r := out.Records[i]
		if r.State != journey.StateInside || r.Step != 4 || r.Due != uint32(start.Add(time.Hour).Unix()) || r.Entered != uint32(start.Unix()) {
			t.Fatalf("person %d is %+v, want the pause of an hour", i, r)
		}
		people[i].Record = r
	}
	for id, n := range want {
		if got[id] != n {
			t.Errorf("%d people went through %s, want %d", got[id], id, n)
		}
	}
	if err := j.Due(people, start.Add(time.Hour), &out); err != nil {
		t.Fatal(err)
	}
	for i, r := range out.Records {
		if r.State != journey.StateFinished {
			t.Fatalf("person %d is %+v behind the end", i, r)
		}
	}
	if n := len(out.Mails); n < MaxPeople*6/10 || n > MaxPeople*9/10 {
		t.Errorf("of %d people %d took a path of three quarters", MaxPeople, n)
	}
}

// The path by chance is the same each time, and another seed divides people otherwise.
func TestChanceStays(t *testing.T) {
	steps := []Step{{ID: "x", Kind: Random, Paths: []Path{{Next: Finish, Weight: 20}, {Next: Finish, Weight: 30}, {Next: Finish, Weight: 50}}}}
	a, again, b := mustJourney(t, steps, Options{Seed: "a"}), mustJourney(t, steps, Options{Seed: "a"}), mustJourney(t, steps, Options{Seed: "b"})
	counts, other := [3]int{}, 0
	const people = 20_000
	for n := range int64(people) {
		id := user.ID{Partition: int(n % 16), Number: n/16 + 1}
		path := a.chance(&steps[0], id)
		counts[path]++
		if path != again.chance(&steps[0], id) {
			t.Fatalf("person %s takes another path the second time", id)
		}
		if path != b.chance(&steps[0], id) {
			other++
		}
	}
	for i, want := range []int{20, 30, 50} {
		if share := counts[i] * 100 / people; share < want-2 || share > want+1 {
			t.Errorf("path %d has %d %% of the people, want %d", i, share, want)
		}
	}
	if other < people/3 {
		t.Errorf("another seed changes the path of %d people of %d", other, people)
	}
}

// The next time of day, also over the days on which clocks are changed.
func TestTimesOfDay(t *testing.T) {
	monday, sunday := time.Monday, time.Sunday
	for _, c := range []struct {
		zone, now, at string
		weekday       *time.Weekday
		want          string
	}{
		{"UTC", "2026-03-02T09:00:00Z", "10:00", nil, "2026-03-02T10:00:00Z"},
		{"UTC", "2026-03-02T10:00:00Z", "10:00", nil, "2026-03-02T10:00:00Z"},
		{"UTC", "2026-03-02T10:00:01Z", "10:00", nil, "2026-03-03T10:00:00Z"},
		{"UTC", "2026-03-02T10:00:01Z", "10:00", &monday, "2026-03-09T10:00:00Z"},
		{"Europe/Berlin", "2026-03-28T12:00:00+01:00", "02:30", nil, "2026-03-29T03:00:00+02:00"}, // it never comes
		{"Europe/Berlin", "2026-03-28T12:00:00+01:00", "02:30", &sunday, "2026-03-29T03:00:00+02:00"},
		{"Europe/Berlin", "2026-10-24T12:00:00+02:00", "02:30", nil, "2026-10-25T02:30:00+02:00"}, // it comes twice
		{"Europe/Berlin", "2026-10-25T02:45:00+02:00", "02:30", nil, "2026-10-26T02:30:00+01:00"},
		{"America/New_York", "2026-03-07T12:00:00-05:00", "02:15", nil, "2026-03-08T03:00:00-04:00"},
		{"America/New_York", "2026-10-31T12:00:00-04:00", "01:15", nil, "2026-11-01T01:15:00-04:00"},
		{"Australia/Lord_Howe", "2026-10-03T12:00:00+10:30", "02:15", nil, "2026-10-04T02:30:00+11:00"}, // half an hour
		{"Australia/Lord_Howe", "2026-04-04T12:00:00+11:00", "01:45", nil, "2026-04-05T01:45:00+11:00"},
		{"Pacific/Apia", "2011-12-29T12:00:00-10:00", "09:00", nil, "2011-12-31T09:00:00+14:00"}, // a day that never came
		{"America/Santiago", "2026-09-05T12:00:00-04:00", "00:00", nil, "2026-09-06T01:00:00-03:00"},
		{"Asia/Kathmandu", "2026-03-02T09:00:00Z", "10:00", nil, "2026-03-03T10:00:00+05:45"},
	} {
		now, err := time.Parse(time.RFC3339, c.now)
		if err != nil {
			t.Fatal(err)
		}
		var clock Clock
		if _, err := fmt.Sscanf(c.at, "%d:%d", &clock.Hour, &clock.Minute); err != nil {
			t.Fatal(err)
		}
		z := zone(t, c.zone)
		if got := clock.after(now, z, c.weekday).In(z).Format(time.RFC3339); got != strings.Replace(c.want, "Z", "Z", 1) {
			t.Errorf("%s after %s in %s is %s, want %s", c.at, c.now, c.zone, got, c.want)
		}
	}
}

// A time of day is never before now, never more than a day and the longest change
// ahead, and shows that time unless it never comes on that day.
func TestTimesOfDayAtRandom(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	zones := []*time.Location{time.UTC, zone(t, "Europe/Berlin"), zone(t, "America/Sao_Paulo"), zone(t, "Australia/Lord_Howe"), zone(t, "Asia/Tehran"), zone(t, "America/St_Johns")}
	for range 20_000 {
		z := zones[random.IntN(len(zones))]
		now := time.Unix(1_262_304_000+random.Int64N(20*365*86_400), 0)
		c := Clock{random.IntN(24), random.IntN(60)}
		at := c.after(now, z, nil)
		h, m, _ := at.In(z).Clock()
		switch {
		case at.Before(now), at.Sub(now) > 26*time.Hour:
			t.Fatalf("%v after %v in %s is %v", c, now, z, at.In(z))
		case h == c.Hour && m == c.Minute:
		default: // the clocks were put forward over it
			_, before := at.Add(-time.Second).In(z).Zone()
			if _, after := at.In(z).Zone(); after <= before {
				t.Fatalf("%v after %v in %s is %v, which is no change of clocks", c, now, z, at.In(z))
			}
		}
	}
}

// Mail waits for the end of the quiet hours of its person, or is left out, and
// a person who waited gets it once.
func TestQuietHours(t *testing.T) {
	for _, skip := range []bool{false, true} {
		j := mustJourney(t, []Step{{ID: "mail", Kind: Message, Next: Finish}}, Options{Quiet: &Quiet{From: Clock{22, 0}, To: Clock{8, 0}, Skip: skip}})
		people := []Person{
			{ID: user.ID{Number: 1}, Profile: `{}`},
			{ID: user.ID{Number: 2}, Profile: `{"fields":{"time_zone":"Asia/Tokyo"}}`}, // 18:00 there
			{ID: user.ID{Number: 3}, Profile: `{"fields":{"time_zone":"America/Los_Angeles"}}`},
		}
		var out Result
		if _, err := j.Enter(people, start, &out); err != nil { // 01:00 in Los Angeles
			t.Fatal(err)
		}
		if len(out.Mails) != 2 {
			t.Fatalf("%d mails are made at once, want 2", len(out.Mails))
		}
		r := out.Records[2]
		if skip {
			if r.State != journey.StateFinished {
				t.Errorf("without its mail a person is %+v", r)
			}
			continue
		}
		if want := time.Date(2026, 3, 2, 16, 0, 0, 0, time.UTC); r.State != journey.StateInside || r.Due != uint32(want.Unix()) {
			t.Fatalf("at night a person is %+v, want to wait until %v", r, want)
		}
		people[2].Record = r
		if err := j.Due(people[2:], time.Unix(int64(r.Due), 0), &out); err != nil {
			t.Fatal(err)
		}
		if len(out.Mails) != 1 || out.Records[0].State != journey.StateFinished {
			t.Errorf("in the morning: %d mails, %+v", len(out.Mails), out.Records[0])
		}
	}
}

// Somebody without a profile is taken out, and somebody who is watched for conversions
// is let go when that is over.
func TestEnds(t *testing.T) {
	j := mustJourney(t, []Step{{ID: "pause", Kind: Delay, Next: Finish, Delay: Pause{For: time.Minute}}}, Options{Watch: time.Hour})
	people := []Person{{ID: user.ID{Number: 1}, Profile: `{}`}, {ID: user.ID{Number: 2}, Profile: `{}`}}
	var out Result
	if _, err := j.Enter(people, start, &out); err != nil {
		t.Fatal(err)
	}
	people[0].Record, people[1].Record, people[1].Profile = out.Records[0], out.Records[1], ""
	now := start.Add(time.Minute)
	if err := j.Due(people, now, &out); err != nil {
		t.Fatal(err)
	}
	if r := out.Records[0]; r.State != journey.StateWatching || r.Due != uint32(start.Add(time.Hour).Unix()) {
		t.Errorf("at the end a person is %+v", r)
	}
	if r := out.Records[1]; r.State != journey.StateExited || r.Due != 0 {
		t.Errorf("without a profile a person is %+v", r)
	}
	people[0].Record = out.Records[0]
	if err := j.Due(people[:1], start.Add(time.Hour), &out); err != nil || out.Records[0].State != journey.StateFinished {
		t.Errorf("behind the window: %+v, %v", out.Records[0], err)
	}
}

// A way that goes back is refused.
func TestNoCircle(t *testing.T) {
	for _, steps := range [][]Step{
		{{ID: "a", Kind: Delay, Next: 0}},
		{{ID: "a", Kind: Delay, Next: 1}, {ID: "b", Kind: Message, Next: 0}},
		{{ID: "a", Kind: Delay, Next: 2}},
	} {
		if _, err := New(steps, 0, Options{}); err == nil {
			t.Errorf("%+v is taken", steps)
		}
	}
}
