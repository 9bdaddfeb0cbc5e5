package profile

import (
	"fmt"
	"strings"
	"unsafe"

	"sluice"
	"sluice/lib/jsonscan"
)

// Bounds of a profile. What is beyond them is left out, not refused: a profile
// that is full must not stop what else its user does.
const (
	MaxNameRunes    = 255      // of an attribute, an event, a product, and of names and texts inside nested attributes
	MaxValueBytes   = 50 << 10 // of one attribute
	MaxArrayItems   = 100      // of a list; the last ones stay
	MaxTallies      = 1000     // names of events, and of products
	MaxGroups       = 200      // subscription groups
	MaxAliases      = 100      // and those of users who were merged into one
	MaxFormer       = 10_000   // names of users who were merged into one: a user that would have more is not merged
	MaxCustomAmount = 1000     // custom attributes
	maxPushTokens   = 20
	maxInOne        = 1000 // attributes in one object
	maxValueLevels  = sluice.MaxNestingLevels - 2
	updateOnly      = "_update_existing_only"
	pushTokenImport = "push_token_import"
	fieldExternalID = "external_id"
	fieldUserAlias  = "user_alias"
	fieldInternalID = "braze_id"
	fieldEmail      = "email"
	fieldPhone      = "phone"
)

// notAttributes are the members of an attributes object that are none.
var notAttributes = map[string]bool{
	fieldExternalID: true, fieldUserAlias: true, fieldInternalID: true,
	updateOnly: true, pushTokenImport: true,
}

// FieldError says that a standard attribute has a value that it cannot have.
// Its text is what a client of the API gets.
type FieldError struct {
	Field string
	Want  string
}

// Error returns the text. That for an e-mail address is what clients of
// Braze's API look for.
func (e *FieldError) Error() string {
	if e.Field == fieldEmail {
		return "The value provided for the 'email' field is not a valid email."
	}
	return "The value provided for the '" + e.Field + "' field is not valid: want " + e.Want + "."
}

// Check reads an attributes object as a client has sent it, and returns it as
// SetAttributes takes it. Standard attributes are brought into their one form.
// What is no attribute, and what no profile can hold, is left out. The object
// has been scanned. The error is a *FieldError: one attribute refuses all.
//
// A nested attribute that does not fit is left out as a whole, as Braze does.
func Check(object string) (string, error) {
	text, dropped, err := CheckEach(object)
	if err == nil && len(dropped) > 0 {
		err = dropped[0]
	}
	if err != nil {
		return "", err
	}
	return text, nil
}

// CheckEach is Check that leaves out each attribute with a value that it cannot
// have, and returns what is wrong with it. The error is about the object as a whole.
func CheckEach(object string) (text string, dropped []*FieldError, err error) {
	all := members(object)
	if len(all) > maxInOne {
		return "", nil, &FieldError{"attributes", "at most 1000 of them in one object"}
	}
	kept := all[:0]
	for _, v := range all {
		if notAttributes[v.Name] {
			continue
		}
		fits, wrong := v.check()
		switch {
		case wrong != nil:
			dropped = append(dropped, wrong)
		case fits:
			kept = append(kept, v)
		}
	}
	b := appendValues(make([]byte, 0, len(object)), kept)
	return unsafe.String(unsafe.SliceData(b), len(b)), dropped, nil
}

// check brings an attribute into its one form. It does not fit if no profile can
// hold it; wrong says of a standard one what it wants.
func (v *Value) check() (fits bool, wrong *FieldError) {
	if !LevelsFit(v.Raw) {
		return false, &FieldError{v.Name, fmt.Sprintf("at most %d levels", maxValueLevels)}
	}
	value := scanned(v.Raw)
	field, ok := standard[v.Name]
	switch {
	case v.Name == mergeObjects, ok && value.Kind == jsonscan.Null:
		return true, nil
	case !ok:
		return customFits(v.Name, value), nil
	}
	raw, ok := field.normal(value)
	if !ok {
		return false, &FieldError{v.Name, field.want}
	}
	if len(raw) > MaxValueBytes && v.Name != groupsField { // as long as MaxGroups of them may be
		return false, &FieldError{v.Name, fmt.Sprintf("at most %d KB", MaxValueBytes>>10)}
	}
	v.Raw = raw
	return true, nil
}

// scanned is a canonical value, whose text was scanned before.
func scanned(raw string) jsonscan.Value {
	return jsonscan.Value{Raw: raw, Kind: kindOf(raw), Escaped: raw[0] == '"' && strings.Contains(raw, `\`)}
}

// LevelsFit reports whether a value can stand two levels down, in "custom" of a
// profile. That is one level deeper than in the object that it came in. A
// profile that nests too deep could never be read again, nor its user be
// erased.
func LevelsFit(raw string) bool {
	if len(raw) <= 2*maxValueLevels { // a level takes two brackets
		return true
	}
	_, err := jsonscan.Scan("[[" + raw + "]]")
	return err == nil
}

// NameFits reports whether a text can be the name of a custom attribute, an
// event or a product.
func NameFits(name string) bool {
	return name != "" && len(name) <= 4*MaxNameRunes && runes(jsonscan.Value{Kind: jsonscan.None, Raw: name}) <= MaxNameRunes
}

func customFits(name string, v jsonscan.Value) bool {
	if !NameFits(name) || strings.HasPrefix(name, "$") || len(v.Raw) > MaxValueBytes {
		return false
	}
	if v.Kind != jsonscan.Object && v.Kind != jsonscan.Array {
		return true
	}
	return operatorOf(v.Raw).kind == opInc || nestedFits(v)
}

// nestedFits reports whether what is inside a value is no null, no name and no
// text that is too long.
func nestedFits(v jsonscan.Value) bool {
	switch v.Kind {
	case jsonscan.Null:
		return false
	case jsonscan.String:
		return runes(v) <= MaxNameRunes
	case jsonscan.Object:
		m := jsonscan.Read(v.Raw)
		for m.Next() {
			if !NameFits(m.Key) || !nestedFits(m.Value) {
				return false
			}
		}
	case jsonscan.Array:
		e := jsonscan.ReadArray(v.Raw)
		for e.Next() {
			if !nestedFits(e.Value) {
				return false
			}
		}
	}
	return true
}
