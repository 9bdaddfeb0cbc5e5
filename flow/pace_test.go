package flow

import (
	"errors"
	"strconv"
	"testing"
	"time"

	"sluice"
)

// pace asks for tokens of one bucket, with the bucket's clock moved on before.
func pace(t *testing.T, r *Redis, b *Bucket, past time.Duration, ask PaceAsk) PaceGrant {
	t.Helper()
	for _, field := range []string{"at", "slowed"} {
		if do(t, r, "HEXISTS", paceKey("x", b.Domain), field) == "1" && past > 0 {
			do(t, r, "HINCRBY", paceKey("x", b.Domain), field, strconv.FormatInt(-past.Milliseconds(), 10))
		}
	}
	ask.Bucket = b
	grants, err := r.Pace(t.Context(), "x", []PaceAsk{ask})
	if err != nil {
		t.Fatal(err)
	}
	return grants[0]
}

func near(a, b time.Duration) bool { return a > b/2 && a <= b }

// Tokens come in at the rate, are saved up to the size, and are issued a tenth
// of a second's worth at a time. Unused ones come back.
func TestPace(t *testing.T) {
	r := dial(t)
	b := &Bucket{PerSecond: 100, Size: 15, Least: 0.1, Growth: time.Minute}
	if g := pace(t, r, b, 0, PaceAsk{Want: 100}); g.Tokens != 10 || g.LeftToday != -1 || g.Share != 1 {
		t.Fatalf("a full bucket gives %+v", g)
	}
	// On a slow machine some come in between the calls: the clock is real.
	if g := pace(t, r, b, 0, PaceAsk{Want: 100}); g.Tokens < 5 {
		t.Fatalf("the rest is %+v", g)
	}
	do(t, r, "HSET", paceKey("x", ""), "tokens", "0")
	if g := pace(t, r, b, time.Hour, PaceAsk{Want: 2}); g.Tokens != 2 || g.Wait != 0 {
		t.Fatalf("an hour later: %+v", g)
	}
	if g := pace(t, r, b, 0, PaceAsk{Back: 100}); g.Tokens != 0 {
		t.Fatalf("%+v", g)
	}
	if tokens := do(t, r, "HGET", paceKey("x", ""), "tokens"); tokens != "15.000000" {
		t.Fatalf("%s tokens in a full bucket", tokens)
	}
	slow := &Bucket{Domain: "example.com", PerSecond: 0.005, Size: 1, Least: 0.1, Growth: time.Minute}
	if g := pace(t, r, slow, 0, PaceAsk{Want: 5}); g.Tokens != 1 || !near(g.Wait, 200*time.Second) {
		t.Fatalf("one every 200 seconds: %+v", g)
	}
	if g := pace(t, r, slow, 100*time.Second, PaceAsk{Want: 5}); g.Tokens != 0 || !near(g.Wait, 100*time.Second) {
		t.Fatalf("100 seconds later: %+v", g)
	}
	if left := do(t, r, "PTTL", paceKey("x", "")); left == "-1" {
		t.Error("a bucket is kept for ever")
	}
}

// Slowing halves the rate, once a second, down to the least share; it grows back
// by equal parts.
func TestPaceAdapts(t *testing.T) {
	r := dial(t)
	b := &Bucket{PerSecond: 1000, Size: 1000, Least: 0.2, Growth: 1000 * time.Second}
	share := func(past time.Duration, slow bool) float64 {
		t.Helper()
		g := pace(t, r, b, past, PaceAsk{Slow: slow, Want: 1000})
		if most := int(1000*g.Share/10) + 1; g.Tokens > most {
			t.Errorf("%d tokens at a share of %v", g.Tokens, g.Share)
		}
		return g.Share
	}
	about := func(got, want float64) {
		t.Helper()
		if got < want || got > want+0.02 { // some time passes between the calls
			t.Fatalf("the share is %v, want %v", got, want)
		}
	}
	for quick := false; !quick; { // until both calls are within the same second
		do(t, r, "DEL", paceKey("x", ""))
		began := time.Now()
		about(share(0, true), 0.5)
		again := share(0, true)
		if quick = time.Since(began) < time.Second; quick {
			about(again, 0.5)
		}
	}
	about(share(20*time.Second, true), 0.26)
	about(share(20*time.Second, true), 0.2) // the least
	about(share(100*time.Second, false), 0.3)
	about(share(400*time.Second, false), 0.7)
	if got := share(time.Hour, false); got != 1 {
		t.Fatalf("an hour later the share is %v", got)
	}
}

// A day has so many tokens; those that come back are of the same day.
func TestPaceOfDays(t *testing.T) {
	r := dial(t)
	millis, err := r.TimeMillis(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	today := millis / 86_400_000
	b := &Bucket{PerSecond: 1000, Size: 1000, Least: 0.1, Growth: time.Minute, FirstDay: today - 1, DayLimits: "5,30"}
	if g := pace(t, r, b, 0, PaceAsk{Want: 20, UsedDay: today, Looked: true}); g.Tokens != 20 || g.LeftToday != 10 || g.Day != today {
		t.Fatalf("%+v", g)
	}
	if g := pace(t, r, b, 0, PaceAsk{Want: 20, Back: 2}); g.Tokens != 12 || g.LeftToday != 0 || g.Wait <= 0 || g.Wait > 24*time.Hour {
		t.Fatalf("%+v", g)
	}
	if g := pace(t, r, b, time.Minute, PaceAsk{Want: 20}); g.Tokens != 0 {
		t.Fatalf("beyond the limit: %+v", g)
	}
	do(t, r, "HINCRBY", paceKey("x", ""), "day", "-1")
	if g := pace(t, r, b, 0, PaceAsk{Want: 20}); g.Tokens != 20 || g.LeftToday != 10 {
		t.Fatalf("on another day: %+v", g)
	}
	b.FirstDay, b.DayLimits = today-2, "5,30"
	if g := pace(t, r, b, time.Minute, PaceAsk{Want: 20}); g.Tokens != 20 || g.LeftToday != -1 {
		t.Fatalf("after the last limit: %+v", g)
	}
	b.FirstDay = today + 1
	if g := pace(t, r, b, time.Minute, PaceAsk{Want: 20}); g.Tokens != 0 || g.LeftToday != 0 {
		t.Fatalf("before the first day its limit is that of the first: %+v", g)
	}
}

// A Redis that has forgotten a day gives none of its tokens before it is told
// how many were used. One that knows less than it is told believes the larger
// number.
func TestPaceOfForgottenDays(t *testing.T) {
	r := dial(t)
	millis, err := r.TimeMillis(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	today := millis / 86_400_000
	b := &Bucket{PerSecond: 1000, Size: 1000, Least: 0.1, Growth: time.Minute, FirstDay: today, DayLimits: "30"}
	for range 2 {
		for _, ask := range []PaceAsk{{Want: 5}, {Want: 5, Used: 7, UsedDay: today}, {Want: 5, Used: 7, UsedDay: today - 1, Looked: true}, {}} {
			if g := pace(t, r, b, 0, ask); g.Tokens != 0 || !g.Unknown || g.LeftToday != -1 || g.Day != today {
				t.Fatalf("%+v: %+v", ask, g)
			}
		}
		if g := pace(t, r, b, 0, PaceAsk{Want: 5, Used: 7, UsedDay: today, Looked: true}); g.Tokens != 5 || g.Unknown || g.LeftToday != 18 {
			t.Fatalf("%+v", g)
		}
		for _, ask := range []PaceAsk{{Used: 4, UsedDay: today, Looked: true}, {Used: 29, UsedDay: today - 1, Looked: true}, {Used: 29}} {
			if g := pace(t, r, b, 0, ask); g.Unknown || g.LeftToday != 18 {
				t.Fatalf("%+v: %+v", ask, g)
			}
		}
		if g := pace(t, r, b, time.Minute, PaceAsk{Want: 9, Used: 26, UsedDay: today}); g.Tokens != 4 || g.LeftToday != 0 {
			t.Fatalf("%+v", g)
		}
		do(t, r, "FLUSHALL")
	}
}

// Two processes share a bucket, with one call for several buckets each.
func TestPaceIsShared(t *testing.T) {
	r := dial(t)
	a, b := &Bucket{PerSecond: 10, Size: 3, Least: 0.1, Growth: time.Minute}, &Bucket{Domain: "d", PerSecond: 0.001, Size: 3, Least: 0.1, Growth: time.Minute}
	got := 0
	for range 8 {
		grants, err := r.Pace(t.Context(), "x", []PaceAsk{{Bucket: a, Want: 1}, {Bucket: b, Want: 1}})
		if err != nil {
			t.Fatal(err)
		}
		got += grants[1].Tokens
	}
	if got != 3 {
		t.Errorf("%d tokens of a bucket of 3", got)
	}
}

func TestStops(t *testing.T) {
	r := dial(t)
	if stops, err := r.Stops(t.Context()); err != nil || len(stops) != 0 {
		t.Fatal(stops, err)
	}
	if err := r.Stop(t.Context(), "marketing", "ann: too many", 2); err != nil {
		t.Fatal(err)
	}
	if stops, err := r.Stops(t.Context()); err != nil || stops["marketing"] != "ann: too many" {
		t.Fatal(stops, err)
	}
	for _, name := range []string{"tag:a", "marketing/tag:b", "marketing/tag:b"} {
		if err := r.Stop(t.Context(), name, "", 2, "tag", "message"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := r.Stop(t.Context(), "message:1", "", 2, "tag", "message"); !errors.Is(err, sluice.ErrFull) {
		t.Errorf("a third of the words: %v", err)
	}
	if err := r.Stop(t.Context(), "all", "", 2); err != nil {
		t.Errorf("without words: %v", err)
	}
	for _, name := range []string{"tag:a", "marketing/tag:b", "all"} {
		if was, err := r.Unstop(t.Context(), name); err != nil || !was {
			t.Errorf("%s: %v %v", name, was, err)
		}
	}
	for _, want := range []bool{true, false} {
		if was, err := r.Unstop(t.Context(), "marketing"); err != nil || was != want {
			t.Fatal(was, err)
		}
	}
}
