package bench

import (
	"context"
	"fmt"
	"time"

	"sluice/user"
	"sluice/user/rule"
)

// baselines runs the old designs on the same profiles and rules.
func (b *journeyBench) baselines(ctx context.Context) error {
	var rules []*rule.Rule
	for i := range journeyBranches {
		x, err := rule.Compile(fmt.Sprintf(`{"and":[{"attribute":"score","is":"greater_than_or_equal_to","value":%d},{"field":"country","is":"equals","value":"AT"}]}`, 950-i*90))
		if err != nil {
			return err
		}
		rules = append(rules, x)
	}
	set, err := rule.NewSet(rules...)
	if err != nil {
		return err
	}
	match := func(profile string, number int64) (uint64, error) {
		var out [1]uint64
		_, err := set.Match([]string{profile}, []uint64{b.id(number).Hash()}, time.Now().UnixMilli(), out[:])
		return out[0], err
	}
	jobs, people := pick(b.run, int64(jobUsers), jobUsersQuick), pick(b.run, int64(setUsers), setUsersQuick)
	b.run.say("%s: %d people as jobs", b.name, jobs)
	if err := b.env.redis.AddJobs(ctx, jobs, journeyBranches); err != nil {
		return err
	}
	began := time.Now()
	if _, err := b.env.redis.WorkJobs(ctx, journeyWorkers, b.read, match); err != nil {
		return err
	}
	b.add("jobs", "one job for each person and branch", "µs/person", float64(time.Since(began).Microseconds())/float64(jobs))
	b.run.say("%s: %d people in sets", b.name, people)
	if err := b.env.redis.AddBuffered(ctx, people, journeyBranches); err != nil {
		return err
	}
	began = time.Now()
	if _, err := b.env.redis.PopBuffered(ctx, 0); err != nil {
		return err
	}
	b.add("sets_release", "sets, popped by 100, one branch of eleven", "µs/person", float64(time.Since(began).Microseconds())/float64(people))
	if err := b.env.redis.AddBuffered(ctx, people, journeyBranches); err != nil {
		return err
	}
	began = time.Now()
	if _, err := b.env.redis.WorkBuffered(ctx, journeyWorkers, journeyBranches, b.read, match); err != nil {
		return err
	}
	b.add("sets", "sets, popped by 100 and decided", "µs/person", float64(time.Since(began).Microseconds())/float64(people))
	return nil
}

// id is the user of a number from 1 on.
func (b *journeyBench) id(number int64) user.ID {
	return user.ID{Partition: int((number - 1) % journeyPartitions), Number: (number-1)/journeyPartitions + 1}
}

// read reads profiles, by one statement.
func (b *journeyBench) read(ctx context.Context, numbers []int64) ([]string, error) {
	ids := make([]user.ID, len(numbers))
	for i, n := range numbers {
		ids[i] = b.id(n)
	}
	a, err := b.store.Users(ctx, user.Query{IDs: ids})
	profiles := make([]string, len(numbers))
	for i, id := range ids {
		profiles[i] = a.Users[id].Profile
	}
	return profiles, err
}
