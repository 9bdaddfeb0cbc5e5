package main

import (
	"context"
	"database/sql"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"sluice/config"
	"sluice/lib/doctor"
	"sluice/store/mongostore"
	"sluice/test/servers"
)

// mirrored is a server with the mirror, and who looks into it.
type mirrored struct {
	server *servers.Mongo
	url    string
	db     *mongo.Database
}

func startMirror(t *testing.T) *mirrored {
	t.Helper()
	server, err := servers.StartMongo(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	m := &mirrored{server: server, url: server.URL("numbers")}
	client, err := mongo.Connect(options.Client().ApplyURI(m.url))
	if err != nil {
		t.Fatal(err)
	}
	m.db = client.Database("numbers")
	t.Cleanup(func() {
		_ = client.Disconnect(context.Background())
		_ = server.Kill()
	})
	return m
}

// series returns what the documents say, as lines: app, name, day, hour, count.
func (m *mirrored) series(t *testing.T) string {
	t.Helper()
	cursor, err := m.db.Collection(mongostore.SeriesCollection).Find(t.Context(), bson.D{})
	if err != nil {
		t.Fatal(err)
	}
	var documents []bson.M
	if err := cursor.All(t.Context(), &documents); err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, d := range documents {
		for field, value := range d {
			if hour, err := strconv.Atoi(field); err == nil {
				lines = append(lines, fmt.Sprintf("%s %s %d %d %d", d["app_id"], d["name"], d["date"].(bson.DateTime), hour, value))
			}
		}
	}
	sort.Strings(lines)
	return strings.Join(lines, "\n")
}

// stored returns the same of a program's own SQLite.
func (s *served) stored(t *testing.T) string {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(s.dir, "data", "sluice.db")+"?mode=ro&_pragma=busy_timeout(20000)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	rows, err := db.QueryContext(t.Context(), "SELECT app_id, name, bucket / 86400000 * 86400000, bucket / 3600000 % 24, SUM(count) FROM series_hours GROUP BY 1, 2, 3, 4")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var lines []string
	for rows.Next() {
		var app, name string
		var day, hour, count int64
		if err := rows.Scan(&app, &name, &day, &hour, &count); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, fmt.Sprintf("%s %s %d %d %d", app, name, day, hour, count))
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	sort.Strings(lines)
	return strings.Join(lines, "\n")
}

func (s *served) awaitMirrored(t *testing.T, m *mirrored) {
	t.Helper()
	await(t, "the mirror has what is stored", func() bool { return m.series(t) == s.stored(t) })
}

// The whole program: what was there before, events and counters, while the
// mirror is away and after it was emptied, turned off and on again.
func TestServeMirrorsTheSeries(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := startServe(t, dir, "SLUICE_ROOT_KEY="+testRoot)
	const day = "2026-01-31T"
	count := func(items ...string) {
		t.Helper()
		before := s.stored(t)
		if status, text := s.ask(t, "POST", "/v1/counters", "["+strings.Join(items, ",")+"]"); status != http.StatusAccepted {
			t.Fatalf("%d %s", status, text)
		}
		await(t, "it is stored", func() bool { return s.stored(t) != before })
	}
	count(`{"app_id":"shop","name":"$set.a.b","time":"`+day+`00:10:00Z"}`, `{"name":"early","time":"`+day+`23:10:00Z","by":7}`)
	s.stop(t)

	m := startMirror(t)
	on := []string{"SLUICE_ROOT_KEY=" + testRoot, "SLUICE_TIMESERIES=" + m.url, "SLUICE_TIMESERIES_BULK=50"}
	s = startServe(t, dir, on...)
	s.awaitMirrored(t, m)
	count(`{"app_id":"shop","name":"$set.a.b","time":"` + day + `00:20:00Z","by":3}`)
	s.accepted(t, 1, `{"event":"open","time":"`+day+`10:00:00Z"}`)
	await(t, "the event is counted", func() bool { return strings.Contains(s.stored(t), "opened") })
	s.awaitMirrored(t, m)
	await(t, "the documents are counted", func() bool { return s.metric(t, "sluice_mirror_documents_total") >= 4 })
	await(t, "the mirror's lease and lag are shown", func() bool {
		return s.sample(t, `sluice_leases{role="mirror"}`) == 1 && s.sample(t, `sluice_follower_lag_seconds{follower="mirror",partition="0"}`) >= 0
	})

	file := filepath.Join(dir, config.DefaultFile) // the environment of doctor has no URL
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, append(text, "\ntimeseries: "+m.url...), 0o600); err != nil {
		t.Fatal(err)
	}
	examined := func(reachable, index doctor.Severity) {
		t.Helper()
		awaitDoctor(t, dir, fmt.Sprintf("to reach the mirror is %s, its index %s", reachable, index), func(r result) bool {
			found := worstOf(t, r)
			return found[doctor.CheckMirrorReachable] == reachable && found[doctor.CheckMirrorIndex] == index && found[doctor.CheckLeases] == doctor.SeverityOK
		}, "--json", "--listen", strings.TrimPrefix(s.url, "http://"))
	}
	examined(doctor.SeverityOK, doctor.SeverityOK)
	specs, err := m.db.Collection(mongostore.SeriesCollection).Indexes().ListSpecifications(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, spec := range specs {
		if spec.Name == "_id_" {
			continue
		}
		if err := m.db.Collection(mongostore.SeriesCollection).Indexes().DropOne(t.Context(), spec.Name); err != nil {
			t.Fatal(err)
		}
	}
	examined(doctor.SeverityOK, doctor.SeverityWarning)

	if err := m.server.Kill(); err != nil {
		t.Fatal(err)
	}
	examined(doctor.SeverityError, doctor.SeverityUnknown)
	count(`{"name":"early","time":"` + day + `23:20:00Z"}`)
	await(t, "the mirror fails", func() bool { return s.metric(t, "sluice_mirror_errors_total") > 0 })
	await(t, "the lag grows", func() bool {
		return s.sample(t, `sluice_follower_lag_seconds{follower="mirror",partition="0"}`) > 0.1
	})
	awaitFound(t, "it is ready without the mirror", func() (any, bool) {
		status, body := s.get(t, "/readyz")
		return body, status == http.StatusOK
	})
	if err := m.server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.awaitMirrored(t, m)
	s.stop(t)

	s = startServe(t, dir, on[0]) // off
	count(`{"name":"early","time":"` + day + `22:20:00Z"}`)
	s.stop(t)
	if err := m.db.Collection(mongostore.SeriesCollection).Drop(t.Context()); err != nil {
		t.Fatal(err)
	}
	s = startServe(t, dir, on...)
	s.awaitMirrored(t, m)
	s.stop(t)

	if err := m.db.Drop(t.Context()); err != nil { // another server in its place, empty
		t.Fatal(err)
	}
	s = startServe(t, dir, on...)
	s.awaitMirrored(t, m)
	s.stop(t)
}

// A password in the mirror's URL is in no log, no error and no listing.
func TestMirrorPasswordIsNotShown(t *testing.T) {
	t.Parallel()
	const secret = "geheim"
	for _, url := range []string{"mongodb://u:" + secret + "@127.0.0.1:1/db?serverSelectionTimeoutMS=50", "mongodb://u:" + secret + "@127.0.0.1:1,127.0.0.1:2/db?serverSelectionTimeoutMS=50&tlsCertificateKeyFilePassword=" + secret} {
		dir := t.TempDir()
		s := startServe(t, dir, "SLUICE_TIMESERIES="+url)
		await(t, "the mirror fails", func() bool { return s.metric(t, "sluice_mirror_errors_total") > 0 })
		s.stop(t)
		shown := s.log.String()
		file := filepath.Join(dir, config.DefaultFile)
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, append(text, "\ntimeseries: "+url...), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(file, 0o644); err != nil {
			t.Fatal(err)
		}
		for _, command := range []string{"doctor", "config"} {
			r := sluiceRun(t, dir, command)
			shown += r.stdout + r.stderr
		}
		if strings.Contains(shown, secret) || !strings.Contains(shown, "127.0.0.1:1") || !strings.Contains(shown, string(doctor.CheckConfigSecrets)) {
			t.Errorf("%s", shown)
		}
	}
}
