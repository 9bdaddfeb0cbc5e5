package sqlstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"sluice/mail"
)

var _ mail.TemplateStore = (*Store)(nil)

func noTemplate(id string) error { return notFound("there is no template %.64q", id) }

// AddTemplate implements mail.TemplateStore.
func (s *Store) AddTemplate(ctx context.Context, t mail.Template, v mail.TemplateVersion) error {
	err := s.writeSmall(ctx, func(tx *txn) error {
		if err := tx.below(ctx, mail.MaxTemplates, "there are %d templates, archived ones included, and no more are possible; write one anew that is not used", "template_count"); err != nil {
			return err
		}
		err := tx.exec(ctx, "template_add", t.ID, t.Name, s.d.millis(t.CreatedMillis), s.d.millis(t.UpdatedMillis))
		if _, refused := s.d.refusal(err); refused {
			return errors.Join(invalid("there is a template %.64q, perhaps an archived one; add a version to it, or choose another id", t.ID), err)
		}
		if err != nil {
			return err
		}
		return tx.addTemplateVersion(ctx, t.ID, 1, &v)
	})
	return s.failed(err, "add template %s in", t.ID)
}

func (t *txn) addTemplateVersion(ctx context.Context, id string, version int, v *mail.TemplateVersion) error {
	headers := v.Headers
	if headers == nil {
		headers = []mail.TemplateHeader{}
	}
	list, err := json.Marshal(headers)
	if err != nil {
		return fmt.Errorf("encode headers: %w", err)
	}
	return t.exec(ctx, "template_version_add", id, version, v.Class.String(), b2i(v.Strict), v.Subject, v.Preheader, v.From, v.HTML, v.Text,
		string(list), t.store.d.millis(v.CreatedMillis))
}

// AddTemplateVersion implements mail.TemplateStore.
func (s *Store) AddTemplateVersion(ctx context.Context, name string, v mail.TemplateVersion) (t mail.Template, err error) {
	err = s.writeSmall(ctx, func(tx *txn) error {
		// The transaction that counts up first has the row until the end, and
		// the others wait.
		if err := tx.exec(ctx, "template_next", v.Template); err != nil {
			return err
		}
		err := s.scanTemplate(tx.conn.QueryRowContext(ctx, query(s.d, "template_get"), v.Template).Scan, &t)
		switch {
		case errors.Is(err, sql.ErrNoRows):
			return noTemplate(v.Template)
		case err != nil:
			return err
		case t.Latest > mail.MaxTemplateVersions:
			return invalid("template %.64q has %d versions, and no more are possible; go on with a new template", t.ID, t.Latest-1)
		}
		if name != "" {
			t.Name = name
		}
		t.Current, t.UpdatedMillis, t.ArchivedMillis = t.Latest, v.CreatedMillis, 0
		if err := tx.putTemplate(ctx, &t); err != nil {
			return err
		}
		return tx.addTemplateVersion(ctx, t.ID, t.Latest, &v)
	})
	return t, s.failed(err, "add a version of template %s in", v.Template)
}

func (t *txn) putTemplate(ctx context.Context, v *mail.Template) error {
	return t.exec(ctx, "template_put", v.Name, v.Current, t.store.d.millis(v.UpdatedMillis), t.store.millisOrNull(v.ArchivedMillis), v.ID)
}

// PutTemplate implements mail.TemplateStore.
func (s *Store) PutTemplate(ctx context.Context, t mail.Template) error {
	before, err := s.Template(ctx, t.ID)
	if err != nil {
		return err // none is ever removed, so it stays
	}
	if t.Current < 1 || t.Current > before.Latest {
		return noTemplateVersion(t.ID, t.Current)
	}
	return s.failed(s.writeSmall(ctx, func(tx *txn) error { return tx.putTemplate(ctx, &t) }), "write template %s in", t.ID)
}

// Template implements mail.TemplateStore.
func (s *Store) Template(ctx context.Context, id string) (mail.Template, error) {
	return one(ctx, s, s.scanTemplate, noTemplate(id), "template "+id, "template_get", id)
}

// Templates implements mail.TemplateStore.
func (s *Store) Templates(ctx context.Context, q mail.TemplateQuery) ([]mail.Template, error) {
	all, err := list(ctx, s.d, s.reads, s.scanTemplate, rawQuery(s.d, "template_list"), q.After, b2i(q.Archived), q.Limit)
	return all, s.failed(err, "list templates in")
}

func (s *Store) scanTemplate(scan scanner, t *mail.Template) error {
	return scan(&t.ID, &t.Name, &t.Current, &t.Latest, s.instant(&t.CreatedMillis), s.instant(&t.UpdatedMillis), s.instant(&t.ArchivedMillis))
}

func noTemplateVersion(id string, version int) error {
	return notFound("template %.64q has no version %d", id, version)
}

// TemplateVersion implements mail.TemplateStore.
func (s *Store) TemplateVersion(ctx context.Context, id string, version int) (v mail.TemplateVersion, err error) {
	if version == 0 {
		t, err := s.Template(ctx, id)
		if err != nil {
			return v, err
		}
		version = t.Current
	}
	return one(ctx, s, s.scanVersion, noTemplateVersion(id, version), fmt.Sprintf("version %d of template %s", version, id), "template_version_get", id, version)
}

func (s *Store) scanVersion(scan scanner, v *mail.TemplateVersion) error {
	var headers, class string
	err := scan(&v.Template, &v.Version, &class, &v.Strict, &v.Subject, &v.Preheader, &v.From, &v.HTML, &v.Text, &headers, s.instant(&v.CreatedMillis))
	v.Class, _ = mail.ParseClass(class)
	if err == nil && headers != "[]" {
		err = json.Unmarshal([]byte(headers), &v.Headers)
	}
	return err
}
