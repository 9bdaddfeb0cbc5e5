package bench

import (
	"fmt"
	"strings"
	"testing"
)

// Ids and addresses rise with their rank, and stand in the profile of their owner, who is
// somebody else's neighbour in the table.
func TestLookedPeople(t *testing.T) {
	const people = 100_000
	b := &lookedBench{env: &env{run: &run{options: options{partitions: 16}}}, people: people, addressBack: inverse(addressStep, people), idBack: inverse(idStep, people)}
	seen := make(map[string]int)
	for rank := int64(0); rank < people; rank++ {
		address, id := b.address(rank), b.id(rank)
		if rank > 0 && (address <= b.address(rank-1) || id <= b.id(rank-1)) {
			t.Fatalf("%s, %s at %d are not behind those before", address, id, rank)
		}
		name, _, _ := strings.Cut(address, ".")
		seen[name]++
		if rank%997 > 0 {
			continue
		}
		for step, text := range map[int64]string{addressStep: `"email":"` + address + `"`, idStep: `"external_id":"` + id + `"`} {
			i := rank * step % people
			if profile := b.profile(i); b.owner(rank, step) != b.person(i) || !strings.Contains(profile, text) || strings.Contains(profile, "user-") {
				t.Errorf("rank %d: %s has %s, want %s", rank, fmt.Sprint(b.owner(rank, step)), profile, text)
			}
		}
	}
	for _, name := range lookedNames {
		if seen[name] < lookedEach {
			t.Errorf("%d people are called %s, want %d", seen[name], name, lookedEach)
		}
	}
}
