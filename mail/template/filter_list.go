package template

import (
	"slices"
	"strings"
	"unicode/utf8"
)

var listFilters = map[string]filter{
	"size": {0, 0, func(r *run, in value, _ []value) value {
		n, _ := r.size(in)
		if n == nil {
			return int64(0)
		}
		return n
	}},
	"first": {0, 0, func(r *run, in value, _ []value) value { v, _ := r.end(in, false); return v }},
	"last":  {0, 0, func(r *run, in value, _ []value) value { v, _ := r.end(in, true); return v }},
	"join": {0, 1, func(r *run, in value, args []value) value {
		by := r.textAt(args, 0, " ")
		var dst []byte
		for i, v := range r.elements(in) {
			if i > 0 {
				dst = r.appendText(dst, by)
			}
			dst = r.appendText(dst, v)
		}
		return string(dst)
	}},
	"concat": {1, 1, func(r *run, in value, args []value) value {
		more, ok := args[0].(list)
		if !ok {
			r.fail(KindValue, "concat: want a list, got %s", kindName(args[0]))
		}
		return slices.Concat(r.elements(in), r.elements(more))
	}},
	"compact": {0, 1, func(r *run, in value, args []value) value {
		return r.only(in, func(v value) bool { return r.keyOf(v, args) != nil })
	}},
	"reverse": {0, 0, func(r *run, in value, _ []value) value {
		all := slices.Clone(r.elements(in))
		slices.Reverse(all)
		return all
	}},
	"map": {1, 1, func(r *run, in value, args []value) value {
		all := list{}
		for _, v := range r.elements(in) {
			found, _ := r.property(v, args[0])
			all = append(all, found)
		}
		return all
	}},
	"sum": {0, 1, func(r *run, in value, args []value) value {
		var sum value = int64(0)
		for _, v := range r.elements(in) {
			sum = numberFilters["plus"].apply(r, sum, []value{r.keyOf(v, args)})
		}
		return sum
	}},
	"uniq": {0, 1, func(r *run, in value, args []value) value {
		seen := make(map[string]bool)
		return r.only(in, func(v value) bool {
			text := string(r.appendJSON(nil, r.keyOf(v, args)))
			before := seen[text]
			seen[text] = true
			return !before
		})
	}},
	"sort": {0, 1, func(r *run, in value, args []value) value {
		return r.sorted(in, args, r.order)
	}},
	"sort_natural": {0, 1, func(r *run, in value, args []value) value {
		return r.sorted(in, args, func(a, b value) int {
			return strings.Compare(strings.ToLower(r.text(a)), strings.ToLower(r.text(b)))
		})
	}},
}

// elements are what a filter of lists goes through, a step each: lists in the list
// are gone through as well, and a value that is no list is a list of itself.
func (r *run) elements(v value) list {
	switch v := v.(type) {
	case nil:
		return nil
	case list:
		r.spend(len(v))
		if !slices.ContainsFunc(v, isList) {
			return v
		}
		return r.flat(make(list, 0, len(v)), v)
	case span:
		at, n := r.turns(v)
		r.spend(n)
		all := make(list, n)
		for i := range all {
			all[i] = at(i)
		}
		return all
	}
	return list{v}
}

// flat appends the elements of a list and of the lists in it, which are as deep as JSON
// may be.
func (r *run) flat(dst, l list) list {
	for _, e := range l {
		if inner, ok := e.(list); ok {
			r.spend(len(inner))
			dst = r.flat(dst, inner)
		} else {
			dst = append(dst, e)
		}
	}
	return dst
}

func isList(v value) bool { _, ok := v.(list); return ok }

func (r *run) only(in value, keep func(value) bool) list {
	all := list{}
	for _, v := range r.elements(in) {
		if keep(v) {
			all = append(all, v)
		}
	}
	return all
}

// sorted orders a list by its elements or by what they have under a name;
// nothing comes last.
func (r *run) sorted(in value, args []value, compare func(a, b value) int) list {
	type keyed struct{ key, v value }
	elements := r.elements(in)
	all := make([]keyed, len(elements))
	for i, v := range elements {
		all[i] = keyed{v, v}
		if at(args, 0) != nil {
			all[i].key, _ = r.member(v, args[0])
		}
	}
	slices.SortStableFunc(all, func(a, b keyed) int {
		r.spend(1)
		switch {
		case a.key == nil && b.key == nil:
			return 0
		case a.key == nil:
			return 1
		case b.key == nil:
			return -1
		}
		return compare(a.key, b.key)
	})
	sorted := make(list, len(all))
	for i := range all {
		sorted[i] = all[i].v
	}
	return sorted
}

// size is how many characters, elements or members a value has.
func (r *run) size(v value) (value, bool) {
	if text, ok := plainText(v); ok {
		r.spendBytes(len(text))
		return int64(utf8.RuneCountInString(text)), true
	}
	switch v := v.(type) {
	case list:
		return int64(len(v)), true
	case span:
		return v.length(), true
	case *object:
		return int64(len(v.names)), true
	}
	return nil, false
}

// end is the first or the last element.
func (r *run) end(v value, last bool) (value, bool) {
	switch v := v.(type) {
	case list:
		if len(v) == 0 {
			return nil, false
		}
		if last {
			return v[len(v)-1], true
		}
		return v[0], true
	case span:
		if last {
			return v.to, v.length() > 0
		}
		return v.from, v.length() > 0
	case *object: // it has a first member, but no last one: as in the reference
		if len(v.names) > 0 && !last {
			return list{v.names[0], v.values[0]}, true
		}
	}
	return nil, false
}
