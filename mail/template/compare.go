package template

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// holds says whether a condition is true. What is left of an "and" that is
// false, or of an "or" that is true, is not looked at.
func (r *run) holds(c *condition) bool {
	for i := range c.tests {
		r.spend(1)
		is := r.isTrue(&c.tests[i])
		if i == len(c.ands) || is != c.ands[i] {
			return is
		}
	}
	return false
}

func (r *run) isTrue(t *test) bool {
	r.line = t.line
	left, _ := r.operand(&t.left)
	if t.op == "" {
		return truthy(left)
	}
	right, _ := r.operand(&t.right)
	switch t.op {
	case "==":
		return r.equal(left, right)
	case "!=", "<>":
		return !r.equal(left, right)
	case "contains":
		return r.contains(left, right)
	}
	if left == nil || right == nil || isSpecial(left) || isSpecial(right) {
		return false
	}
	order := r.order(left, right)
	switch t.op {
	case "<":
		return order < 0
	case "<=":
		return order <= 0
	case ">":
		return order > 0
	}
	return order >= 0
}

// equal compares two values. 1 and 1.0 are equal, 1 and "1" are not.
func (r *run) equal(a, b value) bool {
	if s, ok := a.(special); ok {
		return is(s, b)
	}
	if s, ok := b.(special); ok {
		return is(s, a)
	}
	if x, ok := plainText(a); ok {
		y, ok := plainText(b)
		r.spendBytes(min(len(x), len(y)))
		return ok && x == y
	}
	switch a := a.(type) {
	case nil:
		return b == nil
	case bool:
		other, ok := b.(bool)
		return ok && a == other
	case int64, float64:
		return isNumber(b) && compareNumbers(a, b) == 0
	case span:
		other, ok := b.(span)
		return ok && a == other
	case moment:
		other, ok := b.(moment)
		return ok && a.Equal(other.Time)
	case list:
		other, ok := b.(list)
		return ok && slices.EqualFunc(a, other, func(x, y value) bool { r.spend(1); return r.equal(x, y) })
	case *object:
		other, ok := b.(*object)
		return ok && (a == other || r.equalObjects(a, other))
	}
	return false
}

func isSpecial(v value) bool { _, ok := v.(special); return ok }

func is(s special, v value) bool {
	if s == empty {
		return isEmpty(v)
	}
	return isBlank(v)
}

func (r *run) equalObjects(a, b *object) bool {
	if len(a.names) != len(b.names) {
		return false
	}
	for i, name := range a.names {
		r.spend(1)
		other, ok := b.get(name)
		if !ok || !r.equal(a.values[i], other) {
			return false
		}
	}
	return true
}

func isNumber(v value) bool {
	switch v.(type) {
	case int64, float64:
		return true
	}
	return false
}

func compareNumbers(a, b value) int {
	x, whole := a.(int64)
	y, too := b.(int64)
	if whole && too {
		return cmp.Compare(x, y)
	}
	return cmp.Compare(float(a), float(b))
}

// order compares what has an order: two numbers, two texts, two times. Others
// are refused, as by the reference: silently false would be mail to the wrong
// people.
func (r *run) order(a, b value) int {
	if isNumber(a) && isNumber(b) {
		return compareNumbers(a, b)
	}
	x, isText := plainText(a)
	y, too := plainText(b)
	if isText && too {
		r.spendBytes(min(len(x), len(y)))
		return strings.Compare(x, y)
	}
	m, isMoment := a.(moment)
	n, too := b.(moment)
	if isMoment && too {
		return time.Time.Compare(m.Time, n.Time)
	}
	r.fail(KindValue, "%s and %s cannot be compared; turn a text into a number with | plus: 0", kindName(a), kindName(b))
	return 0
}

// contains looks for a text in a text, a value in a list, a name in an object. Nothing
// contains nil or false.
func (r *run) contains(in, what value) bool {
	if !truthy(what) {
		return false
	}
	if text, ok := plainText(in); ok {
		r.spendBytes(len(text))
		return strings.Contains(text, r.text(what))
	}
	switch in := in.(type) {
	case list:
		return slices.ContainsFunc(in, func(v value) bool { r.spend(1); return r.equal(v, what) })
	case *object:
		_, ok := in.get(r.text(what))
		return ok
	}
	return false
}
