package flow

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"sluice"
	"sluice/test/servers"
)

func newHashes(t *testing.T, r *Redis) (*List, *Lease) {
	t.Helper()
	l, err := NewHashes(t.Context(), r, "buffered")
	if err != nil {
		t.Fatal(err)
	}
	return l, leaseOn(t, r, l.keys.leaseKey())
}

func openHashes(t *testing.T, l *List, lease *Lease, cursor sluice.Position) *ListReader {
	t.Helper()
	reader, err := l.Open(t.Context(), lease, cursor)
	if err != nil {
		t.Fatal(err)
	}
	return reader
}

// count does what a producer does.
func count(t *testing.T, r *Redis, key, field string, by int) {
	t.Helper()
	do(t, r, "HINCRBY", key, field, strconv.Itoa(by))
	do(t, r, "SADD", "buffered", key)
}

// take drains at once, whatever the time, and returns a page's elements decoded.
func take(t *testing.T, reader *ListReader) ([]Hash, sluice.Position) {
	t.Helper()
	reader.due = time.Time{}
	page, err := reader.Next(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	all := make([]Hash, len(page.Elements))
	for i, e := range page.Elements {
		if err := ParseHash(e, &all[i]); err != nil {
			t.Fatalf("element %q: %v", e, err)
		}
		if again := all[i].Element(); again != e {
			t.Fatalf("element %q is written as %q", e, again)
		}
	}
	return all, page.To
}

// add sums up what elements count, and fails on those that count nothing.
func add(t *testing.T, sums map[string]int64, hashes []Hash) (fields int) {
	t.Helper()
	for _, h := range hashes {
		if h.Reason != "" {
			t.Fatalf("key %q: %s", h.Key, h.Reason)
		}
		for _, f := range h.Fields {
			n, ok := ParseCount(f.Value)
			if !ok {
				t.Fatalf("key %q has %q", h.Key, f.Value)
			}
			sums[h.Key+" "+f.Name] += n
		}
		fields += len(h.Fields)
	}
	return fields
}

// TestHashesAreCountedOnceWhateverCrashes drives hashes by random steps: what
// is committed and what is still in Redis is together what was counted.
func TestHashesAreCountedOnceWhateverCrashes(t *testing.T) {
	for range 20 {
		seed := rand.Uint64()
		t.Run(fmt.Sprint("seed=", seed), func(t *testing.T) { hashesModel(t, rand.New(rand.NewPCG(seed, 0))) })
	}
}

func hashesModel(t *testing.T, random *rand.Rand) {
	r := dial(t)
	l, lease := newHashes(t, r)
	reader := openHashes(t, l, lease, sluice.Position{})
	counted, committed := map[string]int64{}, map[string]int64{}
	var read []Hash
	var cursor, to sluice.Position
	for range 60 {
		switch random.IntN(6) {
		case 0, 1:
			for range 1 + random.IntN(40) {
				key, field, by := "k"+strconv.Itoa(random.IntN(8)), strconv.Itoa(random.IntN(24)), random.IntN(100)-20
				count(t, r, key, field, by)
				counted[key+" "+field] += int64(by)
			}
		case 2, 3:
			if some, at := take(t, reader); len(some) > 0 {
				read, to = append(read, some...), at
			}
		case 4: // the effect is committed; Redis hears of it, or not
			add(t, committed, read)
			read = nil
			if cursor.Before(to) {
				cursor = to
			}
			if random.IntN(2) == 0 {
				reader.Committed(cursor)
			}
		case 5: // crash
			read, to = nil, cursor
			if random.IntN(3) == 0 {
				lease = leaseOn(t, r, l.keys.leaseKey())
			}
			reader = openHashes(t, l, lease, cursor)
		}
	}
	if cursor.Before(to) {
		cursor = to
	}
	for {
		some, at := take(t, reader)
		if len(some) == 0 {
			break
		}
		read, cursor = append(read, some...), at
	}
	add(t, committed, read)
	for name, n := range counted {
		if committed[name] != n {
			t.Fatalf("%s: %d counted, %d committed", name, n, committed[name])
		}
	}
	reader.Committed(cursor)
	if err := reader.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left := do(t, r, "KEYS", "k*"); left != "[]" {
		t.Fatalf("after all is committed %s remain", left)
	}
	if left := do(t, r, "KEYS", "*held*"); left != "[]" {
		t.Fatalf("after all is committed %s remain", left)
	}
}

// A hash of many fields is taken in pieces, while it is counted on, and others
// are not kept waiting.
func TestAHugeHashIsTakenInPieces(t *testing.T) {
	r := dial(t)
	l, lease := newHashes(t, r)
	const fields = 20_000
	for from := 0; from < fields; from += 1000 {
		words := []string{"HSET", "huge"}
		for i := range 1000 {
			words = append(words, strconv.Itoa(from+i), strconv.Itoa(from+i))
		}
		do(t, r, words...)
	}
	do(t, r, "SADD", "buffered", "huge")
	count(t, r, "small", "1", 7)
	reader := openHashes(t, l, lease, sluice.Position{})
	sums := map[string]int64{}
	var more int64
	for total := 0; ; {
		some, _ := take(t, reader)
		if len(some) == 0 {
			break
		}
		if n := add(t, sums, some); n > 2*drainFields {
			t.Fatalf("one call took %d fields", n)
		} else if total += n; total < fields/2 {
			count(t, r, "huge", "5", 1)
			more++
		}
	}
	if len(sums) != fields+1 || sums["small 1"] != 7 || sums["huge 5"] != 5+more || sums["huge 19999"] != 19999 {
		t.Fatalf("%d fields taken, small %d, huge 5 %d", len(sums), sums["small 1"], sums["huge 5"])
	}
}

// One drain takes no more than it may, and says that there is more.
func TestADrainIsBounded(t *testing.T) {
	r := dial(t)
	l, lease := newHashes(t, r)
	const keys = 3 * drainKeys
	for i := range keys {
		count(t, r, "k"+strconv.Itoa(i), "0", 1)
	}
	reader := openHashes(t, l, lease, sluice.Position{})
	sums := map[string]int64{}
	for drains := 1; drains <= 3; drains++ {
		held, err := reader.hold(t.Context())
		if err != nil || !held {
			t.Fatalf("drain %d: %v, %v", drains, held, err)
		}
		if at := time.Now(); drains < 3 && reader.due.After(at) {
			t.Fatalf("drain %d was full, and the next waits until %s", drains, reader.due)
		}
	}
	if n, err := l.Remaining(t.Context()); err != nil || n != keys {
		t.Fatalf("%d are held, %v", n, err)
	}
	if held, err := reader.hold(t.Context()); err != nil || held {
		t.Fatalf("a quiet server is drained again within the second: %v, %v", held, err)
	}
	for {
		some, _ := take(t, reader)
		if len(some) == 0 {
			break
		}
		add(t, sums, some)
	}
	if len(sums) != keys {
		t.Fatalf("%d keys taken of %d", len(sums), keys)
	}
}

func TestNextDrain(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 700_000_000, time.UTC)
	if next := nextDrain(at, false); !next.Equal(time.Date(2026, 1, 2, 3, 4, 6, 0, time.UTC)) {
		t.Errorf("a quiet server is drained at %s", next)
	}
	if next := nextDrain(at, true); !next.Equal(at) {
		t.Errorf("a busy server is drained at %s", next)
	}
}

// A key that is no hash of counters is reported and left unchanged; the others
// are taken.
func TestBadKeysAreToldAndLeftAlone(t *testing.T) {
	r := dial(t)
	l, lease := newHashes(t, r)
	do(t, r, "SET", "text", "5")
	do(t, r, "RPUSH", "list", "5")
	do(t, r, "HSET", "blob", "0", strings.Repeat("x", 1<<20))
	do(t, r, "HSET", "mixed", "0", strings.Repeat("x", 1<<20), "1", "5")
	do(t, r, "SADD", "buffered", "text", "list", "blob", "mixed", "gone")
	do(t, r, "HSET", "odd", "\x00,:", "not a number", "7", "")
	do(t, r, "SADD", "buffered", "odd")
	count(t, r, "good", "7", 3)
	some, _ := take(t, openHashes(t, l, lease, sluice.Position{}))
	got := map[string]string{}
	for _, h := range some {
		got[h.Key] += h.Reason
		if h.Key == "odd" && len(h.Fields) != 2 {
			t.Errorf("fields of odd: %q", h.Fields)
		}
	}
	if len(got) != 6 || got["good"] != "" || got["odd"] != "" ||
		got["text"] != "the key is a string, not a hash" || got["list"] != "the key is a list, not a hash" ||
		!strings.Contains(got["blob"], "none of a counter") || !strings.Contains(got["mixed"], "none of a counter") {
		t.Errorf("%q", got)
	}
	if n := do(t, r, "EXISTS", "text", "list", "blob", "mixed", "good", "odd"); n != "4" {
		t.Errorf("%s keys are there, want the 4 that were not taken", n)
	}
	if n := do(t, r, "HKEYS", "mixed"); n != "[0]" {
		t.Errorf("mixed has the fields %s", n)
	}
	if n := do(t, r, "SCARD", "buffered"); n != "0" {
		t.Errorf("%s keys are dirty", n)
	}
}

// asUser makes hashes speak to Redis as a user with these rights.
func asUser(t *testing.T, l *List, rights ...string) {
	t.Helper()
	do(t, l.redis, append([]string{"ACL", "SETUSER", "drainer", "reset", "on", "nopass"}, rights...)...)
	option, err := rueidis.ParseURL(testRedis.URL())
	if err != nil {
		t.Fatal(err)
	}
	option.Username, option.Password, option.DisableCache = "drainer", "any", true
	client, err := rueidis.NewClient(option)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	l.redis = &Redis{client: client, name: "as drainer"}
}

// A key that the program's user may not read or delete costs no count of others.
func TestKeysOfOthersAreLeftAlone(t *testing.T) {
	r := dial(t)
	for _, key := range []string{"ours:1", "theirs:1", "readable:1", "ours:2"} {
		count(t, r, key, "0", 1)
	}
	l, lease := newHashes(t, r)
	asUser(t, l, "+@all", "~sluice:*", "~buffered", "~ours:*", "%R~readable:*")
	some, _ := take(t, openHashes(t, l, lease, sluice.Position{}))
	taken := map[string]bool{}
	for _, h := range some {
		taken[h.Key] = h.Reason == ""
	}
	if len(taken) != 4 || !taken["ours:1"] || !taken["ours:2"] || taken["theirs:1"] || taken["readable:1"] {
		t.Errorf("taken: %v of %+v", taken, some)
	}
	if n := do(t, r, "EXISTS", "theirs:1", "readable:1"); n != "2" {
		t.Errorf("%s of 2 keys are left", n)
	}
}

// Whatever command fails in the middle of a drain, what it took before is held.
func TestADrainLosesNothingWhereCommandsFail(t *testing.T) {
	for _, command := range []string{"hlen", "type", "object", "hgetall", "del", "hrandfield", "hstrlen", "hmget", "hdel", "sadd", "exists", "spop", "rpush", "hget", "scard"} {
		r := dial(t)
		want := int64(0)
		for i := range 20 {
			count(t, r, "k"+strconv.Itoa(i), "0", 1)
			want++
		}
		words := []string{"HSET", "large"}
		for i := range drainFields + 1 {
			words = append(words, strconv.Itoa(i), "1")
			want++
		}
		do(t, r, words...)
		do(t, r, "SADD", "buffered", "large")
		l, lease := newHashes(t, r)
		reader := openHashes(t, l, lease, sluice.Position{})
		asUser(t, l, "+@all", "-"+command, "~*")
		_, _ = reader.hold(t.Context()) // may be refused
		l.redis = r
		reader = openHashes(t, l, lease, sluice.Position{})
		got := int64(0)
		for {
			some, _ := take(t, reader)
			if len(some) == 0 {
				break
			}
			for _, h := range some {
				for _, f := range h.Fields {
					n, _ := ParseCount(f.Value)
					got += n
				}
			}
		}
		for i := range 20 {
			left, _ := strconv.ParseInt(do(t, r, "HLEN", "k"+strconv.Itoa(i)), 10, 64)
			got += left
		}
		left, _ := strconv.ParseInt(do(t, r, "HLEN", "large"), 10, 64)
		if got += left; got != want {
			t.Errorf("without %s: %d counts of %d are somewhere", command, got, want)
		}
	}
}

// A user without the right to write the chunk takes nothing.
func TestADrainThatCannotWriteTakesNothing(t *testing.T) {
	r := dial(t)
	count(t, r, "k", "0", 1)
	l, lease := newHashes(t, r)
	reader := openHashes(t, l, lease, sluice.Position{})
	asUser(t, l, "+@all", "-rpush", "~*")
	if _, err := reader.hold(t.Context()); err == nil {
		t.Fatal("drained without being able to write")
	}
	if n := do(t, r, "HGET", "k", "0"); n != "1" {
		t.Errorf("the hash has %s", n)
	}
	if n := do(t, r, "SISMEMBER", "buffered", "k"); n != "1" {
		t.Errorf("the key is dirty: %s", n)
	}
}

// A full Redis refuses producers, and is drained all the same.
func TestAFullRedisIsDrained(t *testing.T) {
	r := dial(t)
	l, lease := newHashes(t, r)
	for i := range 100 {
		count(t, r, "k"+strconv.Itoa(i), "0", 1)
	}
	do(t, r, "CONFIG", "SET", "maxmemory", "1")
	if err := r.client.Do(t.Context(), r.client.B().Hincrby().Key("k").Field("0").Increment(1).Build()).Error(); err == nil {
		t.Fatal("the server is not full: this test shows nothing")
	}
	reader := openHashes(t, l, lease, sluice.Position{})
	sums := map[string]int64{}
	for range 2 {
		some, to := take(t, reader)
		add(t, sums, some)
		reader.Committed(to)
	}
	if len(sums) != 100 {
		t.Fatalf("%d hashes drained of 100", len(sums))
	}
	if err := reader.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// A drain without an answer is found when it is asked for again.
func TestADrainWhoseAnswerWasLost(t *testing.T) {
	r := dial(t)
	l, lease := newHashes(t, r)
	reader := openHashes(t, l, lease, sluice.Position{})
	count(t, r, "k", "0", 1)
	last, size := reader.last, reader.size
	if held, err := reader.hold(t.Context()); err != nil || !held {
		t.Fatalf("drain: %v, %v", held, err)
	}
	reader.last, reader.size, reader.due = last, size, time.Time{}
	count(t, r, "k", "0", 5)
	for _, want := range []string{"1", "5"} {
		if some, _ := take(t, reader); len(some) != 1 || some[0].Fields[0].Value != want {
			t.Fatalf("took %+v, want %s", some, want)
		}
	}
}

// SCRIPT FLUSH is what a restart is to scripts.
func TestHashesSurviveScriptFlush(t *testing.T) {
	r := dial(t)
	l, lease := newHashes(t, r)
	reader := openHashes(t, l, lease, sluice.Position{})
	for range 3 {
		count(t, r, "k", "0", 1)
		do(t, r, "SCRIPT", "FLUSH")
		if some, _ := take(t, reader); len(some) != 1 {
			t.Fatalf("took %d hashes", len(some))
		}
	}
}

func TestCountAgainCountsOnce(t *testing.T) {
	r := dial(t)
	l, _ := newHashes(t, r)
	again := func(h Hash) error { return l.Again(t.Context(), "7", []byte(h.Element())) }
	do(t, r, "HSET", "k", "1", "5", "2", "no number")
	for name, h := range map[string]Hash{
		"a value that is no integer":     {Key: "k", Fields: []HashField{{"1", "5"}, {"2", "x"}}},
		"a value with a sign":            {Key: "k", Fields: []HashField{{"1", "+5"}}},
		"a field that HINCRBY refuses":   {Key: "k", Fields: []HashField{{"1", "5"}, {"3", "-2"}, {"2", "5"}}},
		"a hash whose key is the list's": {Key: "buffered2", Fields: []HashField{{"1", "5"}}},
	} {
		if h.Key == "buffered2" {
			do(t, r, "RPUSH", "buffered2", "x")
		}
		if err := again(h); err == nil {
			t.Errorf("%s is counted", name)
		}
	}
	if got := do(t, r, "HMGET", "k", "1", "3") + do(t, r, "EXISTS", "buffered"); got != "[5 0]0" {
		t.Fatalf("after refusals: %s", got)
	}
	h := Hash{Key: "k", Fields: []HashField{{"1", "5"}, {"\x00", "-2"}}}
	for range 2 {
		if err := again(h); err != nil {
			t.Fatal(err)
		}
	}
	if got := do(t, r, "HMGET", "k", "1", "\x00") + do(t, r, "SMEMBERS", "buffered"); got != "[10 -2][k]" {
		t.Fatalf("counted again: %s", got)
	}
	if err := l.Again(t.Context(), "8", []byte((&Hash{Key: "other", Reason: "was no hash"}).Element())); err != nil {
		t.Fatal(err)
	}
	if n := do(t, r, "SISMEMBER", "buffered", "other"); n != "1" {
		t.Fatal("a key that was refused is not marked again")
	}
}

// Hashes keep their id; an emptied server gets it again, and one that has
// another is refused.
func TestHashesKeepTheirID(t *testing.T) {
	r := dial(t)
	l, _ := newHashes(t, r)
	same, _ := newHashes(t, r)
	if l.Source() != same.Source() || !strings.HasPrefix(l.Source(), "hashes:buffered@") {
		t.Fatalf("%s and %s", l.Source(), same.Source())
	}
	do(t, r, "FLUSHALL")
	reader := openHashes(t, l, leaseOn(t, r, l.keys.leaseKey()), sluice.Position{Major: 7, Minor: 2})
	count(t, r, "k", "0", 1)
	if some, to := take(t, reader); len(some) != 1 || to != (sluice.Position{Major: 8, Minor: 1}) {
		t.Fatalf("%+v up to %s", some, to)
	}
	if same, _ := newHashes(t, r); l.Source() != same.Source() {
		t.Fatalf("an emptied server has become %s, it was %s", same.Source(), l.Source())
	}
	do(t, r, "HSET", l.keys.stateKey(), "id", "another")
	if _, err := l.Open(t.Context(), leaseOn(t, r, l.keys.leaseKey()), sluice.Position{}); err == nil {
		t.Fatal("another server is drained")
	}
}

// Producers count on while drains happen, on a server that is restarted.
func TestNothingIsLostWhileProducersCount(t *testing.T) {
	server, err := servers.StartRedis(t.Context(), servers.RedisOptions{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Kill() })
	r, err := Dial(t.Context(), server.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	const producers, each = 4, 2000
	var running sync.WaitGroup
	for p := range producers {
		running.Go(func() {
			c := r.client
			for i := range each {
				key := "k" + strconv.Itoa(i%7)
				for _, answer := range c.DoMulti(t.Context(), c.B().Hincrby().Key(key).Field(strconv.Itoa(p)).Increment(1).Build(), c.B().Sadd().Key("buffered").Member(key).Build()) {
					if err := answer.Error(); err != nil {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { running.Wait(); close(done) }() // ends with the producers
	l, lease := newHashes(t, r)
	reader := openHashes(t, l, lease, sluice.Position{})
	sums, drains := map[string]int64{}, 0
	for ended := false; !ended; {
		select {
		case <-done:
			ended = true
		default:
		}
		some, to := take(t, reader)
		add(t, sums, some)
		drains += min(1, len(some))
		reader.Committed(to)
	}
	if err := server.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := server.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the server answers again", func() bool { return r.Ping(t.Context()) == nil })
	some, _ := take(t, reader)
	add(t, sums, some)
	total := int64(0)
	for _, n := range sums {
		total += n
	}
	if total != producers*each || drains < 3 {
		t.Fatalf("%d counted, %d taken in %d drains", producers*each, total, drains)
	}
}

func TestParseHashRefusesOtherTexts(t *testing.T) {
	var h Hash
	for _, s := range []string{"", "h", "y1:k,", "h1:k", "h2:k,", "h1:k,1:f,", "h1:k,1:f,1:", "x1:k,", "x1:k,0:,x", "h-1:k,", "h99999999999999999999:k,", "h1:k,3:abc"} {
		if err := ParseHash(s, &h); !errors.Is(err, errNoHash) {
			t.Errorf("%q is read as %+v, %v", s, h, err)
		}
	}
	for value, want := range map[string]bool{"0": true, "-5": true, "9223372036854775807": true, "9223372036854775808": false, "+1": false, "01": false, "-0": false, "1.0": false, " 1": false, "": false} {
		if _, ok := ParseCount(value); ok != want {
			t.Errorf("%q is a count: %v", value, ok)
		}
	}
}
