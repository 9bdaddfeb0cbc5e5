package config

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strconv"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"sluice/lib/nearest"
)

// decoder walks the YAML tree beside the struct. The library's own decoding
// into structs was tried and dropped: it loses the order of `columns`, it
// quotes the offending lines in its errors (a root_key among them), and its
// strict mode neither names the nearest key nor gives FILE:LINE.
type decoder struct {
	c    *Config
	file string
	errs []error
}

// decode reads a file's content into c. All mistakes are reported, not the
// first one only.
func (c *Config) decode(file string, body []byte) error {
	tree, err := parser.ParseBytes(bytes.TrimPrefix(body, []byte("\ufeff")), 0) // some editors write one
	if err != nil {
		return fmt.Errorf("read %s: %w", file, syntaxError(file, err))
	}
	d := &decoder{c: c, file: file}
	docs := 0
	for _, doc := range tree.Docs {
		if doc.Body == nil || doc.Body.Type() == ast.CommentType || doc.Body.Type() == ast.NullType {
			continue
		}
		if docs++; docs > 1 {
			d.fail(doc.Body, "", "a second YAML document; one file holds one configuration")
			break
		}
		d.mapping(doc.Body, "", reflect.ValueOf(c).Elem())
	}
	return errors.Join(d.errs...)
}

// syntaxError keeps the parser's message and place, and drops its quotation of
// the source.
func syntaxError(file string, err error) error {
	var y yaml.Error
	if errors.As(err, &y) && y.GetToken() != nil {
		return fmt.Errorf("%s:%d: %s", file, y.GetToken().Position.Line, y.GetMessage())
	}
	return errors.New("it is no YAML; compare it with the sample: sluice config")
}

func (d *decoder) at(n ast.Node) string {
	return d.file + ":" + strconv.Itoa(n.GetToken().Position.Line)
}

func (d *decoder) fail(n ast.Node, path, format string, args ...any) {
	where := d.at(n) + ": "
	if path != "" {
		where += path + ": "
	}
	d.errs = append(d.errs, errors.New(where+fmt.Sprintf(format, args...)))
}

// entries returns the pairs of a mapping.
func (d *decoder) entries(n ast.Node, path string) []*ast.MappingValueNode {
	switch m := n.(type) {
	case *ast.MappingNode:
		return m.Values
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{m}
	}
	d.fail(n, path, "want keys with values, found %s", kindOf(n))
	return nil
}

// mapping fills a struct.
func (d *decoder) mapping(n ast.Node, path string, into reflect.Value) {
	for _, e := range d.entries(n, path) {
		key, ok := d.text(e.Key, path)
		if !ok {
			continue
		}
		at := joinPath(path, key)
		field, known := fieldByKey(into, key)
		if !field.IsValid() {
			d.fail(e.Key, at, "unknown key%s", nearest.DidYouMean(key, known))
			continue
		}
		if _, empty := e.Value.(*ast.NullNode); empty {
			continue // `lists:` with everything below it commented out
		}
		d.c.origins[at] = d.at(e.Key)
		d.value(e.Value, at, field)
	}
}

// value fills one field, whatever its type.
func (d *decoder) value(n ast.Node, path string, into reflect.Value) {
	switch target := into.Addr().Interface().(type) {
	case *[]List:
		*target = named(d, n, path, func(name string) List { return List{Name: name, Profile: true} })
		return
	case *[]OptIn:
		*target = named(d, n, path, newOptIn)
		return
	case *[]Route:
		*target = named(d, n, path, newRoute)
		return
	case *[]Hook:
		*target = named(d, n, path, newHook)
		return
	case *[]DKIM:
		*target = named(d, n, path, newDKIM)
		return
	case *[]Pair:
		for _, e := range d.entries(n, path) {
			key, ok1 := d.text(e.Key, path)
			value, ok2 := d.text(e.Value, joinPath(path, key))
			if ok1 && ok2 {
				*target = append(*target, Pair{key, Secret(value)})
			}
		}
		return
	case *[]Cap:
		*target = named(d, n, path, newCap)
		return
	case *[]SuppressionSet:
		*target = named(d, n, path, newSuppressionSet)
		return
	case *[]Hashes:
		*target = d.hashes(n, path)
		return
	case *[]URL:
		for _, text := range d.texts(n, path) {
			*target = append(*target, URL(text))
		}
		return
	case *[]Column:
		*target = d.columns(n, path)
		return
	case *[]string:
		*target = d.texts(n, path)
		return
	}
	switch into.Kind() {
	case reflect.Struct:
		d.mapping(n, path, into)
	case reflect.Int:
		if i, ok := n.(*ast.IntegerNode); ok {
			if v, err := strconv.Atoi(fmt.Sprint(i.Value)); err == nil {
				into.SetInt(int64(v))
				return
			}
		}
		d.fail(n, path, "want a whole number, found %s", kindOf(n))
	case reflect.Bool:
		if b, ok := n.(*ast.BoolNode); ok {
			into.SetBool(b.Value)
			return
		}
		d.fail(n, path, "want true or false, found %s", kindOf(n))
	case reflect.String:
		if s, ok := d.text(n, path); ok {
			into.SetString(s)
		}
	}
}

// named reads the mapping NAME: {settings}, in the order of the file; fresh is
// what has only a name.
func named[T any](d *decoder, n ast.Node, path string, fresh func(name string) T) (all []T) {
	for _, e := range d.entries(n, path) {
		name, ok := d.text(e.Key, path)
		if !ok {
			continue
		}
		one := fresh(name)
		at := joinPath(path, name)
		d.c.origins[at] = d.at(e.Key)
		if _, empty := e.Value.(*ast.NullNode); !empty {
			d.mapping(e.Value, at, reflect.ValueOf(&one).Elem())
		}
		all = append(all, one)
	}
	return all
}

// hashes reads a sequence of {settings}.
func (d *decoder) hashes(n ast.Node, path string) []Hashes {
	seq, ok := n.(*ast.SequenceNode)
	if !ok {
		d.fail(n, path, "want a list of {dirty, key, ...}, found %s", kindOf(n))
		return nil
	}
	var all []Hashes
	for i, v := range seq.Values {
		var h Hashes
		at := fmt.Sprintf("%s[%d]", path, i)
		d.c.origins[at] = d.at(v)
		d.mapping(v, at, reflect.ValueOf(&h).Elem())
		all = append(all, h)
	}
	return all
}

// columns reads the mapping COLUMN: FIELD, in the order of the file.
func (d *decoder) columns(n ast.Node, path string) []Column {
	var columns []Column
	for _, e := range d.entries(n, path) {
		column, ok1 := d.text(e.Key, path)
		field, ok2 := d.text(e.Value, joinPath(path, column))
		if ok1 && ok2 {
			columns = append(columns, Column{Column: column, Field: field})
		}
	}
	return columns
}

// texts reads a sequence of texts, or a single one.
func (d *decoder) texts(n ast.Node, path string) []string {
	seq, ok := n.(*ast.SequenceNode)
	if !ok {
		if s, ok := d.text(n, path); ok {
			return []string{s}
		}
		return nil
	}
	texts := []string{}
	for i, v := range seq.Values {
		if s, ok := d.text(v, fmt.Sprintf("%s[%d]", path, i)); ok {
			texts = append(texts, s)
		}
	}
	return texts
}

// text reads a scalar as its text. Numbers and booleans count as texts as they
// are written, because a password may be 12345.
func (d *decoder) text(n ast.Node, path string) (string, bool) {
	switch s := n.(type) {
	case *ast.StringNode:
		return s.Value, true
	case *ast.LiteralNode:
		return s.Value.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return s.GetToken().Value, true
	}
	d.fail(n, path, "want a text, found %s", kindOf(n))
	return "", false
}

// kindOf names a node's kind without showing its value.
func kindOf(n ast.Node) string {
	switch n.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		return "keys with values"
	case *ast.SequenceNode:
		return "a list"
	case *ast.NullNode:
		return "nothing"
	case *ast.AnchorNode, *ast.AliasNode, *ast.TagNode, *ast.MergeKeyNode:
		return "an anchor, alias or tag (write the value out)"
	case *ast.IntegerNode:
		return "a number"
	}
	return "a text"
}

// joinPath appends a key to a key path.
func joinPath(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}
