package plan

import (
	"errors"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"sluice/journey"
	"sluice/mail"
	"sluice/user/rule"
)

// world has what journeys of tests name; all else is not there.
type world struct{ away bool }

var errAway = errors.New("the database is away")

func (w world) Template(id string, version int) (mail.Class, bool, error) {
	if w.away {
		return 0, false, errAway
	}
	known := map[string]mail.Class{"welcome": mail.ClassTransactional, "tour": mail.ClassMarketing, "welcome-again": mail.ClassMarketing, "first-order": mail.ClassMarketing, "cart": mail.ClassMarketing,
		"cart-again": mail.ClassMarketing, "win-back-last": mail.ClassMarketing, "thanks": mail.ClassMarketing, "trial-ends": mail.ClassMarketing, "trial-last": mail.ClassMarketing}
	class, ok := known[id]
	return class, ok && version < 3, nil
}

func (w world) Segment(id string) (string, bool, error) {
	if w.away {
		return "", false, errAway
	}
	return `{"attribute":"plan","is":"equals","value":"gold"}`, id == "gold", nil
}

func (w world) Journey(id string) (bool, error) {
	if w.away {
		return false, errAway
	}
	return id == "welcome" || id == "win-back", nil
}

func compiled(t *testing.T, text string) *Plan {
	t.Helper()
	_, p, err := LoadYAML(text, world{})
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return p
}

// The one form of a document compiles into itself, whichever way it is read.
func TestCanonical(t *testing.T) {
	for name, text := range examples(t) {
		p := compiled(t, text)
		doc, again, err := LoadJSON(p.Canonical(), world{})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if again.Canonical() != p.Canonical() {
			t.Errorf("%s becomes\n%s\nand that\n%s", name, p.Canonical(), again.Canonical())
		}
		if _, _, err := LoadYAML(p.Canonical(), world{}); err != nil {
			t.Errorf("%s as YAML: %v", name, err)
		}
		if whole, err := Compile(doc, world{}); err != nil || whole.Canonical() != p.Canonical() {
			t.Errorf("%s, compiled from the types: %v", name, err)
		}
	}
	same := []string{
		"{id: a, zone: UTC, entry: {when: {api: true}, again_after: 24h, limit: {}}, steps: [{id: d, delay: {for: 120m, until: {time: '09:00', weekdays: [sunday, monday]}}, next: exit}], quiet: {from: '20:00', to: '06:00', then: wait}}",
		"{id: a, entry: {when: [{api: true}], again_after: 1d}, steps: [{id: d, delay: {for: 1h60m, until: {time: '09:00', weekdays: [monday, sunday]}}}], quiet: {from: '20:00', to: '06:00'}}",
	}
	same = append(same, "\ufeff"+same[1]) // as editors of Windows write it
	want := `{"id":"a","entry":{"when":[{"api":true}],"again_after":"1d"},"steps":[{"id":"d","delay":{"for":"2h","until":{"time":"09:00","weekdays":["monday","sunday"]}}}],"quiet":{"from":"20:00","to":"06:00"}}`
	for _, text := range same {
		if got := compiled(t, text).Canonical(); got != want {
			t.Errorf("%s\nis   %s\nwant %s", text, got, want)
		}
	}
}

func TestExamplesAsPlans(t *testing.T) {
	all := examples(t)
	p := compiled(t, all["abandoned-cart"])
	var kinds []string
	for _, s := range p.Steps {
		kinds = append(kinds, s.ID+" "+s.Kind.String()+" "+strconv.Itoa(s.Next))
	}
	want := []string{"worth split -1", "pause delay 2", "remind message 3", "react wait_for 4", "variant random -1", "again-long message -1", "again-short message -1"}
	if !reflect.DeepEqual(kinds, want) {
		t.Errorf("steps are %q, want %q", kinds, want)
	}
	if p.Index("worth") != 0 || p.Index("variant") != 4 || p.Index("nowhere") != -1 {
		t.Error("steps are not numbered in their order")
	}
	worth, react, variant := p.Steps[0], p.Steps[3], p.Steps[4]
	if worth.ExitBit != 1 || worth.Rules == nil || worth.Paths[0].Next != 1 || worth.Paths[0].Branch != 0 || worth.Otherwise != 1 {
		t.Errorf("a split is %+v", worth)
	}
	if react.Within != 86400 || react.ExitBit != 0 || react.Paths[0].When[0].Of != (journey.MailOf{Journey: "abandoned-cart", Step: "remind"}) {
		t.Errorf("a wait is %+v", react)
	}
	if variant.Paths[0].UpTo != 5000 || variant.Paths[1].UpTo != 10000 || variant.Seed != "abandoned-cart/variant" {
		t.Errorf("a random step is %+v", variant)
	}
	if n, ok := react.Branch("otherwise"); !ok || n != react.Otherwise || p.Branches != 6 {
		t.Errorf("branch %d, %v of %d", n, ok, p.Branches)
	}
	m := p.Steps[2].Message
	if m.Priority != mail.PriorityHigh || m.Class != mail.ClassMarketing || m.LatestSeconds != 12*3600 || !reflect.DeepEqual(m.Tags, []string{"cart"}) {
		t.Errorf("a message is %+v", m)
	}
	w := compiled(t, all["welcome"])
	if hello := w.Steps[0].Message; hello.Class != mail.ClassTransactional || !hello.IgnoreQuiet || !w.Steps[1].Delay.Until.Zone.User || !w.Entry.Once {
		t.Errorf("%+v, %+v, %+v", hello, w.Steps[1].Delay.Until, w.Entry)
	}
	b := compiled(t, all["win-back"])
	at := b.Entry.When[0].At
	if b.Control != 1000 || at.Every != EveryWeek || !at.Weekdays[2] || at.Weekdays[3] || at.Zone.Location.String() != "America/Sao_Paulo" || b.Entry.PerRun != 100000 {
		t.Errorf("%+v, %+v", b, at)
	}
}

// The names that the store writes facts about are those of all triggers, and what the
// rules of exit_when and wait_for look at; rules of splits look at profiles only.
func TestNames(t *testing.T) {
	want := journey.Names{Events: []string{"cart_emptied", "cart_updated"}, Purchases: []string{"*"}, Groups: []string{"news"},
		Mail: []journey.MailNames{{Event: journey.MailClicked, Of: journey.MailOf{Journey: "abandoned-cart", Step: "remind"}}}}
	p := compiled(t, examples(t)["abandoned-cart"])
	if got := p.Names(); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	got := compiled(t, `
id: a
entry: {when: [{attribute: plan, to: gold}, {field: country}, {subscription: push, becomes: opted_in}, {group: g, becomes: subscribed}]}
steps:
  - id: w
    wait_for:
      within: 1d
      paths:
        - {name: p, when: [{rule: {and: [{event: e, is: exists}, {spent: EUR, is: greater_than, value: 1}, {subscription: email, is: equals, value: opted_in}, {field: dob, is: before, value: 2000-01-01, zone: user}]}}, {purchase: shoe}], next: s}
      otherwise: exit
  - {id: s, split: {if: {attribute: unseen, is: exists}, then: exit, else: exit}}
exceptions: {mail: opened, tag: t}
exit_when: {rule: {mail: clicked, is: less_than_x_days_ago, value: 3}}
conversions: {name: c, when: {event: f}, within: 1d}
`).Names()
	want = journey.Names{Events: []string{"e", "f"}, Purchases: []string{"*", "shoe"}, Groups: []string{"g"},
		Attributes: []string{"country", "dob", "email_subscribe", "plan", "push_subscribe", "time_zone"},
		Mail:       []journey.MailNames{{Event: journey.MailClicked}, {Event: journey.MailOpened, Of: journey.MailOf{Tag: "t"}}}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// What the store cannot answer is no problem of the document.
func TestEnvAway(t *testing.T) {
	for name, text := range examples(t) {
		_, _, err := LoadYAML(text, world{away: true})
		if _, ok := err.(Problems); ok || !errors.Is(err, errAway) {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, _, err := LoadYAML("{id: a, entry: {when: {api: true}, who: {segment: gold}}, steps: [{id: a, exit: {}}]}", world{away: true})
	if !errors.Is(err, errAway) {
		t.Error(err)
	}
}

// A rule of a segment is that of the moment when the journey was compiled.
func TestSegmentInJourney(t *testing.T) {
	p := compiled(t, "{id: a, entry: {when: {api: true}, who: {segment: gold}}, steps: [{id: a, exit: {}}]}")
	out := []uint64{0, 0}
	if _, err := p.Entry.Who.Match([]string{`{"custom":{"plan":"gold"}}`, `{}`}, []uint64{1, 2}, 0, out); err != nil || out[0] != 1 || out[1] != 0 {
		t.Errorf("%b, %v", out, err)
	}
}

// other is a world in which the rule of a segment has changed.
type other struct{ world }

func (other) Segment(string) (string, bool, error) {
	return `{"attribute":"plan","is":"equals","value":"free"}`, true, nil
}

// A version has the rules of its segments: they are those of the publish, whatever segments
// are later. A document cannot bring them along.
func TestAVersionKeepsItsSegments(t *testing.T) {
	p := compiled(t, `{id: a, name: "a <b> & c", entry: {when: {api: true}, who: {segment: gold}}, steps: [{id: a, update: {attributes: {segments: {gold: 1}}}}]}`)
	text, err := p.Version()
	if err != nil {
		t.Fatal(err)
	}
	document, _ := SplitVersion(text)
	if document != p.Canonical() || text == document {
		t.Errorf("got %s of %s, want %s", document, text, p.Canonical())
	}
	if _, err := ParseVersion(text); err != nil {
		t.Error(err)
	}
	if _, _, err := LoadJSON(text, world{}); err == nil {
		t.Error("a document has segments of its own")
	}
	for text, want := range map[string][2]uint64{text: {1, 0}, document: {0, 1}} { // one of before has none
		_, loaded, err := LoadVersion(text, other{})
		if err != nil {
			t.Fatal(err)
		}
		out := []uint64{0, 0}
		if _, err := loaded.Entry.Who.Match([]string{`{"custom":{"plan":"gold"}}`, `{"custom":{"plan":"free"}}`}, []uint64{1, 2}, 0, out); err != nil || out[0] != want[0] || out[1] != want[1] {
			t.Errorf("%s: %b, %v, want %b", text, out, err, want)
		}
		if loaded.Canonical() != p.Canonical() {
			t.Errorf("loaded again it is %s", loaded.Canonical())
		}
	}
	p = compiled(t, "{id: a, entry: {when: {api: true}}, steps: [{id: a, exit: {}}]}")
	if text, err = p.Version(); err != nil || text != p.Canonical() {
		t.Errorf("without segments it is %s, %v", text, err)
	}
}

// large is a world with a segment whose rule is nearly as long as a rule may be.
type large struct{ world }

func (large) Segment(string) (string, bool, error) {
	return `{"attribute":"plan","is":"is_one_of","value":["` + strings.Repeat("<&>", 20_000) + `"]}`, true, nil
}

// A version is read again whatever the rules of its segments have in them.
func TestAVersionOfLargeSegments(t *testing.T) {
	const text = `{"id":"a","entry":{"when":{"api":true},"who":{"segment":"large"}},"steps":[{"id":"a","exit":{}}]}`
	_, p, err := LoadJSON(text, large{})
	if err != nil {
		t.Fatal(err)
	}
	version, err := p.Version()
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := LoadVersion(version, world{}); err != nil {
		t.Errorf("a version that was published is not read: %.200v", err)
	}
	want, _, _ := large{}.Segment("")
	if _, segments := SplitVersion(version); segments["large"] != want {
		t.Errorf("its rule has %d bytes, want %d", len(segments["large"]), len(want))
	}
}

// Rules of one step are asked together: its own first, then those of exit_when.
func TestRulesOfSteps(t *testing.T) {
	p := compiled(t, `
id: a
entry: {when: {event: e}}
steps:
  - id: s
    audiences:
      paths:
        - {name: gold, if: {attribute: plan, is: equals, value: gold}, next: exit}
        - {name: long, if: {context: days, is: greater_than, value: 7}, next: exit}
      otherwise: d
  - {id: d, delay: {for: 1s}}
exit_when: [{event: x}, {rule: {attribute: gone, is: exists}}, {rule: {journey: welcome, is: inside}}]
`)
	s := p.Steps[0]
	out := []uint64{0}
	given := []rule.Given{{Context: `{"days":8}`, Known: 1}}
	if _, err := s.Rules.MatchGiven([]string{`{"custom":{"gone":1}}`}, []uint64{1}, 0, given, out); err != nil || out[0] != 0b1110 || s.ExitBit != 2 {
		t.Errorf("%b, %v, exit rules from %d on", out, err, s.ExitBit)
	}
	if len(p.Needs) != 1 || p.Needs[0].Journey != "welcome" {
		t.Errorf("the rules ask %v", p.Needs)
	}
	if p.Exit[1].Rule != 0 || p.Exit[2].Rule != 1 || p.Steps[1].ExitBit != 0 {
		t.Errorf("%+v, %+v", p.Exit, p.Steps[1])
	}
}

func TestDurations(t *testing.T) {
	for text, want := range map[string]int64{"30s": 30, "5m": 300, "2h": 7200, "3d": 3 * 86400, "2w": 14 * 86400, "1d12h": 129600, "1w1d1h1m1s": 694861, "0s": 0, "731d": MaxSeconds, "007s": 7} {
		if got, err := ParseDuration(text); err != nil || got != want {
			t.Errorf("%s is %d s, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "5", "h", "5 m", "-5m", "5M", "1m1h", "1h1h", "1.5h", "732d", "999999999w", "9999999999s", "5mm", "٣d"} {
		if got, err := ParseDuration(text); err == nil {
			t.Errorf("%q is %d s", text, got)
		}
	}
	for seconds, want := range map[int64]string{0: "0s", 7200: "2h", 86400: "1d", 10 * 86400: "10d", 14 * 86400: "2w", 129600: "1d12h", -3 * 86400: "-3d"} {
		if got := DurationText(seconds); got != want {
			t.Errorf("%d s is %s, want %s", seconds, got, want)
		}
	}
}

// TestSameValue: values are the same as rules compare them. Numbers beyond float64 are
// infinite to those.
func TestSameValue(t *testing.T) {
	for pair, want := range map[[2]string]bool{
		{"-0", "0"}: true, {"0.1", "1e-1"}: true, {"5", "5.0"}: true, {`"\u00e9"`, `"é"`}: true,
		{"9007199254740993", "9007199254740992.0"}: true, {"18446744073709551616", "18446744073709551617"}: true,
		{"1e400", "1.0e400"}: true, {"-1e400", "-10e399"}: true, {"1e400", "1e500"}: true, {"1e-400", "0"}: true,
		{"1e400", "-1e400"}: false, {"1e400", "1e300"}: false, {"9007199254740993", "9007199254740992"}: false,
		{`"5"`, "5"}: false, {"null", `"null"`}: false, {"true", `"true"`}: false,
	} {
		if SameValue(pair[0], pair[1]) != want || SameValue(pair[1], pair[0]) != want {
			t.Errorf("%s and %s are the same: want %t", pair[0], pair[1], want)
		}
	}
}
