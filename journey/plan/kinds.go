package plan

import (
	"reflect"
	"strings"

	"sluice/user/rule"
)

// setOf is a set of one rule.
type setOf = rule.Set

const maxPathNames = rule.MaxPathNames

// membersOf are the names of the members that are there.
func membersOf(v any) (names []string) {
	x := reflect.ValueOf(v).Elem()
	for i := range x.NumField() {
		if !x.Field(i).IsZero() {
			names = append(names, memberName(x.Type().Field(i)))
		}
	}
	return names
}

// memberNamesOf are the names of all members of what v points to.
func memberNamesOf(v any) []string { return memberNames(reflect.TypeOf(v).Elem()) }

// hasTag reports whether a member's field has a tag.
func hasTag(v any, member, tag string) bool {
	t := reflect.TypeOf(v).Elem()
	for i := range t.NumField() {
		if memberName(t.Field(i)) == member {
			return t.Field(i).Tag.Get(tag) != ""
		}
	}
	return false
}

// kindsOf are the members of a type of which one says what it is.
func kindsOf(t reflect.Type) (names []string) {
	for i := range t.NumField() {
		if t.Field(i).Tag.Get("kind") != "" {
			names = append(names, memberName(t.Field(i)))
		}
	}
	return names
}

// oneKind returns the member that says what something is; none, or several, is a
// problem.
func (c *compiler) oneKind(place string, v any) string {
	var found []string
	for _, name := range membersOf(v) {
		if hasTag(v, name, "kind") {
			found = append(found, name)
		}
	}
	all := joined(kindsOf(reflect.TypeOf(v).Elem()))
	switch len(found) {
	case 0:
		c.lacksKind(place, all)
		return ""
	case 1:
		return found[0]
	}
	c.wrong(place, "want one of %s, got %s", all, strings.Join(found, " and "))
	return ""
}

// lacksKind reports that nothing says what something is, unless a member of it is
// wrong already: perhaps it is that one.
func (c *compiler) lacksKind(place, all string) {
	if c.full() || c.isBad(place) {
		return
	}
	for bad := range c.bad {
		if strings.HasPrefix(bad, place+".") {
			return
		}
	}
	c.wrong(place, "want one of %s, there is none", all)
}

func joined(names []string) string { return strings.Join(names, ", ") }
