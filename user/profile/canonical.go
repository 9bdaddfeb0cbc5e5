package profile

import (
	"unicode/utf8"

	"sluice/lib/jsonscan"
)

// appendCanonical appends a value in the one form in which it is kept. The form
// has no white space, and strings have the fewest escapes. Of a key that occurs
// twice it has the last value at the place of the first. Numbers keep their
// digits. The value has been scanned, so it nests at most
// sluice.MaxNestingLevels deep.
func appendCanonical(dst []byte, v jsonscan.Value) []byte {
	switch v.Kind {
	case jsonscan.String:
		if v.Escaped {
			return jsonscan.AppendQuoted(dst, v.Text())
		}
	case jsonscan.Object:
		return appendValues(dst, members(v.Raw))
	case jsonscan.Array:
		dst = append(dst, '[')
		e := jsonscan.ReadArray(v.Raw)
		for i := 0; e.Next(); i++ {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendCanonical(dst, e.Value)
		}
		return append(dst, ']')
	}
	return append(dst, v.Raw...)
}

func canonical(v jsonscan.Value) string {
	if v.Kind != jsonscan.Object && v.Kind != jsonscan.Array && !v.Escaped {
		return v.Raw
	}
	return string(appendCanonical(make([]byte, 0, len(v.Raw)), v))
}

// fewMembers is up to where members are searched one by one.
const fewMembers = 16

// members reads the members of a scanned object, their values canonical, in
// the order in which their names occur first.
func members(object string) []Value {
	all := make([]Value, 0, fewMembers)
	var index map[string]int
	m := jsonscan.Read(object)
	for m.Next() {
		v := Value{Name: m.Key, Raw: canonical(m.Value)}
		at := -1
		if index == nil {
			for i := range all {
				if all[i].Name == v.Name {
					at = i
				}
			}
		} else if i, ok := index[v.Name]; ok {
			at = i
		}
		if at >= 0 {
			all[at] = v
			continue
		}
		all = append(all, v)
		switch {
		case index != nil:
			index[v.Name] = len(all) - 1
		case len(all) == fewMembers:
			index = make(map[string]int, 2*fewMembers)
			for i := range all {
				index[all[i].Name] = i
			}
		}
	}
	return all
}

// elements reads the elements of a scanned array, canonical.
func elements(array string) []jsonscan.Value {
	var all []jsonscan.Value
	e := jsonscan.ReadArray(array)
	for e.Next() {
		v := e.Value
		v.Raw = canonical(v)
		all = append(all, v)
	}
	return all
}

func appendValues(dst []byte, values []Value) []byte {
	dst = append(dst, '{')
	for i, v := range values {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(jsonscan.AppendQuoted(dst, v.Name), ':')
		dst = append(dst, v.Raw...)
	}
	return append(dst, '}')
}

// appendArray appends an array of canonical values.
func appendArray(dst []byte, values []jsonscan.Value) []byte {
	dst = append(dst, '[')
	for i, v := range values {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, v.Raw...)
	}
	return append(dst, ']')
}

// Quoted is a text as a profile has it: a JSON string.
func Quoted(s string) string { return string(jsonscan.AppendQuoted(make([]byte, 0, len(s)+2), s)) }

// runes is how many characters a string value has.
func runes(v jsonscan.Value) int { return utf8.RuneCountInString(v.Text()) }
