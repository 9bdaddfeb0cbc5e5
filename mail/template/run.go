package template

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"sluice"
	"sluice/lib/jsonscan"
	"sluice/user/profile"
)

// Input is for whom a mail is rendered.
type Input struct {
	// Variables is a JSON object, or empty. Its members are the variables.
	Variables string

	// Profile is what is known of the recipient; nil: nothing.
	Profile *profile.Profile

	// Unsubscribe is the link by which the recipient unsubscribes; empty: there is
	// none, and a template that wants it is not rendered.
	Unsubscribe string

	// Origin is what the mail comes from.
	Origin Origin

	// Clock says what time it is, for "now" and for the bound of time; nil: the
	// machine's.
	Clock sluice.Clock

	// Limits bound the rendering; what is zero is as in DefaultLimits.
	Limits Limits
}

// Limits bound one rendering, all parts of a mail together.
type Limits struct {
	// OutputBytes bounds all that is put out, and each text that is made on the
	// way there.
	OutputBytes int

	// Steps bounds the work. A step is a piece of the template, a turn of a
	// loop, a filter, an element of a list, or 256 bytes.
	Steps int

	// Time bounds how long it takes. Steps bound that too; this is for a machine
	// on which a step takes long.
	Time time.Duration
}

// DefaultLimits are the limits of mail.
var DefaultLimits = Limits{OutputBytes: 4 << 20, Steps: 100_000, Time: 200 * time.Millisecond}

// MaxVariablesBytes bounds the variables of a mail.
const MaxVariablesBytes = 256 << 10

// A step is bytesPerStep bytes; the clock is asked every stepsPerLook steps.
const (
	bytesPerStep = 256
	stepsPerLook = 1024
)

// run is one rendering. It belongs to one goroutine.
type run struct {
	limits   Limits
	clock    sluice.Clock
	started  time.Time
	steps    int // left
	look     int // at which number of steps left the clock is asked again
	previous int // bytes put out by the parts before this one

	variables *object
	profile   *profile.Profile
	leave     string // Input.Unsubscribe
	origin    Origin
	template  string // the id of a stored template, else empty
	strict    bool
	zones     map[string]*time.Location

	// Of one part.
	out      []byte
	escape   bool
	line     int // of what is being done
	locals   []local
	assigned map[string]value
	counters map[string]int64
	cycles   map[string]int
	reached  map[string]int // where a loop may go on, by forNode.key
	changed  string         // what the last ifchanged was
}

// local is a variable of a loop.
type local struct {
	name  string
	value value
}

// stopped carries an *Error out of a rendering. A bound may be reached
// anywhere, in the comparisons of a sort as well as five loops deep, and all of
// it ends. So it is a panic that only protect catches.
type stopped struct{ err *Error }

func (r *run) fail(kind Kind, format string, args ...any) {
	panic(stopped{newError(kind, r.line, format, args...)})
}

// protect calls f and returns what it was stopped by.
func protect(f func()) (err *Error) {
	defer func() {
		p := recover()
		if s, ok := p.(stopped); ok {
			err = s.err
		} else if p != nil {
			panic(p)
		}
	}()
	f()
	return nil
}

func newRun(in *Input, strict bool) (*run, *Error) {
	r := &run{limits: in.Limits, clock: in.Clock, profile: in.Profile, leave: in.Unsubscribe, origin: in.Origin, strict: strict, variables: &object{}}
	r.limits.OutputBytes = cmp.Or(max(r.limits.OutputBytes, 0), DefaultLimits.OutputBytes)
	r.limits.Steps = cmp.Or(max(r.limits.Steps, 0), DefaultLimits.Steps)
	r.limits.Time = cmp.Or(max(r.limits.Time, 0), DefaultLimits.Time)
	if r.clock == nil {
		r.clock = sluice.SystemClock{}
	}
	r.started = r.clock.Now()
	r.steps, r.look = r.limits.Steps, r.limits.Steps-stepsPerLook
	if in.Variables == "" {
		return r, nil
	}
	if len(in.Variables) > MaxVariablesBytes {
		return nil, newError(KindInput, 0, "the variables have %d bytes, at most %d are possible", len(in.Variables), MaxVariablesBytes)
	}
	v, err := jsonscan.Scan(in.Variables)
	if err != nil {
		return nil, newError(KindInput, 0, "the variables are not JSON: %v", err)
	}
	if v.Kind != jsonscan.Object {
		return nil, newError(KindInput, 0, "the variables are %s, want a JSON object", kindName(decoded(v)))
	}
	r.variables = decodedObject(v.Raw)
	return r, nil
}

// spend counts steps and ends the rendering when there are none left.
func (r *run) spend(steps int) {
	r.steps -= steps
	if r.steps < 0 {
		r.fail(KindLimit, "more than %d steps: a loop has too many turns, or texts are too large", r.limits.Steps)
	}
	if r.steps > r.look {
		return
	}
	r.look = r.steps - stepsPerLook
	if r.clock.Now().Sub(r.started) > r.limits.Time {
		r.fail(KindTime, "it takes longer than %s", r.limits.Time)
	}
}

// spendBytes counts work on so many bytes.
func (r *run) spendBytes(n int) { r.spend(n / bytesPerStep) }

// room ends the rendering if a text must not become so many bytes long.
func (r *run) room(n int) {
	if n < 0 || n > r.limits.OutputBytes {
		r.fail(KindLimit, "a text becomes longer than %d bytes", r.limits.OutputBytes)
	}
}

// made counts a text that was made.
func (r *run) made(text string) string {
	r.room(len(text))
	r.spendBytes(len(text))
	return text
}

// write puts out a text as it is.
func (r *run) write(text string) {
	if n := r.previous + len(r.out) + len(text); n > r.limits.OutputBytes {
		r.fail(KindLimit, "the mail becomes longer than %d bytes", r.limits.OutputBytes)
	}
	r.spendBytes(len(text))
	r.out = append(r.out, text...)
}

// put puts out a value.
func (r *run) put(v value) {
	switch v := v.(type) {
	case safe:
		r.write(string(v))
		return
	case list:
		for _, e := range v {
			r.spend(1)
			r.put(e)
		}
		return
	}
	text := r.text(v)
	if r.escape {
		text = escapeHTML(text)
	}
	r.write(text)
}

// text makes a text of a value, which counts as work.
func (r *run) text(v value) string {
	if text, ok := plainText(v); ok {
		r.spendBytes(len(text))
		return text
	}
	switch v := v.(type) {
	case nil, special:
		return ""
	case int64:
		return strconv.FormatInt(v, 10)
	}
	return string(r.appendText(nil, v))
}

// appendText appends the text of a value; a text longer than what may be put
// out is not made.
func (r *run) appendText(dst []byte, v value) []byte {
	if text, ok := plainText(v); ok {
		r.room(len(dst) + len(text))
		r.spendBytes(len(text))
		return append(dst, text...)
	}
	switch v := v.(type) {
	case bool:
		dst = strconv.AppendBool(dst, v)
	case int64:
		dst = strconv.AppendInt(dst, v, 10)
	case float64:
		dst = appendFloat(dst, v)
	case span:
		dst = strconv.AppendInt(append(strconv.AppendInt(dst, v.from, 10), ".."...), v.to, 10)
	case moment:
		dst = v.AppendFormat(dst, "2006-01-02 15:04:05 -0700")
	case list:
		for _, e := range v {
			r.spend(1)
			dst = r.appendText(dst, e)
		}
	case *object, user, *loop:
		dst = r.appendJSON(dst, v)
	}
	return dst
}

// evaluate returns what an expression is.
func (r *run) evaluate(x *expression) value {
	v, found := r.operand(&x.base)
	if !found && !hasDefault(x) {
		if x.base.isUnsubscribe() {
			r.fail(KindMissing, "%s: there is no link to unsubscribe by, for public_url is not set", x.base.path.text)
		}
		r.unknown(&x.base)
		if r.strict {
			r.missing(&x.base)
		}
	}
	for i := range x.filters {
		c := &x.filters[i]
		r.spend(1)
		args := make([]value, len(c.args))
		for j := range c.args {
			args[j] = r.given(&c.args[j])
		}
		if c.lax != nil && v == false && truthy(r.given(c.lax)) {
			continue // false is a value: default leaves it
		}
		v = c.filter.apply(r, v, args)
	}
	return v
}

// The names of the link to unsubscribe by: ours, and Braze's.
const (
	unsubscribeVariable  = "unsubscribe_url"
	unsubscribeAttribute = "set_user_to_unsubscribed_url"
)

// isUnsubscribe reports whether an operand is that link. An empty one in a mail
// is noticed by those who want no more of them.
func (o *operand) isUnsubscribe() bool {
	return o.path != nil && len(o.path.keys) == 0 &&
		(o.path.profile && o.path.name == unsubscribeAttribute || !o.path.profile && o.path.name == unsubscribeVariable)
}

func hasDefault(x *expression) bool {
	return slices.ContainsFunc(x.filters, func(c call) bool { return c.filter == filters["default"] })
}

func (r *run) missing(o *operand) {
	name := ""
	if o.path != nil {
		name = o.path.text
	}
	r.fail(KindMissing, "%s is not given, and the template is strict; give it, or a default: {{ %s | default: \"...\" }}", name, name)
}

// given is an operand that must be there in a strict template.
func (r *run) given(o *operand) value {
	v, found := r.operand(o)
	if found {
		return v
	}
	if r.unknown(o); r.strict {
		r.missing(o)
	}
	return v
}

// operand returns what a literal, range or variable is, and whether it is there.
func (r *run) operand(o *operand) (v value, found bool) {
	switch {
	case o.path != nil:
		return r.lookUp(o.path)
	case o.from != nil:
		return span{integer(r.given(o.from)), integer(r.given(o.to))}, true
	}
	return o.literal, true
}

func (r *run) lookUp(p *variable) (v value, found bool) {
	r.spend(1)
	name := p.name
	if p.root != nil {
		var ok bool
		if name, ok = plainText(r.given(p.root)); !ok {
			return nil, false
		}
	}
	if v, found = r.root(name, p.profile); !found {
		return nil, false
	}
	for i := range p.keys {
		r.spend(1)
		if v, found = r.member(v, r.given(&p.keys[i])); !found {
			return nil, false
		}
	}
	return v, true
}

// root finds a variable: of a loop, assigned, given with the mail, or one that
// is always there.
func (r *run) root(name string, profile bool) (value, bool) {
	if profile {
		if name == unsubscribeAttribute {
			return r.leave, r.leave != ""
		}
		return r.attribute(user{p: r.profile}, name)
	}
	for i := len(r.locals) - 1; i >= 0; i-- {
		if r.locals[i].name == name {
			return r.locals[i].value, true
		}
	}
	if v, ok := r.assigned[name]; ok {
		return v, true
	}
	if v, ok := r.variables.get(name); ok {
		return v, true
	}
	if n, ok := r.counters[name]; ok {
		return n, true
	}
	switch name {
	case unsubscribeVariable:
		return r.leave, r.leave != ""
	case "user":
		return user{p: r.profile}, true
	case "custom_attribute":
		return user{r.profile, true}, true
	case "api_trigger_properties":
		return r.variables, true
	}
	return r.brazeValue(name)
}

// member looks for something in a value: a member, an element, or size, first
// and last.
func (r *run) member(v, key value) (value, bool) {
	if name, ok := plainText(key); ok {
		switch v := v.(type) {
		case *object:
			if found, ok := v.get(name); ok {
				return found, true
			}
		case user:
			return r.attribute(v, name)
		case *loop:
			return v.get(name)
		}
		switch name {
		case "size":
			return r.size(v)
		case "first", "last":
			return r.end(v, name == "last")
		}
		if _, ok := v.(list); !ok || numberPrefix(name) != len(name) || name == "" {
			return nil, false
		}
	}
	switch v := v.(type) {
	case list:
		if _, ok := key.(bool); ok || key == nil {
			return nil, false
		}
		i := integer(key)
		if i < 0 {
			i += int64(len(v))
		}
		if i < 0 || i >= int64(len(v)) {
			return nil, false
		}
		return v[i], true
	case *object:
		return v.get(r.text(key))
	}
	return nil, false
}
