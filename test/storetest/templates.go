package storetest

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"sluice"
	"sluice/mail"
)

// aTemplate is a template and its first version, with what is hard to keep.
func aTemplate(id string) (mail.Template, mail.TemplateVersion) {
	t := mail.Template{ID: id, Name: "für Ann 🌍", Current: 1, Latest: 1, CreatedMillis: 1_700_000_000_123, UpdatedMillis: 1_700_000_000_124}
	v := mail.TemplateVersion{
		Template: id, Version: 1, Class: mail.ClassMarketing, Strict: true, Subject: "Hello {{${first_name}}} 🌍", Preheader: " p\\n ",
		From: `"Ä" <a@example.com>`, HTML: "<p>'{{ x }}'\r\n\t\\N</p>", Text: "ä\n ", CreatedMillis: 1_700_000_000_123,
		Headers: []mail.TemplateHeader{{Name: "X-Ref", Value: `{{ "a" }}`}, {Name: "Reply-To", Value: "<b@example.com>"}},
	}
	return t, v
}

// testTemplates: templates are kept as they are, their versions are numbered
// from 1 and never change, one of them is in use.
func testTemplates(t *testing.T, f *fixture) {
	store, ok := f.store.(mail.TemplateStore)
	if !ok {
		t.Fatal("the store keeps no templates")
	}
	refused := func(err error, code sluice.Code) {
		t.Helper()
		if e, ok := errors.AsType[*sluice.Error](err); !ok || e.Code != code {
			t.Errorf("got %v, want %s", err, code)
		}
	}
	holds := func(id string, version int, want mail.TemplateVersion) {
		t.Helper()
		f.holdsVersion(t, id, version, want)
	}
	list := func(q mail.TemplateQuery, want ...mail.Template) {
		t.Helper()
		got, err := store.Templates(f.ctx, q)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%+v: got %+v, %v\nwant %+v", q, got, err, want)
		}
	}
	list(mail.TemplateQuery{Limit: 10})
	b, v1 := aTemplate("b")
	a, other := aTemplate("a-1")
	must(t, store.AddTemplate(f.ctx, b, v1))
	must(t, store.AddTemplate(f.ctx, a, other))
	holds("b", 1, v1)
	holds("b", 0, v1)
	refused(store.AddTemplate(f.ctx, b, v1), sluice.CodeInvalid)
	refused(onlyError(store.Template(f.ctx, "B")), sluice.CodeNotFound)
	refused(onlyError(store.TemplateVersion(f.ctx, "c", 0)), sluice.CodeNotFound)
	refused(onlyError(store.TemplateVersion(f.ctx, "b", 2)), sluice.CodeNotFound)

	v2 := mail.TemplateVersion{Template: "b", Version: 77, Class: mail.ClassTransactional, Subject: "s", HTML: strings.Repeat("ä<'>\\\n", 64<<10), CreatedMillis: 1_700_000_001_000}
	got, err := store.AddTemplateVersion(f.ctx, "", v2)
	v2.Version = 2
	b.Current, b.Latest, b.UpdatedMillis = 2, 2, 1_700_000_001_000
	if err != nil || got != b {
		t.Errorf("got %+v, %v, want %+v", got, err, b)
	}
	holds("b", 2, v2)
	holds("b", 0, v2)
	holds("b", 1, v1)
	list(mail.TemplateQuery{Limit: 10}, a, b)
	list(mail.TemplateQuery{Limit: 1}, a)
	list(mail.TemplateQuery{Limit: 10, After: "a-1"}, b)

	b.Name, b.Current, b.UpdatedMillis, b.ArchivedMillis = "renamed", 1, 1_700_000_002_000, 1_700_000_002_000
	must(t, store.PutTemplate(f.ctx, b))
	must(t, store.PutTemplate(f.ctx, b)) // the same again is no error
	holds("b", 0, v1)
	list(mail.TemplateQuery{Limit: 10}, a)
	list(mail.TemplateQuery{Limit: 10, Archived: true}, a, b)
	for _, version := range []int{0, 3, -1} {
		wrong := b
		wrong.Current = version
		refused(store.PutTemplate(f.ctx, wrong), sluice.CodeNotFound)
	}
	refused(store.PutTemplate(f.ctx, mail.Template{ID: "c", Current: 1}), sluice.CodeNotFound)
	refused(onlyError(store.AddTemplateVersion(f.ctx, "", mail.TemplateVersion{Template: "c"})), sluice.CodeNotFound)

	got, err = store.AddTemplateVersion(f.ctx, "again", v2) // an archived one is in use again
	b.Name, b.Current, b.Latest, b.UpdatedMillis, b.ArchivedMillis = "again", 3, 3, v2.CreatedMillis, 0
	if err != nil || got != b {
		t.Errorf("got %+v, %v, want %+v", got, err, b)
	}
}

// testTemplateBounds: there are so many templates, and so many versions of one.
func testTemplateBounds(t *testing.T, f *fixture) {
	store := f.store.(mail.TemplateStore)
	a, v := aTemplate("a")
	must(t, store.AddTemplate(f.ctx, a, v))
	full := func(err error) {
		t.Helper()
		if e, ok := errors.AsType[*sluice.Error](err); !ok || e.Code != sluice.CodeInvalid || !strings.Contains(e.Message, "no more are possible") {
			t.Errorf("got %v", err)
		}
	}
	f.Exec(t, fmt.Sprintf("UPDATE templates SET latest = %d", mail.MaxTemplateVersions-1))
	got, err := store.AddTemplateVersion(f.ctx, "", v)
	if err != nil || got.Latest != mail.MaxTemplateVersions {
		t.Errorf("%+v, %v", got, err)
	}
	for range 2 { // what is refused counts nothing
		full(onlyError(store.AddTemplateVersion(f.ctx, "", v)))
	}
	for c := 'b'; c <= 'o'; c++ { // each doubles them
		f.Exec(t, fmt.Sprintf("INSERT INTO templates (id, name, in_use, latest, created, updated) SELECT CONCAT(id, '%c'), name, in_use, latest, created, updated FROM templates", c))
	}
	z, v := aTemplate("z")
	full(store.AddTemplate(f.ctx, z, v))
	f.Exec(t, "DELETE FROM templates WHERE id > 'a'")
	must(t, store.AddTemplate(f.ctx, z, v))
}

// holdsVersion compares a version with what another connection reads of it.
func (f *fixture) holdsVersion(t *testing.T, id string, version int, want mail.TemplateVersion) {
	t.Helper()
	got, err := f.Open(t).(mail.TemplateStore).TemplateVersion(f.ctx, id, version)
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%s %d: got %+v, %v\nwant %+v", id, version, got, err, want)
	}
}

// testTemplateVersionsAtOnce: versions that several processes add at once each
// have a number of their own, and all are there.
func testTemplateVersionsAtOnce(t *testing.T, f *fixture) {
	const writers, each = 3, 5
	first, v := aTemplate("t")
	must(t, f.store.(mail.TemplateStore).AddTemplate(f.ctx, first, v))
	var group sync.WaitGroup
	for w := range writers {
		store := f.Open(t).(mail.TemplateStore)
		group.Go(func() {
			for i := range each {
				v := v
				v.Subject = fmt.Sprint(w, ".", i)
				if _, err := store.AddTemplateVersion(f.ctx, "", v); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	seen := make(map[string]bool)
	for version := range writers * each {
		got, err := f.store.(mail.TemplateStore).TemplateVersion(f.ctx, "t", version+2)
		must(t, err)
		seen[got.Subject] = true
	}
	want(t, "versions", len(seen), writers*each)
}

func onlyError[T any](_ T, err error) error { return err }
