package plan

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

var write = flag.Bool("write", false, "write schema.json anew")

// forms are what texts of a form look like.
var forms = map[string]any{
	"id":       map[string]any{"type": "string", "pattern": "^[a-z0-9-]{1,64}$"},
	"next":     map[string]any{"type": "string", "pattern": "^[a-z0-9-]{1,64}$"},
	"duration": map[string]any{"type": "string", "pattern": `^([0-9]{1,9}w)?([0-9]{1,9}d)?([0-9]{1,9}h)?([0-9]{1,9}m)?([0-9]{1,9}s)?$`, "minLength": 2},
	"offset":   map[string]any{"type": "string", "pattern": `^-?([0-9]{1,9}w)?([0-9]{1,9}d)?([0-9]{1,9}h)?([0-9]{1,9}m)?([0-9]{1,9}s)?$`, "minLength": 2},
	"time":     map[string]any{"type": "string", "pattern": "^([01][0-9]|2[0-3]):[0-5][0-9]$"},
	"moment":   map[string]any{"type": "string", "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}$"},
	"zone":     map[string]any{"type": "string"},
	"rule":     map[string]any{"type": "object"},
	"object":   map[string]any{"type": "object"},
	"scalar":   map[string]any{"type": []string{"string", "number", "boolean", "null"}},
	"percent":  map[string]any{"type": "number", "minimum": 0, "maximum": 100},
}

// generator makes a schema of types. Each struct becomes a definition.
type generator struct{ defs map[string]any }

func (g *generator) of(t *testing.T, f reflect.Type, tag reflect.StructTag) map[string]any {
	t.Helper()
	s := map[string]any{}
	if form := tag.Get("form"); form != "" {
		known, ok := forms[form].(map[string]any)
		if !ok {
			t.Fatalf("no form %s", form)
		}
		for k, v := range known {
			s[k] = v
		}
		return s
	}
	switch f.Kind() {
	case reflect.String:
		s["type"] = "string"
		if words := tag.Get("enum"); words != "" {
			s["enum"] = strings.Split(words, ",")
		}
	case reflect.Bool:
		s["type"] = "boolean"
	case reflect.Int64:
		s["type"] = "integer"
	case reflect.Pointer:
		return g.of(t, f.Elem(), "")
	case reflect.Struct:
		g.define(t, f)
		s["$ref"] = "#/$defs/" + f.Name()
	case reflect.Slice:
		item := g.of(t, f.Elem(), tag)
		s["type"], s["items"] = "array", item
		if tag.Get("single") != "" {
			return map[string]any{"anyOf": []any{s, item}}
		}
	default:
		t.Fatalf("no schema for %s", f)
	}
	return s
}

func (g *generator) define(t *testing.T, f reflect.Type) {
	t.Helper()
	if _, done := g.defs[f.Name()]; done {
		return
	}
	def := map[string]any{"type": "object", "additionalProperties": false}
	g.defs[f.Name()] = def
	properties, required, oneOf := map[string]any{}, []string{}, []any{}
	for i := range f.NumField() {
		field := f.Field(i)
		name := memberName(field)
		s := g.of(t, field.Type, field.Tag)
		if s["description"] = field.Tag.Get("doc"); s["description"] == "" {
			t.Errorf("%s.%s has no description: give it the tag doc", f.Name(), field.Name)
		}
		properties[name] = s
		if field.Tag.Get("need") != "" {
			required = append(required, name)
		}
		if field.Tag.Get("kind") != "" {
			oneOf = append(oneOf, map[string]any{"required": []string{name}})
		}
	}
	def["properties"] = properties
	if len(required) > 0 {
		def["required"] = required
	}
	if len(oneOf) > 0 {
		def["oneOf"] = oneOf
	}
	if len(properties) == 0 {
		def["type"] = []string{"object", "null"}
	}
}

// The schema is that of the types: so every member of them is in it, and no other.
func TestSchemaIsPublished(t *testing.T) {
	g := &generator{defs: map[string]any{}}
	g.define(t, reflect.TypeFor[Document]())
	root := map[string]any{"$schema": "https://json-schema.org/draft/2020-12/schema", "$ref": "#/$defs/Document", "$defs": g.defs,
		"title": "A journey of Sluice", "description": "INTERFACES.md, section 10, explains it. Rules are those of section 9."}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(root); err != nil {
		t.Fatal(err)
	}
	if *write {
		if err := os.WriteFile("schema.json", b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if !bytes.Equal(b.Bytes(), Schema()) {
		t.Error("schema.json is not that of the types: go generate ./journey/plan")
	}
}

func compiledSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	c := jsonschema.NewCompiler()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(Schema()))
	if err == nil {
		err = c.AddResource("schema.json", doc)
	}
	if err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func validate(t *testing.T, s *jsonschema.Schema, text string) error {
	t.Helper()
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return s.Validate(v)
}

// examples are the documents of docs/journeys, by their names, as YAML.
func examples(t testing.TB) map[string]string {
	t.Helper()
	files, err := filepath.Glob("../../docs/journeys/*.yaml")
	if err != nil || len(files) < 3 {
		t.Fatalf("%d examples, %v", len(files), err)
	}
	all := make(map[string]string)
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		all[strings.TrimSuffix(filepath.Base(f), ".yaml")] = string(text)
	}
	return all
}

func TestSchemaTakesExamples(t *testing.T) {
	s := compiledSchema(t)
	for name, text := range examples(t) {
		tree, err := yamlTree(text)
		if err != nil {
			t.Fatal(err)
		}
		if err := validate(t, s, string(tree.appendJSON(nil))); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		_, p, err := LoadYAML(text, world{})
		if err != nil {
			t.Errorf("%s:\n%v", name, err)
			continue
		}
		if err := validate(t, s, p.Canonical()); err != nil {
			t.Errorf("%s in its one form: %v", name, err)
		}
	}
	for what, text := range map[string]string{
		"an unknown member": `{"id":"a","entry":{"when":{"api":true}},"steps":[{"id":"a","exit":{}}],"stepz":1}`,
		"no entry":          `{"id":"a","steps":[{"id":"a","exit":{}}]}`,
		"two kinds":         `{"id":"a","entry":{"when":{"api":true}},"steps":[{"id":"a","exit":{},"go":{"journey":"b"}}]}`,
		"no kind":           `{"id":"a","entry":{"when":{"api":true}},"steps":[{"id":"a"}]}`,
		"a wrong duration":  `{"id":"a","entry":{"when":{"api":true}},"steps":[{"id":"a","delay":{"for":"2 hours"}}]}`,
		"a wrong id":        `{"id":"A","entry":{"when":{"api":true}},"steps":[{"id":"a","exit":{}}]}`,
	} {
		if validate(t, s, text) == nil {
			t.Errorf("the schema takes %s: %s", what, text)
		}
	}
}
