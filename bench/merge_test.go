package bench

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// recordOf is a run of `bench journey` that goes on with a record, and measures rows.
func recordOf(t *testing.T, file, users string, rows map[string]float64) *report {
	t.Helper()
	r := newReport(journeyName)
	r.Settings["users"] = users
	if err := r.readRecord(file); err != nil {
		t.Fatal(err)
	}
	for id, value := range rows {
		r.add(id, "Label", "s", value)
	}
	for _, kind := range journeyKinds {
		r.judgeJourney(kind, journeyUsers, kind == "sqlite")
	}
	if err := writeFile(file, r.writeJSON); err != nil {
		t.Fatal(err)
	}
	return r
}

// A record of several runs has the rows of all, those of the last where two measured
// the same, and says of each figure what became of it.
func TestRecordOfSeveralRuns(t *testing.T) {
	file := filepath.Join(t.TempDir(), "journey.json")
	recordOf(t, file, "10", map[string]float64{"sqlite_total": 59, "sqlite_jobs": 7000, "mariadb_total": 81})
	recordOf(t, file, "10", map[string]float64{"sqlite_total": 61, "sqlite_further": 16})
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var back report
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	values, runs := map[string]float64{}, 0
	for _, x := range back.Rows {
		values[x.ID] = x.Value
		runs += len(x.Runs)
	}
	if values["sqlite_total"] != 61 || values["sqlite_jobs"] != 7000 || values["mariadb_total"] != 81 || runs != 4 {
		t.Errorf("rows %v of %d runs", values, runs)
	}
	verdicts := map[string]string{}
	for _, f := range back.Figures {
		verdicts[f.Name] = f.Limit + " " + f.Verdict
		if (f.Value == nil) != (f.Verdict == verdictNone) {
			t.Errorf("%s is %s and has the value %v", f.Name, f.Verdict, f.Value)
		}
	}
	for name, want := range map[string]string{
		"sqlite_total_s": "< 60 MISSED", "mariadb_total_s": "< 80 MISSED", "sqlite_vs_jobs": ">= 100.0 passed", // 7,000 to 6.1
		"sqlite_further_bytes": "< 17 passed", "sqlite_checkpoint_s": "< 5 not measured", "mariadb_vs_jobs": ">= 100.0 not measured", "postgres_vs_jobs": "",
	} {
		if verdicts[name] != want {
			t.Errorf("%s: %q, want %q", name, verdicts[name], want)
		}
	}
}

// What a run that was to measure all has not measured is missed; what another part will
// measure is not.
func TestAllIsAsserted(t *testing.T) {
	r := recordOf(t, filepath.Join(t.TempDir(), "journey.json"), "10", map[string]float64{"sqlite_total": 59})
	if missed := r.missed(); len(missed) > 0 {
		t.Errorf("a part missed %v", missed)
	}
	r.whole = true
	if missed := strings.Join(r.missed(), "; "); !strings.Contains(missed, "sqlite_vs_jobs was not measured, wanted >= 100.0") || strings.Contains(missed, "sqlite_total_s") {
		t.Errorf("all missed %q", missed)
	}
}

// Runs of other sizes, machines and benches are no part of a record, which stays as it is.
func TestRecordsDoNotMix(t *testing.T) {
	for name, change := range map[string]func(*report){
		"size":    func(r *report) { r.Settings["users"] = "20" },
		"machine": func(r *report) { r.Machine.Cores++ },
		"program": func(r *report) { r.Versions["go"] = "go1.0" },
		"bench":   func(r *report) { r.Bench = "send" },
	} {
		file := filepath.Join(t.TempDir(), "journey.json")
		recordOf(t, file, "10", map[string]float64{"sqlite_total": 59})
		r := newReport(journeyName)
		r.Settings["users"] = "10"
		change(r)
		if err := r.readRecord(file); err == nil || len(r.Rows) > 0 {
			t.Errorf("another %s: %d rows were taken over (%v)", name, len(r.Rows), err)
		}
	}
	file := filepath.Join(t.TempDir(), "journey.json")
	if err := os.WriteFile(file, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := Main(t.Context(), []string{journeyName, "--users", "1000", "--merge", file}, t.Output(), t.Output()); got != exitFailed {
		t.Errorf("a broken record: exit code %d, want %d", got, exitFailed)
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != "{" {
		t.Errorf("a broken record was changed: %s (%v)", text, err)
	}
}

// A rate that the store does not reach without facts either is limited, with the reason; not
// if facts leave the store less than its share, or if the store reaches it.
func TestRateBeyondTheMachine(t *testing.T) {
	for _, c := range []struct {
		none, facts, lag  float64
		wantRate, wantLag string
	}{
		{66_000, 62_000, 2.5, "LIMITED: the store does 66000 a second without facts", "LIMITED: the store does 66000 a second without facts"},
		{66_000, 39_000, 2.5, verdictMissed, verdictMissed},
		{69_000, 66_000, 2.5, verdictMissed, verdictMissed},
		{66_000, 62_000, 20, verdictMissed, verdictMissed}, // it never comes up
		{66_000, 69_000, 1.5, verdictPassed, verdictPassed},
	} {
		r := newReport("journey")
		for id, v := range map[string]float64{"facts_none_rate": c.none, "facts_rate": c.facts, "facts_told_lag": c.lag, "facts_stored_lag": c.lag} {
			r.add("sqlite_"+id, id, "", v)
		}
		r.judgeJourney("sqlite", journeyUsers, true)
		got := map[string]string{}
		for _, f := range r.figures() {
			got[f.Name] = f.Verdict
		}
		if rate, lag := got["sqlite_facts_per_s"], got["sqlite_facts_lag_s"]; rate != c.wantRate || lag != c.wantLag {
			t.Errorf("%v of %v: %q and %q", c.facts, c.none, rate, lag)
		}
		if missed := strings.Contains(strings.Join(r.missed(), "\n"), "sqlite_facts_per_s"); missed != (c.wantRate == verdictMissed) {
			t.Errorf("%v of %v: an error of the bench: %v", c.facts, c.none, missed)
		}
	}
}
