package desk

import (
	"math"
	"strings"

	"sluice/journey/step"
)

// Uplift compares those who went through a journey with its control group, by one
// conversion. With a step it compares those who took a path of it with those who took the
// path that is the control. With a percentage it compares all who went through the journey
// with those of them who were in the control group of all journeys, while that was of so
// many percent.
type Uplift struct {
	Percent          int    `json:"percent,omitempty"`
	Step             string `json:"step,omitempty"`
	Path             string `json:"path,omitempty"`
	Conversion       string `json:"conversion"`
	Entered          int64  `json:"entered"`
	Converted        int64  `json:"converted"`
	ControlEntered   int64  `json:"control_entered"`
	ControlConverted int64  `json:"control_converted"`

	// Difference is the share of those who converted, less that of the control group.
	// The true one is from Low to High with a confidence of 95 percent.
	Difference float64 `json:"difference"`
	Low        float64 `json:"low"`
	High       float64 `json:"high"`
	Shown      bool    `json:"shown"` // 0 is not among them
}

// upliftOf compares two groups; false: one of them is empty.
//
// The interval is the hybrid score interval: method 10 of R. G. Newcombe, "Interval
// estimation for the difference between independent proportions", Statistics in Medicine
// 17 (1998), 873-890. It is made of the score intervals of both shares (E. B. Wilson,
// 1927), so it holds for few people and for shares of 0 and 1, where the interval of
// textbooks has no width. The groups are apart by chance alone: each person is in one.
func upliftOf(name string, converted, entered, controlConverted, controlEntered int64) (u Uplift, ok bool) {
	if entered <= 0 || controlEntered <= 0 {
		return u, false
	}
	u = Uplift{Conversion: name, Entered: entered, Converted: converted, ControlEntered: controlEntered, ControlConverted: controlConverted}
	p, low, high := wilson(converted, entered)
	q, controlLow, controlHigh := wilson(controlConverted, controlEntered)
	u.Difference = p - q
	u.Low = max(-1, u.Difference-math.Hypot(p-low, controlHigh-q))
	u.High = min(1, u.Difference+math.Hypot(high-p, q-controlLow))
	u.Shown = u.Low > 0 || u.High < 0
	return u, true
}

// wilson is the share of x among n, and its score interval of 95 percent. Counts of two
// series may be a moment apart, so x is not taken for more than n.
func wilson(x, n int64) (p, low, high float64) {
	const z = 1.959963984540054 // of the normal distribution, 2.5 percent are above it
	p = float64(min(x, n)) / float64(n)
	middle, width := p+z*z/(2*float64(n)), z*math.Sqrt(p*(1-p)/float64(n)+z*z/(4*float64(n)*float64(n)))
	scale := 1 + z*z/float64(n)
	return p, max(0, (middle-width)/scale), min(1, (middle+width)/scale)
}

// globalGroups are the counts of the control group of all journeys and of those beside it,
// by group (step.GlobalGroup), then by what was counted: entered, converted/NAME.
type globalGroups map[string]map[string]int64

// maxGlobalPercent is the largest control group of all journeys (global_control_percent).
const maxGlobalPercent = 50

// add adds a count of such a group, by the parts of its name; false: it is of none.
func (g globalGroups) add(parts []string, n int64) bool {
	group := parts[0]
	if !strings.HasPrefix(group, step.GlobalControl.String()) && !strings.HasPrefix(group, step.GlobalOthers.String()) {
		return false
	}
	if g[group] == nil {
		g[group] = make(map[string]int64)
	}
	g[group][strings.Join(parts[1:], "/")] += n
	return true
}

// uplift compares both groups by one conversion, for each percentage of which there are both.
func (g globalGroups) uplift(conversion string) (all []Uplift) {
	entered, converted := step.Entered.String(), step.Converted.String()+"/"+conversion
	for percent := 1; percent <= maxGlobalPercent; percent++ {
		control, others := g[step.GlobalGroup(step.GlobalControl, percent)], g[step.GlobalGroup(step.GlobalOthers, percent)]
		if u, ok := upliftOf(conversion, others[converted], others[entered], control[converted], control[entered]); ok {
			u.Percent = percent
			all = append(all, u)
		}
	}
	return all
}
