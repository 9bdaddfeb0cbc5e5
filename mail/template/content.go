package template

import (
	"encoding/json"
	"fmt"

	"sluice/lib/jsonscan"
	"sluice/mail"
	"sluice/user/profile"
)

// Content is the content of a send in the form mail.ContentTemplate. It has
// the template and its version, or what the mail itself says in the language of
// templates. It also has the variables and the audience.
//
//	{"template":"welcome","version":3,"variables":{"order":7}}
//	{"mail":{"subject":"Hello {{${first_name}}}","html":"..."},"state":"subscribed"}
type Content struct {
	Template string
	Version  int // from 1: the acceptance of a mail sets it

	// Mail is what a mail says that is no stored template; nil: it is one. Only
	// its texts, its headers and whether it is strict count.
	Mail *mail.TemplateVersion

	Variables string // a JSON object, or empty

	// State is the audience (profile.IsAudience), checked by what is known of
	// the recipient when the mail is made; empty: everybody.
	State string

	// Group is the subscription group that the mail belongs to: nobody gets it who has
	// left that by the time the mail is made. Empty: it belongs to none. A program before
	// 0.2 does not read it.
	Group string

	// Off is what is not to be known of the mail. The zero value leaves it to the
	// settings. A program before 0.2 does not read it.
	Off mail.Track
}

// Append appends the content as JSON.
func (c *Content) Append(dst []byte) []byte {
	if c.Mail != nil {
		dst = appendMail(append(dst, `{"mail":`...), c.Mail)
	} else {
		dst = fmt.Appendf(dst, `{"template":%q,"version":%d`, c.Template, c.Version) // an id has nothing to escape
	}
	if c.State != "" {
		dst = fmt.Appendf(dst, `,"state":%q`, c.State)
	}
	if c.Group != "" {
		dst = append(append(dst, `,"group":`...), profile.Quoted(c.Group)...)
	}
	if c.Off != 0 {
		dst = fmt.Appendf(dst, `,"track_off":%q`, c.Off)
	}
	if c.Variables != "" {
		dst = append(append(dst, `,"variables":`...), c.Variables...)
	}
	return append(dst, '}')
}

// Members of a mail beside partNames.
const (
	headersMember = "headers"
	strictMember  = "strict"
)

func appendMail(dst []byte, v *mail.TemplateVersion) []byte {
	dst = append(dst, '{')
	for i, text := range sources(v) {
		if text != "" {
			dst = append(fmt.Appendf(dst, `%q:`, partNames[i]), profile.Quoted(text)+","...)
		}
	}
	dst = fmt.Appendf(dst, `%q:%t,%q:[`, strictMember, v.Strict, headersMember)
	for i, h := range v.Headers {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, "["+profile.Quoted(h.Name)+","+profile.Quoted(h.Value)+"]"...)
	}
	return append(dst, "]}"...)
}

// parseMail reads what appendMail wrote.
func parseMail(text string) (*mail.TemplateVersion, error) {
	v := &mail.TemplateVersion{Class: mail.ClassTransactional}
	parts := map[string]*string{
		partNames[partSubject]: &v.Subject, partNames[partPreheader]: &v.Preheader, partNames[partFrom]: &v.From,
		partNames[partHTML]: &v.HTML, partNames[partText]: &v.Text,
	}
	m := jsonscan.Read(text)
	for m.Next() {
		if to := parts[m.Key]; to != nil && m.Value.Kind == jsonscan.String {
			*to = m.Value.Text()
			continue
		}
		if m.Key == strictMember && m.Value.Kind == jsonscan.Bool {
			v.Strict = m.Value.Raw == "true"
			continue
		}
		if m.Key != headersMember || m.Value.Kind != jsonscan.Array {
			return nil, newError(KindInput, 0, "%.64q of the mail is not known, or is %s", m.Key, m.Value.Kind)
		}
		e := jsonscan.ReadArray(m.Value.Raw)
		for e.Next() {
			var pair []string
			p := jsonscan.ReadArray(e.Value.Raw)
			for p.Next() {
				pair = append(pair, p.Value.Text())
			}
			if len(pair) != 2 {
				return nil, newError(KindInput, 0, "a header of the mail is no pair of name and value")
			}
			v.Headers = append(v.Headers, mail.TemplateHeader{Name: pair[0], Value: pair[1]})
		}
	}
	if err := m.Err(); err != nil {
		return nil, newError(KindInput, 0, "the mail is no JSON object: %v", err)
	}
	return v, nil
}

// ParseContent reads what Append wrote. The error is an *Error.
func ParseContent(text string) (Content, error) {
	var c Content
	var err error
	m := jsonscan.Read(text)
	for m.Next() {
		switch {
		case m.Key == "template" && m.Value.Kind == jsonscan.String:
			c.Template = m.Value.Text()
		case m.Key == "version" && m.Value.Kind == jsonscan.Number:
			if err := json.Unmarshal([]byte(m.Value.Raw), &c.Version); err != nil {
				return c, newError(KindInput, 0, "the version %.40s is none", m.Value.Raw)
			}
		case m.Key == "mail" && m.Value.Kind == jsonscan.Object:
			if c.Mail, err = parseMail(m.Value.Raw); err != nil {
				return c, err
			}
		case m.Key == "state" && profile.IsAudience(m.Value.Text()):
			c.State = m.Value.Text()
		case m.Key == "group" && m.Value.Kind == jsonscan.String:
			c.Group = m.Value.Text()
		case m.Key == "track_off" && m.Value.Kind == jsonscan.String:
			var ok bool
			if c.Off, ok = mail.ParseTrack(m.Value.Text()); !ok {
				return c, newError(KindInput, 0, "track_off is %.64q, want opens or clicks", m.Value.Text())
			}
		case m.Key == "variables" && m.Value.Kind == jsonscan.Object:
			c.Variables = m.Value.Raw
		default:
			return c, newError(KindInput, 0, "%.64q is not known, or is %s; want template and version, or mail; variables and state", m.Key, m.Value.Kind)
		}
	}
	switch {
	case m.Err() != nil:
		return c, newError(KindInput, 0, "the content is no JSON object: %v", m.Err())
	case c.Mail != nil && c.Template != "":
		return c, newError(KindInput, 0, "the content names a template and is a mail itself")
	case c.Mail == nil && (!mail.ValidTemplateID(c.Template) || c.Version < 1):
		return c, newError(KindInput, 0, "the content names no template, or not its version")
	}
	return c, nil
}
