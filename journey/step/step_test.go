package step

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"sluice/journey"
	"sluice/journey/plan"
	"sluice/mail"
	"sluice/user"
)

var start = time.Date(2026, 3, 2, 9, 0, 0, 0, time.UTC) // a Monday

// env has every template and journey that is asked for.
type env struct{}

func (env) Template(string, int) (mail.Class, bool, error) { return mail.ClassMarketing, true, nil }
func (env) Segment(string) (string, bool, error)           { return "", false, nil }
func (env) Journey(string) (bool, error)                   { return true, nil }

func load(t *testing.T, text string) *Journey {
	t.Helper()
	_, p, err := plan.LoadYAML(text, env{})
	if err != nil {
		t.Fatal(err)
	}
	j, err := New(p)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func zone(t *testing.T, name string) *time.Location {
	t.Helper()
	z, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return z
}

// names are the ids of the steps of what people did.
func names(j *Journey, all []Did) (ids map[string]int) {
	ids = make(map[string]int)
	for _, d := range all {
		ids[j.Plan().Steps[d.Step].ID]++
	}
	return ids
}

const waysText = `
id: ways
entry: {when: {event: signup}}
steps:
  - id: split
    audiences:
      paths:
        - {name: gold, if: {attribute: plan, is: equals, value: gold}, next: thanks}
        - {name: old, if: {attribute: score, is: greater_than, value: 50}, next: remind}
      otherwise: note
  - {id: last, message: {template: x}}
  - {id: thanks, message: {template: x}, next: pause}
  - {id: remind, message: {template: x}, next: pause}
  - {id: note, update: {attributes: {seen: true}}, next: pause}
  - {id: pause, delay: {for: 1h}, next: chance}
  - id: chance
    random: {paths: [{name: a, weight: 25, next: exit}, {name: b, weight: 75, next: last}]}
`

// Everybody who enters gets through as far as nothing waits, each by one way, whatever
// the order of the steps in the document.
func TestEachPersonTakesOneWay(t *testing.T) {
	j := load(t, waysText)
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
			want["note"]++
		}
	}
	var out Result
	if n, err := j.Enter(people, start, &out); err != nil || n != MaxPeople {
		t.Fatal(n, err)
	}
	all := append(append([]Did{}, out.Mails...), out.Updates...)
	once := make(map[int]int)
	for _, d := range all {
		once[d.Person]++
	}
	for i := range people {
		if once[i] != 1 {
			t.Fatalf("person %d went %d ways", i, once[i])
		}
		r := out.Records[i]
		if r.State != journey.StateInside || j.Plan().Steps[r.Step].ID != "pause" || r.Due != uint32(start.Add(time.Hour).Unix()) || r.Entered != uint32(start.Unix()) {
			t.Fatalf("person %d is %+v, want the pause of an hour", i, r)
		}
		people[i].Record = r
	}
	got := names(j, all)
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
	if n := len(out.Mails); n < MaxPeople*65/100 || n > MaxPeople*85/100 {
		t.Errorf("of %d people %d took a path of three quarters", MaxPeople, n)
	}
}

// The next time of day, also over the days on which clocks are changed.
func TestTimesOfDay(t *testing.T) {
	monday, sunday := &[7]bool{1: true}, &[7]bool{0: true}
	for _, c := range []struct {
		zone, now string
		minute    int
		weekdays  *[7]bool
		want      string
	}{
		{"UTC", "2026-03-02T09:00:00Z", 600, nil, "2026-03-02T10:00:00Z"},
		{"UTC", "2026-03-02T10:00:00Z", 600, nil, "2026-03-02T10:00:00Z"},
		{"UTC", "2026-03-02T10:00:01Z", 600, nil, "2026-03-03T10:00:00Z"},
		{"UTC", "2026-03-02T10:00:01Z", 600, monday, "2026-03-09T10:00:00Z"},
		{"Europe/Berlin", "2026-03-28T12:00:00+01:00", 150, nil, "2026-03-29T03:00:00+02:00"}, // it never comes
		{"Europe/Berlin", "2026-03-28T12:00:00+01:00", 150, sunday, "2026-03-29T03:00:00+02:00"},
		{"Europe/Berlin", "2026-10-24T12:00:00+02:00", 150, nil, "2026-10-25T02:30:00+02:00"}, // it comes twice
		{"Europe/Berlin", "2026-10-25T02:45:00+02:00", 150, nil, "2026-10-26T02:30:00+01:00"},
		{"America/New_York", "2026-03-07T12:00:00-05:00", 135, nil, "2026-03-08T03:00:00-04:00"},
		{"America/New_York", "2026-10-31T12:00:00-04:00", 75, nil, "2026-11-01T01:15:00-04:00"},
		{"Australia/Lord_Howe", "2026-10-03T12:00:00+10:30", 135, nil, "2026-10-04T02:30:00+11:00"}, // half an hour
		{"Australia/Lord_Howe", "2026-04-04T12:00:00+11:00", 105, nil, "2026-04-05T01:45:00+11:00"},
		{"Pacific/Apia", "2011-12-29T12:00:00-10:00", 540, nil, "2011-12-31T09:00:00+14:00"}, // a day that never came
		{"America/Santiago", "2026-09-05T12:00:00-04:00", 0, nil, "2026-09-06T01:00:00-03:00"},
		{"America/Nuuk", "2026-03-28T12:00:00-02:00", 23*60 + 30, &[7]bool{6: true}, "2026-03-29T00:00:00-01:00"}, // the last hour of a Saturday
		{"America/Nuuk", "2026-03-29T00:00:01-01:00", 23*60 + 30, nil, "2026-03-29T23:30:00-01:00"},
		{"Asia/Kathmandu", "2026-03-02T09:00:00Z", 600, nil, "2026-03-03T10:00:00+05:45"},
	} {
		now, err := time.Parse(time.RFC3339, c.now)
		if err != nil {
			t.Fatal(err)
		}
		z := zone(t, c.zone)
		if got := next(now, c.minute, c.weekdays, z).In(z).Format(time.RFC3339); got != c.want {
			t.Errorf("minute %d after %s in %s is %s, want %s", c.minute, c.now, c.zone, got, c.want)
		}
	}
}

// A time of day is never before now, never more than a day and the longest change
// ahead, and shows that time unless it never comes on that day.
func TestTimesOfDayAtRandom(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	zones := []*time.Location{time.UTC, zone(t, "Europe/Berlin"), zone(t, "America/Sao_Paulo"), zone(t, "Australia/Lord_Howe"), zone(t, "Asia/Tehran"), zone(t, "America/St_Johns"), zone(t, "America/Nuuk")}
	for range 20_000 {
		z := zones[random.IntN(len(zones))]
		now := time.Unix(1_262_304_000+random.Int64N(20*365*86_400), 0)
		minute := random.IntN(24 * 60)
		at := next(now, minute, nil, z)
		h, m, _ := at.In(z).Clock()
		if at.Before(now) || at.Sub(now) > 26*time.Hour {
			t.Fatalf("minute %d after %v in %s is %v", minute, now, z, at.In(z))
		}
		if h*60+m == minute {
			continue
		}
		_, before := at.Add(-time.Second).In(z).Zone() // the clocks were put forward over it
		if _, after := at.In(z).Zone(); after <= before {
			t.Fatalf("minute %d after %v in %s is %v, which is no change of clocks", minute, now, z, at.In(z))
		}
	}
}

// Mail waits for the end of the quiet hours of its person, or is left out, and a person
// who waited gets it once.
func TestQuietHours(t *testing.T) {
	for _, then := range []string{"wait", "skip"} {
		j := load(t, `
id: night
entry: {when: {event: signup}}
quiet: {from: "22:00", to: "08:00", zone: user, then: `+then+`}
steps:
  - {id: mail, message: {template: x}}
`)
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
		if then == "skip" {
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

// Somebody without a profile is looked at again, and somebody who is watched for conversions
// is let go when that is over.
func TestEnds(t *testing.T) {
	j := load(t, `
id: short
entry: {when: {event: signup}}
steps:
  - {id: pause, delay: {for: 1m}}
conversions:
  - {name: bought, when: {purchase: "*"}, within: 1h}
`)
	people := []Person{{ID: user.ID{Number: 1}, Profile: `{}`}, {ID: user.ID{Number: 2}, Profile: `{}`}}
	var out Result
	if _, err := j.Enter(people, start, &out); err != nil {
		t.Fatal(err)
	}
	people[0].Record, people[1].Record, people[1].Profile = out.Records[0], out.Records[1], ""
	if err := j.Due(people, start.Add(time.Minute), &out); err != nil {
		t.Fatal(err)
	}
	if r := out.Records[0]; r.State != journey.StateWatching || r.Due != uint32(start.Add(time.Hour).Unix()) {
		t.Errorf("at the end a person is %+v", r)
	}
	if r := out.Records[1]; r.State != journey.StateInside || r.Due != uint32(start.Add(2*time.Minute).Unix()) {
		t.Errorf("without a profile a person is %+v, want to be looked at again", r)
	}
	people[0].Record = out.Records[0]
	bought := journey.Fact{Kind: journey.FactPurchase, Name: "shoe"}
	for n := range 2 {
		changed, err := j.Fact(&people[0], &bought, start.Add(30*time.Minute), &out)
		if err != nil || changed != (n == 0) || changed && out.Counts[Count{0, 0, Converted}] != 1 {
			t.Errorf("purchase %d: changed %v, %v, %v", n+1, changed, out.Counts, err)
		}
		people[0].Record = out.Records[0]
	}
	if err := j.Due(people[:1], start.Add(time.Hour), &out); err != nil || out.Records[0].State != journey.StateFinished {
		t.Errorf("behind the window: %+v, %v", out.Records[0], err)
	}
}

// Quiet hours within a leap of the clocks last no time that night, and others around it no
// longer than they say.
func TestQuietHoursInALeap(t *testing.T) {
	berlin := zone(t, "Europe/Berlin")
	leap := time.Date(2026, 3, 29, 1, 0, 0, 0, time.UTC) // from 2 to 3 o'clock
	for _, x := range []struct {
		from, to   int // minutes
		now, until time.Time
	}{
		{130, 170, leap.Add(-12 * time.Hour), leap.Add(-12 * time.Hour)},
		{130, 170, leap.Add(-time.Second), leap.Add(-time.Second)},
		{130, 170, leap, leap},
		{130, 170, leap.Add(time.Second), leap.Add(time.Second)},
		{130, 170, leap.Add(-24*time.Hour + 20*time.Minute), leap.Add(-24*time.Hour + 50*time.Minute)}, // the night before
		{130, 300, leap.Add(-time.Second), leap.Add(-time.Second)},
		{130, 300, leap, leap.Add(2 * time.Hour)},
		{170, 130, leap.Add(-12 * time.Hour), leap}, // all day but 40 minutes, which the leap takes
	} {
		q := &plan.QuietHours{From: x.from, To: x.to, Zone: plan.Zone{Location: berlin}}
		if got := quietUntil(q, x.now, &Person{}); !got.Equal(x.until) {
			t.Errorf("from minute %d to %d, at %v mail may leave at %v, want %v", x.from, x.to, x.now, got, x.until.UTC())
		}
	}
}

// A date of a person's own: of this year, of the next, missing, past, moved.
func TestDates(t *testing.T) {
	for _, c := range []struct{ date, profile, want string }{
		{`{field: dob, yearly: true, time: "09:00"}`, `{"fields":{"dob":"1980-03-02"}}`, "2026-03-02T09:00:00Z"},
		{`{field: dob, yearly: true, time: "08:59"}`, `{"fields":{"dob":"1980-03-02"}}`, "2027-03-02T08:59:00Z"},
		{`{field: dob, yearly: true, plus: -3d, time: "10:00"}`, `{"fields":{"dob":"1980-03-10"}}`, "2026-03-07T10:00:00Z"},
		{`{field: dob, yearly: true, plus: -10d, time: "10:00"}`, `{"fields":{"dob":"1980-03-10"}}`, "2027-02-28T10:00:00Z"},
		{`{attribute: renewal, time: "10:00"}`, `{"custom":{"renewal":"2026-05-01"}}`, "2026-05-01T10:00:00Z"},
		{`{attribute: renewal}`, `{"custom":{"renewal":"2026-05-01T12:30:00+02:00"}}`, "2026-05-01T10:30:00Z"},
		{`{attribute: renewal, plus: -1d}`, `{"custom":{"renewal":1777631400}}`, "2026-04-30T10:30:00Z"},
		{`{attribute: renewal, time: "10:00"}`, `{"custom":{"renewal":"2026-03-01"}}`, ""},
		{`{attribute: renewal, time: "10:00"}`, `{"custom":{"renewal":"soon"}}`, ""},
		{`{attribute: renewal, time: "10:00"}`, `{"custom":{"renewal":{"at":1}}}`, ""},
		{`{attribute: renewal, time: "10:00"}`, `{}`, ""},
		{`{attribute: renewal, plus: -3d, time: "09:00", zone: Europe/Berlin}`, `{"custom":{"renewal":"2026-03-31"}}`, "2026-03-28T08:00:00Z"}, // clocks change on the 29th
		{`{attribute: renewal, plus: -3d, zone: Europe/Berlin}`, `{"custom":{"renewal":"2026-03-31T12:00:00"}}`, "2026-03-28T11:00:00Z"},
		{`{attribute: renewal, plus: 1d, time: "02:30", zone: Europe/Berlin}`, `{"custom":{"renewal":"2026-03-28"}}`, "2026-03-29T01:00:00Z"}, // it never comes
		{`{attribute: renewal, plus: -2h, time: "09:00"}`, `{"custom":{"renewal":"2026-05-01"}}`, "2026-04-30T09:00:00Z"},
		{`{field: dob, yearly: true, time: "09:00"}`, `{"fields":{"dob":"2004-02-29"}}`, "2027-03-01T09:00:00Z"},
		{`{attribute: renewal, yearly: true, zone: Europe/Berlin}`, `{"custom":{"renewal":"2019-03-29T02:30:00"}}`, "2026-03-29T01:00:00Z"}, // nor does this
		{`{attribute: renewal}`, `{"custom":{"renewal":"2028-03-03"}}`, ""},                                                                 // more than two years away
		{`{attribute: plan, path: [renews], zone: Europe/Berlin, time: "10:00"}`, `{"custom":{"plan":{"renews":"2026-07-01"}}}`, "2026-07-01T08:00:00Z"},
	} {
		j := load(t, `
id: date
entry: {when: {event: signup}}
steps:
  - {id: wait, delay: {until_date: `+c.date+`}}
`)
		people := []Person{{ID: user.ID{Number: 1}, Profile: c.profile}}
		var out Result
		if _, err := j.Enter(people, start, &out); err != nil {
			t.Fatal(err)
		}
		got := ""
		if r := out.Records[0]; r.State == journey.StateInside {
			got = time.Unix(int64(r.Due), 0).UTC().Format(time.RFC3339)
		}
		if got != c.want {
			t.Errorf("%s with %s: %s, want %s", c.date, c.profile, got, c.want)
		}
	}
}

// A date moved by days is on that day of the calendar, at the time that is said, unless
// clocks leap over it: then it is right after the leap.
func TestDatesAtRandom(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	zones := []*time.Location{time.UTC, zone(t, "Europe/Berlin"), zone(t, "America/Santiago"), zone(t, "Australia/Lord_Howe"), zone(t, "Africa/Cairo"), zone(t, "America/St_Johns")}
	for range 20_000 {
		z, days := zones[random.IntN(len(zones))], random.IntN(81)-40
		date := time.Date(2026, 1, 1+random.IntN(700), 0, 0, 0, 0, time.UTC)
		d := plan.Date{Name: "d", PlusSeconds: int64(days) * daySeconds, Minute: random.IntN(24 * 60), Zone: plan.Zone{Location: z}}
		p := Person{Profile: `{"custom":{"d":"` + date.Format(time.DateOnly) + `"}}`}
		at, ok := dateOf(&d, date.AddDate(0, 0, -60), &p)
		wall := date.AddDate(0, 0, days).Add(time.Duration(d.Minute) * time.Minute)
		shown := at.In(z).Format("2006-01-02 15:04")
		if want := wall.Format("2006-01-02 15:04"); !ok || shown != want {
			_, before := at.Add(-time.Second).In(z).Zone()
			_, after := at.In(z).Zone()
			if !ok || after <= before || shown[:len("2006-01-02")] != want[:len("2006-01-02")] || shown < want {
				t.Fatalf("%s and %d days in %s are %s, %v; want %s", date.Format(time.DateOnly), days, z, shown, ok, want)
			}
		}
	}
}

// One of ten is held back, always the same people, and the others get their mail.
func TestControlGroup(t *testing.T) {
	j := load(t, `
id: held
entry: {when: {event: signup}}
control: {percent: 10}
steps:
  - {id: mail, message: {template: x}}
`)
	people := make([]Person, MaxPeople)
	for i := range people {
		people[i] = Person{ID: user.ID{Number: int64(i) + 1}, Profile: `{}`}
	}
	var out, again Result
	if _, err := j.Enter(people, start, &out); err != nil {
		t.Fatal(err)
	}
	if _, err := j.Enter(people, start.Add(time.Hour), &again); err != nil {
		t.Fatal(err)
	}
	held := 0
	for i := range people {
		if out.Records[i].State != again.Records[i].State {
			t.Errorf("person %d is in the control group at one time only", i)
		}
		if out.Records[i].State == journey.StateControl {
			held++
		}
	}
	if held < MaxPeople/20 || held > MaxPeople/6 || len(out.Mails) != MaxPeople-held {
		t.Errorf("%d of %d people are held back, %d get mail", held, MaxPeople, len(out.Mails))
	}
}

// Who has no profile is looked at again: soon if it came just now, as when the database
// has gone back by some seconds, and then ever later.
func TestWhoHasNoProfile(t *testing.T) {
	j := load(t, waysText)
	p := Person{ID: user.ID{Number: 1}, Profile: `{"custom":{"plan":"gold"}}`}
	var out Result
	if n, err := j.Enter([]Person{p}, start, &out); err != nil || n != 1 {
		t.Fatal(n, err)
	}
	entered := out.Records[0]
	for _, x := range []struct{ inside, want time.Duration }{
		{time.Second, 5 * time.Second}, {time.Minute, time.Minute}, {2 * time.Minute, 2 * time.Minute}, {24 * time.Hour, 10 * time.Minute},
	} {
		p.Record, p.Profile = entered, ""
		now := start.Add(x.inside)
		p.Record.Due = uint32(now.Unix())
		if err := j.Due([]Person{p}, now, &out); err != nil {
			t.Fatal(err)
		}
		if r := out.Records[0]; r.State != journey.StateInside || r.Step != entered.Step || r.Due != uint32(now.Add(x.want).Unix()) {
			t.Errorf("after %s: %+v, want to be looked at after %s", x.inside, r, x.want)
		}
	}
}
