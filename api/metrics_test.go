package api

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// documentedMetrics are the rows of docs/metrics.md: the name, and behind it
// type, labels and help.
func documentedMetrics(t *testing.T) map[string][3]string {
	t.Helper()
	text, err := os.ReadFile("../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := make(map[string][3]string)
	for _, m := range regexp.MustCompile("(?m)^\\| `(sluice_[a-z_]+)` \\| (\\w+) \\| ([^|]*) \\| (.*) \\|$").FindAllStringSubmatch(string(text), -1) {
		if _, twice := rows[m[1]]; twice {
			t.Errorf("docs/metrics.md has %s twice", m[1])
		}
		rows[m[1]] = [3]string{m[2], strings.NewReplacer("`", "", ", ", ",").Replace(strings.TrimSpace(m[3])), m[4]}
	}
	return rows
}

// The list of the metrics and the program agree: names, types, labels, words.
func TestDocumentHasEveryMetric(t *testing.T) {
	rows := documentedMetrics(t)
	s, url := start(t, &program{stats: fullStats()})
	s.intake.answers.WithLabelValues("202").Inc()
	for _, v := range []*prometheus.CounterVec{s.hooks.requests, s.hooks.events} {
		v.WithLabelValues("main", "sendgrid")
	}
	s.hooks.refused.WithLabelValues("main", "sendgrid", hookStale)
	s.hooks.last.WithLabelValues("main", "sendgrid")
	_, _, body := do(t, "GET", url+"/metrics")
	kinds := make(map[string]string)
	for _, m := range regexp.MustCompile(`(?m)^# TYPE (sluice_\w+) (\w+)$`).FindAllStringSubmatch(body, -1) {
		kinds[m[1]] = m[2]
	}
	descs := make(chan *prometheus.Desc, 200)
	newRegistry(metrics{program: &program{}}, newIntake(), newHooks(nil)).Describe(descs)
	close(descs)
	parts := regexp.MustCompile(`^Desc\{fqName: "(sluice_\w+)", help: "(.*?)", (?:unit: ".*?", )?constLabels: \{\}, variableLabels: \{(.*)\}\}$`)
	for d := range descs {
		m := parts.FindStringSubmatch(d.String())
		if m == nil {
			continue // of Go, or of the process
		}
		if kinds[m[1]] == "" {
			t.Errorf("%s has no sample here: give it one in fullStats", m[1])
			continue
		}
		if want := [3]string{kinds[m[1]], m[3], m[2]}; rows[m[1]] != want {
			t.Errorf("docs/metrics.md: %s is %q, want %q", m[1], rows[m[1]], want)
		}
		delete(rows, m[1])
	}
	for name := range rows {
		t.Errorf("docs/metrics.md has %s, which is no metric", name)
	}
}
