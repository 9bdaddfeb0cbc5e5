package main

import (
	"encoding/json"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// metricNames are those that docs/metrics.md lists, which package api compares
// with the program.
func metricNames(t *testing.T) map[string]bool {
	t.Helper()
	names := make(map[string]bool)
	for _, m := range regexp.MustCompile("(?m)^\\| `(sluice_[a-z_]+)` \\| (\\w+) \\|").FindAllStringSubmatch(readText(t, filepath.Join("docs", "metrics.md")), -1) {
		names[m[1]] = true
		if m[2] == "histogram" {
			names[m[1]+"_bucket"], names[m[1]+"_sum"], names[m[1]+"_count"] = true, true, true
		}
	}
	if len(names) < 30 {
		t.Fatalf("%d metrics found", len(names))
	}
	return names
}

var (
	ourMetric = regexp.MustCompile(`\bsluice_[a-z_]+`)
	goMetric  = regexp.MustCompile(`\b(?:go|process)_[a-z_]+`)
)

// The dashboard and the rules ask for metrics that the program has, and the
// dashboard for all of them.
func TestDashboardAndRulesKnowTheMetrics(t *testing.T) {
	t.Parallel()
	known := metricNames(t)
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal([]byte(readText(t, filepath.Join("deploy", "grafana", "sluice.json"))), &dashboard); err != nil {
		t.Fatal(err)
	}
	_, running := startServe(t, t.TempDir()).get(t, "/metrics")
	shown := make(map[string]bool)
	for _, p := range dashboard.Panels {
		for _, target := range p.Targets {
			for _, name := range ourMetric.FindAllString(target.Expr, -1) {
				if !known[name] {
					t.Errorf("panel %s asks for %s, which is no metric", p.Title, name)
				}
				shown[regexp.MustCompile(`_(bucket|sum|count)$`).ReplaceAllString(name, "")] = true
			}
			for _, name := range goMetric.FindAllString(target.Expr, -1) {
				if !strings.Contains(running, "# TYPE "+name+" ") {
					t.Errorf("panel %s asks for %s, which the program does not have", p.Title, name)
				}
			}
		}
	}
	for name := range known {
		if !shown[regexp.MustCompile(`_(bucket|sum|count)$`).ReplaceAllString(name, "")] {
			t.Errorf("no panel shows %s", name)
		}
	}
	for _, line := range strings.Split(readText(t, filepath.Join("deploy", "prometheus", "alerts.yml")), "\n") {
		for _, name := range ourMetric.FindAllString(line, -1) {
			if strings.Contains(line, "expr:") && !known[name] {
				t.Errorf("a rule asks for %s, which is no metric: %s", name, line)
			}
		}
	}
}

// Each rule leads to a heading of docs/alerts.md of its own name.
func TestEveryRuleHasARunbook(t *testing.T) {
	headings := alertHeadings(t)
	rules := regexp.MustCompile(`(?m)^ +- alert: Sluice(\w+)$`).FindAllStringSubmatchIndex(readText(t, filepath.Join("deploy", "prometheus", "alerts.yml")), -1)
	text := readText(t, filepath.Join("deploy", "prometheus", "alerts.yml"))
	if len(rules) < 5 {
		t.Fatalf("%d rules found", len(rules))
	}
	for i, at := range rules {
		end := len(text)
		if i+1 < len(rules) {
			end = rules[i+1][0]
		}
		name := text[at[2]:at[3]]
		anchor := "alert" + strings.ToLower(regexp.MustCompile(`[A-Z]`).ReplaceAllString(name, "-$0"))
		if !headings[anchor] {
			t.Errorf("docs/alerts.md has no heading %s", anchor)
		}
		if rule := text[at[0]:end]; !strings.Contains(rule, "runbook: docs/alerts.md#"+anchor+"\n") || !strings.Contains(rule, " summary: ") {
			t.Errorf("rule %s has no summary, or no runbook %s", name, anchor)
		}
	}
}
