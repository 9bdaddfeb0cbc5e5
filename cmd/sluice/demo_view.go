package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
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
)

// demoView shows the demo: redrawn in place on a terminal, else a line every
// second. Owned by one goroutine.
type demoView struct {
	screen
	wanted int // events a second
	stored rate
}

func newDemoView(w io.Writer, wanted int) *demoView {
	return &demoView{screen: newScreen(w), wanted: wanted}
}

func (v *demoView) period() time.Duration {
	if v.terminal {
		return viewPeriodTerminal
	}
	return viewPeriodLines
}

// show shows counters that began at zero with the demo.
func (v *demoView) show(s api.Stats, pushed int64, now time.Time) {
	rate, lag, waiting := v.stored.at(s.Stored, now), 0.0, int64(0)
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
		fmt.Sprintf("sluice demo: %s mail events a second into the Redis list %s", grouped(int64(v.wanted)), demoList),
		"",
		fmt.Sprintf("  pushed    %12s      in the list  %12s", grouped(pushed), grouped(waiting)),
		fmt.Sprintf("  accepted  %12s      dead letters %12s", grouped(s.Accepted), grouped(s.Dead)),
		fmt.Sprintf("  stored    %12s      rate         %10s/s      lag %.2f s", grouped(s.Stored), grouped(int64(rate)), lag),
		"",
	}
	lines = append(lines, bars(s.Names)...)
	lines = append(lines, "", "Ctrl-C ends it.")
	v.draw(lines)
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
