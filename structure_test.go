package sluice

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The rules of the tree, checked by machine. CONTRIBUTING.md lists them for
// people. A new package is entered in layers; an exception is entered with its
// reason in the table of its rule, and those tables may only become shorter.

const module = "sluice"

// layers is the architecture: a package imports packages of lower layers only.
// The test kit is on top, since only tests import it. Packages of one layer
// never import each other, except as sameLayer says.
var layers = map[string]int{
	".": 0,

	"servers":          1,
	"servers/ferretdb": 1, // a module of its own: a server for tests and benches
	"faults":           1,
	"jsonscan":         1,
	"key":              1,
	"crowd":            1, // bounds on what strangers hold of a server
	"meter":            1, // histograms without a metrics library
	"timetext":         1,
	"profile":          1,
	"users":            1, // what updates do to users
	"rule":             1, // conditions about a user
	"filelock":         1,
	"spill":            1,
	"token":            1, // signed texts that links carry
	"mime":             1, // builds mails, checks those that others built
	"dkim":             1, // signs mails
	"suppress/set":     1, // who must not be mailed, in memory
	"post":             1, // one HTTP request, sent once
	"ses":              1, // Amazon SES as a transport
	"mailhttp":         1, // any provider that takes mail by HTTP, as a transport
	"sinkbox":          1, // built-in mailboxes, as a transport
	"template":         1, // mails, and what becomes of them for a recipient
	"dns":              1, // asks resolvers for records
	"smtp":             1, // a client: mail to one relay
	"smtp/sink":        1, // a receiver for tests and benches
	"bench/plot":       1, // draws charts, knows nothing of the program

	"flow":       2,
	"sqlstore":   2,
	"mongostore": 2,

	"ingest":   3,
	"transfer": 3,
	"route":    3, // by which transport a mail goes, and when
	"alert":    3, // tells people what is wrong
	"segment":  3, // who is in a segment
	"suppress": 3, // who must not be mailed
	"domain":   3, // whether receivers will take mail from a domain
	"consent":  3, // who has asked for mail, and has confirmed it
	"spool":    3, // messages on their way out
	"braze":    3, // the dialect of Braze's API: requests to updates, users to replies

	"api":   4,
	"smtpd": 4, // takes mail in by SMTP

	"config": 5,

	"engine": 6, // builds and runs the program

	"bench":            7,
	"bench/baseline":   7,
	"cmd/sluice":       8,
	"cmd/sluice-bench": 8,

	"apitest":   9,
	"clocktest": 9, // a clock that a test moves
	"dnstest":   9, // a DNS server
	"storetest": 9,
	"chaos":     9,
}

// sameLayer are the imports inside one layer.
var sameLayer = map[string]string{
	"spill imports faults":          "it is killed while it writes, by test",
	"spill imports filelock":        "nobody replays a file that still grows",
	"servers imports filelock":      "one server a directory",
	"ses imports post":              "a provider is asked by HTTP",
	"mailhttp imports post":         "a provider is asked by HTTP",
	"profile imports jsonscan":      "values stay the JSON text that they came as",
	"profile imports mime":          "what can be suppressed is what mail can be sent to",
	"profile imports timetext":      "some standard fields are times",
	"template imports jsonscan":     "variables are JSON",
	"template imports profile":      "a recipient is one",
	"template imports timetext":     "times are as producers write them",
	"users imports profile":         "it changes profiles",
	"users imports jsonscan":        "bodies of updates are JSON",
	"rule imports jsonscan":         "rules are JSON, and walk over the text of a profile",
	"rule imports profile":          "its bounds and its standard fields are what rules name",
	"rule imports timetext":         "attributes are times as producers write them",
	"bench imports bench/baseline":  "it measures the old designs beside ours",
	"chaos imports storetest":       "one test kit",
}

// speakers may import a technology's driver; everybody else goes through them.
var speakers = map[string][]string{
	"github.com/redis/rueidis":            {"flow", "bench/baseline"}, // the baselines are the designs before flow
	"github.com/go-sql-driver/mysql":      {"sqlstore", "bench/baseline"},
	"github.com/jackc/pgx/v5":             {"sqlstore", "bench/baseline"},
	"modernc.org/sqlite":                  {"sqlstore", "bench/baseline"},
	"go.mongodb.org/mongo-driver":         {"mongostore", "bench/baseline"},
	"github.com/goccy/go-yaml":            {"config"},
	"github.com/klauspost/compress":       {"api", "transfer"},
	"github.com/prometheus/client_golang": {"api", "flow", "ingest", "sqlstore", "engine"},
}

const (
	maxFileLines     = 600
	maxFunctionLines = 70
)

// longFiles and longFunctions are the exceptions, "file" and "file function",
// with the lines that each may have. Nothing may be added.
var (
	longFiles     = map[string]int{}
	longFunctions = map[string]int{}
)

// sleepers are the tests that may call time.Sleep or Skip, "file function",
// with the reason.
var sleepers = map[string]string{}

// source is one Go file of the tree.
type source struct {
	path   string // from the root, with slashes
	dir    string // its package
	test   bool
	text   string
	syntax *ast.File
	set    *token.FileSet
}

func (s *source) lines(n ast.Node) int {
	return s.set.Position(n.End()).Line - s.set.Position(n.Pos()).Line + 1
}

func (s *source) at(n ast.Node) string {
	return fmt.Sprintf("%s:%d", s.path, s.set.Position(n.Pos()).Line)
}

// tracked calls f for each file of the tree that is not ours to ignore.
func tracked(t *testing.T, f func(path string)) {
	t.Helper()
	err := filepath.WalkDir(".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			if p != "." && (name == ".git" || name == "bin" || name == "sluice-data" || name == "testdata") {
				return filepath.SkipDir
			}
			return nil
		}
		if name != ".git" { // a file in a work tree beside the first
			f(filepath.ToSlash(p))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func sources(t *testing.T) []*source {
	t.Helper()
	var all []*source
	tracked(t, func(p string) {
		if !strings.HasSuffix(p, ".go") {
			return
		}
		text, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		set := token.NewFileSet()
		syntax, err := parser.ParseFile(set, p, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, &source{p, path.Dir(p), strings.HasSuffix(p, "_test.go"), string(text), syntax, set})
	})
	return all
}

func TestLayers(t *testing.T) {
	for _, s := range sources(t) {
		layer, listed := layers[s.dir]
		if !listed {
			t.Errorf("%s: package %s has no layer: enter it in layers", s.path, s.dir)
			continue
		}
		for _, spec := range s.syntax.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			if err := checkImport(s, layer, imported); err != nil {
				t.Errorf("%s: %v", s.at(spec), err)
			}
		}
	}
}

// checkImport judges one import. A test may import the kit and drivers; the
// domain's words import nothing but the standard library, tests included.
func checkImport(s *source, layer int, imported string) error {
	first, _, _ := strings.Cut(imported, "/")
	if first == module {
		dir := strings.TrimPrefix(strings.TrimPrefix(imported, module), "/")
		if dir == "" {
			dir = "."
		}
		other, listed := layers[dir]
		switch {
		case !listed:
			return fmt.Errorf("imports %s, which has no layer: enter it in layers", imported)
		case s.test && s.dir != ".", other < layer, dir == s.dir:
			return nil
		case other == layer && sameLayer[s.dir+" imports "+dir] != "":
			return nil
		}
		return fmt.Errorf("%s (layer %d) imports %s (layer %d): only lower layers may be imported", s.dir, layer, dir, other)
	}
	if !strings.Contains(first, ".") {
		return nil // the standard library
	}
	if layer == 0 {
		return fmt.Errorf("the root package imports %s: it imports the standard library only", imported)
	}
	if s.test {
		return nil
	}
	for prefix, who := range speakers {
		if strings.HasPrefix(imported, prefix) && !slices.Contains(who, s.dir) {
			return fmt.Errorf("%s imports %s: only %s may", s.dir, imported, strings.Join(who, ", "))
		}
	}
	return nil
}

func TestSizes(t *testing.T) {
	for _, s := range sources(t) {
		limit := max(maxFileLines, longFiles[s.path])
		if n := strings.Count(s.text, "\n"); n > limit {
			t.Errorf("%s has %d lines, at most %d are allowed: split it by what it is about", s.path, n, limit)
		}
		if s.test {
			continue
		}
		ast.Inspect(s.syntax, func(n ast.Node) bool {
			f, ok := n.(*ast.FuncDecl)
			if !ok {
				return true
			}
			limit := max(maxFunctionLines, longFunctions[s.path+" "+f.Name.Name])
			if n := s.lines(f); n > limit {
				t.Errorf("%s: %s has %d lines, at most %d are allowed: give its parts names", s.at(f), f.Name.Name, n, limit)
			}
			return false
		})
	}
}

// A test that sleeps is slow where the machine is fast and fails where it is
// slow; a test that skips itself has not passed.
func TestTestsNeitherSleepNorSkip(t *testing.T) {
	banned := map[string]bool{"Sleep": true, "Skip": true, "Skipf": true, "SkipNow": true}
	for _, s := range sources(t) {
		kit := layers[s.dir] == layers["storetest"]
		if !s.test && !kit {
			continue
		}
		for _, decl := range s.syntax.Decls {
			name := ""
			if f, ok := decl.(*ast.FuncDecl); ok {
				name = f.Name.Name
			}
			ast.Inspect(decl, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok {
					return true
				}
				if sel, ok := call.Fun.(*ast.SelectorExpr); ok && banned[sel.Sel.Name] && receiverIs(sel, "time", "t", "b", "f", "tb") && sleepers[s.path+" "+name] == "" {
					t.Errorf("%s: %s: wait for a condition instead of sleeping; fail, naming the remedy, instead of skipping", s.at(call), sel.Sel.Name)
				}
				return true
			})
		}
	}
}

func receiverIs(sel *ast.SelectorExpr, names ...string) bool {
	x, ok := sel.X.(*ast.Ident)
	return ok && slices.Contains(names, x.Name)
}

func TestEveryPackageHasAComment(t *testing.T) {
	commented := make(map[string]bool)
	for _, s := range sources(t) {
		commented[s.dir] = commented[s.dir] || s.syntax.Doc != nil
	}
	for dir, ok := range commented {
		if !ok {
			t.Errorf("package %s has no package comment: say in doc.go what it is about", dir)
		}
	}
}

// Nothing that is kept may speak of the machine it was written on.
func TestNoPathsOfThisMachine(t *testing.T) {
	// In two parts, so that this file does not contain what it forbids.
	forbidden := regexp.MustCompile(`(^|[^A-Za-z0-9_.~-])/` + `(work|root|home/[a-z]+|Users/[A-Za-z]+)/[A-Za-z0-9]`)
	tracked(t, func(p string) {
		info, err := os.Lstat(p)
		if errors.Is(err, fs.ErrNotExist) {
			return // another test's temporary file
		}
		if err != nil {
			t.Fatal(err)
		}
		if !info.Mode().IsRegular() || info.Size() > 4<<20 {
			return
		}
		text, err := os.ReadFile(p)
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range strings.Split(string(text), "\n") {
			if found := forbidden.FindString(line); found != "" {
				t.Errorf("%s:%d: %q is a path of somebody's machine", p, i+1, found)
			}
		}
	})
}
