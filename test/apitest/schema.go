package apitest

import (
	"bytes"
	"fmt"
	"net/url"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// documentURL is what the document is called where its schemas are compiled: it is
// fetched from nowhere.
const documentURL = "https://openapi.invalid/openapi.json"

// schemas are those of a document. Each is compiled when it is first asked for, and
// kept: kin-openapi compiles the schemas of an answer with each answer, which takes a
// hundred times as long as to compare it. Its methods may be called from several
// goroutines at once.
type schemas struct {
	mu       sync.Mutex
	compiler *jsonschema.Compiler
	compiled map[string]*jsonschema.Schema // by their places
}

func newSchemas(document []byte) (*schemas, error) {
	whole, err := jsonschema.UnmarshalJSON(bytes.NewReader(document))
	if err != nil {
		return nil, err
	}
	s := &schemas{compiler: jsonschema.NewCompiler(), compiled: make(map[string]*jsonschema.Schema)}
	s.compiler.AssertFormat()
	return s, s.compiler.AddResource(documentURL, whole)
}

// check compares a value with the schema that stands at a place of the document.
func (s *schemas) check(at string, value any) error {
	schema, err := s.find(at)
	if err != nil {
		return fmt.Errorf("compile the schema at %s: %w", at, err)
	}
	return schema.Validate(value)
}

func (s *schemas) find(at string) (*jsonschema.Schema, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.compiled[at]; known != nil {
		return known, nil
	}
	schema, err := s.compiler.Compile(documentURL + "#" + url.PathEscape(at))
	if err == nil {
		s.compiled[at] = schema
	}
	return schema, err
}

// below is the place of a member, as a JSON pointer. A reference leads to a place of its
// own.
func below(at, reference string, names ...string) string {
	if target, ok := strings.CutPrefix(reference, "#"); ok {
		at = target
	}
	for _, name := range names {
		at += "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
	}
	return at
}
