package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"sync"
	"time"

	"sluice"
	"sluice/journey"
	"sluice/lib/doctor"
	"sluice/store"
)

// Options are what Open may be told. The zero value is right for serving a
// MySQL, MariaDB or PostgreSQL database.
type Options struct {
	// Clock is where times come from; nil: the machine's.
	Clock sluice.Clock

	// SessionTimeout is after what silence the server ends the writer's
	// connection, in whole seconds; 0: 2 s. It must be below a lease.
	SessionTimeout time.Duration

	// OpenTimeout bounds how long Open waits for a server that takes connections
	// but does not answer; 0: 20 s.
	OpenTimeout time.Duration

	// ReadConns bounds the connections that read; 0: 4, beside a program that runs 2.
	ReadConns int

	// Beside is the store of the process, if this is one more writer beside it (Writers):
	// it has fewer connections, and knows with it which names are counted by themselves.
	Beside *Store

	// Exclusive takes the lock file beside a SQLite database: for the process
	// that serves. Without it a store may work beside that process.
	Exclusive bool

	// SeriesNames bounds the names of an app that are counted by themselves; 0:
	// store.DefaultSeriesNames.
	SeriesNames int

	// ReadOnly refuses everything that writes.
	ReadOnly bool
}

// Limits of this package.
const (
	defaultSessionTimeout = 2 * time.Second
	defaultReadConns      = 4
	defaultOpenTimeout    = 20 * time.Second // long for a few small questions
	rollbackTimeout       = 2 * time.Second
	migrationLockSeconds  = 60
)

// Store implements store.Store. Its fields are set by Open and not changed
// after, except conn, which belongs to the holder of the token of writing.
type Store struct {
	d       dialect
	options Options
	clock   sluice.Clock
	where   string // what messages call the database; no password
	reads   *sql.DB
	writes  *sql.DB       // one connection
	small   *sql.DB       // for small writes that are not to wait for a large one; nil: there is one writer
	adding  chan struct{} // tokens of what adds up counts for readers: half as many as reads has connections
	writing chan struct{}
	conn    *sql.Conn
	moved   int64        // the same; what moves said before conn was opened
	moves   func() int64 // how often connections were led to another server; nil: there is one
	unlock  func() error

	names   *seriesNames // shared with the other writers of the process, as is counted
	counted *reactionHours

	prepared struct { // of reads
		sync.Mutex
		statements map[string]*sql.Stmt // closed with their connections
	}
}

var _ store.Store = (*Store)(nil)

// Open connects to a database: sqlite:FILE, or
// mysql://USER:PASSWORD@HOST:PORT/DB?PARAMS, or the same with unix(/SOCKET) or
// tcp(HOST:PORT) as the address; mariadb:// means mysql://. Or
// postgres://USER:PASSWORD@HOST:PORT/DB?PARAMS as libpq has it; postgresql://
// means the same. It looks at the
// server and refuses one that cannot be used; it creates no table (Migrate
// does). Its errors never show the password.
func Open(ctx context.Context, url string, options Options) (*Store, error) {
	if options.Clock == nil {
		options.Clock = sluice.SystemClock{}
	}
	if options.SessionTimeout == 0 {
		options.SessionTimeout = defaultSessionTimeout
	}
	if options.SessionTimeout < time.Second || options.SessionTimeout%time.Second != 0 {
		return nil, fmt.Errorf("open database: the session timeout is %s, the server takes whole seconds from 1 s", options.SessionTimeout)
	}
	if options.OpenTimeout <= 0 {
		options.OpenTimeout = defaultOpenTimeout
	}
	if options.SeriesNames <= 0 {
		options.SeriesNames = store.DefaultSeriesNames
	}
	if options.ReadConns <= 0 {
		options.ReadConns = defaultReadConns
		if options.Beside != nil {
			options.ReadConns = writerReadConns
		}
	}
	scheme, rest, err := splitURL(url)
	if err != nil {
		return nil, err
	}
	if scheme == "sqlite" {
		return openSQLite(ctx, rest, options) // no server: a long log may have to be read
	}
	asked, cancel := context.WithTimeout(ctx, options.OpenTimeout)
	defer cancel()
	var s *Store
	if scheme == "postgres" {
		s, err = openPostgres(asked, url, options)
	} else {
		s, err = openMySQL(asked, rest, options)
	}
	if err != nil && asked.Err() != nil && ctx.Err() == nil {
		return nil, fmt.Errorf("%w: it did not answer within %s; is it stopped or overloaded?", err, options.OpenTimeout)
	}
	return s, err
}

func newStore(d dialect, options Options, where string, reads, writes *sql.DB) *Store {
	reads.SetMaxOpenConns(options.ReadConns)
	reads.SetMaxIdleConns(options.ReadConns)
	reads.SetConnMaxIdleTime(30 * time.Second)
	writes.SetMaxOpenConns(1)
	s := &Store{d: d, options: options, clock: options.Clock, where: where, reads: reads, writes: writes, writing: make(chan struct{}, 1),
		adding: make(chan struct{}, max(1, options.ReadConns/2))}
	if first := options.Beside; first != nil {
		s.names, s.counted = first.names, first.counted
	} else {
		s.names, s.counted = &seriesNames{most: options.SeriesNames}, &reactionHours{}
	}
	return s
}

// Close ends the connections and the lock. A transaction under way in another
// goroutine is waited for.
func (s *Store) Close() error {
	s.writing <- struct{}{}
	s.dropConn()
	// What was committed is durable, so an error of a closing connection (the
	// server may have closed it first) says nothing that matters.
	_, _ = s.writes.Close(), s.reads.Close()
	if s.small != nil {
		_ = s.small.Close()
	}
	var err error
	if s.unlock != nil {
		err = s.unlock()
		s.unlock = nil
	}
	<-s.writing
	return s.failed(err, "close")
}

// txn is a transaction under way on the writer's connection.
type txn struct {
	store *Store
	conn  *sql.Conn

	// inserted has the places of the events that it has inserted; nil: all of its effect.
	inserted map[sluice.Place]struct{}

	// mailFacts are facts of mail that it is still to write, with those of its effect.
	mailFacts []journey.Fact
}

// exec runs a named statement.
func (t *txn) exec(ctx context.Context, name string, args ...any) error {
	_, err := t.conn.ExecContext(ctx, query(t.store.d, name), args...)
	return err
}

// execEach runs named statements with the same arguments, up to one that fails.
func (t *txn) execEach(ctx context.Context, names []string, args ...any) error {
	for _, name := range names {
		if err := t.exec(ctx, name, args...); err != nil {
			return err
		}
	}
	return nil
}

// changed runs a named statement and returns how many rows it changed.
func (t *txn) changed(ctx context.Context, name string, args ...any) (int, error) {
	return t.changes(ctx, query(t.store.d, name), args...)
}

// changed is txn.changed in a transaction of its own.
func (s *Store) changed(ctx context.Context, name string, args ...any) (n int, err error) {
	err = s.write(ctx, func(tx *txn) error {
		n, err = tx.changed(ctx, name, args...)
		return err
	})
	return n, err
}

func (t *txn) changes(ctx context.Context, statement string, args ...any) (int, error) {
	result, err := t.conn.ExecContext(ctx, statement, args...)
	if err != nil {
		return 0, err
	}
	n, err := result.RowsAffected()
	return int(n), err
}

// write runs fn in a transaction on the writer's connection. Nothing has been
// written if fn failed; an error of the COMMIT leaves that open.
func (s *Store) write(ctx context.Context, fn func(*txn) error) error {
	if s.options.ReadOnly {
		return fmt.Errorf("it was opened read-only")
	}
	select {
	case s.writing <- struct{}{}:
		defer func() { <-s.writing }()
	case <-ctx.Done():
		return fmt.Errorf("wait for the writing connection: %w", context.Cause(ctx))
	}
	if err := s.beginWrite(ctx); err != nil {
		return fmt.Errorf("begin transaction: %w", err)
	}
	t := &txn{store: s, conn: s.conn}
	err := fn(t)
	if err != nil && IsAway(err) {
		s.dropConn() // the next one may lead to another server
		return err
	}
	if err != nil {
		s.rollback(ctx)
		return err
	}
	if err := s.d.commit(ctx, s.conn); err != nil {
		s.rollback(ctx)
		if !rolledBack(err) {
			// Spider names a transaction after its connection, and a name that was left
			// half-way is refused for ever.
			s.dropConn()
		}
		return fmt.Errorf("commit: %w", err)
	}
	return nil
}

// beginWrite begins a transaction. The server may have closed an idle
// connection, which shows only when it is used. So a BEGIN that fails on an old
// connection is tried once more on a new one. Later statements never are.
//
// A connection to a server that other connections have left is left as well. They are
// counted before it is opened: one that goes to another server itself is opened once more.
func (s *Store) beginWrite(ctx context.Context) error {
	if s.conn != nil && s.moves != nil && s.moves() != s.moved {
		s.dropConn()
	}
	if s.conn != nil {
		if _, err := s.conn.ExecContext(ctx, s.d.begin()); err == nil {
			return nil
		}
		s.dropConn()
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	if s.moves != nil {
		s.moved = s.moves()
	}
	conn, err := s.writes.Conn(ctx)
	if err != nil {
		return err
	}
	s.conn = conn
	if _, err := conn.ExecContext(ctx, s.d.begin()); err != nil {
		s.dropConn()
		return err
	}
	return nil
}

// rollback ends a failed transaction, by ending its connection if need be.
func (s *Store) rollback(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
	defer cancel()
	if _, err := s.conn.ExecContext(ctx, "ROLLBACK"); err != nil {
		s.dropConn()
	}
}

// dropConn closes the writer's connection for good, instead of giving it back
// to the pool with a transaction still open on it.
func (s *Store) dropConn() {
	if s.conn == nil {
		return
	}
	s.d.forget()
	discard(s.conn)
	s.conn = nil
}

func (s *Store) now() any { return s.d.millis(s.clock.Now().UnixMilli()) }

// TakeLease raises the lease numbers of a role's partitions, in ascending
// order so that two processes never wait for each other in a circle.
func (s *Store) TakeLease(ctx context.Context, role string, partitions []int) (map[int]uint64, error) {
	parts := slices.Sorted(slices.Values(partitions))
	numbers := make(map[int]uint64, len(parts))
	// A newer program may have migrated meanwhile. This is rare enough to look.
	if err := s.Ping(ctx); err != nil {
		return nil, fmt.Errorf("take lease %q: %w", role, err)
	}
	err := s.writeSmall(ctx, func(tx *txn) error {
		for _, part := range slices.Compact(parts) {
			if err := tx.exec(ctx, "lease_raise", role, part, s.now()); err != nil {
				return err
			}
			var number uint64
			if err := tx.conn.QueryRowContext(ctx, query(s.d, "lease_get"), role, part).Scan(&number); err != nil {
				return err
			}
			numbers[part] = number
		}
		return nil
	})
	return numbers, s.failed(err, "take lease %q in", role)
}

// Cursors returns a follower's positions and creates what is missing. It looks
// before it writes, so that it does not wait for the locks of a transaction.
func (s *Store) Cursors(ctx context.Context, follower string, partitions []int) (map[int]sluice.Position, error) {
	found, err := s.readCursors(ctx, follower)
	if err != nil {
		return nil, s.failed(err, "read cursors of %q in", follower)
	}
	wanted := make(map[int]sluice.Position, len(partitions))
	var missing []int
	for _, part := range partitions {
		position, ok := found[part]
		if !ok {
			missing = append(missing, part)
		}
		wanted[part] = position
	}
	if len(missing) == 0 {
		return wanted, nil
	}
	slices.Sort(missing)
	err = s.write(ctx, func(tx *txn) error {
		for _, part := range slices.Compact(missing) {
			if err := tx.exec(ctx, "cursor_create", follower, part, s.now()); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, s.failed(err, "create cursors of %q in", follower)
	}
	if found, err = s.readCursors(ctx, follower); err != nil {
		return nil, s.failed(err, "read cursors of %q in", follower)
	}
	for part := range wanted {
		wanted[part] = found[part]
	}
	return wanted, nil
}

// maxAllCursors bounds what AllCursors returns: there are as many as partitions,
// lists and hashes.
const maxAllCursors = 10_000

// AllCursors returns where all followers stand, and writes nothing.
func (s *Store) AllCursors(ctx context.Context) ([]doctor.Cursor, error) {
	all, err := list(ctx, s.d, s.reads, func(scan scanner, c *doctor.Cursor) error {
		return scan(&c.Follower, &c.Partition, (*number)(&c.Position.Major), (*number)(&c.Position.Minor), s.instant(&c.UpdatedMillis))
	}, rawQuery(s.d, "cursors_all"), maxAllCursors)
	return all, s.failed(err, "read all cursors in")
}

func (s *Store) readCursors(ctx context.Context, follower string) (map[int]sluice.Position, error) {
	cursors := map[int]sluice.Position{}
	err := s.each(ctx, rawQuery(s.d, "cursors_get"), []any{follower}, func(scan scanner) error {
		var part int
		var position sluice.Position
		err := scan(&part, (*number)(&position.Major), (*number)(&position.Minor))
		cursors[part] = position
		return err
	})
	return cursors, err
}

// number scans an unsigned number, which SQLite keeps in a signed one.
type number uint64

// Scan implements sql.Scanner.
func (n *number) Scan(v any) error {
	switch v := v.(type) {
	case int64:
		*n = number(v)
		return nil
	case uint64:
		*n = number(v)
		return nil
	}
	var u sql.Null[uint64]
	if err := u.Scan(v); err != nil {
		return err
	}
	*n = number(u.V)
	return nil
}
