package spool

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"sluice"
	"sluice/flow"
	"sluice/mail"
)

// item is a send in memory: a copy of what waits in a lane.
type item struct {
	send  mail.Send
	place flow.LanePlace
	part  *part
	mark  string // its evidence; empty: it is not marked by us

	// broken is the item of one that cannot be read, and cannot why. It is marked
	// like others and becomes a dead letter.
	broken []byte
	cannot string

	untried int // how often it went to a transport and was not attempted

	passed      []mail.Transport // that have turned it away in this turn (turn.go)
	passedSince time.Time        // when the last of them did

	ready time.Time // since when it could have been taken

	// took is where its time went from ready up to since. spend and report move
	// since on, so that no instant is counted twice or left out.
	took  [mail.Stages]time.Duration
	since time.Time
}

// spend counts the time up to now as a stage's. It may be negative once: when it
// came into its lane was said by Redis's clock.
func (it *item) spend(stage mail.Stage, now time.Time) {
	it.took[stage] += max(0, now.Sub(it.since))
	it.since = now
}

// report counts the time up to now by stage, as its caller measured it, and the
// rest as other.
func (it *item) report(took *[mail.Stages]time.Duration, now time.Time) {
	left := now.Sub(it.since)
	for stage, d := range took {
		it.took[stage] += d
		left -= d
	}
	it.took[mail.StageOther] += max(0, left)
	it.since = now
}

// spendAll is spend for a window.
func spendAll(window []*item, stage mail.Stage, now time.Time) {
	for _, it := range window {
		it.spend(stage, now)
	}
}

// id names it among the marks.
func (it *item) id() string {
	if it.broken != nil {
		return fmt.Sprintf("broken %s %d", it.place.Batch.Place(), it.place.Index)
	}
	return it.send.ID()
}

// dead is the dead letter of one that cannot be read.
func (it *item) dead(nowMillis int64) *sluice.DeadLetter {
	return &sluice.DeadLetter{Source: "lane:" + it.place.Batch.Lane, Form: sluice.FormItem, Reason: it.cannot, Payload: it.broken, TimeMillis: nowMillis}
}

// bytes is what it takes in memory, roughly.
func (it *item) bytes() int { return 512 + len(it.send.Content) }

// evidence is what a mark says: who, when, for which route, and a number that
// makes it new.
type evidence struct {
	process string
	millis  int64
	route   string
	number  uint64
}

func (e evidence) String() string {
	return fmt.Sprintf("%s|%d|%s|%d", e.process, e.millis, e.route, e.number)
}

// parseEvidence reads what String wrote.
func parseEvidence(s string) (evidence, error) {
	fields := strings.Split(s, "|")
	if len(fields) != 4 {
		return evidence{}, fmt.Errorf("read mark %q: want PROCESS|MS|ROUTE|NUMBER", s)
	}
	e := evidence{process: fields[0], route: fields[2]}
	var err error
	if e.millis, err = strconv.ParseInt(fields[1], 10, 64); err == nil {
		e.number, err = strconv.ParseUint(fields[3], 10, 64)
	}
	if err != nil {
		return evidence{}, fmt.Errorf("read mark %q: %w", s, err)
	}
	return e, nil
}
