package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"sluice/api"
	"sluice/journey/desk"
)

// How the view looks.
const (
	viewPeriodTerminal = 500 * time.Millisecond
	viewPeriodLines    = 2 * time.Second
	viewBarCells       = 30               // of the longest bar
	viewTimeout        = 20 * time.Second // of a look at all journeys, on a machine that is busy
)

// demoView shows the demo: redrawn in place on a terminal, else some lines now and
// then. Owned by one goroutine.
type demoView struct {
	screen
	rate   rate
	last   []seenJourney // what was known last
	looked time.Time     // when that was asked for
}

// seenJourney is what is known of a journey at a moment.
type seenJourney struct {
	demoJourney
	counts desk.Counts
	mails  mailCounts
}

func newDemoView(w io.Writer) *demoView { return &demoView{screen: newScreen(w)} }

func (v *demoView) period() time.Duration {
	if v.terminal {
		return viewPeriodTerminal
	}
	return viewPeriodLines
}

// show looks at the journeys and draws. Where their counts cannot be read, the last ones
// stay, and the line of the events says how old they are.
func (d *demo) show(ctx context.Context, s api.Stats, now time.Time) {
	ctx, cancel := context.WithTimeout(ctx, viewTimeout)
	defer cancel()
	seen, err := d.look(ctx)
	if err == nil {
		d.view.last, d.view.looked = seen, now
	}
	mails := d.watched.of()
	for i := range d.view.last {
		d.view.last[i].mails = mails[d.view.last[i].id]
	}
	seen = d.view.last
	events := d.eventsLine(s, d.view.rate.at(d.stored(s), now))
	if err != nil && !errors.Is(err, context.Canceled) && !d.view.looked.IsZero() {
		events += fmt.Sprintf("  journeys as %.0f s ago: %v", now.Sub(d.view.looked).Seconds(), err)
	}
	if !d.view.terminal {
		fmt.Fprintln(d.view.w, events)
		for i := range seen {
			fmt.Fprintln(d.view.w, seen[i].line())
		}
		return
	}
	d.view.draw(d.frame(seen, events))
}

// look asks for the counts of all journeys.
func (d *demo) look(ctx context.Context) (seen []seenJourney, err error) {
	for _, j := range d.journeys {
		shown, err := d.program.Services().Journeys.Show(ctx, j.id, 0)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", j.id, err)
		}
		seen = append(seen, seenJourney{demoJourney: j, counts: *shown.Counts})
	}
	return seen, nil
}

// frame is the screen.
func (d *demo) frame(seen []seenJourney, events string) []string {
	lines := []string{
		fmt.Sprintf("sluice demo: %s people; what takes a journey an hour takes a second here", grouped(int64(d.shop.people))),
		events,
		fmt.Sprintf("%-14s"+strings.Repeat("%10s", 6), "", "entered", "mails", "opened", "clicked", "bounced", "converted"),
	}
	for i := range seen {
		lines = append(lines, seen[i].block()...)
	}
	lines = append(lines, "", "In a browser, on this machine:", "  "+d.link, "", "In another terminal, here:")
	return append(append(lines, d.hints()...), "Ctrl-C ends it.")
}

// eventsLine tells of the list.
func (d *demo) eventsLine(s api.Stats, rate float64) string {
	lag := 0.0
	for _, f := range s.Followers {
		lag = max(lag, f.LagSeconds)
	}
	return fmt.Sprintf("events: pushed %s  stored %s  %s/s  lag %.2f s  dead %s", grouped(d.pushed.Load()), grouped(d.stored(s)), grouped(int64(rate)), lag, grouped(d.dead(s)))
}

// hints are what to type next.
func (d *demo) hints() []string {
	data, url := " --data "+d.cfg.Data, ""
	if d.cfg.Listen != demoListen {
		url = " --url http://" + d.program.Address()
	}
	return []string{
		"  " + program() + " journey status welcome" + data,
		"  " + program() + " journey why welcome --user " + personID(0) + data,
		"  " + program() + " mailbox list --key-file " + d.keyFile() + url,
	}
}

// entered is how many have, those of the control group too.
func (j *seenJourney) entered() int64 { return j.counts.Control + j.counts.Steps[0].Entered }

// line is a journey where lines scroll.
func (j *seenJourney) line() string {
	m := &j.mails
	text := fmt.Sprintf("%s: entered %d mails %d opened %d clicked %d bounced %d", j.id, j.entered(), m.sent, m.opened, m.clicked, m.bounced)
	for _, name := range slices.Sorted(maps.Keys(j.counts.Conversions)) {
		text += fmt.Sprintf(" %s %d", name, j.counts.Conversions[name])
	}
	text += " waiting"
	for i := range j.counts.Steps {
		if s := &j.counts.Steps[i]; s.Waiting > 0 {
			text += fmt.Sprintf(" %s=%d", s.Step, s.Waiting)
		}
	}
	for i := range j.counts.Uplift {
		text += ", " + upliftShort(&j.counts.Uplift[i])
	}
	return text
}

// block is a journey where it is redrawn.
func (j *seenJourney) block() []string {
	m := &j.mails
	head := fmt.Sprintf("%-14s", j.id)
	for _, n := range []int64{j.entered(), m.sent, m.opened, m.clicked, m.bounced, j.counts.Conversions[j.goal]} {
		head += fmt.Sprintf("%10s", grouped(n))
	}
	if j.entered() == 0 && j.begins != "" {
		head = fmt.Sprintf("%-14s   begins at %s UTC", j.id, j.begins)
	}
	lines, most := []string{head}, int64(1)
	for i := range j.counts.Steps {
		most = max(most, j.counts.Steps[i].Waiting)
	}
	for i := range j.counts.Steps {
		if s := &j.counts.Steps[i]; s.Waiting > 0 || slices.Contains(j.waits, s.Step) {
			lines = append(lines, fmt.Sprintf("  at %-9s%10s %s", s.Step, grouped(s.Waiting), strings.Repeat("#", int(s.Waiting*viewBarCells/most))))
		}
	}
	for i := range j.counts.Uplift {
		if u := &j.counts.Uplift[i]; u.Conversion == j.goal {
			lines = append(lines, "  "+upliftShort(u))
		}
	}
	return lines
}

// upliftShort tells what a journey is good for, on one line.
func upliftShort(u *desk.Uplift) string {
	share := func(n, of int64) float64 { return 100 * float64(n) / float64(of) }
	text := fmt.Sprintf("%s %.1f %%, without mail %.1f %% of %s", safeText(u.Conversion), share(u.Converted, u.Entered), share(u.ControlConverted, u.ControlEntered), grouped(u.ControlEntered))
	if !u.Shown {
		return text + ": no difference shown"
	}
	return text + fmt.Sprintf(": %+.1f points (%+.1f to %+.1f)", 100*u.Difference, 100*u.Low, 100*u.High)
}

// sortedNames returns names, the most frequent first.
func sortedNames(names map[string]int64) []string {
	return slices.SortedFunc(maps.Keys(names), func(a, b string) int {
		return cmp.Or(cmp.Compare(names[b], names[a]), cmp.Compare(a, b))
	})
}
