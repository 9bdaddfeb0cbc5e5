package bench

import (
	"slices"
	"strings"
)

// journeyFigure is something that journeys promise, of each kind of database.
type journeyFigure struct {
	name  string
	below bool
	limit float64
	scale scale
	of    func(v journeyValues) float64
}

// scale says how a limit for ten million people goes with fewer.
type scale int

const (
	same   scale = iota
	linear       // it goes with their number
	slowly       // it does, but is a second at least
)

// journeyValues are the rows of one kind of database.
type journeyValues struct {
	r     *report
	kind  string
	users int64
}

// row is the value of a row, NaN if it was not measured.
func (v journeyValues) row(id string) float64 { return v.r.value(v.kind + "_" + id) }

// each is the time of a row for one person, in microseconds.
func (v journeyValues) each(id string) float64 { return v.row(id) * 1e6 / float64(v.users) }

// ofRow makes a figure of a row.
func ofRow(id string) func(journeyValues) float64 {
	return func(v journeyValues) float64 { return v.row(id) }
}

// over makes a figure of two rows.
func over(a, b string) func(journeyValues) float64 {
	return func(v journeyValues) float64 { return v.row(a) / v.row(b) }
}

// wantTotalS are the seconds for a wave, by the kind of database.
var wantTotalS = map[string]float64{"sqlite": 60, "mariadb": 80, "postgres": 100}

// factsWanted is what must be stored of what comes: a second is never met exactly.
const factsWanted = 0.98

// journeyFigures are what is promised of ten million people on two cores.
var journeyFigures = []journeyFigure{
	{"vs_jobs", false, 100, same, func(v journeyValues) float64 { return v.row("jobs") / v.each("total") }},
	{"vs_sets_release", false, 5, same, func(v journeyValues) float64 {
		return journeyBranches * v.row("sets_release") / (v.each("recover") + v.each("release"))
	}},
	{"vs_sets_total", false, 3, same, func(v journeyValues) float64 { return v.row("sets") / v.each("total") }},
	{"release_s", true, 5, slowly, ofRow("release")},
	{"total_s", true, 0, linear, ofRow("total")}, // wantTotalS
	{"second_to_first", true, 1.5, same, ofRow("second_to_first")},
	{"redis_mb", true, 270, linear, ofRow("redis")},
	{"bytes_per_person", true, 17, same, ofRow("person")},
	{"further_bytes", true, 17, same, ofRow("further")},
	{"hundredth_bytes", true, 24, same, ofRow("hundredth")},
	{"singles_bytes", true, 40, same, ofRow("singles")},
	{"spread_mb", true, 42.4, linear, func(v journeyValues) float64 { return v.row("hundredth_mb") + v.row("singles_mb") }},
	{"sluice_mb", true, 500, same, ofRow("memory")},
	{"lonely_p99_s", true, 1, same, ofRow("lonely_p99")}, // in the midst of a wave; few_wakes without one
	{"called_p99_s", true, 1, same, ofRow("called_p99")},
	{"transactional_p99_s", true, 1, same, ofRow("transactional_p99")},
	{"recover_s", true, 10, slowly, ofRow("recover")},
	{"recover_sql_s", true, 10, slowly, ofRow("recover_sql")},
	{"checkpoint_s", true, 5, slowly, ofRow("checkpoint")},
	{"checkpoint_wave", true, 1.15, same, over("saved_wave", "unsaved_wave")},
	{"wakes_per_s", false, 0.99 * wakesASecond, linear, ofRow("wakes")}, // they come by chance
	{"wakes_growth_s", true, 1, same, ofRow("wakes_growth")},            // it can go on for ever
	{"few_wakes_p99_s", true, 0.5, same, ofRow("few_wakes_p99")},
	{"facts_per_s", false, factsWanted * factsRate, same, ofRow("facts_rate")},
	{"facts_lag_s", true, 2, same, func(v journeyValues) float64 { return max(v.row("facts_stored_lag"), v.row("facts_told_lag")) }},
	{"facts_written_to_none", false, 0.8, same, over("facts_written", "facts_none")},
	{"facts_all_to_none", false, allToNone, same, over("facts_all", "facts_none")},
	{"mails_vs_send", false, 0.8, same, over("mails_journey_cpu", "mails_sent_cpu")},
	{"mails_waiting_bytes", true, 4, same, ofRow("mails_waiting")},
	// What people cost is what is computed for them. The time of a wave of a million swings by a
	// quarter, and others are moved and mailed beside that of ten.
	{"cost_to_tenth", true, 1.2, same, over("total_cpu", "many_1_cpu")},
	{"cost_many_to_one", true, 1.2, same, func(v journeyValues) float64 {
		return max(v.row("many_10_cpu"), v.row("many_50_cpu")) / v.row("many_1_cpu")
	}},
}

// judgeJourney judges the rows of a kind of database: if it was wanted, now or in a run
// before that the record has, all figures stand there.
func (r *report) judgeJourney(kind string, users int64, wanted bool) {
	wanted = wanted || slices.ContainsFunc(r.Rows, func(x row) bool { return strings.HasPrefix(x.ID, kind+"_") })
	scaled := float64(users) / journeyUsers
	for _, f := range journeyFigures {
		t := target{ratio: kind + "_" + f.name, below: f.below, value: f.limit}
		if f.name == "total_s" {
			t.value = wantTotalS[kind]
		}
		switch f.scale {
		case linear:
			t.value *= scaled
		case slowly:
			t.value = max(t.value*scaled, 1)
		}
		v := journeyValues{r, kind, users}
		if f.name == "facts_per_s" || f.name == "facts_lag_s" {
			t.limited = v.factsLimit()
		}
		if wanted {
			r.want(t, f.of(v))
		}
	}
}

// allToNone is what the store must do with all that becomes of facts, of what it does
// without any, where it has more to do than it can.
const allToNone = 0.6

// factsLimit says that the store does not keep up with the rate of the part `facts` without
// any fact either, if that is so. Then it has more to do than it can, and what is wanted is
// its share. It is "" if the store keeps up, or if its share is too small.
func (v journeyValues) factsLimit() string {
	none := v.row("facts_none_rate")
	behind := v.row("facts_stored_lag") // as long as the events came, if half of them are stored in time
	if !(none < factsWanted*factsRate) || v.row("facts_rate") < allToNone*none || !(behind < factsSpan.Seconds()) {
		return ""
	}
	return "the store does " + number(none) + " a second without facts"
}
