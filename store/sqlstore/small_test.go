package sqlstore_test

import (
	"context"
	"testing"
	"time"

	"sluice/mail"
	"sluice/store"
	"sluice/store/sqlstore"
	"sluice/user"
)

// TestSmallWritesDoNotWait: lease numbers, keys and the like are written while a
// transaction is under way on the writing connection, as a bulk load is.
func TestSmallWritesDoNotWait(t *testing.T) {
	for name, url := range map[string]string{"mariadb": mariadb.SocketURL(newDatabase(t)), "postgres": postgres.SocketURL(newPostgresDatabase(t))} {
		t.Run(name, func(t *testing.T) {
			s := migrated(t, url, sqlstore.Options{})
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			sqlstore.WhileWriting(t, s, "store", func() {
				numbers, err := s.TakeLease(ctx, "store", []int{0, 1})
				must(t, err)
				if numbers[0] != 1 || numbers[1] != 1 {
					t.Errorf("lease numbers %v", numbers)
				}
				must(t, s.AddKey(ctx, store.APIKey{ID: "k", Name: "k", Hash: []byte("h"), CreatedMillis: 1}))
				_, err = s.Secret(ctx, "secret", []byte("fresh"))
				must(t, err)
				must(t, s.AddSegment(ctx, user.Segment{ID: "g", Name: "g", Definition: "{}", CreatedMillis: 1, UpdatedMillis: 1}))
				must(t, s.AddSchedule(ctx, mail.Schedule{ID: "c", State: mail.ScheduleWaiting, Request: "{}", DueMillis: 1, CreatedMillis: 1, UpdatedMillis: 1}))
				must(t, s.Reach(ctx))
			})
		})
	}
}

// TestIdleConnectionsAreReplaced: the server has closed those of small writes and of reads
// while they were idle, and within the time for which one is not asked (quietFor).
func TestIdleConnectionsAreReplaced(t *testing.T) {
	database := newPostgresDatabase(t)
	s := migrated(t, postgres.SocketURL(database), sqlstore.Options{})
	for n := uint64(1); n <= 3; n++ {
		numbers, err := s.TakeLease(t.Context(), "store", []int{0})
		must(t, err)
		if numbers[0] != n {
			t.Errorf("lease number %d, want %d", numbers[0], n)
		}
		_, err = s.Cursors(t.Context(), "store", []int{0})
		must(t, err)
		queryTexts(t, bypass(t, "pgx", postgres.SocketURL(database)), "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname = current_database()")
	}
}
