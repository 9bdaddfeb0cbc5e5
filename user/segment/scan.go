package segment

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"sluice"
	"sluice/lib/jsonscan"
	"sluice/user"
	"sluice/user/rule"
)

// Bounds of scans.
const (
	// MaxScans bounds the scans of a process at a time.
	MaxScans = 2

	// parallelReads bounds the connections that all scans together take from
	// those who look up keys and users.
	parallelReads = 2

	firstUsers = 512     // of the first read, while it is not known how large they are
	pageUsers  = 4096    // of one read
	pageBytes  = 4 << 20 // of their profiles, and one more profile

	// matchUsers are matched before it is looked whether anybody still wants it:
	// expressions may take 26 ms for one user.
	matchUsers = 64
)

// Scanner reads all users.
//
// The idea: users are read in pages, each a short query of a partition. So no
// transaction stays open, and no connection is held for long. Of the goroutines
// of a count, two may read at a time; the others match what they have read.
// Partitions are handed out one by one.
//
// A count is of no single moment: a user who changes while it runs is counted
// as they were when their page was read. A user added by then may be missed,
// and nobody is counted twice, as users never move.
//
// Its methods may be called from several goroutines at once.
type Scanner struct {
	users      user.Store
	partitions int
	clock      sluice.Clock
	scans      chan struct{}
	reads      chan struct{}
}

// NewScanner returns one of the users of partitions 0 to partitions-1.
func NewScanner(users user.Store, partitions int, clock sluice.Clock) *Scanner {
	return &Scanner{users: users, partitions: partitions, clock: clock, scans: make(chan struct{}, MaxScans), reads: make(chan struct{}, parallelReads)}
}

// ErrBusy says that MaxScans are being done.
var ErrBusy = &sluice.Error{Code: sluice.CodeUnavailable, Index: -1,
	Message: fmt.Sprintf("all users are being read %d times over, and no more often at a time; ask again", MaxScans)}

func (s *Scanner) begin() (end func(), err error) {
	select {
	case s.scans <- struct{}{}:
		return func() { <-s.scans }, nil
	default:
		return nil, ErrBusy
	}
}

// Counts are what a count has found.
type Counts struct {
	Users  int64   // read
	Unread int64   // of these, with a profile that is none
	Holds  []int64 // for how many each rule holds
}

func (c *Counts) add(other *Counts) {
	c.Users += other.Users
	c.Unread += other.Unread
	for i, n := range other.Holds {
		c.Holds[i] += n
	}
}

// Count counts the users for whom each of the rules holds now, at most
// rule.MaxRules together. The error is ErrBusy, or one of the database or of
// ctx.
func (s *Scanner) Count(ctx context.Context, rules ...*rule.Rule) (Counts, error) {
	all := Counts{Holds: make([]int64, len(rules))}
	set, err := rule.NewSet(rules...)
	if err != nil {
		return all, err
	}
	end, err := s.begin()
	if err != nil {
		return all, err
	}
	defer end()
	workers := make([]counter, min(parallelReads+runtime.GOMAXPROCS(0), s.partitions))
	var next atomic.Int64
	now := s.clock.Now().UnixMilli()
	g, ctx := errgroup.WithContext(ctx)
	for i := range workers {
		w := &workers[i]
		w.page = page{set: set, nowMillis: now, limit: firstUsers}
		w.counts.Holds = make([]int64, len(rules))
		g.Go(func() error {
			for {
				part := int(next.Add(1)) - 1
				if part >= s.partitions {
					return nil
				}
				if err := w.count(ctx, s, part); err != nil {
					return err
				}
			}
		})
	}
	if err := g.Wait(); err != nil {
		return all, fmt.Errorf("count users: %w", err)
	}
	for i := range workers {
		all.add(&workers[i].counts)
	}
	return all, nil
}

// counter is one of the goroutines of a count.
type counter struct {
	page   page
	counts Counts
}

func (c *counter) count(ctx context.Context, s *Scanner, part int) error {
	p := &c.page
	for after := int64(0); ; after = p.last() {
		if err := p.read(ctx, s, part, after); err != nil {
			return err
		}
		unread, err := p.match(ctx, func(_ int, holds uint64) bool {
			for i := 0; holds != 0; i, holds = i+1, holds>>1 {
				c.counts.Holds[i] += int64(holds & 1)
			}
			return true
		})
		if err != nil {
			return err
		}
		c.counts.Users += int64(len(p.texts))
		c.counts.Unread += int64(unread)
		if !p.more {
			return nil
		}
	}
}

// page is what was read at once.
type page struct {
	set       *rule.Set
	nowMillis int64

	numbers []int64
	ids     []uint64
	texts   []string
	holds   [matchUsers]uint64
	more    bool // the partition may have more

	// limit is how many are asked for: about as many as will be taken, for a
	// database sends all that it was asked for.
	limit int
}

// last is the number of the last user, of a page that has one.
func (p *page) last() int64 { return p.numbers[len(p.numbers)-1] }

func (p *page) read(ctx context.Context, s *Scanner, part int, after int64) error {
	select {
	case s.reads <- struct{}{}:
		defer func() { <-s.reads }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	clear(p.texts) // lets go of them while the next are read
	p.numbers, p.ids, p.texts = p.numbers[:0], p.ids[:0], p.texts[:0]
	bytes, limit := 0, p.limit
	err := s.users.EachProfile(ctx, part, after, limit, func(number int64, profile string) bool {
		p.numbers = append(p.numbers, number)
		p.ids = append(p.ids, user.ID{Partition: part, Number: number}.Hash())
		p.texts = append(p.texts, profile)
		bytes += len(profile)
		return bytes < pageBytes
	})
	p.more = len(p.texts) == limit || bytes >= pageBytes
	p.limit = min(2*limit, pageUsers)
	if bytes >= pageBytes {
		p.limit = len(p.texts)
	}
	return err
}

// match calls f with each user's place in the page, and a bit for each rule
// that holds for the user, until f returns false.
func (p *page) match(ctx context.Context, f func(i int, holds uint64) bool) (unread int, err error) {
	for from := 0; from < len(p.texts); from += matchUsers {
		if ctx.Err() != nil {
			return unread, context.Cause(ctx)
		}
		to := min(from+matchUsers, len(p.texts))
		holds := p.holds[:to-from]
		bad, err := p.set.Match(p.texts[from:to], p.ids[from:to], p.nowMillis, holds)
		if err != nil {
			return unread, err
		}
		unread += bad
		for i, h := range holds {
			if !f(from+i, h) {
				return unread, nil
			}
		}
	}
	return unread, nil
}

// Member is a user for whom a rule holds.
type Member struct {
	ID         user.ID
	ExternalID string // empty: the user has none
}

// Members returns at most limit users for whom a rule holds now, in the order
// of their ids, after one. next is where to go on; nil: that was all. It stops
// early when it has read for about as long as patience. Then there may be few
// members or none, and more to come all the same. Errors are those of Count.
func (s *Scanner) Members(ctx context.Context, r *rule.Rule, after user.ID, limit int, patience time.Duration) (members []Member, next *user.ID, err error) {
	set, err := rule.NewSet(r)
	if err != nil {
		return nil, nil, err
	}
	end, err := s.begin()
	if err != nil {
		return nil, nil, err
	}
	defer end()
	started := s.clock.Now()
	p := &page{set: set, nowMillis: started.UnixMilli(), limit: firstUsers}
	stopped := false
	look := func(i int, holds uint64) bool {
		after.Number = p.numbers[i]
		if holds != 0 {
			members = append(members, Member{ID: after, ExternalID: ExternalIDOf(p.texts[i])})
		}
		matched := i%matchUsers == matchUsers-1 || i == len(p.texts)-1 // a page of large profiles has few
		late := matched && s.clock.Now().Sub(started) >= patience
		stopped = late || len(members) == limit
		return !stopped
	}
	for ; after.Partition < s.partitions; after = (user.ID{Partition: after.Partition + 1}) {
		for p.more = true; p.more; {
			if err := p.read(ctx, s, after.Partition, after.Number); err != nil {
				return nil, nil, fmt.Errorf("read members: %w", err)
			}
			if _, err := p.match(ctx, look); err != nil {
				return nil, nil, fmt.Errorf("read members: %w", err)
			}
			if stopped {
				return members, &after, nil
			}
		}
	}
	return members, nil, nil
}

// ExternalIDOf reads it in the text of a profile.
func ExternalIDOf(profile string) string {
	m := jsonscan.Read(profile)
	for m.Next() {
		if m.Key == "external_id" {
			return m.Value.Text()
		}
	}
	return ""
}
