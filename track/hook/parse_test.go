package hook

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// update makes TestParse write what comes out beside what goes in.
var update = flag.Bool("update", false, "write what TestParse gets into testdata")

// example is a body and the events that it says, one JSON object a line.
type example struct{ name, body, want string }

// examples reads a file of them: `--- NAME`, the body, `--- want`, the events.
func examples(t testing.TB, provider string) (all []example) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", provider+".txt"))
	if err != nil {
		t.Fatal(err)
	}
	for part := range strings.SplitSeq("\n"+string(text), "\n--- ") {
		head, rest, _ := strings.Cut(part, "\n")
		switch {
		case strings.TrimSpace(head) == "":
		case head == "want":
			all[len(all)-1].want = strings.TrimSpace(rest)
		default:
			all = append(all, example{name: head, body: strings.TrimSpace(rest)})
		}
	}
	return all
}

func writeExamples(t *testing.T, provider string, all []example) {
	t.Helper()
	var b strings.Builder
	for _, e := range all {
		b.WriteString("--- " + e.name + "\n" + e.body + "\n--- want\n")
		if e.want != "" {
			b.WriteString(e.want + "\n")
		}
	}
	if err := os.WriteFile(filepath.Join("testdata", provider+".txt"), []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

// lines are events as they are printed; then notes.
func lines(t testing.TB, r Result) string {
	t.Helper()
	var b strings.Builder
	for i := range r.Events {
		text, err := json.Marshal(&r.Events[i])
		if err != nil {
			t.Fatal(err)
		}
		b.WriteString(plainJSON.Replace(string(text)) + "\n")
	}
	for _, note := range r.Notes {
		b.WriteString("# " + note + "\n")
	}
	return strings.TrimSpace(b.String())
}

// plainJSON undoes what json.Marshal does for HTML.
var plainJSON = strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\u0026`, "&")

// TestParse parses examples of each provider, in the shape of its documentation.
func TestParse(t *testing.T) {
	for _, p := range Providers {
		t.Run(p.Name, func(t *testing.T) {
			all := examples(t, p.Name)
			for i, e := range all {
				r, err := p.Parse(&Request{Body: []byte(e.body)})
				if err != nil {
					t.Errorf("%s: %v", e.name, err)
					continue
				}
				if got := lines(t, r); got != e.want {
					if all[i].want = got; !*update {
						t.Errorf("%s: got\n%s\nwant\n%s", e.name, got, e.want)
					}
				}
			}
			if *update {
				writeExamples(t, p.Name, all)
			}
		})
	}
}
