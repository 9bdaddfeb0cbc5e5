package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"time"

	"sluice/bench/plot"
)

// report is what a bench found, in the form of its JSON file.
type report struct {
	Bench    string             `json:"bench"`
	At       time.Time          `json:"at"`
	Machine  machine            `json:"machine"`
	Versions map[string]string  `json:"versions"`
	Settings map[string]string  `json:"settings"`
	Rows     []row              `json:"rows"`
	Ratios   map[string]float64 `json:"ratios"`
	Figures  []figure           `json:"figures,omitempty"` // what is promised; made when it is written

	targets []target
	kept    map[string]bool // rows of another run (merge.go) that this one has not measured
	whole   bool            // all is wanted: what was not measured is missed
}

// figure is a target and what became of it.
type figure struct {
	Name    string   `json:"name"`
	Value   *float64 `json:"value,omitempty"` // nil: not measured
	Limit   string   `json:"limit"`
	Verdict string   `json:"verdict"`
}

// Verdicts of figures.
const (
	verdictPassed = "passed"
	verdictMissed = "MISSED"
	verdictNone   = "not measured"

	// What even that does not do in this run which the measured thing is built on. What it is
	// follows.
	verdictLimited = "LIMITED: "
)

// row is one measured thing. Value is the median of Runs, which are in the
// order they were made.
type row struct {
	ID    string    `json:"id"`
	Label string    `json:"label"`
	Unit  string    `json:"unit"`
	Value float64   `json:"value"`
	Runs  []float64 `json:"runs,omitempty"`
}

// target is what a ratio must reach: at least, or with below set, less than.
type target struct {
	ratio   string
	below   bool
	value   float64
	limited string // what it is limited by, in this run
}

func (t target) met(v float64) bool {
	if t.below {
		return v < t.value
	}
	return v >= t.value
}

func (t target) String() string {
	if t.below {
		return "< " + number(t.value)
	}
	return ">= " + number(t.value)
}

func newReport(name string) *report {
	return &report{
		Bench: name, At: time.Now().UTC().Truncate(time.Second), Machine: readMachine(),
		Versions: programVersions(), Settings: map[string]string{}, Ratios: map[string]float64{},
	}
}

// add notes one run of a row.
func (r *report) add(id, label, unit string, value float64) {
	i := slices.IndexFunc(r.Rows, func(x row) bool { return x.ID == id })
	if i < 0 {
		i = len(r.Rows)
		r.Rows = append(r.Rows, row{ID: id, Label: label, Unit: unit})
	}
	if r.kept[id] { // measured anew
		r.Rows[i] = row{ID: id, Label: label, Unit: unit}
		delete(r.kept, id)
	}
	r.Rows[i].Runs = append(r.Rows[i].Runs, value)
	r.Rows[i].Value = median(r.Rows[i].Runs)
}

// value returns a row's median, NaN if it was not measured.
func (r *report) value(id string) float64 {
	for _, x := range r.Rows {
		if x.ID == id {
			return x.Value
		}
	}
	return math.NaN()
}

// last returns a row's last run, NaN if it was not measured.
func (r *report) last(id string) float64 {
	for _, x := range r.Rows {
		if x.ID == id {
			return x.Runs[len(x.Runs)-1]
		}
	}
	return math.NaN()
}

// divide notes row a / row b under a name, with the least that is wanted.
func (r *report) divide(name, a, b string, atLeast float64) {
	r.judge(target{ratio: name, value: atLeast}, r.value(a)/r.value(b))
}

// limit notes row a under a name, with what it must stay below.
func (r *report) limit(name, a string, below float64) {
	r.judge(target{ratio: name, below: true, value: below}, r.value(a))
}

// judge notes a ratio; one that could not be made, since a part was not
// wanted, is left out.
func (r *report) judge(t target, v float64) {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return
	}
	r.Ratios[t.ratio] = math.Round(v*1000) / 1000
	r.targets = append(r.targets, t)
}

// want is judge for a figure that has to be in the record: one that was not measured
// stands there as such.
func (r *report) want(t target, v float64) {
	if r.judge(t, v); math.IsNaN(v) || math.IsInf(v, 0) {
		r.targets = append(r.targets, t)
	}
}

// figures are all targets with what became of them.
func (r *report) figures() []figure {
	var all []figure
	for _, t := range r.targets {
		f := figure{Name: t.ratio, Limit: t.String(), Verdict: verdictNone}
		if v, ok := r.Ratios[t.ratio]; ok {
			f.Value = &v
			switch {
			case t.met(v):
				f.Verdict = verdictPassed
			case t.limited != "":
				f.Verdict = verdictLimited + t.limited
			default:
				f.Verdict = verdictMissed
			}
		}
		all = append(all, f)
	}
	return all
}

// missed names each missed target with its value.
func (r *report) missed() []string {
	var all []string
	for _, f := range r.figures() {
		switch {
		case f.Verdict == verdictMissed:
			all = append(all, fmt.Sprintf("%s is %s, wanted %s", f.Name, number(*f.Value), f.Limit))
		case f.Verdict == verdictNone && r.whole:
			all = append(all, fmt.Sprintf("%s was not measured, wanted %s", f.Name, f.Limit))
		}
	}
	return all
}

func median(runs []float64) float64 {
	s := slices.Sorted(slices.Values(runs))
	n := len(s)
	return (s[(n-1)/2] + s[n/2]) / 2
}

// print writes the tables for people.
func (r *report) print(w io.Writer) {
	if len(r.Rows) == 0 {
		return
	}
	fmt.Fprintf(w, "\n%s on %s, %d cores\n\n", r.Bench, r.Machine.CPU, r.Machine.Cores)
	if busy := r.Settings["busy_before_runs"]; busy != "" {
		fmt.Fprintf(w, "  in use before each run: %s\n\n", busy)
	}
	width := 0
	for _, x := range r.Rows {
		width = max(width, len(x.Label))
	}
	fmt.Fprintf(w, "  %-*s %10s %10s %10s  %-8s %s\n", width, "", "min", "median", "max", "unit", "runs")
	for _, x := range r.Rows {
		fmt.Fprintf(w, "  %-*s %10s %10s %10s  %-8s %d\n", width, x.Label,
			number(slices.Min(x.Runs)), number(x.Value), number(slices.Max(x.Runs)), x.Unit, len(x.Runs))
	}
	if len(r.targets) > 0 {
		fmt.Fprintf(w, "\n  %-32s %10s  target\n", "ratio", "value")
	}
	for _, f := range r.figures() {
		value, note := "", ""
		if f.Value != nil {
			value = number(*f.Value)
		}
		if f.Verdict != verdictPassed {
			note = "  " + f.Verdict
		}
		fmt.Fprintf(w, "  %-32s %10s  %s%s\n", f.Name, value, f.Limit, note)
	}
	fmt.Fprintln(w)
}

// number writes three digits after the point for small numbers, none for large.
func number(v float64) string {
	switch a := math.Abs(v); {
	case a >= 1000:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case a >= 100:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}

func (r *report) writeJSON(w io.Writer) error {
	r.Figures = r.figures()
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(r)
}

func (r *report) writePlot(w io.Writer) error {
	chart := plot.Chart{
		Title:    "sluice-bench " + r.Bench,
		Subtitle: fmt.Sprintf("%s, %d cores, %s", r.Machine.CPU, r.Machine.Cores, r.At.Format("2006-01-02")),
	}
	for _, x := range r.Rows {
		i := slices.IndexFunc(chart.Groups, func(g plot.Group) bool { return g.Unit == x.Unit })
		if i < 0 {
			i = len(chart.Groups)
			chart.Groups = append(chart.Groups, plot.Group{Unit: x.Unit})
		}
		chart.Groups[i].Bars = append(chart.Groups[i].Bars, plot.Bar{Label: x.Label, Value: x.Value, Text: number(x.Value)})
	}
	return plot.Write(w, chart)
}
