package sqlstore

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"

	"sluice"
)

var _ sluice.TemplateStore = (*Store)(nil)

func noTemplate(id string) error {
	return &sluice.Error{Code: sluice.CodeNotFound, Message: fmt.Sprintf("there is no template %.64q", id), Index: -1}
}

func invalidTemplate(format string, args ...any) error {
	return &sluice.Error{Code: sluice.CodeInvalid, Message: fmt.Sprintf(format, args...), Index: -1}
}

// AddTemplate implements sluice.TemplateStore.
func (s *Store) AddTemplate(ctx context.Context, t sluice.Template, v sluice.TemplateVersion) error {
	err := s.writeSmall(ctx, func(tx *txn) error {
		var n int
		if err := tx.conn.QueryRowContext(ctx, query(s.d, "template_count")).Scan(&n); err != nil {
			return err
		}
		if n >= sluice.MaxTemplates {
			return invalidTemplate("there are %d templates, archived ones included, and no more are possible; write one anew that is not used", n)
		}
		_, err := tx.exec(ctx, "template_add", t.ID, t.Name, s.d.millis(t.CreatedMillis), s.d.millis(t.UpdatedMillis))
		if _, refused := s.d.refusal(err); refused {
			return errors.Join(invalidTemplate("there is a template %.64q, perhaps an archived one; add a version to it, or choose another id", t.ID), err)
		}
		if err != nil {
			return err
		}
		return tx.addTemplateVersion(ctx, t.ID, 1, &v)
	})
	if err != nil {
		return fmt.Errorf("add template %s in %s: %w", t.ID, s.where, err)
	}
	return nil
}

func (t *txn) addTemplateVersion(ctx context.Context, id string, version int, v *sluice.TemplateVersion) error {
	headers := v.Headers
	if headers == nil {
		headers = []sluice.TemplateHeader{}
	}
	list, err := json.Marshal(headers)
	if err != nil {
		return fmt.Errorf("encode headers: %w", err)
	}
	_, err = t.exec(ctx, "template_version_add", id, version, v.Class.String(), b2i(v.Strict), v.Subject, v.Preheader, v.From, v.HTML, v.Text,
		string(list), t.store.d.millis(v.CreatedMillis))
	return err
}

// AddTemplateVersion implements sluice.TemplateStore.
func (s *Store) AddTemplateVersion(ctx context.Context, name string, v sluice.TemplateVersion) (t sluice.Template, err error) {
	err = s.writeSmall(ctx, func(tx *txn) error {
		// The transaction that counts up first has the row until the end, and
		// the others wait.
		if _, err := tx.exec(ctx, "template_next", v.Template); err != nil {
			return err
		}
		t, err = s.scanTemplate(tx.conn.QueryRowContext(ctx, query(s.d, "template_get"), v.Template).Scan)
		switch {
		case errors.Is(err, sql.ErrNoRows):
			return noTemplate(v.Template)
		case err != nil:
			return err
		case t.Latest > sluice.MaxTemplateVersions:
			return invalidTemplate("template %.64q has %d versions, and no more are possible; go on with a new template", t.ID, t.Latest-1)
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
	if err != nil {
		return sluice.Template{}, fmt.Errorf("add a version of template %s in %s: %w", v.Template, s.where, err)
	}
	return t, nil
}

func (t *txn) putTemplate(ctx context.Context, v *sluice.Template) error {
	var archived any
	if v.ArchivedMillis != 0 {
		archived = t.store.d.millis(v.ArchivedMillis)
	}
	_, err := t.exec(ctx, "template_put", v.Name, v.Current, t.store.d.millis(v.UpdatedMillis), archived, v.ID)
	return err
}

// PutTemplate implements sluice.TemplateStore.
func (s *Store) PutTemplate(ctx context.Context, t sluice.Template) error {
	before, err := s.Template(ctx, t.ID)
	if err != nil {
		return err // none is ever removed, so it stays
	}
	if t.Current < 1 || t.Current > before.Latest {
		return noTemplateVersion(t.ID, t.Current)
	}
	if err := s.writeSmall(ctx, func(tx *txn) error { return tx.putTemplate(ctx, &t) }); err != nil {
		return fmt.Errorf("write template %s in %s: %w", t.ID, s.where, err)
	}
	return nil
}

// Template implements sluice.TemplateStore.
func (s *Store) Template(ctx context.Context, id string) (sluice.Template, error) {
	t, err := s.scanTemplate(s.reads.QueryRowContext(ctx, query(s.d, "template_get"), id).Scan)
	if errors.Is(err, sql.ErrNoRows) {
		return sluice.Template{}, noTemplate(id)
	}
	if err != nil {
		return sluice.Template{}, fmt.Errorf("read template %s in %s: %w", id, s.where, err)
	}
	return t, nil
}

// Templates implements sluice.TemplateStore.
func (s *Store) Templates(ctx context.Context, q sluice.TemplateQuery) ([]sluice.Template, error) {
	var all []sluice.Template
	err := s.each(ctx, rawQuery(s.d, "template_list"), []any{q.After, b2i(q.Archived), q.Limit}, func(scan func(...any) error) error {
		t, err := s.scanTemplate(scan)
		all = append(all, t)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list templates in %s: %w", s.where, err)
	}
	return all, nil
}

func (s *Store) scanTemplate(scan func(...any) error) (t sluice.Template, err error) {
	var times [3]any
	if err = scan(&t.ID, &t.Name, &t.Current, &t.Latest, &times[0], &times[1], &times[2]); err != nil {
		return t, err
	}
	for i, to := range []*int64{&t.CreatedMillis, &t.UpdatedMillis, &t.ArchivedMillis} {
		if times[i] == nil {
			continue // it is not archived
		}
		if *to, err = s.d.scanMillis(times[i]); err != nil {
			return t, err
		}
	}
	return t, nil
}

func noTemplateVersion(id string, version int) error {
	return &sluice.Error{Code: sluice.CodeNotFound, Message: fmt.Sprintf("template %.64q has no version %d", id, version), Index: -1}
}

// TemplateVersion implements sluice.TemplateStore.
func (s *Store) TemplateVersion(ctx context.Context, id string, version int) (v sluice.TemplateVersion, err error) {
	if version == 0 {
		t, err := s.Template(ctx, id)
		if err != nil {
			return v, err
		}
		version = t.Current
	}
	var created any
	var headers, class string
	err = s.reads.QueryRowContext(ctx, query(s.d, "template_version_get"), id, version).Scan(&v.Template, &v.Version, &class, &v.Strict,
		&v.Subject, &v.Preheader, &v.From, &v.HTML, &v.Text, &headers, &created)
	if errors.Is(err, sql.ErrNoRows) {
		return sluice.TemplateVersion{}, noTemplateVersion(id, version)
	}
	v.Class, _ = sluice.ParseClass(class)
	if err == nil {
		v.CreatedMillis, err = s.d.scanMillis(created)
	}
	if err == nil && headers != "[]" {
		err = json.Unmarshal([]byte(headers), &v.Headers)
	}
	if err != nil {
		return sluice.TemplateVersion{}, fmt.Errorf("read version %d of template %s in %s: %w", version, id, s.where, err)
	}
	return v, nil
}
