package ingest

import (
	"strconv"
	"testing"

	"sluice/store"
	"sluice/user"
	"sluice/user/users"
)

// However many writers a process has, their transactions hold twice what that of one does,
// at most: of rows, bytes, updates and users.
func TestWritersTogetherAreBounded(t *testing.T) {
	for _, writers := range []int{0, 1, 2, 4, 16} {
		of := func(alone int) int { return min(alone, 2*alone/max(writers, 1)) }
		for what, fill := range map[string]func(*storing){
			"rows":    func(s *storing) { s.effect.Events = make([]store.StoredEvent, of(flushRows)) },
			"bytes":   func(s *storing) { s.bytes = of(4 * flushBytes) },
			"updates": func(s *storing) { s.updates = make([]users.Update, of(flushUpdates)) },
			"users": func(s *storing) {
				for i := range of(flushUsers) {
					s.keys[user.Key{Kind: user.KeyExternal, Name: strconv.Itoa(i)}] = struct{}{}
				}
			},
		} {
			s := newStoring(&StoreFollower{Writers: writers})
			if fill(s); !s.full() {
				t.Errorf("%d writers: a transaction with its share of %s is not full", writers, what)
			}
		}
	}
}
