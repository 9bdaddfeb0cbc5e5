package template

import (
	"slices"
	"testing"

	"sluice/mail"
)

// What a template names of the context is found wherever it stands, and prose is not.
func TestContextMembers(t *testing.T) {
	for text, want := range map[string][]string{
		"in the context of {{ total }}":                                               nil,
		"{{context.total}} {{ context.${items} | join: context.comma }}":              {"comma", "items", "total"},
		`{% if context["a b"] == 1 and context['c'].d %}{% endif %}`:                  {"a b", "c"},
		"{% for i in context.items %}{{ i.context_x }}{% endfor %}{{ my_context.z }}": {"items"},
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
