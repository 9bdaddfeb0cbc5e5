package ingest

import (
	"errors"

	"sluice/user"
)

// How many users a transaction names, by how large their profiles are.
//
// The idea. The users of a transaction are in memory together: as they were read, as they
// will be written, and encoded. A profile may have 4 MiB. So how many users the next
// transaction may name follows from the profiles of the last one: they are to come to
// flushProfiles. That is a guess. Where it is wrong by far, the reading ends at
// mostProfiles, and the session with it. The next session gathers half as many users. After
// each success there may be twice as many.
//
// The bound. A cursor stands between batches, so all users whom one batch names are read,
// whatever their profiles take: of up to sluice.MaxBatchItems items, and those who share
// an address with others.
const (
	flushProfiles = flushUsers * 2048 // profiles of 2 KB, which are large, change nothing
	mostProfiles  = 2 * flushProfiles
)

// usersAtOnce is how many users a transaction may name, by their keys.
func (s *StoreFollower) usersAtOnce() int {
	most := s.flush(flushUsers)
	if fewer := int(s.fewer.Load()); fewer > 0 {
		return min(fewer, most)
	}
	return most
}

// weighed notes how many bytes of profiles a transaction has read for so many keys.
func (s *StoreFollower) weighed(keys, bytes int) {
	next := 2 * s.usersAtOnce()
	if bytes > 0 {
		next = min(next, s.flush(flushProfiles)*keys/bytes)
	}
	s.fewer.Store(int64(max(1, next)))
}

// halve notes that the users of so many keys had more bytes of profiles than may be read.
func (s *StoreFollower) halve(keys int) {
	s.fewer.Store(int64(max(1, min(keys, s.usersAtOnce())/2)))
}

// tooManyBytes returns nil for the error of a session whose transaction named users with
// too large profiles. That is no failure, and has no pause: the next one gathers fewer.
func (s *StoreFollower) tooManyBytes(err error) error {
	if !errors.Is(err, user.ErrTooManyBytes) {
		return err
	}
	s.Log.Info("the users of a transaction have large profiles: those of fewer users are read again", "follower", s.Name(), "users", s.usersAtOnce())
	return nil
}
