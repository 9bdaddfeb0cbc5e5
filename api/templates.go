package api

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"sluice"
	"sluice/lib/jsonscan"
	"sluice/lib/key"
	"sluice/lib/mime"
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
	maxTemplateBody  = 3 * sluice.MaxTemplateBytes // HTML as JSON is longer than HTML
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
	Version   int                     `json:"version"`
	Written   string                  `json:"written"`
	Subject   string                  `json:"subject"`
	Preheader string                  `json:"preheader"`
	From      string                  `json:"from"`
	HTML      string                  `json:"html"`
	Text      string                  `json:"text"`
	Class     string                  `json:"class"`
	Headers   []sluice.TemplateHeader `json:"headers"`
	Strict    bool                    `json:"strict"`
}

func shownTemplate(t *sluice.Template) templateShown {
	shown := templateShown{ID: t.ID, Name: t.Name, Current: t.Current, Latest: t.Latest,
		Created: profile.TimeText(t.CreatedMillis), Updated: profile.TimeText(t.UpdatedMillis)}
	if t.ArchivedMillis != 0 {
		shown.Archived = profile.TimeText(t.ArchivedMillis)
	}
	return shown
}

func shownVersion(t *sluice.Template, v *sluice.TemplateVersion) versionShown {
	return versionShown{
		templateShown: shownTemplate(t), Version: v.Version, Written: profile.TimeText(v.CreatedMillis),
		Subject: v.Subject, Preheader: v.Preheader, From: v.From, HTML: v.HTML, Text: v.Text,
		Class: v.Class.String(), Headers: append([]sluice.TemplateHeader{}, v.Headers...), Strict: v.Strict,
	}
}

type templateAnswer = storeAnswer[sluice.TemplateStore]

// templateRoutes are the paths of templates (INTERFACES.md, section 6).
func (s *Server) templateRoutes() []route {
	get := []string{http.MethodGet, http.MethodHead}
	return []route{
		{templatesPath, append(get, http.MethodPost), s.ofTemplates(map[string]templateAnswer{http.MethodPost: s.addTemplate}, s.listTemplates)},
		{templatePath, append(get, http.MethodPut, http.MethodDelete), s.ofTemplates(map[string]templateAnswer{
			http.MethodPut: s.putTemplate, http.MethodDelete: s.archiveTemplate}, s.getTemplate)},
		{templatePath + "/current", []string{http.MethodPut}, s.ofTemplates(map[string]templateAnswer{http.MethodPut: s.chooseVersion}, nil)},
		{templatePath + "/preview", []string{http.MethodPost}, s.ofTemplates(nil, s.previewTemplate)},
		{templatePath + "/test", []string{http.MethodPost}, ofStore(s, func(v *Services) sluice.TemplateStore { return v.Templates }, key.MessagesSend, key.MessagesSend, nil, s.testTemplate)},
	}
}

func (s *Server) ofTemplates(writes map[string]templateAnswer, read templateAnswer) http.HandlerFunc {
	return ofStore(s, func(v *Services) sluice.TemplateStore { return v.Templates }, key.TemplatesRead, key.TemplatesWrite, writes, read)
}

// listTemplates is GET /v1/templates.
func (s *Server) listTemplates(_ http.ResponseWriter, r *http.Request, store sluice.TemplateStore) (int, any, error) {
	values, err := readQuery(r, []string{"after", "limit", "archived"})
	if err != nil {
		return 0, nil, err
	}
	q := sluice.TemplateQuery{After: values.Get("after")}
	if q.After != "" && !sluice.ValidTemplateID(q.After) {
		return 0, nil, refusal(sluice.CodeInvalid, "after is %.64q, want what an answer had as next", q.After)
	}
	if q.Archived, err = archivedOf(values); err != nil {
		return 0, nil, err
	}
	limit, err := limitOf(values.Get("limit"), maxTemplatesPage, maxTemplatesPage)
	if err != nil {
		return 0, nil, err
	}
	q.Limit = limit + 1
	found, err := store.Templates(r.Context(), q)
	if err != nil {
		return 0, nil, err
	}
	list := struct {
		Templates []templateShown `json:"templates"`
		Next      string          `json:"next,omitempty"`
	}{Templates: []templateShown{}}
	for i := range found[:min(limit, len(found))] {
		list.Templates = append(list.Templates, shownTemplate(&found[i]))
	}
	if len(found) > limit {
		list.Next = found[limit-1].ID
	}
	return http.StatusOK, list, nil
}

// addTemplate is POST /v1/templates.
func (s *Server) addTemplate(w http.ResponseWriter, r *http.Request, store sluice.TemplateStore) (int, any, error) {
	given, err := s.readTemplate(r)
	if err != nil {
		return 0, nil, err
	}
	v := &given.version
	if !sluice.ValidTemplateID(v.Template) {
		return 0, nil, refusal(sluice.CodeInvalid, "id: want 1 to %d characters, lower-case letters, digits, -, _ and ., the first a letter or a digit", sluice.MaxTemplateIDBytes)
	}
	if v.Version = 1; given.name == "" {
		given.name = v.Template
	}
	t := sluice.Template{ID: v.Template, Name: given.name, Current: 1, Latest: 1, CreatedMillis: v.CreatedMillis, UpdatedMillis: v.CreatedMillis}
	if err := store.AddTemplate(r.Context(), t, *v); err != nil {
		return 0, nil, err
	}
	w.Header().Set("Location", templatesPath+"/"+t.ID)
	return http.StatusCreated, shownVersion(&t, v), nil
}

// templateOf returns the template that a path names.
func templateOf(r *http.Request, store sluice.TemplateStore) (sluice.Template, error) {
	id := r.PathValue("id")
	if !sluice.ValidTemplateID(id) {
		return sluice.Template{}, refusal(sluice.CodeNotFound, "there is no template %.64q", id)
	}
	return store.Template(r.Context(), id)
}

// getTemplate is GET /v1/templates/{id}.
func (s *Server) getTemplate(_ http.ResponseWriter, r *http.Request, store sluice.TemplateStore) (int, any, error) {
	values, err := readQuery(r, []string{"version"})
	if err != nil {
		return 0, nil, err
	}
	version := 0
	if text := values.Get("version"); values.Has("version") {
		if version, err = limitOf(text, 0, sluice.MaxTemplateVersions); err != nil || text == "" {
			return 0, nil, refusal(sluice.CodeInvalid, "version is %.32q, want 1 to %d", text, sluice.MaxTemplateVersions)
		}
	}
	t, err := templateOf(r, store)
	if err != nil {
		return 0, nil, err
	}
	v, err := store.TemplateVersion(r.Context(), t.ID, version)
	if err != nil {
		return 0, nil, err
	}
	return http.StatusOK, shownVersion(&t, &v), nil
}

// putTemplate is PUT /v1/templates/{id}: a new version.
func (s *Server) putTemplate(_ http.ResponseWriter, r *http.Request, store sluice.TemplateStore) (int, any, error) {
	w, err := s.readTemplate(r)
	if err != nil {
		return 0, nil, err
	}
	t, err := templateOf(r, store)
	if err != nil {
		return 0, nil, err
	}
	if id := w.version.Template; id != "" && id != t.ID {
		return 0, nil, refusal(sluice.CodeInvalid, "id is %.64q in the body and %q in the path; leave it out of the body", id, t.ID)
	}
	w.version.Template = t.ID
	if t, err = store.AddTemplateVersion(r.Context(), w.name, w.version); err != nil {
		return 0, nil, err
	}
	w.version.Version = t.Latest
	return http.StatusOK, shownVersion(&t, &w.version), nil
}

// archiveTemplate is DELETE /v1/templates/{id}.
func (s *Server) archiveTemplate(_ http.ResponseWriter, r *http.Request, store sluice.TemplateStore) (int, any, error) {
	t, err := templateOf(r, store)
	if err != nil {
		return 0, nil, err
	}
	if t.ArchivedMillis == 0 {
		t.ArchivedMillis = s.clock.Now().UnixMilli()
		t.UpdatedMillis = t.ArchivedMillis
		if err := store.PutTemplate(r.Context(), t); err != nil {
			return 0, nil, err
		}
	}
	return http.StatusNoContent, nil, nil
}

// chooseVersion is PUT /v1/templates/{id}/current: an older version is used
// again, or a newer one.
func (s *Server) chooseVersion(_ http.ResponseWriter, r *http.Request, store sluice.TemplateStore) (int, any, error) {
	version := 0
	err := s.readObject(r, maxPreviewBody, func(text string) error {
		given, err := membersOf(text, "version")
		if err == nil {
			version, err = versionOf(given["version"])
		}
		if err == nil && version == 0 {
			err = refusal(sluice.CodeInvalid, "version: there is none; which one is to be used?")
		}
		return err
	})
	if err != nil {
		return 0, nil, err
	}
	t, err := templateOf(r, store)
	if err != nil {
		return 0, nil, err
	}
	t.Current, t.UpdatedMillis = version, s.clock.Now().UnixMilli()
	if err := store.PutTemplate(r.Context(), t); err != nil {
		return 0, nil, err
	}
	return http.StatusOK, shownTemplate(&t), nil
}

// previewed is what a mail would be.
type previewed struct {
	Version   int                     `json:"version"`
	Subject   string                  `json:"subject"`
	Preheader string                  `json:"preheader"`
	From      string                  `json:"from"`
	HTML      string                  `json:"html"`
	Text      string                  `json:"text"`
	Class     string                  `json:"class"`
	Headers   []sluice.TemplateHeader `json:"headers"`
}

// previewTemplate is POST /v1/templates/{id}/preview. Nothing is fetched from
// anywhere, whatever the HTML names.
func (s *Server) previewTemplate(_ http.ResponseWriter, r *http.Request, store sluice.TemplateStore) (int, any, error) {
	v, in, err := s.readPreview(r, store, nil)
	if err != nil {
		return 0, nil, err
	}
	done, err := s.takePreview()
	if err != nil {
		return 0, nil, err
	}
	defer done()
	m, err := render(v, in)
	if err != nil {
		return 0, nil, err
	}
	return http.StatusOK, previewed{v.Version, m.Subject, m.Preheader, m.From, m.HTML, m.Text, m.Class.String(), append([]sluice.TemplateHeader{}, m.Headers...)}, nil
}

// readPreview reads what is to be rendered: the version that path and body name,
// and its values. texts are further members of the body.
func (s *Server) readPreview(r *http.Request, store sluice.TemplateStore, texts map[string]*string) (*sluice.TemplateVersion, *template.Input, error) {
	var version int
	in := &template.Input{Clock: s.clock}
	if service := s.program.Services().Consent; service != nil {
		in.Unsubscribe = service.SampleUnsubscribeURL()
	}
	who := url.Values{}
	err := s.readObject(r, maxPreviewBody, func(text string) (err error) {
		version, in.Variables, err = parsePreview(text, who, texts)
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	t, err := templateOf(r, store)
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeout(r.Context(), previewTimeout)
	defer cancel()
	if in.Profile, err = s.previewUser(ctx, who); err != nil {
		return nil, nil, err
	}
	v, err := store.TemplateVersion(ctx, t.ID, version)
	return &v, in, err
}

// takePreview takes one of the places of those who render; done gives it back.
func (s *Server) takePreview() (done func(), err error) {
	select {
	case s.previews <- struct{}{}:
		return func() { <-s.previews }, nil
	default:
		return nil, refusal(sluice.CodeUnavailable, "%d previews are being made, and no more are at a time; ask again", parallelPreviews)
	}
}

// tested is a mail that was sent to be looked at.
type tested struct {
	ID      string `json:"id"`
	Version int    `json:"version"`
	Subject string `json:"subject,omitempty"`
}

// testTemplate is POST /v1/templates/{id}/test: a mail to one address, which
// goes the way of all mail.
func (s *Server) testTemplate(w http.ResponseWriter, r *http.Request, store sluice.TemplateStore) (int, any, error) {
	t := spool.Trial{}
	v, in, err := s.readPreview(r, store, map[string]*string{"to": &t.To, "from": &t.From})
	readsAll := s.has(r, key.TemplatesRead)
	if !readsAll {
		err = onlyOwnProfile(err, in, t.To)
	}
	if err != nil {
		return 0, nil, err
	}
	submitter := s.program.Services().Submitter
	if submitter == nil {
		return 0, nil, errNotRunning
	}
	done, err := s.takePreview()
	if err != nil {
		return 0, nil, err
	}
	defer done()
	t.Version, t.Input = v, *in
	draft, subject, err := t.Draft(s.clock.Now())
	if e, ok := errors.AsType[*mime.Error](err); ok {
		return 0, nil, refusal(sluice.CodeInvalid, "%s", e)
	}
	if err != nil {
		return 0, nil, templateRefusal(err)
	}
	draft.Key = s.boundedOf(r)
	ids, err := submitter.Submit(r.Context(), "", []sluice.Draft{draft})
	if err != nil {
		return 0, nil, s.notAccepted(w, err, "Look whether it arrives before you send it again")
	}
	if in.Profile != nil && !readsAll {
		subject = "" // it may say what is known of the recipient
	}
	return http.StatusAccepted, tested{ids[0], v.Version, subject}, nil
}

func render(v *sluice.TemplateVersion, in *template.Input) (template.Message, error) {
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

// has reports whether the key of a request that was let in has another permission.
func (s *Server) has(r *http.Request, p key.Permission) bool {
	who, err := s.authority.identify(r.Context(), r.Header.Get("Authorization"))
	return err == nil && who.May(p)
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

// previewUser reads the user for whom a preview is, if it names one.
func (s *Server) previewUser(ctx context.Context, who url.Values) (*profile.Profile, error) {
	if len(who) == 0 {
		return nil, nil
	}
	users := s.program.Services().Users
	if users == nil {
		return nil, errNotRunning
	}
	user, err := userOf(ctx, users, who)
	if e, ok := errors.AsType[*sluice.Error](err); ok && e.Code == sluice.CodeNotFound {
		return nil, &noUser{e}
	}
	if err != nil {
		return nil, err
	}
	p, err := profile.Parse(user.Profile)
	if err != nil {
		return nil, fmt.Errorf("read user %s: %w", user.ID, err)
	}
	return p, nil
}

// written is a version as a request has it.
type written struct {
	name    string
	version sluice.TemplateVersion
}

// readTemplate reads the body of a template, and compiles it, so that only what
// can be rendered is kept.
func (s *Server) readTemplate(r *http.Request) (written, error) {
	var w written
	err := s.readObject(r, maxTemplateBody, func(text string) (err error) {
		w, err = parseTemplate(text)
		return err
	})
	if err != nil {
		return w, err
	}
	w.version.CreatedMillis = s.clock.Now().UnixMilli()
	if _, err := template.Compile(&w.version); err != nil {
		return w, templateRefusal(err)
	}
	return w, nil
}

// membersOf reads an object whose members are known, once each.
func membersOf(text string, known ...string) (map[string]jsonscan.Value, error) {
	v, err := jsonscan.Scan(text)
	if err != nil || v.Kind != jsonscan.Object {
		return nil, refusal(sluice.CodeInvalid, "the body is no JSON object; it may have %s", strings.Join(known, ", "))
	}
	given := make(map[string]jsonscan.Value)
	m := jsonscan.Read(v.Raw)
	for m.Next() {
		found := false
		for _, name := range known {
			found = found || name == m.Key
		}
		if _, twice := given[m.Key]; twice || !found {
			return nil, refusal(sluice.CodeInvalid, "%.64q is not known, or there twice; it may have %s", m.Key, strings.Join(known, ", "))
		}
		given[m.Key] = m.Value
	}
	return given, nil
}

// textsOf copies members that are to be texts, if they are there.
func textsOf(given map[string]jsonscan.Value, texts map[string]*string) error {
	for name, to := range texts {
		v, ok := given[name]
		if !ok {
			continue
		}
		if v.Kind != jsonscan.String {
			return refusal(sluice.CodeInvalid, "%s: want a text, got %s", name, v.Kind)
		}
		*to = strings.Clone(v.Text())
	}
	return nil
}

// parseTemplate reads a template as a request has it.
func parseTemplate(text string) (w written, err error) {
	given, err := membersOf(text, "id", "name", "subject", "preheader", "from", "html", "text", "class", "headers", "strict")
	if err != nil {
		return w, err
	}
	class := sluice.ClassTransactional.String()
	v := &w.version
	err = textsOf(given, map[string]*string{
		"id": &v.Template, "name": &w.name, "subject": &v.Subject, "preheader": &v.Preheader, "from": &v.From,
		"html": &v.HTML, "text": &v.Text, "class": &class,
	})
	if err != nil {
		return w, err
	}
	if _, ok := given["name"]; ok && !sluice.ValidTemplateName(w.name) {
		return w, refusal(sluice.CodeInvalid, "name: want a text of 1 to %d characters, no control characters, no blank at its ends", sluice.MaxTemplateNameRunes)
	}
	var ok bool
	if v.Class, ok = sluice.ParseClass(class); !ok {
		return w, refusal(sluice.CodeInvalid, "class is %.32q, want transactional or marketing", class)
	}
	if strict, ok := given["strict"]; ok {
		if strict.Kind != jsonscan.Bool {
			return w, refusal(sluice.CodeInvalid, "strict: want true or false, got %s", strict.Kind)
		}
		v.Strict = strict.Raw == "true"
	}
	if headers, ok := given["headers"]; ok {
		v.Headers, err = parseHeaders(headers)
	}
	return w, err
}

// parseHeaders reads [{"name": "...", "value": "..."}, ...].
func parseHeaders(v jsonscan.Value) (all []sluice.TemplateHeader, err error) {
	if v.Kind != jsonscan.Array {
		return nil, refusal(sluice.CodeInvalid, "headers: want a list of objects with name and value, got %s", v.Kind)
	}
	e := jsonscan.ReadArray(v.Raw)
	for e.Next() {
		if len(all) == sluice.MaxTemplateHeaders {
			return nil, refusal(sluice.CodeInvalid, "headers: there are more than %d", sluice.MaxTemplateHeaders)
		}
		var h sluice.TemplateHeader
		given, err := membersOf(e.Value.Raw, "name", "value")
		if err == nil {
			err = textsOf(given, map[string]*string{"name": &h.Name, "value": &h.Value})
		}
		if err != nil || len(given) != 2 {
			return nil, refusal(sluice.CodeInvalid, "headers[%d]: want an object with the texts name and value", len(all))
		}
		all = append(all, h)
	}
	return all, nil
}

// versionOf reads the number of a version; 0: there is none.
func versionOf(v jsonscan.Value) (int, error) {
	if v.Kind == jsonscan.None {
		return 0, nil
	}
	n, err := strconv.Atoi(v.Raw)
	if v.Kind != jsonscan.Number || err != nil || n < 1 || n > sluice.MaxTemplateVersions {
		return 0, refusal(sluice.CodeInvalid, "version: want a number from 1 to %d", sluice.MaxTemplateVersions)
	}
	return n, nil
}

// parsePreview reads {"version": 3, "variables": {...}, "external_id": "..."} and
// texts, which may be there as well.
func parsePreview(text string, who url.Values, texts map[string]*string) (version int, variables string, err error) {
	known := append([]string{"version", "variables", "external_id", "braze_id"}, slices.Sorted(maps.Keys(texts))...)
	given, err := membersOf(text, known...)
	if err == nil {
		err = textsOf(given, texts)
	}
	if err != nil {
		return 0, "", err
	}
	if version, err = versionOf(given["version"]); err != nil {
		return 0, "", err
	}
	if v, ok := given["variables"]; ok {
		if v.Kind != jsonscan.Object {
			return 0, "", refusal(sluice.CodeInvalid, "variables: want an object, got %s", v.Kind)
		}
		variables = strings.Clone(v.Raw)
	}
	for _, name := range []string{"external_id", "braze_id"} {
		if _, ok := given[name]; !ok {
			continue
		}
		id := ""
		if err := textsOf(given, map[string]*string{name: &id}); err != nil {
			return 0, "", err
		}
		who.Set(name, id)
	}
	return version, variables, nil
}
