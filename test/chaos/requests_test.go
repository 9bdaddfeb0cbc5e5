package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestRandomKillsWithRequests kills the program, Redis and the database while
// events and counters come by HTTP and counters in hashes. A request that got
// no 202 is repeated with its Idempotency-Key until it does. Afterwards every
// event is stored once, and the series have, per app, name and hour, exactly
// what was accepted.
func TestRandomKillsWithRequests(t *testing.T) {
	t.Parallel()
	for _, base := range []string{onMariaDB, onPostgres} {
		t.Run(base, func(t *testing.T) {
			random := seeded(t)
			w := newWorldOn(t, base)
			w.writeConfig(inputHashes + "root_key: " + httpRoot + "\n")
			w.start("")
			s := &senders{clients: clients{at: w.awaitListen()}, counted: map[bucket]int64{}}
			w.startPushing()
			s.start(t)
			done := w.killBeside(random, *kills, &s.clients)
			s.finish()
			w.stopPushing()
			t.Logf("%d kills, %d requests accepted, %d answers other than 202", done, s.accepted(), s.repeats)
			if s.repeats == 0 || len(s.counted) == 0 {
				t.Error("no request was repeated, or nothing counted: this test shows little")
			}
			w.checkRequests(s)
		})
	}
}

// bucket names a row of the series, as GET /v1/series writes it.
type bucket struct{ App, Name, Kind, Time string }

// senders post events and counters in turn, and know what was accepted.
type senders struct {
	clients
	events  int64
	counted map[bucket]int64
}

const (
	sendersAtOnce = 6
	itemsEach     = 20
)

func (s *senders) start(t *testing.T) {
	random := make([]*rand.Rand, sendersAtOnce)
	for who := range random {
		random[who] = rand.New(rand.NewPCG(uint64(who), 1))
	}
	s.run(sendersAtOnce, func(client *http.Client, who, n int) bool { return s.post(t, client, random[who], who, n) })
}

// post sends one request until it is accepted, and reports whether to go on.
func (s *senders) post(t *testing.T, client *http.Client, random *rand.Rand, who, n int) bool {
	path, body, sums := eventsRequest(random, who, n)
	if n%2 == 1 {
		path, body, sums = countersRequest(random)
	}
	return s.deliver(t, path, settleWithin, func(at string) (int, int, func()) {
		return post(client, at+path, body, fmt.Sprintf("%d-%d", who, n)), 1, func() {
			if n%2 == 0 {
				s.events += itemsEach
			}
			for b, by := range sums {
				s.counted[b] += by
			}
		}
	})
}

// someHour is one of three, over the end of a day.
func someHour(random *rand.Rand) time.Time {
	return time.Date(2026, 1, 31, 22+random.IntN(3), random.IntN(60), 0, 0, time.UTC)
}

func bucketOf(kind, name string, at time.Time) bucket {
	return bucket{"shop", name, kind, at.Truncate(time.Hour).Format(time.RFC3339)}
}

// eventsRequest makes events without ids.
func eventsRequest(random *rand.Rand, who, n int) (path, body string, sums map[bucket]int64) {
	var items strings.Builder
	sums = map[bucket]int64{}
	for i := range itemsEach {
		at, name := someHour(random), fmt.Sprintf("event %d", random.IntN(5))
		fmt.Fprintf(&items, ",{\"event\":%q,\"app_id\":\"shop\",\"user_id\":\"u%d\",\"message_id\":\"%d-%d-%d\",\"time\":%q}", name, i%7, who, n, i, at.Format(time.RFC3339))
		sums[bucketOf("custom", name, at)]++
	}
	return "/v1/events", "[" + items.String()[1:] + "]", sums
}

func countersRequest(random *rand.Rand) (path, body string, sums map[bucket]int64) {
	var items strings.Builder
	sums = map[bucket]int64{}
	for range itemsEach {
		at, name, by := someHour(random), fmt.Sprintf("counter %d", random.IntN(5)), 1+random.Int64N(9)
		fmt.Fprintf(&items, ",{\"app_id\":\"shop\",\"name\":%q,\"by\":%d,\"time\":%q}", name, by, at.Format(time.RFC3339))
		sums[bucketOf("counter", name, at)] += by
	}
	return "/v1/counters", "[" + items.String()[1:] + "]", sums
}

// checkRequests waits until all is stored, and compares.
func (w *world) checkRequests(s *senders) {
	w.t.Helper()
	w.eventually("all events are stored", func() bool { return w.highest("SELECT COUNT(DISTINCT message_ref) FROM events") >= s.events })
	if n := w.highest("SELECT COUNT(*) FROM events"); n != s.events {
		w.t.Errorf("%d events accepted, %d rows", s.events, n)
	}
	var sum int64
	days := map[bucket]int64{}
	for b, by := range s.counted {
		sum += by
		b.Time = b.Time[:len("2026-01-31")] + "T00:00:00Z"
		days[b] += by
	}
	w.eventually("everything is counted", func() bool {
		return w.highest("SELECT COALESCE(SUM(count), 0) FROM series_days WHERE app_id = 'shop'") >= sum
	})
	at := w.awaitListen()
	for step, want := range map[string]map[bucket]int64{"hour": s.counted, "day": days} {
		var got map[bucket]int64
		w.eventually("the series by "+step+" is answered", func() (ok bool) {
			var err error
			if got, err = readSeries(w.t.Context(), at, step); err != nil {
				w.t.Log(err)
			}
			return err == nil
		})
		if !maps.Equal(got, want) {
			w.t.Errorf("series by %s: %v\naccepted: %v", step, got, want)
		}
	}
	w.eventually("the hashes are counted", func() bool { return w.highest(sumHashes) >= w.pushed })
	if n := w.highest(sumHashes); n != w.pushed {
		w.t.Errorf("%d counted in hashes, %d in the series", w.pushed, n)
	}
	if n := w.highest("SELECT COUNT(*) FROM dead_letters"); n != 0 {
		w.t.Errorf("%d dead letters, want none", n)
	}
}

// sumHashes is what the series has of the hashes that push counts in.
const sumHashes = "SELECT COALESCE(SUM(count), 0) FROM series_hours WHERE app_id = 'app'"

// readSeries asks the program for what it has counted of the app shop.
func readSeries(ctx context.Context, at, step string) (map[bucket]int64, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at+"/v1/series?app_id=shop&by=app,name,kind&from=2026-01-01&to=2026-03-01&step="+step, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+httpRoot)
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("series: %s: %s (%w)", answer.Status, text, err)
	}
	var body struct {
		Series []struct {
			Time, Name, Kind string
			App              string `json:"app_id"`
			Count            int64
		}
	}
	if err := json.Unmarshal(text, &body); err != nil {
		return nil, err
	}
	all := map[bucket]int64{}
	for _, r := range body.Series {
		all[bucket{r.App, r.Name, r.Kind, r.Time}] = r.Count
	}
	return all, nil
}
