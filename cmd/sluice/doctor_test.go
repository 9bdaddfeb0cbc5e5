package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice"
	"sluice/config"
	"sluice/engine"
	"sluice/ingest/spill"
	"sluice/lib/doctor"
)

// diagnosed runs `sluice doctor --json` and returns its exit code and the worst
// severity of each check.
func diagnosed(t *testing.T, dir string, args ...string) (int, map[doctor.Check]doctor.Severity) {
	t.Helper()
	r := sluiceRun(t, dir, append([]string{"doctor", "--json"}, args...)...)
	t.Logf("doctor says\n%s", r.stdout)
	return r.code, worstOf(t, r)
}

// awaitDoctor runs `sluice doctor` until what it says is as wanted. On a busy machine a
// heartbeat may come late, and then a process is not ready for a moment.
func awaitDoctor(t *testing.T, dir, what string, holds func(result) bool, args ...string) {
	t.Helper()
	var last result
	defer func() {
		if t.Failed() {
			t.Logf("doctor, exit code %d:\n%s%s", last.code, last.stdout, last.stderr)
		}
	}()
	await(t, what, func() bool {
		last = sluiceRun(t, dir, append([]string{"doctor"}, args...)...)
		return holds(last)
	})
}

// worstOf returns the worst severity of each check of `sluice doctor --json`, whose report
// is whole.
func worstOf(t *testing.T, r result) map[doctor.Check]doctor.Severity {
	t.Helper()
	var report doctorReport
	if err := json.Unmarshal([]byte(r.stdout), &report); err != nil {
		t.Fatalf("%v:\n%s%s", err, r.stdout, r.stderr)
	}
	rank := map[doctor.Severity]int{doctor.SeverityOK: 1, doctor.SeverityUnknown: 2, doctor.SeverityWarning: 3, doctor.SeverityError: 4}
	worst := make(map[doctor.Check]doctor.Severity)
	var counted doctor.Summary
	for _, f := range report.Findings {
		if !slices.Contains(checks, f.Check) || rank[f.Severity] == 0 || f.Where == "" || f.Found == "" {
			t.Errorf("a finding without what it must have: %+v", f)
		}
		if rank[f.Severity] > rank[worst[f.Check]] {
			worst[f.Check] = f.Severity
		}
		counted.OK += map[bool]int{true: 1}[f.Severity == doctor.SeverityOK]
		counted.Warnings += map[bool]int{true: 1}[f.Severity == doctor.SeverityWarning]
		counted.Errors += map[bool]int{true: 1}[f.Severity == doctor.SeverityError]
		counted.Unknown += map[bool]int{true: 1}[f.Severity == doctor.SeverityUnknown]
	}
	if counted != report.Summary || (r.code == exitFailed) != (counted.Errors > 0) || r.code == exitUsage {
		t.Errorf("exit code %d, summary %+v, counted %+v", r.code, report.Summary, counted)
	}
	return worst
}

// A program that runs is found well, but for two settings of its configuration;
// once it has ended, that is said, and nothing is changed.
func TestDoctorOfAProgram(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := startServe(t, dir)
	listen := strings.TrimPrefix(s.url, "http://")
	awaitDoctor(t, dir, "all is looked at and well, but for the two", func(r result) bool {
		found := worstOf(t, r)
		for check, severity := range found {
			if want := map[bool]doctor.Severity{true: doctor.SeverityWarning, false: doctor.SeverityOK}[check == doctor.CheckConfigTimes || check == doctor.CheckConfigProxies]; severity != want {
				return false
			}
		}
		for _, check := range []doctor.Check{doctor.CheckLeases, doctor.CheckFollowers, doctor.CheckDiskFree, doctor.CheckRedisEviction, doctor.CheckDatabaseSchema} {
			if found[check] == "" {
				return false
			}
		}
		return r.code == exitOK
	}, "--json", "--listen", listen)
	awaitDoctor(t, dir, "the text names the two", func(r result) bool {
		return r.code == exitOK && strings.Contains(r.stdout, "  warning  config-event-time: ") && strings.Contains(r.stdout, "\n           -> ") &&
			strings.Count(r.stdout, "redis-eviction") == 1 && strings.Contains(r.stdout, "\nErrors: 0, warnings: 2, in order: ")
	}, "--listen", listen)
	if all := sluiceRun(t, dir, "doctor", "--all", "--listen", listen).stdout; !strings.Contains(all, "\n  ok       redis-eviction:") || !strings.Contains(all, "noeviction") {
		t.Error(all)
	}
	if code := s.stop(t); code != exitOK {
		t.Fatalf("exit code %d:\n%s", code, s.log)
	}
	code, found := diagnosed(t, dir, "--listen", listen)
	if code != exitOK || found[doctor.CheckRedisReachable] != doctor.SeverityUnknown || found[doctor.CheckLeases] != doctor.SeverityUnknown ||
		found[doctor.CheckDatabaseSchema] != doctor.SeverityOK || found[doctor.CheckDeadLetters] != doctor.SeverityOK {
		t.Errorf("after its end: exit code %d, %v", code, found)
	}
}

// An https address without proxies has all who come through its proxy count as one.
func TestDoctorOfProxies(t *testing.T) {
	for want, cfg := range map[doctor.Severity]*config.Config{
		doctor.SeverityWarning: {PublicURL: "https://mail.example.com"},
		doctor.SeverityOK:      {PublicURL: "https://mail.example.com", Proxies: []string{"127.0.0.1"}},
	} {
		var e doctor.Examination
		if examineProxies(&e, cfg); len(e.Findings) != 1 || e.Findings[0].Check != doctor.CheckConfigProxies || e.Findings[0].Severity != want {
			t.Errorf("%+v, want %s", e.Findings, want)
		}
	}
}

// doctorFile is set wrong in every way that is allowed; its servers are away.
const doctorFile = `
listen: 0.0.0.0:0
data: %s
redis: redis://u:s3cret@127.0.0.1:1
database: %s
root_key: 0123456789abcdef0123456789abcdef
accept_gaps: true
event_time: {past_days: 0, future_minutes: 0}
lists:
  q: {redis: "redis://127.0.0.1:2", table: t, columns: {a: a}}
`

func TestDoctorWhenAllIsWrong(t *testing.T) {
	dir := t.TempDir()
	data := filepath.Join(dir, "data")
	if err := os.Mkdir(data, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(data, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil { // the test's own, that lets nobody in
		t.Fatal(err)
	}
	file := filepath.Join(dir, config.DefaultFile)
	for _, database := range []string{"mysql://u:s3cret@127.0.0.1:1/db", "postgres://u:s3cret@127.0.0.1:1/db"} {
		if err := os.WriteFile(file, fmt.Appendf(nil, doctorFile, data, database), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(file, 0o644); err != nil {
			t.Fatal(err)
		}
		code, found := diagnosed(t, dir)
		for check, want := range map[doctor.Check]doctor.Severity{
			doctor.CheckConfigValid: doctor.SeverityOK, doctor.CheckConfigListen: doctor.SeverityWarning, doctor.CheckConfigSecrets: doctor.SeverityWarning,
			doctor.CheckConfigGaps: doctor.SeverityWarning, doctor.CheckConfigTimes: doctor.SeverityWarning, doctor.CheckConfigData: doctor.SeverityWarning,
			doctor.CheckRedisReachable: doctor.SeverityError, doctor.CheckDatabaseReachable: doctor.SeverityError, doctor.CheckDiskFree: doctor.SeverityOK,
			doctor.CheckRedisEviction: doctor.SeverityUnknown, doctor.CheckLeases: doctor.SeverityUnknown, doctor.CheckFollowers: doctor.SeverityUnknown,
		} {
			if found[check] != want {
				t.Errorf("%s: %s is %q, want %q", database, check, found[check], want)
			}
		}
		if text := sluiceRun(t, dir, "doctor"); code != exitFailed || text.code != exitFailed || strings.Contains(text.stdout+text.stderr, "s3cret") {
			t.Errorf("exit codes %d, %d:\n%s%s", code, text.code, text.stdout, text.stderr)
		}
	}
	if err := os.Chmod(file, 0o640); err != nil {
		t.Fatal(err)
	}
	if _, found := diagnosed(t, dir); found[doctor.CheckConfigSecrets] != doctor.SeverityOK {
		t.Errorf("a file that others cannot read: %s", found[doctor.CheckConfigSecrets])
	}
	if code, found := diagnosed(t, dir, "--partitions", "0"); code != exitFailed || found[doctor.CheckConfigValid] != doctor.SeverityError || len(found) != 1 {
		t.Errorf("a configuration that cannot be used: exit code %d, %v", code, found)
	}
}

// What the program says of itself is an error.
func TestDoctorOfAProgramThatIsNotReady(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, `{"ready":false,"reasons":["follower table:q: gone\n\tfor good","redis: away"],"warnings":["a route"]}`, http.StatusServiceUnavailable)
	}))
	defer server.Close()
	code, found := diagnosed(t, t.TempDir(), "--listen", strings.TrimPrefix(server.URL, "http://"))
	if code != exitFailed || found[doctor.CheckFollowers] != doctor.SeverityError {
		t.Errorf("exit code %d, %s", code, found[doctor.CheckFollowers])
	}
	text := strings.Join(strings.Fields(sluiceRun(t, t.TempDir(), "doctor", "--listen", strings.TrimPrefix(server.URL, "http://")).stdout), " ")
	if !strings.Contains(text, "is not ready: follower table:q: gone for good; redis: away -> mend") {
		t.Errorf("its reasons are not told as one line:\n%s", text)
	}
}

// What goes to another machine goes by TLS and with a password, or the operator
// has said that it need not.
func TestDoctorOfTheWaysToServers(t *testing.T) {
	ok, warning, failed := doctor.SeverityOK, doctor.SeverityWarning, doctor.SeverityError
	for _, test := range []struct {
		redis, database, mongo string
		plain                  []string
		tls, password          doctor.Severity
	}{
		{"embedded", "sqlite:a.db", "", nil, ok, ok},
		{"redis://127.0.0.1:6379", "mysql://u@127.0.0.1/d", "mongodb://localhost/d", nil, ok, ok},
		{"unix:///run/redis.sock", "mysql://u@unix(/run/m.sock)/d", "", nil, ok, ok},
		{"redis://[::1]:6379", "postgres://u@/d?host=/run/postgresql", "", nil, ok, ok},
		{"redis://10.0.0.7:6379", "sqlite:a.db", "", nil, failed, failed},
		{"redis://u:s3cret@10.0.0.7:6379", "sqlite:a.db", "", nil, failed, ok},
		{"rediss://u:s3cret@10.0.0.7:6379", "sqlite:a.db", "", nil, ok, ok},
		{"rediss://redis.internal:6379", "sqlite:a.db", "", nil, ok, failed},
		{"rediss://u:s3cret@10.0.0.7:6379?skip_verify=true", "sqlite:a.db", "", nil, warning, ok},
		{"rediss://u:s3cret@10.0.0.7:6379?skip_verify=1", "sqlite:a.db", "", nil, warning, ok},
		{"rediss://u:s3cret@10.0.0.7:6379?skip_verify=T", "sqlite:a.db", "", nil, warning, ok},
		{"rediss://u:s3cret@10.0.0.7:6379?skip_verify", "sqlite:a.db", "", nil, warning, ok},
		{"rediss://u:s3cret@10.0.0.7:6379?skip_verify=0", "sqlite:a.db", "", nil, ok, ok},
		{"rediss-sentinel://u:s3cret@10.0.0.7:26379,10.0.0.8:26379/main?skip_verify=1", "sqlite:a.db", "", nil, warning, ok},
		{"redis://10.0.0.7:6379", "sqlite:a.db", "", []string{"10.0.0.0/8"}, ok, ok},
		{"redis://10.0.0.7:6379", "sqlite:a.db", "", []string{"10.1.0.0/16", "redis.internal"}, failed, failed},
		{"redis://Redis.Internal.:6379", "sqlite:a.db", "", []string{"redis.internal"}, ok, ok},
		{"embedded", "mysql://u@10.0.0.7/d", "", nil, failed, failed},
		{"embedded", "mysql://u:s3cret@10.0.0.7/d?tls=preferred", "", nil, failed, ok},
		{"embedded", "mysql://u:s3cret@10.0.0.7/d?tls=skip-verify", "", nil, warning, ok},
		{"embedded", "mysql://u:s3cret@10.0.0.7/d?tls=true", "", nil, ok, ok},
		{"embedded", "mysql://u:s3cret@10.0.0.7/d?tls=true&allowFallbackToPlaintext=true", "", nil, failed, ok},
		{"embedded", "postgres://u:s3cret@10.0.0.7/d", "", nil, failed, ok}, // sslmode=prefer
		{"embedded", "postgres://u:s3cret@10.0.0.7/d?sslmode=disable", "", nil, failed, ok},
		{"embedded", "postgres://u:s3cret@10.0.0.7/d?sslmode=require", "", nil, warning, ok},
		{"embedded", "postgres://u@10.0.0.7/d?sslmode=verify-full", "", nil, ok, failed},
		{"embedded", "postgres://u:s3cret@10.0.0.7/d?sslmode=verify-full", "", nil, ok, ok},
		{"embedded", "sqlite:a.db", "mongodb://a.example:27017,b.example:27017/d", nil, failed, failed},
		{"embedded", "sqlite:a.db", "mongodb://u:s3cret@a.example:27017,b.example:27017/d?tls=true", nil, ok, ok},
		{"embedded", "sqlite:a.db", "mongodb://u:s3cret@a.example/d?tls=true&tlsInsecure=true", nil, warning, ok},
		{"embedded", "sqlite:a.db", "mongodb+srv://u:s3cret@a.example/d", nil, ok, ok},
		{"embedded", "sqlite:a.db", "mongodb+srv://u:s3cret@a.example/d?tls=false", nil, failed, ok},
		{"embedded", "sqlite:a.db", "mongodb+srv://u:s3cret@a.example/d?ssl=false", nil, failed, ok},
		{"embedded", "sqlite:a.db", "mongodb://u:x,s3cret?x@localhost/d", nil, ok, ok},
		{"embedded", "sqlite:a.db", "mongodb://a.example,b.example/d", []string{"a.example"}, failed, failed},
		{"embedded", "sqlite:a.db", "mongodb://a.example,b.example/d", []string{"a.example", "b.example"}, ok, ok},
	} {
		cfg := config.Default()
		cfg.Redis, cfg.Database, cfg.TimeSeries, cfg.PlainServers = config.URL(test.redis), config.URL(test.database), config.URL(test.mongo), test.plain
		worst := make(map[doctor.Check]doctor.Severity)
		for _, f := range engine.ExamineServerTLS(cfg).Findings {
			if worst[f.Check] == "" || worst[f.Check] == ok || f.Severity == failed {
				worst[f.Check] = f.Severity
			}
			if strings.Contains(f.Where+f.Found+f.Remedy, "s3cret") {
				t.Errorf("it shows the password: %+v", f)
			}
		}
		if worst[doctor.CheckServerTLS] != test.tls || worst[doctor.CheckServerPassword] != test.password {
			t.Errorf("%+v: TLS %s, password %s", test, worst[doctor.CheckServerTLS], worst[doctor.CheckServerPassword])
		}
	}
}

func TestDoctorOfSpillFiles(t *testing.T) {
	dir := t.TempDir()
	now := time.Now()
	look := func(want doctor.Severity) {
		t.Helper()
		e := examineSpill(dir, sluice.SystemClock{})
		if len(e.Findings) != 1 || e.Findings[0].Severity != want {
			t.Errorf("%+v, want %s", e.Findings, want)
		}
	}
	look(doctor.SeverityOK)
	file := filepath.Join(dir, "a"+spill.Suffix)
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	look(doctor.SeverityOK)
	if err := os.Chtimes(file, now, now.Add(-time.Hour)); err != nil {
		t.Fatal(err)
	}
	look(doctor.SeverityWarning)
	if err := os.Rename(file, file+spill.DamagedSuffix); err != nil {
		t.Fatal(err)
	}
	look(doctor.SeverityError)
}

// Servers that accept connections and say nothing keep nobody waiting.
func TestDoctorOfMuteServers(t *testing.T) {
	mute, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = mute.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	d := &examination{config: config.Default(), clock: sluice.SystemClock{}, report: &doctorReport{}}
	d.config.Data = t.TempDir()
	d.config.Redis = config.URL("redis://" + mute.Addr().String())
	d.config.Database = config.URL("mysql://u:s3cret@" + mute.Addr().String() + "/db")
	d.config.Listen = mute.Addr().String()
	d.examine(ctx)
	failed := make(map[doctor.Check]bool)
	for _, f := range d.report.Findings {
		failed[f.Check] = f.Severity == doctor.SeverityError
	}
	if !failed[doctor.CheckRedisReachable] || !failed[doctor.CheckDatabaseReachable] {
		t.Errorf("%+v", d.report.Findings)
	}
}

// checks are all checks, in the order of a report.
var checks = []doctor.Check{
	doctor.CheckConfigValid, doctor.CheckConfigRootKey, doctor.CheckConfigListen, doctor.CheckConfigProxies, doctor.CheckConfigSecrets, doctor.CheckConfigGaps, doctor.CheckConfigTimes, doctor.CheckConfigData, doctor.CheckConfigUnsubscribe, doctor.CheckConfigHooks,
	doctor.CheckRedisReachable, doctor.CheckRedisVersion, doctor.CheckRedisCluster, doctor.CheckRedisReplica, doctor.CheckRedisPersistence, doctor.CheckRedisDisk,
	doctor.CheckRedisEviction, doctor.CheckRedisMemory, doctor.CheckRedisClock, doctor.CheckRedisFailover,
	doctor.CheckDatabaseReachable, doctor.CheckDatabaseVersion, doctor.CheckDatabaseEncoding, doctor.CheckDatabaseWritable, doctor.CheckDatabaseHosts, doctor.CheckDatabaseSchema, doctor.CheckDatabaseRights, doctor.CheckDatabaseDurability, doctor.CheckDatabaseConnections, doctor.CheckDatabaseMemory,
	doctor.CheckDatabasePacket, doctor.CheckDatabaseInfile, doctor.CheckDatabaseStrict, doctor.CheckDatabaseTimeZone, doctor.CheckDatabaseClock, doctor.CheckDatabaseShared, doctor.CheckLedger,
	doctor.CheckMirrorReachable, doctor.CheckMirrorIndex,
	doctor.CheckServerTLS, doctor.CheckServerPassword,
	doctor.CheckDiskFree, doctor.CheckSpillFiles,
	doctor.CheckDomainMX, doctor.CheckDomainSPF, doctor.CheckDomainDKIM, doctor.CheckDomainDMARC, doctor.CheckDomainAlignment, doctor.CheckDomainBounces, doctor.CheckDomainLinks,
	doctor.CheckDeployment, doctor.CheckProcesses, doctor.CheckLeases, doctor.CheckFollowers, doctor.CheckLag, doctor.CheckGaps, doctor.CheckDeadLetters, doctor.CheckJourneys, doctor.CheckListTable,
}

// The document explains every check, and no other.
func TestDoctorDocument(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "doctor.md"))
	if err != nil {
		t.Fatal(err)
	}
	var explained []doctor.Check
	_, table, _ := strings.Cut(string(text), "## The checks")
	for _, row := range regexp.MustCompile("(?m)^\\| `([a-z-]+)` \\|[^|]{10,}\\|[^|]{3,}\\|$").FindAllStringSubmatch(table, -1) {
		explained = append(explained, doctor.Check(row[1]))
	}
	if want := checks; !slices.Equal(explained, want) {
		t.Errorf("docs/doctor.md explains\n%v, the program has\n%v", explained, want)
	}
}
