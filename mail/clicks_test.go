package mail

import "testing"

// Which clicks are those of a scan, by their seconds and links.
func TestClicks(t *testing.T) {
	type click struct {
		seconds float64
		link    int
	}
	const begin = int64(1_700_000_000_000)
	at := func(c click) int64 { return begin + int64(c.seconds*1000) }
	for name, tt := range map[string]struct {
		clicks []click
		want   string // m: of a machine
	}{
		"one":                      {[]click{{0, 1}}, "h"},
		"one link again and again": {[]click{{0, 1}, {0.1, 1}, {0.2, 1}, {3, 1}}, "hhhh"},
		"two links, read between":  {[]click{{0, 1}, {4, 2}}, "hh"},
		"two links at once":        {[]click{{0, 1}, {0.4, 2}}, "mm"},
		"all links, a second each": {[]click{{0, 1}, {1.2, 2}, {2.4, 3}, {3.6, 4}}, "mmmm"},
		"out of order":             {[]click{{1.2, 2}, {0, 1}, {2.4, 3}}, "mmm"},
		"a person, an hour later":  {[]click{{0, 1}, {0.4, 2}, {3600, 2}, {3605, 1}}, "mmhh"},
		"a person just after":      {[]click{{0, 1}, {0.4, 2}, {10.5, 3}}, "mmh"},
		"three, slowly":            {[]click{{0, 1}, {6, 2}, {12, 3}}, "hhh"},
		"link 65 is another":       {[]click{{0, 1}, {5, 64}, {9, 3}}, "mmm"},
	} {
		var c Clicks
		for _, x := range tt.clicks {
			c.Add(at(x), x.link)
			if again := ParseClicks(c.Text()); again != c {
				t.Fatalf("%s: %+v comes back as %+v", name, c, again)
			}
		}
		got := ""
		for _, x := range tt.clicks {
			if c.Scanned(at(x)) {
				got += "m"
			} else {
				got += "h"
			}
		}
		if got != tt.want {
			t.Errorf("%s: %s, want %s: %+v", name, got, tt.want, c)
		}
	}
	for _, text := range []string{"", "x", "1 2 3", "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 33 34 35 36"} {
		if c := ParseClicks(text); c != (Clicks{}) {
			t.Errorf("%q is %+v", text, c)
		}
	}
}

// What came back counts once of its kind, whatever the clicks beside it are.
func TestReactionsCountOnce(t *testing.T) {
	var c Clicks
	for _, x := range []struct {
		kind  ReactionKind
		first bool
	}{
		{ReactionBouncedHard, true}, {ReactionBouncedHard, false}, {ReactionBouncedSoft, false}, {ReactionBouncedBlock, false}, {ReactionBouncedOther, false},
		{ReactionComplained, true}, {ReactionUnsubscribed, true}, {ReactionComplained, false}, {ReactionUnsubscribed, false},
		{ReactionDelivered, true}, {ReactionDelivered, true},
	} {
		if got := c.Count(x.kind); got != x.first {
			t.Errorf("%s: first %v, want %v", x.kind, got, x.first)
		}
		c.Add(1_700_000_000_000, 1)
		if again := ParseClicks(c.Text()); again != c {
			t.Fatalf("%+v comes back as %+v", c, again)
		}
	}
	c = Clicks{FromMillis: 1 << 52, LastMillis: 1 << 52, Links: 1<<64 - 1, ScanFrom: 1 << 52, ScanTo: 1 << 52, Counted: 7}
	if text := c.Text(); len(text) > maxClicksDigits || ParseClicks(text) != c {
		t.Errorf("%q is %+v", text, ParseClicks(text))
	}
	if c := ParseClicks("1 2 3 4 5"); c.ScanTo != 5 || c.Counted != 0 {
		t.Errorf("an earlier text is %+v", c)
	}
}

// An id of a reaction names its partition, and nothing else does.
func TestReactionID(t *testing.T) {
	for _, p := range []int{0, 7, 255} {
		if got, ok := ReactionPartition(ReactionID(p, "abc", 9)); !ok || got != p {
			t.Errorf("partition %d comes back as %d, %v", p, got, ok)
		}
	}
	for _, id := range []string{"", "ld-", "ld-7", "ld-256-a-1", "ld-x-a-1", "LD-7-a-1", "ld--1-a-1"} {
		if p, ok := ReactionPartition(id); ok {
			t.Errorf("%q names partition %d", id, p)
		}
	}
}
