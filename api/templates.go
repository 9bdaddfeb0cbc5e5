package api

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"sluice"
	"sluice/lib/jsonscan"
	"sluice/lib/key"
	"sluice/lib/mime"
	"sluice/mail"
	"sluice/mail/spool"
	"sluice/mail/template"
	"sluice/user/profile"
)

// Paths of templates.
const (
	templatesPath = "/v1/templates"
	templatePath  = templatesPath + "/{id}"
)

// Bounds of templates in requests.
const (
	maxTemplateBody  = 3 * mail.MaxTemplateBytes // HTML as JSON is longer than HTML
	maxPreviewBody   = template.MaxVariablesBytes + 8<<10
	maxTemplatesPage = 100
	parallelPreviews = 2
	previewTimeout   = 5 * time.Second // of reading
)

// templateShown is a template in an answer.
type templateShown struct {
	ID       string `json:"id"`
	Name     string `json:"name"`
	Current  int    `json:"current"`
	Latest   int    `json:"latest"`
	Created  string `json:"created"`
	Updated  string `json:"updated"`
	Archived string `json:"archived,omitempty"`
}

// versionShown is a template and what one of its versions says.
type versionShown struct {
	templateShown
	Version   int                   `json:"version"`
	Written   string                `json:"written"`
	Subject   string                `json:"subject"`
	Preheader string                `json:"preheader"`
	From      string                `json:"from"`
	HTML      string                `json:"html"`
	Text      string                `json:"text"`
	Class     string                `json:"class"`
	Headers   []mail.TemplateHeader `json:"headers"`
	Strict    bool                  `json:"strict"`
}

func shownTemplate(t *mail.Template) templateShown {
	return templateShown{t.ID, t.Name, t.Current, t.Latest, profile.TimeText(t.CreatedMillis), profile.TimeText(t.UpdatedMillis), timeText(t.ArchivedMillis)}
}

func shownVersion(t *mail.Template, v *mail.TemplateVersion) versionShown {
	return versionShown{
		templateShown: shownTemplate(t), Version: v.Version, Written: profile.TimeText(v.CreatedMillis),
		Subject: v.Subject, Preheader: v.Preheader, From: v.From, HTML: v.HTML, Text: v.Text,
		Class: v.Class.String(), Headers: append([]mail.TemplateHeader{}, v.Headers...), Strict: v.Strict,
	}
}

// listTemplates is GET /v1/templates.
func (q *request) listTemplates() (any, error) {
	after := q.query.Get("after")
	if after != "" && !mail.ValidTemplateID(after) {
		return nil, errAfter(after)
	}
	archived, err := q.query.archived()
	if err != nil {
		return nil, err
	}
	return readList(q.query, "templates", maxTemplatesPage, maxTemplatesPage, func(limit int) ([]mail.Template, error) {
		return q.Templates.Templates(q.Context(), mail.TemplateQuery{After: after, Archived: archived, Limit: limit})
	}, shownTemplate, func(t *mail.Template) string { return t.ID })
}

// addTemplate is POST /v1/templates.
func (q *request) addTemplate() (any, error) {
	given, err := q.readTemplate()
	if err != nil {
		return nil, err
	}
	v := &given.version
	if !mail.ValidTemplateID(v.Template) {
		return nil, refusal(sluice.CodeInvalid, "id: want 1 to %d characters, lower-case letters, digits, -, _ and ., the first a letter or a digit", mail.MaxTemplateIDBytes)
	}
	if v.Version = 1; given.name == "" {
		given.name = v.Template
	}
	t := mail.Template{ID: v.Template, Name: given.name, Current: 1, Latest: 1, CreatedMillis: v.CreatedMillis, UpdatedMillis: v.CreatedMillis}
	if err := q.Templates.AddTemplate(q.Context(), t, *v); err != nil {
		return nil, err
	}
	q.w.Header().Set("Location", templatesPath+"/"+t.ID)
	q.status = http.StatusCreated
	q.became(shownVersion(&t, v))
	return shownVersion(&t, v), nil
}

// template returns the template that the path names.
func (q *request) template() (mail.Template, error) {
	id := q.PathValue("id")
	if !mail.ValidTemplateID(id) {
		return mail.Template{}, refusal(sluice.CodeNotFound, "there is no template %.64q", id)
	}
	return q.Templates.Template(q.Context(), id)
}

// getTemplate is GET /v1/templates/{id}.
func (q *request) getTemplate() (any, error) {
	version, err := q.query.number("version", 0, mail.MaxTemplateVersions)
	if err != nil {
		return nil, err
	}
	t, err := q.template()
	if err != nil {
		return nil, err
	}
	v, err := q.Templates.TemplateVersion(q.Context(), t.ID, version)
	if err != nil {
		return nil, err
	}
	return shownVersion(&t, &v), nil
}

// putTemplate is PUT /v1/templates/{id}: a new version.
func (q *request) putTemplate() (any, error) {
	w, err := q.readTemplate()
	if err != nil {
		return nil, err
	}
	t, err := q.template()
	if err != nil {
		return nil, err
	}
	if id := w.version.Template; id != "" && id != t.ID {
		return nil, refusal(sluice.CodeInvalid, "id is %.64q in the body and %q in the path; leave it out of the body", id, t.ID)
	}
	w.version.Template = t.ID
	if t, err = q.Templates.AddTemplateVersion(q.Context(), w.name, w.version); err != nil {
		return nil, err
	}
	w.version.Version = t.Latest
	return shownVersion(&t, &w.version), nil
}

// archiveTemplate is DELETE /v1/templates/{id}.
func (q *request) archiveTemplate() (any, error) {
	t, err := q.template()
	if err != nil {
		return nil, err
	}
	if t.ArchivedMillis == 0 {
		t.ArchivedMillis = q.s.clock.Now().UnixMilli()
		t.UpdatedMillis = t.ArchivedMillis
		if err := q.Templates.PutTemplate(q.Context(), t); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

// chooseVersion is PUT /v1/templates/{id}/current: an older version is used
// again, or a newer one.
func (q *request) chooseVersion() (any, error) {
	version := 0
	_, err := q.object(maxPreviewBody, field{"version", number{&version, mail.MaxTemplateVersions}})
	if err == nil && version == 0 {
		err = refusal(sluice.CodeInvalid, "version: there is none; which one is to be used?")
	}
	if err != nil {
		return nil, err
	}
	t, err := q.template()
	if err != nil {
		return nil, err
	}
	t.Current, t.UpdatedMillis = version, q.s.clock.Now().UnixMilli()
	if err := q.Templates.PutTemplate(q.Context(), t); err != nil {
		return nil, err
	}
	return shownTemplate(&t), nil
}

// previewed is what a mail would be.
type previewed struct {
	Version   int                   `json:"version"`
	Subject   string                `json:"subject"`
	Preheader string                `json:"preheader"`
	From      string                `json:"from"`
	HTML      string                `json:"html"`
	Text      string                `json:"text"`
	Class     string                `json:"class"`
	Headers   []mail.TemplateHeader `json:"headers"`
}

// previewTemplate is POST /v1/templates/{id}/preview. Nothing is fetched from
// anywhere, whatever the HTML names.
func (q *request) previewTemplate() (any, error) {
	v, in, err := q.readPreview()
	if err != nil {
		return nil, err
	}
	done, err := takeAny(q.s.previews, "previews are being made")
	if err != nil {
		return nil, err
	}
	defer done()
	m, err := render(v, in)
	if err != nil {
		return nil, err
	}
	return previewed{v.Version, m.Subject, m.Preheader, m.From, m.HTML, m.Text, m.Class.String(), append([]mail.TemplateHeader{}, m.Headers...)}, nil
}

// readPreview reads what is to be rendered: the version that path and body name, and
// its values: {"version": 3, "variables": {...}, "external_id": "..."}. more are further
// members of the body.
func (q *request) readPreview(more ...field) (*mail.TemplateVersion, *template.Input, error) {
	in := &template.Input{Clock: q.s.clock, Origin: template.SampleOrigin}
	if q.Consent != nil {
		in.Unsubscribe = q.Consent.SampleUnsubscribeURL()
	}
	version, ids := 0, [2]string{}
	names := [...]string{"external_id", "braze_id"}
	given, err := q.object(maxPreviewBody, append([]field{{"version", number{&version, mail.MaxTemplateVersions}}, {"variables", nil}, {names[0], &ids[0]}, {names[1], &ids[1]}}, more...)...)
	if err != nil {
		return nil, nil, err
	}
	if v, ok := given["variables"]; ok {
		if v.Kind != jsonscan.Object {
			return nil, nil, refusal(sluice.CodeInvalid, "variables: want an object, got %s", v.Kind)
		}
		in.Variables = strings.Clone(v.Raw)
	}
	who := url.Values{}
	for i, name := range names {
		if _, ok := given[name]; ok {
			who.Set(name, ids[i])
		}
	}
	t, err := q.template()
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeout(q.Context(), previewTimeout)
	defer cancel()
	if len(who) > 0 {
		_, in.Profile, err = q.user(ctx, who)
		if e, ok := errors.AsType[*sluice.Error](err); ok && e.Code == sluice.CodeNotFound {
			return nil, in, &noUser{e}
		}
		if err != nil {
			return nil, nil, err
		}
	}
	v, err := q.Templates.TemplateVersion(ctx, t.ID, version)
	return &v, in, err
}

// tested is a mail that was sent to be looked at.
type tested struct {
	ID      string `json:"id"`
	Version int    `json:"version"`
	Subject string `json:"subject,omitempty"`
}

// testTemplate is POST /v1/templates/{id}/test: a mail to one address, which
// goes the way of all mail.
func (q *request) testTemplate() (any, error) {
	t := spool.Trial{}
	v, in, err := q.readPreview(field{"from", &t.From}, field{"to", &t.To})
	readsAll := q.who.May(key.TemplatesRead)
	if !readsAll {
		err = onlyOwnProfile(err, in, t.To)
	}
	if err != nil {
		return nil, err
	}
	done, err := takeAny(q.s.previews, "previews are being made")
	if err != nil {
		return nil, err
	}
	defer done()
	t.Version, t.Input = v, *in
	draft, subject, err := t.Draft(q.s.clock.Now())
	if e, ok := errors.AsType[*mime.Error](err); ok {
		return nil, refusal(sluice.CodeInvalid, "%s", e)
	}
	if err != nil {
		return nil, templateRefusal(err)
	}
	draft.Key = q.who.Bounded()
	ids, err := q.Submitter.Submit(q.Context(), "", []mail.Draft{draft})
	if err != nil {
		return nil, q.s.notAccepted(q.w, err, "Look whether it arrives before you send it again")
	}
	if in.Profile != nil && !readsAll {
		subject = "" // it may say what is known of the recipient
	}
	q.status = http.StatusAccepted
	return tested{ids[0], v.Version, subject}, nil
}

func render(v *mail.TemplateVersion, in *template.Input) (template.Message, error) {
	compiled, err := template.Compile(v)
	if err != nil {
		return template.Message{}, templateRefusal(err)
	}
	m, err := compiled.Render(in)
	if err != nil {
		return template.Message{}, templateRefusal(err)
	}
	return m, nil
}

// templateRefusal says what is wrong with a template, or with the values.
func templateRefusal(err error) error {
	e, ok := errors.AsType[*template.Error](err)
	switch {
	case !ok:
		return err
	case e.Kind == template.KindTime:
		return refusal(sluice.CodeUnavailable, "%s; ask again when less is going on", e.Error())
	}
	return refusal(sluice.CodeInvalid, "%s", e.Error())
}

// onlyOwnProfile refuses a test that would show a user's profile to somebody
// else's mailbox. It does not tell whether the user exists.
func onlyOwnProfile(err error, in *template.Input, to string) error {
	if _, nobody := errors.AsType[*noUser](err); nobody || err == nil && in.Profile != nil && !in.Profile.HasAddress(to) {
		return refusal(sluice.CodeForbidden, "with messages:send alone a test is made for a user only if it goes to the user's own address, and %.100q is not known as that; a key that has templates:read as well may name any user", to)
	}
	return err
}

// noUser is the error of a preview whose user is not there.
type noUser struct{ err *sluice.Error }

func (e *noUser) Error() string { return e.err.Error() }
func (e *noUser) Unwrap() error { return e.err }

// written is a version as a request has it.
type written struct {
	name    string
	version mail.TemplateVersion
}

// readTemplate reads the body of a template, and compiles it, so that only what can be
// rendered and sent is kept.
func (q *request) readTemplate() (w written, err error) {
	class := mail.ClassTransactional.String()
	v := &w.version
	given, err := q.object(maxTemplateBody, field{"id", &v.Template}, field{"name", &w.name}, field{"subject", &v.Subject}, field{"preheader", &v.Preheader}, field{"from", &v.From},
		field{"html", &v.HTML}, field{"text", &v.Text}, field{"class", &class}, field{"headers", nil}, field{"strict", &v.Strict})
	if err != nil {
		return w, err
	}
	if _, ok := given["name"]; ok && !mail.ValidTemplateName(w.name) {
		return w, refusal(sluice.CodeInvalid, "name: want a text of 1 to %d characters, no control characters, no blank at its ends", mail.MaxTemplateNameRunes)
	}
	var ok bool
	if v.Class, ok = mail.ParseClass(class); !ok {
		return w, refusal(sluice.CodeInvalid, "class is %.32q, want transactional or marketing", class)
	}
	if headers, ok := given["headers"]; ok {
		if v.Headers, err = parseHeaders(headers); err != nil {
			return w, err
		}
	}
	v.CreatedMillis = q.s.clock.Now().UnixMilli()
	if _, err = template.Compile(v); err == nil {
		err = template.CheckSendable(v)
	}
	if err != nil {
		return w, templateRefusal(err)
	}
	return w, nil
}

// parseHeaders reads [{"name": "...", "value": "..."}, ...].
func parseHeaders(v jsonscan.Value) (all []mail.TemplateHeader, err error) {
	if v.Kind != jsonscan.Array {
		return nil, refusal(sluice.CodeInvalid, "headers: want a list of objects with name and value, got %s", v.Kind)
	}
	e := jsonscan.ReadArray(v.Raw)
	for e.Next() {
		if len(all) == mail.MaxTemplateHeaders {
			return nil, refusal(sluice.CodeInvalid, "headers: there are more than %d", mail.MaxTemplateHeaders)
		}
		var h mail.TemplateHeader
		given, err := decode(e.Value.Raw, field{"name", &h.Name}, field{"value", &h.Value})
		if err != nil || len(given) != 2 {
			return nil, refusal(sluice.CodeInvalid, "headers[%d]: want an object with the texts name and value", len(all))
		}
		all = append(all, h)
	}
	return all, nil
}
