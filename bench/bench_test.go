package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestElementsAreRealistic(t *testing.T) {
	total, buf := 0, make([]byte, 0, 256)
	const n = 10_000
	last := int64(0)
	for i := int64(-n); i < n; i++ {
		x := at(i)
		raw := x.appendJSON(buf[:0])
		total += len(raw)
		if len(raw) < 150 || len(raw) > 200 {
			t.Fatalf("element %d has %d bytes: %s", i, len(raw), raw)
		}
		var e struct {
			ID        int64
			Event     string
			Email     string
			Timestamp int64
		}
		if err := json.Unmarshal(raw, &e); err != nil {
			t.Fatalf("element %d: %v: %s", i, err, raw)
		}
		if e.ID <= last || e.Event != x.event || e.Timestamp != x.timeMillis || !strings.Contains(e.Email, "@") {
			t.Fatalf("element %d: got %+v from %s", i, e, raw)
		}
		last = e.ID
		if arrived := elementsBegin + floorDiv(i, arrivalsPerMilli); e.Timestamp < arrived || e.Timestamp >= arrived+jitterMillis {
			t.Fatalf("element %d: time %d, arrived %d", i, e.Timestamp, arrived)
		}
	}
	if mean := total / (2 * n); mean < 170 || mean > 190 {
		t.Errorf("mean size is %d bytes, want 170 to 190", mean)
	}
}

func TestReportJudges(t *testing.T) {
	r := newReport("test")
	for _, v := range []float64{30, 10, 20} {
		r.add("ours", "Ours", "rows/s", v)
	}
	r.add("theirs", "Theirs & <old>", "rows/s", 10)
	r.add("delay", "Delay", "s", 1)
	r.divide("vs_theirs", "ours", "theirs", 2)
	r.divide("vs_more", "ours", "theirs", 2.1)
	r.divide("vs_nothing", "ours", "not measured", 1)
	r.limit("delay_s", "delay", 1)
	if got := r.value("ours"); got != 20 {
		t.Errorf("median is %v, want 20", got)
	}
	if !math.IsNaN(r.value("not measured")) {
		t.Error("a row that was not measured has a value")
	}
	want := "vs_more is 2, wanted >= 2.1; delay_s is 1, wanted < 1"
	if got := strings.Join(r.missed(), "; "); got != want {
		t.Errorf("missed: got %q, want %q", got, want)
	}
	var table, file, svg bytes.Buffer
	r.print(&table)
	if !strings.Contains(table.String(), "vs_more") || strings.Count(table.String(), verdictMissed) != 2 {
		t.Errorf("table:\n%s", &table)
	}
	if err := r.writeJSON(&file); err != nil {
		t.Fatal(err)
	}
	var back map[string]any
	if err := json.Unmarshal(file.Bytes(), &back); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"bench", "at", "machine", "versions", "settings", "rows", "ratios"} {
		if _, ok := back[key]; !ok {
			t.Errorf("the file has no %s", key)
		}
	}
	if err := r.writePlot(&svg); err != nil {
		t.Fatal(err)
	}
	for d := xml.NewDecoder(&svg); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("the chart is no XML: %v", err)
		}
	}
}

func TestMainReadsItsArguments(t *testing.T) {
	for _, c := range []struct {
		args []string
		want int
		says string
	}{
		{nil, exitOK, "events"},
		{[]string{"--help"}, exitOK, "filled"},
		{[]string{"nonsense"}, exitUsage, `no bench "nonsense"`},
		{[]string{"events", "--fast"}, exitUsage, "-fast"},
		{[]string{"events", "more"}, exitUsage, `"more"`},
		{[]string{"events", "--only", "backlog,lunch"}, exitUsage, `no part "lunch"`},
		{[]string{"events", "--database-away", "2s"}, exitUsage, "want 0 to 1s"},
		{[]string{"http", "--database-away", "1ms"}, exitUsage, "-database-away"},
		{[]string{"turns", "--quick"}, exitFailed, "--against FILE"},
		{[]string{"turns", "--turns", "1"}, exitUsage, "want 2 to 1000"},
		{[]string{"turns", "--benches", "rules,lunch:all"}, exitUsage, `no bench "lunch"`},
		{[]string{"turns", "--benches", "turns"}, exitUsage, `no bench "turns"`},
		{[]string{"journey", "--database", "sqlite,lunch"}, exitUsage, `no kind "lunch"`},
		{[]string{"journey", "--only", "wave,lunch"}, exitUsage, `no part "lunch"`},
		{[]string{"events", "--merge", "file"}, exitUsage, "-merge"},
		{[]string{"filled", "--redis", "http://secret@host", "--quick"}, exitFailed, "want redis://"},
	} {
		var out bytes.Buffer
		if got := Main(t.Context(), c.args, &out, &out); got != c.want {
			t.Errorf("%q: exit code %d, want %d", c.args, got, c.want)
		}
		if !strings.Contains(out.String(), c.says) || strings.Contains(out.String(), "secret") {
			t.Errorf("%q says %q, want %q in it", c.args, &out, c.says)
		}
	}
}

// testEnv starts private servers, as a bench does.
func testEnv(t *testing.T, withMaria bool) *env {
	t.Helper()
	r := &run{report: newReport("test"), progress: t.Output(), started: time.Now(), options: options{partitions: somePartitions}}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	e, err := openEnv(ctx, r, withMaria)
	t.Cleanup(func() {
		if err := e.close(); err != nil {
			t.Error(err)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestOldDesignsWriteAllRows(t *testing.T) {
	e := testEnv(t, true)
	all := elements{first: 7, count: 2550}
	for name, measure := range map[string]func(context.Context, database, *table, elements) (time.Duration, error){
		"one at a time": e.runOneAtATime, "published": e.runPublished, "bulk load": e.runBulk,
	} {
		for _, table := range []*table{pepiEvent, standard} {
			// oneRun verifies the table.
			if _, err := e.oneRun(t.Context(), e.maria, table, all, measure); err != nil {
				t.Errorf("%s into %s: %v", name, table.name, err)
			}
		}
	}
	if got, want := digest(t, e, e.runPublished), digest(t, e, e.runBulk); got != want {
		t.Errorf("the rows of the published design and of the file differ: %d, %d", got, want)
	}
	if n, err := e.redis.Keys(t.Context()); err != nil || n != 0 {
		t.Errorf("redis holds %d keys after the list was drained (%v)", n, err)
	}
}

// digest sums up the rows that a way makes of the same events in the standard
// table, but for their places in a log.
func digest(t *testing.T, e *env, measure func(context.Context, database, *table, elements) (time.Duration, error)) (sum int64) {
	t.Helper()
	if _, err := e.oneRun(t.Context(), e.maria, standard, elements{first: 7, count: 2550}, measure); err != nil {
		t.Fatal(err)
	}
	const query = "SELECT SUM(CRC32(CONCAT_WS('|', event_id, kind, name, app_id, time, email, properties))) FROM events"
	if err := e.maria.db.QueryRowContext(t.Context(), query).Scan(&sum); err != nil {
		t.Fatal(err)
	}
	return sum
}

func TestVerifyVoidsARun(t *testing.T) {
	e := testEnv(t, false)
	s, err := openSQLite(e)
	if err != nil {
		t.Fatal(err)
	}
	all := elements{count: 500}
	for _, c := range []struct{ name, statement string }{
		{"lost", "DELETE FROM pepi_event WHERE id = 500000250"},
		{"doubled", "INSERT INTO pepi_event SELECT * FROM pepi_event WHERE id = 500000250"},
		{"one lost, one doubled", "UPDATE pepi_event SET id = 500000250 WHERE id = 500000251"},
		{"another's", "UPDATE pepi_event SET id = 1 WHERE id = 500000000"},
		{"cut", "UPDATE pepi_event SET event_name = substr(event_name, 2) WHERE id = 500000250"},
	} {
		if err := s.fresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, err := s.bulk(t.Context(), pepiEvent, all); err != nil {
			t.Fatal(err)
		}
		if err := verify(t.Context(), s, pepiEvent, all); err != nil {
			t.Fatalf("whole: %v", err)
		}
		if _, err := s.db.ExecContext(t.Context(), c.statement); err != nil {
			t.Fatal(err)
		}
		if err := verify(t.Context(), s, pepiEvent, all); err == nil || !strings.Contains(err.Error(), "void") {
			t.Errorf("%s: got %v, want a void run", c.name, err)
		}
	}
}

// TestSluiceIsMeasured runs the real program as the bench does. Its rows are
// those of the bulk load that it is compared with.
func TestSluiceIsMeasured(t *testing.T) {
	e := testEnv(t, true)
	e.run.program = filepath.Join(t.TempDir(), "sluice")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", e.run.program, "sluice/cmd/sluice")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the program: %v: %s", err, out)
	}
	s, err := openSQLite(e)
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range []*table{pepiEvent, standard} {
		if _, err := e.oneRun(t.Context(), s, table, elements{count: 5000}, e.runSluice); err != nil {
			t.Errorf("%s: %v", table.name, err)
		}
	}
	if got, want := digest(t, e, e.runSluice), digest(t, e, e.runBulk); got != want {
		t.Errorf("the rows of Sluice and of the file differ: %d, %d", got, want)
	}
	if e.lastPeakMB <= 0 {
		t.Errorf("peak memory: got %v", e.lastPeakMB)
	}
}

// The old design of the series counts all that it was told to.
func TestIncrementEachCountsAll(t *testing.T) {
	s := &seriesBench{env: testEnv(t, false)}
	if err := s.start(t.Context()); err != nil {
		t.Fatal(err)
	}
	done := int64(0)
	for span := 200 * time.Millisecond; done == 0; span *= 4 { // a busy machine may do nothing in the first
		var err error
		if done, err = s.mongo.IncrementEach(t.Context(), seriesApp, 7, 3, seriesHour, time.Now().Add(span)); err != nil || span > time.Minute {
			t.Fatal(done, err)
		}
	}
	if has, err := s.mongo.Sum(t.Context(), seriesApp, seriesHour); err != nil || has != done {
		t.Errorf("%d increments acknowledged, %d there, %v", done, has, err)
	}
}

// TestWholeBenchesInTurns compares the results of two programs, one of which has a
// row more.
func TestWholeBenchesInTurns(t *testing.T) {
	program := func(name, rows string) string {
		file := filepath.Join(t.TempDir(), name)
		script := `#!/bin/sh
[ "$*" = "bench send --quick --json $5 --only cpu" ] && echo '{"rows":[` + rows + `]}' > "$5"
`
		if err := os.WriteFile(file, []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
		return file
	}
	r := &run{report: newReport("test"), progress: t.Output(), started: time.Now(), options: options{
		program: program("this", `{"id":"mail","value":3},{"id":"new","value":1}`),
		against: program("other", `{"id":"mail","value":2}`), turns: 3, whole: "send:cpu"}}
	if err := runTurns(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	if len(r.report.Rows) != 1 || len(r.report.Rows[0].Runs) != 3 || r.report.Ratios["send:cpu_mail"] != 1.5 || r.report.Ratios["send:cpu_mail_from"] != 1.5 {
		t.Errorf("rows %+v, ratios %v", r.report.Rows, r.report.Ratios)
	}
}
