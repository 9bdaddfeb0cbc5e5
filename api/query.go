package api

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"sluice"
)

// readQuery reads the query of a URL: known names, each at most once. Each has
// a value, except those in mayBeEmpty.
func readQuery(r *http.Request, known []string, mayBeEmpty ...string) (url.Values, error) {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, refusal(sluice.CodeInvalid, "the query cannot be read: percent signs and semicolons have to be encoded")
	}
	for name, all := range values {
		if !slices.Contains(known, name) {
			want := strings.Join(known, ", ")
			if want == "" {
				want = "none"
			}
			return nil, refusal(sluice.CodeInvalid, "%.64q is not known; want %s", name, want)
		}
		if len(all) > 1 {
			return nil, refusal(sluice.CodeInvalid, "%s is given %d times", name, len(all))
		}
		if all[0] == "" && !slices.Contains(mayBeEmpty, name) {
			return nil, refusal(sluice.CodeInvalid, "%s is empty; leave it out", name)
		}
	}
	return values, nil
}
