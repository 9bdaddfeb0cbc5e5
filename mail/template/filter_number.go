package template

import (
	"math"
	"math/big"
	"strconv"
	"strings"
)

var numberFilters = map[string]filter{
	"plus": arithmetic("plus", func(a, b float64) float64 { return a + b }, func(a, b int64) (int64, bool) {
		return a + b, (a+b > a) == (b > 0)
	}),
	"minus": arithmetic("minus", func(a, b float64) float64 { return a - b }, func(a, b int64) (int64, bool) {
		return a - b, (a-b < a) == (b > 0)
	}),
	"times": arithmetic("times", func(a, b float64) float64 { return a * b }, func(a, b int64) (int64, bool) {
		c := a * b
		return c, a == 0 || c/a == b && !(a == -1 && b == math.MinInt64)
	}),
	"divided_by": arithmetic("divided_by", quotient, func(a, b int64) (int64, bool) {
		if b == -1 {
			return -a, a != math.MinInt64
		}
		q := a / b
		if a%b != 0 && (a < 0) != (b < 0) {
			q-- // rounds down
		}
		return q, true
	}),
	"modulo": arithmetic("modulo", func(a, b float64) float64 { return a - b*math.Floor(a/b) }, func(a, b int64) (int64, bool) {
		if b == -1 {
			return 0, true
		}
		m := a % b
		if m != 0 && (m < 0) != (b < 0) {
			m += b // has the sign of the divisor
		}
		return m, true
	}),
	"abs": {0, 0, func(_ *run, in value, _ []value) value {
		if n, ok := number(in).(int64); ok && n != math.MinInt64 {
			return max(n, -n)
		}
		return math.Abs(float(in))
	}},
	"ceil":  {0, 0, func(_ *run, in value, _ []value) value { return wholeOf(in, math.Ceil) }},
	"floor": {0, 0, func(_ *run, in value, _ []value) value { return wholeOf(in, math.Floor) }},
	"round": {0, 1, func(r *run, in value, args []value) value {
		places := min(max(integer(at(args, 0)), -decimals), decimals)
		if places < 0 {
			scale := math.Pow10(int(-places))
			return whole(math.Round(float(in)/scale) * scale)
		}
		if places == 0 {
			return wholeOf(in, math.Round)
		}
		if n, ok := number(in).(int64); ok {
			return n
		}
		scale := math.Pow10(int(places))
		return rounded(math.Round(float(rounded(float(in)*scale))) / scale)
	}},
	"at_least": {1, 1, func(_ *run, in value, args []value) value { return pick(in, args[0], 1) }},
	"at_most":  {1, 1, func(_ *run, in value, args []value) value { return pick(in, args[0], -1) }},
	"fixed": {1, 1, func(_ *run, in value, args []value) value {
		return fixed(in, integer(args[0]))
	}},
	"number_with_delimiter": {0, 2, func(r *run, in value, args []value) value {
		if f, ok := number(in).(float64); ok {
			return r.grouped(strconv.FormatFloat(f, 'f', -1, 64), args)
		}
		return r.grouped(r.text(number(in)), args)
	}},
	"money": {0, 2, func(r *run, in value, args []value) value { return r.grouped(fixed(in, 2), args) }},
}

// arithmetic computes with whole numbers as long as both are and the result is
// one of 64 bits, else in decimals.
func arithmetic(name string, f func(a, b float64) float64, whole func(a, b int64) (int64, bool)) filter {
	divides := name == "divided_by" || name == "modulo"
	return filter{1, 1, func(r *run, in value, args []value) value {
		a, b := number(in), number(args[0])
		if divides && float(b) == 0 {
			r.fail(KindValue, "%s: the divisor is 0", name)
		}
		x, isWhole := a.(int64)
		y, too := b.(int64)
		if isWhole && too {
			if n, ok := whole(x, y); ok {
				return n
			}
		}
		if name == "divided_by" {
			r.spend(quotientSteps)
			return f(float(a), float(b))
		}
		return rounded(f(float(a), float(b)))
	}}
}

// quotientSteps is what a quotient of decimals costs: up to some 20 µs, of numbers with
// an exponent of 300.
const quotientSteps = 20

// quotient divides the decimals that two numbers are written as. The reference does so:
// 0.3 by 0.1 is 3 and not 2.9999999999999996.
func quotient(a, b float64) float64 {
	x, fits := new(big.Rat).SetString(strconv.FormatFloat(a, 'g', -1, 64))
	y, too := new(big.Rat).SetString(strconv.FormatFloat(b, 'g', -1, 64))
	if !fits || !too {
		return a / b
	}
	q, _ := x.Quo(x, y).Float64()
	return q
}

func wholeOf(v value, f func(float64) float64) value {
	n := number(v)
	if decimal, ok := n.(float64); ok {
		return whole(f(decimal))
	}
	return n
}

// pick returns the larger (sign 1) or the smaller (-1) of two numbers.
func pick(a, b value, sign int) value {
	a, b = number(a), number(b)
	if compareNumbers(a, b)*sign < 0 {
		return b
	}
	return a
}

// fixed writes a number with so many decimals, halves rounded away from zero.
func fixed(v value, places int64) string {
	places = min(max(places, 0), decimals)
	scale := math.Pow10(int(places))
	f := float(v)
	if scaled := float(rounded(f * scale)); math.Abs(scaled) < 1<<53 {
		f = math.Round(scaled) / scale
	}
	return strconv.FormatFloat(f, 'f', int(places), 64)
}

// grouped puts delimiters between thousands, and another sign for the point.
func (r *run) grouped(text string, args []value) value {
	delimiter, point := r.textAt(args, 0, ","), r.textAt(args, 1, ".")
	sign := ""
	if rest, ok := strings.CutPrefix(text, "-"); ok {
		sign, text = "-", rest
	}
	digits, fraction, _ := strings.Cut(text, ".")
	r.room(len(text) * (len(delimiter) + len(point) + 1))
	var b strings.Builder
	b.WriteString(sign)
	for i, d := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteString(delimiter)
		}
		b.WriteRune(d)
	}
	if fraction != "" {
		b.WriteString(point + fraction)
	}
	return r.made(b.String())
}
