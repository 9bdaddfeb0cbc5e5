package desk

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"reflect"

	"sluice/journey/plan"
	"sluice/store"
)

// Copy makes a new journey, a draft, of the draft of another. What it says about itself
// (a step that was passed, mail of a step) is about the new one then. Empty name: the
// copied name stays.
func (d *Desk) Copy(ctx context.Context, id, to, name string) (store.Journey, error) {
	j, err := d.at(ctx, id, -1)
	if err != nil {
		return j, err
	}
	doc, err := plan.ParseJSON(j.Draft)
	if err != nil {
		return j, fmt.Errorf("read the draft of journey %s: %w", id, err)
	}
	if err := rename(reflect.ValueOf(doc).Elem(), id, to); err != nil {
		return j, fmt.Errorf("copy journey %s: %w", id, err)
	}
	if doc.ID = to; name != "" {
		doc.Name = name
	}
	draft, err := draftOf(doc)
	if err != nil {
		return j, err
	}
	return d.create(ctx, doc, draft)
}

// rename replaces a journey's id where a document names it: in triggers, and in rules,
// which are JSON.
func rename(v reflect.Value, from, to string) error {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			return rename(v.Elem(), from, to)
		}
	case reflect.Slice:
		for i := range v.Len() {
			if err := rename(v.Index(i), from, to); err != nil {
				return err
			}
		}
	case reflect.Struct:
		if t, ok := v.Addr().Interface().(*plan.Trigger); ok && t.Journey == from {
			t.Journey = to
		}
		for i := range v.NumField() {
			if err := renameField(v.Field(i), v.Type().Field(i), from, to); err != nil {
				return err
			}
		}
	}
	return nil
}

func renameField(v reflect.Value, f reflect.StructField, from, to string) error {
	raw, ok := v.Interface().(plan.Raw)
	if !ok {
		return rename(v, from, to)
	}
	if f.Tag.Get("form") != "rule" || raw == "" {
		return nil
	}
	var rule any
	numbers := json.NewDecoder(bytes.NewReader([]byte(raw)))
	numbers.UseNumber()
	if err := numbers.Decode(&rule); err != nil {
		return err
	}
	if !renameRule(rule, from, to) {
		return nil
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(rule)
	v.SetString(string(bytes.TrimSpace(b.Bytes())))
	return err
}

// renameRule reports whether a rule named the journey.
func renameRule(rule any, from, to string) (found bool) {
	switch x := rule.(type) {
	case []any:
		for _, inner := range x {
			found = renameRule(inner, from, to) || found
		}
	case map[string]any:
		if x["journey"] == from {
			x["journey"], found = to, true
		}
		for _, inner := range x {
			found = renameRule(inner, from, to) || found
		}
	}
	return found
}
