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

// evidence is what a mark says: which process, when, for which route, a number that makes it
// new, and on which Redis. The last two are one number in its text, of which older programs
// know no more than that it is one. Their own marks have no history.
type evidence struct {
	process string
	millis  int64
	route   string
	number  uint64 // rises within its process
	history uint64 // historyOf the Redis on which it was made; 0: unknown
}

// numberBits is how many bits of the number in the text are evidence.number: a process that
// marks 10,000 times a second needs more after 3 years. The upper ones are the history.
const numberBits = 40

func (e evidence) String() string {
	return fmt.Sprintf("%s|%d|%s|%d", e.process, e.millis, e.route, e.history<<numberBits|e.number)
}

// historyOf is what marks keep of a replication id, 24 bits of it; 0: it is none. Redis makes
// them at random, so two are alike once in 16,000,000 times.
func historyOf(server string) uint64 {
	h, err := strconv.ParseUint(server[:min(6, len(server))], 16, 64)
	if err != nil {
		return 0
	}
	return h
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
		e.history, e.number = e.number>>numberBits, e.number&(1<<numberBits-1)
	}
	if err != nil {
		return evidence{}, fmt.Errorf("read mark %q: %w", s, err)
	}
	return e, nil
}
