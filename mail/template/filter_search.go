package template

import "strings"

// searchFilters look for elements that have something: | where: "plan", "gold".
// Without the second argument, or if it is nil, what they have must not be nil or
// false.
var searchFilters = map[string]filter{
	"where":      sifted(true),
	"reject":     sifted(false),
	"find":       searched(nil, func(_ int, v value) value { return v }),
	"find_index": searched(nil, func(i int, _ value) value { return int64(i) }),
	"has":        searched(false, func(int, value) value { return true }),
}

// sifted is a filter that keeps the elements that fit, or those that do not.
func sifted(fitting bool) filter {
	return filter{1, 2, func(r *run, in value, args []value) value {
		all := list{}
		known := r.search(in, args, func(_ int, v value, fits bool) bool {
			if fits == fitting {
				all = append(all, v)
			}
			return true
		})
		if !known {
			return nil
		}
		return all
	}}
}

// searched is a filter that says something of the first element that fits.
func searched(otherwise value, of func(i int, v value) value) filter {
	return filter{1, 2, func(r *run, in value, args []value) value {
		result := otherwise
		known := r.search(in, args, func(i int, v value, fits bool) bool {
			if fits {
				result = of(i, v)
			}
			return !fits
		})
		if !known {
			return nil
		}
		return result
	}}
}

// search goes through a list until visit wants no more. It ends and returns false at
// an element that can have nothing, such as nil: as in the reference, there is no
// result then.
func (r *run) search(in value, args []value, visit func(i int, v value, fits bool) bool) bool {
	for i, v := range r.elements(in) {
		found, known := r.property(v, args[0])
		if !known {
			return false
		}
		fits := truthy(found)
		if wanted := at(args, 1); wanted != nil {
			fits = r.equal(found, wanted)
		}
		if !visit(i, v, fits) {
			break
		}
	}
	return true
}

// property is what an element of a list has: a member; of a text, a text in it; of a
// whole number, itself. known is false of what can have nothing.
func (r *run) property(v, key value) (found value, known bool) {
	name, named := plainText(key)
	if text, ok := plainText(v); ok {
		r.spendBytes(len(text))
		if named && strings.Contains(text, name) {
			return name, true
		}
		return nil, named
	}
	switch v := v.(type) {
	case *object:
		if named {
			found, _ = v.get(name)
		}
		return found, true
	case user, *loop:
		found, _ = r.member(v, key)
		return found, true
	case int64:
		if named {
			r.fail(KindValue, "a number has no %.40q; want a list of objects", name)
		}
		if r.equal(v, key) {
			found = v
		}
		return found, true
	}
	return nil, false
}

// keyOf is what a filter looks at: the element, or what it has under the name that is
// the first argument.
func (r *run) keyOf(v value, args []value) value {
	if at(args, 0) == nil {
		return v
	}
	found, _ := r.property(v, args[0])
	return found
}
