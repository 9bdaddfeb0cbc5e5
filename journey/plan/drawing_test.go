package plan

import (
	"flag"
	"os"
	"regexp"
	"testing"
)

var draw = flag.Bool("draw", false, "draw the pictures of docs/journeys.md anew")

// The pictures of docs/journeys.md are those of the examples, and it names each of them.
func TestPicturesAreTrue(t *testing.T) {
	const file = "../../docs/journeys.md"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	pictures := regexp.MustCompile("(?s)<!-- journeys/([a-z-]+)\\.yaml -->\n```mermaid\n(.*?)```")
	all := examples(t)
	drawn := pictures.ReplaceAllStringFunc(string(text), func(old string) string {
		name := pictures.FindStringSubmatch(old)[1]
		yaml, ok := all[name]
		if !ok {
			t.Errorf("there is no example %s", name)
			return old
		}
		delete(all, name)
		return "<!-- journeys/" + name + ".yaml -->\n```mermaid\n" + compiled(t, yaml).Drawing() + "```"
	})
	for name := range all {
		t.Errorf("there is no picture of %s", name)
	}
	if *draw {
		if err := os.WriteFile(file, []byte(drawn), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if drawn != string(text) {
		t.Error("the pictures are not those of the examples: go test ./journey/plan -run TestPicturesAreTrue -draw")
	}
}

// The journeys that docs/journeys.md shows in parts compile.
func TestPartsInDocsCompile(t *testing.T) {
	text, err := os.ReadFile("../../docs/journeys.md")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(text), -1)
	for _, part := range found {
		if _, _, err := LoadYAML(part[1], world{}); err != nil {
			t.Errorf("%v in\n%s", err, part[1])
		}
	}
	if len(found) < 3 {
		t.Errorf("there are %d journeys in it", len(found))
	}
}
