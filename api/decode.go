package api

import (
	"slices"
	"strconv"
	"strings"

	"sluice"
	"sluice/lib/jsonscan"
)

// field is a member that an object may have, and where its value goes: to a *string, a
// *bool, a number or a *jsonscan.Value; nil: only into what decode returns.
type field struct {
	name string
	to   any
}

// number is where a whole number from 1 to most goes.
type number struct {
	to   *int
	most int
}

// fieldsOf are fields that decode only returns.
func fieldsOf(names ...string) (all []field) {
	for _, name := range names {
		all = append(all, field{name: name})
	}
	return all
}

// decode reads an object with known members, each of them once at most, and returns
// those that are there. It is the one decoder of objects whose members are all known; a
// refusal names the member.
func decode(text string, known ...field) (map[string]jsonscan.Value, error) {
	names := func() string {
		var all []string
		for _, f := range known {
			all = append(all, f.name)
		}
		return strings.Join(all, ", ")
	}
	v, err := jsonscan.Scan(text)
	if err != nil || v.Kind != jsonscan.Object {
		return nil, refusal(sluice.CodeInvalid, "the body is no JSON object; it may have %s", names())
	}
	given := make(map[string]jsonscan.Value)
	m := jsonscan.Read(v.Raw)
	for m.Next() {
		_, twice := given[m.Key]
		if twice || !slices.ContainsFunc(known, func(f field) bool { return f.name == m.Key }) {
			return nil, refusal(sluice.CodeInvalid, "%.64q is not known, or there twice; it may have %s", m.Key, names())
		}
		given[m.Key] = m.Value
	}
	return given, take(given, known...)
}

// take puts members where they go, if they are there.
func take(given map[string]jsonscan.Value, known ...field) error {
	for _, f := range known {
		v, ok := given[f.name]
		if !ok {
			continue
		}
		want := ""
		switch to := f.to.(type) {
		case *string:
			if want = "a text"; v.Kind == jsonscan.String {
				*to, want = strings.Clone(v.Text()), ""
			}
		case *bool:
			if want = "true or false"; v.Kind == jsonscan.Bool {
				*to, want = v.Raw == "true", ""
			}
		case number:
			n, err := strconv.Atoi(v.Raw)
			if v.Kind != jsonscan.Number || err != nil || n < 1 || n > to.most {
				return refusal(sluice.CodeInvalid, "%s: want a number from 1 to %d", f.name, to.most)
			}
			*to.to = n
		case *jsonscan.Value:
			*to = v
		}
		if want != "" {
			return refusal(sluice.CodeInvalid, "%s: want %s, got %s", f.name, want, v.Kind)
		}
	}
	return nil
}
