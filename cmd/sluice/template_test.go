package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const welcomeFile = `id: welcome
name: Wel 🌍
class: marketing
subject: Hi {{${first_name} | default: "friend"}}
header Reply-To: {{ n }} <h@example.com>
--- html
<p>{{${first_name}}} {{ n }}</p>
`

// Templates are put from files beside a running program, shown as such files,
// previewed for a user, put back to an older version and archived.
func TestTemplateCommand(t *testing.T) {
	t.Parallel()
	s := startServe(t, t.TempDir(), "SLUICE_ROOT_KEY="+testRoot)
	s.sent(t, 201, "/users/track/sync", `{"attributes":[{"external_id":"u-7","first_name":"A\u001b[2Jnn"}]}`)
	file := filepath.Join(s.dir, "welcome.mail")
	put := func(text, want string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := mustRun(t, s.dir, "template", "put", file).stdout; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if got := mustRun(t, s.dir, "template", "list"); got.stdout != "" || !strings.Contains(got.stderr, "no templates") {
		t.Errorf("%+v", got)
	}
	put(welcomeFile, "template welcome: version 1 is current\n")
	if got := mustRun(t, s.dir, "template", "show", "welcome").stdout; got != welcomeFile {
		t.Errorf("%q\nwas put: %q", got, welcomeFile)
	}
	second := strings.Replace(welcomeFile, "<p>", "<p>two ", 1)
	put(second, "template welcome: version 2 is current\n")
	for version, want := range map[string]string{"1": welcomeFile, "2": second} {
		if got := mustRun(t, s.dir, "template", "show", "welcome", "--version", version).stdout; got != want {
			t.Errorf("version %s: %q, want %q", version, got, want)
		}
	}
	if got := mustRun(t, s.dir, "template", "use", "welcome", "1").stdout; got != "template welcome: version 1 is current\n" {
		t.Error(got)
	}
	preview := []string{"template", "preview", "welcome", "--variables", `{"n":"<5>"}`, "--user", "u-7"}
	want := "id: welcome\nname: Wel 🌍\nclass: marketing\nsubject: Hi A [2Jnn\nheader Reply-To: <5> <h@example.com>\n--- html\n" + `<p>A\x1b[2Jnn &lt;5&gt;</p>` + "\n"
	if got := mustRun(t, s.dir, preview...).stdout; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := mustRun(t, s.dir, append(preview, "--part", "html", "--version", "2")...).stdout; got != "<p>two A\x1b[2Jnn &lt;5&gt;</p>" {
		t.Errorf("%q", got)
	}
	if list := mustRun(t, s.dir, "template", "list").stdout; !strings.HasPrefix(list, "welcome  version 1 of 2  ") {
		t.Error(list)
	}
	mustRun(t, s.dir, "template", "archive", "welcome")
	if list := mustRun(t, s.dir, "template", "list").stdout; list != "" {
		t.Error(list)
	}
	if list := mustRun(t, s.dir, "template", "list", "--archived", "--json").stdout; !strings.Contains(list, `"current":1,"latest":2,`) || !strings.Contains(list, `"archived":"`) {
		t.Error(list)
	}
	var out, errors strings.Builder
	m := Main{Args: []string{"template", "put", "-"}, Dir: s.dir, Stdin: strings.NewReader(welcomeFile), Stdout: &out, Stderr: &errors}
	if code := m.Run(context.Background()); code != exitOK || out.String() != "template welcome: version 3 is current\n" {
		t.Errorf("%d %s %s", code, out.String(), errors.String())
	}
}

// What cannot be done says why, and which line of which file.
func TestTemplateCommandRefuses(t *testing.T) {
	t.Parallel()
	s := startServe(t, t.TempDir())
	file := filepath.Join(s.dir, "x.mail")
	for text, want := range map[string]string{
		"subject: s\nboo":                                                           file + ", line 2: want NAME: VALUE",
		"subject: s\n--- text\nx":                                                   "id is \"\"",
		"id: a\nname:  x\nsubject: s\n--- text\nx":                                  "name: want at most 255",
		"id: a\nsubject: s\n--- text\n\n{{ a | b }}":                                "text, line 2: there is no filter \"b\"",
		"id: a\nsubject: s\n":                                                       "neither html nor text",
		"id: a\nsubject: s\nfrom: Example Shop\n--- text\nx":                        "from: ",
		"id: a\nsubject: s\nheader X.Campaign: autumn\n--- text\nx":                 "header X.Campaign: ",
		"id: a\nsubject: s\nheader Reply-To: a@x.example, b@x.example\n--- text\nx": "header Reply-To: ",
		"id: a\nsubject: s\n--- text\n" + strings.Repeat("x", maxTemplateFileBytes): "it has more than",
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := sluiceRun(t, s.dir, "template", "put", file); got.code != exitFailed || !strings.Contains(got.stderr, want) {
			t.Errorf("%.80q: %d %s, want %q", text, got.code, got.stderr, want)
		}
	}
	if err := os.WriteFile(file, []byte("id: a\nsubject: s\n--- text\n\n{{ 1 | divided_by: n }}"), 0o600); err != nil {
		t.Fatal(err)
	}
	mustRun(t, s.dir, "template", "put", file)
	for args, want := range map[string]string{
		"show b": `there is no template "b"`, "show a --version 2": `template "a" has no version 2`, "use a 2": "has no version 2", "archive b": "there is no template",
		"preview a": "text, line 2: divided_by: the divisor is 0", "preview a --user u-9": "there is no user", "preview a --variables [1]": "want a JSON object",
		"put " + file + "no": "no such file",
	} {
		if got := sluiceRun(t, s.dir, append([]string{"template"}, strings.Fields(args)...)...); got.code != exitFailed || !strings.Contains(got.stderr, want) {
			t.Errorf("%s: %d %s, want %q", args, got.code, got.stderr, want)
		}
	}
	for _, args := range []string{"", "lst", "list a", "show", "use a", "use a b", "put a b", "preview a --part from", "show a --version 0"} {
		if got := sluiceRun(t, s.dir, append([]string{"template"}, strings.Fields(args)...)...); got.code != exitUsage {
			t.Errorf("template %s: %d %s", args, got.code, got.stderr)
		}
	}
}
