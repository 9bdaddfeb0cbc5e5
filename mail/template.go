package mail

import (
	"context"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Template is a mail that is written once and sent to many: its name, and which
// of its versions is in use. What it says is in its versions.
type Template struct {
	ID             string // a slug, chosen by who makes it: ValidTemplateID
	Name           string
	Current        int // the version that is used where none is named
	Latest         int // the newest version; all from 1 to it are there
	CreatedMillis  int64
	UpdatedMillis  int64 // when its name, its state or its current version last changed
	ArchivedMillis int64 // 0: it is not; lists leave it out
}

// TemplateVersion is what a template says, for good: who changes a template
// adds a version. Its texts are in the language of package template.
type TemplateVersion struct {
	Template string // id
	Version  int    // from 1

	Subject   string
	Preheader string // what mailboxes show behind the subject
	From      string // empty: who sends says it
	HTML      string
	Text      string
	Headers   []TemplateHeader
	Class     Class
	Strict    bool // a variable that is not given is an error, not an empty text

	CreatedMillis int64
}

// TemplateHeader is a header that goes with a mail.
type TemplateHeader struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Bounds of templates.
const (
	// MaxTemplates bounds how many there are, archived ones included, and
	// MaxTemplateVersions how many versions one of them has.
	MaxTemplates        = 10_000
	MaxTemplateVersions = 1_000

	// MaxTemplateBytes bounds all texts of a version together.
	MaxTemplateBytes = 512 << 10

	// MaxTemplateIDBytes and MaxTemplateNameRunes bound id and name.
	MaxTemplateIDBytes   = 64
	MaxTemplateNameRunes = 255

	// MaxTemplateHeaders and MaxTemplateHeaderBytes bound the headers and each of
	// their names.
	MaxTemplateHeaders     = 20
	MaxTemplateHeaderBytes = 64
)

// ValidTemplateID reports whether a text can be a template's id: lower-case
// letters, digits, "-", "_" and ".", the first a letter or a digit.
func ValidTemplateID(id string) bool {
	for i := range len(id) {
		switch c := id[i]; {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9':
		case i > 0 && (c == '-' || c == '_' || c == '.'):
		default:
			return false
		}
	}
	return id != "" && len(id) <= MaxTemplateIDBytes
}

// ValidTemplateName reports whether a text can be what people call a template.
func ValidTemplateName(name string) bool {
	return name != "" && utf8.RuneCountInString(name) <= MaxTemplateNameRunes && strings.TrimSpace(name) == name && !strings.ContainsFunc(name, unicode.IsControl)
}

// TemplateQuery says which templates are listed.
type TemplateQuery struct {
	After    string // an id: only those after it; empty: all
	Archived bool   // these too
	Limit    int
}

// TemplateStore is where templates are kept. The stores of package sqlstore are
// ones; what is promised of Store's methods holds for these. Refusals are
// *Errors: CodeNotFound where there is no such template or version, CodeInvalid
// where the id is taken or a bound is reached.
type TemplateStore interface {
	// AddTemplate stores a new template and its version 1, which is its current
	// one. The id must be new.
	AddTemplate(ctx context.Context, t Template, v TemplateVersion) error

	// AddTemplateVersion stores v as the next version of its template, whatever
	// number it has, makes it the current one, and returns the template as it is
	// then. name is what the template is called from now on; empty: as before. An
	// archived one is in use again.
	AddTemplateVersion(ctx context.Context, name string, v TemplateVersion) (Template, error)

	// Template returns one, archived or not.
	Template(ctx context.Context, id string) (Template, error)

	// TemplateVersion returns a version; 0: the current one.
	TemplateVersion(ctx context.Context, id string, version int) (TemplateVersion, error)

	// Templates lists them in the order of their ids.
	Templates(ctx context.Context, q TemplateQuery) ([]Template, error)

	// PutTemplate writes a template's name, its current version, which must be
	// there, and whether it is archived.
	PutTemplate(ctx context.Context, t Template) error
}
