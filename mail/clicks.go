package mail

import (
	"fmt"
	"math/bits"
)

// Clicks is what the row of a send remembers of its clicks, so that each can be
// judged by those beside it: a filter that looks for harm follows all links of a
// mail within seconds, and no person does. Beside them it remembers what else came back,
// so that it counts once.
//
// The idea. Clicks within ClicksWindowMillis of the first make a burst. A burst is a
// scan when it has scanLinks different links, or two of them within a second. When
// a scan is seen, all of it is one, from its first click. A click is judged when
// the window behind it is over: then all that could speak against it has come.
//
// What was tried and dropped. To judge a click by those before it: the first of a
// scan is a person's then, and that one lets somebody into a journey. A table of all
// clicks: a row more for each, which another statement reads and a third removes.
// One burst and one scan are remembered. A send that is scanned twice, minutes apart,
// has the second scan by the time the first is long judged.
type Clicks struct {
	FromMillis, LastMillis int64  // of the burst
	Links                  uint64 // of the burst, a bit each; link n is bit n modulo 64
	ScanFrom, ScanTo       int64  // of the last scan, in ms; 0: there was none

	// Counted is what else came back and was counted, once each: bits of once.
	Counted uint64
}

// once are the kinds that count once for a send, however often and by whom they are told:
// a bounce comes as a report by mail and as a provider's webhook. Its classes are one kind,
// as two systems may call the same bounce by two.
var once = map[ReactionKind]uint64{
	ReactionBouncedHard: 1, ReactionBouncedSoft: 1, ReactionBouncedBlock: 1, ReactionBouncedOther: 1,
	ReactionComplained: 2, ReactionUnsubscribed: 4,
}

// CountsOnce reports whether a kind counts once for a send.
func (k ReactionKind) CountsOnce() bool { return once[k] != 0 }

// Count notes what came back, and reports whether it is the first of its kind that counts.
func (c *Clicks) Count(k ReactionKind) (first bool) {
	bit := once[k]
	first = c.Counted&bit == 0
	c.Counted |= bit
	return first
}

const (
	// ClicksWindowMillis is how long after a click others can speak against it.
	ClicksWindowMillis = 10_000

	scanLinks       = 3
	scanPairMillis  = 1000
	maxClicksDigits = 96
)

// Add notes a click on a link. Clicks come nearly in the order of their times.
func (c *Clicks) Add(millis int64, link int) {
	bit := uint64(1) << (uint(link) % 64)
	if c.Links == 0 || millis-c.FromMillis > ClicksWindowMillis || c.FromMillis-millis > ClicksWindowMillis {
		c.FromMillis, c.LastMillis, c.Links = millis, millis, bit
		return
	}
	another := c.Links&bit == 0
	since := max(millis-c.LastMillis, c.LastMillis-millis)
	c.Links |= bit
	c.FromMillis, c.LastMillis = min(c.FromMillis, millis), max(c.LastMillis, millis)
	if bits.OnesCount64(c.Links) >= scanLinks || another && since <= scanPairMillis {
		if c.ScanTo < c.FromMillis { // another one than the last
			c.ScanFrom = c.FromMillis
		}
		c.ScanTo = c.LastMillis
	}
}

// Scanned reports whether a click at a time is of the last scan.
func (c *Clicks) Scanned(millis int64) bool { return c.ScanFrom <= millis && millis <= c.ScanTo }

// Text returns what ParseClicks reads; empty if there is nothing.
func (c *Clicks) Text() string {
	if *c == (Clicks{}) {
		return ""
	}
	text := fmt.Sprintf("%d %d %x %d %d", c.FromMillis, c.LastMillis, c.Links, c.ScanFrom, c.ScanTo)
	if c.Counted != 0 { // programs of before read what stands before it
		text += fmt.Sprintf(" %x", c.Counted)
	}
	return text
}

// ParseClicks reads what Text wrote; of anything else nothing.
func ParseClicks(text string) (c Clicks) {
	if len(text) > maxClicksDigits {
		return Clicks{}
	}
	n, err := fmt.Sscanf(text, "%d %d %x %d %d %x", &c.FromMillis, &c.LastMillis, &c.Links, &c.ScanFrom, &c.ScanTo, &c.Counted)
	if n != 6 && (n != 5 || err == nil) {
		return Clicks{}
	}
	return c
}
