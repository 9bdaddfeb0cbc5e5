package sqlstore_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/store/sqlstore"
	"sluice/user"
)

// benchProfiles is how many users the benches below have, in 16 partitions.
const benchProfiles = 1_000_000

// BenchmarkSQLiteProfiles reads profiles of users at random, a hundred of a partition at a
// time, as wake-ups of journeys do, and writes users at random.
func BenchmarkSQLiteProfiles(b *testing.B) {
	s, file := sqliteStore(b)
	row := func(i int, millis int64) user.Row {
		text := fmt.Sprintf(`{"external_id":"%x","created":1760000000000,"fields":{"country":"DE","email":"user%d@example.com"},"custom":{"text":"%s","visits":%d}}`, scattered(i), i, strings.Repeat("x", 270), i%977)
		return user.Row{ID: user.ID{Partition: i % 16, Number: int64(i/16) + 1}, UpdatedMillis: millis, Profile: text}
	}
	major := uint64(0)
	write := func(rows []user.Row) {
		major++
		e := effectTo(major, nil)
		e.Users = &user.Changes{Put: rows}
		must(b, apply(b.Context(), s, e))
	}
	for from := 0; from < benchProfiles; from += benchUsers {
		var rows []user.Row
		for i := from; i < min(from+benchUsers, benchProfiles); i++ {
			rows = append(rows, row(i, 1))
		}
		write(rows)
	}
	db := bypass(b, "sqlite", file)
	size := queryTexts(b, db, "SELECT CAST(page_count * page_size / 1000000.0 AS INTEGER) FROM pragma_page_count, pragma_page_size")[0][0]
	b.Logf("%s bytes a user", size)
	n := 0
	b.Run("read", func(b *testing.B) {
		began, _ := computed(b, 0)
		found := 0
		for b.Loop() {
			numbers := make([]int64, 100)
			for i := range numbers {
				numbers[i] = int64(scattered(n)%(benchProfiles/16)) + 1
				n++
			}
			slices.Sort(numbers)
			must(b, s.ProfilesOf(b.Context(), n/100%16, numbers, func(int64, string) bool { found++; return true }))
		}
		ended, _ := computed(b, 0)
		b.ReportMetric(float64((ended-began).Nanoseconds())/1000/float64(found), "cpu-µs/profile")
		b.ReportMetric(float64(found)/b.Elapsed().Seconds(), "profiles/s")
	})
	b.Run("write", func(b *testing.B) {
		began, _ := computed(b, 0)
		for b.Loop() {
			chosen := make(map[int]bool)
			for len(chosen) < benchUsers {
				chosen[int(scattered(n)%benchProfiles)] = true
				n++
			}
			var rows []user.Row
			for i := range chosen {
				rows = append(rows, row(i, int64(n)))
			}
			write(rows)
		}
		ended, _ := computed(b, 0)
		b.ReportMetric(float64((ended-began).Nanoseconds())/1000/float64(b.N*benchUsers), "cpu-µs/user")
	})
}

// BenchmarkSQLiteUsersByID gives ids to users of schema 36: how long it takes, and how much
// room of the disk at most.
func BenchmarkSQLiteUsersByID(b *testing.B) {
	for range b.N {
		file := filepath.Join(b.TempDir(), "s.db")
		s := open(b, "sqlite:"+file, sqlstore.Options{})
		sqlstore.MigrateTo(b, s, 36)
		exec(b, bypass(b, "sqlite", file), fmt.Sprintf(`WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < %d)
			INSERT INTO users (part, number, updated, to_part, to_number, profile) SELECT i / %d, i %% %d + 1, 1, 0, 0, '{"text":"' || hex(zeroblob(195)) || '"}' FROM n`, benchProfiles-1, benchProfiles/16, benchProfiles/16))
		before, err := os.Stat(file)
		must(b, err)
		began := time.Now()
		own, _ := computed(b, 0)
		must(b, s.Migrate(b.Context()))
		took := time.Since(began)
		ended, _ := computed(b, 0)
		log, err := os.Stat(file + "-wal")
		must(b, err)
		after, err := os.Stat(file)
		must(b, err)
		b.ReportMetric(float64(before.Size())/1e6, "MB-before")
		b.ReportMetric(float64(after.Size())/1e6, "MB-after")
		b.ReportMetric(float64(log.Size())/1e6, "MB-log")
		b.ReportMetric(took.Seconds(), "s")
		b.ReportMetric((ended - own).Seconds(), "cpu-s")
	}
}
