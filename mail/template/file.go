package template

import (
	"fmt"
	"strings"

	"sluice/mail"
)

// A version as a file that people edit: a line for each short text, then the
// long ones behind lines of their own.
//
//	id: welcome
//	name: Welcome
//	class: marketing
//	strict: true
//	subject: Welcome, {{${first_name}}}
//	header Reply-To: help@example.com
//	--- html
//	<p>Hello</p>
//	--- text
//	Hello
//
// A line that begins with a tab goes on with the one before it, after a line
// break. A line of a long text that begins with --- has a backslash before it.
// What Format writes, ParseFile reads as it was, but for a CR at the end of a line of a
// short text.

const (
	fileHTML   = "--- html"
	fileText   = "--- text"
	fileHeader = "header "
	fileStrict = "true"
)

// Format returns a version as a file.
func Format(name string, v *mail.TemplateVersion) string {
	var b strings.Builder
	line := func(key, value string) {
		if value != "" {
			b.WriteString(key + ": " + strings.ReplaceAll(value, "\n", "\n\t") + "\n")
		}
	}
	line("id", v.Template)
	line("name", name)
	line("class", v.Class.String())
	if v.Strict {
		line("strict", fileStrict)
	}
	line("subject", v.Subject)
	line("preheader", v.Preheader)
	line("from", v.From)
	for _, h := range v.Headers {
		b.WriteString(fileHeader + h.Name + ": " + strings.ReplaceAll(h.Value, "\n", "\n\t") + "\n")
	}
	for _, long := range [...][2]string{{fileHTML, v.HTML}, {fileText, v.Text}} {
		if long[1] == "" {
			continue
		}
		b.WriteString(long[0] + "\n")
		for line := range strings.SplitSeq(long[1], "\n") {
			if strings.HasPrefix(strings.TrimLeft(line, `\`), "---") {
				b.WriteByte('\\')
			}
			b.WriteString(line + "\n")
		}
	}
	return b.String()
}

// file is a file being read.
type file struct {
	name    string
	version mail.TemplateVersion
	seen    map[string]bool
	last    *string // what a line that begins with a tab goes on with
	header  bool    // that is the value of the last header
}

// ParseFile reads a file: a version, and what its template is called. It does
// not compile it. Its errors name the line.
func ParseFile(text string) (name string, v mail.TemplateVersion, err error) {
	f := &file{seen: make(map[string]bool), version: mail.TemplateVersion{Class: mail.ClassTransactional}}
	text = strings.TrimPrefix(text, "\ufeff") // some editors write one
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	for i := 0; i < len(lines); i++ {
		line := strings.TrimSuffix(lines[i], "\r")
		switch {
		case line == fileHTML || line == fileText:
			to := &f.version.HTML
			if line == fileText {
				to = &f.version.Text
			}
			if f.seen[line] {
				return "", v, fmt.Errorf("line %d: %q is there twice; write a backslash before a line that is text", i+1, line)
			}
			f.seen[line] = true
			end := i + 1
			for end < len(lines) && !isFileMark(lines[end]) {
				end++
			}
			*to = longText(lines[i+1 : end])
			i = end - 1
		default:
			if err := f.line(line); err != nil {
				return "", v, fmt.Errorf("line %d: %w", i+1, err)
			}
		}
	}
	return f.name, f.version, nil
}

func isFileMark(line string) bool {
	line = strings.TrimSuffix(line, "\r")
	return line == fileHTML || line == fileText
}

// longText joins lines, and takes the backslashes away that Format has written.
func longText(lines []string) string {
	all := make([]string, len(lines))
	for i, line := range lines {
		if strings.HasPrefix(line, `\`) && strings.HasPrefix(strings.TrimLeft(line, `\`), "---") {
			line = line[1:]
		}
		all[i] = line
	}
	return strings.Join(all, "\n")
}

// line reads a short text.
func (f *file) line(line string) error {
	if rest, ok := strings.CutPrefix(line, "\t"); ok {
		switch {
		case f.header:
			h := &f.version.Headers[len(f.version.Headers)-1]
			h.Value += "\n" + rest
		case f.last != nil:
			*f.last += "\n" + rest
		default:
			return fmt.Errorf("a line that begins with a tab goes on with the one before it, and there is none")
		}
		return nil
	}
	f.last, f.header = nil, false
	if strings.TrimSpace(line) == "" {
		return nil
	}
	key, value, ok := strings.Cut(line, ":")
	if !ok {
		return fmt.Errorf("want NAME: VALUE, %q or %q, got %.40q", fileHTML, fileText, line)
	}
	value = strings.TrimPrefix(value, " ")
	if name, ok := strings.CutPrefix(key, fileHeader); ok {
		f.version.Headers = append(f.version.Headers, mail.TemplateHeader{Name: strings.TrimSpace(name), Value: value})
		f.header = true
		return nil
	}
	if f.seen[key] {
		return fmt.Errorf("%.40q is there twice", key)
	}
	f.seen[key] = true
	return f.set(key, value)
}

func (f *file) set(key, value string) error {
	texts := map[string]*string{
		"id": &f.version.Template, "name": &f.name, "subject": &f.version.Subject, "preheader": &f.version.Preheader, "from": &f.version.From,
	}
	var ok bool
	switch to := texts[key]; {
	case to != nil:
		*to, f.last = value, to
	case key == "class":
		if f.version.Class, ok = mail.ParseClass(value); !ok {
			return fmt.Errorf("class is %.32q, want transactional or marketing", value)
		}
	case key == "strict":
		if f.version.Strict = value == fileStrict; !f.version.Strict && value != "false" {
			return fmt.Errorf("strict is %.32q, want true or false", value)
		}
	default:
		return fmt.Errorf("%.40q is not known; want id, name, class, strict, subject, preheader, from, header NAME, %q or %q", key, fileHTML, fileText)
	}
	return nil
}
