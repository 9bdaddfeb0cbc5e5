package sqlstore

import (
	"context"
	"database/sql"
	"runtime"
	"time"
)

// Writers of the store, which ingest/writers.go is about.
const (
	// farRoundTrip is from which time of a round trip on a database is far: the
	// statements of a transaction then wait as long as they work.
	farRoundTrip = 2 * time.Millisecond

	// farWriters is how many transactions a process has under way with one that is far.
	farWriters = 4

	// NearWriters is how many it has with one that is near, if there are processors for
	// them: while one is written, the other reads and changes the users of its next one.
	// SQLite writes one after the other, and more would wait for each other.
	NearWriters = 2

	// writerReadConns is how many connections a writer reads by, beside those of its
	// process: it reads the users of its transaction, one statement after the other.
	// writerSmallConns is how many it notes soft bounces by.
	writerReadConns  = 2
	writerSmallConns = 1

	connsPerWriter = writerReadConns + writerSmallConns + 1

	// roundTrips is how often a round trip is measured: the shortest counts, since a
	// server or a machine that is busy for a moment makes others longer.
	roundTrips = 5
)

// Writers returns how many transactions of the store a process is to have under way with
// this database at once. configured says it, unless it is 0: then it is two if there are
// processors for them, and more if the database is far, which a server is asked for.
func (s *Store) Writers(ctx context.Context, configured int) (int, error) {
	if s.TakesTurns() {
		if configured > 0 {
			return configured, nil
		}
		return min(runtime.GOMAXPROCS(0), NearWriters), nil
	}
	conn, err := s.reads.Conn(ctx)
	if err != nil {
		return 0, s.failed(err, "reach")
	}
	defer conn.Close()
	many, err := writers(ctx, conn, configured)
	return many, s.failed(err, "reach")
}

func writers(ctx context.Context, conn *sql.Conn, configured int) (int, error) {
	if configured > 0 {
		return configured, nil
	}
	var shortest time.Duration
	for i := range roundTrips {
		began := time.Now()
		if err := conn.PingContext(ctx); err != nil {
			return 0, err
		}
		if took := time.Since(began); i == 0 || took < shortest {
			shortest = took
		}
	}
	if shortest < farRoundTrip {
		return min(runtime.GOMAXPROCS(0), NearWriters), nil
	}
	return farWriters, nil
}

// TakesTurns reports whether all that is written goes by one connection, however many
// stores there are: then the writers of a process share one. A second connection to the
// same file would drop what it knows of its pages each time that the other has written.
func (s *Store) TakesTurns() bool { return s.d.name() == "sqlite" }

// connsOf is how many connections a process takes that has so many writers.
func connsOf(writers int) int64 { return connsPerProcess + int64(writers-1)*connsPerWriter }
