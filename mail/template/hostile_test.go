package template

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode"

	"sluice/lib/mime"
	"sluice/mail"
	"sluice/user/profile"
)

// failure is the *Error of a template that cannot be compiled or rendered.
func failure(t testing.TB, source, variables string) *Error {
	t.Helper()
	out, err := rendered(t, source, variables)
	e, ok := errors.AsType[*Error](err)
	if !ok {
		t.Fatalf("%.100s: got %d bytes, %v; want an *Error", source, len(out), err)
	}
	return e
}

// What would take for ever, or all memory, ends within the bounds, and says
// where and why.
func TestHostile(t *testing.T) {
	double := `{% for i in (1..40) %}{% assign s = s | append: s %}{% endfor %}`
	for name, c := range map[string]struct{ source, variables, want string }{
		"empty turns":         {"\n{% for i in (1..100000) %}{% endfor %}{% for i in (1..100000) %}{% endfor %}", ``, "text, line 2: more than 100000 steps"},
		"10^9 turns":          {"{% for i in (1..1000000000) %}{% endfor %}", ``, "text, line 1: the range (1..1000000000) has 1000000000 numbers"},
		"all numbers":         {"{% for i in (-9223372036854775807..9223372036854775807) %}{% endfor %}", ``, "the range"},
		"nested":              {strings.Repeat("{% for i in (1..1000) %}", 4) + strings.Repeat("{% endfor %}", 4), ``, "more than 100000 steps"},
		"range to a list":     {"{{ (1..1000000000) | reverse }}", ``, "the range"},
		"range joined":        {"{{ (1..100000) | join: s }}", `{"s":"` + strings.Repeat("x", 1000) + `"}`, "steps"},
		"doubled by append":   {"{% assign s = 'xx' %}" + double + "{{ s }}", ``, "a text becomes longer than 4194304 bytes"},
		"doubled by capture":  {"{% for i in (1..40) %}{% capture s %}{{ s }}{{ s }}xx{% endcapture %}{% endfor %}", ``, "more than 100000 steps"},
		"doubled by prepend":  {"{% assign s = 'xx' %}" + strings.ReplaceAll(double, "append", "prepend"), ``, "a text becomes longer"},
		"doubled by replace":  {"{% assign s = 'xxxx' %}{% for i in (1..40) %}{% assign s = s | replace: 'x', s %}{% endfor %}", ``, "a text becomes longer"},
		"doubled list":        {"{% assign s = 'a b' | split: ' ' %}{% for i in (1..40) %}{% assign s = s | concat: s %}{% endfor %}", ``, "more than 100000 steps"},
		"doubled by join":     {"{% assign s = 'xx' %}{% assign l = 'a b' | split: ' ' %}{% for i in (1..40) %}{% assign s = l | join: s | append: s %}{% endfor %}", ``, "more than 100000 steps"},
		"much output":         {"{% for i in (1..90000) %}" + strings.Repeat("x", 100) + "{% endfor %}", ``, "longer than 4194304 bytes"},
		"megabytes filtered":  {"{% assign s = 'xx' %}{% for i in (1..20) %}{% assign s = s | append: s %}{% endfor %}{% for i in (1..1000) %}{% assign t = s | upcase | downcase %}{% endfor %}", ``, "more than 100000 steps"},
		"characters":          {"{% assign s = 'xx' %}{% for i in (1..20) %}{% assign s = s | append: s %}{% endfor %}{{ s | split: '' | size }}", ``, "more than 100000 steps"},
		"long texts sorted":   {"{% assign s = 'xx' %}{% for i in (1..18) %}{% assign s = s | append: s %}{% endfor %}{% assign a = s | append: 'a' %}{% assign b = s | append: 'b' %}{% capture j %}{{ a }} {{ b }}{% endcapture %}{% assign l = j | split: ' ' %}{% for i in (1..10) %}{% assign l = l | concat: l %}{% endfor %}{{ l | sort | size }}", ``, "steps"},
		"wide delimiter":      {"{{ 1" + strings.Repeat("0", 60) + ".0 | money: s }}", `{"s":"` + strings.Repeat("x", 250_000) + `"}`, "a text becomes longer"},
		"escapes":             {"{% assign s = '&&' %}{% for i in (1..20) %}{% assign s = s | append: s %}{% endfor %}{{ s | escape }}", ``, "a text becomes longer"},
		"json of itself":      {`{% assign s = '"' %}{% for i in (1..40) %}{% assign s = s | json %}{% endfor %}`, ``, "longer than 4194304"},
		"json of long names":  {"{% assign l = '' | split: ',' %}{% assign l = o | concat: l %}{% for i in (1..14) %}{% assign l = l | concat: l %}{% endfor %}{{ l | json }}", `{"o":{"` + strings.Repeat("x", 200_000) + `":1}}`, "a text becomes longer"},
		"time formats":        {"{% assign f = '%c' %}{% for i in (1..20) %}{% assign f = f | append: f %}{% endfor %}{{ 'now' | date: f }}", ``, "a text becomes longer"},
		"zones":               {"{% for i in (1..10) %}{{ 'now' | time_zone: 'Mars/Olympus' }}{% endfor %}", ``, `there is no zone "Mars/Olympus"`},
		"zone outside":        {"{{ 'now' | time_zone: '../../../etc/passwd' }}", ``, "there is no zone"},
		"deep blocks":         {strings.Repeat("{% if a %}", 101) + strings.Repeat("{% endif %}", 101), ``, "nested more than 100 deep"},
		"very deep blocks":    {strings.Repeat("{%if a%}", 60_000), ``, "nested more than 100 deep"},
		"deep brackets":       {"{{ a" + strings.Repeat("[b", 100_000) + strings.Repeat("]", 100_000) + " }}", ``, "nested more than 16 deep"},
		"deep ranges":         {"{{ " + strings.Repeat("(", 100_000) + " }}", ``, "nested more than 16 deep"},
		"pieces":              {strings.Repeat("{{1}}", 100_001), ``, "more than 100000 pieces"},
		"source":              {strings.Repeat("x", 512<<10), ``, "at most 524288 are possible"},
		"no end of a comment": {"{% comment %}" + strings.Repeat("{%", 250_000), ``, "has no {% endcomment %}"},
		"ends of comments":    {"{% comment %}" + strings.Repeat("{%endcomment", 40_000), ``, "has no {% endcomment %}"},
		"braces":              {strings.Repeat("{{", 250_000), ``, "{{ has no }}"},
		"variables":           {"x", `{"a":"` + strings.Repeat("x", MaxVariablesBytes) + `"}`, "at most 262144 are possible"},
		"deep variables":      {"x", strings.Repeat(`{"a":`, 1000) + "1" + strings.Repeat("}", 1000), "the variables are not JSON"},
		"no variables":        {"x", `[1]`, "the variables are a list, want a JSON object"},
		"nothing divided":     {"a\n{{ 1 | divided_by: 0 }}", ``, "text, line 2: divided_by: the divisor is 0"},
		"cells":               {"{% tablerow i in (1..100000) cols: 1 %}{% endtablerow %}", ``, "longer than 4194304 bytes"},
		"work in cells":       {"{% tablerow i in (1..90000) %}{% assign x = i %}{% assign x = i %}{% endtablerow %}", ``, "more than 100000 steps"},
		"doubled by changes":  {"{% assign s = 'xx' %}{% for i in (1..40) %}{% ifchanged %}{% assign s = s | append: s %}{{ s }}{% endifchanged %}{% endfor %}", ``, "more than 100000 steps"},
		"changes":             {"{% assign s = 'xx' %}{% for i in (1..17) %}{% assign s = s | append: s %}{% endfor %}{% for i in (1..1000) %}{% ifchanged %}{{ s }}{% endifchanged %}{% endfor %}", ``, "more than 100000 steps"},
		"lists in lists":      {"{% for i in (1..1000) %}{% assign n = l | join: '' %}{% endfor %}", `{"l":` + strings.Repeat("[", 50) + strings.Repeat("[1],", 500) + "1" + strings.Repeat("]", 50) + `}`, "more than 100000 steps"},
		"texts searched":      {"{% assign s = 'xx' %}{% for i in (1..18) %}{% assign s = s | append: s %}{% endfor %}{% for i in (1..1000) %}{% assign h = s | has: 'y' %}{% endfor %}", ``, "more than 100000 steps"},
		"quotients":           {"{% for i in (1..100000) %}{% assign q = 1.0 | divided_by: 3.0 %}{% endfor %}", ``, "more than 100000 steps"},
		"computed names":      {"{{ " + strings.Repeat("[", 100_000) + " }}", ``, "nested more than 16 deep"},
		"empty comments":      {strings.Repeat("{%comment%}{%endcomment%}", 20_900) + "{%comment%}", ``, "has no {% endcomment %}"},
		"raw in comments":     {"{% comment %}" + strings.Repeat("{%raw%}", 60_000), ``, "has no {% endcomment %}"},
		"liquid in liquid":    {"{% " + strings.Repeat("liquid ", 70_000) + "echo x b %}", ``, `unexpected "b"`},
		"aborted":             {"\n\n{% if true %}{% abort_message('not you') %}{% endif %}", ``, "text, line 3: the template sends no mail to this recipient: not you"},
	} {
		started := time.Now()
		e := failure(t, c.source, c.variables)
		if took := time.Since(started); took > 20*time.Second {
			t.Errorf("%s: took %s", name, took) // far from any bound: it would take hours
		}
		if !strings.Contains(e.Error(), c.want) {
			t.Errorf("%s: got %q, want %q", name, e.Error(), c.want)
		}
	}
}

// "endraw" is looked for where a comment has {% raw %}, and no more once there is none.
// At each comment, in all of the source, it would take the square of its length.
func TestEndrawIsLookedForOnce(t *testing.T) {
	const raw, none = "{%raw%}", "{%endcomment%}"
	comment := func(s *scanner) int {
		if _, err := s.verbatim("comment", 1); err != nil {
			t.Fatal(err)
		}
		return s.at
	}
	s := scanner{source: none + raw + none + raw + none}
	if comment(&s); s.noEndraw {
		t.Error("a comment without {% raw %} has looked for its end")
	}
	if at := comment(&s); at != len(none+raw+none) || !s.noEndraw {
		t.Errorf("at %d: there is no endraw, and that is forgotten", at)
	}
	// What is remembered is believed: this one, against the truth, is not looked for.
	s = scanner{source: raw + none + "{%endraw%}" + none, noEndraw: true}
	if at := comment(&s); at != len(raw+none) {
		t.Errorf("at %d: endraw was looked for again", at)
	}
	s = scanner{source: raw + none + "{%endraw%}" + none + raw + none + "{%endraw%}" + none}
	if comment(&s); comment(&s) != len(s.source) || s.noEndraw {
		t.Errorf("at %d of %d: each {%% raw %%} has an end", s.at, len(s.source))
	}
}

// What cannot be compiled says its line.
func TestSyntaxErrors(t *testing.T) {
	for source, want := range map[string]string{
		"a\nb {{ x":                           "text, line 2: {{ has no }}; write {% raw %}...{% endraw %} where it is meant as text",
		"{% if":                               "line 1: {% has no %}",
		"\n{% if a %}":                        "line 2: {% if %} has no {% endif %}",
		"{% if a %}\n{% endfor %}":            "line 2: {% endfor %} stands in {% if %} of line 1",
		"{% endif %}":                         "{% endif %} ends nothing",
		"{% else %}":                          "{% else %} ends nothing",
		"{% fro a in b %}":                    `there is no tag "fro"`,
		"{% include 'x' %}":                   "the tag include is not available: write its text here",
		"{% connected_content http://x %}":    "nothing is fetched",
		"{{ a | nofilter }}":                  `there is no filter "nofilter"`,
		"{{ a | append }}":                    "filter append: want 1 argument(s), got 0",
		"{{ a b }}":                           `unexpected "b"`,
		"{{ 'a }}":                            "has no end quote",
		"{{ a | }}":                           "want the name of a filter, got nothing",
		"{{ ${} }}":                           "${ has no name",
		"{{ 99999999999999999999 }}":          "is too large",
		"{% if (a or b) and c %}{% endif %}":  "conditions have no brackets",
		"{% if a = b %}{% endif %}":           `unexpected "="`,
		"{% assign a 5 %}":                    "assign: want NAME = value",
		"{% break %}":                         "{% break %} stands in no loop",
		"{% for a of b %}{% endfor %}":        "for: want NAME in VALUE",
		"{% for a in b max: 3 %}{% endfor %}": "for: want reversed, limit: N or offset: N",
		"a\n{%\n\n if a b %}{% endif %}":      `line 4: unexpected "b"`,
		"a\x00b":                              "control character, 0x00",
		"{{${preference_center_url}}}":        "${preference_center_url} is no standard attribute",
		"{{content_blocks.${footer}}}":        "content_blocks is not available",
		"{% if {{a}} %}{% if {{a %}{% endif %}{% endif %}": "want }}, got nothing",
		"a\n\u009b": "line 2: there is a control character, 0x9b",
		"a\xff":     "not UTF-8",
	} {
		if e := failure(t, source, ""); e.Kind != KindSyntax || !strings.Contains(e.Error(), want) {
			t.Errorf("%q: got %s: %q, want %q", source, e.Kind, e.Error(), want)
		}
	}
}

// Errors of values name the line where they came up.
func TestStrict(t *testing.T) {
	render := func(source, variables string) (string, error) {
		c, err := Compile(&mail.TemplateVersion{Subject: "s", Text: source, Class: mail.ClassMarketing, Strict: true})
		if err != nil {
			t.Fatal(err)
		}
		m, err := c.Render(&Input{Variables: variables})
		return m.Text, err
	}
	for source, want := range map[string]string{
		"{{ a }}":                                          "line 1: a is not given, and the template is strict",
		"\n{{ o.b.c | upcase }}":                           "line 2: o.b.c is not given",
		"{{ ${first_name} }}":                              "${first_name} is not given",
		"{{ 'x' | append: a }}":                            "a is not given",
		"{% for x in a %}{% endfor %}":                     "a is not given",
		"{% for x in (1..a) %}{% endfor %}":                "a is not given",
		"{{ a | default: 'b' }}":                           "",
		"{{ o.n }}{% if a %}{% endif %}":                   "",
		"{% if a == nil %}b{% endif %}":                    "",
		"{% case a %}{% when 1 %}{% else %}b{% endcase %}": "",
	} {
		_, err := render(source, `{"o":{"n":null}}`)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: got %v, want %q", source, err, want)
		}
	}
}

// The link to unsubscribe by has two names. Where there is none, it cannot be
// put out, even in a template that is not strict. What is given with the mail,
// and defaults, go first.
func TestUnsubscribeLink(t *testing.T) {
	for _, x := range []struct{ source, variables, link, want, wrong string }{
		{"{{unsubscribe_url}} {{${set_user_to_unsubscribed_url}}}", "", "https://m/u?t=a&b", "https://m/u?t=a&b https://m/u?t=a&b", ""},
		{"{{ unsubscribe_url | upcase }}", "", "l", "L", ""},
		{"{{unsubscribe_url}}", `{"unsubscribe_url":"mine"}`, "l", "mine", ""},
		{"{{unsubscribe_url}}", `{"unsubscribe_url":"mine"}`, "", "mine", ""},
		{"{{ unsubscribe_url | default: 'd' }}{{ ${set_user_to_unsubscribed_url} | default: 'd' }}", "", "", "dd", ""},
		{"{% if unsubscribe_url %}yes{% else %}no{% endif %}", "", "", "no", ""},
		{"a\n{{unsubscribe_url}}", "", "", "", "text, line 2: unsubscribe_url: there is no link"},
		{"{{${set_user_to_unsubscribed_url}}}", "", "", "", "there is no link"},
		{"{{ unsubscribe_url | upcase }}", "", "", "", "there is no link"},
	} {
		c, err := Compile(&mail.TemplateVersion{Subject: "s", Text: x.source, Class: mail.ClassMarketing})
		if err != nil {
			t.Fatal(err)
		}
		m, err := c.Render(&Input{Variables: x.variables, Unsubscribe: x.link})
		if x.wrong == "" && (err != nil || m.Text != x.want) || x.wrong != "" && (err == nil || !strings.Contains(err.Error(), x.wrong)) {
			t.Errorf("%s: %q, %v; want %q %q", x.source, m.Text, err, x.want, x.wrong)
		}
	}
}

func TestOrderOfUnlikeIsRefused(t *testing.T) {
	if e := failure(t, `{% if age > 18 %}x{% endif %}`, `{"age":"20"}`); e.Kind != KindValue || !strings.Contains(e.Message, "a text and a number cannot be compared") {
		t.Error(e)
	}
	if got, err := rendered(t, `{% if none > 18 %}x{% else %}y{% endif %}`, ``); err != nil || got != "y" {
		t.Error(got, err)
	}
}

// In HTML every output is escaped once; elsewhere none is; no header is broken.
func TestEscaping(t *testing.T) {
	const variables = `{"x":"<b>&'\"","br":"a\r\nBcc: x@example.com\u0085\u2028b","list":["<",["&"]],"o":{"<":1},"cr":"1<\n2"}`
	for source, want := range map[string]string{
		`{{ x }}`:                "&lt;b&gt;&amp;&#39;&quot;",
		`{{ x | raw }}`:          `<b>&'"`,
		`{{ x | escape }}`:       "&lt;b&gt;&amp;&#39;&quot;",
		`{{ x | escape | raw }}`: "&lt;b&gt;&amp;&#39;&quot;",
		`{{ x | raw | upcase }}`: "&lt;B&gt;&amp;&#39;&quot;",
		`{{ x | append: "<" | raw }}{{ "<" | raw | append: x }}`: `<b>&'"<` + `&lt;&lt;b&gt;&amp;&#39;&quot;`,
		`{% capture c %}<i>{{ x }}</i>{% endcapture %}{{ c }}`:   "<i>&lt;b&gt;&amp;&#39;&quot;</i>",
		`{% assign a = x %}{{ a }}`:                              "&lt;b&gt;&amp;&#39;&quot;",
		`{{ list }}`:                                             "&lt;&amp;",
		`{{ list | join: "<" }}`:                                 "&lt;&lt;&amp;",
		`{{ o }}`:                                                "{&quot;\\u003c&quot;:1}",
		`{% cycle x %}`:                                          "&lt;b&gt;&amp;&#39;&quot;",
		`{{ cr | newline_to_br }}`:                               "1&lt;<br />\n2",
		`{{ x | strip_html }}`:                                   "&amp;&#39;&quot;",
		`{% for p in list %}{{ p }}{% endfor %}`:                 "&lt;&amp;",
		`<a>{% raw %}{{ x }}{% endraw %}`:                        "<a>{{ x }}",
		`{{ x | default: "y" }}{{ none | default: x }}`:          strings.Repeat("&lt;b&gt;&amp;&#39;&quot;", 2),
	} {
		c, err := Compile(&mail.TemplateVersion{
			Subject: "{{ x }} {{ br }}", From: "{{ br }} <a@example.com>", HTML: source, Text: "{{ x }}", Preheader: "{{ br }}",
			Headers: []mail.TemplateHeader{{Name: "X-Ref", Value: "{{ br }}"}}, Class: mail.ClassMarketing,
		})
		if err != nil {
			t.Errorf("%s: %v", source, err)
			continue
		}
		m, err := c.Render(&Input{Variables: variables})
		if err != nil || m.HTML != want || m.Text != `<b>&'"` || m.Subject != `<b>&'" a  Bcc: x@example.com  b` {
			t.Errorf("%s: got %+v, %v, want %q", source, m, err, want)
		}
		for _, line := range []string{m.Subject, m.From, m.Preheader, m.Headers[0].Value} {
			if strings.ContainsAny(line, "\r\n\u0085\u2028") || !strings.Contains(line, "Bcc") {
				t.Errorf("%s: %q is no line", source, line)
			}
		}
	}
}

// A value with any control character makes a mail that can be built: those of C1, as the
// quote of Windows-1252 that was read as Latin-1, are in many names.
func TestControlCharactersInHeaders(t *testing.T) {
	c, err := Compile(&mail.TemplateVersion{
		Subject: "{{ x }}", From: "{{ x }} <a@example.com>", Text: "{{ x }}", HTML: "{{ x }}", Preheader: "{{ x }}",
		Headers: []mail.TemplateHeader{{Name: "X-Ref", Value: "{{ x }}"}}, Class: mail.ClassMarketing,
	})
	if err != nil {
		t.Fatal(err)
	}
	all := []rune{'\u2028', '\u2029'}
	for r := range rune(0xa0) {
		if r > 0 && unicode.IsControl(r) {
			all = append(all, r)
		}
	}
	for _, r := range all {
		m, err := c.Render(&Input{Variables: fmt.Sprintf(`{"x":"O\u%04xBrien"}`, r)})
		if err != nil {
			t.Errorf("%U: %v", r, err)
			continue
		}
		from, err := mime.ParseMailbox(m.From)
		if err == nil {
			_, err = mime.Build(&mime.Common{From: from}, &mime.Fields{
				Subject: m.Subject, Preheader: m.Preheader, Text: m.Text, HTML: m.HTML, ID: "x@example.com",
				Headers: []mime.Header{{Name: m.Headers[0].Name, Value: m.Headers[0].Value}},
			})
		}
		if err != nil {
			t.Errorf("%U: %v", r, err)
		}
	}
}

func TestWhatIsNoMail(t *testing.T) {
	for want, v := range map[string]mail.TemplateVersion{
		"subject: there is none":              {Text: "x", Class: mail.ClassMarketing},
		"neither html nor text":               {Subject: "x", Class: mail.ClassMarketing},
		"the class is none":                   {Subject: "x", Text: "x"},
		"header \"a b\": want a name":         {Subject: "x", Text: "x", Class: 1, Headers: []mail.TemplateHeader{{Name: "a b"}}},
		"header \"a:\\r\\nBcc\": want a name": {Subject: "x", Text: "x", Class: 1, Headers: []mail.TemplateHeader{{Name: "a:\r\nBcc"}}},
		"header BCC: Sluice writes it itself": {Subject: "x", Text: "x", Class: 1, Headers: []mail.TemplateHeader{{Name: "BCC", Value: "a"}}},
		"header x-ref is there twice":         {Subject: "x", Text: "x", Class: 1, Headers: []mail.TemplateHeader{{Name: "X-Ref"}, {Name: "x-ref"}}},
		"there are 21 headers":                {Subject: "x", Text: "x", Class: 1, Headers: make([]mail.TemplateHeader, 21)},
		"header X-Ref, line 1: {{ has no }}":  {Subject: "x", Text: "x", Class: 1, Headers: []mail.TemplateHeader{{Name: "X-Ref", Value: "{{"}}},
		"html, line 2: there is no filter":    {Subject: "x", HTML: "\n{{ a | b }}", Class: 1},
	} {
		if _, err := Compile(&v); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// slowClock makes each look at it take a while.
type slowClock struct{ looks int }

func (c *slowClock) Now() time.Time {
	c.looks++
	return time.Unix(1_700_000_000, 0).Add(time.Duration(c.looks) * 60 * time.Millisecond)
}

func TestTimeIsBounded(t *testing.T) {
	c, err := Compile(&mail.TemplateVersion{Subject: "s", Text: "{% for i in (1..20000) %}{{ i }}{% endfor %}", Class: mail.ClassMarketing})
	if err != nil {
		t.Fatal(err)
	}
	clock := &slowClock{}
	_, err = c.Render(&Input{Clock: clock})
	if e, ok := errors.AsType[*Error](err); !ok || e.Kind != KindTime || clock.looks != 5 {
		t.Errorf("got %v after %d looks, want %s after 5", err, clock.looks, KindTime)
	}
}

// The bounds hold for all parts of a mail together.
func TestPartsShareTheBounds(t *testing.T) {
	loop := "{% for i in (1..300) %}x{% endfor %}"
	c, err := Compile(&mail.TemplateVersion{Subject: "s", HTML: loop, Text: loop, Class: mail.ClassMarketing})
	if err != nil {
		t.Fatal(err)
	}
	for limits, want := range map[Limits]string{
		{OutputBytes: 601, Steps: 1500}: "",
		{OutputBytes: 600, Steps: 1500}: "text, line 1: the mail becomes longer than 600 bytes",
		{OutputBytes: 601, Steps: 1000}: "text, line 1: more than 1000 steps",
	} {
		_, err := c.Render(&Input{Limits: limits})
		if got := fmt.Sprint(err); (err == nil) != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%+v: got %v, want %q", limits, err, want)
		}
	}
}

// Whatever the source and the values, compiling and rendering end, within the
// bounds, without a panic, and no value gets into HTML unescaped.
func FuzzTemplate(f *testing.F) {
	for _, c := range documented {
		f.Add(c.source, c.variables)
	}
	for _, c := range goldenCases(f, ownGolden) {
		f.Add(c.Template, string(c.Data))
	}
	f.Add(`{{${first_name}}}{% cycle a: b, "c" %}{% abort_message(a) %}`, `{"a":"<x>"}`)
	p := &profile.Profile{Fields: profile.Values{{Name: "first_name", Raw: `"Ann"`}}}
	limits := Limits{OutputBytes: 4096, Steps: 2000, Time: time.Hour}
	f.Fuzz(func(t *testing.T, source, variables string) {
		c, err := Compile(&mail.TemplateVersion{Subject: "s", HTML: source, Text: source, Class: mail.ClassMarketing})
		if err != nil {
			if _, ok := errors.AsType[*Error](err); !ok {
				t.Fatalf("%v is no *Error", err)
			}
			return
		}
		in := &Input{Variables: variables, Profile: p, Limits: limits, Clock: stoppedClock(0)}
		m, err := c.Render(in)
		if _, ok := errors.AsType[*Error](err); err != nil && !ok {
			t.Fatalf("%v is no *Error", err)
		}
		if len(m.HTML)+len(m.Text) > limits.OutputBytes {
			t.Fatalf("%d bytes", len(m.HTML)+len(m.Text))
		}
		if again, other := c.Render(in); fmt.Sprint(again, other) != fmt.Sprint(m, err) {
			t.Fatalf("rendered again it is another: %v %v, before %v %v", again, other, m, err)
		}
		if strings.Contains(m.HTML, "<") && !strings.ContainsAny(source, "<") && !strings.Contains(source, "raw") &&
			!strings.Contains(source, "newline_to_br") && !strings.Contains(source, "tablerow") {
			t.Fatalf("a value is not escaped: %q", m.HTML)
		}
	})
}
