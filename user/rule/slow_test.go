package rule

import (
	"encoding/json"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"sluice/lib/timetext"
	"sluice/user/profile"
)

// slow is the language once more, obvious: on decoded JSON and a parsed
// profile, without slots, classes or shortcuts.
type slow struct {
	p   *profile.Profile
	id  uint64
	now int64

	given Given
}

// answer is what the world says to a question: half of all are answered yes.
func answer(id uint64, question ...string) bool {
	return bucketOf(id, seedOf(strings.Join(question, "|")))%2 == 0
}

// answers are those to the needs of a set.
func answers(id uint64, needs []Need) (known uint64) {
	for i, n := range needs {
		yes := answer(id, n.Journey, n.Is, n.Step, n.Branch)
		if n.Journey == "" {
			yes = answer(id, string(n.Event), n.Of.Message, n.Of.Tag, n.Of.Journey, n.Of.Step, strconv.Itoa(n.Days))
		}
		if yes {
			known |= 1 << i
		}
	}
	return known
}

// needsOf are the needs of a rule, each once, as a set has them.
func needsOf(all []Need) (once []Need) {
	for _, n := range all {
		if !slices.Contains(once, n) {
			once = append(once, n)
		}
	}
	return once
}

// asks answers a condition about a journey or mail, without its negation.
func (s slow) asks(rule map[string]any, is string) bool {
	member := func(name string) string { text, _ := rule[name].(string); return text }
	if rule["mail"] == nil {
		return answer(s.id, member("journey"), is, member("step"), member("branch"))
	}
	days := "0"
	if rule["value"] != nil {
		days = rule["value"].(json.Number).String()
	}
	return answer(s.id, member("mail"), member("message"), member("tag"), member("journey"), member("step"), days)
}

// nested is what an object has at a path; of a name that is there twice the last.
func nested(v any, path any) any {
	names, _ := path.([]any)
	for _, name := range names {
		object, _ := v.(map[string]any)
		v = object[name.(string)]
	}
	return v
}

func decoded(text string) any {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return nil
	}
	return v
}

func (s slow) holds(rule map[string]any) bool {
	if all, ok := rule["and"].([]any); ok {
		return !slices.ContainsFunc(all, func(x any) bool { return !s.holds(x.(map[string]any)) })
	}
	if all, ok := rule["or"].([]any); ok {
		return slices.ContainsFunc(all, func(x any) bool { return s.holds(x.(map[string]any)) })
	}
	if inner, ok := rule["not"].(map[string]any); ok {
		return !s.holds(inner)
	}
	is := rule["is"].(string)
	for no, yes := range map[string]string{"does_not_exist": "exists", "not_equal": "equals", "is_none_of": "is_one_of", "does_not_match_regex": "matches_regex", "does_not_include_value": "includes_value",
		"not_inside": "inside", "was_not_inside": "was_inside", "not_passed": "passed"} {
		if is == no && (rule["journey"] != nil || rule["mail"] != nil) {
			return !s.asks(rule, yes)
		}
		if is == no {
			return !s.compare(s.value(rule), yes, rule)
		}
	}
	if rule["journey"] != nil || rule["mail"] != nil {
		return s.asks(rule, is)
	}
	return s.compare(s.value(rule), is, rule)
}

// value is nil, or what encoding/json makes of JSON, or a time.Time.
func (s slow) value(rule map[string]any) any {
	tally := func(all []profile.Tally, name any) any {
		i := slices.IndexFunc(all, func(t profile.Tally) bool { return t.Name == name })
		switch {
		case i < 0 && (rule["of"] == nil || rule["of"] == "count"):
			return zeroOrNil(rule)
		case i < 0:
			return nil
		case rule["of"] == "first":
			return time.UnixMilli(all[i].FirstMillis)
		case rule["of"] == "last":
			return time.UnixMilli(all[i].LastMillis)
		}
		return big.NewRat(all[i].Count, 1)
	}
	switch {
	case rule["attribute"] != nil:
		return nested(decoded(s.p.Custom.Get(rule["attribute"].(string))), rule["path"])
	case rule["property"] != nil:
		return member(s.given.Properties, rule["property"], rule["path"])
	case rule["context"] != nil:
		return member(s.given.Context, rule["context"], rule["path"])
	case rule["field"] == "external_id":
		if s.p.ExternalID == "" {
			return nil
		}
		return s.p.ExternalID
	case rule["field"] == "created":
		if s.p.CreatedMillis == 0 {
			return nil
		}
		return time.UnixMilli(s.p.CreatedMillis)
	case rule["field"] != nil:
		return decoded(s.p.Fields.Get(rule["field"].(string)))
	case rule["event"] != nil:
		return tally(s.p.Events, rule["event"])
	case rule["purchase"] != nil:
		return tally(s.p.Purchases, rule["purchase"])
	case rule["spent"] != nil:
		for _, m := range s.p.Revenue {
			if m.Currency == rule["spent"] {
				return big.NewRat(m.Micros, 1_000_000)
			}
		}
		return zeroOrNil(rule)
	case rule["group"] != nil:
		for _, g := range s.p.Groups {
			if g.ID == rule["group"] {
				return map[bool]string{true: "subscribed", false: "unsubscribed"}[g.Subscribed]
			}
		}
		return "unknown"
	case rule["subscription"] != nil:
		if state := decoded(s.p.Fields.Get(rule["subscription"].(string) + "_subscribe")); state != nil {
			return state
		}
		return "subscribed"
	}
	return big.NewRat(bucketOf(s.id, seedOf(rule["bucket"].(string))), 1)
}

// member is one of an object, or a value inside it.
func member(object string, name, path any) any {
	all, _ := decoded(object).(map[string]any)
	return nested(all[name.(string)], path)
}

// zeroOrNil: what never happened has the count 0, and does not exist.
func zeroOrNil(rule map[string]any) any {
	if strings.HasSuffix(rule["is"].(string), "exist") || rule["is"] == "exists" {
		return nil
	}
	return new(big.Rat)
}

func rat(v any) *big.Rat {
	switch n := v.(type) {
	case *big.Rat:
		return n
	case json.Number:
		r, _ := new(big.Rat).SetString(n.String())
		return r
	}
	return nil
}

func same(a, b any) bool {
	if x, y := rat(a), rat(b); x != nil || y != nil {
		return x != nil && y != nil && x.Cmp(y) == 0
	}
	switch a.(type) {
	case string, bool:
		return a == b
	}
	return false
}

func (s slow) compare(v any, is string, rule map[string]any) bool {
	want := rule["value"]
	switch is {
	case "exists":
		return v != nil
	case "equals":
		return same(v, want)
	case "is_one_of":
		return slices.ContainsFunc(want.([]any), func(x any) bool { return same(v, x) })
	case "includes_value":
		list, _ := v.([]any)
		return slices.ContainsFunc(list, func(x any) bool { return same(x, want) })
	case "matches_regex":
		text, ok := v.(string)
		return ok && len(text) <= MaxRegexTextBytes && regexp.MustCompile(want.(string)).MatchString(text)
	case "greater_than", "greater_than_or_equal_to", "less_than", "less_than_or_equal_to":
		n := rat(v)
		if n == nil {
			return false
		}
		order := n.Cmp(rat(want))
		return strings.HasPrefix(is, "greater") && order > 0 || strings.HasPrefix(is, "less") && order < 0 ||
			strings.HasSuffix(is, "_to") && order == 0
	}
	return s.compareTime(v, is, rule)
}

// asksDigits reports whether a rule takes digits for times: it says so, or compares
// with such a time itself.
func asksDigits(rule map[string]any) bool {
	text, ok := rule["value"].(string)
	_, number := rule["value"].(json.Number)
	return rule["digits"] == true || (ok && !strings.Contains(text, "-") || number) && !strings.Contains(rule["is"].(string), "days")
}

func moment(v any, zone *time.Location, digits bool) (time.Time, bool) {
	text, _ := v.(string)
	if _, number := v.(json.Number); !digits && (number || !strings.Contains(text, "-")) {
		if _, is := v.(time.Time); !is {
			return time.Time{}, false
		}
	}
	var ms int64
	var err error
	switch x := v.(type) {
	case time.Time:
		return x, true
	case json.Number:
		ms, err = timetext.Parse(x.String(), false)
	case string:
		ms, err = timetext.ParseAnyIn(x, zone)
	default:
		return time.Time{}, false
	}
	return time.UnixMilli(ms), err == nil
}

func (s slow) compareTime(v any, is string, rule map[string]any) bool {
	zone := time.UTC
	name, zoned := rule["zone"].(string)
	if name == "user" {
		name, _ = decoded(s.p.Fields.Get("time_zone")).(string)
	}
	if z, err := time.LoadLocation(name); err == nil {
		zone = z
	}
	at, ok := moment(v, zone, asksDigits(rule))
	if !ok {
		return false
	}
	if is == "before" || is == "after" {
		with, ok := moment(rule["value"], zone, true)
		return ok && (is == "before" && at.Before(with) || is == "after" && at.After(with))
	}
	x, now := rat(rule["value"]).Num().Int64(), time.UnixMilli(s.now)
	distance, bound := now.Sub(at).Milliseconds(), x*24*3600*1000
	if zoned {
		day := func(t time.Time) int64 {
			y, m, d := t.In(zone).Date()
			return time.Date(y, m, d, 0, 0, 0, 0, time.UTC).Unix() / 86400
		}
		distance, bound = day(now)-day(at), x
	}
	if strings.HasSuffix(is, "future") {
		distance = -distance
	}
	if strings.HasPrefix(is, "greater") {
		return distance > bound
	}
	if strings.HasSuffix(is, "ago") {
		return !at.After(now) && distance < bound
	}
	return !at.Before(now) && distance < bound
}
