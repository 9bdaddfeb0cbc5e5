package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"sluice/api"
)

// How the view looks.
const (
	viewPeriodTerminal = 200 * time.Millisecond
	viewPeriodLines    = time.Second
	viewNames          = 8  // of event names
	viewBarCells       = 30 // of the longest bar
	rateWindow         = 2 * time.Second
	maxSamples         = 64
)

// demoView shows the demo: redrawn in place on a terminal, else a line every
// second. Owned by one goroutine.
type demoView struct {
	w        io.Writer
	terminal bool
	rate     int // wanted
	lines    int // drawn last time
	samples  []sample
}

// sample is a look at the counters, for the rate.
type sample struct {
	at     time.Time
	stored int64
}

func newDemoView(w io.Writer, rate int) *demoView {
	return &demoView{w: w, terminal: isTerminal(w), rate: rate}
}

// isTerminal reports whether lines can be redrawn on w.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok || os.Getenv("TERM") == "dumb" {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

func (v *demoView) period() time.Duration {
	if v.terminal {
		return viewPeriodTerminal
	}
	return viewPeriodLines
}

// draw shows counters that began at zero with the demo.
func (v *demoView) draw(s api.Stats, pushed int64, now time.Time) {
	rate, lag, waiting := v.storeRate(s.Stored, now), 0.0, int64(0)
	for _, f := range s.Followers {
		lag = max(lag, f.LagSeconds)
	}
	for _, l := range s.Lists {
		waiting += max(0, l.Waiting)
	}
	if !v.terminal {
		fmt.Fprintf(v.w, "pushed %d accepted %d stored %d rate %.0f/s lag %.2fs in list %d dead %d %s\n",
			pushed, s.Accepted, s.Stored, rate, lag, waiting, s.Dead, namesLine(s.Names))
		return
	}
	lines := []string{
		fmt.Sprintf("sluice demo: %s mail events a second into the Redis list %s", grouped(int64(v.rate)), demoList),
		"",
		fmt.Sprintf("  pushed    %12s      in the list  %12s", grouped(pushed), grouped(waiting)),
		fmt.Sprintf("  accepted  %12s      dead letters %12s", grouped(s.Accepted), grouped(s.Dead)),
		fmt.Sprintf("  stored    %12s      rate         %10s/s      lag %.2f s", grouped(s.Stored), grouped(int64(rate)), lag),
		"",
	}
	lines = append(lines, bars(s.Names)...)
	lines = append(lines, "", "Ctrl-C ends it.")
	var b strings.Builder
	if v.lines > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", v.lines) // ECMA-48, 8.3.22: cursor up
	}
	for _, l := range lines {
		b.WriteString("\x1b[2K" + l + "\n") // ECMA-48, 8.3.41: erase line
	}
	b.WriteString("\x1b[0J") // ECMA-48, 8.3.39: erase to the end of the page
	v.lines = len(lines)
	io.WriteString(v.w, b.String())
}

// storeRate is rows a second over the last two seconds.
func (v *demoView) storeRate(stored int64, now time.Time) float64 {
	v.samples = append(v.samples, sample{now, stored})
	for len(v.samples) > 2 && (now.Sub(v.samples[1].at) >= rateWindow || len(v.samples) > maxSamples) {
		v.samples = v.samples[1:]
	}
	first := v.samples[0]
	took := now.Sub(first.at).Seconds()
	if took <= 0 {
		return 0
	}
	return float64(stored-first.stored) / took
}

// sortedNames returns event names, the most frequent first.
func sortedNames(names map[string]int64) []string {
	return slices.SortedFunc(maps.Keys(names), func(a, b string) int {
		return cmp.Or(cmp.Compare(names[b], names[a]), cmp.Compare(a, b))
	})
}

func bars(names map[string]int64) []string {
	var lines []string
	most := int64(1)
	for i, name := range sortedNames(names) {
		if i == 0 {
			most = max(1, names[name])
		}
		if i == viewNames {
			break
		}
		bar := strings.Repeat("#", int(names[name]*viewBarCells/most))
		lines = append(lines, fmt.Sprintf("  %-13.13s %12s  %s", safeText(name), grouped(names[name]), bar))
	}
	return lines
}

func namesLine(names map[string]int64) string {
	var parts []string
	for i, name := range sortedNames(names) {
		if i == viewNames {
			break
		}
		parts = append(parts, fmt.Sprintf("%s=%d", safeText(name), names[name]))
	}
	return strings.Join(parts, " ")
}
