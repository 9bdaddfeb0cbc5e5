package alert

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// way is a channel that only has a name.
type way string

func (w way) Name() string                       { return string(w) }
func (way) Send(context.Context, *Message) error { return nil }

var (
	rules = Rules{Hold: time.Minute, Repeat: 24 * time.Hour}
	ways  = []Channel{way("a")}
	begin = time.Date(2026, 1, 31, 10, 0, 0, 0, time.UTC)
)

// courtroom is a state under a clock of its own.
type courtroom struct {
	t   *testing.T
	j   *state
	now time.Time
}

// look moves the clock on, looks, and returns what is due, as "status subject". A subject
// with a question mark before it could not be looked at.
func (c *courtroom) look(after time.Duration, all bool, subjects ...string) []string {
	c.t.Helper()
	c.now = c.now.Add(after)
	var problems []Problem
	for _, s := range subjects {
		s, unknown := strings.CutPrefix(s, "?")
		problems = append(problems, Problem{Kind: Lag, Subject: s, Summary: s + " is behind", Unknown: unknown})
	}
	// Another process goes on from what this one has kept.
	text, err := json.Marshal(c.j)
	if err != nil {
		c.t.Fatal(err)
	}
	if c.j, err = readState(text, c.now); err != nil {
		c.t.Fatal(err)
	}
	c.j.look(c.now, problems, all, rules, ways)
	var told []string
	for _, n := range c.j.due("a", c.now) {
		told = append(told, n.Status+" "+n.Subject)
	}
	if len(told) > 0 {
		c.j.delivered("a", c.now, nil)
	}
	return told
}

func (c *courtroom) want(got []string, want ...string) {
	c.t.Helper()
	if !slices.Equal(got, want) {
		c.t.Errorf("%s: told %q, want %q", c.now.Sub(begin), got, want)
	}
}

// A problem is told once when it has lasted, again after a day, and once when
// it has been gone for as long; also if another process judges each time.
func TestOnceAgainAndOnceAtTheEnd(t *testing.T) {
	c := &courtroom{t, newState(), begin}
	c.want(c.look(0, true, "store"))
	c.want(c.look(59*time.Second, true, "store"))
	c.want(c.look(time.Second, true, "store"), "firing store")
	for range 100 {
		c.want(c.look(15*time.Second, true, "store"))
	}
	c.want(c.look(24*time.Hour-100*15*time.Second-time.Second, true, "store"))
	c.want(c.look(time.Second, true, "store", "list:q"), "firing store")
	c.want(c.look(time.Minute, true, "store", "list:q"), "firing list:q")
	c.want(c.look(30*time.Second, true, "list:q"))
	c.want(c.look(29*time.Second, true, "list:q"))
	c.want(c.look(time.Second, true, "list:q"), "resolved store")
	c.want(c.look(48*time.Hour, true), "resolved list:q")
	c.want(c.look(48*time.Hour, true))
	if len(c.j.Open)+len(c.j.Outboxes) != 0 {
		t.Errorf("left over: %+v", c.j)
	}
}

// What comes and goes is told neither time; what goes for a moment has not ended.
func TestFlapping(t *testing.T) {
	c := &courtroom{t, newState(), begin}
	c.want(c.look(0, true, "store"))
	c.want(c.look(30*time.Second, true))
	c.want(c.look(90*time.Second, true)) // gone, and never told
	c.want(c.look(time.Second, true, "store"))
	c.want(c.look(50*time.Second, true))
	c.want(c.look(10*time.Second, true, "store")) // wrong for two looks, and well between
	c.want(c.look(50*time.Second, true, "store"))
	c.want(c.look(10*time.Second, true, "store"), "firing store")
	c.want(c.look(50*time.Second, true))
	c.want(c.look(5*time.Second, true, "store"))
	c.want(c.look(50*time.Second, true))
	c.want(c.look(5*time.Second, true, "store"))
}

// While some could not be looked at, nothing counts as gone.
func TestUnknownIsNotGone(t *testing.T) {
	c := &courtroom{t, newState(), begin}
	c.look(0, true, "store")
	c.want(c.look(time.Minute, true, "store"), "firing store")
	c.want(c.look(time.Hour, false))
	c.want(c.look(time.Hour, false))
	c.want(c.look(0, true), "resolved store")
}

// What could not be looked at itself goes on, and begins nothing; all else ends meanwhile.
func TestUnknownProblem(t *testing.T) {
	c := &courtroom{t, newState(), begin}
	c.want(c.look(0, true, "store", "list:q"))
	c.want(c.look(time.Minute, true, "store", "list:q"), "firing list:q", "firing store")
	c.want(c.look(time.Hour, true, "?store", "?other"), "resolved list:q")
	c.want(c.look(time.Hour, true, "?store", "?other"))
	if s := c.j.Open["lag store"]; s == nil || s.Problem.Summary != "store is behind" {
		t.Errorf("what is known of it: %+v", s)
	}
	c.want(c.look(time.Minute, true), "resolved store")
}

// What a process has kept whose clock was years ahead does not silence the
// next one: neither what began then, nor what was told or seen then, nor what
// was to be tried again then.
func TestClockThatWasAhead(t *testing.T) {
	const ahead = 10 * 365 * 24 * time.Hour
	c := &courtroom{t, newState(), begin.Add(ahead)}
	c.want(c.look(0, true, "told", "gone", "new"))
	c.want(c.look(time.Minute, true, "told", "gone"), "firing gone", "firing told")
	c.want(c.look(0, true, "told", "gone", "new"))
	c.want(c.look(-ahead, true, "told", "new"))
	c.want(c.look(time.Minute, true, "told", "new"), "resolved gone", "firing new")
	c.want(c.look(24*time.Hour, true, "told", "new"), "firing new", "firing told")

	c.look(ahead, true, "told", "new", "failed")
	c.look(time.Minute, true, "told", "new", "failed")
	c.j.tell("lag failed", c.j.Open["lag failed"], Firing, ways)
	c.j.delivered("a", c.now, errors.New("refused"))
	if got := c.look(-ahead, true, "told", "new", "failed"); len(got) != 0 {
		t.Errorf("tried again at once: %q", got)
	}
	if got := c.look(retryLatest, true, "told", "new", "failed"); len(got) == 0 {
		t.Error("what could not be delivered is not tried again")
	}
}

// What was not delivered is tried again, later and later, as it is by then; the
// other channel does not get it twice.
func TestFailedDelivery(t *testing.T) {
	j, now, two := newState(), begin, []Channel{way("a"), way("b")}
	look := func(after time.Duration, problems ...Problem) {
		now = now.Add(after)
		j.look(now, problems, true, rules, two)
	}
	lag := Problem{Kind: Lag, Subject: "store", Summary: "behind"}
	look(0, lag)
	look(time.Minute, lag)
	if len(j.due("a", now)) != 1 || len(j.due("b", now)) != 1 {
		t.Fatalf("due: %v %v", j.due("a", now), j.due("b", now))
	}
	j.delivered("b", now, nil)
	pause, sum := retrySoonest, time.Duration(0)
	for range 12 {
		j.delivered("a", now, errors.New("refused"))
		if pause > retryLatest {
			pause = retryLatest
		}
		if got := j.due("a", now.Add(pause-time.Second)); got != nil {
			t.Fatalf("tried again before %s: %v", pause, got)
		}
		now, sum = now.Add(pause), sum+pause
		if got := j.due("a", now); len(got) != 1 || got[0].Status != Firing {
			t.Fatalf("after %s: %v", pause, got)
		}
		pause *= 2
	}
	look(0, lag)
	look(time.Minute)
	if got := j.due("a", now); len(got) != 1 || got[0].Status != Resolved || !got[0].Since.Equal(begin) || got[0].Until == nil {
		t.Errorf("told of what has ended: %+v", got)
	}
	if got := j.due("b", now); len(got) != 1 || got[0].Status != Resolved {
		t.Errorf("the other channel: %+v", got)
	}
	j.look(now, nil, true, rules, []Channel{way("b")})
	if j.Outboxes["a"] != nil {
		t.Error("a channel that is set no more keeps its outbox")
	}
}

// A process that begins to tell tries once, and pauses then as the one before did.
func TestPauseIsTakenOver(t *testing.T) {
	before, now := newState(), begin.Add(time.Hour)
	before.tell("lag store", &openProblem{Problem: Problem{Kind: Lag, Subject: "store"}}, Firing, ways)
	for range 12 { // 15 minutes by then
		before.delivered("a", now, errors.New("refused"))
	}
	text, err := json.Marshal(before)
	if err != nil {
		t.Fatal(err)
	}
	read, err := readState(text, now)
	if err != nil {
		t.Fatal(err)
	}
	j := newState()
	j.takeOver(read)
	if got := j.due("a", now); len(got) != 1 {
		t.Errorf("tried again with %+v", got)
	}
	j.delivered("a", now, errors.New("refused"))
	if got := j.due("a", now.Add(retryLatest-time.Second)); got != nil {
		t.Errorf("the pauses begin anew: %+v", got)
	}
}

// However much is wrong, what is kept and sent is bounded.
func TestBounds(t *testing.T) {
	j := newState()
	var problems []Problem
	for i := range maxProblems + 50 {
		problems = append(problems, Problem{Kind: Follower, Subject: fmt.Sprint(i), Summary: strings.Repeat("ü\n", 5000)})
	}
	j.look(begin, problems, true, rules, ways)
	j.look(begin.Add(time.Minute), problems, true, rules, ways)
	due := j.due("a", begin.Add(time.Minute))
	if len(due) != maxProblems {
		t.Errorf("%d told", len(due))
	}
	if s := due[0].Summary; len(s) > maxSummaryBytes+3 || strings.ContainsAny(s, "\n") {
		t.Errorf("summary of %d bytes", len(s))
	}
}
