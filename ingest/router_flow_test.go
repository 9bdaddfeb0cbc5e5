package ingest_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"sluice/flow"
	"sluice/lib/faults"
)

func eventList(dedupe string) listSetup { return listSetup{name: "q", dedupe: dedupe} }

// timeMillis selects an event's time in ms.
func (b *bed) timeMillis() string {
	if b.dialect == "mariadb" {
		return "CAST(ROUND(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', time) / 1000) AS SIGNED)"
	}
	return "time"
}

func TestEventsNormalised(t *testing.T) {
	onEach(t, func(b *bed) {
		elements := []string{
			`{"event":"open","email":"A@EXAMPLE.com","time":1700000000,"user_id":"u1","message_id":"m1","ip":"1.2.3.4","n": 9007199254740993}`,
			`{"type":"Hard Bounce","recipient":"b@x.org","timestamp":1700000001123,"app_id":"two","big":123456789012345678901234567890}`,
			`{"event_name":"cart filled","ts":"2026-01-02T03:04:05.678+01:00","external_id":17,"a":{"b":[1,null]}}`,
			`{"event":"spam","time":"1700000004","x":"a\u0000b\n"}`,
			`{"name":"opened by a pupil","time":253402300799999}`,
		}
		b.push("q", elements...)
		l := eventList("")
		l.app = "shop"
		e := start(b, setup{lists: []listSetup{l}})
		b.awaitSum("events", len(elements))
		e.stop()
		b.checkCounts("events", len(elements), 0)
		got := b.query("SELECT kind, name, app_id, email, user_ref, message_ref, properties, " + b.timeMillis() + " FROM events ORDER BY time")
		n := "<null>"
		want := []string{
			`mail|opened|shop|A@example.com|u1|m1|{"ip":"1.2.3.4","n": 9007199254740993}|1700000000000`,
			`mail|bounced|two|b@x.org|` + n + `|` + n + `|{"type":"Hard Bounce","big":123456789012345678901234567890}|1700000001123`,
			`mail|complained|shop|` + n + `|` + n + `|` + n + `|{"x":"a\u0000b\n"}|1700000004000`,
			`custom|cart filled|shop|` + n + `|17|` + n + `|{"a":{"b":[1,null]}}|1767319445678`,
			`custom|opened by a pupil|shop|` + n + `|` + n + `|` + n + `|` + n + `|253402300799999`,
		}
		for i := range want {
			if i >= len(got) || got[i] != want[i] {
				b.Errorf("event %d:\n got %q\nwant %q", i, got[i], want[i])
			}
		}
	})
}

// All events of one user are in one partition, in the order of the list.
func TestEventsOfAUserKeepTheirOrder(t *testing.T) {
	const users, each = 50, 100
	for _, side := range []flow.Side{flow.Left, flow.Right} {
		t.Run(string(side), func(t *testing.T) {
			onEach(t, func(b *bed) {
				l := eventList("")
				l.side = side
				e := start(b, setup{lists: []listSetup{l}})
				for i := range each {
					var some []string
					for u := range users {
						some = append(some, fmt.Sprintf(`{"event":"open","user_id":"user %d","time":1700000000,"i":%d}`, u, i))
					}
					b.pushBy(map[flow.Side]string{flow.Left: "RPUSH", flow.Right: "LPUSH"}[side], "q", some...)
				}
				b.awaitSum("events", users*each)
				e.stop()
				b.checkCounts("events", users*each, 0)
				parts := map[string]string{}
				next := map[string]int{}
				used := map[string]bool{}
				for _, row := range b.query("SELECT part, user_ref, properties FROM events ORDER BY part, pos_major, pos_minor, item") {
					f := strings.SplitN(row, "|", 3)
					if p, ok := parts[f[1]]; ok && p != f[0] {
						b.Fatalf("%s is in partitions %s and %s", f[1], p, f[0])
					}
					parts[f[1]], used[f[0]] = f[0], true
					if want := fmt.Sprintf(`{"i":%d}`, next[f[1]]); f[2] != want {
						b.Fatalf("%s: %s, want %s next", f[1], f[2], want)
					}
					next[f[1]]++
				}
				if len(used) != testPartitions {
					b.Fatalf("only %d partitions are used", len(used))
				}
			})
		})
	}
}

func TestEventsBuryWhatIsBad(t *testing.T) {
	onEach(t, func(b *bed) {
		long := strings.Repeat("x", 10_000)
		bad := append(badAnyway(),
			badElement{"no name", `{"time":1700000000}`, "name is missing"},
			badElement{"name of 10,000", `{"event":"` + long + `","time":1700000000}`, "name too long"},
			badElement{"name of 10,000, many bytes", `{"event":"` + strings.Repeat("ü", 10_000) + `","time":1700000000}`, "name too long"},
			badElement{"NUL in a name", `{"event":"a\u0000b","time":1700000000}`, "name contains a NUL"},
			badElement{"year 99999", `{"event":"open","time":"99999-01-01T00:00:00Z"}`, "time out of range"},
			badElement{"year 99999 in s", `{"event":"open","time":-5}`, "time out of range"},
			badElement{"no time", `{"event":"open","time":"soon"}`, "time not understood"},
			badElement{"time of another type", `{"event":"open","time":{"at":1}}`, "time not understood"},
			badElement{"long user", `{"event":"open","time":1,"user_id":"` + long + `"}`, "user too long"},
			badElement{"long email", `{"event":"open","time":1,"email":"` + long + `"}`, "email too long"},
		)
		elements, goods := among(bad, func(i int) string {
			return fmt.Sprintf(`{"event":"open","time":1700000000,"user_id":"u","i":%d}`, i)
		})
		b.push("q", elements...)
		e := start(b, setup{lists: []listSetup{eventList("")}})
		b.awaitSum("events", len(elements))
		checkLetters(b, e.store, "list:q", bad)
		e.stop()
		b.checkCounts("events", goods, len(bad))
		for i, row := range b.query("SELECT properties FROM events ORDER BY pos_major, pos_minor, item") {
			if row != fmt.Sprintf(`{"i":%d}`, i) {
				b.Fatalf("good element %d: %s", i, row)
			}
		}
		if held := b.do("KEYS", "*:held:*"); len(held.([]any)) != 0 {
			b.Fatalf("held chunks left behind: %v", held)
		}
	})
}

func TestEventsFloodOfBadElements(t *testing.T) {
	onEach(t, func(b *bed) {
		b.push("q", flood(func(i int) string { return fmt.Sprintf(`{"event":"open","time":1700000000,"user_id":%d}`, i) })...)
		e := start(b, setup{lists: []listSetup{eventList("")}})
		b.awaitSum("events", 2*floodSize)
		e.stop()
		b.checkCounts("events", floodSize, floodSize)
	})
}

func TestEventsDedupe(t *testing.T) {
	onEach(t, func(b *bed) {
		s := setup{lists: []listSetup{eventList("id")}}
		one := `{"event":"open","time":1700000000,"id":"a","user_id":"u"}`
		later := `{"event":"open","time":1700000001,"id":"a","user_id":"u"}`
		upper := `{"event":"open","time":1700000000,"id":"A","user_id":"u"}`
		e := start(b, s)
		b.push("q", one, one, later, upper, `{"event":"open","time":1700000000,"user_id":"u"}`, `{"event":"open","id":"b","user_id":"u"}`)
		b.awaitSum("events", 5)
		b.push("q", one, `{"event":"click","time":1700000002,"id":7}`, `{"event":"click","time":1700000002,"id":"7"}`)
		b.awaitSum("events", 6)
		b.eventually("the repeats are counted", func() bool { return e.stats.Duplicates.Load() == 3 })
		e.stop()
		b.push("q", later, `{"event":"open","time":1700000009,"id":"z"}`) // across a restart
		e = start(b, s)
		b.awaitSum("events", 7)
		b.eventually("the repeat is counted", func() bool { return e.stats.Duplicates.Load() == 1 })
		e.stop()
		b.checkCounts("events", 5, 2)
		reasons := strings.Join(b.query("SELECT reason FROM dead_letters ORDER BY reason"), "; ")
		if !strings.Contains(reasons, "dedupe field id is missing") || !strings.Contains(reasons, "time is missing") {
			b.Fatalf("reasons: %s", reasons)
		}
		ids := b.query("SELECT event_id, " + b.timeMillis() + " FROM events")
		slices.Sort(ids)
		if want := []string{"7|1700000002000", "A|1700000000000", "a|1700000000000", "a|1700000001000", "z|1700000009000"}; !slices.Equal(ids, want) {
			b.Fatalf("events %v, want %v", ids, want)
		}
	})
}

func TestEventsWithoutDedupeAreAllStored(t *testing.T) {
	onEach(t, func(b *bed) {
		one := `{"event":"open","time":1700000000,"id":"a","user_id":"u"}`
		b.push("q", one, one, one)
		e := start(b, setup{lists: []listSetup{eventList("")}})
		b.awaitSum("events", 3)
		b.push("q", one)
		b.awaitSum("events", 4)
		e.stop()
		b.checkCounts("events", 4, 0)
	})
}

// While no store follower runs, the router fills the logs to their bound and no
// further. Unrouted elements stay in the list or its held chunks.
func TestEventsBackPressure(t *testing.T) {
	const n, bound = 4_500, 64 // as few as fill the log: they are large
	onEach(t, func(b *bed) {
		text := strings.Repeat("x", 10_000)
		elements := make([]string, n)
		for i := range elements {
			elements[i] = fmt.Sprintf(`{"event":"open","time":1700000000,"user_id":"%d","text":%q}`, i, text)
		}
		b.push("q", elements...)
		s := setup{lists: []listSetup{eventList("")}, partitions: 1, noStore: true}
		intake := start(b, s)
		b.eventually("the router waits", func() bool {
			k, err := intake.logs[0].Entries(b.Context())
			b.must(err)
			return k >= bound
		})
		b.push("q", elements[0])
		intake.abort()
		if k := b.doInt("XLEN", b.logKey(0)); k != bound {
			b.Fatalf("the log has %d entries, want it to stop at %d", k, bound)
		}
		if held := b.doInt("LLEN", "q") + heldElements(b); held < n/4 {
			b.Fatalf("only %d elements are still in the list", held)
		}
		s.noStore = false
		e := start(b, s)
		b.awaitSum("events", n+1)
		e.stop()
		b.checkCounts("events", n+1, 0)
	})
}

func heldElements(b *bed) int64 {
	b.Helper()
	n := int64(0)
	for _, key := range b.do("KEYS", "*:held:*").([]any) {
		n += b.doInt("LLEN", key.(string))
	}
	return n
}

// The program is stopped under load, again and again. An element that was taken
// and not applied is applied once by the next run, whether the stop was clean
// or not.
func TestStopUnderLoad(t *testing.T) {
	const rounds, each = 6, 3000
	onEach(t, func(b *bed) {
		makeTarget(b)
		table := tableList("")
		table.name = "rows"
		s := setup{lists: []listSetup{eventList(""), table}}
		for round := range rounds {
			e := start(b, s)
			var events, rows []string
			for i := range each {
				events = append(events, fmt.Sprintf(`{"event":"open","time":1700000000,"user_id":"%d","i":%d}`, i%100, round*each+i))
				rows = append(rows, fmt.Sprintf(`{"id":%d}`, round*each+i))
			}
			b.push("q", events...)
			b.push("rows", rows...)
			b.eventually("the work has begun", func() bool { return e.stats.Stored.Load() > 0 })
			if round%2 == 0 {
				e.stop()
				if e.log.has("stopped in the middle") {
					b.Fatal("a stop in two phases ended in the middle of the work")
				}
			} else {
				e.abort()
			}
		}
		e := start(b, s)
		b.awaitSum("events", rounds*each)
		b.awaitSum("target", rounds*each)
		e.stop()
		b.checkCounts("events", rounds*each, 0)
		b.checkCounts("target", rounds*each, 0)
		for i, id := range b.query("SELECT id FROM target ORDER BY seq") {
			if id != strconv.Itoa(i) {
				b.Fatalf("row %d holds element %s", i, id)
			}
		}
		if got := b.query("SELECT COUNT(DISTINCT properties) FROM events"); got[0] != strconv.Itoa(rounds*each) {
			b.Fatalf("%s different events, want %d", got[0], rounds*each)
		}
	})
}

// What is read stays in Redis until it is applied.
func TestNothingIsDroppedBeforeItIsApplied(t *testing.T) {
	for _, way := range []struct{ name, point string }{{"q", "append"}, {"rows", "load"}} {
		t.Run(way.point, func(t *testing.T) {
			onEachAlone(t, func(b *bed) {
				makeTarget(b)
				rows := tableList("")
				rows.name = "rows"
				file := filepath.Join(t.TempDir(), "go on")
				disarm, err := faults.Arm(way.point + "=pause:" + file)
				b.must(err)
				defer disarm()
				e := start(b, setup{lists: []listSetup{eventList(""), rows}})
				element := `{"event":"e","time":1700000000,"id":1}`
				b.push(way.name, element, element)
				b.eventually("it is about to be applied", func() bool { _, err := os.Stat(file + ".reached"); return err == nil })
				b.push(way.name, element)
				b.eventually("the reader has gone on", func() bool { return b.doInt("LLEN", way.name) == 0 })
				if n := heldElements(b); n != 3 {
					b.Errorf("%d elements are held, want all 3: none is applied", n)
				}
				b.must(os.WriteFile(file, nil, 0o600))
				table := map[string]string{"q": "events", "rows": "target"}[way.name]
				b.awaitSum(table, 3)
				e.stop()
				b.checkCounts(table, 3, 0)
			})
		})
	}
}
