package plan

import (
	"fmt"
	"strings"
	"testing"
)

// base is a journey of which a case replaces a part.
const base = `{id: a, ENTRY, STEPS, REST}`

func filled(entry, steps, rest string) string {
	if entry == "" {
		entry = "entry: {when: {event: e}}"
	}
	if steps == "" {
		steps = "steps: [{id: s, exit: {}}]"
	}
	text := strings.NewReplacer("ENTRY", entry, "STEPS", steps, "REST", rest).Replace(base)
	return strings.Replace(text, ", }", "}", 1)
}

func problemsOf(t *testing.T, text string) Problems {
	t.Helper()
	_, p, err := LoadYAML(text, world{})
	all, ok := err.(Problems)
	if !ok {
		t.Fatalf("%s\nis %v, %v", text, p, err)
	}
	return all
}

func checkProblem(t *testing.T, text, place, want string) {
	t.Helper()
	all := problemsOf(t, text)
	if len(all) != 1 || all[0].Place != place || !strings.Contains(all[0].Want, want) {
		t.Errorf("%s\ngot  %v\nwant %s: %s", text, all, place, want)
	}
}

func TestProblemsOfEntries(t *testing.T) {
	for _, c := range []struct{ entry, place, want string }{
		{"entry: {}", "entry.when", "at least one trigger"},
		{"entry: {wen: {api: true}}", "entry.wen", "did you mean when?"},
		{"entry: {when: {}}", "entry.when", "want one of event, purchase"},
		{"entry: {when: {evnt: e}}", "entry.when.evnt", "did you mean event?"},
		{"entry: {when: [{api: true}, {evnt: e}]}", "entry.when[1].evnt", "did you mean event?"},
		{"entry: {when: {event: e, purchase: p}}", "entry.when", "got event and purchase"},
		{"entry: {when: {event: 5}}", "entry.when.event", "want a string, got 5"},
		{"entry: {when: {event: e, becomes: subscribed}}", "entry.when.becomes", "no such member beside event"},
		{"entry: {when: {event: e, where: {attribute: a, is: exists}}}", "entry.when.where", "want properties of what happens only, got attribute"},
		{"entry: {when: {event: e, where: {context: a, is: exists}}}", "entry.when.where.context", "about properties of what happens"},
		{"entry: {when: {event: e, where: {property: a, is: exist}}}", "entry.when.where.is", "want a comparison"},
		{"entry: {when: {rule: {attribute: a, is: exists}}}", "entry.when.rule", "lets nobody enter"},
		{"entry: {when: {attribute: country}}", "entry.when.attribute", "say field"},
		{"entry: {when: {field: plan}}", "entry.when.field", "others are an attribute"},
		{"entry: {when: {attribute: plan, from: gold, to: gold}}", "entry.when.to", "this is no change"},
		{"entry: {when: {attribute: plan, from: 5, to: 5.0}}", "entry.when.to", "5.0 is 5, and this is no change"},
		{"entry: {when: {attribute: plan, from: [1]}}", "entry.when.from", "a text, a number"},
		{"entry: {when: {group: g}}", "entry.when.becomes", "one of subscribed, unsubscribed"},
		{"entry: {when: {group: g, becomes: opted_in}}", "entry.when.becomes", "one of subscribed, unsubscribed, got"},
		{"entry: {when: {subscription: fax, becomes: subscribed}}", "entry.when.subscription", "email or push"},
		{"entry: {when: {mail: bounced}}", "entry.when.mail", "received, opened or clicked"},
		{"entry: {when: {mail: opened, journey: nowhere}}", "entry.when.journey", "there is no journey"},
		{"entry: {when: {mail: opened, step: s}}", "entry.when.step", "want a step that sends a message"},
		{"entry: {when: {mail: opened, message: remind}}", "entry.when.message", "32 hexadecimal digits"},
		{"entry: {when: {at: tomorrow}}", "entry.when.at", "2026-12-01 09:00"},
		{"entry: {when: {at: 2026-02-30 09:00}}", "entry.when.at", "a date and a time of day"},
		{"entry: {when: {at: 2026-12-01 09:00, every: year}}", "entry.when.every", "day, week or month"},
		{"entry: {when: {at: 2026-12-01 09:00, weekdays: monday}}", "entry.when.weekdays", "every: week only"},
		{"entry: {when: {at: 2026-12-01 09:00, every: week, weekdays: [monday, Moonday]}}", "entry.when.weekdays[1]", "a weekday as monday"},
		{"entry: {when: {at: 2026-12-01 09:00, every: week, days: 1}}", "entry.when.days", "every: month only"},
		{"entry: {when: {at: 2026-12-01 09:00, every: month, days: [1, 32]}}", "entry.when.days[1]", "1 to 31"},
		{"entry: {when: {at: 2026-12-01 09:00, until: 2027-12-01 09:00}}", "entry.when.until", "with every only"},
		{"entry: {when: {at: 2026-12-01 09:00, every: day, until: 2025-12-01 09:00}}", "entry.when.until", "after the first"},
		{"entry: {when: {at: 2026-12-01 09:00, zone: Mars/Olympus}}", "entry.when.zone", "IANA"},
		{"entry: {when: [{at: 2026-12-01 09:00}, {event: e}]}", "entry.when[0]", "want a time alone"},
		{"entry: {when: {event: e}, who: {property: a, is: exists}}", "entry.who.property", "say context"},
		{"entry: {when: {attribute: plan}, who: {context: a, is: exists}}", "entry.who.context", "with no context"},
		{"entry: {when: {event: e}, who: {and: [{segment: silver}]}}", "entry.who.and[0].segment", "no segment"},
		{"entry: {when: {event: e}, who: {journey: nowhere, is: inside}}", "entry.who", "there is no journey"},
		{"entry: {when: {event: e}, who: {journey: a, step: x, is: passed}}", "entry.who", "has no step"},
		{"entry: {when: {event: e}, who: {journey: a, step: s, branch: b, is: passed}}", "entry.who", "has no branch"},
		{"entry: {when: {event: e}, again_after: soon}", "entry.again_after", "want a duration"},
		{"entry: {when: {event: e}, again_after: 3y}", "entry.again_after", "want a duration"},
		{"entry: {when: {event: e}, again_after: 105w}", "entry.again_after", "at most two years"},
		{"entry: {when: {event: e}, limit: {per_day: 0}}", "entry.limit.per_day", "1 or more, got 0"},
		{"entry: {when: {event: e}, limit: {total: -1}}", "entry.limit.total", "1 to"},
		{"entry: {when: {event: e}, limit: {per_run: 5}}", "entry.limit.per_run", "with a schedule"},
		{"entry: {when: {event: e}, limit: {per_day: 1.5}}", "entry.limit.per_day", "a whole number"},
		{"entry: 5", "entry", "want an object, got 5"},
	} {
		checkProblem(t, filled(c.entry, "", ""), c.place, c.want)
	}
}

func TestProblemsOfSteps(t *testing.T) {
	const random = "random: {paths: [{name: a, weight: %s, next: exit}, {name: b, weight: %s, next: exit}]}"
	for _, c := range []struct{ step, place, want string }{
		{"", "steps.s", "want one of message, delay"},
		{"mesage: {}", "steps.s.mesage", "did you mean message?"},
		{"exit: {}, delay: {for: 1s}", "steps.s", "got delay and exit"},
		{"exit: {}, next: t", "steps.s.next", "want none beside exit"},
		{"exit: {in: 5}", "steps.s.exit.in", "want nothing here"},
		{"message: {}", "steps.s.message", "want one of template, content"},
		{"message: {template: cart, content: {subject: x, text: y}}", "steps.s.message", "got template and content"},
		{"message: {template: cartt}", "steps.s.message.template", "there is no template cartt"},
		{"message: {template: Cart!}", "steps.s.message.template", "want the id of a template"},
		{"message: {template: cart, version: 3}", "steps.s.message.version", "no version 3"},
		{"message: {template: cart, class: vital}", "steps.s.message.class", "marketing or transactional"},
		{"message: {template: cart, priority: vital}", "steps.s.message.priority", "high, normal or low"},
		{"message: {template: cart, latest: 30s}", "steps.s.message.latest", "want 1m to 30d"},
		{"message: {template: cart, latest: 31d}", "steps.s.message.latest", "want 1m to 30d"},
		{"message: {template: cart, tags: [a, 'b,c']}", "steps.s.message.tags[1]", "want a tag"},
		{"message: {template: cart, variables: [1]}", "steps.s.message.variables", "want an object"},
		{"message: {content: {subject: '{{', text: y}}", "steps.s.message.content.subject", "subject"},
		{"message: {content: {subject: x, body: y}}", "steps.s.message.content.body", "no such member"},
		{"message: {content: {from: Example Shop, subject: x, text: y}}", "steps.s.message.content.from", "Example Shop"},
		{"delay: {}", "steps.s.delay", "want one of for, until, until_date"},
		{"delay: {fr: 1h}", "steps.s.delay.fr", "did you mean for?"},
		{"delay: {for: 0s}", "steps.s.delay.for", "want 1s to"},
		{"delay: {for: 732d}", "steps.s.delay.for", "at most two years"},
		{"delay: {for: 1h, until_date: {attribute: a}}", "steps.s.delay", "until_date alone"},
		{"delay: {until: {time: '24:00'}}", "steps.s.delay.until.time", "a time of day"},
		{"delay: {until: {time: 9:00}}", "steps.s.delay.until.time", "a time of day"},
		{"delay: {until: {time: '09:00', weekdays: [monday, monday]}}", "steps.s.delay.until.weekdays[1]", "twice"},
		{"delay: {until: {time: '09:00', zone: person}}", "steps.s.delay.until.zone", `want "user"`},
		{"delay: {until_date: {time: '09:00'}}", "steps.s.delay.until_date", "want one of attribute, field, context"},
		{"delay: {until_date: {attribute: dob}}", "steps.s.delay.until_date.attribute", "say field"},
		{"delay: {until_date: {field: plan}}", "steps.s.delay.until_date.field", "others are an attribute"},
		{"delay: {until_date: {attribute: a, plus: 3}}", "steps.s.delay.until_date.plus", "want a string, got 3"},
		{"delay: {until_date: {attribute: a, plus: '--3d'}}", "steps.s.delay.until_date.plus", "perhaps with a minus sign"},
		{"delay: {until_date: {attribute: a, otherwise: t}}", "steps.s.delay.until_date.otherwise", `no step "t"`},
		{"delay: {for: 1s}, next: ss", "steps.s.next", "did you mean s?"},
		{"delay: {for: 1s}, next: s", "steps.s.next", "leads back (s > s)"},
		{"split: {then: exit, else: exit}", "steps.s.split.if", "want a rule"},
		{"split: {if: {attribute: a, is: exists}, then: exit}", "steps.s.split.else", "want the id of a step, or exit"},
		{"split: {if: {attribute: a, is: exists}, then: exit, els: exit}", "steps.s.split.els", "did you mean else?"},
		{"split: {if: {attribute: a}, then: exit, else: exit}", "steps.s.split.if.is", "want a comparison"},
		{"split: {if: yes, then: exit, else: exit}", "steps.s.split.if", "an object"},
		{"audiences: {paths: [], otherwise: exit}", "steps.s.audiences.paths", "there is none"},
		{"audiences: {paths: [{name: otherwise, if: {attribute: a, is: exists}, next: exit}], otherwise: exit}", "steps.s.audiences.paths[0].name", "of its own"},
		{"wait_for: {within: 1d, paths: [{name: a, when: {api: true}, next: exit}], otherwise: exit}", "steps.s.wait_for.paths[0].when.api", "can be waited for"},
		{"wait_for: {within: 1d, paths: [{name: a, when: [], next: exit}], otherwise: exit}", "steps.s.wait_for.paths[0].when", "at least one trigger"},
		{"wait_for: {paths: [{name: a, when: {event: x}, next: exit}], otherwise: exit}", "steps.s.wait_for.within", "want a duration"},
		{fmt.Sprintf(random, "50", "51"), "steps.s.random.paths", "add up to 100, got 101"},
		{fmt.Sprintf(random, "33.333", "66.67"), "steps.s.random.paths[0].weight", "two decimals"},
		{fmt.Sprintf(random, "-1", "101"), "steps.s.random.paths[0].weight", "0 to 100"},
		{fmt.Sprintf(random, "x", "100"), "steps.s.random.paths[0].weight", "want a number, got"},
		{"random: {paths: [{name: a, weight: 100, next: exit}]}", "steps.s.random.paths", "want 2 to 50 paths"},
		{"random: {paths: [{name: a, weight: 50, next: exit, control: true}, {name: b, weight: 50, next: exit, control: true}]}", "steps.s.random.paths", "one path with control"},
		{"update: {attributes: {}}", "steps.s.update.attributes", "at least one attribute"},
		{"update: {attributes: {email: 5}}", "steps.s.update.attributes", "'email'"},
		{"update: {attributes: {external_id: x}}", "steps.s.update.attributes.external_id", "that a profile can hold"},
		{"go: {journey: a}", "steps.s.go.journey", "want another journey"},
		{"go: {journey: nowhere}", "steps.s.go.journey", "there is no journey"},
	} {
		text := filled("", "steps: [{id: s, "+c.step+"}]", "")
		if c.place == "steps.s.random.paths[0].weight" && c.want == "0 to 100" {
			text = strings.Replace(text, "101", "100", 1)
		}
		checkProblem(t, text, c.place, c.want)
	}
}

func TestProblemsOfTheRest(t *testing.T) {
	for _, c := range []struct{ rest, place, want string }{
		{"zone: Nowhere", "zone", "IANA"},
		{"zone: Local", "zone", "IANA"},
		{"tags: ['']", "tags[0]", "want a tag"},
		{"exit_when: {api: true}", "exit_when.api", "only what happens to a person"},
		{"exceptions: {rule: {attribute: a, is: exists}}", "exceptions.rule", "for exit_when"},
		{"quiet: {from: '22:00', to: '22:00'}", "quiet.to", "another time than from"},
		{"quiet: {from: '22:00', to: '08:00', then: drop}", "quiet.then", "wait or skip"},
		{"quiet: {from: '22:00'}", "quiet.to", "a time of day"},
		{"limits: {per_minute: -1}", "limits.per_minute", "1 to"},
		{"conversions: {name: c, when: {event: e}, within: 91d}", "conversions.within", "want 1s to 90d"},
		{"conversions: [{name: c, when: {event: e}, within: 1d}, {name: c, when: {event: e}, within: 1d}]", "conversions[1].name", "is there twice"},
		{"control: {percent: 100}", "control.percent", "0.01 to 99.99"},
		{"control: {}", "control.percent", "a number of percent"},
		{"control: 5", "control", "want an object"},
		{"id: b", "", "already defined"},
		{"descripton: x", "descripton", "did you mean description?"},
	} {
		checkProblem(t, filled("", "", c.rest), c.place, c.want)
	}
	checkProblem(t, "", "", "want a journey")
	checkProblem(t, "[1]", "", "want a journey")
	checkProblem(t, "a: [", "", "line 1")
	checkProblem(t, filled("", "", "name: &x y"), "name", "an anchor")
	checkProblem(t, filled("entry: {when: {event: e}, who: {attribute: *x, is: exists}}", "", ""), "entry.who", "an alias")
	checkProblem(t, strings.Repeat(" ", MaxDocumentBytes+1), "", "at most 262144 bytes")
}

// A draft is kept without members that are 0, so 0 is refused as it is read: kept, the journey
// would have no limit. null is as if the member were not there.
func TestNumbersOfDrafts(t *testing.T) {
	at := "entry: {when: {at: 2026-12-01 09:00, every: month, days: [1]}, limit: {per_day: N, total: N, per_run: N}}"
	step := "steps: [{id: s, message: {template: welcome, version: N}}]"
	text := filled(at, step, "limits: {per_minute: N}")
	_, err := ParseYAML(strings.ReplaceAll(text, "N", "0"))
	if all, ok := err.(Problems); !ok || len(all) != 5 {
		t.Errorf("a draft with numbers that are 0: %v", err)
	}
	if _, p, err := LoadYAML(strings.ReplaceAll(text, "N", "null"), world{}); err != nil || p.PerMinute != 0 || p.Entry.PerDay != 0 {
		t.Errorf("a journey with numbers that are null: %+v, %v", p, err)
	}
	if _, err := ParseJSON(`{"id":"a","entry":{"when":[{"at":"2026-12-01 09:00","days":[0]}],"limit":{"per_day":-1}},"steps":[]}`); err != nil {
		t.Errorf("a draft that is kept as it was written: %v", err)
	}
}

// Ways: none leads back, all steps are led to. What follows from a mistake is not told.
func TestProblemsOfWays(t *testing.T) {
	delay := func(id, next string) string { return "{id: " + id + ", delay: {for: 1s}, next: " + next + "}" }
	split := func(id, then, other string) string {
		return "{id: " + id + ", split: {if: {attribute: a, is: exists}, then: " + then + ", else: " + other + "}}"
	}
	steps := func(all ...string) string { return filled("", "steps: ["+strings.Join(all, ", ")+"]", "") }
	checkProblem(t, steps(delay("s", "t"), split("t", "u", "exit"), delay("u", "s")), "steps.u.next", "leads back (s > t > u > s)")
	checkProblem(t, steps(delay("s", "exit"), delay("t", "u"), delay("u", "exit")), "steps.t", "no step leads here")
	checkProblem(t, steps(delay("s", "exit"), delay("t", "u"), delay("u", "t")), "steps.u.next", "leads back (t > u > t)")
	checkProblem(t, steps(delay("start", "remindd"), delay("remind", "exit")), "steps.start.next", "did you mean remind?")
	checkProblem(t, steps(delay("start", "xyzzy"), delay("remind", "exit")), "steps.start.next", `no step "xyzzy"`)
	checkProblem(t, steps(delay("s", "t"), delay("t", "exit"), delay("t", "exit")), "steps[2].id", "is there twice")
	checkProblem(t, steps("{delay: {for: 1s}}"), "steps[0].id", "want the id of a step")
	checkProblem(t, steps(delay("exit", "exit")), "steps.exit.id", "exit is the end")
	checkProblem(t, filled("", "steps: []", ""), "steps", "at least one step")
	checkProblem(t, filled("", "steps: {id: s, exit: {}}", ""), "steps", "want a list")
	many := make([]string, MaxSteps+1)
	for i := range many {
		many[i] = delay(fmt.Sprint("s", i), fmt.Sprint("s", i+1))
	}
	many[MaxSteps] = delay(fmt.Sprint("s", MaxSteps), "exit")
	checkProblem(t, steps(many...), "steps", "at most 200 steps, got 201")
	many = many[:MaxSteps]
	many[MaxSteps-1] = delay(fmt.Sprint("s", MaxSteps-1), "exit")
	if _, _, err := LoadYAML(steps(many...), world{}); err != nil {
		t.Error(err)
	}
}

// All problems are told at once, in the order of the text, with their lines.
func TestAllProblemsAtOnce(t *testing.T) {
	const text = `id: A
entry:
  when: {event: e, colour: red}
  again_after: 1y
steps:
  - id: first
    message: {template: cart, later: 5}
    next: secnd
  - id: second
    delay: {for: 3}
    next: first
  - id: third
    split:
      if: {attribute: 5, is: exists}
      then: exit
  - random: {paths: [{name: a, weight: 1, next: exit}, {name: a, weight: 1, next: exit}]}
zone: Mars
`
	want := `line 1: id: want an id of lower-case letters, digits and hyphens, at most 64; got "A"
line 3: entry.when.colour: there is no such member; known are
line 4: entry.again_after: want a duration as 30s,
line 7: steps.first.message.later: there is no such member; did you mean latest?
line 8: steps.first.next: want the id of a step, or exit; there is no step "secnd"; did you mean second?
line 10: steps.second.delay.for: want a string, got 3
line 11: steps.second.next: want a step further on: this way leads back (first > second > first)
line 13: steps.third.split.else: want the id of a step, or exit
line 14: steps.third.split.if.attribute: want a name, got a number
line 16: steps[3].id: want the id of a step
line 16: steps[3].random.paths: want weights that add up to 100, got 2
line 16: steps[3].random.paths[1].name: want a name of its own
line 17: zone: want "user"`
	for range 20 {
		all := problemsOf(t, text)
		lines := strings.Split(want, "\n")
		if len(all) != len(lines) {
			t.Fatalf("got\n%v\nwant\n%s", all, want)
		}
		for i, line := range lines {
			if !strings.HasPrefix(all[i].String(), line) {
				t.Fatalf("problem %d is\n%v\nwant\n%s", i, all[i], line)
			}
		}
	}
}

// As JSON the same is refused, where it can be said.
func TestProblemsOfJSON(t *testing.T) {
	for text, want := range map[string]string{
		`{"id":"a","id":"b","entry":{"when":{"api":true}},"steps":[{"id":"s","exit":{}}]}`: "id: want it once, it is there twice",
		`{"id":"a"`: "want a journey, which is an object: not JSON",
		`{"id":"a","entry":{"when":{"api":true}},"steps":[{"id":"s","exit":{}}]} x`:                                                        "not JSON",
		`{"id":"a","entry":{"when":{"api":true},"who":` + strings.Repeat(`{"not":`, 50) + `{}` + strings.Repeat("}", 50) + `},"steps":[]}`: "entry.who: want at most 40 levels",
	} {
		_, _, err := LoadJSON(text, world{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\ngot  %v\nwant %s", text, err, want)
		}
	}
	if _, err := ParseJSON(`{"id":"a","steps":[]}`); err != nil {
		t.Error(err)
	}
	if _, err := ParseYAML("{id: a, stepz: []}"); err == nil {
		t.Error("an unknown member is read")
	}
}

// Rules look at what a step has waited for behind that step alone, and where it has met
// something that has properties.
func TestProblemsOfWhatWasWaitedFor(t *testing.T) {
	const steps = `steps: [
		{id: early, split: {if: {property: x, step: EARLY, is: exists}, then: w, else: w}},
		{id: w, wait_for: {within: 1d, paths: [{name: a, when: {event: f}, next: s}, {name: b, when: {attribute: plan}, next: none}], otherwise: none}},
		{id: none, split: {if: {property: x, step: NONE, is: exists}, then: exit, else: v}},
		{id: v, wait_for: {within: 1d, paths: [{name: a, when: [{mail: opened}, {rule: {property: x, step: RULE, is: exists}}], next: exit}], otherwise: exit}},
		{id: s, delay: {for: 1h}, next: last},
		{id: last, audiences: {paths: [{name: a, if: {property: x, step: LAST, is: exists}, next: exit}], otherwise: exit}}]`
	for _, c := range []struct{ early, none, rule, last, place, want string }{
		{"w", "", "", "w", "steps.early.split.if", "want a step behind w"},
		{"", "w", "", "w", "steps.none.split.if", "on a path on which it has met an event"},
		{"", "", "w", "w", "steps.v.wait_for.paths[0].when[1].rule", "want a step behind w"},
		{"", "", "", "v", "steps.last.audiences.paths[0].if", "want a step that waits for an event or a purchase"},
		{"", "", "", "s", "steps.last.audiences.paths[0].if", "s waits for nothing that happens"},
		{"", "", "", "x", "steps.last.audiences.paths[0].if", `there is no step "x"`},
	} {
		text := steps
		for name, of := range map[string]string{"EARLY": c.early, "NONE": c.none, "RULE": c.rule, "LAST": c.last} {
			if of == "" { // asks the profile
				text = strings.Replace(text, "property: x, step: "+name, "attribute: x", 1)
			}
			text = strings.Replace(text, name, of, 1)
		}
		checkProblem(t, filled("", strings.ReplaceAll(text, "\t", " "), ""), c.place, c.want)
	}
	checkProblem(t, filled("", "", "exit_when: {rule: {property: x, step: w, is: exists}}"), "exit_when.rule.property", "known behind that step alone")
	checkProblem(t, filled("entry: {when: {event: e}, who: {property: x, step: w, is: exists}}", "", ""), "entry.who.property", "known behind that step alone")
	checkProblem(t, filled("entry: {when: {event: e, where: {property: x, step: w, is: exists}}}", "", ""), "entry.when.where.property", "about properties of what happens, and nothing else")
}

// TestNewChecksLeaveVersionsAlone: a version that an earlier program has published is loaded,
// though a document like that is refused now.
func TestNewChecksLeaveVersionsAlone(t *testing.T) {
	for name, text := range map[string]string{
		"a change from 5 to 5.0, which never happens": `{"id":"a","entry":{"when":[{"attribute":"plan","from":5,"to":5.0}]},"steps":[{"id":"d","delay":{"for":"1h"}}]}`,
		"a sender without an address":                 `{"id":"a","entry":{"when":{"event":"e"}},"steps":[{"id":"m","message":{"content":{"from":"Example Shop","subject":"s","text":"t"}}}]}`,
	} {
		if _, _, err := LoadJSON(text, world{}); err == nil {
			t.Errorf("%s: it is taken", name)
		}
		if _, _, err := LoadVersion(text, world{}); err != nil {
			t.Errorf("%s: a version that has it is refused: %v", name, err)
		}
	}
}

// A document in which very much is wrong is refused for a part of it. What is lacking is
// looked for among what was found, so to gather all of 256 KiB took minutes.
func TestFewProblemsAreGathered(t *testing.T) {
	const triggers = `{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}`
	paths := strings.TrimSuffix(strings.Repeat(`{"when":[`+triggers+`]},`, MaxPaths), ",")
	steps := make([]string, 3)
	for i := range steps {
		steps[i] = fmt.Sprintf(`{"id":"s%d","wait_for":{"within":"1d","paths":[%s],"otherwise":"exit"}}`, i, paths)
	}
	text := `{"id":"a","entry":{"when":{"event":"e"}},"steps":[` + strings.Join(steps, ",") + `]}`
	doc, err := ParseJSON(text)
	if err != nil {
		t.Fatal(err)
	}
	found := newCollector()
	_, err = compile(doc, world{}, found)
	all, ok := err.(Problems)
	if !ok || len(all) != MaxProblems {
		t.Errorf("%d problems, %v", len(all), ok)
	}
	if len(found.found) != maxFoundProblems {
		t.Errorf("%d problems were gathered, want %d", len(found.found), maxFoundProblems)
	}
}
