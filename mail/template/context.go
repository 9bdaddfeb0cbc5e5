package template

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"sluice/lib/jsonscan"
	"sluice/mail"
)

// contextVariable is what a person entered a journey with, in mails of the journey.
const contextVariable = "context"

// waitedVariable is what steps of a journey have waited for: waited.STEP.PROPERTY.
const waitedVariable = "waited"

// In templates: what is looked at inside of tags, and where a member of the context is
// named there.
var (
	tagPattern      = regexp.MustCompile(`(?s)\{\{` + inTag + `\}\}|\{%` + inTag + `%\}`)
	computedPattern = regexp.MustCompile(`[^\w\x{80}-\x{10FFFF}?\]})]\s*\[\s*[^\s"'\]]`) // the variable [name]
	memberPattern   = regexp.MustCompile(`\b(?:` + contextVariable + `|` + entryPropertiesName + `|` + eventPropertiesName + `)\b` + ofMember + `?`)
	waitedPattern   = regexp.MustCompile(`\b` + waitedVariable + `\b(?:` + ofMember + ofMember + `?)?`)
)

// inTag is what is inside of a tag: a ${name} is passed over, as closing does. ofMember is
// how a member of a variable is named, dotName what follows its dot: isWord and
// reader.plain say the same of it.
const (
	inTag    = `(?:\$\{[^}\n]*\}|.)*?`
	dotName  = `[A-Za-z_\x{80}-\x{10FFFF}][\w\x{80}-\x{10FFFF}-]*\??`
	ofMember = `(?:\s*\.\s*(?:\$\{\s*([^}\s]+)\s*\}|(` + dotName + `))|\s*\[\s*(?:"([^"]+)"|'([^']+)')\s*\])`
)

// ContextMembers returns which members of the context a template names, sorted; all: the
// tags have the context as a whole, what it has of itself (ofWhole), or a member whose name
// is computed. It may find some too many, but none too few.
func ContextMembers(v *mail.TemplateVersion) (names []string, all bool) {
	for _, tag := range tagsOf(v) {
		all = all || computedPattern.MatchString(tag)
		for _, m := range memberPattern.FindAllStringSubmatch(tag, -1) {
			name := strings.Join(m[1:], "")
			all = all || name == "" || ofWhole(name)
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), all
}

// ofWhole reports whether a name may mean something of an object as a whole, its size or
// its first or last member, if it has no member of that name.
func ofWhole(name string) bool { return name == "size" || name == "first" || name == "last" }

// WaitedMember is a property of what a step of a journey has waited for.
type WaitedMember struct{ Step, Property string }

// WaitedMembers returns which such properties a template names; all: the tags have those of a
// step as a whole, or one whose name is computed. It may find some too many, but none too few.
func WaitedMembers(v *mail.TemplateVersion) (members []WaitedMember, all bool) {
	for _, tag := range tagsOf(v) {
		for _, m := range waitedPattern.FindAllStringSubmatch(tag, -1) {
			w := WaitedMember{strings.Join(m[1:5], ""), strings.Join(m[5:9], "")}
			all = all || w.Property == "" || ofWhole(w.Property)
			if w.Property != "" && !slices.Contains(members, w) {
				members = append(members, w)
			}
		}
	}
	return members, all
}

// tagsOf returns the outputs and tags of all parts, as they are written, but without the
// dash at their end that trims the blanks behind: a name before it has none.
func tagsOf(v *mail.TemplateVersion) []string {
	texts := sources(v)
	whole := strings.Join(texts[:], "\n")
	for _, h := range v.Headers {
		whole += "\n" + h.Value
	}
	tags := tagPattern.FindAllString(whole, -1)
	for i, tag := range tags {
		inner, end := tag[:len(tag)-2], tag[len(tag)-2:]
		tags[i] = strings.TrimSuffix(inner, "-") + end
	}
	return tags
}

var (
	journeyPattern = regexp.MustCompile(`\b(` + canvasName + `|` + contextVariable + `|` + entryPropertiesName + `|` + eventPropertiesName + `)\s*\.\s*\$\{[^}]*\}`)
	defaultPattern = regexp.MustCompile(`\|\s*default\b`)
)

// JourneyOutput returns an output of what only mails of journeys know, as
// canvas.${name}, that has no default and that no tag asks about; empty: there is none.
// A mail of no journey that has no variables would not be made for anybody.
func JourneyOutput(v *mail.TemplateVersion) string {
	outputs, asked := make(map[string]string), make(map[string]bool)
	for _, tag := range tagsOf(v) {
		for _, m := range journeyPattern.FindAllStringSubmatch(tag, -1) {
			if strings.HasPrefix(tag, "{%") {
				asked[m[1]] = true
			} else if !defaultPattern.MatchString(tag) {
				outputs[m[1]] = m[0]
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(outputs)) {
		if !asked[name] {
			return outputs[name]
		}
	}
	return ""
}

// WithContext returns the variables of a mail, an object or empty, with the context, an
// object or empty. A variable of that name stays.
func WithContext(variables, context string) string {
	return withObject(variables, contextVariable, context)
}

// WithWaited is WithContext with what steps of the journey have waited for, by step.
func WithWaited(variables, waited string) string {
	return withObject(variables, waitedVariable, waited)
}

func withObject(variables, name, value string) string {
	for m := jsonscan.Read(variables); m.Next(); {
		if m.Key == name {
			return variables
		}
	}
	if value == "" {
		value = "{}"
	}
	with := `{"` + name + `":` + value
	inner := strings.TrimPrefix(strings.TrimSpace(variables), "{")
	if strings.TrimSpace(inner) == "}" || inner == "" {
		return with + "}"
	}
	return with + "," + inner
}
