package ingest

import (
	"testing"
	"time"

	"sluice"
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
