package flow

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"sluice"
	"sluice/lib/doctor"
	"sluice/test/servers"
)

// clockAhead is the machine's clock, or one that is wrong.
type clockAhead time.Duration

func (c clockAhead) Now() time.Time { return time.Now().Add(time.Duration(c)) }

// severities examines a server: check -> severity.
func severities(t *testing.T, x *Examiner) map[doctor.Check]doctor.Severity {
	t.Helper()
	if x.Clock == nil {
		x.Clock = sluice.SystemClock{}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	found := make(map[doctor.Check]doctor.Severity)
	for _, f := range x.Examine(ctx).Findings {
		t.Logf("%-8s %s: %s", f.Severity, f.Check, f.Found)
		found[f.Check] = f.Severity
		bad := f.Severity == doctor.SeverityWarning || f.Severity == doctor.SeverityError
		if f.Found == "" || f.Where == "" || bad != (f.Remedy != "") {
			t.Errorf("a finding without a place, a text or a remedy, or with one too much: %+v", f)
		}
	}
	return found
}

// One server is set wrong in one way after the other.
func TestExamine(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "dump", "in the way"), 0o700); err != nil {
		t.Fatal(err)
	}
	server, err := servers.StartRedis(t.Context(), servers.RedisOptions{Dir: dir, Extra: []string{"--dbfilename", "dump"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Kill() })
	r, err := Dial(t.Context(), server.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	all := severities(t, &Examiner{URL: server.URL(), Main: true})
	if len(all) != len(redisChecks)+1 {
		t.Errorf("%d checks of a good server, %d of one that is away", len(all), len(redisChecks)+1)
	}
	for check, severity := range all {
		if severity != doctor.SeverityOK {
			t.Errorf("a good server: %s is %s", check, severity)
		}
	}
	ok, warning, failed := doctor.SeverityOK, doctor.SeverityWarning, doctor.SeverityError
	tests := []struct {
		do   string // words of a command, by blanks; commands by ;
		x    Examiner
		want doctor.Check
		as   doctor.Severity
	}{
		{"CONFIG SET appendfsync everysec", Examiner{Main: true}, doctor.CheckRedisPersistence, warning},
		{"CONFIG SET appendfsync no", Examiner{Main: true}, doctor.CheckRedisPersistence, warning},
		{"CONFIG SET appendfsync always", Examiner{Main: true}, doctor.CheckRedisPersistence, ok},
		{"CONFIG SET appendonly no", Examiner{Main: true}, doctor.CheckRedisPersistence, failed},
		{"PING", Examiner{}, doctor.CheckRedisPersistence, warning},
		{"CONFIG SET maxmemory-policy allkeys-lru", Examiner{}, doctor.CheckRedisEviction, warning},
		{"CONFIG SET maxmemory 1gb", Examiner{}, doctor.CheckRedisEviction, failed},
		{"CONFIG SET maxmemory-policy noeviction", Examiner{}, doctor.CheckRedisEviction, ok},
		{"PING", Examiner{}, doctor.CheckRedisMemory, ok},
		{"CONFIG SET maxmemory 100kb", Examiner{}, doctor.CheckRedisMemory, failed},
		{"CONFIG SET maxmemory 0", Examiner{}, doctor.CheckRedisMemory, ok},
		{"PING", Examiner{Clock: clockAhead(-time.Minute)}, doctor.CheckRedisClock, warning},
		{"PING", Examiner{Clock: clockAhead(time.Hour)}, doctor.CheckRedisClock, failed},
		{"REPLICAOF 127.0.0.1 1", Examiner{}, doctor.CheckRedisReplica, failed},
		{"REPLICAOF NO ONE", Examiner{}, doctor.CheckRedisReplica, ok},
		{"ACL SETUSER blind on nopass ~* +@all -config", Examiner{URL: "blind"}, doctor.CheckRedisPersistence, warning},
		{"CONFIG SET appendonly yes", Examiner{URL: "blind"}, doctor.CheckRedisPersistence, doctor.SeverityUnknown},
		{"ACL SETUSER blind -info", Examiner{URL: "blind"}, doctor.CheckRedisReachable, failed},
		{"ACL SETUSER blind off", Examiner{URL: "blind"}, doctor.CheckRedisReachable, failed},
	}
	for _, test := range tests {
		do(t, r, strings.Fields(test.do)...)
		if test.x.URL != "" {
			test.x.URL = strings.Replace(server.URL(), "unix://", "unix://"+test.x.URL+":any@", 1)
		} else {
			test.x.URL = server.URL()
		}
		if got := severities(t, &test.x)[test.want]; got != test.as {
			t.Errorf("after %s: %s is %q, want %q", test.do, test.want, got, test.as)
		}
	}
	do(t, r, "BGSAVE", "SCHEDULE")
	eventually(t, "a snapshot has failed", func() bool {
		return severities(t, &Examiner{URL: server.URL()})[doctor.CheckRedisDisk] == failed
	})
	if got := (&Examiner{URL: server.URL(), Clock: sluice.SystemClock{}}).Examine(t.Context()).Directory; got != dir {
		t.Errorf("its directory is %q, want %q", got, dir)
	}
}

// A node of a cluster that owns no slot, and an old server, are not here: their
// INFO is given as a text and judged.
func TestExamineOfOtherServers(t *testing.T) {
	node, err := servers.StartRedis(t.Context(), servers.RedisOptions{Dir: t.TempDir(), Listen: "tcp", Extra: []string{"--cluster-enabled", "yes"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = node.Kill() })
	if got := severities(t, &Examiner{URL: node.URL()}); got[doctor.CheckRedisCluster] != doctor.SeverityError || got[doctor.CheckRedisPersistence] != doctor.SeverityOK {
		t.Errorf("a cluster's node: %v", got)
	}
	var e doctor.Examination
	(&Examiner{}).version(&e, map[string]string{"redis_version": "6.2.14"})
	if e.Findings[0].Severity != doctor.SeverityError {
		t.Errorf("%+v", e.Findings)
	}
	of := func(name, version string) masterInfo { return masterInfo{info: map[string]string{name: version}} }
	for _, x := range []struct {
		masters []masterInfo
		want    string // empty: nothing is found
	}{
		{[]masterInfo{of("redis_version", "7.0.15"), of("redis_version", "7.0.15"), {err: errors.New("away")}}, ""},
		{[]masterInfo{of("redis_version", "7.0.15"), of("redis_version", "7.2.4"), of("valkey_version", "8.0.1")}, "Redis 7.0.15, Redis 7.2.4, Valkey 8.0.1"},
	} {
		var e doctor.Examination
		versions(&e, x.masters)
		if (len(e.Findings) > 0) != (x.want != "") {
			t.Errorf("%v: %+v", x.masters, e.Findings)
		}
		for _, f := range e.Findings {
			if f.Severity != doctor.SeverityWarning || !strings.Contains(f.Found, x.want) {
				t.Errorf("%+v, want %s", f, x.want)
			}
		}
	}
}

// A server that is away, and one that accepts and says nothing, are said so
// within the examination's time.
func TestExamineWithoutAnAnswer(t *testing.T) {
	mute, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = mute.Close() })
	for url, why := range map[string]string{"redis://user:s3cret@127.0.0.1:1": "connection refused", "redis://user:s3cret@" + mute.Addr().String(): "answered in time"} {
		within := time.Minute
		if why == "answered in time" {
			within = time.Second
		}
		ctx, cancel := context.WithTimeout(t.Context(), within)
		e := (&Examiner{URL: url, Clock: sluice.SystemClock{}}).Examine(ctx)
		cancel()
		if len(e.Findings) != 1+len(redisChecks) || e.Findings[0].Severity != doctor.SeverityError || !strings.Contains(e.Findings[0].Found, why) {
			t.Errorf("%+v, want %s", e.Findings, why)
		}
		for _, f := range e.Findings {
			if strings.Contains(f.Found+f.Where+f.Remedy, "s3cret") {
				t.Errorf("it shows the password: %+v", f)
			}
			if f.Check != doctor.CheckRedisReachable && f.Severity != doctor.SeverityUnknown {
				t.Errorf("%+v", f)
			}
		}
	}
}
