package plan

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"sluice/lib/jsonscan"
	"sluice/user/profile"
)

// tree is a value of a document, of JSON and YAML alike.
type tree struct {
	kind    jsonscan.Kind
	raw     string // of a scalar: its JSON
	members []member
	items   []tree
	line    int // of the text, from 1; 0: not known
	wrong   string
}

// member is one of an object.
type member struct {
	name  string
	value tree
}

// maxLevels bounds how deep a document nests.
const maxLevels = 40

// appendJSON appends the value as JSON.
func (t *tree) appendJSON(dst []byte) []byte {
	switch t.kind {
	case jsonscan.Object:
		dst = append(dst, '{')
		for i := range t.members {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(append(dst, profile.Quoted(t.members[i].name)...), ':')
			dst = t.members[i].value.appendJSON(dst)
		}
		return append(dst, '}')
	case jsonscan.Array:
		dst = append(dst, '[')
		for i := range t.items {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = t.items[i].appendJSON(dst)
		}
		return append(dst, ']')
	}
	return append(dst, t.raw...)
}

// text is a string's text.
func (t *tree) text() string {
	return jsonscan.Value{Raw: t.raw, Kind: jsonscan.String, Escaped: strings.Contains(t.raw, `\`)}.Text()
}

// flaw is the first part of a value that is none, and what is wrong with it.
func (t *tree) flaw() (*tree, bool) {
	if t.wrong != "" {
		return t, true
	}
	for i := range t.members {
		if f, ok := t.members[i].value.flaw(); ok {
			return f, true
		}
	}
	for i := range t.items {
		if f, ok := t.items[i].flaw(); ok {
			return f, true
		}
	}
	return nil, false
}

// jsonTree reads JSON.
func jsonTree(text string) (tree, error) {
	v, err := jsonscan.Scan(text)
	if err != nil {
		return tree{}, err
	}
	return treeOf(v, 0), nil
}

func treeOf(v jsonscan.Value, level int) tree {
	t := tree{kind: v.Kind, raw: v.Raw}
	if level > maxLevels {
		t.wrong = tooDeep
		return t
	}
	switch v.Kind {
	case jsonscan.Object:
		m := jsonscan.Read(v.Raw)
		for m.Next() {
			t.members = append(t.members, member{m.Key, treeOf(m.Value, level+1)})
		}
	case jsonscan.Array:
		e := jsonscan.ReadArray(v.Raw)
		for e.Next() {
			t.items = append(t.items, treeOf(e.Value, level+1))
		}
	case jsonscan.String:
		t.raw = profile.Quoted(v.Text())
	}
	return t
}

var tooDeep = fmt.Sprintf("want at most %d levels", maxLevels)

// yamlTree reads YAML. The parser's time grows with the square of what nests, so a
// text should be of somebody who is known.
func yamlTree(text string) (tree, error) {
	if !utf8.ValidString(text) {
		return tree{}, errors.New("it is not UTF-8")
	}
	file, err := parser.ParseBytes([]byte(text), 0)
	if err != nil {
		return tree{}, syntaxError(err)
	}
	root := tree{}
	for _, doc := range file.Docs {
		if doc.Body == nil || doc.Body.Type() == ast.CommentType || doc.Body.Type() == ast.NullType {
			continue
		}
		if root.kind != jsonscan.None {
			return tree{}, fmt.Errorf("line %d: a second YAML document; one text has one journey", lineOf(doc.Body))
		}
		root = yamlNode(doc.Body, 0)
	}
	return root, nil
}

// syntaxError keeps the parser's message and line, and drops its quotation of the text.
func syntaxError(err error) error {
	var y yaml.Error
	if errors.As(err, &y) && y.GetToken() != nil {
		return fmt.Errorf("line %d: %s", y.GetToken().Position.Line, y.GetMessage())
	}
	return errors.New("it is no YAML")
}

func lineOf(n ast.Node) int {
	if t := n.GetToken(); t != nil && t.Position != nil {
		return t.Position.Line
	}
	return 0
}

func yamlNode(n ast.Node, level int) tree {
	t := tree{line: lineOf(n)}
	if level > maxLevels {
		t.wrong = tooDeep
		return t
	}
	switch x := n.(type) {
	case *ast.MappingNode:
		t.kind = jsonscan.Object
		for _, v := range x.Values {
			t.members = append(t.members, yamlMember(v, level))
		}
	case *ast.MappingValueNode:
		t.kind, t.members = jsonscan.Object, []member{yamlMember(x, level)}
	case *ast.SequenceNode:
		t.kind = jsonscan.Array
		for _, v := range x.Values {
			t.items = append(t.items, yamlNode(v, level+1))
		}
	case *ast.StringNode:
		t.kind, t.raw = jsonscan.String, profile.Quoted(x.Value)
	case *ast.LiteralNode:
		t.kind, t.raw = jsonscan.String, profile.Quoted(x.Value.Value)
	case *ast.IntegerNode:
		t.kind, t.raw = jsonscan.Number, fmt.Sprint(x.Value)
	case *ast.FloatNode:
		t.kind, t.raw = jsonscan.Number, x.GetToken().Value
		if v, err := jsonscan.Scan(t.raw); err != nil || v.Kind != jsonscan.Number {
			t.raw = strconv.FormatFloat(x.Value, 'f', -1, 64)
		}
	case *ast.BoolNode:
		t.kind, t.raw = jsonscan.Bool, strconv.FormatBool(x.Value)
	case *ast.NullNode:
		t.kind, t.raw = jsonscan.Null, "null"
	default:
		t.wrong = "want the value itself, got an anchor, an alias, a tag or no number: write it out"
	}
	return t
}

func yamlMember(v *ast.MappingValueNode, level int) member {
	m := member{value: yamlNode(v.Value, level+1)}
	switch key := v.Key.(type) {
	case *ast.StringNode:
		m.name = key.Value
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		m.name = key.GetToken().Value
	default:
		m.value.wrong = "want a name before the colon"
	}
	m.value.line = max(lineOf(v.Key), 1)
	return m
}
