package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"sluice/config"
	"sluice/lib/doctor"
	"sluice/test/tables"
)

// The files of deploy/redis and deploy/mariadb, and what docs/scale.md says to do with
// them, are text that no program reads. These tests are the operator: they put addresses
// and a password in, run the commands of the page, and kill the master. To run on one
// machine they also replace, or override by arguments:
//
//   - of the files of Redis: port, dir, bind
//   - of replica.cnf: bind-address; and server_id of the second, as the page says
//   - of galera.cnf: bind-address; and they add the ports that all nodes would share
//   - of the statements: MASTER_PORT is added, since the page has the usual one

// scalePage is the page that they follow.
const scalePage = "docs/scale.md"

// placeholder is what an operator replaces. None may be left.
var placeholder = regexp.MustCompile(`10\.0\.0\.|CHANGE-ME|/var/lib|USER:|[ ':]PASSWORD[ '@]`)

// filledIn returns a text with its placeholders replaced; pairs are old and new, in the
// order in which they are looked for. Each old one has to be there: else the test would
// replace what the text does not say any more.
func filledIn(t *testing.T, what, text string, pairs ...string) string {
	t.Helper()
	for i := 0; i < len(pairs); i += 2 {
		if !strings.Contains(text, pairs[i]) {
			t.Fatalf("%s does not say %q", what, pairs[i])
		}
	}
	text = strings.NewReplacer(pairs...).Replace(text)
	for line := range strings.Lines(text) {
		if said, _, _ := strings.Cut(line, "#"); placeholder.MatchString(said) {
			t.Fatalf("%s has a placeholder that the test does not replace: %s", what, line)
		}
	}
	return text
}

// scaleLine returns the only line of the page that begins so, without a comment.
func scaleLine(t *testing.T, begins string) string {
	t.Helper()
	found := regexp.MustCompile(`(?m)^`+regexp.QuoteMeta(begins)+`.*$`).FindAllString(readText(t, scalePage), -1)
	if len(found) != 1 {
		t.Fatalf("%s has %d lines that begin with %q, want 1", scalePage, len(found), begins)
	}
	line, _, _ := strings.Cut(found[0], " #")
	return strings.TrimSpace(line)
}

// deployed is a program on the servers of the files.
type deployed struct {
	*served
	stored int
}

// troubles are the warnings and errors that doctor has. That there are no tables and no
// process before the first start is none.
func troubles(t *testing.T, dir string, args ...string) (all []string) {
	t.Helper()
	r := sluiceRun(t, dir, append([]string{"doctor", "--json"}, args...)...)
	var report doctorReport
	if err := json.Unmarshal([]byte(r.stdout), &report); err != nil {
		t.Fatalf("%v:\n%s%s", err, r.stdout, r.stderr)
	}
	for _, f := range report.Findings {
		bad := f.Severity == doctor.SeverityError || f.Severity == doctor.SeverityWarning
		if bad && (len(args) > 0 || f.Check != doctor.CheckProcesses && f.Check != doctor.CheckDatabaseSchema) {
			all = append(all, fmt.Sprintf("%s %s: %s: %s", f.Severity, f.Check, f.Where, f.Found))
		}
	}
	return all
}

// awaitWell waits until doctor finds nothing, as the page says to.
func awaitWell(t *testing.T, when, dir string, args ...string) {
	t.Helper()
	var last []string
	defer func() {
		if t.Failed() {
			t.Logf("%s doctor finds\n%s", when, strings.Join(last, "\n"))
		}
	}()
	await(t, when+" doctor finds nothing", func() bool {
		last = troubles(t, dir, args...)
		return len(last) == 0
	})
}

// serveDeployed starts the program with lines of the page in its configuration, once
// doctor finds nothing wrong with the servers, and stores events.
func serveDeployed(t *testing.T, lines ...string) *deployed {
	t.Helper()
	dir := t.TempDir()
	configure(t, dir, "partitions: 4\n"+strings.Join(lines, "\n")+"\n")
	if err := os.Chmod(filepath.Join(dir, config.DefaultFile), 0o600); err != nil { // it has a password
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "data"), 0o700); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(strings.Join(lines, "\n"), "database:") {
		tables.Make(t, filepath.Join(dir, "data", "sluice.db"))
	}
	awaitWell(t, "before the start", dir)
	d := &deployed{served: serveConfigured(t, dir, "SLUICE_ROOT_KEY="+testRoot)}
	d.store(t, "after the start")
	return d
}

// well waits until doctor finds nothing, with the program.
func (d *deployed) well(t *testing.T, when string) {
	t.Helper()
	awaitWell(t, when, d.dir, "--listen", strings.TrimPrefix(d.url, "http://"))
}

// lastLines is the end of a log.
func lastLines(log string) string { return log[max(0, len(log)-4000):] }

// eventsAtOnce is so many that each partition gets some.
const eventsAtOnce = 64

// store hands in events until they are accepted, as a producer does, and returns when
// they are stored.
func (d *deployed) store(t *testing.T, when string) {
	t.Helper()
	var all []string
	for n := range eventsAtOnce {
		all = append(all, fmt.Sprintf(`{"event":"seen","event_id":"e-%d-%d","user_id":"u-%d","time":%d}`, d.stored, n, n, time.Now().Unix()))
	}
	last := ""
	defer func() {
		if t.Failed() {
			t.Logf("%s the last answer was %s; the end of the log of the program:\n%s", when, last, lastLines(d.log.String()))
		}
	}()
	began := time.Now()
	await(t, when+" events are accepted", func() bool {
		a, err := d.try(strings.NewReader("[" + strings.Join(all, ",") + "]"))
		last = fmt.Sprint(a.status, a.text, err)
		return err == nil && a.status == http.StatusAccepted && a.body.Accepted == eventsAtOnce
	})
	t.Logf("%s events are accepted within %d ms", when, time.Since(began).Milliseconds())
	d.stored += eventsAtOnce
	await(t, when+" they are stored", func() bool { return d.metric(t, "sluice_stored_rows_total") >= d.stored })
}
