package plan

import (
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
)

// titles are what the types of documents are called in the table of members.
var titles = map[string]string{
	"Document": "The journey", "Entry": "`entry`", "EntryLimit": "`entry.limit`", "Trigger": "Triggers: of `when`, `exit_when`, `exceptions`",
	"Step": "Steps", "Message": "`message`", "Content": "`message.content`", "Delay": "`delay`", "TimeOfDay": "`delay.until`", "UntilDate": "`delay.until_date`",
	"Split": "`split`", "Audiences": "`audiences`", "AudiencePath": "`audiences.paths`", "WaitFor": "`wait_for`", "WaitPath": "`wait_for.paths`",
	"Random": "`random`", "RandomPath": "`random.paths`", "Update": "`update`", "Go": "`go`", "Exit": "`exit`", "Quiet": "`quiet`", "Limits": "`limits`",
	"Conversion": "`conversions`", "Control": "`control`",
}

// tables writes one table for a type, and then those of the types in it.
func tables(t *testing.T, of reflect.Type, b *strings.Builder, seen map[reflect.Type]bool) {
	t.Helper()
	if seen[of] || of.NumField() == 0 {
		return
	}
	seen[of] = true
	title, ok := titles[of.Name()]
	if !ok {
		t.Errorf("%s has no title in the table of members", of.Name())
	}
	fmt.Fprintf(b, "\n### %s\n\n| member | is | |\n|---|---|---|\n", title)
	var inner []reflect.Type
	for i := range of.NumField() {
		f := of.Field(i)
		var notes []string
		for _, note := range [...][2]string{{"need", "needed"}, {"kind", "says what it is"}, {"single", "one or several"}} {
			if f.Tag.Get(note[0]) != "" {
				notes = append(notes, note[1])
			}
		}
		says := f.Tag.Get("doc")
		if words := f.Tag.Get("enum"); words != "" && strings.Count(words, ",") < 6 {
			says += " One of `" + strings.ReplaceAll(words, ",", "`, `") + "`."
		}
		fmt.Fprintf(b, "| `%s` | %s | %s |\n", memberName(f), says, strings.Join(notes, ", "))
		in := f.Type
		for in.Kind() == reflect.Pointer || in.Kind() == reflect.Slice {
			in = in.Elem()
		}
		if in.Kind() == reflect.Struct {
			inner = append(inner, in)
		}
	}
	for _, in := range inner {
		tables(t, in, b, seen)
	}
}

// docs/journeys.md has each member of documents, and says of it what the schema says.
func TestMembersInDocs(t *testing.T) {
	const file = "../../docs/journeys.md"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	const begins, ends = "<!-- members -->\n", "<!-- end of members -->\n"
	before, rest, found := strings.Cut(string(text), begins)
	_, after, ended := strings.Cut(rest, ends)
	if !found || !ended {
		t.Fatalf("%s has no place for the members", file)
	}
	var b strings.Builder
	tables(t, reflect.TypeFor[Document](), &b, make(map[reflect.Type]bool))
	want := before + begins + b.String() + "\n" + ends + after
	if *draw {
		if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if want != string(text) {
		t.Error("the members are not those of the types: go test ./journey/plan -run TestMembersInDocs -draw")
	}
}
