package plan

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"sluice/journey"
	"sluice/lib/jsonscan"
	"sluice/lib/nearest"
)

// MaxDocumentBytes bounds a document, as JSON and as YAML.
const MaxDocumentBytes = 256 << 10

// LoadJSON reads and compiles a document. The error is Problems, all there are, or one
// of env.
func LoadJSON(text string, env Env) (*Document, *Plan, error) { return load(text, jsonTree, env) }

// LoadYAML is LoadJSON for YAML. Its parser takes long for texts made to that end, so a
// text should be of an operator, not of an unknown caller.
func LoadYAML(text string, env Env) (*Document, *Plan, error) { return load(text, yamlTree, env) }

// ParseJSON reads a document without compiling it: the names of members and the kinds
// of values are checked, and nothing else.
func ParseJSON(text string) (*Document, error) { return parse(text, jsonTree) }

// ParseYAML is ParseJSON for YAML.
func ParseYAML(text string) (*Document, error) { return parse(text, yamlTree) }

func parse(text string, read func(string) (tree, error)) (*Document, error) {
	d := decode(text, read)
	if p := d.problems(); len(p) > 0 {
		return nil, p
	}
	return &d.doc, nil
}

func load(text string, read func(string) (tree, error), env Env) (*Document, *Plan, error) {
	d := decode(text, read)
	if d.isBad("") {
		return nil, nil, d.problems()
	}
	p, err := compile(&d.doc, env, d.collector)
	if err != nil {
		return nil, nil, err
	}
	return &d.doc, p, nil
}

// decoder walks a tree beside the types of Document. encoding/json is not used: it
// stops at the first mistake, passes over names that differ in case, and does not say
// where a mistake is.
type decoder struct {
	*collector
	doc Document
}

func decode(text string, read func(string) (tree, error)) *decoder {
	d := &decoder{collector: newCollector()}
	if len(text) > MaxDocumentBytes {
		d.wrong("", "want at most %d bytes, got %d", MaxDocumentBytes, len(text))
		return d
	}
	t, err := read(strings.TrimPrefix(text, "\ufeff")) // some editors write one
	switch {
	case err != nil:
		d.wrong("", "want a journey, which is an object: %v", err)
	case t.kind != jsonscan.Object:
		d.wrong("", "want a journey, which is an object, got %s", t.kind)
	default:
		d.object("", &t, reflect.ValueOf(&d.doc).Elem())
	}
	return d
}

func join(place, name string) string {
	if place == "" || name == "" {
		return place + name
	}
	return place + "." + name
}

// memberName is how a field is called in documents.
func memberName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

// memberNames are all of a type.
func memberNames(t reflect.Type) []string {
	names := make([]string, t.NumField())
	for i := range names {
		names[i] = memberName(t.Field(i))
	}
	return names
}

func (d *decoder) object(place string, t *tree, into reflect.Value) {
	names := memberNames(into.Type())
	seen := make(map[string]bool)
	for i := range t.members {
		m := &t.members[i]
		at := join(place, m.name)
		d.stands(at, m.value.line)
		field := indexOf(names, m.name)
		switch {
		case seen[m.name]:
			d.wrong(at, "want it once, it is there twice")
		case field < 0 && len(names) == 0:
			d.wrong(at, "want nothing here")
		case field < 0:
			d.wrong(at, "there is no such member%s", nearest.DidYouMean(m.name, names))
		default:
			d.value(at, &m.value, into.Field(field))
			if into.Field(field).Kind() == reflect.Int64 && m.value.kind == jsonscan.Number && into.Field(field).IsZero() {
				d.wrong(at, "want a number of 1 or more, got 0") // a draft is kept without it
			}
		}
		seen[m.name] = true
	}
}

func indexOf(names []string, name string) int {
	for i := range names {
		if names[i] == name {
			return i
		}
	}
	return -1
}

// value reads one member. null is as if it were not there, but where it is a value.
func (d *decoder) value(place string, t *tree, into reflect.Value) {
	if t.wrong != "" {
		d.wrong(place, "%s", t.wrong)
		return
	}
	switch into.Interface().(type) {
	case Raw:
		if bad, ok := t.flaw(); ok {
			d.wrong(place, "%s", bad.wrong)
			return
		}
		into.SetString(string(t.appendJSON(nil)))
		return
	case Number:
		if d.kind(place, t, jsonscan.Number) {
			into.SetString(t.raw)
		}
		return
	}
	if t.kind == jsonscan.Null {
		if into.Kind() == reflect.Pointer && into.Type().Elem().NumField() == 0 {
			into.Set(reflect.New(into.Type().Elem())) // "exit:" with nothing behind it
		}
		return
	}
	switch into.Kind() {
	case reflect.String:
		if d.kind(place, t, jsonscan.String) {
			into.SetString(t.text())
		}
	case reflect.Bool:
		if d.kind(place, t, jsonscan.Bool) {
			into.SetBool(t.raw == "true")
		}
	case reflect.Int64:
		n, err := strconv.ParseInt(t.raw, 10, 64)
		if err != nil || t.kind != jsonscan.Number {
			d.wrong(place, "want a whole number, got %s", got(t))
			return
		}
		into.SetInt(n)
	case reflect.Pointer:
		if d.kind(place, t, jsonscan.Object) {
			into.Set(reflect.New(into.Type().Elem()))
			d.object(place, t, into.Elem())
		}
	case reflect.Struct:
		if d.kind(place, t, jsonscan.Object) {
			d.object(place, t, into)
		}
	case reflect.Slice:
		d.list(place, t, into)
	}
}

// maxListItems bounds any list of a document; most have a bound of their own.
const maxListItems = 1000

// list reads a list, or one value that stands for a list of one.
func (d *decoder) list(place string, t *tree, into reflect.Value) {
	items := t.items
	if t.kind != jsonscan.Array {
		if into.Type() == reflect.TypeFor[[]Step]() || !d.stays(t, into.Type().Elem()) {
			d.wrong(place, "want a list, got %s", got(t))
			return
		}
		items = []tree{*t}
	}
	if len(items) > maxListItems {
		d.wrong(place, "want at most %d, got %d", maxListItems, len(items))
		return
	}
	into.Set(reflect.MakeSlice(into.Type(), len(items), len(items)))
	places := make([]string, len(items))
	for i := range items {
		places[i] = fmt.Sprintf("%s[%d]", place, i)
		if t.kind != jsonscan.Array {
			places[i] = place
		}
	}
	if into.Type() == reflect.TypeFor[[]Step]() {
		places = stepPlaces(idsOf(items))
	}
	for i := range items {
		d.stands(places[i], items[i].line)
		d.value(places[i], &items[i], into.Index(i))
	}
}

// stays reports whether a value is of the kind that a list has.
func (d *decoder) stays(t *tree, of reflect.Type) bool {
	switch of.Kind() {
	case reflect.Struct:
		return t.kind == jsonscan.Object
	case reflect.String:
		return t.kind == jsonscan.String
	}
	return t.kind == jsonscan.Number
}

func idsOf(items []tree) []string {
	ids := make([]string, len(items))
	for i := range items {
		for j := range items[i].members {
			if m := &items[i].members[j]; m.name == "id" && m.value.kind == jsonscan.String {
				ids[i] = m.value.text()
			}
		}
	}
	return ids
}

// stepPlaces are the places of steps: their ids where these are good, else their
// numbers.
func stepPlaces(ids []string) []string {
	places := make([]string, len(ids))
	seen := make(map[string]bool)
	for i, id := range ids {
		places[i] = fmt.Sprintf("steps[%d]", i)
		if journey.ValidID(id) && !seen[id] {
			places[i] = "steps." + id
		}
		seen[id] = true
	}
	return places
}

func (d *decoder) kind(place string, t *tree, want jsonscan.Kind) bool {
	if t.kind != want {
		d.wrong(place, "want %s, got %s", want, got(t))
	}
	return t.kind == want
}

// maxShownBytes bounds what an error shows of a value.
const maxShownBytes = 40

// got is what is there, for errors.
func got(t *tree) string {
	if t.kind == jsonscan.Object || t.kind == jsonscan.Array || t.kind == jsonscan.Null {
		return t.kind.String()
	}
	return shown(t.raw)
}

func shown(text string) string {
	if len(text) > maxShownBytes {
		return strings.ToValidUTF8(text[:maxShownBytes], "") + "..."
	}
	return text
}
