package plan

import (
	"fmt"
	"strings"
	"testing"

	"sluice/journey"
)

// What is kept of the context is what steps look at after a wait or while they wait.
func TestContextThatIsKept(t *testing.T) {
	const head = "id: a\nentry: {when: {event: e}}\n"
	for steps, want := range map[string]string{
		"steps:\n  - {id: s, split: {if: {context: x, is: exists}, then: m, else: exit}}\n  - {id: m, message: {template: tour}}\n":                                   "{false []}",
		"steps:\n  - {id: m, message: {template: tour}, next: s}\n  - {id: s, split: {if: {context: x, is: exists}, then: exit, else: exit}}\n":                       "{false [x]}",
		"steps:\n  - {id: u, update: {attributes: {a: 1}}, next: s}\n  - {id: s, split: {if: {context: x, is: exists}, then: exit, else: exit}}\n":                    "{false [x]}",
		"steps:\n  - {id: d, delay: {until_date: {context: x}}, next: b}\n  - {id: b, delay: {until_date: {context: y}}}\n":                                           "{false [y]}",
		"steps:\n  - {id: d, delay: {for: 1h}}\nexit_when: {rule: {context: x, is: equals, value: 1}}\n":                                                              "{false [x]}",
		"steps:\n  - {id: w, wait_for: {within: 1d, paths: [{name: a, when: {rule: {context: x, is: equals, value: 1}}, next: exit}], otherwise: exit}}\n":            "{false [x]}",
		"steps:\n  - {id: s, split: {if: {context: x, is: exists}, then: g, else: d}}\n  - {id: d, delay: {for: 1h}}\n  - {id: g, go: {journey: welcome}}\n":          "{true []}",
		"steps:\n  - {id: d, delay: {until_date: {context: x, otherwise: s}}}\n  - {id: s, split: {if: {context: z, is: exists}, then: exit, else: exit}}\n":          "{false []}",
		"steps:\n  - {id: r, random: {paths: [{name: a, weight: 50, next: d}, {name: b, weight: 50, next: exit}]}}\n  - {id: d, delay: {until_date: {context: x}}}\n": "{false []}",
	} {
		_, p, err := LoadYAML(head+steps, world{})
		if err != nil {
			t.Errorf("%s: %v", steps, err)
			continue
		}
		if got := fmt.Sprint(p.Context()); got != want {
			t.Errorf("%s: got %s, want %s", steps, got, want)
		}
	}
}

// Members come with their texts as they are, and what would be too much is left out.
func TestMembersOf(t *testing.T) {
	long := `"` + strings.Repeat("x", journey.MaxContextBytes) + `"`
	context := `{"b":{"c":[1, 2]},"long":` + long + `,"a\"":"ü","b2":null}`
	for _, x := range []struct {
		of   Members
		want string
	}{
		{Members{All: true}, `{"b":{"c":[1, 2]},"a\"":"ü","b2":null}`},
		{Members{Names: []string{"a\"", "b", "long"}}, `{"b":{"c":[1, 2]},"a\"":"ü"}`},
		{Members{Names: []string{"none"}}, ""},
		{Members{}, ""},
	} {
		if got := x.of.Of(context); got != x.want {
			t.Errorf("%+v: got %s, want %s", x.of, got, x.want)
		}
	}
}
