package plan

import (
	"fmt"
	"slices"
	"strconv"

	"sluice/mail"
	"sluice/mail/template"
)

func (c *compiler) message(at string, m *Message) *Mailing {
	p := &Mailing{Template: m.Template, Version: int(m.Version), Group: m.Group, From: m.From, Route: m.Route, Variables: string(m.Variables),
		LatestSeconds: DefaultLatestDays * daySeconds, IgnoreCaps: m.IgnoreCaps, IgnoreQuiet: m.IgnoreQuiet, Class: mail.ClassMarketing, Priority: mail.PriorityNormal}
	switch c.oneKind(at, m) {
	case "template":
		c.template(at, m, p)
	case "content":
		c.content(join(at, "content"), m, p)
	}
	c.messageClass(at, m, p)
	c.tags(join(at, "tags"), m.Tags)
	p.Tags = slices.Concat(c.doc.Tags, m.Tags)
	slices.Sort(p.Tags)
	if p.Tags = slices.Compact(p.Tags); len(p.Tags) > mail.MaxTags {
		c.wrong(join(at, "tags"), "want at most %d tags with those of the journey, got %d", mail.MaxTags, len(p.Tags))
	}
	if m.Group != "" {
		c.profileName(join(at, "group"), m.Group)
	}
	if m.Route != "" {
		if _, err := mail.NewSelector(mail.SelectRoute, m.Route); err != nil {
			c.wrong(join(at, "route"), "want the name of a route, got %s", strconv.Quote(shown(m.Route)))
		}
	}
	c.label(join(at, "from"), m.From, MaxNameRunes)
	if m.Variables != "" && c.object(join(at, "variables"), m.Variables) && len(m.Variables) > MaxVariablesBytes {
		c.wrong(join(at, "variables"), "want at most %d bytes, got %d", MaxVariablesBytes, len(m.Variables))
	}
	if m.Latest != "" {
		if p.LatestSeconds = c.duration(join(at, "latest"), &m.Latest, minuteSeconds, MaxLatestDays*daySeconds); p.LatestSeconds == DefaultLatestDays*daySeconds {
			m.Latest = ""
		}
	}
	if l := c.doc.Limits; l != nil && l.IgnoreCaps {
		p.IgnoreCaps = true
	}
	return p
}

func (c *compiler) messageClass(at string, m *Message, p *Mailing) {
	var ok bool
	if m.Class != "" {
		if p.Class, ok = mail.ParseClass(m.Class); !ok {
			c.wrong(join(at, "class"), "want marketing or transactional, got %s", strconv.Quote(shown(m.Class)))
		}
	}
	if m.Priority != "" {
		if p.Priority, ok = mail.ParsePriority(m.Priority); !ok {
			c.wrong(join(at, "priority"), "want high, normal or low, got %s", strconv.Quote(shown(m.Priority)))
		}
	}
	if m.Priority == mail.PriorityNormal.String() {
		m.Priority = ""
	}
	p.IgnoreQuiet = p.IgnoreQuiet || p.Class == mail.ClassTransactional
}

func (c *compiler) template(at string, m *Message, p *Mailing) {
	if !mail.ValidTemplateID(m.Template) {
		c.wrong(join(at, "template"), "want the id of a template, got %s", strconv.Quote(shown(m.Template)))
		return
	}
	if m.Version < 0 || m.Version > mail.MaxTemplateVersions {
		c.wrong(join(at, "version"), "want a version of 1 to %d, got %d", mail.MaxTemplateVersions, m.Version)
		return
	}
	class, found, err := c.env.Template(m.Template, p.Version)
	switch {
	case err != nil:
		c.fail(fmt.Errorf("look up template %s: %w", m.Template, err))
	case !found && m.Version > 0:
		c.wrong(join(at, "version"), "there is no version %d of a template %s", m.Version, m.Template)
	case !found:
		c.wrong(join(at, "template"), "there is no template %s", m.Template)
	default:
		p.Class = class
	}
}

func (c *compiler) content(at string, m *Message, p *Mailing) {
	if m.Version != 0 {
		c.wrong(join(outer(at), "version"), "want it with a template only")
	}
	v := &mail.TemplateVersion{Template: "content", Version: 1, Subject: m.Content.Subject, Preheader: m.Content.Preheader, From: m.Content.From,
		HTML: m.Content.HTML, Text: m.Content.Text, Class: mail.ClassMarketing}
	if m.Class == "marketing" {
		m.Class = ""
	}
	if m.Class == "transactional" {
		v.Class = mail.ClassTransactional
	}
	_, err := template.Compile(v)
	wrong := c.wrong
	if err == nil {
		err, wrong = template.CheckSendable(v), c.wrongOfNew
	}
	if err != nil {
		e, ok := err.(*template.Error)
		if ok && slices.Contains(memberNamesOf(m.Content), e.Part) {
			at = join(at, e.Part)
		}
		if ok && e.Part == "" && e.Kind == template.KindSyntax {
			c.lacksKind(at, "html, text")
		} else {
			wrong(at, "%v", err)
		}
	}
	p.Content = v
}
