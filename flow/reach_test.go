package flow

import (
	"testing"
	"time"
)

// A process that is cut off from the database does not leave its leases to one
// that died a moment ago. That holds while it cannot tell because its own looks
// come late.
func TestADeadProcessReachesNoDatabase(t *testing.T) {
	t.Parallel()
	const beat = LeaseTimeout / 5
	r := &role{name: "store", group: "store/4/0a"}
	l := &Leases{id: "self", members: newMembers("self", LeaseTimeout)}
	now := time.Now()
	look := func(after time.Duration, other string) bool {
		now = now.Add(after)
		l.members.look(now, now, "server", map[string]string{"self": now.String(), "other": other})
		return l.othersReach(r, now)
	}
	if !look(0, "1 store/4/0a db=1") || !look(beat, "2 store/4/0a db=1") {
		t.Fatal("a living process says that it reaches the database, and is not heard")
	}
	for range 10 { // each look is a gap: no process is known to be dead
		if look(LeaseTimeout, "2 store/4/0a db=1") {
			t.Fatal("a process that does not beat any more is believed")
		}
	}
	if look(beat, "3 store/4/0a db=0") || !look(beat, "4 store/4/0a db=1") {
		t.Fatal("what a process says that beats again is not heard")
	}
	if !look(beat, "5 store/3/0b db=1") {
		t.Error("a process that has other places open is not heard")
	}
	if look(beat, "6 storekeeper/4/0a db=1") {
		t.Error("a process that does not share the role is heard")
	}
}
