package main

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// sample returns the value of one line of the metrics, -1 if there is none.
func (s *served) sample(t *testing.T, line string) float64 {
	t.Helper()
	_, body := s.get(t, "/metrics")
	return sampleOf(t, body, line)
}

// sampleOf is sample of metrics that were read.
func sampleOf(t *testing.T, body, line string) float64 {
	t.Helper()
	m := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(line) + ` (\S+)$`).FindStringSubmatch(body)
	if m == nil {
		return -1
	}
	v, err := strconv.ParseFloat(m[1], 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// What a transaction went through is measured, from the request to the trim.
func TestMetricsOfARunningProgram(t *testing.T) {
	t.Parallel()
	s := startServe(t, t.TempDir(), "SLUICE_ROOT_KEY="+testRoot, "SLUICE_PARTITIONS=1")
	const requests = 12
	for i := range requests {
		s.accepted(t, 2, fmt.Sprintf(`[{"event":"open","user_id":"u%d"},{"event":"click","user_id":"u"}]`, i))
	}
	await(t, "all is stored", func() bool { return s.metric(t, "sluice_stored_rows_total") == 2*requests })
	await(t, "what is stored is no backlog", func() bool { return s.sample(t, `sluice_log_batches{partition="0"}`) == 0 })
	var body string
	var others []string
	defer func() {
		if t.Failed() {
			t.Logf("what the last metrics had otherwise:\n%s", strings.Join(others, "\n"))
		}
	}()
	// A trim is counted a moment after the backlog has gone, and a look that is late lacks lines.
	await(t, "the metrics add up", func() bool {
		_, body = s.get(t, "/metrics")
		others = nil
		commits := sampleOf(t, body, "sluice_commit_seconds_count")
		for line, want := range map[string]float64{
			"sluice_append_items_sum":                                   2 * requests,
			"sluice_commit_rows_sum":                                    2 * requests,
			"sluice_commit_rows_count":                                  commits,
			`sluice_stage_seconds_count{stage="read"}`:                  commits,
			`sluice_stage_seconds_count{stage="encode"}`:                commits,
			`sluice_stage_seconds_count{stage="trim"}`:                  commits,
			`sluice_lease_changes_total{change="taken",role="store"}`:   1,
			`sluice_lease_changes_total{change="lost",role="store"}`:    0,
			`sluice_follower_lag_items{follower="store",partition="0"}`: 0,
			`sluice_log_margin_seconds{partition="0"}`:                  60,
			`sluice_leases{role="store"}`:                               1,
		} {
			if got := sampleOf(t, body, line); got != want {
				others = append(others, fmt.Sprintf("%s is %v, want %v", line, got, want))
			}
		}
		return len(others) == 0
	})
	for _, pattern := range []string{
		`sluice_redis_call_seconds_count\{server="[^"]*redis[^"]*"\} [1-9]`, `sluice_redis_errors_total\{server="[^"]+"\} [0-9]`,
		`sluice_data_free_bytes [1-9]`, `sluice_data_size_bytes [1-9]`, `sluice_build_info\{goversion="go[^"]+",revision="[^"]*",version="unversioned"\} 1`,
	} {
		if !regexp.MustCompile(`(?m)^` + pattern).MatchString(body) {
			t.Errorf("no line %s in\n%s", pattern, body)
		}
	}
}
