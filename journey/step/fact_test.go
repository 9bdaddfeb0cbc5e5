package step

import (
	"strings"
	"testing"
	"time"

	"sluice"
	"sluice/journey"
	"sluice/user"
)

// life tells one person of facts, one an hour, and of the time in between.
type life struct {
	*testing.T
	j   *Journey
	p   Person
	now time.Time
	out Result
	did []string
}

func newLife(t *testing.T, text, profile string) *life {
	t.Helper()
	return &life{T: t, j: load(t, text), p: Person{ID: user.ID{Number: 1}, Profile: profile}, now: start}
}

// tell tells a fact: event NAME, or a body of changed attributes. It returns the state.
func (l *life) tell(what string) journey.State {
	l.Helper()
	f := journey.Fact{Kind: journey.FactEvent, Name: what}
	if strings.HasPrefix(what, "{") {
		f = journey.Fact{Kind: journey.FactAttributes, Body: what}
	}
	came, err := l.j.Fact(&l.p, &f, l.now, &l.out)
	if err != nil {
		l.Fatal(err)
	}
	if came {
		l.take()
	}
	l.now = l.now.Add(time.Hour)
	return l.p.Record.State
}

// pass lets time pass, and the person go on when it is due.
func (l *life) pass(d time.Duration) journey.State {
	l.Helper()
	end := l.now.Add(d)
	for l.p.Record.Waits() && int64(l.p.Record.Due) <= end.Unix() {
		l.now = time.Unix(int64(l.p.Record.Due), 0)
		if err := l.j.Due([]Person{l.p}, l.now, &l.out); err != nil {
			l.Fatal(err)
		}
		l.take()
	}
	l.now = end
	return l.p.Record.State
}

func (l *life) take() {
	l.p.Record = l.out.Records[0]
	for _, d := range l.out.Mails {
		l.did = append(l.did, l.j.Plan().Steps[d.Step].ID)
	}
}

func (l *life) want(did string, state, want journey.State) {
	l.Helper()
	if got := strings.Join(l.did, " "); got != did || state != want {
		l.Errorf("mails %q, %s; want %q, %s", got, state, did, want)
	}
}

const rankedText = `
id: ranked
entry: {when: {event: in}}
steps:
  - id: wait
    wait_for:
      within: 1d
      ranked: true
      paths: [{name: best, when: {event: a}, next: best}, {name: good, when: {event: b}, next: good}, {name: fair, when: [{event: c}, {event: d}], next: fair}]
      otherwise: none
  - {id: best, message: {template: x}}
  - {id: good, message: {template: x}}
  - {id: fair, message: {template: x}}
  - {id: none, message: {template: x}}
`

// Of a ranked wait the best path counts, at the end; the very best one ends it at once.
func TestRankedWait(t *testing.T) {
	for facts, want := range map[string]string{"": "none", "c": "fair", "d b": "good", "b d c": "good", "x": "none"} {
		l := newLife(t, rankedText, `{}`)
		l.tell("in")
		for _, f := range strings.Fields(facts) {
			l.want("", l.tell(f), journey.StateInside)
		}
		l.want(want, l.pass(2*24*time.Hour), journey.StateFinished)
	}
	l := newLife(t, rankedText, `{}`)
	l.tell("in")
	l.tell("c")
	l.want("best", l.tell("a"), journey.StateFinished)
	plain := newLife(t, strings.Replace(rankedText, "ranked: true", "ranked: false", 1), `{}`)
	plain.tell("in")
	plain.want("fair", plain.tell("d"), journey.StateFinished)
}

// In a pause nobody goes on by what is waited for. It is noted, and decides at the end of the
// pause: the first path that has happened, or of a ranked wait the best.
func TestWhatIsWaitedForInAPause(t *testing.T) {
	for text, wants := range map[string]map[string]string{
		rankedText: {"": "none", "c": "fair", "d b": "good", "c a b": "best"},
		strings.Replace(rankedText, "ranked: true", "ranked: false", 1): {"": "none", "c": "fair", "d b": "fair", "a b": "best"},
	} {
		for facts, want := range wants {
			l := newLife(t, text, `{}`)
			l.tell("in")
			live, due := l.j, l.p.Record.Due
			l.j = live.Paused().Standing()
			for _, f := range strings.Fields(facts) {
				l.want("", l.tell(f), journey.StateInside)
			}
			if ends := strings.Contains(text, "ranked: false") && facts != "" || want == "best"; (l.p.Record.Due < due) != ends {
				t.Errorf("%q: due at %d, without a pause at %d", facts, l.p.Record.Due, due)
			}
			l.j = live
			if facts != "" && !l.j.Plan().Steps[0].Ranked {
				l.want("", l.tell("a"), journey.StateInside) // before anybody was moved
			}
			l.want(want, l.pass(2*24*time.Hour), journey.StateFinished)
		}
	}
	l := newLife(t, exitsText, `{}`)
	l.tell("in")
	l.j = l.j.Standing()
	l.want("", l.tell("gone"), journey.StateExited)
}

// A rule that is waited for is looked at on arrival, and when what it looks at changes.
func TestWaitForRule(t *testing.T) {
	const text = `
id: rules
entry: {when: {event: in}}
steps:
  - id: wait
    wait_for: {within: 1d, paths: [{name: gold, when: {rule: {attribute: plan, is: equals, value: gold}}, next: thanks}], otherwise: exit}
  - {id: thanks, message: {template: x}}
`
	l := newLife(t, text, `{"custom":{"plan":"gold"}}`)
	l.want("thanks", l.tell("in"), journey.StateFinished)
	l = newLife(t, text, `{}`)
	l.want("", l.tell("in"), journey.StateInside)
	l.want("", l.tell(`{"plan":[null,"free"]}`), journey.StateInside)
	l.p.Profile = `{"custom":{"plan":"gold"}}`
	l.want("thanks", l.tell(`{"plan":["free","gold"]}`), journey.StateFinished)
	l = newLife(t, text, `{}`)
	l.tell("in")
	l.want("", l.pass(2*24*time.Hour), journey.StateFinished)
}

// A rule of a ranked wait counts that holds on arrival: that of the best path ends the
// wait, another one is what is taken at the end if no better one comes.
func TestRankedWaitForRule(t *testing.T) {
	text := strings.Replace(rankedText, "when: {event: b}", "when: [{event: b}, {rule: {attribute: plan, is: equals, value: silver}}]", 1)
	text = strings.Replace(text, "when: {event: a}", "when: [{event: a}, {rule: {attribute: plan, is: equals, value: gold}}]", 1)
	l := newLife(t, text, `{"custom":{"plan":"gold"}}`)
	l.want("best", l.tell("in"), journey.StateFinished)
	for facts, want := range map[string]string{"": "good", "c": "good", "b": "good", "a": "best"} {
		l := newLife(t, text, `{"custom":{"plan":"silver"}}`)
		l.want("", l.tell("in"), journey.StateInside)
		for _, f := range strings.Fields(facts) {
			l.tell(f)
		}
		l.want(want, l.pass(2*24*time.Hour), journey.StateFinished)
	}
}

const exitsText = `
id: exits
entry: {when: {event: in}, again_after: 2h}
steps:
  - {id: first, delay: {for: 1d}, next: mail}
  - {id: mail, message: {template: x}, next: second}
  - {id: second, delay: {for: 1d}, next: last}
  - {id: last, message: {template: x}}
exit_when: [{event: gone}, {rule: {attribute: stop, is: exists}}]
exceptions: {event: except}
conversions: [{name: c, when: {event: bought}, within: 36h}]
`

// Exits act in every step, exceptions in the first only; a rule of exit_when acts on a
// fact and on arrival at a step.
func TestExits(t *testing.T) {
	l := newLife(t, exitsText, `{}`)
	left := func(kind journey.CauseKind, index int) {
		t.Helper()
		var kept journey.Record
		if err := kept.Decode(l.p.Record.Append(nil)); err != nil {
			t.Fatal(err)
		}
		if why, at := kept.Left(); why != (journey.Cause{Kind: kind, Index: index}) || at == 0 {
			t.Errorf("the person left by %+v at %d, want kind %d, index %d", why, at, kind, index)
		}
	}
	l.tell("in")
	l.want("", l.tell("except"), journey.StateExited)
	left(journey.CauseException, 0)
	l.want("", l.tell("in"), journey.StateInside) // two hours after
	if l.p.Record.Occurrence != 1 {
		t.Errorf("the second time is occurrence %d", l.p.Record.Occurrence)
	}
	l.pass(24 * time.Hour)
	l.want("mail", l.tell("except"), journey.StateInside)
	l.want("mail", l.tell("gone"), journey.StateExited)
	left(journey.CauseExit, 0)

	l = newLife(t, exitsText, `{}`)
	l.tell("in")
	l.p.Profile = `{"custom":{"stop":1}}`
	l.want("", l.tell(`{"stop":[null,1]}`), journey.StateExited)
	left(journey.CauseExit, 1)

	l = newLife(t, exitsText, `{}`)
	l.tell("in")
	l.p.Profile = `{"custom":{"stop":1}}` // before anything was told
	l.want("", l.pass(24*time.Hour), journey.StateExited)
	left(journey.CauseExit, 1)
}

// A conversion counts once an occurrence, inside and afterwards, and not too late.
func TestConversions(t *testing.T) {
	for _, c := range []struct {
		after time.Duration
		want  uint16
	}{{0, 1}, {24 * time.Hour, 1}, {34 * time.Hour, 1}, {36 * time.Hour, 0}} {
		l := newLife(t, exitsText, `{}`)
		l.tell("in")
		l.pass(c.after)
		l.tell("bought")
		l.tell("bought")
		if got := l.p.Record.Converted; got != c.want {
			t.Errorf("bought after an hour and %s: converted is %b, want %b", c.after, got, c.want)
		}
	}
	watched := newLife(t, strings.Replace(exitsText, "within: 36h", "within: 4d", 1), `{}`)
	watched.tell("in")
	watched.want("mail last", watched.pass(3*24*time.Hour), journey.StateWatching)
	watched.want("mail last", watched.tell("in"), journey.StateWatching) // nobody enters who is watched
	if watched.tell("bought"); watched.p.Record.Converted != 1 {
		t.Error("a conversion of a person who is watched is not counted")
	}
	watched.want("mail last", watched.pass(2*24*time.Hour), journey.StateFinished)
}

// In the second in which nobody is watched any more a conversion counts still, and who does
// something else may enter.
func TestTheLastSecondOfAConversion(t *testing.T) {
	text := strings.Replace(exitsText, "within: 36h", "within: 4d", 1)
	for name, want := range map[string]int{"bought": 0, "in": 1} {
		l := newLife(t, text, `{}`)
		l.tell("in")
		entered := int64(l.p.Record.Entered)
		l.want("mail last", l.pass(3*24*time.Hour), journey.StateWatching)
		at := sluice.Position{Major: uint64(entered+4*24*60*60) * 1000}
		f := journey.Fact{Kind: journey.FactEvent, Name: name, Place: sluice.Place{Position: at}}
		if came, err := l.j.Fact(&l.p, &f, l.now, &l.out); err != nil || !came {
			t.Fatalf("%s: %v, %v", name, came, err)
		}
		if r := &l.out.Records[0]; int(r.Occurrence) != want || r.Converted != uint16(1-want) {
			t.Errorf("%s: occurrence %d, converted %b", name, r.Occurrence, r.Converted)
		}
	}
}

// What was accepted within the time converts, also if it is told later, as behind a database
// that was away; what came later does not.
func TestAConversionCountsByWhenItWasAccepted(t *testing.T) {
	for after, want := range map[time.Duration]uint16{36 * time.Hour: 1, 37 * time.Hour: 0} {
		l := newLife(t, exitsText, `{}`)
		l.tell("in")
		bought := journey.Fact{Kind: journey.FactEvent, Name: "bought", Place: sluice.Place{Position: sluice.Position{Major: uint64(start.Add(after).UnixMilli())}}}
		if _, err := l.j.Fact(&l.p, &bought, start.Add(40*time.Hour), &l.out); err != nil || l.out.Records[0].Converted != want {
			t.Errorf("accepted %s after the entry: converted is %b, %v; want %b", after, l.out.Records[0].Converted, err, want)
		}
	}
}

// Somebody who is deleted or merged leaves the step at which it is; who has finished and
// is watched leaves none.
func TestWhoIsGoneLeavesItsStep(t *testing.T) {
	for inside, want := range map[bool]int{true: 1, false: 0} {
		l := newLife(t, strings.Replace(exitsText, "within: 36h", "within: 4d", 1), `{}`)
		l.tell("in")
		if !inside {
			l.pass(3 * 24 * time.Hour)
		}
		if _, err := l.j.Fact(&l.p, &journey.Fact{Kind: journey.FactDeleted}, l.now, &l.out); err != nil {
			t.Fatal(err)
		}
		left := 0
		for c, n := range l.out.Counts {
			if c.What == Exited {
				left += n
			}
		}
		if left != want || l.out.Records[0].State != journey.StateExited {
			t.Errorf("inside: %v: %d have left steps, want %d; the person is %s", inside, left, want, l.out.Records[0].State)
		}
	}
}

// Mail that is received, opened or clicked lets in, is waited for, takes out and
// converts, by message, tag, journey and step.
func TestFactsOfMail(t *testing.T) {
	const text = `
id: mails
entry: {when: {mail: received, tag: offer}}
steps:
  - id: wait
    wait_for:
      within: 1d
      paths: [{name: ours, when: {mail: opened, step: thanks}, next: thanks}, {name: other, when: [{mail: clicked, journey: welcome}, {mail: clicked, message: 0123456789abcdef0123456789abcdef}], next: other}]
      otherwise: none
  - {id: thanks, message: {template: x}}
  - {id: other, message: {template: x}}
  - {id: none, message: {template: x}}
exit_when: {mail: opened, tag: stop}
conversions: {name: c, when: {mail: clicked, journey: mails}, within: 2d}
`
	l := newLife(t, text, `{}`)
	tell := func(event journey.MailEvent, m journey.Mailed) journey.State {
		t.Helper()
		f := journey.Fact{Kind: journey.FactMail, Name: string(event), Body: m.Text()}
		if came, err := l.j.Fact(&l.p, &f, l.now, &l.out); err != nil {
			t.Fatal(err)
		} else if came {
			l.take()
		}
		return l.p.Record.State
	}
	if l.j.Wants(&journey.Fact{Kind: journey.FactMail, Name: "delivered"}) || !l.j.Wants(&journey.Fact{Kind: journey.FactMail, Name: "clicked"}) {
		t.Error("it wants other mail than it waits for")
	}
	l.want("", tell(journey.MailReceived, journey.Mailed{Tags: "offers,a"}), journey.StateNone)
	l.want("", tell(journey.MailOpened, journey.Mailed{Tags: "offer"}), journey.StateNone)
	l.want("", tell(journey.MailReceived, journey.Mailed{Tags: "a,offer"}), journey.StateInside)
	l.want("", tell(journey.MailOpened, journey.Mailed{Journey: "welcome", Step: "thanks"}), journey.StateInside)
	l.want("", tell(journey.MailOpened, journey.Mailed{Journey: "mails", Step: "other"}), journey.StateInside)
	l.want("", tell(journey.MailClicked, journey.Mailed{Journey: "mails"}), journey.StateInside)
	if l.p.Record.Converted != 1 {
		t.Error("a click on a mail of the journey is no conversion")
	}
	l.want("thanks", tell(journey.MailOpened, journey.Mailed{Journey: "mails", Step: "thanks"}), journey.StateWatching)
	for _, m := range []journey.Mailed{{Journey: "welcome"}, {Message: "0123456789abcdef0123456789abcdef"}} {
		l = newLife(t, text, `{}`)
		tell(journey.MailReceived, journey.Mailed{Tags: "offer"})
		l.want("other", tell(journey.MailClicked, m), journey.StateWatching)
	}
	l = newLife(t, text, `{}`)
	tell(journey.MailReceived, journey.Mailed{Tags: "offer"})
	l.want("", tell(journey.MailOpened, journey.Mailed{Journey: "mails", Step: "thanks", Tags: "stop"}), journey.StateExited)
}

// A rule that is waited for and asks about mail is looked at when something happens to
// mail, with what is known of the person by then.
func TestRulesOfMailAreWaitedFor(t *testing.T) {
	l := newLife(t, `
id: rules
entry: {when: {event: in}}
steps:
  - id: wait
    wait_for:
      within: 1d
      paths: [{name: read, when: {rule: {and: [{mail: opened, tag: a, is: exists}, {not: {mail: clicked, is: exists}}]}}, next: read}]
      otherwise: exit
  - {id: read, message: {template: x}}
`, `{}`)
	l.tell("in")
	f := journey.Fact{Kind: journey.FactMail, Name: "opened", Body: (&journey.Mailed{Tags: "a"}).Text()}
	for known, want := range []journey.State{journey.StateInside, journey.StateFinished, journey.StateInside, journey.StateInside} {
		p := l.p
		p.Given.Known = uint64(known)
		if _, err := l.j.Fact(&p, &f, l.now, &l.out); err != nil {
			t.Fatal(err)
		}
		if got := l.out.Records[0].State; got != want {
			t.Errorf("known %d: %s, want %s", known, got, want)
		}
	}
	if f.Name = "received"; l.j.Wants(&f) {
		t.Error("it wants mail that no rule asks about")
	}
}

// The clock of a process may be behind what it is told of, and what it has known somebody to
// be due by. A wait counts from when that was accepted, or due, all the same: it would be over
// too early by another process.
func TestWaitsWithAClockThatIsBehind(t *testing.T) {
	t.Parallel()
	const behind, wait = 290 * time.Second, 10 * time.Second
	j := load(t, `
id: behind
entry: {when: {event: begins}}
steps:
  - id: react
    wait_for:
      within: 10s
      paths: [{name: asked, when: {event: asks}, next: rest}]
      otherwise: rest
  - {id: rest, delay: {for: 10s}, next: again}
  - {id: again, delay: {for: 10s}, next: last}
  - {id: last, wait_for: {within: 10s, paths: [{name: asked, when: {event: asks}, next: exit}], otherwise: exit}}
`)
	p, out := Person{ID: user.ID{Number: 1}, Profile: "{}"}, Result{}
	for n, name := range []string{"begins", "asks"} {
		at := start.Add(time.Duration(n) * time.Second)
		f := journey.Fact{Kind: journey.FactEvent, Name: name}
		f.Place.Position.Major = uint64(at.UnixMilli())
		if came, err := j.Fact(&p, &f, at.Add(-behind), &out); !came || err != nil {
			t.Fatal(came, err)
		}
		if p.Record = out.Records[0]; int64(p.Record.Due) != at.Add(wait).Unix() {
			t.Errorf("%s: the person is due at %s, want %s", name, time.Unix(int64(p.Record.Due), 0).UTC(), at.Add(wait))
		}
	}
	for _, step := range []string{"again", "last"} {
		due := time.Unix(int64(p.Record.Due), 0)
		if err := j.Due([]Person{p}, due.Add(-behind), &out); err != nil {
			t.Fatal(err)
		}
		p.Record = out.Records[0]
		if at := time.Unix(int64(p.Record.Due), 0); !at.Equal(due.Add(wait)) || j.Plan().Steps[p.Record.Step].ID != step {
			t.Errorf("%s: the person is due at %s, want %s", step, at.UTC(), due.Add(wait).UTC())
		}
	}
}

// A change compares values, not how they were written.
func TestAChangeComparesValues(t *testing.T) {
	for _, x := range []struct {
		trigger, changed string
		fires            bool
	}{
		{`{attribute: n, to: 5}`, `{"n":[4,5.0]}`, true},
		{`{attribute: n, to: 5.0}`, `{"n":[4,5]}`, true},
		{`{attribute: n, to: 5}`, `{"n":[5.0,5]}`, false},
		{`{attribute: n, from: 50, to: 6}`, `{"n":[5e1,6]}`, true},
		{`{attribute: n, to: 5}`, `{"n":[4,"5"]}`, false},
		{`{attribute: n, to: 5}`, `{"n":[4,6]}`, false},
		{`{attribute: n, to: 9007199254740993}`, `{"n":[4,9007199254740992]}`, false},
		{`{attribute: n, to: "é"}`, `{"n":[null,"\u00e9"]}`, true},
		{`{attribute: n, from: null}`, `{"n":[null,"x"]}`, true},
		{`{attribute: n}`, `{"n":["\u00e9","é"]}`, false},
		{`{attribute: n, to: true}`, `{"n":[false,true]}`, true},
		{`{attribute: n, path: [a]}`, `{"n":[{"a":{"b":1}},{"a":{"b":2}}]}`, true},
	} {
		l := newLife(t, `
id: changes
entry: {when: `+x.trigger+`}
steps:
  - {id: wait, delay: {for: 1h}}
`, "{}")
		if inside := l.tell(x.changed) == journey.StateInside; inside != x.fires {
			t.Errorf("%s by %s: entered %v", x.trigger, x.changed, inside)
		}
	}
}
