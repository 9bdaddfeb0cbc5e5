package flow

import (
	"strconv"
	"strings"
	"testing"

	"sluice"
	"sluice/test/servers"
)

// BenchmarkDrain is what draining costs Redis, by the field: of hashes of one
// hour, of a day, and of one hash of very many fields.
func BenchmarkDrain(b *testing.B) {
	for _, fields := range []int{1, 24, 100_000} {
		b.Run(strconv.Itoa(fields), func(b *testing.B) {
			server, err := servers.StartRedis(b.Context(), servers.RedisOptions{Dir: b.TempDir(), AppendFsync: "no"})
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { _ = server.Kill() })
			r, err := Dial(b.Context(), server.URL())
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(r.Close)
			run := func(words ...string) {
				if err := r.client.Do(b.Context(), r.client.B().Arbitrary(words...).Build()).Error(); err != nil {
					b.Fatal(err)
				}
			}
			total, calls := 0, 0
			for b.Loop() {
				b.StopTimer()
				run("FLUSHALL")
				l, err := NewHashes(b.Context(), r, "buffered")
				if err != nil {
					b.Fatal(err)
				}
				run("HSET", l.keys.leaseKey(), "token", "t")
				for n := 0; n < 100_000; n += fields {
					key := "app|2026-01-31|name " + strconv.Itoa(n)
					for from := 0; from < fields; from += 1000 {
						words := []string{"HSET", key}
						for f := range min(1000, fields-from) {
							words = append(words, strconv.Itoa(from+f), "12345")
						}
						run(words...)
					}
					run("SADD", "buffered", key)
				}
				reader, err := l.Open(b.Context(), &Lease{key: l.keys.leaseKey(), token: "t"}, sluice.Position{})
				if err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
				for {
					held, err := reader.hold(b.Context())
					if err != nil {
						b.Fatal(err)
					}
					if !held {
						break
					}
					reader.first = reader.last + 1 // nothing is read here
					reader.chunk = reader.last + 1
					calls++
				}
				total += 100_000
			}
			info, err := r.Info(b.Context(), "commandstats")
			if err != nil {
				b.Fatal(err)
			}
			// "calls=400,usec=...,usec_per_call=...,...": Redis's own time.
			_, perCall, _ := strings.Cut(info["cmdstat_evalsha"], "usec_per_call=")
			perCall, _, _ = strings.Cut(perCall, ",")
			micros, err := strconv.ParseFloat(perCall, 64)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(micros*float64(calls)*1000/float64(total), "ns/field")
			b.ReportMetric(micros, "µs/call")
		})
	}
}
