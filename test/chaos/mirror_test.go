package chaos

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"sluice/store/mongostore"
	"sluice/test/servers"
)

// mirrorWorld is a world whose series are mirrored. Counters come by hashes,
// events by a list, so many documents change.
type mirrorWorld struct {
	*world
	server *servers.Mongo
	series *mongo.Collection
}

func newMirrorWorld(t *testing.T) *mirrorWorld {
	t.Helper()
	w := &mirrorWorld{world: newWorld(t)}
	var err error
	if w.server, err = servers.StartMongo(t.Context(), filepath.Join(w.dir, "mongo")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.server.Kill() })
	client, err := mongo.Connect(options.Client().ApplyURI(w.server.URL("chaos")))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Disconnect(context.Background()) })
	w.series = client.Database("chaos").Collection(mongostore.SeriesCollection)
	w.writeConfig(fmt.Sprintf("lists:\n  q_events: {}\n%stimeseries: %q\ntimeseries_bulk: 50\n", inputHashes, w.server.URL("chaos")))
	return w
}

// hourly names an hour of a series.
type hourly struct {
	app, name string
	hour      int64 // since 1970
}

// mirrored reads all documents; nil while the server does not answer.
func (w *mirrorWorld) mirrored() map[hourly]int64 {
	ctx, cancel := context.WithTimeout(w.t.Context(), 10*time.Second)
	defer cancel()
	cursor, err := w.series.Find(ctx, bson.D{})
	if err != nil {
		return nil
	}
	var documents []bson.M
	if err := cursor.All(ctx, &documents); err != nil {
		return nil
	}
	all := make(map[hourly]int64)
	for _, d := range documents {
		day := int64(d["date"].(bson.DateTime)) / time.Hour.Milliseconds()
		for field, n := range d {
			hour, err := strconv.ParseInt(field, 10, 64)
			if err != nil {
				continue
			}
			key := hourly{d["app_id"].(string), d["name"].(string), day + hour}
			if _, twice := all[key]; twice {
				w.t.Fatalf("two documents of %+v", key)
			}
			all[key] = n.(int64)
		}
	}
	return all
}

// stored reads the series of the database.
func (w *mirrorWorld) stored() map[hourly]int64 {
	w.t.Helper()
	rows, err := w.db.QueryContext(w.t.Context(), "SELECT app_id, name, TIMESTAMPDIFF(HOUR, '1970-01-01', bucket), SUM(count) FROM series_hours GROUP BY app_id, name, bucket")
	if err != nil {
		w.t.Fatal(err)
	}
	defer rows.Close()
	all := make(map[hourly]int64)
	for rows.Next() {
		var key hourly
		var n int64
		if err := rows.Scan(&key.app, &key.name, &key.hour, &n); err != nil {
			w.t.Fatal(err)
		}
		all[key] = n
	}
	if err := rows.Err(); err != nil {
		w.t.Fatal(err)
	}
	return all
}

// reached waits until something that is counted from now on is in the mirror.
func (w *mirrorWorld) reached() {
	w.t.Helper()
	before := w.readPushed()
	w.eventually("what is counted from now on is mirrored", func() bool {
		total := int64(0)
		for key, n := range w.mirrored() {
			if key.app == "app" {
				total += n
			}
		}
		return total > before
	})
}

// checkMirror ends the pushing and wants all that was pushed in the mirror,
// twice: as a counter and as an event.
func (w *mirrorWorld) checkMirror() {
	w.t.Helper()
	w.stopPushing()
	w.checkCounts()
	w.eventually("all events are counted", func() bool {
		return w.highest("SELECT COALESCE(SUM(count), 0) FROM series_hours") == 2*w.pushed
	})
	want := w.stored()
	w.eventually("the mirror has the series", func() bool { return maps.Equal(w.mirrored(), want) })
	total := int64(0)
	for _, n := range w.mirrored() {
		total += n
	}
	if total != 2*w.pushed {
		w.t.Fatalf("%d pushed by two ways, the mirror has %d", w.pushed, total)
	}
	w.eventually("no change is left", func() bool { return w.highest("SELECT COUNT(*) FROM series_changes") == 0 })
}

// mirrorFailpoints are the places where a mirror dies. One is after an epoch is
// open that the database does not know. One is before documents are written,
// and one after, before their changes are settled. The last is at the end of a
// transaction that notes changes.
var mirrorFailpoints = []string{"mirror-epoch", "mirror-write", "mirror-settle", "commit", "committed"}

// TestKillWhileMirroring kills the program at each step of a document's way,
// then whatever there is at random instants.
func TestKillWhileMirroring(t *testing.T) {
	t.Parallel()
	random := seeded(t)
	w := newMirrorWorld(t)
	w.startPushing()
	for i, name := range mirrorFailpoints {
		nth := 1 + i%3
		if name == "mirror-epoch" {
			nth = 1 // a session has one
		}
		w.dies(fmt.Sprintf("%s=kill,%d", name, nth))
	}
	p := w.start("")
	w.reached()
	for range *kills / 2 {
		pause(t.Context(), time.Duration(random.IntN(1000))*time.Millisecond)
		p = w.killMirrored(random, p)
	}
	w.reached()
	w.checkMirror()
}

// killMirrored kills the program, the mirror's server or the database.
func (w *mirrorWorld) killMirrored(random *rand.Rand, p *program) *program {
	w.t.Helper()
	server := database(w.server)
	switch random.IntN(4) {
	case 0:
		server = w.base
		fallthrough
	case 1:
		if err := server.Kill(); err != nil {
			w.t.Fatal(err)
		}
		pause(w.t.Context(), time.Duration(random.IntN(1000))*time.Millisecond)
		if err := server.Restart(w.t.Context()); err != nil {
			w.t.Fatal(err)
		}
		return p
	}
	p.kill()
	return w.start("")
}

// TestZombieMirror stops a mirror with totals in its hands, lets another take
// over and write newer ones, and continues it.
func TestZombieMirror(t *testing.T) {
	t.Parallel()
	for _, where := range []string{"mirror-write", "mirror-settle"} {
		t.Run(where, func(t *testing.T) {
			w := newMirrorWorld(t)
			w.startPushing()
			zombie := w.start(where + "=stop,3")
			w.eventually("the program is stopped", zombie.stopped)
			next := w.start("")
			w.reached()
			zombie.signal(syscall.SIGCONT)
			w.reached()
			next.kill() // the zombie is alone
			w.reached()
			w.checkMirror()
		})
	}
}
