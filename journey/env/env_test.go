package env

import (
	"strings"
	"testing"

	"sluice/journey/plan"
	"sluice/mail"
	"sluice/mail/template"
)

// A mail that names what its person entered with, by our name or by Braze's, gets those
// members of it and no others, and knows its journey.
func TestMailsHaveTheContextTheyName(t *testing.T) {
	const text = "{{event_properties.${total}}} {{canvas_entry_properties.${at} | date: '%d'}} {{ context.name }} {{canvas.${name}}} {{campaign.${name}}}"
	d := &Database{}
	_, with, err := d.Mailing(t.Context(), &plan.Mailing{From: "a@example.com", Class: mail.ClassMarketing, Group: "weekly",
		Content: &mail.TemplateVersion{Subject: "s", Text: text, Class: mail.ClassMarketing}})
	if err != nil || with == nil {
		t.Fatal(with, err)
	}
	content := with.With(`{"total":7,"other":"secret","at":{"$time":"2026-03-14T10:00:00Z"},"name":"Ann"}`)
	if strings.Contains(content, "secret") {
		t.Errorf("a member that it does not name goes along: %s", content)
	}
	c, err := template.ParseContent(content)
	if err != nil {
		t.Fatal(err)
	}
	if c.Group != "weekly" {
		t.Errorf("the mail is of group %q", c.Group)
	}
	compiled, err := template.Compile(c.Mail)
	if err != nil {
		t.Fatal(err)
	}
	m, err := compiled.Render(&template.Input{Variables: c.Variables, Origin: template.Origin{Journey: "trial", Step: "hello"}})
	if want := "7 14 Ann trial hello"; err != nil || m.Text != want {
		t.Errorf("got %q, %v, want %q", m.Text, err, want)
	}
	// Who entered with nothing gets a mail too.
	if c, err = template.ParseContent(with.With("")); err != nil {
		t.Fatal(err)
	}
	if m, err = compiled.Render(&template.Input{Variables: c.Variables, Origin: template.Origin{Journey: "trial", Step: "hello"}}); err != nil || m.Text != "   trial hello" {
		t.Errorf("of nothing: got %q, %v", m.Text, err)
	}
}

// What nests so deep that no mail with it could be read is left out of the mail, and the
// rest of the context stays.
func TestMailsLeaveOutWhatIsTooDeep(t *testing.T) {
	_, with, err := (&Database{}).Mailing(t.Context(), &plan.Mailing{From: "a@example.com", Class: mail.ClassMarketing,
		Content: &mail.TemplateVersion{Subject: "s", Text: "{{context.a}} {{context.b}} {{waited.w.a}}", Class: mail.ClassMarketing}})
	if err != nil || with == nil {
		t.Fatal(with, err)
	}
	for levels, left := range map[int]bool{60: false, 61: true, 62: true} {
		deep := strings.Repeat("[", levels) + strings.Repeat("]", levels)
		content := with.With(`{"a":` + deep + `,"b":7,"wait_for:w/a":` + deep + `}`)
		if c, err := template.ParseContent(content); err != nil || !strings.Contains(c.Variables, `"b":7`) || strings.Contains(content, deep) == left {
			t.Errorf("%d levels: %s, %v", levels, content, err)
		}
	}
}

// So it is for what steps have waited for, which is apart from what the person entered with.
func TestMailsHaveWhatStepsHaveWaitedFor(t *testing.T) {
	const text = `{{waited.react.total}} {{ waited["a-b"].name }} {{ waited.react.none }} {{context.total}}`
	d := &Database{}
	_, with, err := d.Mailing(t.Context(), &plan.Mailing{From: "a@example.com", Class: mail.ClassMarketing,
		Content: &mail.TemplateVersion{Subject: "s", Text: text, Class: mail.ClassMarketing}})
	if err != nil || with == nil || strings.Join(with.Waited, " ") != "react a-b react" {
		t.Fatal(with, err)
	}
	for context, want := range map[string]string{
		`{"total":7,"wait_for:react/total":8,"wait_for:react/other":"secret","wait_for:a-b/name":"Ann"}`: "8 Ann  7",
		`{"total":7}`: "   7",
		"":            "   ",
	} {
		content := with.With(context)
		if strings.Contains(content, "secret") {
			t.Errorf("a property that it does not name goes along: %s", content)
		}
		c, err := template.ParseContent(content)
		if err != nil {
			t.Fatal(err)
		}
		compiled, err := template.Compile(c.Mail)
		if err != nil {
			t.Fatal(err)
		}
		m, err := compiled.Render(&template.Input{Variables: c.Variables, Origin: template.Origin{Journey: "trial", Step: "hello"}})
		if err != nil || m.Text != want {
			t.Errorf("%s: got %q, %v, want %q", context, m.Text, err, want)
		}
	}
	for text, all := range map[string]bool{"{{ waited }}": true, "{{ waited.react }}": true, "{{ context.total }} waited": false} {
		_, with, err := d.Mailing(t.Context(), &plan.Mailing{From: "a@example.com", Class: mail.ClassMarketing, Content: &mail.TemplateVersion{Subject: "s", Text: text, Class: mail.ClassMarketing}})
		if err != nil || with == nil || with.Members.AllWaited != all {
			t.Errorf("%s: %+v, %v", text, with, err)
		}
	}
}
