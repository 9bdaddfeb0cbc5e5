package api

import (
	"errors"
	"log/slog"
	"net"
	"os"
	"regexp"
	"strings"
	"syscall"
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

// A caller of /metrics who has read enough and hangs up is no fault; anything else is told.
func TestWhoReadsEnoughOfTheMetricsIsNoFault(t *testing.T) {
	var said strings.Builder
	log := scrapeLog{slog.New(slog.NewTextHandler(&said, nil)), "r1"}
	for _, err := range []error{syscall.EPIPE, &net.OpError{Op: "write", Err: os.NewSyscallError("write", syscall.ECONNRESET)}} {
		log.Println("error encoding and sending metric family:", err)
	}
	if said.Len() > 0 {
		t.Errorf("said: %s", &said)
	}
	if log.Println("error gathering metrics:", errors.New("twice")); !strings.Contains(said.String(), `level=WARN msg="metrics are not answered whole" id=r1 error="error gathering metrics: twice"`) {
		t.Errorf("said: %s", &said)
	}
}
