package template

import (
	"fmt"
	"strings"
	"testing"

	"sluice/mail"
	"sluice/user/profile"
)

// tenKilobytes is a mail of an order: markup, 20 outputs, a loop over 12 items.
func tenKilobytes() *mail.TemplateVersion {
	var b strings.Builder
	b.WriteString(`<html><body><h1>Hello {{${first_name} | default: "you" | capitalize}}</h1>`)
	for i := range 20 {
		fmt.Fprintf(&b, `<p style="font:14px/20px Helvetica,Arial,sans-serif;color:#333">%s {{ order.number }} {%% if custom_attribute.${plan} == "gold" %%}gold{%% else %%}%d{%% endif %%}</p>`+"\n", strings.Repeat("Lorem ipsum dolor sit amet ", 12), i)
	}
	b.WriteString(`<table>{% for item in order.items %}<tr><td>{{ forloop.index }}</td><td>{{ item.name | truncate: 30 }}</td><td>{{ item.price | times: item.count | money }}</td></tr>{% endfor %}</table></body></html>`)
	return &mail.TemplateVersion{Template: "order", Version: 1, Subject: "Order {{ order.number }}", HTML: b.String(), Class: mail.ClassTransactional}
}

func orderInput() *Input {
	items := make([]string, 12)
	for i := range items {
		items[i] = fmt.Sprintf(`{"name":"Thing number %d, blue & green","price":%d.95,"count":%d}`, i, i*7, i%3+1)
	}
	return &Input{
		Variables: `{"order":{"number":4711,"items":[` + strings.Join(items, ",") + `]}}`,
		Profile: &profile.Profile{
			Fields: profile.Values{{Name: "first_name", Raw: `"ann"`}}, Custom: profile.Values{{Name: "plan", Raw: `"gold"`}},
		},
	}
}

func BenchmarkRender(b *testing.B) {
	v := tenKilobytes()
	t, err := Compile(v)
	if err != nil {
		b.Fatal(err)
	}
	in := orderInput()
	m, err := t.Render(in)
	if err != nil || !strings.Contains(m.HTML, "Thing number 3, blue &amp; green</td><td>21.95") {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.ReportMetric(float64(len(v.HTML)), "source-bytes")
	for b.Loop() {
		if _, err := t.Render(in); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCompile(b *testing.B) {
	v := tenKilobytes()
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Compile(v); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkHostile is how long the most expensive steps take: it must be well
// below the bound of time.
func BenchmarkHostile(b *testing.B) {
	for name, source := range map[string]string{
		"turns":  "{% for i in (1..100000) %}{% endfor %}{% for i in (1..100000) %}{% endfor %}",
		"upcase": "{% assign s = 'ax' %}{% for i in (1..20) %}{% assign s = s | append: s %}{% endfor %}{% for i in (1..1000) %}{% assign t = s | upcase | downcase %}{% endfor %}",
		"lists":  "{% assign s = 'a b' | split: ' ' %}{% for i in (1..40) %}{% assign s = s | concat: s | reverse %}{% endfor %}",
	} {
		b.Run(name, func(b *testing.B) {
			t, err := Compile(&mail.TemplateVersion{Subject: "s", Text: source, Class: mail.ClassMarketing})
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := t.Render(&Input{}); err == nil {
					b.Fatal("it ended")
				}
			}
		})
	}
}
