package profile

import (
	"encoding/json"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"sluice/lib/jsonscan"
)

// changed applies attributes objects as they come from a client, one after the
// other, and returns the profile's text.
func changed(t *testing.T, objects ...string) string {
	t.Helper()
	p := &Profile{}
	for _, o := range objects {
		checked, err := Check(o)
		if err != nil {
			t.Fatalf("Check(%s): %v", o, err)
		}
		p.SetAttributes(checked, 7)
	}
	return string(p.Append(nil))
}

func TestAttributes(t *testing.T) {
	for _, x := range []struct {
		name    string
		objects []string
		want    string // custom, unless it has another member
	}{
		{"set", []string{`{"external_id":"u","plan" : "g\u006fld","n":1.50,"b":true}`}, `{"b":true,"n":1.50,"plan":"gold"}`},
		{"the last of a name that occurs twice", []string{`{"a":1,"b":2,"a":3}`}, `{"a":3,"b":2}`},
		{"null removes", []string{`{"a":1,"b":2}`, `{"a":null,"c":null}`}, `{"b":2}`},
		{"inc", []string{`{"n":40}`, `{"n":{"inc":2}}`, `{"new":{"inc":-3}}`}, `{"n":42,"new":-3}`},
		{"inc by a fraction", []string{`{"n":1}`, `{"n":{"inc":0.5}}`}, `{"n":1.5}`},
		{"inc beyond 64 bits", []string{`{"n":9223372036854775807}`, `{"n":{"inc":1}}`}, `{"n":9.223372036854776e+18}`},
		{"inc by nothing", []string{`{"n":5}`, `{"n":{"inc":0}}`}, `{"n":5}`},
		{"inc of a text", []string{`{"n":"x"}`, `{"n":{"inc":1}}`}, `{"n":"x"}`},
		{"a list has each once", []string{`{"l":["a","b","a",1,1]}`}, `{"l":["b","a",1]}`},
		{"add moves to the end", []string{`{"l":["a","b"]}`, `{"l":{"add":["a","c"]}}`}, `{"l":["b","a","c"]}`},
		{"add to nothing", []string{`{"l":{"add":["a"]}}`}, `{"l":["a"]}`},
		{"remove and add", []string{`{"l":["a","b"]}`, `{"l":{"add":["c"],"remove":["a","x"]}}`}, `{"l":["b","c"]}`},
		{"add to a text", []string{`{"l":"x"}`, `{"l":{"add":["a"]}}`}, `{"l":"x"}`},
		{"an object with other members is no operator", []string{`{"o":{"inc":1,"x":2}}`}, `{"o":{"inc":1,"x":2}}`},
		{"an object is set", []string{`{"o":{"a":1}}`, `{"o":{"b":2}}`}, `{"o":{"b":2}}`},
		{"an object is merged", []string{`{"o":{"a":1,"d":{"e":1}}}`, `{"_merge_objects":true,"o":{"b":2,"d":{"f":2}}}`}, `{"o":{"a":1,"d":{"e":1,"f":2},"b":2}}`},
		{"null inside drops the whole update", []string{`{"o":{"a":1}}`, `{"o":{"b":null},"p":1}`}, `{"o":{"a":1},"p":1}`},
		{"a long text inside too", []string{`{"o":{"b":"` + strings.Repeat("x", 256) + `"}}`}, ``},
		{"objects are added", []string{`{"l":[{"id":1,"n":"a"}]}`, `{"l":{"$add":[{"id":2}]}}`}, `{"l":[{"id":1,"n":"a"},{"id":2}]}`},
		{"objects are updated", []string{`{"l":[{"id":1,"n":"a"},{"id":2}]}`,
			`{"_merge_objects":true,"l":{"$update":[{"$identifier_key":"id","$identifier_value":1,"$new_object":{"n":"b"}}]}}`}, `{"l":[{"id":1,"n":"b"},{"id":2}]}`},
		{"objects are removed", []string{`{"l":[{"id":1},{"id":2}]}`, `{"l":{"$remove":[{"$identifier_key":"id","$identifier_value":2}]}}`}, `{"l":[{"id":1}]}`},
		{"names of databases and languages", []string{`{"__proto__":{"a":1},"a.b":1,"$where":1,"constructor":2,"":3}`}, `{"__proto__":{"a":1},"a.b":1,"constructor":2}`},
		{"standard ones", []string{`{"first_name":"Ann","country":"austria","language":"German","email":" Ann@Example.COM ","phone":"+43 (1) 234-567","dob":"1990-02-28","email_subscribe":"opted_in","date_of_first_session":"2026-01-31 10:20:30 +0100"}`},
			`{"fields":{"country":"AT","date_of_first_session":"2026-01-31T09:20:30.000Z","dob":"1990-02-28","email":"ann@example.com","email_subscribe":"opted_in","first_name":"Ann","language":"de","phone":"+431234567"},"email_since":7}`},
		{"what is no country is nothing", []string{`{"country":"AT"}`, `{"country":"Atlantis"}`}, ``},
		{"an empty country is nothing", []string{`{"country":"AT","language":"de"}`, `{"country":"","language":""}`}, ``},
		{"nor is white space", []string{`{"country":"AT","language":"de"}`, `{"country":" ","language":"\t"}`}, ``},
		{"subscription groups", []string{`{"subscription_groups":[{"subscription_group_id":"g2","subscription_state":"subscribed"},{"subscription_group_id":"g1","subscription_state":"unsubscribed"}]}`},
			`{"groups":{"g1":["unsubscribed",7],"g2":["subscribed",7]}}`},
	} {
		t.Run(x.name, func(t *testing.T) {
			want := x.want
			switch {
			case want == "":
				want = "{}"
			case !strings.HasPrefix(want, `{"fields"`) && !strings.HasPrefix(want, `{"groups"`):
				want = `{"custom":` + want + `}`
			}
			if got := changed(t, x.objects...); got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		})
	}
}

// The names that Rails has for zones are understood, each as a zone that there is.
func TestZonesOfRails(t *testing.T) {
	got, err := Check(`{"time_zone":"Eastern Time (US & Canada)"}`)
	if err != nil || got != `{"time_zone":"America/New_York"}` {
		t.Errorf("%s %v", got, err)
	}
	for name, zone := range railsZones() {
		if Zone(zone) == nil {
			t.Errorf("%s: there is no zone %s", name, zone)
		}
	}
	if n := len(railsZones()); n < 145 {
		t.Errorf("%d names", n)
	}
}

// One attribute that is wrong costs no other, and each is named.
func TestCheckEach(t *testing.T) {
	text, dropped, err := CheckEach(`{"external_id":"u","first_name":"Ann","dob":"01/01/1971","gender":"female","phone":"0664 1","email":"","time_zone":"Nowhere","a":1,"deep":` +
		strings.Repeat("[", 63) + strings.Repeat("]", 63) + `}`)
	var fields []string
	for _, d := range dropped {
		fields = append(fields, d.Field)
	}
	if want := "dob gender phone email time_zone deep"; err != nil || text != `{"first_name":"Ann","a":1}` || strings.Join(fields, " ") != want {
		t.Errorf("%s %v %v", text, fields, err)
	}
}

func TestCheckRefuses(t *testing.T) {
	for field, values := range map[string][]string{
		"email":            {`"x"`, `"a@b"`, `"a@-b.c"`, `"a b@c.de"`, `"a@b..c"`, `".a@b.cd"`, `"a@b.c\r\nBcc: x"`, `5`, `"` + strings.Repeat("a", 65) + `@b.cd"`},
		"phone":            {`"12a"`, `"0"`, `""`, `7`},
		"dob":              {`"1990-02-30"`, `"31.12.1990"`},
		"gender":           {`"X"`, `1`},
		"time_zone":        {`"Mars/Olympus"`, `"../../etc/passwd"`, `"Local"`, `""`},
		"email_subscribe":  {`"maybe"`},
		"first_name":       {`5`, `"` + strings.Repeat("é", 256) + `"`},
		"current_location": {`{"longitude":181,"latitude":1}`, `{"longitude":1}`, `{"longitude":1,"latitude":0.` + strings.Repeat("1", 50<<10) + `}`, `"here"`, `{"longitude":"1","latitude":1}`},
		"subscription_groups": {`{}`, `[{"subscription_group_id":"g","subscription_state":"maybe"}]`, `[5]`,
			`[{"subscription_group_id":"","subscription_state":"subscribed"}]`, `[{"subscription_group_id":"` + strings.Repeat("x", 256) + `","subscription_state":"subscribed"}]`},
		"push_tokens":             {`[{"app_id":"a"}]`, `[{"app_id":"a","token":"` + strings.Repeat("x", 50<<10) + `"}]`},
		"date_of_last_session":    {`"yesterday"`},
		"marked_email_as_spam_at": {`true`},
	} {
		for _, value := range values {
			if got, err := Check(`{"` + field + `":` + value + `}`); err == nil {
				t.Errorf("%s: %s is taken: %s", field, value, got)
			}
		}
		if got, err := Check(`{"` + field + `":null}`); err != nil || got != `{"`+field+`":null}` {
			t.Errorf("%s: null: %s, %v", field, got, err)
		}
	}
	_, err := Check(`{"email":"x"}`)
	if want := "The value provided for the 'email' field is not a valid email."; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestBounds(t *testing.T) {
	p := &Profile{}
	for i := range 2 * MaxTallies {
		p.CountEvent("event "+number(float64(i)), int64(i))
		p.SetAttributes(`{"a`+number(float64(i))+`":1}`, 0)
		p.AddAlias(Alias{"label", number(float64(i))})
		p.SetGroup(number(float64(i)), true, 0)
	}
	p.CountEvent("event 0", 99)
	if len(p.Events) != MaxTallies || len(p.Custom) != MaxCustomAmount || len(p.Aliases) != MaxAliases || len(p.Groups) != MaxGroups {
		t.Errorf("%d events, %d attributes, %d aliases, %d groups", len(p.Events), len(p.Custom), len(p.Aliases), len(p.Groups))
	}
	if p.Events[0] != (Tally{"event 0", 2, 0, 99}) {
		t.Errorf("a name that is there is not counted any more: %v", p.Events[0])
	}
	p = &Profile{}
	for range 3 {
		p.SetAttributes(`{"l":{"add":[`+strings.Repeat("0,", 99)+strings.TrimSuffix(numbers(150), ",")+`]}}`, 0)
	}
	if list := elements(p.Custom.Get("l")); len(list) != MaxArrayItems || list[0].Raw != "50" {
		t.Errorf("%d items in the list, the first is %s", len(list), list[0].Raw)
	}
	if p.SetAttributes(`{"l":"`+strings.Repeat("x", MaxValueBytes)+`"}`, 0) {
		t.Error("a value of more than MaxValueBytes is kept")
	}
}

func numbers(n int) string {
	var all strings.Builder
	for i := range n {
		all.WriteString(number(float64(i)) + ",")
	}
	return all.String()
}

// some makes a profile up.
func some(r *rand.Rand) *Profile {
	p := &Profile{CreatedMillis: r.Int64N(3)}
	if r.IntN(2) == 0 {
		p.ExternalID = "user \"" + number(float64(r.IntN(9)))
	}
	for range r.IntN(6) {
		name := string('a' + rune(r.IntN(5)))
		p.Fields.Set([]string{"first_name", "email", "dob"}[r.IntN(3)], Quoted(name))
		p.Custom.Set(name, []string{"1", `"x"`, `[1,2]`, `{"y":1}`, "true"}[r.IntN(5)])
		p.CountEvent(name, r.Int64N(100))
		p.CountPurchase(name, []string{"EUR", "USD"}[r.IntN(2)], r.Int64N(1000), r.Int64N(5), r.Int64N(100))
		p.AddAlias(Alias{name, number(float64(r.IntN(3)))})
		p.SetGroup(name, r.IntN(2) == 0, r.Int64N(100))
		p.AddFormer(name)
		p.ActiveDay = r.Int64N(3)
	}
	return p
}

func copyOf(t *testing.T, p *Profile) *Profile {
	t.Helper()
	q, err := Parse(string(p.Append(nil)))
	if err != nil {
		t.Fatal(err)
	}
	return q
}

func TestTextKeepsAll(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		p := some(r)
		if text := p.Append(nil); !json.Valid(text) || !reflect.DeepEqual(copyOf(t, p), p) {
			t.Fatalf("%s\nis read as %+v\nwanted %+v", text, copyOf(t, p), p)
		}
	}
	for _, text := range []string{``, `{"events":{"a":[1,2]}}`, `{"events":{"a":["x",1,2]}}`, `{"created":"x"}`, `{"aliases":[["a"]]}`, `{"groups":{"a":["subscribed"]}}`, `{"custom":5}`, `{"revenue":{"EUR":1.5}}`} {
		if p, err := Parse(text); err == nil {
			t.Errorf("%s is read as %+v", text, p)
		}
	}
}

// Merges of three, in both orders: sums, first and last, and names are the
// same; so is everything else that only one of them has.
func TestMergesInAnyOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 2000 {
		keep, a, b := some(r), some(r), some(r)
		one, two := copyOf(t, keep), copyOf(t, keep)
		one.Merge(copyOf(t, a))
		one.Merge(copyOf(t, b))
		two.Merge(copyOf(t, b))
		two.Merge(copyOf(t, a))
		for _, p := range []*Profile{one, two} {
			// What both had is decided by who came first: that is left out.
			for _, both := range []struct{ of, x, y *Values }{{&p.Fields, &a.Fields, &b.Fields}, {&p.Custom, &a.Custom, &b.Custom}} {
				for _, v := range *both.x {
					if both.y.Get(v.Name) != "" {
						both.of.Set(v.Name, "")
					}
				}
			}
			p.Groups = nil
			if keep.ExternalID == "" {
				p.ExternalID = ""
			}
		}
		if !reflect.DeepEqual(one, two) {
			t.Fatalf("keep %s\na %s\nb %s\none %s\ntwo %s", keep.Append(nil), a.Append(nil), b.Append(nil), one.Append(nil), two.Append(nil))
		}
		for _, was := range keep.Custom {
			if got := one.Custom.Get(was.Name); got != was.Raw && a.Custom.Get(was.Name) == "" {
				t.Fatalf("%s was %s, is %s", was.Name, was.Raw, got)
			}
		}
	}
}

// Counting and merging commute: what a user did before or after the merge is
// counted alike.
func TestCountsDoNotDependOnTheMerge(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 1000 {
		a, b := &Profile{}, &Profile{}
		late, all := &Profile{}, &Profile{}
		for range 20 {
			name, at := string('a'+rune(r.IntN(4))), r.Int64N(1000)
			which := a
			if r.IntN(2) == 0 {
				which = b
			}
			if r.IntN(3) == 0 {
				which = late
			}
			which.CountEvent(name, at)
			which.CountPurchase(name, "EUR", at, 2, at)
			all.CountEvent(name, at)
			all.CountPurchase(name, "EUR", at, 2, at)
		}
		a.Merge(b)
		a.Merge(late)
		if !reflect.DeepEqual(a, all) {
			t.Fatalf("%s\nwanted %s", a.Append(nil), all.Append(nil))
		}
	}
}

func FuzzAttributes(f *testing.F) {
	for _, s := range []string{`{}`, `{"a":{"inc":1}}`, `{"a":[1,[2],{"b":null}],"email":"a@b.cd"}`, `{"a":{"$update":[{"$identifier_key":5}]}}`, `{"_merge_objects":true,"a":{"b":{"c":1}}}`, `{"country":"Österreich","dob":null}`} {
		f.Add(s, s)
	}
	f.Fuzz(func(t *testing.T, first, second string) {
		p := &Profile{}
		for _, object := range []string{first, second, first} {
			if v, err := jsonscan.Scan(object); err != nil || v.Kind != jsonscan.Object {
				return
			}
			checked, err := Check(object)
			if err != nil {
				continue
			}
			again, err := Check(checked)
			if err != nil || again != checked {
				t.Fatalf("%s is checked into %s, and that into %s, %v", object, checked, again, err)
			}
			p.SetAttributes(checked, 1)
			text := p.Append(nil)
			if q, err := Parse(string(text)); err != nil || !json.Valid(text) || !reflect.DeepEqual(p, q) {
				t.Fatalf("%s: %v: %+v, wanted %+v", text, err, q, p)
			}
		}
	})
}

func BenchmarkOneAttribute(b *testing.B) {
	p := some(rand.New(rand.NewPCG(7, 8)))
	p.SetAttributes(`{"plan":"gold","city":"Wien","score":17,"tags":["a","b","c"],"first_name":"Ann","last_name":"Other"}`, 0)
	text := string(p.Append(nil))
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		q, err := Parse(text)
		if err != nil {
			b.Fatal(err)
		}
		q.SetAttributes(`{"score":{"inc":1}}`, 0)
		q.CountEvent("b", 5)
		text = string(q.Append(nil))
	}
}

// What Check lets pass makes a profile that can be read again. An attribute
// stands one level deeper there than in the object it came in.
func TestLevels(t *testing.T) {
	for _, name := range []string{"custom", "facebook"} {
		for levels, fits := range map[int]bool{maxValueLevels: true, maxValueLevels + 1: false} {
			value := strings.Repeat(`{"a":`, levels) + "1" + strings.Repeat("}", levels)
			checked, err := Check(`{"` + name + `":` + value + `}`)
			if (err == nil) != fits {
				t.Errorf("%s of %d levels: %v", name, levels, err)
			}
			if err != nil {
				continue
			}
			p := &Profile{}
			p.SetAttributes(checked, 7)
			if text := string(p.Append(nil)); !strings.Contains(text, value) {
				t.Errorf("%s of %d levels is not in %s", name, levels, text)
			} else if _, err := Parse(text); err != nil {
				t.Errorf("%s of %d levels: %v", name, levels, err)
			}
		}
	}
}
