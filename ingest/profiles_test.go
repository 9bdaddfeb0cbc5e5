package ingest

import (
	"slices"
	"testing"
)

// Profiles of a usual size change nothing. Of large ones a transaction has fewer, at once
// and for as long as they are large.
func TestUsersOfATransactionFollowTheirProfiles(t *testing.T) {
	for _, writers := range []int{1, 2} {
		s := &StoreFollower{Writers: writers}
		most := flushUsers / writers
		var got []int
		note := func() { got = append(got, s.usersAtOnce()) }
		note()
		s.weighed(most, most*2048)
		note()
		s.weighed(1, 0) // a new user
		note()
		s.weighed(100, 100*64<<10)
		note()
		s.weighed(10, 10*2048)
		note()
		s.halve(most)
		note()
		s.halve(3) // there were no more
		note()
		s.halve(most)
		note()
		s.weighed(1, 4<<20)
		note()
		s.weighed(1, 1<<30)
		note()
		if want := []int{most, most, most, most / 32, most / 16, most / 32, 1, 1, 2, 1}; !slices.Equal(got, want) {
			t.Errorf("%d writers: %v users at once, want %v", writers, got, want)
		}
	}
}
