package ingest_test

import (
	"context"
	"testing"
	"time"

	"sluice"
	"sluice/flow"
	"sluice/lib/doctor"
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
func examined(b *bed, x *examine.Installation) map[doctor.Check]doctor.Severity {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), 3*time.Minute)
	defer cancel()
	rank := map[doctor.Severity]int{"": 0, doctor.SeverityOK: 1, doctor.SeverityUnknown: 2, doctor.SeverityWarning: 3, doctor.SeverityError: 4}
	worst := make(map[doctor.Check]doctor.Severity)
	for _, f := range x.Examine(ctx).Findings {
		b.Logf("%-8s %s: %s: %s", f.Severity, f.Check, f.Where, f.Found)
		bad := f.Severity == doctor.SeverityWarning || f.Severity == doctor.SeverityError
		if f.Found == "" || f.Where == "" || bad != (f.Remedy != "") {
			b.Errorf("a finding without a place, a text or a remedy, or with one too much: %+v", f)
		}
		if rank[f.Severity] > rank[worst[f.Check]] {
			worst[f.Check] = f.Severity
		}
	}
	return worst
}

func wantFound(b *bed, x *examine.Installation, when string, want map[doctor.Check]doctor.Severity) {
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
		ok, warning, failed := doctor.SeverityOK, doctor.SeverityWarning, doctor.SeverityError
		keys := b.do("DBSIZE")
		wantFound(b, x, "nothing runs", map[doctor.Check]doctor.Severity{
			doctor.CheckProcesses: warning, doctor.CheckLeases: doctor.SeverityUnknown, doctor.CheckDeployment: ok,
			doctor.CheckLag: ok, doctor.CheckGaps: ok, doctor.CheckDeadLetters: ok,
		})
		if after := b.do("DBSIZE"); after != keys || b.count("cursors") != 0 {
			b.Errorf("it wrote: %v keys before, %v after, %d cursors", keys, after, b.count("cursors"))
		}
		makeTarget(b)
		intakeOnly := start(b, setup{lists: []listSetup{tableList("")}, noStore: true})
		b.push("q", `{"id":1}`)
		b.awaitSum("target", 1)
		wantFound(b, x, "no process stores", map[doctor.Check]doctor.Severity{doctor.CheckProcesses: ok, doctor.CheckLeases: failed})
		storing := newEngine(b, setup{noIntake: true})
		storing.leases.AddPartitions(retention.Role, storing.redis, flow.Partitions(testPartitions)[:1])
		storing.run()
		b.eventually("the leases are taken", func() bool { return examined(b, x)[doctor.CheckLeases] == ok })
		store := x.Store
		x.Store = nil
		wantFound(b, x, "the database is away", map[doctor.Check]doctor.Severity{doctor.CheckProcesses: ok, doctor.CheckLeases: ok, doctor.CheckLag: doctor.SeverityUnknown})
		x.Store, x.Alone = store, true
		wantFound(b, x, "two processes on a database for one", map[doctor.Check]doctor.Severity{doctor.CheckProcesses: failed})
		intakeOnly.stop()
		b.push("q", `{"id":"no number"}`)
		again := start(b, setup{lists: []listSetup{tableList("")}, noStore: true})
		b.awaitSum("target", 2)
		b.checkCounts("target", 1, 1)
		wantFound(b, x, "a dead letter", map[doctor.Check]doctor.Severity{doctor.CheckDeadLetters: warning})
		again.stop()
		storing.stop()
	})
}

// Logs and lists that are behind, or have lost something, are seen, and so is
// a Redis that is another's.
func TestExamineWhatIsBehind(t *testing.T) {
	onEach(t, func(b *bed) {
		x := examiner(b)
		ok, warning, failed := doctor.SeverityOK, doctor.SeverityWarning, doctor.SeverityError
		log := flow.NewLog(x.Redis, flow.Partitions(testPartitions)[1])
		_, err := log.Append(b.Context(), "test", "", "1", sluice.NewBatch(8), false)
		b.must(err)
		wantFound(b, x, "a batch of now", map[doctor.Check]doctor.Severity{doctor.CheckLag: ok, doctor.CheckGaps: ok})
		key := b.logKey(1)
		b.do("DEL", key)
		b.do("XADD", key, "1-1", "prev", "0-0", "batch", "x")
		wantFound(b, x, "a batch of long ago", map[doctor.Check]doctor.Severity{doctor.CheckLag: failed, doctor.CheckGaps: ok})
		b.do("DEL", key)
		b.do("XADD", key, "7-1", "prev", "6-1", "batch", "x")
		wantFound(b, x, "a batch whose predecessor is missing", map[doctor.Check]doctor.Severity{doctor.CheckGaps: failed})
		b.do("FLUSHALL")

		insert := func(ago string) {
			b.exec("DELETE FROM cursors", "")
			b.exec("INSERT INTO cursors (follower, part, pos_major, pos_minor, updated) VALUES ('list:q', 0, 1, 1, UTC_TIMESTAMP(3) - INTERVAL "+ago+" SECOND)",
				"INSERT INTO cursors (follower, part, pos_major, pos_minor, updated) VALUES ('list:q', 0, 1, 1, CAST(unixepoch('subsec') * 1000 AS INTEGER) - "+ago+"000)")
		}
		b.push("q", "a", "b")
		for ago, want := range map[string]doctor.Severity{"0": ok, "100": warning, "2000": failed} {
			insert(ago)
			wantFound(b, x, "a list whose follower stands since "+ago+" s", map[doctor.Check]doctor.Severity{doctor.CheckLag: want, doctor.CheckGaps: ok})
		}
		b.do("HSET", "sluice:{q}:list:q:state", "first", "5", "last", "5", "base", "0")
		b.do("RPUSH", "sluice:{q}:list:q:held:5", "c")
		wantFound(b, x, "a list that has lost chunks", map[doctor.Check]doctor.Severity{doctor.CheckGaps: failed})
		b.do("HSET", "sluice:{members}:deployment", "id", "7", "settled", "1")
		wantFound(b, x, "a Redis of another", map[doctor.Check]doctor.Severity{doctor.CheckDeployment: failed})
		x.Store = nil
		wantFound(b, x, "a Redis of another, no database", map[doctor.Check]doctor.Severity{doctor.CheckDeployment: doctor.SeverityUnknown, doctor.CheckLag: doctor.SeverityUnknown})
		x.Empty = true
		wantFound(b, x, "a Redis of another, an empty database", map[doctor.Check]doctor.Severity{doctor.CheckDeployment: failed, doctor.CheckLag: doctor.SeverityUnknown})
		b.do("FLUSHALL")
		wantFound(b, x, "a Redis and a database of nobody", map[doctor.Check]doctor.Severity{doctor.CheckDeployment: ok})
	})
}
