package ingest_test

import (
	"context"
	"testing"
	"time"

	"sluice"
	"sluice/flow"
	"sluice/ops/examine"
	"sluice/ops/retention"
	"sluice/store/sqlstore"
)

// examiner looks at a bed from outside, with a store that may not write.
func examiner(b *bed) *examine.Installation {
	b.Helper()
	server := b.server()
	r, err := flow.Dial(b.Context(), server.URL())
	b.must(err)
	b.Cleanup(r.Close)
	store, err := sqlstore.Open(b.Context(), b.url, sqlstore.Options{ReadOnly: true})
	b.must(err)
	b.Cleanup(func() { b.must(store.Close()) })
	list, err := flow.NewList(r, "q", flow.Left)
	b.must(err)
	return &examine.Installation{Redis: r, Store: store, Partitions: testPartitions, Lists: []*flow.List{list}, Clock: sluice.SystemClock{}}
}

// examined returns the worst severity of each check.
func examined(b *bed, x *examine.Installation) map[sluice.Check]sluice.Severity {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), 30*time.Second)
	defer cancel()
	rank := map[sluice.Severity]int{"": 0, sluice.SeverityOK: 1, sluice.SeverityUnknown: 2, sluice.SeverityWarning: 3, sluice.SeverityError: 4}
	worst := make(map[sluice.Check]sluice.Severity)
	for _, f := range x.Examine(ctx).Findings {
		b.Logf("%-8s %s: %s: %s", f.Severity, f.Check, f.Where, f.Found)
		bad := f.Severity == sluice.SeverityWarning || f.Severity == sluice.SeverityError
		if f.Found == "" || f.Where == "" || bad != (f.Remedy != "") {
			b.Errorf("a finding without a place, a text or a remedy, or with one too much: %+v", f)
		}
		if rank[f.Severity] > rank[worst[f.Check]] {
			worst[f.Check] = f.Severity
		}
	}
	return worst
}

func wantFound(b *bed, x *examine.Installation, when string, want map[sluice.Check]sluice.Severity) {
	b.Helper()
	got := examined(b, x)
	for check, severity := range want {
		if got[check] != severity {
			b.Errorf("%s: %s is %q, want %q", when, check, got[check], severity)
		}
	}
}

// What runs, and what does not, is seen from outside.
func TestExamine(t *testing.T) {
	onEach(t, func(b *bed) {
		x := examiner(b)
		ok, warning, failed := sluice.SeverityOK, sluice.SeverityWarning, sluice.SeverityError
		keys := b.do("DBSIZE")
		wantFound(b, x, "nothing runs", map[sluice.Check]sluice.Severity{
			sluice.CheckProcesses: warning, sluice.CheckLeases: sluice.SeverityUnknown, sluice.CheckDeployment: ok,
			sluice.CheckLag: ok, sluice.CheckGaps: ok, sluice.CheckDeadLetters: ok,
		})
		if after := b.do("DBSIZE"); after != keys || b.count("cursors") != 0 {
			b.Errorf("it wrote: %v keys before, %v after, %d cursors", keys, after, b.count("cursors"))
		}
		makeTarget(b)
		intakeOnly := start(b, setup{lists: []listSetup{tableList("")}, noStore: true})
		b.push("q", `{"id":1}`)
		b.awaitSum("target", 1)
		wantFound(b, x, "no process stores", map[sluice.Check]sluice.Severity{sluice.CheckProcesses: ok, sluice.CheckLeases: failed})
		storing := newEngine(b, setup{noIntake: true})
		storing.leases.AddPartitions(retention.Role, storing.redis, flow.Partitions(testPartitions)[:1])
		storing.run()
		b.eventually("the leases are taken", func() bool { return examined(b, x)[sluice.CheckLeases] == ok })
		store := x.Store
		x.Store = nil
		wantFound(b, x, "the database is away", map[sluice.Check]sluice.Severity{sluice.CheckProcesses: ok, sluice.CheckLeases: ok, sluice.CheckLag: sluice.SeverityUnknown})
		x.Store, x.Alone = store, true
		wantFound(b, x, "two processes on a database for one", map[sluice.Check]sluice.Severity{sluice.CheckProcesses: failed})
		intakeOnly.stop()
		b.push("q", `{"id":"no number"}`)
		again := start(b, setup{lists: []listSetup{tableList("")}, noStore: true})
		b.awaitSum("target", 2)
		b.checkCounts("target", 1, 1)
		wantFound(b, x, "a dead letter", map[sluice.Check]sluice.Severity{sluice.CheckDeadLetters: warning})
		again.stop()
		storing.stop()
	})
}

// Logs and lists that are behind, or have lost something, are seen, and so is
// a Redis that is another's.
func TestExamineWhatIsBehind(t *testing.T) {
	onEach(t, func(b *bed) {
		x := examiner(b)
		ok, warning, failed := sluice.SeverityOK, sluice.SeverityWarning, sluice.SeverityError
		log := flow.NewLog(x.Redis, flow.Partitions(testPartitions)[1])
		_, err := log.Append(b.Context(), "test", "", "1", sluice.NewBatch(8), false)
		b.must(err)
		wantFound(b, x, "a batch of now", map[sluice.Check]sluice.Severity{sluice.CheckLag: ok, sluice.CheckGaps: ok})
		key := b.logKey(1)
		b.do("DEL", key)
		b.do("XADD", key, "1-1", "prev", "0-0", "batch", "x")
		wantFound(b, x, "a batch of long ago", map[sluice.Check]sluice.Severity{sluice.CheckLag: failed, sluice.CheckGaps: ok})
		b.do("DEL", key)
		b.do("XADD", key, "7-1", "prev", "6-1", "batch", "x")
		wantFound(b, x, "a batch whose predecessor is missing", map[sluice.Check]sluice.Severity{sluice.CheckGaps: failed})
		b.do("FLUSHALL")

		insert := func(ago string) {
			b.exec("DELETE FROM cursors", "")
			b.exec("INSERT INTO cursors (follower, part, pos_major, pos_minor, updated) VALUES ('list:q', 0, 1, 1, UTC_TIMESTAMP(3) - INTERVAL "+ago+" SECOND)",
				"INSERT INTO cursors (follower, part, pos_major, pos_minor, updated) VALUES ('list:q', 0, 1, 1, CAST(unixepoch('subsec') * 1000 AS INTEGER) - "+ago+"000)")
		}
		b.push("q", "a", "b")
		for ago, want := range map[string]sluice.Severity{"0": ok, "100": warning, "2000": failed} {
			insert(ago)
			wantFound(b, x, "a list whose follower stands since "+ago+" s", map[sluice.Check]sluice.Severity{sluice.CheckLag: want, sluice.CheckGaps: ok})
		}
		b.do("HSET", "sluice:{q}:list:q:state", "first", "5", "last", "5", "base", "0")
		b.do("RPUSH", "sluice:{q}:list:q:held:5", "c")
		wantFound(b, x, "a list that has lost chunks", map[sluice.Check]sluice.Severity{sluice.CheckGaps: failed})
		b.do("HSET", "sluice:{members}:deployment", "id", "7", "settled", "1")
		wantFound(b, x, "a Redis of another", map[sluice.Check]sluice.Severity{sluice.CheckDeployment: failed})
		x.Store = nil
		wantFound(b, x, "a Redis of another, no database", map[sluice.Check]sluice.Severity{sluice.CheckDeployment: sluice.SeverityUnknown, sluice.CheckLag: sluice.SeverityUnknown})
		x.Empty = true
		wantFound(b, x, "a Redis of another, an empty database", map[sluice.Check]sluice.Severity{sluice.CheckDeployment: failed, sluice.CheckLag: sluice.SeverityUnknown})
		b.do("FLUSHALL")
		wantFound(b, x, "a Redis and a database of nobody", map[sluice.Check]sluice.Severity{sluice.CheckDeployment: ok})
	})
}
