package template

import (
	"slices"
	"strings"
	"testing"

	"sluice/lib/jsonscan"
	"sluice/mail"
)

// What a template names of the context is found wherever it stands, and prose is not.
func TestContextMembers(t *testing.T) {
	for text, want := range map[string][]string{
		"in the context of {{ total }}":                                               nil,
		"{{context.total}} {{ context.${items} | join: context.comma }}":              {"comma", "items", "total"},
		`{% if context["a b"] == 1 and context['c'].d %}{% endif %}`:                  {"a b", "c"},
		"{% for i in context.items %}{{ i.context_x }}{% endfor %}{{ my_context.z }}": {"items"},
		"{{ context.größe }} {{context.数量|upcase}} {{ context.a-b }}":                 {"a-b", "größe", "数量"},
		"{{context.a?}} {{ context.b-}} {%- if context.c-%}x{%endif%}":                {"a?", "b", "c"},
		"{% if custom_attribute.${off%} > context.least %}{% endif %}":                {"least"},
	} {
		names, all := ContextMembers(&mail.TemplateVersion{HTML: text, Headers: []mail.TemplateHeader{{Name: "X", Value: "{{context}}"}}})
		if !all {
			t.Errorf("%s: the header has all of the context", text)
		}
		if names = slices.DeleteFunc(names, func(s string) bool { return s == "" }); !slices.Equal(names, want) {
			t.Errorf("%s: got %q, want %q", text, names, want)
		}
		if _, all = ContextMembers(&mail.TemplateVersion{Subject: text}); all {
			t.Errorf("%s: it has some members alone", text)
		}
	}
}

// A mail with those members alone of the context is the mail with all of it, however they
// are named.
func TestContextMembersAreEnough(t *testing.T) {
	const whole = `{"a":1,"a?":2,"größe":"L","gr":"x","数量":4,"a-b":5,"b c":6,"d":{"é":8}}`
	for _, text := range []string{"{{context.größe}}", "{{ context.größe-}} ", "{{context.${größe}}}", `{{context["größe"]}}`, "{{ context . 数量 }}", "{{context.a?}}", "{{context.a-}}",
		"{{context.a-b}}", "{{context['b c']}}", "{{context.d.é}}", "{{ context.größe[0] }}{{ context.a? }}", "{% assign c = context %}{{c.größe}}", "{{ context.size }}", "{% if context.size > 5 %}{{ context.first | join }}{% endif %}", "{% if context.größe == 'L' -%} x {%- endif%}"} {
		v := &mail.TemplateVersion{Subject: "s", Text: text, Class: mail.ClassMarketing}
		compiled, err := Compile(v)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		names, all := ContextMembers(v)
		var cut []string
		for m := jsonscan.Read(whole); m.Next(); {
			if all || slices.Contains(names, m.Key) {
				cut = append(cut, `"`+m.Key+`":`+m.Value.Raw)
			}
		}
		want, err := compiled.Render(&Input{Variables: WithContext("", whole)})
		got, err2 := compiled.Render(&Input{Variables: WithContext("", "{"+strings.Join(cut, ",")+"}")})
		if err != nil || err2 != nil || got.Text != want.Text || want.Text == "" {
			t.Errorf("%s: got %q of %q, want %q: %v, %v", text, got.Text, names, want.Text, err, err2)
		}
	}
}

// The context is a variable, escaped as others, beside those of the step; a variable of
// its name stays.
func TestWithContext(t *testing.T) {
	c, err := Compile(&mail.TemplateVersion{Subject: "s", HTML: "{{context.a}} {{context.${b}[0]}} {{v}}", Class: mail.ClassMarketing})
	if err != nil {
		t.Fatal(err)
	}
	for variables, want := range map[string]string{"": "&lt;b&gt; 1 ", "{ }": "&lt;b&gt; 1 ", `{"v":2}`: "&lt;b&gt; 1 2", `{"v":3,"context":{"a":4}}`: "4  3"} {
		got, err := c.Render(&Input{Variables: WithContext(variables, `{"a":"<b>","b":[1]}`)})
		if err != nil || got.HTML != want {
			t.Errorf("%s: got %q, %v, want %q", variables, got.HTML, err, want)
		}
	}
	if got := WithContext("", ""); got != `{"context":{}}` {
		t.Error(got)
	}
}
