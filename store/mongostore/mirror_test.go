package mongostore_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"sluice"
	"sluice/store"
	"sluice/store/mongostore"
	"sluice/test/servers"
)

// bulk is what FerretDB takes: each statement of a message holds one of its
// 100 connections until the message ends.
const bulk = 50

var (
	server    *servers.Mongo
	databases atomic.Int64
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "mongostore")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if server, err = servers.StartMongo(ctx, dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer server.Stop(context.Background())
	return m.Run()
}

func open(t testing.TB, address string) *mongostore.Mirror {
	t.Helper()
	m, err := mongostore.Open(address, bulk)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return m
}

// fresh returns an empty database's URL, and a client past the mirror.
func fresh(t testing.TB) (address string, db *mongo.Database) {
	t.Helper()
	name := "test_" + strconv.FormatInt(databases.Add(1), 10)
	address = server.URL(name)
	client, err := mongo.Connect(options.Client().ApplyURI(address))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.Disconnect(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return address, client.Database(name)
}

// document is one as others read it.
type document struct {
	App     string    `bson:"app_id"`
	Name    string    `bson:"name"`
	Date    time.Time `bson:"date"`
	First   int64     `bson:"0"`
	Last    int64     `bson:"23"`
	Version int64     `bson:"_v"`
}

func documents(t testing.TB, db *mongo.Database) []document {
	t.Helper()
	cursor, err := db.Collection(mongostore.SeriesCollection).Find(t.Context(), bson.D{})
	if err != nil {
		t.Fatal(err)
	}
	var all []document
	if err := cursor.All(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	return all
}

var day = time.Date(2026, 1, 31, 0, 0, 0, 0, time.UTC)

func totals(app, name string, first, last int64) store.DayTotals {
	d := store.DayTotals{SeriesDay: store.SeriesDay{App: app, Name: name, DayMillis: day.UnixMilli()}}
	d.Hours = []store.HourTotal{{Hour: 0, Count: first}, {Hour: 23, Count: last}}
	return d
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A document is written once, replaced by newer versions only, and repeating a
// version changes nothing; of newer ones the writer is told.
func TestSet(t *testing.T) {
	address, db := fresh(t)
	m := open(t, address)
	must(t, m.Set(t.Context(), 5, []store.DayTotals{totals("shop", "open", 1, 2)}))
	must(t, m.Set(t.Context(), 5, []store.DayTotals{totals("shop", "open", 100, 200), totals("shop", "late", 3, 3)}))
	must(t, m.Set(t.Context(), 7, []store.DayTotals{totals("shop", "late", 4, -4)}))
	err := m.Set(t.Context(), 6, []store.DayTotals{totals("shop", "late", 9, 9)})
	if !errors.Is(err, sluice.ErrConflict) {
		t.Errorf("an older version: %v", err)
	}
	want := []document{{"shop", "open", day, 1, 2, 5}, {"shop", "late", day, 4, -4, 7}}
	got := documents(t, db)
	if len(got) != 2 || got[0] != want[0] && got[1] != want[0] || got[0] != want[1] && got[1] != want[1] {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if n := m.Documents.Load(); n != 3 {
		t.Errorf("%d documents counted, 3 written", n)
	}
}

// Whatever a text is, it is a value, and documents are told apart by every
// byte of it.
func TestSetTexts(t *testing.T) {
	address, db := fresh(t)
	m := open(t, address)
	texts := []string{"", "a", "A", "a ", "a.b", "$a", "$set.x", "_v", "0", "|", "1:a|b", "é", "e\u0301", "\U0001F600", "'\"\\", "a\nb", strings.Repeat("x", 255)}
	var days []store.DayTotals
	for i, app := range texts[:len(texts)-1] {
		for j, name := range texts {
			days = append(days, totals(app, name, int64(i), int64(j)))
		}
	}
	must(t, m.Set(t.Context(), 1, days))
	must(t, m.Set(t.Context(), 2, days))
	got := documents(t, db)
	if len(got) != len(days) {
		t.Fatalf("%d documents, want %d", len(got), len(days))
	}
	for _, d := range got {
		if d.App != texts[d.First] || d.Name != texts[d.Last] || d.Version != 2 || !d.Date.Equal(day) {
			t.Errorf("%+v", d)
		}
	}
}

// An epoch is one larger with each call, and the index is made once. That holds
// for calls at once as well, but FerretDB reads, then writes, and locks nothing.
func TestBegin(t *testing.T) {
	address, db := fresh(t)
	m, other := open(t, address), open(t, address)
	for i := range int64(6) {
		epoch, err := []*mongostore.Mirror{m, other}[i%2].Begin(t.Context())
		must(t, err)
		if epoch != i+1 {
			t.Errorf("epoch %d, want %d", epoch, i+1)
		}
	}
	specs, err := db.Collection(mongostore.SeriesCollection).Indexes().ListSpecifications(t.Context())
	must(t, err)
	if len(specs) != 2 {
		t.Errorf("%d indexes, want that of _id and ours", len(specs))
	}
}

func TestCheck(t *testing.T) {
	for address, want := range map[string]string{
		"mongodb://u:p@h1:1,h2:2/db?replicaSet=r": "mongodb://h1:1,h2:2/db",
		"mongodb://h":                         "mongodb://h/sluice",
		"mongodb+srv://u:p@cluster.example/x": "mongodb+srv://cluster.example/x",
		"mongodb://%2Ftmp%2Fs.sock/x":         "mongodb://%2Ftmp%2Fs.sock/x",

		// The driver takes all that is before the first @ for user and password.
		"mongodb://u:ge?heim@h1:1,h2:2/db?replicaSet=r": "mongodb://h1:1,h2:2/db",
		"mongodb+srv://u:ge?heim@cluster.example/x":     "mongodb+srv://cluster.example/x",
		"mongodb://u:p@h/db?appName=a@b":                "mongodb://h/db",
	} {
		database, where, err := mongostore.Check(address)
		if err != nil || where != want || !strings.HasSuffix(want, "/"+database) {
			t.Errorf("%s: %q, %v, want %q", address, where, err, want)
		}
	}
	for _, address := range []string{"", "http://h", "mongodb://", "mongodb://u:geheim@", "mongodb://u:geheim@h/a/b", "mongodb://u:geheim@h/db?w=x&readPreference=nonsense", "mongodb://u:gehe/im@h/db", "mongodb://u:gehe@im@h/db", "mongodb://u:gehe%zzim@h/db", "mongodb://h/db?tls=true&tlsCertificateKeyFile=/none&tlsCertificateKeyFilePassword=geheim",
		"mongodb://u:geheim@h/db?authMechanism=SCRAM-SHA-1&authMechanismProperties=geheim", "mongodb://u:geheim@h:port/db",
		"mongodb://u:x?geheim@h/db?w=x&readPreference=nonsense", "mongodb+srv://u:gehe/im@h/db", "mongodb+srv://u:gehe@im@h/db"} {
		_, _, err := mongostore.Check(address)
		if err == nil || strings.Contains(err.Error(), "gehe") {
			t.Errorf("%s: %v", address, err)
		}
	}
}

func BenchmarkSet(b *testing.B) {
	address, _ := fresh(b)
	m := open(b, address)
	var days []store.DayTotals
	for i := range 100 {
		days = append(days, totals("shop", "name "+strconv.Itoa(i), 1, 1))
	}
	version := int64(0)
	for b.Loop() {
		version++
		must(b, m.Set(b.Context(), version, days))
	}
}
