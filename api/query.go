package api

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"sluice"
)

// query is the query of a URL, as far as it is known.
type query struct{ url.Values }

// readQuery reads the query of a URL: known names, each at most once. Each has
// a value, except those in mayBeEmpty.
func readQuery(r *http.Request, known []string, mayBeEmpty ...string) (query, error) {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return query{}, refusal(sluice.CodeInvalid, "the query cannot be read: percent signs and semicolons have to be encoded")
	}
	for name, all := range values {
		if !slices.Contains(known, name) {
			want := strings.Join(known, ", ")
			if want == "" {
				want = "none"
			}
			return query{}, refusal(sluice.CodeInvalid, "%.64q is not known; want %s", name, want)
		}
		if len(all) > 1 {
			return query{}, refusal(sluice.CodeInvalid, "%s is given %d times", name, len(all))
		}
		if all[0] == "" && !slices.Contains(mayBeEmpty, name) {
			return query{}, refusal(sluice.CodeInvalid, "%s is empty; leave it out", name)
		}
	}
	return query{values}, nil
}

// number reads a whole number from 1 to most; preset: it is not given.
func (q query) number(name string, preset, most int) (int, error) {
	text := q.Get(name)
	if text == "" {
		return preset, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 || n > most || text[0] == '+' {
		return 0, refusal(sluice.CodeInvalid, "%s is %.32q, want 1 to %d", name, text, most)
	}
	return n, nil
}

// archived reads whether what is archived is wanted, too.
func (q query) archived() (bool, error) {
	switch text := q.Get("archived"); text {
	case "", "false":
		return false, nil
	case "true":
		return true, nil
	default:
		return false, refusal(sluice.CodeInvalid, "archived is %.32q, want true or false", text)
	}
}

// errAfter refuses a place in a list that no answer has named, errBefore that of a list of
// which the newest come first.
func errAfter(after string) error   { return errPlace("after", after) }
func errBefore(before string) error { return errPlace("before", before) }

func errPlace(parameter, place string) error {
	return refusal(sluice.CodeInvalid, "%s is %.64q, want what an answer had as next", parameter, place)
}
