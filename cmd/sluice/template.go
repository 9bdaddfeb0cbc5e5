package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"sluice"
	"sluice/mail"
	"sluice/mail/template"
	"sluice/store/sqlstore"
	"sluice/user"
	"sluice/user/profile"
)

const templateLong = `
Mails that are written once; docs/templates.md describes their language. A template is
a file: short lines, then the long texts.

    id: welcome
    name: Welcome
    class: marketing
    subject: Welcome, {{${first_name} | default: "friend"}}
    header Reply-To: help@example.com
    --- html
    <p>Your order {{ order.number }} is on its way.</p>
    --- text
    Your order {{ order.number }} is on its way.

    sluice template put welcome.mail     make it, or add a version, which is current then
    sluice template list                 all of them
    sluice template show welcome         as such a file; --version N: an older one
    sluice template preview welcome --variables '{"order":{"number":7}}' --user u-7
    sluice template test welcome --to me@example.com --vars values.json    mail it there
    sluice template use welcome 2        version 2 is current again
    sluice template archive welcome      lists leave it out; put brings it back

Versions never change. A preview sends nothing and fetches nothing. A test is a
transactional mail of high priority, with [Test] before its subject and the tag
template-test; it goes the way of all mail: with sending: sink into the mailboxes.
`

var templateFlags = []flagSpec{
	{name: "version", value: "N", help: "show, preview, test: not the current version, but this one", check: wholeNumber(1, mail.MaxTemplateVersions)},
	{name: "archived", help: "list: archived ones too"},
	{name: "json", help: "list: one JSON object a line"},
	{name: "variables", value: "JSON", help: "preview, test: an object, the variables"},
	{name: "vars", value: "FILE", help: "preview, test: a file with that object, - for standard input"},
	{name: "user", value: "EXTERNAL_ID", help: "preview, test: for this user"},
	{name: "to", value: "ADDRESS", help: "test: where it goes"},
	{name: "from", value: "ADDRESS", help: "test: whom it is from, if the template does not say it"},
	{name: "part", value: "PART", help: "preview: subject, html or text alone, byte by byte", check: oneOf("subject", "html", "text")},
}

// templateWords are what can be done, and with how many arguments.
var templateWords = []struct {
	word, want string
	args       int
}{
	{"list", "no arguments", 0}, {"show", "one ID", 1}, {"put", "one FILE, or - for standard input", 1},
	{"preview", "one ID", 1}, {"test", "one ID", 1}, {"use", "an ID and a version", 2}, {"archive", "one ID", 1},
}

func runTemplate(ctx context.Context, c *call) error {
	var words []string
	for _, w := range templateWords {
		words = append(words, w.word)
	}
	what, rest, err := c.word(words...)
	if err != nil {
		return err
	}
	if w := templateWords[slices.Index(words, what)]; len(rest) != w.args {
		return usagef("template %s: want %s", what, w.want)
	}
	action := map[string]func(context.Context, *sqlstore.Store, []string) error{
		"list": c.templateList, "show": c.templateShow, "put": c.templatePut,
		"preview": c.templatePreview, "test": c.templateTest, "use": c.templateUse, "archive": c.templateArchive,
	}[what]
	store, err := c.store(ctx)
	if err != nil {
		return err
	}
	return action(ctx, store, rest)
}

// listedTemplate is a template as --json shows it.
type listedTemplate struct {
	ID       string `json:"id"`
	Name     string `json:"name"`
	Current  int    `json:"current"`
	Latest   int    `json:"latest"`
	Updated  string `json:"updated"`
	Archived string `json:"archived,omitempty"`
}

// templatePage is how many templates are asked for at once.
const templatePage = 500

func (c *call) templateList(ctx context.Context, store *sqlstore.Store, _ []string) error {
	q := mail.TemplateQuery{Archived: c.given.has("archived"), Limit: templatePage}
	for {
		page, err := store.Templates(ctx, q)
		if err != nil {
			return err
		}
		for _, t := range page {
			if err := c.listTemplate(&t); err != nil {
				return err
			}
			q.After = t.ID
		}
		if len(page) == 0 && q.After == "" {
			fmt.Fprintln(c.main.Stderr, "no templates; `sluice template put FILE` makes one")
		}
		if len(page) < templatePage {
			return nil
		}
	}
}

func (c *call) listTemplate(t *mail.Template) error {
	s := listedTemplate{ID: t.ID, Name: t.Name, Current: t.Current, Latest: t.Latest, Updated: keyTime(t.UpdatedMillis)}
	state := ""
	if t.ArchivedMillis != 0 {
		s.Archived = keyTime(t.ArchivedMillis)
		state = "  archived " + s.Archived
	}
	return c.row(s, "%s  version %d of %d  %s  %s%s", s.ID, s.Current, s.Latest, s.Updated, safeText(s.Name), state)
}

func (c *call) templateShow(ctx context.Context, store *sqlstore.Store, args []string) error {
	t, err := store.Template(ctx, args[0])
	if err != nil {
		return err
	}
	v, err := store.TemplateVersion(ctx, t.ID, c.given.number("version"))
	if err != nil {
		return err
	}
	// There is nothing in it that moves a cursor: templates have no control
	// characters. So it is shown as it is, and can be put again.
	_, err = io.WriteString(c.main.Stdout, template.Format(t.Name, &v))
	return err
}

// maxTemplateFileBytes is what is read of a file: more is no template.
const maxTemplateFileBytes = 2 * mail.MaxTemplateBytes

// readUpTo reads a file, or standard input where it is called -, of most bytes at most.
// what it has is said in errors, limit is what stands behind a refusal.
func (c *call) readUpTo(name, what string, most int, limit string) (string, error) {
	from := c.main.Stdin
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return "", fmt.Errorf("read %s: %w", what, err)
		}
		defer f.Close()
		from = f
	}
	text, err := io.ReadAll(io.LimitReader(from, int64(most)+1))
	if err != nil {
		return "", fmt.Errorf("read %s %s: %w", what, name, err)
	}
	if len(text) > most {
		return "", fmt.Errorf("read %s %s: it has more than %d bytes%s", what, name, most, limit)
	}
	return string(text), nil
}

func (c *call) templatePut(ctx context.Context, store *sqlstore.Store, args []string) error {
	text, err := c.readUpTo(args[0], "template", maxTemplateFileBytes, fmt.Sprintf("; a template may have %d", mail.MaxTemplateBytes))
	if err != nil {
		return err
	}
	name, v, err := template.ParseFile(text)
	if err != nil {
		return fmt.Errorf("%s, %w", args[0], err)
	}
	if !mail.ValidTemplateID(v.Template) {
		return fmt.Errorf("%s: id is %.64q, want 1 to %d lower-case letters, digits, -, _ and ., the first a letter or a digit", args[0], v.Template, mail.MaxTemplateIDBytes)
	}
	if name != "" && !mail.ValidTemplateName(name) {
		return fmt.Errorf("%s: name: want at most %d characters, no control characters, no blank at its ends", args[0], mail.MaxTemplateNameRunes)
	}
	if _, err = template.Compile(&v); err == nil {
		err = template.CheckSendable(&v)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", args[0], err)
	}
	v.CreatedMillis = c.clock(ctx).Now().UnixMilli()
	t, err := store.AddTemplateVersion(ctx, name, v)
	if e, ok := errors.AsType[*sluice.Error](err); ok && e.Code == sluice.CodeNotFound {
		if name == "" {
			name = v.Template
		}
		t = mail.Template{ID: v.Template, Name: name, Current: 1, Latest: 1, CreatedMillis: v.CreatedMillis, UpdatedMillis: v.CreatedMillis}
		err = store.AddTemplate(ctx, t, v)
	}
	if err != nil {
		return err
	}
	c.print("template %s: version %d is current", t.ID, t.Current)
	return nil
}

func (c *call) templatePreview(ctx context.Context, store *sqlstore.Store, args []string) error {
	t, v, in, err := c.templateInput(ctx, store, args[0])
	if err != nil {
		return err
	}
	compiled, err := template.Compile(v)
	if err != nil {
		return fmt.Errorf("compile template %s: %w", t.ID, err)
	}
	m, err := compiled.Render(in)
	if err != nil {
		return fmt.Errorf("render template %s: %w", t.ID, err)
	}
	v.Subject, v.Preheader, v.From, v.HTML, v.Text, v.Headers = m.Subject, m.Preheader, m.From, m.HTML, m.Text, m.Headers
	if part := c.given.text("part"); part != "" {
		_, err := io.WriteString(c.main.Stdout, map[string]string{"subject": m.Subject, "html": m.HTML, "text": m.Text}[part])
		return err
	}
	// Values of users are in it, and they may be anything.
	for line := range strings.SplitSeq(strings.TrimSuffix(template.Format(t.Name, v), "\n"), "\n") {
		c.print("%s", safeText(strings.TrimSuffix(line, "\r")))
	}
	return nil
}

// profileOf reads the user of an external id.
func profileOf(ctx context.Context, store *sqlstore.Store, externalID string) (*profile.Profile, error) {
	found, err := store.Users(ctx, user.Query{Keys: []user.Key{{Kind: user.KeyExternal, Name: externalID}}})
	if err != nil {
		return nil, err
	}
	for _, user := range found.Users { // one at most
		if !user.MergedInto.IsZero() {
			continue
		}
		p, err := profile.Parse(user.Profile)
		if err != nil {
			return nil, fmt.Errorf("read user %s: %w", user.ID, err)
		}
		return p, nil
	}
	return nil, fmt.Errorf("there is no user with the external id %.100q", externalID)
}

func (c *call) templateUse(ctx context.Context, store *sqlstore.Store, args []string) error {
	version, err := strconv.Atoi(args[1])
	if err != nil {
		return usagef("template use: %q is no version", args[1])
	}
	t, err := store.Template(ctx, args[0])
	if err != nil {
		return err
	}
	t.Current, t.UpdatedMillis = version, c.clock(ctx).Now().UnixMilli()
	if err := store.PutTemplate(ctx, t); err != nil {
		return err
	}
	c.print("template %s: version %d is current", t.ID, t.Current)
	return nil
}

func (c *call) templateArchive(ctx context.Context, store *sqlstore.Store, args []string) error {
	t, err := store.Template(ctx, args[0])
	if err != nil {
		return err
	}
	if t.ArchivedMillis == 0 {
		t.ArchivedMillis = c.clock(ctx).Now().UnixMilli()
		t.UpdatedMillis = t.ArchivedMillis
		if err := store.PutTemplate(ctx, t); err != nil {
			return err
		}
	}
	c.print("template %s is archived", t.ID)
	return nil
}
