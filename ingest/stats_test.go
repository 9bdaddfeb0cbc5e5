package ingest

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"sluice"
	"sluice/flow"
)

// A list waits since its last commit, or since the first element after a quiet
// time. Sessions that read the same again and fail do not change that.
func TestSinceWhenAListWaits(t *testing.T) {
	var s Stats
	at := func(second int) time.Time { return time.Unix(int64(second), 0) }
	to := func(n int) sluice.Position { return sluice.Position{Major: 1, Minor: uint64(n)} }
	want := func(second int) {
		t.Helper()
		if since := s.Lags()[LagKey{Follower: "list:q"}].Since; !since.Equal(at(second)) {
			t.Errorf("it waits since second %d, want %d", since.Unix(), second)
		}
	}
	s.beginList("list:q", at(1))
	want(1)
	s.taking("list:q", at(5))
	s.taken("list:q", to(10))
	want(5)
	s.taking("list:q", at(6)) // another session
	s.taken("list:q", to(8))
	s.taking("list:q", at(7))
	s.taken("list:q", to(20))
	want(5)
	s.setListLag("list:q", to(8), at(6), at(9))
	want(9)
	s.taking("list:q", at(10)) // 20 is not committed yet
	want(9)
	s.setListLag("list:q", to(20), at(7), at(11))
	s.taking("list:q", at(50))
	want(50)
	s.beginList("list:q", at(60)) // another process had the lease
	want(60)
}

// What one writer of the store says of its partitions leaves unchanged what the others
// have said of theirs, and each fails by itself.
func TestWritersSpeakForThemselves(t *testing.T) {
	first, second := &StoreFollower{Writers: 2}, &StoreFollower{Writer: 1, Writers: 2}
	now := time.Unix(1000, 0)
	held := func(p int) map[int]*flow.Lease { return map[int]*flow.Lease{p: {Partition: p}} }
	var s Stats
	broken := &flow.PartitionError{Partition: 1, Err: errors.New("broken")}
	for range failingTimes {
		s.Failed(second.Name(), broken, now)
	}
	s.setStanding(second.Name(), map[int]error{3: errors.New("a gap")})
	s.setMargins(second.Name(), map[int]time.Duration{1: time.Second})

	s.Fine(first.Name())
	s.holds(first.Name(), held(0))
	s.setStanding(first.Name(), nil)
	s.setMargins(first.Name(), map[int]time.Duration{0: time.Minute})
	s.stored(first.Name(), 0, sluice.Position{Major: 1}, 0)
	if got := s.Margins(); len(got) != 2 || got[0] != time.Minute || got[1] != time.Second {
		t.Errorf("margins: %v", got)
	}
	all := s.Followers(now)
	if all[first.Name()] != nil {
		t.Errorf("the first: %v", all[first.Name()])
	}
	for _, want := range []string{"partition 1 stands still", "partition 3 stands still: a gap"} {
		if got := fmt.Sprint(all[second.Name()]); !strings.Contains(got, want) {
			t.Errorf("the second: %s; want %q", got, want)
		}
	}
	s.setStanding(second.Name(), nil)
	s.stored(second.Name(), 1, sluice.Position{Major: 1}, 0)
	s.Fine(second.Name())
	if err := s.Followers(now)[second.Name()]; err != nil {
		t.Errorf("the second, when it gets on: %v", err)
	}
}
