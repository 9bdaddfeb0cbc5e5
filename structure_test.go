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
	"sync"
	"testing"
	"unicode/utf8"
)

// The rules of the tree, checked by machine. CONTRIBUTING.md lists them for
// people. A new wing is entered in wings; an exception is entered with its
// reason in the table of its rule, and those tables may only become shorter.

const module = "sluice"

// wings is the floor plan: the first part of a package's path is its wing, and a
// package imports its own wing and those with a smaller number. Wings of one number
// never import each other.
var wings = map[string]int{
	".":   0, // the words of the engine
	"lib": 1, // small, and usable alone

	"docs": 1, // the examples, as files of the program
	"web":  1, // the dashboard, as files of the program

	"flow":  2, // the engine on Redis
	"store": 2, // databases

	"user": 3, // who a person is, and what is known of one

	"ingest": 4, // elements and requests to logs, logs to effects
	"mail":   5, // messages, and the ways out

	"journey": 6, // what many people do in many steps
	"track":   6, // what becomes of mail after it left

	"ops": 7, // what operators need
	"api": 7, // HTTP

	"config": 8,
	"engine": 9,  // builds and runs the program
	"test":   10, // servers, receivers and suites, for tests and benches
	"bench":  11,
	"cmd":    12,
}

// apart are the wings that are no part of the product, with the packages that may
// import each beside tests. Without it the benches and the command, which stand
// higher, could take a test's server into the product.
var apart = map[string][]string{
	"test":  {"bench"},
	"bench": {"cmd/sluice-bench"},
}

// words are the packages at the heads of wings: the terms of a domain, and what is
// asked of those who keep its data. A store speaks them, and so they lie below all
// wings: such a package imports the root, and words of a smaller number.
var words = map[string]int{
	"user":    1,
	"mail":    2, // a send names its user
	"journey": 3, // a fact names its user
	"store":   4, // an effect has sends, changes of users, and facts
}

// speakWords are the packages of lib that use the words of the engine. The others
// know nothing of them.
var speakWords = map[string]string{
	"lib/doctor":    "it names the parts of the engine that are examined",
	"lib/connlimit": "a connection too many is refused as an API error",
	"lib/jsonscan":  "it says where in a text an error is, as the API does",
	"lib/mime":      "it refuses mails as the API does",
	"lib/timetext":  "times have the bounds of events",
}

// inner are packages for their own wing alone: others ask the wing.
var inner = []string{"mail/suppress/set", "mail/via/httponce"}

// speakers may import a technology's driver; everybody else goes through them.
var speakers = map[string][]string{
	"github.com/redis/rueidis":            {"flow", "ops/alertstate", "mail/senderdomains", "bench/baseline"}, // the baselines are the designs before flow
	"github.com/go-sql-driver/mysql":      {"store/sqlstore", "bench/baseline"},
	"github.com/jackc/pgx/v5":             {"store/sqlstore", "bench/baseline"},
	"modernc.org/sqlite":                  {"store/sqlstore", "bench/baseline"},
	"go.mongodb.org/mongo-driver":         {"store/mongostore", "bench/baseline"},
	"github.com/goccy/go-yaml":            {"config", "journey/plan"},
	"github.com/klauspost/compress":       {"api", "ops/transfer"},
	"github.com/prometheus/client_golang": {"api", "flow", "ingest", "store/sqlstore", "engine"},
}

const (
	maxFileLines     = 600
	maxFunctionLines = 70
	maxFolders       = 20
	maxRootExports   = 150

	maxArchitectureLines          = 300
	maxArchitectureLineCharacters = 160

	maxSentenceWords = 40
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
	if err := eachTracked(f); err != nil {
		t.Fatal(err)
	}
}

func eachTracked(f func(path string)) error {
	return filepath.WalkDir(".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			if p != "." && (name == ".git" || name == "bin" || name == "sluice-data" || name == "sluice-demo" || name == "testdata" || name == "node_modules") {
				return filepath.SkipDir
			}
			return nil
		}
		if name != ".git" { // a file in a work tree beside the first
			f(filepath.ToSlash(p))
		}
		return nil
	})
}

func sources(t *testing.T) []*source {
	t.Helper()
	all, err := parsed()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// parsed reads all Go files of the tree, once: no test changes what it gets.
var parsed = sync.OnceValues(func() (all []*source, err error) {
	var errs []error
	err = eachTracked(func(p string) {
		if !strings.HasSuffix(p, ".go") {
			return
		}
		text, err := os.ReadFile(p)
		if err != nil {
			errs = append(errs, err)
			return
		}
		set := token.NewFileSet()
		syntax, err := parser.ParseFile(set, p, text, parser.ParseComments|parser.SkipObjectResolution)
		errs = append(errs, err)
		all = append(all, &source{p, path.Dir(p), strings.HasSuffix(p, "_test.go"), string(text), syntax, set})
	})
	return all, errors.Join(append(errs, err)...)
})

// wingOf returns a package's wing.
func wingOf(dir string) string {
	first, _, _ := strings.Cut(dir, "/")
	return first
}

func TestWings(t *testing.T) {
	folders := make(map[string]bool)
	for _, s := range sources(t) {
		wing := wingOf(s.dir)
		if wing != "." {
			folders[wing] = true
		}
		if _, listed := wings[wing]; !listed {
			t.Errorf("%s: there is no wing %s: enter it in wings, or move the package", s.path, wing)
			continue
		}
		for _, spec := range s.syntax.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			if err := checkImport(s, imported); err != nil {
				t.Errorf("%s: %v", s.at(spec), err)
			}
		}
	}
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.IsDir() && e.Name() != ".git" && e.Name() != "bin" && e.Name() != "sluice-data" && e.Name() != "sluice-demo" {
			folders[e.Name()] = true
		}
	}
	if len(folders) > maxFolders {
		t.Errorf("the root has %d folders, at most %d are allowed", len(folders), maxFolders)
	}
}

// checkImport judges one import. A test may import the kit and drivers; the words
// of the engine import nothing but the standard library, tests included.
func checkImport(s *source, imported string) error {
	first, _, _ := strings.Cut(imported, "/")
	if first == module {
		return checkOwnImport(s, imported)
	}
	if !strings.Contains(first, ".") {
		return nil // the standard library
	}
	if s.dir == "." {
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

// checkOwnImport judges the import of a package of this module.
func checkOwnImport(s *source, imported string) error {
	dir := "."
	if imported != module {
		dir = strings.TrimPrefix(imported, module+"/")
	}
	from, to := wingOf(s.dir), wingOf(dir)
	switch {
	case s.test && s.dir != ".", dir == s.dir:
		return nil
	case dir == "." && from == "lib":
		if speakWords[s.dir] == "" {
			return fmt.Errorf("%s imports the words of the engine: a package of lib is usable without them", s.dir)
		}
		return nil
	case words[s.dir] > 0:
		if dir == "." || 0 < words[dir] && words[dir] < words[s.dir] {
			return nil
		}
		return fmt.Errorf("%s imports %s: words import the root and lower words only", s.dir, dir)
	case words[dir] > 0 && wings[from] > wings["lib"]:
		return nil
	case from == to:
		return nil
	case slices.Contains(inner, dir):
		return fmt.Errorf("%s imports %s, which is for wing %s alone", s.dir, dir, to)
	case apart[to] != nil && !slices.Contains(apart[to], s.dir):
		return fmt.Errorf("%s imports %s: beside tests only %s may", s.dir, dir, strings.Join(apart[to], ", "))
	case wings[to] < wings[from]:
		return nil
	}
	return fmt.Errorf("%s (wing %d) imports %s (wing %d): only lower wings may be imported", s.dir, wings[from], dir, wings[to])
}

// TestRootExports: the root package has the words that all wings share, and no more.
func TestRootExports(t *testing.T) {
	var exports []string
	for _, s := range sources(t) {
		if s.test || s.dir != "." {
			continue
		}
		for _, d := range s.syntax.Decls {
			exports = append(exports, exported(d)...)
		}
	}
	if len(exports) > maxRootExports {
		t.Errorf("the root package exports %d names, at most %d are allowed: move a domain's words to its wing", len(exports), maxRootExports)
	}
}

// exported returns the names that a declaration exports, without methods.
func exported(d ast.Decl) (names []string) {
	add := func(n *ast.Ident) {
		if n.IsExported() {
			names = append(names, n.Name)
		}
	}
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil {
			add(d.Name)
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				add(spec.Name)
			case *ast.ValueSpec:
				for _, n := range spec.Names {
					add(n)
				}
			}
		}
	}
	return names
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

// TestArchitectureIsShort keeps ARCHITECTURE.md a text that is read in one sitting.
func TestArchitectureIsShort(t *testing.T) {
	text, err := os.ReadFile("ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	if len(lines) > maxArchitectureLines {
		t.Errorf("ARCHITECTURE.md has %d lines, at most %d are allowed: figures belong in docs/decisions", len(lines), maxArchitectureLines)
	}
	for i, line := range lines {
		if n := utf8.RuneCountInString(line); n > maxArchitectureLineCharacters {
			t.Errorf("ARCHITECTURE.md:%d has %d characters, at most %d are allowed", i+1, n, maxArchitectureLineCharacters)
		}
	}
}

// A test that sleeps is slow where the machine is fast and fails where it is
// slow; a test that skips itself has not passed.
func TestTestsNeitherSleepNorSkip(t *testing.T) {
	banned := map[string]bool{"Sleep": true, "Skip": true, "Skipf": true, "SkipNow": true}
	for _, s := range sources(t) {
		kit := wingOf(s.dir) == "test"
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
	begins := []string{"/" + "work/", "/" + "root/", "/" + "home/", "/" + "Users/"} // few files have one: the others are not looked through
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
		if !slices.ContainsFunc(begins, func(begin string) bool { return strings.Contains(string(text), begin) }) {
			return
		}
		for i, line := range strings.Split(string(text), "\n") {
			if found := forbidden.FindString(line); found != "" {
				t.Errorf("%s:%d: %q is a path of somebody's machine", p, i+1, found)
			}
		}
	})
}

var (
	// personWords are words for people. A process, a connection or a caller is "it",
	// or is named; a user of the product is "the user" or "they".
	personWords = regexp.MustCompile(`(?i)\b(whoever|he|him|his)\b`)

	endOfSentence  = regexp.MustCompile(`[.!?]["')\]]*\s+`)
	endOfParagraph = regexp.MustCompile(`\n[ \t]*\n|\n[ \t]+|\n *[-*] `)
)

// language is what a file has of the words that CONTRIBUTING.md forbids.
type language struct {
	persons       int // personWords in comments and texts
	longSentences int // sentences of comments with more than maxSentenceWords words
}

// TestLanguage holds every file to its row of languageExceptions. A file without a
// row has neither. A row may become smaller or go, and none is added.
func TestLanguage(t *testing.T) {
	for _, s := range sources(t) {
		if s.path == "structure_test.go" {
			continue // it names the words
		}
		got, allowed := languageOf(s), languageExceptions[s.path]
		if got.persons > allowed.persons {
			t.Errorf("%s has %d words for people (personWords), at most %d are allowed: a process is \"it\", a person is named (GLOSSARY.md)",
				s.path, got.persons, allowed.persons)
		}
		if got.longSentences > allowed.longSentences {
			t.Errorf("%s has %d sentences of more than %d words in comments, at most %d are allowed: make two of each",
				s.path, got.longSentences, maxSentenceWords, allowed.longSentences)
		}
	}
}

// languageOf counts in the comments and the string literals of a file.
func languageOf(s *source) (found language) {
	for _, group := range s.syntax.Comments {
		text := group.Text()
		found.persons += len(personWords.FindAllStringIndex(text, -1))
		for _, paragraph := range endOfParagraph.Split(text, -1) {
			for _, sentence := range endOfSentence.Split(paragraph, -1) {
				if len(strings.Fields(sentence)) > maxSentenceWords {
					found.longSentences++
				}
			}
		}
	}
	ast.Inspect(s.syntax, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			found.persons += len(personWords.FindAllStringIndex(lit.Value, -1))
		}
		return true
	})
	return found
}

// languageExceptions are the files that were written before the rule, with what each
// may still have.
var languageExceptions = map[string]language{}
