package ingest

import (
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"sluice"
	"sluice/lib/meter"
	"sluice/store"
)

// Bounds of what is counted by name: beyond it, names are counted together.
const maxCountedNames = 200

// Stats counts what this process has done since it started. All methods may
// be called from several goroutines at once; the zero Stats is ready.
type Stats struct {
	Accepted   atomic.Int64 // items routed to the logs, rows taken for tables
	Stored     atomic.Int64 // rows committed
	Duplicates atomic.Int64 // items left out because their id was there
	Dead       atomic.Int64 // dead letters committed
	Replayed   atomic.Int64 // of these, and of those of before: replayed here
	Conflicts  atomic.Int64 // transactions refused by a cursor
	Refused    atomic.Int64 // transactions repeated piece by piece

	Updates      atomic.Int64 // updates of users committed, those of nobody included
	Ignored      atomic.Int64 // of these, those of nobody
	UsersWritten atomic.Int64

	// Stages of a transaction. What applying it took is Commit.
	Read    meter.Seconds // gathering it, from its first item on
	Encode  meter.Seconds
	Resolve meter.Seconds // reading and changing users
	Commit  meter.Seconds // in the database
	Trim    meter.Seconds // of the logs, after it

	CommitRows meter.Sizes // rows, repeats and dead letters of a transaction

	mu       sync.Mutex
	names    map[string]int64
	lags     map[LagKey]Lag
	failures map[string]Failure
	stuck    map[LagKey]Failure               // of single partitions
	standing map[string]map[int]error         // by writer
	margins  map[string]map[int]time.Duration // by writer
	kept     map[string]time.Duration         // of lists
}

// LagKey names a follower's place.
type LagKey struct {
	Follower  string
	Partition int
}

// Lag is where a follower's place was after its last commit, and how far behind.
type Lag struct {
	Position sluice.Position
	Seconds  float64

	// Of a list only. While elements of it are held, it is behind by the time
	// since Since. Since is the last commit. After a quiet time it is when the
	// first element was read, and before both, when this process began to
	// follow.
	Since time.Time

	reading bool            // something was read that is not committed
	taken   sluice.Position // up to where it was read
}

func (s *Stats) countNames(names map[string]int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.names == nil {
		s.names = make(map[string]int64)
	}
	for name, n := range names {
		if _, ok := s.names[name]; !ok && len(s.names) >= maxCountedNames {
			name = "(others)"
		}
		if _, ok := s.names[name]; !ok {
			name = strings.Clone(name) // it may share the memory of a batch
		}
		s.names[name] += n
	}
}

// countUsers counts what a transaction has done to users.
func (s *Stats) countUsers(u *storeUnit) {
	s.Updates.Add(int64(u.many - u.counted))
	s.Ignored.Add(int64(u.ignored))
	if u.effect.Users != nil {
		s.UsersWritten.Add(int64(len(u.effect.Users.Put)))
	}
}

// committed counts a transaction.
func (s *Stats) committed(done store.Applied, took time.Duration) {
	s.Commit.Observe(took)
	s.CommitRows.Observe(done.Rows + done.Duplicates + done.Dead)
	s.Stored.Add(int64(done.Rows))
	s.Duplicates.Add(int64(done.Duplicates))
	s.Dead.Add(int64(done.Dead))
}

func (s *Stats) setLag(follower string, partition int, position sluice.Position, behind time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lags == nil {
		s.lags = make(map[LagKey]Lag)
	}
	s.lags[LagKey{follower, partition}] = Lag{Position: position, Seconds: max(0, behind.Seconds())}
}

// stored is setLag of a writer of the store, whose partition gets on with that.
func (s *Stats) stored(writer string, partition int, position sluice.Position, behind time.Duration) {
	s.setLag(StoreRole, partition, position, behind)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.stuck, LagKey{writer, partition})
}

// beginList notes that a list is followed from now on.
func (s *Stats) beginList(follower string, now time.Time) {
	s.changeLag(follower, func(l *Lag) { *l = Lag{Since: now} })
}

// taking notes that a list's follower reads; taken, up to where.
func (s *Stats) taking(follower string, now time.Time) {
	s.changeLag(follower, func(l *Lag) {
		if !l.reading {
			l.reading, l.Since = true, now
		}
	})
}

func (s *Stats) taken(follower string, to sluice.Position) {
	s.changeLag(follower, func(l *Lag) { l.taken = to })
}

// setListLag notes a commit of a list's follower: up to where, and when its
// first element was read.
func (s *Stats) setListLag(follower string, to sluice.Position, taken, now time.Time) {
	s.changeLag(follower, func(l *Lag) {
		l.Position, l.Seconds, l.Since = to, max(0, now.Sub(taken).Seconds()), now
		l.reading = to.Before(l.taken)
	})
}

func (s *Stats) changeLag(follower string, change func(*Lag)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lags == nil {
		s.lags = make(map[LagKey]Lag)
	}
	key := LagKey{Follower: follower}
	lag := s.lags[key]
	change(&lag)
	s.lags[key] = lag
}

// Names returns how many events were stored by name.
func (s *Stats) Names() map[string]int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.names)
}

// setMargins notes how long back the logs of a writer keep what is applied, by partition.
func (s *Stats) setMargins(writer string, covers map[int]time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.margins == nil {
		s.margins = make(map[string]map[int]time.Duration)
	}
	s.margins[writer] = covers
}

// Margins returns, for each partition that this process stores, how long back
// its log keeps applied entries. So far the database may go back without a gap.
func (s *Stats) Margins() map[int]time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make(map[int]time.Duration)
	for _, covers := range s.margins {
		maps.Copy(all, covers)
	}
	return all
}

// setListMargin notes how long back a list keeps what is applied; below 0: it is
// not followed here any more.
func (s *Stats) setListMargin(list string, covers time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if covers < 0 {
		delete(s.kept, list)
		return
	}
	if s.kept == nil {
		s.kept = make(map[string]time.Duration)
	}
	s.kept[list] = covers
}

// ListMargins returns, for each list or hashes that this process stores in
// tables, how long back it keeps applied elements. So far the database may go
// back without a gap.
func (s *Stats) ListMargins() map[string]time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.kept)
}

// Lags returns how far each place was behind at its last commit.
func (s *Stats) Lags() map[LagKey]Lag {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.lags)
}
