package profile

import (
	"fmt"
	"strings"
	"testing"

	"sluice/mail"
)

// What is reported counts by its time, what was said to us by when it was accepted.
func TestSubscribe(t *testing.T) {
	const minute, now = 60_000, 1_800_000_000_000
	for _, x := range []struct{ what, said, want string }{ // state, minutes before now, r: reported
		{"reports in their order", "unsubscribed -9 r, subscribed -3 r", "subscribed -3"},
		{"reports in the other order", "subscribed -3 r, unsubscribed -9 r", "subscribed -3"},
		{"an opt-in that is older", "unsubscribed -3 r, subscribed -9 r", "unsubscribed -3"},
		{"both at one moment", "subscribed -3 r, unsubscribed -3 r", "unsubscribed -3"},
		{"both at one moment, the other first", "unsubscribed -3 r, subscribed -3 r", "unsubscribed -3"},
		{"an opt-in is less than what is there", "opted_in -9, subscribed -3 r", "opted_in -3"},
		{"said, after an older report", "unsubscribed -3 r, opted_in -2", "opted_in -2"},
		{"said, with a clock that is a little behind", "unsubscribed -3 r, subscribed -3.5", "subscribed -3"},
		{"said, and here late behind a later report", "unsubscribed -3 r, subscribed -9", "unsubscribed -3"},
		{"a report of before it was said", "opted_in -3, unsubscribed -9 r", "opted_in -3"},
		{"said twice within a moment", "subscribed -3, opted_in -3, unsubscribed -3, subscribed -3", "subscribed -3"},
		{"what is still to come gives way to what is said", "subscribed 90 r, unsubscribed -1", "unsubscribed -1"},
	} {
		p := &Profile{}
		for _, s := range strings.Split(x.said, ", ") {
			var state, by string
			var minutes float64
			if _, err := fmt.Sscan(s+" here", &state, &minutes, &by); err != nil {
				t.Fatal(err)
			}
			p.Subscribe(state, now+int64(minutes*minute), by == "r", now)
			again, err := Parse(string(p.Append(nil)))
			if err != nil || string(again.Clone().Append(nil)) != string(p.Append(nil)) {
				t.Fatalf("%s: %v %s", x.what, err, p.Append(nil))
			}
			p = again
		}
		if got := fmt.Sprintf("%s %v", p.EmailState(), float64(p.EmailSinceMillis-now)/minute); got != x.want {
			t.Errorf("%s: %s, want %s", x.what, got, x.want)
		}
	}
	if mail.SuppressAheadMillis >= minute*2 {
		t.Error("the cases take two minutes to be further apart than clocks are")
	}
}

// A state goes into another profile together with its time, and only where there is none.
func TestStateTakesItsTimeAlong(t *testing.T) {
	var said, silent, other Profile
	said.Subscribe("unsubscribed", 5, false, 9)
	other.Subscribe("opted_in", 7, false, 9)
	silent.Merge(&said)
	other.Merge(&said)
	if got := fmt.Sprintln(silent.EmailState(), silent.EmailSinceMillis, other.EmailState(), other.EmailSinceMillis); got != "unsubscribed 5 opted_in 7\n" {
		t.Error(got)
	}
}
