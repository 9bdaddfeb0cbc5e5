package template

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"sluice/mail"
	"sluice/user/profile"
)

// The guide names all filters, and its examples give what it says.
func TestGuide(t *testing.T) {
	content, err := os.ReadFile("../../docs/templates.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(content)
	rows := regexp.MustCompile(`(?m)^\| .*$`).FindAllString(page[strings.Index(page, "## Filters"):], -1)
	for name := range filters {
		if !strings.Contains(strings.Join(rows, "\n"), "`"+name+"`") {
			t.Errorf("the guide does not name the filter %s", name)
		}
	}
	p := &profile.Profile{Fields: profile.Values{{Name: "first_name", Raw: `"Ann"`}}, Custom: profile.Values{{Name: "plan", Raw: `"gold"`}}}
	in := &Input{Profile: p, Variables: `{"points":7,"customer":{"name":"Ann","city":"Graz","plan":"gold"},"items":[{"name":"hat","kind":"warm","price":9.95},{"name":"shoe","kind":"warm","price":20},{"name":"sock","kind":"warm","price":11.95}]}`}
	examples := 0
	for _, block := range regexp.MustCompile("(?ms)^```liquid\n(.*?)^```$").FindAllStringSubmatch(page, -1) {
		for _, m := range regexp.MustCompile(`(?m)^([^→].*)\n→ ?(.*)$`).FindAllStringSubmatch(block[1], -1) {
			examples++
			c, err := Compile(&mail.TemplateVersion{Subject: "s", Text: m[1], Class: mail.ClassMarketing})
			if err != nil {
				t.Errorf("%s: %v", m[1], err)
				continue
			}
			if got, err := c.Render(in); err != nil || strings.TrimSpace(got.Text) != m[2] {
				t.Errorf("%s: got %q, %v, the guide says %q", m[1], got.Text, err, m[2])
			}
		}
	}
	if examples < 15 {
		t.Errorf("%d examples: the guide's form has changed, and this test shows little", examples)
	}
}
