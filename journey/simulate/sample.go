package simulate

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"

	"sluice/user"
	"sluice/user/profile"
)

// Bounds of a sample, which is kept in memory.
const (
	MaxSampled      = 100_000
	maxSampledBytes = 1 << 30 // of profiles

	sampledAtOnce = 10_000 // profiles that are read by one statement
)

// Sample returns n people of the database by chance, fewer if there are fewer. All have
// the same chance, so all profiles are read, once, and nothing is written. The same seed
// and people give the same sample.
func Sample(ctx context.Context, users user.Store, partitions, n int, seed uint64) ([]Person, error) {
	if n > MaxSampled {
		return nil, fmt.Errorf("sample people: want at most %d, got %d", MaxSampled, n)
	}
	random := rand.New(rand.NewPCG(seed, 0))
	all, seen, bytes := make([]Person, 0, n), int64(0), 0
	take := func(id user.ID, text string) {
		seen++
		at := int64(len(all))
		if len(all) < n {
			all = append(all, Person{})
		} else if at = random.Int64N(seen); at >= int64(n) {
			return
		}
		bytes += len(text) - len(all[at].Profile)
		all[at] = Person{ID: id, Profile: strings.Clone(text)}
	}
	for part := range partitions {
		for after, more := int64(0), true; more; {
			read := 0
			err := users.EachProfile(ctx, part, after, sampledAtOnce, func(number int64, text string) bool {
				read, after = read+1, number
				take(user.ID{Partition: part, Number: number}, text)
				return bytes <= maxSampledBytes
			})
			if err != nil {
				return nil, err
			}
			if bytes > maxSampledBytes {
				return nil, fmt.Errorf("sample people: the profiles of %d are more than %d MB; take a smaller sample", len(all), maxSampledBytes>>20)
			}
			more = read == sampledAtOnce
		}
	}
	for i := range all {
		all[i].Name = all[i].ID.String()
		if p, err := profile.Parse(all[i].Profile); err == nil && p.ExternalID != "" {
			all[i].Name = p.ExternalID
		}
	}
	return all, nil
}
