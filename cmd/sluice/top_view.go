package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"sluice/api"
	"sluice/lib/doctor"
)

// How the frame looks.
const (
	topRoutes    = 8  // are shown, those with the most mails a second
	topStages    = 3  // of a route, those with the largest shares
	topBarCells  = 20 // of 100 %
	topNameCells = 16
)

// topView makes frames of what a program answered. Owned by one goroutine.
type topView struct {
	screen
	base             string
	last             *topLook
	accepted, stored rate
	routes           map[string]*rate
}

// frame returns the lines of a frame. A program that does not answer is shown as
// it was when it last did.
func (v *topView) frame(look *topLook, err error, now time.Time) []string {
	if err == nil {
		v.last = look
	}
	look = v.last
	s := &look.status
	lines := []string{fmt.Sprintf("sluice %s  %s  process %s, %d live  %s", safeText(s.Version), v.base, safeText(s.Process), s.LiveProcesses, now.UTC().Format("15:04:05"))}
	switch {
	case err != nil:
		lines = append(lines, "DOES NOT ANSWER: "+safeText(doctor.OneLine(err)))
	case s.Ready:
		lines = append(lines, "ready")
	default:
		lines = append(lines, "NOT READY: "+safeText(strings.Join(s.Reasons, "; ")))
	}
	if s.MarketingStopped {
		lines[1] += "   MARKETING MAIL IS STOPPED"
	}
	lines = append(lines, "",
		fmt.Sprintf("accepted %10s/s   stored %10s/s   lag %s", perSecond(v.accepted.at(s.Accepted, now)), perSecond(v.stored.at(s.Stored, now)), lasted(s.LagSeconds)),
		"", fmt.Sprintf("%-*s %14s  %s", topNameCells, "lane", "waiting", "oldest"))
	for _, l := range s.Lanes {
		lines = append(lines, fmt.Sprintf("%-*s %14s  %s", topNameCells, l.Priority, known(l.Waiting), lasted(l.OldestSeconds)))
	}
	lines = append(lines, fmt.Sprintf("%-*s %14s", topNameCells, "for a time", known(s.Later)))
	lines = append(lines, v.routeLines(look, now)...)
	lines = append(lines, "")
	return append(lines, ledgerLines(look)...)
}

// routeLines shows the routes, those with the most mails a second first.
func (v *topView) routeLines(look *topLook, now time.Time) []string {
	type shown struct {
		*api.RouteStatus
		rate float64
	}
	var all []shown
	for i := range look.status.Routes {
		r := &look.status.Routes[i]
		if v.routes[r.Route] == nil {
			v.routes[r.Route] = &rate{}
		}
		all = append(all, shown{r, v.routes[r.Route].at(r.Mails, now)})
	}
	slices.SortStableFunc(all, func(a, b shown) int { return cmp.Or(cmp.Compare(b.rate, a.rate), cmp.Compare(b.Mails, a.Mails)) })
	lines := []string{"", fmt.Sprintf("%-*s %-10s %10s %6s %10s", topNameCells, "route", "state", "mails/s", "pace", "left today")}
	for i, r := range all {
		if i == topRoutes {
			lines = append(lines, fmt.Sprintf("and %d more", len(all)-i))
			break
		}
		left := "-"
		if r.LeftToday != nil {
			left = grouped(int64(*r.LeftToday))
		}
		state := r.Breaker
		if r.PausedDomains > 0 {
			state += fmt.Sprintf(" -%d", r.PausedDomains)
		}
		lines = append(lines, fmt.Sprintf("%-*.*s %-10s %10s %4.0f %% %10s", topNameCells, topNameCells, safeText(r.Route), safeText(state), perSecond(r.rate), 100*r.PaceShare, left))
		if r.Why != "" {
			lines = append(lines, "  "+safeText(r.Why))
		}
		lines = append(lines, stageLines(look, r.Route)...)
	}
	return lines
}

// stageLines shows where the time of a route's mails went in the last minute.
func stageLines(look *topLook, route string) (lines []string) {
	i := slices.IndexFunc(look.profile.Routes, func(p api.RouteProfile) bool { return p.Route == route })
	if i < 0 || look.profile.Routes[i].LastMinute.Mails == 0 {
		return nil
	}
	stages := slices.Clone(look.profile.Routes[i].LastMinute.Stages)
	slices.SortStableFunc(stages, func(a, b api.StageProfile) int { return cmp.Compare(b.AttemptSharePercent, a.AttemptSharePercent) })
	for _, st := range stages[:min(len(stages), topStages)] {
		share := min(max(st.AttemptSharePercent, 0), 100)
		bar := strings.Repeat("#", int(share*topBarCells/100+0.5))
		lines = append(lines, fmt.Sprintf("  %-8.8s %5.1f %% %-*s  mean %s  p99 %s", safeText(st.Stage), share, topBarCells, bar, lasted(st.MeanSeconds), lasted(st.P99Seconds)))
	}
	return lines
}

// ledgerLines shows whether the ledger adds up, and what is to be decided about.
func ledgerLines(look *topLook) []string {
	l := look.ledger
	if l == nil {
		return []string{"ledger: " + look.noLedger}
	}
	all := api.LedgerLine{}
	for _, c := range l.Classes {
		all.Accepted, all.Waiting, all.Sent = all.Accepted+c.Accepted, all.Waiting+c.Waiting, all.Sent+c.Sent
		all.Failed, all.Suppressed, all.InDoubt, all.Cancelled = all.Failed+c.Failed, all.Suppressed+c.Suppressed, all.InDoubt+c.InDoubt, all.Cancelled+c.Cancelled
	}
	word := "ledger adds up"
	switch {
	case l.OffBy != 0:
		word = fmt.Sprintf("LEDGER DOES NOT ADD UP, BY %d", l.OffBy)
	case !l.Compared:
		word = "ledger NOT compared with its rows, too many"
	}
	return []string{
		fmt.Sprintf("%s: accepted %s", word, grouped(all.Accepted)),
		fmt.Sprintf("  waiting %s  sent %s  failed %s  suppressed %s", grouped(all.Waiting), grouped(all.Sent), grouped(all.Failed), grouped(all.Suppressed)),
		fmt.Sprintf("  cancelled %s  in doubt %s (to be decided about: %s)  dead letters %s", grouped(all.Cancelled), grouped(all.InDoubt), grouped(l.Undecided), grouped(l.DeadLetters)),
	}
}

// known is a number, or - for one that is not known.
func known(n int64) string {
	if n < 0 {
		return "-"
	}
	return grouped(n)
}

// perSecond is a rate in few characters.
func perSecond(v float64) string {
	if v < 10 {
		return fmt.Sprintf("%.1f", max(0, v))
	}
	return grouped(int64(v + 0.5))
}

// lasted is a time in few characters; 0 is -.
func lasted(seconds float64) string {
	switch {
	case seconds <= 0:
		return "-"
	case seconds < 1:
		return fmt.Sprintf("%.1f ms", 1000*seconds)
	case seconds < 120:
		return fmt.Sprintf("%.1f s", seconds)
	case seconds < 2*60*60:
		return fmt.Sprintf("%.0f min", seconds/60)
	}
	return fmt.Sprintf("%.1f h", seconds/3600)
}
