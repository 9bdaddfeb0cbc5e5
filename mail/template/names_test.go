package template

import (
	"slices"
	"strings"
	"testing"

	"sluice/mail"
	"sluice/user/profile"
)

// originOf renders a text of the stored template welcome.
func originOf(t *testing.T, source string, in *Input) (string, error) {
	t.Helper()
	c, err := Compile(&mail.TemplateVersion{Template: "welcome", Version: 2, Subject: "s", Text: source, Class: mail.ClassMarketing})
	if err != nil {
		return "", err
	}
	m, err := c.Render(in)
	return m.Text, err
}

// Names of Braze's say what the engine knows, and are an error where it knows nothing:
// an empty one would be noticed when the mail has been sent.
func TestBrazeNames(t *testing.T) {
	ann := &profile.Profile{Fields: profile.Values{{Name: "email_subscribe", Raw: `"opted_in"`}}, Groups: []profile.Group{{ID: "news", Subscribed: true}, {ID: "shop"}}}
	journey := Input{Profile: ann, Origin: Origin{Message: "m-1", Journey: "trial", Step: "hello", Variant: "warm"}, Variables: `{"context":{"total":7,"at":{"$time":"2026-03-14T10:00:00Z"}}}`}
	stored := Input{Profile: ann, Origin: Origin{Message: "m-1"}, Variables: `{"mine":1}`}
	unknown := Input{Origin: Origin{Journey: "trial", Step: "hello"}, Variables: `{"canvas":{"name":"Mine"},"event_properties":{"x":5}}`}
	for _, c := range []struct {
		source      string
		in          *Input
		want, wrong string
	}{
		{"{{campaign.${name}}} {{campaign.${api_id}}} {{campaign.${dispatch_id}}}", &journey, "hello hello m-1", ""},
		{"{{campaign.${name}}} {{campaign.${api_id}}} {{ campaign.dispatch_id }}", &stored, "welcome welcome m-1", ""},
		{"{{canvas.${name}}} {{canvas.${api_id}}} {{canvas.${variant_name}}} {{canvas.${variant_api_id}}}", &journey, "trial trial warm warm", ""},
		{"{{context.total}}{{event_properties.${total}}}{{canvas_entry_properties.${total}}}{{ event_properties.${none} }}", &journey, "777", ""},
		{`{{ context.at }} {{ context.at | date: "%d" }} {{ context | json }}`, &journey, `2026-03-14T10:00:00Z 14 {"total":7,"at":"2026-03-14T10:00:00Z"}`, ""},
		{"{{subscribed_state.${email_global}}} {{subscribed_state.${news}}} {{subscribed_state.${shop}}}", &journey, "opted_in subscribed unsubscribed", ""},
		{"{{canvas.name}} {{event_properties.x}}{{event_properties.y}}", &unknown, "Mine 5", ""},
		{"{{canvas.${name} | default: 'none'}}{% if canvas %}1{% endif %}{% if event_properties.${x} == 1 %}2{% endif %}", &stored, "none", ""},
		{"{% assign campaign = 'x' %}{{campaign.title}}{% for canvas in (1..2) %}{{canvas.name}}{% endfor %}.", &stored, ".", ""},

		{"a\n{{canvas.${name}}}", &stored, "", "text, line 2: canvas.${name}: it is known in mails of journeys"},
		{"{{canvas.${variant_name}}}", &Input{Origin: Origin{Journey: "trial"}}, "", "a variant behind a random step; give it as a variable, or a default"},
		{"{{ context.total }}", &stored, "", "context.total: it is known in mails of journeys"},
		{"{{ 'x' | append: event_properties.${total} }}", &stored, "", "event_properties.${total}: it is known"},
		{"{% for i in canvas_entry_properties.${items} %}{% endfor %}", &stored, "", "canvas_entry_properties.${items}: it is known"},
		{"{{subscribed_state.${other}}}", &journey, "", "subscribed_state.${other}: it is known of users"},
		{"{{subscribed_state.${email_global}}}", &unknown, "", "subscribed_state.${email_global}: it is known of users"},
		{"{{campaign.title}}", &stored, "", "campaign.title: it is known"},
		{"{{campaign.${message_name}}}", &journey, "", "campaign.${message_name} is not known here; there are ${api_id}, ${dispatch_id}, ${name}"},
		{"{% if canvas.${step} == 1 %}{% endif %}", &journey, "", "canvas.${step} is not known here"},
		{"{{subscribed_state.${push_global}}}", &journey, "", "only mail is sent"},
		{"{{['campaign'].${message_name}}}", &journey, "", "campaign.${message_name} is not known here"},
	} {
		got, err := originOf(t, c.source, c.in)
		if c.wrong == "" && (err != nil || got != c.want) || c.wrong != "" && (err == nil || !strings.Contains(err.Error(), c.wrong)) {
			t.Errorf("%s: got %q, %v, want %q %q", c.source, got, err, c.want, c.wrong)
		}
	}
}

// A mail that is no stored template has no campaign but the message.
func TestCampaignOfNoTemplate(t *testing.T) {
	c, err := NewCache(nil, 0).Compiled("m-1", &mail.TemplateVersion{Subject: "s", Text: "{{campaign.${dispatch_id}}}{{campaign.${name} | default: '-'}}", Class: mail.ClassMarketing})
	if err != nil {
		t.Fatal(err)
	}
	if m, err := c.Render(&Input{Origin: Origin{Message: "m-1"}}); err != nil || m.Text != "m-1-" {
		t.Error(m.Text, err)
	}
}

// What a template names of the context under Braze's names is kept as well, and so is
// all of it where a name is computed.
func TestContextMembersByOtherNames(t *testing.T) {
	for text, want := range map[string][]string{
		"{{event_properties.${a}}} {{canvas_entry_properties.b}} {{context.c}}": {"a", "b", "c"},
		"{{ my_event_properties.${a} }}":                                        nil,
		"{{ items[0] }}{{ items['x'] }}{{ ['my name'] }}":                       nil,
	} {
		if names, all := ContextMembers(&mail.TemplateVersion{Text: text}); all || !slices.Equal(names, want) {
			t.Errorf("%s: got %q, %t, want %q", text, names, all, want)
		}
	}
	for _, text := range []string{"{{ [key] }}", "{{['context']['a']}}", "{% for x in [key] %}{% endfor %}", "{{ 'a' | append:[key] }}", "{{ event_properties }}"} {
		if _, all := ContextMembers(&mail.TemplateVersion{Text: text}); !all {
			t.Errorf("%s: it may have all of the context", text)
		}
	}
}

// Times of Braze's nested values are their text, where they stand alone.
func TestNestedTimes(t *testing.T) {
	const variables = `{"$time":"top","o":{"at":{"$time":"2026-03-14T10:00:00+02:00"},"l":[{"$time":"2026-01-02"}],"n":{"$time":5},"m":{"$time":"x","y":1}}}`
	got, err := rendered(t, `{{ o.at | date: "%H" }} {{ o.l[0] | date: "%d" }} {{ o.n }} {{ o.m }} {% if o.at < "2027" %}before{% endif %} {{ ["$time"] }}`, variables)
	if want := `10 02 {"$time":5} {"$time":"x","y":1} before top`; err != nil || got != want {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
}

// A mail of no journey that would be made for nobody is found before it is sent.
func TestJourneyOutput(t *testing.T) {
	for text, want := range map[string]string{
		"a {{canvas.${name}}} {{ event_properties.${x} | upcase }}":                                      "canvas.${name}",
		"{{ event_properties . ${ x } }}":                                                                "event_properties . ${ x }",
		"{{canvas.${name} | default: 'x'}} {{campaign.${dispatch_id}}} {{context.total}} canvas.${name}": "",
		"{% if canvas.${name} %}{{canvas.${variant_name}}}{% endif %}":                                   "",
		"{% if canvas.${name} %}{% endif %}{{context.${total}}}":                                         "context.${total}",
	} {
		if got := JourneyOutput(&mail.TemplateVersion{Subject: "s", Headers: []mail.TemplateHeader{{Name: "X-Ref", Value: text}}}); got != want {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
}
