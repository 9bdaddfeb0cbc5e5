package braze

import (
	"net/url"
	"slices"
	"strconv"
	"strings"

	"sluice/lib/timetext"
)

// queryList returns the values of a parameter that may be several: a=x, a[]=x,
// and a[0]=x, which different clients write.
func queryList(q url.Values, name string) []string {
	all := append(slices.Clone(q[name]), q[name+"[]"]...)
	var numbered []int
	for k := range q {
		if inner, ok := strings.CutPrefix(k, name+"["); ok {
			if n, err := strconv.Atoi(strings.TrimSuffix(inner, "]")); err == nil && n >= 0 && k == name+"["+strconv.Itoa(n)+"]" {
				numbered = append(numbered, n)
			}
		}
	}
	slices.Sort(numbered)
	for _, n := range numbered {
		all = append(all, q[name+"["+strconv.Itoa(n)+"]"]...)
	}
	return slices.DeleteFunc(all, func(s string) bool { return s == "" })
}

// queryInt reads a number within bounds; not ok: it is none.
func queryInt(q url.Values, name string, preset, least, most int) (n int, ok bool) {
	text := q.Get(name)
	if text == "" {
		return preset, true
	}
	n, err := strconv.Atoi(text)
	return n, err == nil && n >= least && n <= most
}

// queryTime reads a time; not ok: it is none.
func queryTime(q url.Values, name string, preset int64) (millis int64, ok bool) {
	text := q.Get(name)
	if text == "" {
		return preset, true
	}
	// A plus that was not encoded has become a blank: so does every zone.
	ms, err := timetext.Parse(text, true)
	if err != nil {
		if i := strings.LastIndexByte(text, ' '); i > 10 {
			ms, err = timetext.Parse(text[:i]+"+"+text[i+1:], true)
		}
	}
	return ms, err == nil
}
