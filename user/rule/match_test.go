package rule

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"sluice/user/profile"
)

// nowMillis of the tests: 2026-03-29 22:30 UTC, the night after the clocks of
// Europe went forward.
const nowMillis = 1774823400000

// wantBuckets is what bucketOf gave when it was written.
const wantBuckets = "5223 9595 3219"

func oneOf(r *rand.Rand, words ...string) string { return words[r.IntN(len(words))] }

var someTimes = []string{
	`"2026-03-29"`, `"2026-03-30"`, `"2026-03-28T23:30:00"`, `"2026-03-29T02:30"`, `"2026-03-29T22:30:00Z"`, `"2026-04-01T00:00:00+02:00"`,
	`"2026-03-26T22:30:00Z"`, `"2025-01-01"`, `1774823400`, `1774823401000`, `"soon"`, `"20260330"`, `"1958-03-30"`, `"19580330"`, `"0001-01-01T00:00:00Z"`, `"9999-12-31T23:59:59"`,
}

// someProfile makes a user up, out of few names and values.
func someProfile(r *rand.Rand) *profile.Profile {
	p := &profile.Profile{ExternalID: oneOf(r, "", "a", "u\"1"), CreatedMillis: int64(r.IntN(2)) * (nowMillis - r.Int64N(1e9))}
	values := append([]string{`"a"`, `"ä\"b"`, `"gold"`, `1`, `1.0`, `-2.5`, `12345678901234567890`, `9007199254740993`, `1e3`, `true`, `false`, `[]`, `["a",1,"x\\y"]`, `[1.5,"gold"]`, `{"a":1}`, `{"a":{"b":"gold","c":7},"c":"a"}`}, someTimes...)
	for _, name := range []string{"a", "b", "c", "é\"", "z"} {
		if r.IntN(2) == 0 {
			p.Custom.Set(name, oneOf(r, values...))
		}
	}
	for _, f := range [][]string{{"country", `"AT"`, `"DE"`}, {"email_subscribe", `"opted_in"`, `"unsubscribed"`}, {"push_subscribe", `"subscribed"`, `"unsubscribed"`},
		{"dob", `"1990-03-30"`, `"1958-03-29"`, `"0000-01-01"`}, {"time_zone", `"Europe/Vienna"`, `"Asia/Tokyo"`, `"America/New_York"`, `"Nowhere/At_All"`}} {
		if r.IntN(2) == 0 {
			p.Fields.Set(f[0], oneOf(r, f[1:]...))
		}
	}
	for range r.IntN(4) {
		p.CountEvent(oneOf(r, "a", "b", "\"q\""), nowMillis+r.Int64N(6e8)-4e8)
		p.CountPurchase(oneOf(r, "a", "b"), oneOf(r, "EUR", "USD"), r.Int64N(3)*500_000, 1+r.Int64N(3), nowMillis-r.Int64N(4e8))
		p.SetGroup(oneOf(r, "a", "b"), r.IntN(2) == 0, 7)
	}
	return p
}

// someRule makes a rule up; not each compiles.
func someRule(r *rand.Rand, levels int) string {
	if levels > 0 && r.IntN(3) == 0 {
		if r.IntN(3) == 0 {
			return `{"not":` + someRule(r, levels-1) + `}`
		}
		return `{"` + oneOf(r, "and", "or") + `":[` + someRule(r, levels-1) + `,` + someRule(r, levels-1) + `]}`
	}
	subject := oneOf(r, "attribute", "attribute", "attribute", "field", "field", "event", "purchase", "spent", "group", "subscription", "bucket",
		"property", "context", "journey", "mail")
	name := oneOf(r, "a", "b", "c", "é\\\"", "z")
	switch subject {
	case "field":
		name = oneOf(r, "country", "dob", "created", "external_id", "time_zone")
	case "spent":
		name = oneOf(r, "EUR", "USD")
	case "subscription":
		name = oneOf(r, "email", "push")
	case "journey", "mail":
		return someNeed(r, subject)
	}
	var names []string
	for is := range comparisons {
		names = append(names, is)
	}
	// A map's order is another one each time, and the test is to be repeatable.
	is := strings.Split(sortedNames(names), ",")[r.IntN(len(names))]
	of, value, zone := "", "", ""
	if slices.Contains([]string{"attribute", "property", "context"}, subject) {
		of = oneOf(r, "", "", `,"path":["a"]`, `,"path":["a","b"]`, `,"path":["c"]`)
	}
	if subject == "event" || subject == "purchase" {
		of = oneOf(r, "", `,"of":"count"`, `,"of":"first"`, `,"of":"last"`)
	}
	switch comparisons[is].wants {
	case wantScalar:
		value = oneOf(r, `"a"`, `"gold"`, `1`, `1.5`, `true`, `"ä\"b"`, `"subscribed"`, `"unsubscribed"`, `"unknown"`, `"opted_in"`, `"AT"`, `"x\\y"`, `0`)
	case wantNumber:
		value = oneOf(r, `0`, `1`, `1.5`, `-2.5`, `1e3`, `5000`, `12345678901234567890`, `9007199254740992`)
	case wantList:
		value = oneOf(r, `["a",1]`, `["AT","DE"]`, `[true,"gold",1e3]`)
	case wantRegex:
		value = oneOf(r, `"^[ag]"`, `"b$"`, `"o.d"`, `"\\d+-03"`, `""`)
	case wantTime:
		value = oneOf(r, someTimes...)
	case wantDays:
		value = oneOf(r, "0", "1", "2", "3", "400")
	}
	if comparisons[is].wants.isTime() && subject != "event" && subject != "purchase" && name != "created" {
		value += oneOf(r, "", "", `,"digits":true`, `,"digits":false`)
	}
	if comparisons[is].wants.isTime() {
		zone = oneOf(r, "", `,"zone":"user"`, `,"zone":"Europe/Vienna"`, `,"zone":"America/New_York"`)
	}
	if value != "" {
		value = `,"value":` + value
	}
	return fmt.Sprintf(`{"%s":"%s"%s,"is":"%s"%s%s}`, subject, name, of, is, value, zone)
}

// someNeed is a condition about a journey or mail.
func someNeed(r *rand.Rand, subject string) string {
	if subject == "journey" {
		return `{"journey":"` + oneOf(r, "x", "y") + `"` + oneOf(r, `,"is":"inside"}`, `,"is":"not_inside"}`, `,"is":"was_inside"}`, `,"is":"was_not_inside"}`,
			`,"step":"s","is":"passed"}`, `,"step":"s","branch":"b","is":"not_passed"}`)
	}
	return `{"mail":"` + oneOf(r, "received", "opened", "clicked") + `"` + oneOf(r, "", `,"tag":"t"`, `,"message":"m"`, `,"journey":"x"`, `,"journey":"x","step":"s"`) +
		oneOf(r, `,"is":"exists"}`, `,"is":"does_not_exist"}`, `,"is":"less_than_x_days_ago","value":7}`, `,"is":"less_than_x_days_ago","value":30}`)
}

// someGiven is what is known beside a profile.
func someGiven(r *rand.Rand) Given {
	values := []string{`"a"`, `"gold"`, `1`, `true`, `null`, `{"a":{"b":"gold","c":7},"c":"a"}`, `{"a":"a","a":1.0}`, `["a",1]`}
	object := func() string {
		return oneOf(r, "", `{}`, `{"z":`+oneOf(r, values...)+`,"a":`+oneOf(r, values...)+`,"b":`+oneOf(r, values...)+`,"a":`+oneOf(r, values...)+`}`)
	}
	return Given{Properties: object(), Context: object()}
}

// Match agrees with the obvious evaluator; each rule has a form that compiles
// into itself; Explain comes to the same end.
func TestMatchAgrees(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var profiles []*profile.Profile
	var texts []string
	var ids []uint64
	var given []Given
	for i := range MaxProfiles {
		p := someProfile(r)
		given = append(given, someGiven(r))
		profiles, texts, ids = append(profiles, p), append(texts, string(p.Append(nil))), append(ids, uint64(i))
	}
	seen := map[string][2]int{}
	for range 16 {
		rules := compilable(t, r, MaxRules)
		set, err := NewSet(rules...)
		if err != nil {
			t.Fatal(err)
		}
		out := make([]uint64, len(texts))
		for i := range given {
			given[i].Known = answers(ids[i], set.Needs())
		}
		if unread, err := set.MatchGiven(texts, ids, nowMillis, given, out); unread != 0 || err != nil {
			t.Fatal(unread, err)
		}
		for k, rule := range rules {
			again, err := CompileFor(rule.String(), Options{Allow: Everything})
			if err != nil || again.String() != rule.String() {
				t.Fatalf("%s: compiled again: %v, %v", rule, again, err)
			}
			tree := decoded(rule.String()).(map[string]any)
			for i, p := range profiles {
				if i%4 != k%4 { // each profile is compared with a quarter of all rules, each rule with a quarter of them
					continue
				}
				want := slow{p, ids[i], nowMillis, given[i]}.holds(tree)
				if got := out[i]>>k&1 == 1; got != want {
					t.Fatalf("%s\n%s\ngot %v, want %v", rule, texts[i], got, want)
				}
				if is, ok := tree["is"].(string); ok {
					n := seen[is]
					n[out[i]>>k&1]++
					seen[is] = n
				}
			}
			_, needs := rule.Reads()
			alone := given[k]
			alone.Known = answers(ids[k], needsOf(needs))
			if f, err := rule.ExplainGiven(texts[k], ids[k], nowMillis, alone); err != nil || f.Holds != (out[k]>>k&1 == 1) {
				t.Fatalf("%s is explained as %v, %v", rule, f, err)
			}
		}
	}
	for is := range comparisons {
		if seen[is][0] == 0 || seen[is][1] == 0 {
			t.Errorf("%s held %d times and did not %d times: the test does not test it", is, seen[is][1], seen[is][0])
		}
	}
}

func compilable(t *testing.T, r *rand.Rand, n int) (rules []*Rule) {
	t.Helper()
	for len(rules) < n {
		text := someRule(r, 3)
		if !json.Valid([]byte(text)) {
			t.Fatalf("%s is no JSON", text)
		}
		if rule, err := CompileFor(text, Options{Allow: Everything}); err == nil {
			rules = append(rules, rule)
		}
	}
	return rules
}

// Expressions are left out: what regexp pools, the race detector throws away
// now and then.
func TestMatchDoesNotAllocateForEach(t *testing.T) {
	_, texts, ids := benchmarkSet(t)
	rules := []*Rule{}
	for _, text := range append([]string{
		`{"attribute":"renewal","is":"less_than_x_days_in_the_future","value":40,"zone":"user"}`,
		`{"attribute":"plan","is":"before","value":"2026-01-01","zone":"user"}`,
	}, benchmarkRules...) {
		r, err := Compile(text)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(text, "regex") {
			rules = append(rules, r)
		}
	}
	set, err := NewSet(rules...)
	if err != nil {
		t.Fatal(err)
	}
	out := make([]uint64, len(texts))
	allocs := testing.AllocsPerRun(10, func() {
		if unread, err := set.Match(texts, ids, nowMillis, out); unread != 0 || err != nil {
			t.Fatal(unread, err)
		}
	})
	if allocs > 10 {
		t.Errorf("%v allocations for %d profiles", allocs, len(texts))
	}
}

// A set has nothing that a match changes: several at once agree with one.
func TestMatchesAtOnce(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	set, err := NewSet(compilable(t, r, MaxRules)...)
	if err != nil {
		t.Fatal(err)
	}
	texts, ids := make([]string, 64), make([]uint64, 64)
	given := make([]Given, len(texts))
	for i := range texts {
		texts[i], ids[i], given[i] = string(someProfile(r).Append(nil)), uint64(i), someGiven(r)
	}
	results := make([][]uint64, 4)
	var matching sync.WaitGroup
	for i := range results {
		matching.Go(func() {
			out := make([]uint64, len(texts))
			if unread, err := set.MatchGiven(texts, ids, nowMillis, given, out); unread != 0 || err != nil {
				t.Error(unread, err)
			}
			results[i] = out
		})
	}
	matching.Wait()
	for _, out := range results {
		if !slices.Equal(out, results[0]) {
			t.Fatalf("got %x and %x", out, results[0])
		}
	}
}

// A person born before 1970 was born before 1980.
func TestBirthdays(t *testing.T) {
	for text, want := range map[string]bool{
		`{"field":"dob","is":"before","value":"1980-01-01"}`: true, `{"field":"dob","is":"before","value":"1958-03-30"}`: true, `{"field":"dob","is":"after","value":"1958-03-30"}`: false,
		`{"field":"dob","is":"greater_than_x_days_ago","value":20000,"zone":"user"}`: true, `{"field":"dob","is":"less_than_x_days_ago","value":36500}`: true, `{"field":"created","is":"before","value":"1958-01-01"}`: false,
	} {
		r, err := Compile(text)
		if err != nil {
			t.Fatal(err)
		}
		f, err := r.Explain(`{"created":7,"fields":{"dob":"1958-03-29","time_zone":"Asia/Tokyo"}}`, 1, nowMillis)
		if err != nil || f.Holds != want {
			t.Errorf("%s: %v, %v", text, f, err)
		}
	}
}

func TestMatchOfWhatIsNoProfile(t *testing.T) {
	set, _, ids := benchmarkSet(t)
	out := []uint64{^uint64(0), ^uint64(0), ^uint64(0)}
	texts := []string{"", "{}", `{"custom":{"a":`}
	if unread, err := set.Match(texts, ids[:3], nowMillis, out); unread != 2 || err != nil || out[0] != 0 || out[2] != 0 {
		t.Errorf("%d unread, %v, %b", unread, err, out)
	}
	if _, err := set.Match(texts, ids[:2], nowMillis, out); err == nil {
		t.Error("two ids for three texts are taken")
	}
}

// Buckets are even, differ by seed, and never change.
func TestBuckets(t *testing.T) {
	const users = 100_000
	low, both := 0, 0
	for id := range uint64(users) {
		a, b := bucketOf(id, seedOf("a")), bucketOf(id, seedOf("b"))
		if a < 0 || a >= maxBuckets {
			t.Fatalf("user %d is in bucket %d", id, a)
		}
		if a < 5000 {
			low++
			if b < 5000 {
				both++
			}
		}
	}
	if low < users*49/100 || low > users*51/100 || both < users*24/100 || both > users*26/100 {
		t.Errorf("%d of %d in the lower half, %d with both seeds", low, users, both)
	}
	if got := fmt.Sprint(bucketOf(1, seedOf("")), bucketOf(2, seedOf("spring")), bucketOf(1<<60, seedOf("spring"))); got != wantBuckets {
		t.Errorf("buckets are %s, were %s", got, wantBuckets)
	}
}

func FuzzRule(f *testing.F) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 50 {
		f.Add(someRule(r, 2), string(someProfile(r).Append(nil)))
	}
	f.Add(`{"attribute":"a","is":"equals","value":""}`, `{"events":{"a":[]},"revenue":5}`)
	f.Fuzz(func(t *testing.T, text, user string) {
		everything := func(text string) (*Rule, error) { return CompileFor(text, Options{Allow: Everything}) }
		for _, compile := range []func(string) (*Rule, error){Compile, everything} {
			rule, err := compile(text)
			if err != nil {
				continue
			}
			again, err := everything(rule.String())
			if err != nil || again.String() != rule.String() {
				t.Fatalf("%s becomes %s, and that %v, %v", text, rule, again, err)
			}
			set, err := NewSet(rule, again)
			if err != nil {
				t.Fatal(err)
			}
			out := []uint64{0}
			unread, err := set.MatchGiven([]string{user}, []uint64{7}, nowMillis, []Given{{Properties: user}}, out)
			if err != nil || out[0] != 0 && out[0] != 3 {
				t.Fatal(unread, err, out)
			}
			if f, err := rule.ExplainGiven(user, 7, nowMillis, Given{Properties: user}); (err == nil) != (unread == 0) || err == nil && f.Holds != (out[0] == 3) {
				t.Fatalf("%s is explained as %v, %v; match says %b", rule, f, err, out)
			}
		}
	})
}
