package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
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

// Processes counts the processes that live, this one included. It need not be exact if there
// are at most enough.
type Processes func(ctx context.Context, enough int) (int, error)

// Writers returns how many transactions of the store a process is to have under way with
// this database at once. configured says it, unless it is 0: then it is two if there are
// processors for them, and more if the database is far, which a server is asked for. It is
// less where the server does not take the connections of as many in each process: a writer
// that gets none would leave its partitions. short says so then. More than partitions have
// nothing to do.
func (s *Store) Writers(ctx context.Context, configured, partitions int, processes Processes) (many int, short string, err error) {
	near := min(runtime.GOMAXPROCS(0), NearWriters)
	if s.TakesTurns() {
		return min(cmp.Or(configured, near), partitions), "", nil
	}
	conn, err := s.reads.Conn(ctx)
	if err != nil {
		return 0, "", s.failed(err, "reach")
	}
	defer conn.Close()
	wanted, err := writers(ctx, conn, configured, near, partitions)
	if err != nil || configured > 0 || wanted == 1 {
		return wanted, "", s.failed(err, "reach")
	}
	most, _, err := s.d.connections(ctx, conn)
	if err != nil {
		return wanted, "", nil // as a proxy may: the doctor says that it is not known
	}
	living := 1
	if processes != nil {
		enough := (most - spareConns) / connsOf(wanted)
		if living, err = processes(ctx, int(max(0, enough))); err != nil {
			return 0, "", err
		}
	}
	if many = fitting(most, wanted, living); many < wanted {
		short = fmt.Sprintf("the database takes %d connections, and %d writers in each process need %d (processes: %d)", most, wanted, connsNeeded(living, wanted), living)
	}
	return many, short, nil
}

// writers is how many a process has with a server that takes all connections. near is how
// many it has with one that is near.
func writers(ctx context.Context, conn *sql.Conn, configured, near, partitions int) (int, error) {
	if configured > 0 {
		return min(configured, partitions), nil
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
		return min(near, partitions), nil
	}
	return min(farWriters, partitions), nil
}

// fitting is how many writers each process can have on a server of so many connections: as
// many as are wanted, or fewer, and one in any case.
func fitting(most int64, wanted, processes int) int {
	for wanted > 1 && most < connsNeeded(processes, wanted) {
		wanted--
	}
	return wanted
}

// TakesTurns reports whether all that is written goes by one connection, however many
// stores there are: then the writers of a process share one. A second connection to the
// same file would drop what it knows of its pages each time that the other has written.
func (s *Store) TakesTurns() bool { return s.d.name() == "sqlite" }

// connsOf is how many connections a process takes that has so many writers.
func connsOf(writers int) int64 { return connsPerProcess + int64(writers-1)*connsPerWriter }

// connsNeeded is how many connections a server is to take for so many processes.
func connsNeeded(processes, writers int) int64 {
	return int64(processes)*connsOf(writers) + spareConns
}
