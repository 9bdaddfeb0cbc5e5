package plan

import "testing"

// Whatever a document has, it is refused with problems, or compiles into one form that
// compiles into itself and can be drawn.
func FuzzDocument(f *testing.F) {
	for _, text := range examples(f) {
		t, err := yamlTree(text)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(t.appendJSON(nil)))
	}
	f.Add(`{"id":"a","entry":{"when":[{"at":"2026-12-01 09:00","every":"month","days":31}]},"steps":[{"id":"s","delay":{"until_date":{"context":"a"}}},{"id":"s"},{}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		doc, p, err := LoadJSON(text, world{})
		if err != nil {
			if all, ok := err.(Problems); !ok || len(all) == 0 || len(all.Error()) == 0 {
				t.Fatalf("%s: %v", text, err)
			}
			return
		}
		_, again, err := LoadJSON(p.Canonical(), world{})
		if err != nil || again.Canonical() != p.Canonical() {
			t.Fatalf("%s\nbecomes %s\nand that %v", text, p.Canonical(), err)
		}
		if fromTypes, err := Compile(doc, world{}); err != nil || fromTypes.Canonical() != p.Canonical() || p.Drawing() == "" {
			t.Fatalf("%s: compiled from the types: %v", text, err)
		}
		names := p.Names()
		names.Merge(&names)
	})
}
