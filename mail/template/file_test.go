package template

import (
	"reflect"
	"strings"
	"testing"

	"sluice/mail"
)

// What Format writes, ParseFile reads as it was.
func checkFile(t *testing.T, name string, v *mail.TemplateVersion) {
	t.Helper()
	text := Format(name, v)
	gotName, got, err := ParseFile(text)
	if err != nil || gotName != name || !reflect.DeepEqual(&got, v) {
		t.Errorf("%q: got %q %+v, %v\nwant %q %+v", text, gotName, got, err, name, v)
	}
}

func TestFile(t *testing.T) {
	checkFile(t, "Wel: come", &mail.TemplateVersion{
		Template: "welcome", Class: mail.ClassMarketing, Strict: true, Subject: " {% if a %}\n\tb\n{% endif %} ", Preheader: "p", From: "A: <a@example.com>",
		HTML: "\n<p>\r\n--- text\n\\--- html\n---\n\n", Text: "\n", Headers: []mail.TemplateHeader{{Name: "X-A", Value: "1\n2"}, {Name: "X-B"}},
	})
	checkFile(t, "", &mail.TemplateVersion{Class: mail.ClassTransactional, Text: "x"})
	name, v, err := ParseFile("\ufeffid: a\r\n\r\nsubject: s\r\n--- text\r\nt\r\n")
	if err != nil || name != "" || v.Template != "a" || v.Subject != "s" || v.Text != "t\r" || v.Class != mail.ClassTransactional {
		t.Errorf("%q %+v, %v", name, v, err)
	}
	for text, want := range map[string]string{
		"id a":                          "line 1: want NAME: VALUE",
		"id: a\nid: b":                  `line 2: "id" is there twice`,
		"\tx":                           "line 1: a line that begins with a tab",
		"id: a\n\nsubjct: b":            `line 3: "subjct" is not known`,
		"class: spam":                   "line 1: class is",
		"strict: yes":                   "line 1: strict is",
		"--- html\na\n--- html\nb":      `line 3: "--- html" is there twice`,
		"id: a\n--- html\nx\n--- text:": "",
	} {
		if _, _, err := ParseFile(text); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
}

func FuzzFile(f *testing.F) {
	f.Add("n", "s\nx", "--- html\n\\---", "t")
	f.Fuzz(func(t *testing.T, name, subject, html, text string) {
		_, _, _ = ParseFile(text)
		if strings.ContainsAny(name+subject, "\r") || strings.Contains(name, "\n") {
			return // lines of editors of Windows lose theirs
		}
		checkFile(t, name, &mail.TemplateVersion{Template: "a", Class: mail.ClassMarketing, Subject: subject, HTML: html, Text: text})
	})
}
