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
		if got := keptOf(p); got != want {
			t.Errorf("%s: got %s, want %s", steps, got, want)
		}
	}
}

func keptOf(p *Plan) string {
	kept := p.Context()
	return fmt.Sprintf("{%t %v}", kept.All, kept.Names)
}

// What steps look at of an event that a step has waited for is kept under a name of its own:
// beside all that a step go takes along, and instead of that of an event of before.
func TestWaitedMembers(t *testing.T) {
	const text = `
id: a
entry: {when: {event: e}}
steps:
  - id: w
    wait_for: {within: 1d, paths: [{name: a, when: {event: f}, next: s}], otherwise: s}
  - {id: s, split: {if: {property: x, step: w, is: exists}, then: g, else: exit}}
  - {id: g, go: {journey: welcome}}
`
	_, p, err := LoadYAML(text, world{})
	if err != nil {
		t.Fatal(err)
	}
	kept := p.Context()
	if !kept.All || fmt.Sprint(kept.Names) != "[wait_for:w/x]" || !kept.WaitsFor("w") || kept.WaitsFor("v") || kept.WaitsFor("wait") {
		t.Errorf("%+v", kept)
	}
	context := kept.WithWaited(`{"a":1,"wait_for:w/x":"old","wait_for:v/y":2}`, "w", `{"x":[3],"z":4}`)
	if want := `{"a":1,"wait_for:v/y":2,"wait_for:w/x":[3]}`; context != want {
		t.Errorf("got %s, want %s", context, want)
	}
	if got, want := kept.Of(context), `{"a":1,"wait_for:w/x":[3]}`; got != want {
		t.Errorf("of it %s, want %s", got, want)
	}
	if got := kept.WithWaited(`{"wait_for:w/x":1}`, "w", ""); got != "{}" {
		t.Errorf("without properties %s is left", got)
	}
	entered, waited := SplitWaited(`{"a":1,"wait_for:v/y":2,"wait_for:w/x":[3],"wait_for:w/z":4}`)
	if entered != `{"a":1}` || waited != `{"v":{"y":2},"w":{"x":[3],"z":4}}` {
		t.Errorf("apart: %s and %s", entered, waited)
	}
	if entered, waited = SplitWaited(`{"wait_for:w/x":1}`); entered != "" || waited != `{"w":{"x":1}}` {
		t.Errorf("alone: %s and %s", entered, waited)
	}
	const named = `{"wait_for:/x":1,"wait_for:A b/y":2,"wait_for:w":3}`
	if entered, waited = SplitWaited(named); entered != named || waited != "" {
		t.Errorf("what no step has waited for: %s and %s", entered, waited)
	}
	if kept = (Members{AllWaited: true}); !kept.WaitsFor("w") || kept.Of(context) != `{"wait_for:v/y":2,"wait_for:w/x":[3]}` {
		t.Errorf("all that steps waited for: %s", kept.Of(context))
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
