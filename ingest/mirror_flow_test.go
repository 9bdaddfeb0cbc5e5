package ingest_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"sluice"
	"sluice/flow"
	"sluice/ingest"
	"sluice/ops/series"
	"sluice/store"
	"sluice/store/mongostore"
	"sluice/store/sqlstore"
	"sluice/test/servers"
)

// mirrorBed is a bed with a mirror.
type mirrorBed struct {
	*bed
	store *sqlstore.Store
	redis *flow.Redis
	url   string
	db    *mongo.Database
	log   *logBuffer
	at    uint64 // of the counting transactions' cursor

	stop func() // the mirror that runs
}

func newMirrorBed(b *bed) *mirrorBed {
	b.Helper()
	m := &mirrorBed{bed: b, log: &logBuffer{}, stop: func() {}}
	server, err := servers.StartMongo(b.Context(), b.TempDir())
	b.must(err)
	b.Cleanup(func() { _ = server.Kill() })
	m.url = server.URL("test")
	client, err := mongo.Connect(options.Client().ApplyURI(m.url))
	b.must(err)
	b.Cleanup(func() { _ = client.Disconnect(context.Background()) })
	m.db = client.Database("test")
	m.store, err = sqlstore.Open(b.Context(), b.url, calm)
	b.must(err)
	b.Cleanup(func() { _ = m.store.Close() })
	m.redis, err = flow.Dial(b.Context(), b.server().URL())
	b.must(err)
	b.Cleanup(m.redis.Close)
	_, err = m.store.Cursors(b.Context(), "counts", []int{0})
	b.must(err)
	b.Cleanup(func() {
		m.stop()
		if b.Failed() {
			b.Logf("log of the mirror:\n%.4000s", m.log)
		}
	})
	return m
}

func (m *mirrorBed) mirror() *mongostore.Mirror {
	m.Helper()
	to, err := mongostore.Open(m.url, 50)
	m.must(err)
	m.Cleanup(func() { _ = to.Close(context.Background()) })
	return to
}

// run runs a mirror in the place of the one before.
func (m *mirrorBed) run(keep ingest.Retention) *series.Mirror {
	m.Helper()
	m.stop()
	log := slog.New(slog.NewTextHandler(m.log, nil))
	leases := flow.NewLeases(m.redis, m.store, log)
	leases.AddPartitions(series.MirrorRole, m.redis, flow.Partitions(testPartitions)[:1])
	mirror := &series.Mirror{Store: m.store, To: m.mirror(), Leases: leases, Clock: sluice.SystemClock{}, Log: log, Stats: &ingest.Stats{}, Keep: keep, OtherClock: m.redis.TimeMillis}
	ctx, stop := context.WithCancel(m.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = leases.Run(ctx) })
	running.Go(func() { mirror.Run(ctx, m.Context()) })
	m.stop = func() {
		stop()
		running.Wait()
		m.stop = func() {}
	}
	return mirror
}

// count counts names of an app, by day before today.
func (m *mirrorBed) count(daysAgo, by int, names ...string) {
	m.Helper()
	e := &store.Effect{Moves: []store.Move{{Follower: "counts", From: sluice.Position{Major: m.at}, To: sluice.Position{Major: m.at + 1}}}}
	m.at++
	for _, name := range names {
		e.Counts = append(e.Counts, sluice.Count{Kind: sluice.KindCounter, TimeMillis: dayAgo(daysAgo), By: int64(by), App: "app", Name: name})
	}
	p, err := m.store.Prepare(e)
	m.must(err)
	_, err = m.store.Apply(m.Context(), p)
	m.must(err)
}

// dayAgo is the middle of a day, UTC.
func dayAgo(days int) int64 {
	return time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, -days).Add(12 * time.Hour).UnixMilli()
}

// documents lists name, days ago and count, in order.
func (m *mirrorBed) documents() string {
	m.Helper()
	cursor, err := m.db.Collection(mongostore.SeriesCollection).Find(m.Context(), bson.D{})
	m.must(err)
	var all []bson.M
	m.must(cursor.All(m.Context(), &all))
	var lines []string
	for _, d := range all {
		days := (dayAgo(0) - int64(d["date"].(bson.DateTime))) / (24 * time.Hour).Milliseconds()
		lines = append(lines, fmt.Sprintf("%s %d %d", d["name"], days, d["12"]))
	}
	slices.Sort(lines)
	return strings.Join(lines, "; ")
}

func (m *mirrorBed) awaitDocuments(want ...string) {
	m.Helper()
	m.eventually("the mirror has "+strings.Join(want, "; "), func() bool { return m.documents() == strings.Join(want, "; ") })
}

// settled waits until no change is left.
func (m *mirrorBed) settled() {
	m.Helper()
	m.eventually("all changes are settled", func() bool { return m.bed.count("series_changes") == 0 })
}

// A document that another process has written with a newer version is not
// overwritten by an older session. That session ends, and the next one writes
// everything again: the other may have written anything.
func TestMirrorMeetsAnother(t *testing.T) {
	onEach(t, func(b *bed) {
		m := newMirrorBed(b)
		mirror := m.run(ingest.Retention{})
		m.count(0, 5, "a", "b")
		m.awaitDocuments("a 0 5", "b 0 5")
		m.settled()
		m.count(0, 1, "b") // what is written again has a larger version
		m.awaitDocuments("a 0 5", "b 0 6")
		m.settled()
		other := m.mirror()
		epoch, err := other.Begin(t.Context())
		m.must(err)
		wrong := func(name string) store.DayTotals {
			return store.DayTotals{SeriesDay: store.SeriesDay{App: "app", Name: name, DayMillis: dayAgo(0) - 12*time.Hour.Milliseconds()}, Hours: []store.HourTotal{{Hour: 12, Count: 1}}}
		}
		m.must(other.Set(t.Context(), epoch<<32+1, []store.DayTotals{wrong("a"), wrong("b")}))
		m.awaitDocuments("a 0 1", "b 0 1")
		m.count(0, 1, "a")
		m.awaitDocuments("a 0 6", "b 0 6")
		m.settled()
		if mirror.Errors.Load() == 0 || !m.log.has("another process writes to this collection") {
			t.Error("nothing was said of the other")
		}
	})
}

// All that there is is mirrored when the mirror begins, and again after it was
// emptied, or its epoch was raised by hand; after an ordinary stop it is not.
func TestMirrorBeginsWithAll(t *testing.T) {
	onEach(t, func(b *bed) {
		m := newMirrorBed(b)
		var want []string
		for _, name := range []string{"n0", "n1", "n999"} {
			for day := range 6 {
				m.count(day, 1, name)
				want = append(want, fmt.Sprintf("%s %d 1", name, day))
			}
		}
		m.run(ingest.Retention{})
		m.awaitDocuments(want...)
		state := func() (s store.MirrorState) {
			m.eventually("all is mirrored", func() bool {
				var err error
				s, err = m.store.MirrorState(t.Context())
				m.must(err)
				return s.Whole
			})
			return s
		}
		if s := state(); s.Epoch != 1 {
			t.Errorf("%+v", s)
		}
		series := m.db.Collection(mongostore.SeriesCollection)
		if _, err := series.DeleteMany(t.Context(), bson.D{{Key: "name", Value: "n1"}}); err != nil {
			t.Fatal(err)
		}
		m.run(ingest.Retention{})
		m.count(0, 1, "n0")
		m.settled()
		if s := state(); s.Epoch != 2 || strings.Contains(m.documents(), "n1 ") {
			t.Errorf("%+v, %s: a session that knows the mirror wrote all of it", s, m.documents())
		}
		m.stop()
		if _, err := m.db.Collection(mongostore.StateCollection).UpdateOne(t.Context(), bson.D{}, bson.D{{Key: "$inc", Value: bson.D{{Key: "epoch", Value: 1}}}}); err != nil { // by hand (docs/operate.md)
			t.Fatal(err)
		}
		m.run(ingest.Retention{})
		want[0] = "n0 0 2"
		m.awaitDocuments(want...)
		state()
		m.stop()
		m.must(m.db.Drop(t.Context()))
		m.run(ingest.Retention{})
		m.awaitDocuments(want...)
	})
}

// Of a day that is past the retention of the hours the database has not all any
// more: it stays as it was mirrored.
func TestMirrorOfWhatIsPastItsRetention(t *testing.T) {
	onEach(t, func(b *bed) {
		m := newMirrorBed(b)
		m.run(ingest.Retention{})
		m.count(5, 10, "old")
		m.awaitDocuments("old 5 10")
		m.settled()
		_, err := m.store.DeleteSeries(t.Context(), false, dayAgo(3))
		m.must(err)
		m.run(ingest.Retention{SeriesHours: 3})
		m.count(5, 1, "old", "older")
		m.count(2, 1, "new")
		m.awaitDocuments("new 2 1", "old 5 10")
		m.settled()
		if got := m.documents(); got != "new 2 1; old 5 10" {
			t.Error(got)
		}
	})
}
