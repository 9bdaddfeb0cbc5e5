package profile

import (
	"slices"

	"sluice/lib/jsonscan"
)

// mergeObject merges an object into a canonical one: objects in both are
// merged in turn, all else is set. There is no null inside: see nestedFits.
func mergeObject(old, object string) string {
	all := members(old)
	at := make(map[string]int, len(all))
	for i, v := range all {
		at[v.Name] = i
	}
	for _, v := range members(object) { // each name once
		i, ok := at[v.Name]
		switch {
		case !ok:
			all = append(all, v)
		case kindOf(v.Raw) == jsonscan.Object && kindOf(all[i].Raw) == jsonscan.Object:
			all[i].Raw = mergeObject(all[i].Raw, v.Raw)
		default:
			all[i].Raw = v.Raw
		}
	}
	return string(appendValues(nil, all))
}

// Members of the elements of $update and $remove.
const (
	identifierKey   = "$identifier_key"
	identifierValue = "$identifier_value"
	newObject       = "$new_object"
)

// editObjects edits a list of objects. Those to change are told by the value
// of one of their members.
func editObjects(old string, o operator, merge bool) (raw string, ok bool) {
	list, ok := oldArray(old)
	if !ok {
		return "", false
	}
	for _, v := range elements(o.remove) {
		key, value := identifier(v)
		list = slices.DeleteFunc(list, func(x jsonscan.Value) bool { return has(x, key, value) })
	}
	for _, v := range elements(o.update) {
		key, value := identifier(v)
		object := memberOf(v, newObject)
		if kindOf(object) != jsonscan.Object {
			continue
		}
		for i := range list {
			switch {
			case !has(list[i], key, value):
			case merge:
				list[i].Raw = mergeObject(list[i].Raw, object)
			default:
				list[i].Raw = object
			}
		}
	}
	for _, v := range elements(o.add) {
		if v.Kind == jsonscan.Object {
			list = append(list, v)
		}
	}
	return joined(list), true
}

func identifier(v jsonscan.Value) (key, value string) {
	raw := memberOf(v, identifierKey)
	if kindOf(raw) != jsonscan.String {
		return "", ""
	}
	name, err := jsonscan.Scan(raw)
	if err != nil {
		return "", ""
	}
	return name.Text(), memberOf(v, identifierValue)
}

// has reports whether an object has a member of this value.
func has(v jsonscan.Value, key, value string) bool {
	return value != "" && memberOf(v, key) == value
}

// memberOf is a member's canonical text, or "" if there is none.
func memberOf(v jsonscan.Value, key string) (raw string) {
	if v.Kind != jsonscan.Object {
		return ""
	}
	m := jsonscan.Read(v.Raw)
	for m.Next() {
		if m.Key == key {
			raw = canonical(m.Value)
		}
	}
	return raw
}
