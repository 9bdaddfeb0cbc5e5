package rule

import (
	"fmt"
	"strings"
	"testing"
)

func TestErrorsNameThePlace(t *testing.T) {
	deep := strings.Repeat(`{"not":`, MaxNestingLevels) + `{"event":"a","is":"exists"}` + strings.Repeat("}", MaxNestingLevels)
	one := `{"event":"a","is":"exists"},`
	many := func(s string, n int) string { return "[" + strings.TrimSuffix(strings.Repeat(s, n), ",") + "]" }
	half := `{"or":` + many(one, MaxConditions/2) + `},`
	for _, c := range []struct{ text, path, want string }{
		{``, "", "want JSON"},
		{`[]`, "", "an object, got an array"},
		{`{}`, "", "want and, or, not"},
		{strings.Repeat(" ", MaxRuleBytes) + `{}`, "", "at most 65536 bytes"},
		{`{"and":[]}`, "and", "at least one"},
		{`{"and":{}}`, "and", "a list of conditions, got an object"},
		{`{"and":[{"event":"a","is":"exists"},{"attribute":5,"is":"exists"}]}`, "and[1].attribute", "want a name, got a number"},
		{`{"and":[{"not":{"or":[7]}}]}`, "and[0].not.or[0]", "an object, got a number"},
		{`{"and":[],"or":[]}`, "", `nothing beside "and"`},
		{deep, strings.TrimSuffix(strings.Repeat("not.", MaxNestingLevels-1), "."), "at most 16 levels"},
		{`{"or":` + many(one, MaxListItems+1) + `}`, "or", "at most 200"},
		{`{"or":[` + half + half + strings.TrimSuffix(one, ",") + `]}`, "or[2].is", "at most 256 conditions"},
		{`{"event":"a","attribute":"b","is":"exists"}`, "", `both "attribute" and "event"`},
		{`{"event":"a","is":"exists","is":"exists"}`, "is", "twice"},
		{`{"event":"a","is":"exists","when":1}`, "when", "want a name that conditions have"},
		{`{"event":"a"}`, "is", "want a comparison, such as equals, got nothing"},
		{`{"event":"a","is":"matches_regex","value":"a"}`, "is", "want a comparison that event has"},
		{`{"event":"a","is":"exists","value":1}`, "value", "want none"},
		{`{"event":"a","of":"middle","is":"exists"}`, "of", "count, first or last"},
		{`{"attribute":"a","of":"last","is":"exists"}`, "of", "with an event or a purchase only"},
		{`{"event":"a","is":"equals","value":"1"}`, "value", "want a number, got a string"},
		{`{"attribute":"a","is":"equals","value":null}`, "value", "a text, a number or a boolean, got null"},
		{`{"attribute":"a","is":"is_one_of","value":[1,[]]}`, "value[1]", "got an array"},
		{`{"attribute":"a","is":"is_one_of","value":` + many("1,", MaxListItems+1) + `}`, "value", "at most 200 items"},
		{`{"attribute":"a","is":"greater_than"}`, "value", "want a number, got nothing"},
		{`{"attribute":"a","is":"matches_regex","value":"("}`, "value", "RE2"},
		{`{"attribute":"a","is":"matches_regex","value":"(a{500}){3}"}`, "value", "RE2"},
		{`{"attribute":"a","is":"matches_regex","value":"(?:a{500}b{500})"}`, "value", "too large"},
		{`{"attribute":"a","is":"matches_regex","value":"` + strings.Repeat("a", MaxRegexBytes+1) + `"}`, "value", "at most 1024 bytes"},
		{`{"or":` + many(`{"attribute":"a","is":"matches_regex","value":"a"},`, MaxRegexes+1) + `}`, "or[16].is", "at most 16 regular"},
		{`{"attribute":"a","is":"before","value":"soon"}`, "value", "want a time"},
		{`{"attribute":"a","is":"before","value":"0000-12-31"}`, "value", "the years 1 to 9999"},
		{`{"attribute":"a","is":"less_than_x_days_ago","value":36501}`, "value", "0 to 36500"},
		{`{"attribute":"a","is":"less_than_x_days_ago","value":"7"}`, "value", "whole number of days"},
		{`{"attribute":"a","is":"before","value":"2026-01-01","zone":"Mars/Olympus"}`, "zone", "IANA"},
		{`{"attribute":"a","is":"exists","zone":"user"}`, "zone", "times only"},
		{`{"attribute":"a","is":"exists","digits":true}`, "digits", "times only"},
		{`{"event":"a","of":"last","is":"before","value":"2026-01-01","digits":true}`, "digits", "with an attribute, a field, a property or the context"},
		{`{"attribute":"a","is":"before","value":"2026-01-01","digits":"yes"}`, "digits", "true or false, got a string"},
		{`{"attribute":"","is":"exists"}`, "attribute", "1 to 255 characters"},
		{`{"field":"plan","is":"exists"}`, "field", "standard field"},
		{`{"subscription":"fax","is":"equals","value":"subscribed"}`, "subscription", "email or push"},
		{`{"group":"g","is":"equals","value":"opted_in"}`, "value", "unknown"},
		{`{"bucket":"b","is":"exists"}`, "is", "want a comparison that bucket has"},
	} {
		checkError(t, Compile, c.text, c.path, c.want)
	}
}

func checkError(t *testing.T, compile func(string) (*Rule, error), text, path, want string) {
	t.Helper()
	r, err := compile(text)
	e, ok := err.(*Error)
	if !ok || e.Path != path || !strings.Contains(e.Want, want) {
		t.Errorf("%.100s\ngot  %v, %v\nwant %s: %s", text, r, err, path, want)
	}
}

func TestExplain(t *testing.T) {
	r, err := Compile(`{"and":[{"attribute":"plan","is":"equals","value":"gold"},{"not":{"event":"login","is":"greater_than","value":3}},
		{"event":"login","of":"last","is":"less_than_x_days_ago","value":7},{"spent":"EUR","is":"less_than","value":1},{"group":"g","is":"equals","value":"subscribed"},{"field":"country","is":"exists"}]}`)
	if err != nil {
		t.Fatal(err)
	}
	f, err := r.Explain(fmt.Sprintf(`{"custom":{"plan":"gold"},"events":{"login":[2,5,%d]},"revenue":{"EUR":1500000}}`, int64(nowMillis)), 1, nowMillis)
	if err != nil {
		t.Fatal(err)
	}
	want := `no   and
yes    {"attribute":"plan","is":"equals","value":"gold"}: "gold"
yes    not
no       {"event":"login","is":"greater_than","value":3}: 2
yes    {"event":"login","of":"last","is":"less_than_x_days_ago","value":7}: 2026-03-29T22:30:00Z
no     {"spent":"EUR","is":"less_than","value":1}: 1.5
no     {"group":"g","is":"equals","value":"subscribed"}: unknown
no     {"field":"country","is":"exists"}: nothing
`
	if got := f.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if _, err := r.Explain(`{"custom":`, 1, nowMillis); err == nil {
		t.Error("what is no profile is explained")
	}
}

// Numbers and texts of digits are counts, years and codes, and no times of 1970, unless
// a rule asks for them.
func TestDigitsAreNoTimes(t *testing.T) {
	for _, x := range []struct {
		value string // of the attribute
		rule  string
		want  bool
	}{
		{`"2024"`, `"is":"before","value":"2026-01-01"`, false},
		{`20240101`, `"is":"before","value":"2026-01-01"`, false},
		{`"20240101"`, `"is":"before","value":"2026-01-01"`, false},
		{`" 17 "`, `"is":"before","value":"2026-01-01"`, false},
		{`17.5`, `"is":"greater_than_x_days_ago","value":7`, false},
		{`"2024-01-01"`, `"is":"before","value":"2026-01-01"`, true},
		{`"2024-01-01"`, `"is":"greater_than_x_days_ago","value":7`, true},
		{`"20240101"`, `"is":"before","value":"2026-01-01","digits":true`, true},
		{`1774823400`, `"is":"less_than_x_days_ago","value":1,"digits":true`, true},
		{`1774823400`, `"is":"less_than_x_days_ago","value":1,"digits":false`, false},
		{`1774823400`, `"is":"before","value":1774823401`, true}, // it compares with such a time itself
		{`"1774823400"`, `"is":"after","value":"1774823399"`, true},
	} {
		r, err := Compile(`{"attribute":"a",` + x.rule + `}`)
		if err != nil {
			t.Errorf("%s: %v", x.rule, err)
			continue
		}
		f, err := r.Explain(`{"custom":{"a":`+x.value+`}}`, 1, nowMillis)
		if err != nil || f.Holds != x.want {
			t.Errorf("%s of %s: %v, %v", x.rule, x.value, f.Holds, err)
		}
		if again, err := Compile(r.String()); err != nil || again.String() != r.String() {
			t.Errorf("%s is kept as %s: %v", x.rule, r, err)
		}
	}
}

// A long text matches no expression, whatever the expression is.
func TestRegexTextIsBounded(t *testing.T) {
	r, err := Compile(`{"attribute":"a","is":"matches_regex","value":"x"}`)
	if err != nil {
		t.Fatal(err)
	}
	for n, want := range map[int]bool{MaxRegexTextBytes: true, MaxRegexTextBytes + 1: false} {
		f, err := r.Explain(`{"custom":{"a":"`+strings.Repeat("x", n)+`"}}`, 1, nowMillis)
		if err != nil || f.Holds != want {
			t.Errorf("%d bytes: %v, %v", n, f, err)
		}
	}
}

func TestSetsAreBounded(t *testing.T) {
	r, err := Compile(`{"event":"a","is":"exists"}`)
	if err != nil {
		t.Fatal(err)
	}
	rules := make([]*Rule, MaxRules+1)
	for i := range rules {
		rules[i] = r
	}
	if _, err := NewSet(rules...); err == nil {
		t.Error("65 rules make a set")
	}
	if _, err := NewSet(rules[1:]...); err != nil {
		t.Error(err)
	}
}
