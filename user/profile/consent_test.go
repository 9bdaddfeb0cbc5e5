package profile

import (
	"fmt"
	"slices"
	"testing"

	"sluice/mail"
)

// What was said last about mail holds after a merge too, as far as times are known.
func TestMergeTakesTheLaterWord(t *testing.T) {
	for _, x := range []struct {
		here, there     string
		hereAt, thereAt int64
		want            string
	}{
		{"subscribed", "unsubscribed", 5, 7, "unsubscribed 7"},
		{"unsubscribed", "opted_in", 7, 5, "unsubscribed 7"},
		{"opted_in", "unsubscribed", 7, 7, "unsubscribed 7"},
		{"unsubscribed", "opted_in", 0, 5, "unsubscribed 0"}, // nobody knows which is later
	} {
		var here, there Profile
		here.Fields.Set(emailSubscribe, Quoted(x.here))
		here.EmailSinceMillis = x.hereAt
		there.Fields.Set(emailSubscribe, Quoted(x.there))
		there.EmailSinceMillis = x.thereAt
		here.Merge(&there)
		if got := fmt.Sprint(here.EmailState(), " ", here.EmailSinceMillis); got != x.want {
			t.Errorf("%+v: %s", x, got)
		}
	}
}

// A report lifts no unsubscribe of which it is not known when it was said, and an
// attribute that comes late takes nothing back.
func TestOldWordsOfConsent(t *testing.T) {
	const now = 1_800_000_000_000
	var p Profile
	p.Fields.Set(emailSubscribe, Quoted(unsubscribed))
	p.Subscribe(subscribed, now-1000, true, now)
	if got := p.EmailState(); got != unsubscribed {
		t.Errorf("after a report: %s", got)
	}
	p.Subscribe(subscribed, now, false, now)
	if got := p.EmailState(); got != subscribed {
		t.Errorf("after it was said to us: %s", got)
	}
	p.Subscribe(unsubscribed, now+3_600_000, false, now+3_600_000)
	p.SetAttributes(`{"email_subscribe":"opted_in"}`, now)
	if got := p.EmailState(); got != unsubscribed {
		t.Errorf("after an attribute of an hour before: %s", got)
	}
	p.SetAttributes(`{"email_subscribe":"opted_in"}`, now+7_200_000)
	if got := p.EmailState(); got != optedIn {
		t.Errorf("after an attribute of an hour later: %s", got)
	}
}

// Leaving a group is noted, however many groups a user is in.
func TestLeaveWhenThereAreManyGroups(t *testing.T) {
	var p Profile
	for i := range MaxGroups {
		p.SetGroup(fmt.Sprintf("g%03d", i), i > 0, int64(1000-i)) // the oldest is the last one
	}
	if p.SetGroup("weekly", true, 2000) {
		t.Error("there is room for one more")
	}
	if !p.SetGroup("weekly", false, 2000) || !p.Left("weekly") || !p.Left("g000") || len(p.Groups) != MaxGroups {
		t.Errorf("%d groups, left weekly: %v", len(p.Groups), p.Left("weekly"))
	}
	if last := fmt.Sprintf("g%03d", MaxGroups-1); p.SetGroup(last, true, 2001) {
		t.Errorf("%s did not make room", last)
	}
}

// A choice that is made again counts as made then. A list of groups that says what is so
// already does not.
func TestGroupIsChosenAgain(t *testing.T) {
	var p Profile
	for _, x := range []struct {
		is          bool
		at, want    int64
		byAttribute bool
	}{{true, 5, 5, false}, {true, 9, 9, false}, {true, 7, 9, false}, {true, 12, 9, true}, {false, 13, 13, false}, {true, 14, 14, true}} {
		if x.byAttribute {
			p.SetAttributes(`{"subscription_groups":[{"subscription_group_id":"g","subscription_state":"subscribed"}]}`, x.at)
		} else {
			p.ChooseGroup("g", x.is, x.at, 20)
		}
		if want := (Group{"g", x.is, x.want}); !slices.Equal(p.Groups, []Group{want}) {
			t.Errorf("%+v: %+v", x, p.Groups)
		}
	}
}

// An opt-in that comes late undoes no opt-out, unless clocks may differ by as much; an opt-out
// that comes late holds. The time of what is known does not go back, unless it is still to come.
func TestGroupIsChosenLate(t *testing.T) {
	const at, ahead = 1_780_000_000_000, mail.SuppressAheadMillis
	for _, x := range []struct {
		is, late bool
		by       int64
		now      int64
		want     Group
	}{
		{false, true, ahead + 1, at, Group{"g", false, at}},
		{false, true, ahead, at, Group{"g", true, at}},
		{true, true, ahead + 1, at, Group{"g", true, at}},
		{true, false, ahead + 1, at, Group{"g", false, at}},
		{false, true, ahead + 1, at - ahead, Group{"g", false, at}},
		{false, true, ahead + 1, at - ahead - 1, Group{"g", true, at - ahead - 1}}, // the clock of the opt-out was ahead
	} {
		var p Profile
		p.ChooseGroup("g", x.is, at, at)
		if p.ChooseGroup("g", x.late, at-x.by, x.now); !slices.Equal(p.Groups, []Group{x.want}) {
			t.Errorf("%+v: %+v", x, p.Groups)
		}
	}
}

// A choice of a clock that is ahead is of now, also when what follows is stored late.
func TestAChoiceOfAClockAhead(t *testing.T) {
	const at, minute = 1_780_000_000_000, 60_000
	var p Profile
	p.ChooseGroup("g", false, at+10*minute, at)
	if p.ChooseGroup("g", true, at+2*minute, at+11*minute); !p.Groups[0].Subscribed {
		t.Errorf("%+v: the opt-in is lost", p.Groups)
	}
}

// Of two users who are one person a group that either has left is left, unless the other
// one has said something of it later. No opt-in of the one who goes takes an opt-out back.
func TestMergedGroups(t *testing.T) {
	for _, x := range []struct{ is, other, want Group }{
		{Group{"g", true, 5}, Group{"g", false, 6}, Group{"g", false, 6}},
		{Group{"g", true, 5}, Group{"g", false, 5}, Group{"g", false, 5}},
		{Group{"g", true, 5}, Group{"g", false, 4}, Group{"g", true, 5}},
		{Group{"g", false, 5}, Group{"g", true, 6}, Group{"g", false, 5}},
		{Group{"g", false, 5}, Group{"g", false, 6}, Group{"g", false, 6}},
		{Group{"g", true, 5}, Group{"g", true, 6}, Group{"g", true, 5}},
	} {
		p := Profile{Groups: []Group{x.is}}
		p.Merge(&Profile{Groups: []Group{x.other}})
		if !slices.Equal(p.Groups, []Group{x.want}) {
			t.Errorf("%+v and %+v: %+v", x.is, x.other, p.Groups)
		}
	}
}
