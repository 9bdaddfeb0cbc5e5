package profile

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"sluice/lib/jsonscan"
	"sluice/mail"
)

// Members of an attributes object that say how it is to be applied.
const (
	mergeObjects = "_merge_objects"
	groupsField  = "subscription_groups"
)

// SetAttributes applies an attributes object that Check has let pass, and
// reports whether anything has changed. Standard names go to Fields, all others
// to Custom. Of a value,
//
//	null                            removes the attribute
//	{"inc": n}                      adds to a number, or to nothing
//	{"add": [...], "remove": [...]} edits a list: what is removed goes first,
//	                                what is added moves to the end
//	{"$remove", "$update", "$add"}  edits a list of objects, in this order
//	a list                          is set, each scalar in it once
//	an object                       is set, or with _merge_objects merged
//	anything else                   is set
//
// An operation that does not fit what is there (adding 1 to "x") changes
// nothing. The caller has its answer already, and the other changes are
// applied.
func (p *Profile) SetAttributes(object string, nowMillis int64) (changed bool) {
	merge := false
	m := jsonscan.Read(object)
	for strings.Contains(object, mergeObjects) && m.Next() {
		if m.Key == mergeObjects {
			merge = m.Value.Raw == "true"
		}
	}
	m = jsonscan.Read(object)
	for m.Next() {
		if m.Key == mergeObjects {
			continue
		}
		if p.setAttribute(m.Key, m.Value, merge, nowMillis) {
			changed = true
		}
	}
	return changed
}

func (p *Profile) setAttribute(name string, v jsonscan.Value, merge bool, nowMillis int64) bool {
	if name == groupsField {
		return p.setGroups(v, nowMillis)
	}
	if _, ok := standard[name]; ok {
		if name == emailSubscribe {
			if nowMillis+mail.SuppressAheadMillis < p.EmailSinceMillis {
				return false // it came late, and something else was said meanwhile
			}
			p.EmailSinceMillis = max(p.EmailSinceMillis, nowMillis)
		}
		return p.Fields.Set(name, v.Raw)
	}
	old := p.Custom.Get(name)
	raw, ok := apply(old, v, merge)
	if old == "" && len(p.Custom) >= MaxCustomAmount {
		return false
	}
	return ok && len(raw) <= MaxValueBytes && p.Custom.Set(name, raw)
}

// apply returns what becomes of an old value; not ok: it stays.
func apply(old string, v jsonscan.Value, merge bool) (raw string, ok bool) {
	switch v.Kind {
	case jsonscan.Array:
		return arrayOf(v.Raw), true
	case jsonscan.Object:
		switch o := operatorOf(v.Raw); o.kind {
		case opInc:
			return add(old, o.inc)
		case opEdit:
			return editArray(old, o)
		case opObjects:
			return editObjects(old, o, merge)
		}
		if merge && kindOf(old) == jsonscan.Object {
			return mergeObject(old, v.Raw), true
		}
	}
	return canonical(v), true
}

// operator is an object that says how to change a value.
type operator struct {
	kind                operatorKind
	inc                 string
	add, update, remove string // arrays, or empty
}

type operatorKind uint8

const (
	noOperator operatorKind = iota
	opInc
	opEdit
	opObjects
)

// operatorOf tells an operator from a nested attribute: it has nothing but the
// members of one.
func operatorOf(object string) (o operator) {
	m := jsonscan.Read(object)
	for m.Next() {
		kind := noOperator
		switch isArray := m.Value.Kind == jsonscan.Array; {
		case m.Key == "inc" && m.Value.Kind == jsonscan.Number:
			kind, o.inc = opInc, m.Value.Raw
		case m.Key == "add" && isArray:
			kind, o.add = opEdit, m.Value.Raw
		case m.Key == "remove" && isArray:
			kind, o.remove = opEdit, m.Value.Raw
		case m.Key == "$add" && isArray:
			kind, o.add = opObjects, m.Value.Raw
		case m.Key == "$update" && isArray:
			kind, o.update = opObjects, m.Value.Raw
		case m.Key == "$remove" && isArray:
			kind, o.remove = opObjects, m.Value.Raw
		}
		if kind == noOperator || o.kind != noOperator && o.kind != kind {
			return operator{}
		}
		o.kind = kind
	}
	return o
}

// add adds two numbers: exactly as long as both are whole and so is their sum
// within 64 bits, else as floating-point numbers.
func add(old, by string) (raw string, ok bool) {
	if old == "" {
		old = "0"
	}
	if kindOf(old) != jsonscan.Number {
		return "", false
	}
	a, errA := strconv.ParseInt(old, 10, 64)
	b, errB := strconv.ParseInt(by, 10, 64)
	if sum := a + b; errA == nil && errB == nil && (sum > a) == (b > 0) {
		return strconv.FormatInt(sum, 10), true
	}
	x, errX := strconv.ParseFloat(old, 64)
	y, errY := strconv.ParseFloat(by, 64)
	if sum := x + y; errX == nil && errY == nil && !math.IsInf(sum, 0) {
		return number(sum), true
	}
	return "", false
}

// number returns a number as JSON (and JavaScript) writes it. It writes none
// beyond 64 bits without an exponent, since nothing reads such numbers.
func number(f float64) string {
	format := byte('f')
	if abs := math.Abs(f); abs != 0 && (abs < 1e-6 || abs >= 1<<63) {
		format = 'e'
	}
	return strconv.FormatFloat(f, format, -1, 64)
}

// arrayOf is a list with each scalar once, at the place of its last
// occurrence, and no more than MaxArrayItems: the last ones.
func arrayOf(array string) string {
	if allOnce(array) {
		return array
	}
	var kept []jsonscan.Value
	for _, v := range elements(array) {
		kept = moved(kept, v)
	}
	return string(appendArray(nil, kept))
}

// moved is a list with a value at its end, and no more than MaxArrayItems: the
// last ones. What is beyond them goes at once, so that a long list costs no more
// than its length, each time.
func moved(list []jsonscan.Value, v jsonscan.Value) []jsonscan.Value {
	list = append(without(list, v), v)
	return list[max(0, len(list)-MaxArrayItems):]
}

// allOnce reports whether a list is surely as arrayOf would have it: a few
// scalars, each once, in their canonical form.
func allOnce(array string) bool {
	var seen [fewMembers]string
	n, size := 0, len("[]")
	e := jsonscan.ReadArray(array)
	for ; e.Next(); n++ {
		v := e.Value
		if n == len(seen) || v.Escaped || v.Kind == jsonscan.Object || v.Kind == jsonscan.Array || slices.Contains(seen[:n], v.Raw) {
			return false
		}
		seen[n] = v.Raw
		size += len(v.Raw)
	}
	return e.Err() == nil && size+max(n-1, 0) == len(array) // no white space
}

// without leaves out a scalar; objects and lists are not compared.
func without(list []jsonscan.Value, v jsonscan.Value) []jsonscan.Value {
	if v.Kind == jsonscan.Object || v.Kind == jsonscan.Array {
		return list
	}
	return slices.DeleteFunc(list, func(x jsonscan.Value) bool { return x.Raw == v.Raw })
}

func joined(list []jsonscan.Value) string {
	list = list[max(0, len(list)-MaxArrayItems):]
	return string(appendArray(nil, list))
}

// editArray removes from a list and adds to it.
func editArray(old string, o operator) (raw string, ok bool) {
	list, ok := oldArray(old)
	if !ok {
		return "", false
	}
	for _, v := range elements(o.remove) {
		list = without(list, v)
	}
	for _, v := range elements(o.add) {
		list = moved(list, v)
	}
	return joined(list), true
}

// oldArray is the list that is there; nothing is an empty one.
func oldArray(old string) (list []jsonscan.Value, ok bool) {
	switch kindOf(old) {
	case jsonscan.None:
		return nil, true
	case jsonscan.Array:
		return elements(old), true
	}
	return nil, false
}

// kindOf tells the kind of a canonical value by its first byte.
func kindOf(raw string) jsonscan.Kind {
	if raw == "" {
		return jsonscan.None
	}
	switch raw[0] {
	case '{':
		return jsonscan.Object
	case '[':
		return jsonscan.Array
	case '"':
		return jsonscan.String
	case 't', 'f':
		return jsonscan.Bool
	case 'n':
		return jsonscan.Null
	}
	return jsonscan.Number
}
