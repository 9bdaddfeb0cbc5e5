package rule

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"sluice/journey"
)

// What today's places cannot provide is refused, with the reason.
func TestRulesAboutUsersAlone(t *testing.T) {
	for _, c := range []struct{ text, path string }{
		{`{"property":"a","is":"exists"}`, "property"},
		{`{"context":"a","is":"exists"}`, "context"},
		{`{"and":[{"journey":"a","is":"inside"}]}`, "and[0].journey"},
		{`{"mail":"opened","is":"exists"}`, "mail"},
		{`{"segment":"a"}`, "segment"},
	} {
		checkError(t, Compile, c.text, c.path, "for the rules of journeys")
	}
	_, err := CompileFor(`{"property":"a","is":"exists"}`, Options{Allow: Context, Refuse: func(what About) string {
		if what != Properties {
			t.Errorf("asked why not %b", what)
		}
		return "a schedule has no properties"
	}})
	if err == nil || !strings.Contains(err.Error(), "property: want something else: a schedule has no properties") {
		t.Error(err)
	}
}

func TestErrorsBeyondProfiles(t *testing.T) {
	everything := func(text string) (*Rule, error) { return CompileFor(text, Options{Allow: Everything}) }
	for _, c := range []struct{ text, path, want string }{
		{`{"attribute":"a","path":"b","is":"exists"}`, "path", "a list of names"},
		{`{"attribute":"a","path":[],"is":"exists"}`, "path", "at least one"},
		{`{"attribute":"a","path":[1],"is":"exists"}`, "path", "names of members"},
		{`{"attribute":"a","path":["","b"],"is":"exists"}`, "path", "names of members"},
		{`{"attribute":"a","path":["1","2","3","4","5","6","7","8","9"],"is":"exists"}`, "path", "at most 8"},
		{`{"event":"a","path":["b"],"is":"exists"}`, "path", "with attribute, field, property, context only"},
		{`{"field":"created","path":["b"],"is":"exists"}`, "path", "want none with created"},
		{`{"attribute":"a","step":"b","is":"exists"}`, "step", "with property, journey, mail only"},
		{`{"journey":"A b","is":"inside"}`, "journey", "lower-case letters"},
		{`{"journey":"a","is":"exists"}`, "is", "want a comparison that journey has: inside, not_inside, not_passed, passed, was_inside, was_not_inside"},
		{`{"journey":"a","is":"passed"}`, "is", "with a step"},
		{`{"journey":"a","step":"s","is":"inside"}`, "is", "without one"},
		{`{"journey":"a","branch":"s","is":"inside"}`, "is", "the step of the branch"},
		{`{"mail":"bounced","is":"exists"}`, "mail", "received, opened or clicked"},
		{`{"property":"a","step":"A b","is":"exists"}`, "step", "lower-case letters"},
		{`{"context":"a","step":"s","is":"exists"}`, "step", "with property, journey, mail only"},
		{`{"mail":"opened","step":"s","is":"exists"}`, "step", "the journey of the step"},
		{`{"mail":"opened","is":"less_than_x_days_ago","value":31}`, "value", "1 to 30 days"},
		{`{"mail":"opened","is":"less_than_x_days_ago","value":0}`, "value", "1 to 30 days"},
		{`{"mail":"opened","is":"less_than_x_days_ago","value":3,"zone":"user"}`, "zone", "24 hours"},
		{`{"mail":"opened","is":"greater_than_x_days_ago","value":3}`, "is", "want a comparison that mail has: does_not_exist, exists, less_than_x_days_ago"},
		{`{"mail":"opened","event":"a","is":"exists"}`, "", `both "event" and "mail"`},
		{`{"mail":"opened","tag":"","is":"exists"}`, "tag", "1 to 128 bytes"},
		{`{"mail":"opened","when":"","is":"exists"}`, "when", "property, context, journey, mail, of, is, value, zone, digits, path, step, branch, message, tag"},
	} {
		checkError(t, everything, c.text, c.path, c.want)
	}
}

// A property of what a step has waited for is looked up beside what the person entered with,
// and is another one than that of the event at hand.
func TestPropertiesOfWhatAStepHasWaitedFor(t *testing.T) {
	const text = `{"property":"total","step":"react","path":["net"],"is":"greater_than","value":20}`
	text2 := strings.Replace(text, `"step":"react","path":["net"]`, `"path":["net"],"step":"react"`, 1)
	r, err := CompileFor(text, Options{Allow: Waited})
	if err != nil || r.String() != text2 || !slices.Equal(r.WaitedFor(), []string{"react"}) {
		t.Fatal(r, err)
	}
	set, err := NewSet(r)
	if err != nil || !slices.Equal(set.Context(), []string{"wait_for:react/total"}) || !set.Asks() {
		t.Fatal(set.Context(), err)
	}
	for _, x := range []struct {
		given Given
		want  uint64
	}{
		{Given{Context: `{"total":{"net":1},"wait_for:react/total":{"net":30}}`}, 1},
		{Given{Context: `{"total":{"net":30},"wait_for:other/total":{"net":30}}`, Properties: `{"total":{"net":30}}`}, 0},
	} {
		var out [1]uint64
		if _, err := set.MatchGiven([]string{`{}`}, []uint64{1}, nowMillis, []Given{x.given}, out[:]); err != nil || out[0] != x.want {
			t.Errorf("%+v: %d, %v", x.given, out[0], err)
		}
	}
	if _, err := CompileFor(text, Options{Allow: Everything &^ Waited}); err == nil {
		t.Error("it is taken where nothing has waited")
	}
	if _, err := CompileFor(`{"property":"a","is":"exists"}`, Options{Allow: Waited}); err == nil {
		t.Error("a property of no step is taken where no event is at hand")
	}
}

// A dotted name is a name: only path looks inside.
func TestDottedNamesAreNames(t *testing.T) {
	const text = `{"custom":{"address":{"city":"Wien"},"address.city":"Graz"}}`
	for rule, want := range map[string]bool{
		`{"attribute":"address.city","is":"equals","value":"Graz"}`:            true,
		`{"attribute":"address","path":["city"],"is":"equals","value":"Wien"}`: true,
		`{"attribute":"address","path":["town"],"is":"exists"}`:                false,
		`{"attribute":"address.city","path":["city"],"is":"exists"}`:           false,
	} {
		r, err := Compile(rule)
		if err != nil {
			t.Fatal(err)
		}
		if f, err := r.Explain(text, 1, nowMillis); err != nil || f.Holds != want || r.String() != rule {
			t.Errorf("%s: %v, %v", r, f, err)
		}
	}
}

func TestSegmentsInRules(t *testing.T) {
	o := Options{Segment: func(id string) (*Rule, error) {
		if id != "g" {
			return nil, errors.New("there is no segment " + id)
		}
		return Compile(`{"attribute":"plan","is":"equals","value":"gold"}`)
	}}
	const text = `{"and":[{"not":{"segment":"g"}},{"event":"a","is":"exists"}]}`
	r, err := CompileFor(text, o)
	if err != nil || r.String() != text {
		t.Fatal(r, err)
	}
	for profile, want := range map[string]bool{`{"events":{"a":[1,1,1]}}`: true, `{"custom":{"plan":"gold"},"events":{"a":[1,1,1]}}`: false} {
		if f, err := r.Explain(profile, 1, nowMillis); err != nil || f.Holds != want || !strings.Contains(f.String(), `segment "g"`) {
			t.Errorf("%s:\n%v, %v", profile, f, err)
		}
	}
	segments := func(text string) (*Rule, error) { return CompileFor(text, o) }
	checkError(t, segments, `{"or":[{"segment":"h"}]}`, "or[0].segment", "there is no segment h")
	checkError(t, segments, `{"segment":"g","is":"exists"}`, "", `nothing beside "segment"`)
	checkError(t, segments, `{"segment":1}`, "segment", "the id of a segment, got a number")
	many := strings.TrimSuffix(strings.Repeat(`{"segment":"g"},`, MaxListItems), ",")
	checkError(t, segments, `{"and":[{"or":[`+many+`]},{"or":[`+many+`]}]}`, "and[1].or[56].segment", "at most 256 conditions")
}

func TestReadsAndNeeds(t *testing.T) {
	r, err := CompileFor(`{"and":[{"attribute":"plan","path":["name"],"is":"exists"},{"field":"dob","is":"before","value":"2000-01-01","zone":"user"},{"spent":"EUR","is":"exists"},
		{"property":"a","is":"exists"},{"bucket":"a","is":"less_than","value":1},{"mail":"opened","tag":"t","is":"less_than_x_days_ago","value":7},
		{"journey":"j","step":"s","branch":"b","is":"not_passed"},{"mail":"opened","tag":"t","is":"less_than_x_days_ago","value":7}]}`, Options{Allow: Everything})
	if err != nil {
		t.Fatal(err)
	}
	reads, _ := r.Reads()
	if want := []Read{{"attribute", "plan"}, {"field", "dob"}, {"field", "time_zone"}, {"spent", "EUR"}}; !reflect.DeepEqual(reads, want) {
		t.Errorf("it reads %v, want %v", reads, want)
	}
	set, err := NewSet(r)
	if err != nil {
		t.Fatal(err)
	}
	needs := set.Needs()
	if want := []Need{{Event: journey.MailOpened, Of: journey.MailOf{Tag: "t"}, Days: 7}, {Journey: "j", Is: isPassed, Step: "s", Branch: "b"}}; !reflect.DeepEqual(needs, want) {
		t.Errorf("it needs %v, want %v", needs, want)
	}
	if !needs[1].Passed() || needs[1].Inside() || needs[1].WasInside() {
		t.Errorf("%+v does not ask for a passed step", needs[1])
	}
}

// A set that asks for more than profiles is not matched against profiles alone.
func TestMatchRefusesWhatItCannotAnswer(t *testing.T) {
	r, err := CompileFor(`{"property":"a","is":"does_not_exist"}`, Options{Allow: Properties})
	if err != nil {
		t.Fatal(err)
	}
	set, err := NewSet(r)
	if err != nil {
		t.Fatal(err)
	}
	out := []uint64{0}
	if _, err := set.Match([]string{"{}"}, []uint64{1}, nowMillis, out); err == nil || out[0] != 0 {
		t.Errorf("matched without properties: %v, %b", err, out)
	}
	if _, err := set.MatchGiven([]string{"{}"}, []uint64{1}, nowMillis, nil, out); err == nil {
		t.Error("nothing is given for one person, and that is taken")
	}
	for text, unread := range map[string]int{"": 0, "{}": 0, "[]": 1, `{"a":`: 1} {
		n, err := set.MatchGiven([]string{"{}"}, []uint64{1}, nowMillis, []Given{{Properties: text}}, out)
		if err != nil || n != unread || out[0] != uint64(1-unread) {
			t.Errorf("%q: %d unread, %v, %b", text, n, err, out)
		}
	}
}

// Sets with common questions are answered by the same bits.
func TestCommonQuestions(t *testing.T) {
	var q Questions
	var sets []*Set
	for _, text := range []string{`{"journey":"a","is":"inside"}`, `{"attribute":"x","is":"does_not_exist"}`,
		`{"and":[{"journey":"b","is":"inside"},{"journey":"a","is":"not_inside"}]}`} {
		r, err := CompileFor(text, Options{Allow: Everything})
		if err != nil {
			t.Fatal(err)
		}
		s, err := q.NewSet(r)
		if err != nil {
			t.Fatal(err)
		}
		sets = append(sets, s)
	}
	if needs := q.Needs(); len(needs) != 2 || needs[0].Journey != "a" || needs[1].Journey != "b" {
		t.Fatalf("the questions are %v", needs)
	}
	if !sets[0].Asks() || sets[1].Asks() || !sets[2].Asks() {
		t.Error("a set without questions asks, or one with them does not")
	}
	for known, want := range map[uint64][3]uint64{0b00: {0, 1, 0}, 0b01: {1, 1, 0}, 0b10: {0, 1, 1}, 0b11: {1, 1, 0}} {
		for i, s := range sets {
			out := []uint64{9}
			if _, err := s.MatchGiven([]string{"{}"}, []uint64{1}, nowMillis, []Given{{Known: known}}, out); err != nil || out[0] != want[i] {
				t.Errorf("known %b: set %d gives %b, %v; want %b", known, i, out[0], err, want[i])
			}
		}
	}
}
