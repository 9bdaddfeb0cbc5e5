package baseline

import (
	"context"
	"fmt"
	"strconv"
	"sync/atomic"

	"github.com/redis/rueidis"
	"golang.org/x/sync/errgroup"
)

// The journeys of a customer engagement platform, before and after its fix, as it has
// published them. A step of a journey has branches; of each person is to be found out
// which branches' rules hold, and the person goes on to the first.

// Profiles reads the profiles of people by their numbers, in their order.
type Profiles func(ctx context.Context, numbers []int64) ([]string, error)

// Matches returns a bit for each branch whose rule holds for a profile.
type Matches func(profile string, number int64) (uint64, error)

// Keys of both designs.
const (
	jobsKey   = "jobs"
	bufferKey = "buffer:branch-%d:1700000000"
	nextKey   = "buffer:next-%d:1700000600"
	lockKey   = "lock:%d"

	fillAtOnce  = 1000
	popAtOnce   = 100
	lockSeconds = 60
)

// AddJobs makes a job for each person and branch, all due at one second.
func (r *Redis) AddJobs(ctx context.Context, people int64, branches int) error {
	build := func(from, to int64) rueidis.Completed {
		c := r.client.B().Zadd().Key(jobsKey).ScoreMember()
		for n := from; n < to; n++ {
			for b := range branches {
				c = c.ScoreMember(1_700_000_000, strconv.FormatInt(n, 10)+":"+strconv.Itoa(b))
			}
		}
		return c.Build()
	}
	return r.inSteps(ctx, people, fillAtOnce/int64(branches), build)
}

// AddBuffered puts people into the sets, one a branch, of those who are due at one
// second.
func (r *Redis) AddBuffered(ctx context.Context, people int64, branches int) error {
	for branch := range branches {
		err := r.inSteps(ctx, people, fillAtOnce, func(from, to int64) rueidis.Completed {
			members := make([]string, 0, to-from)
			for n := from; n < to; n++ {
				members = append(members, strconv.FormatInt(n, 10))
			}
			return r.client.B().Sadd().Key(fmt.Sprintf(bufferKey, branch)).Member(members...).Build()
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// inSteps runs a command for each step of the numbers 1 to people.
func (r *Redis) inSteps(ctx context.Context, people, step int64, build func(from, to int64) rueidis.Completed) error {
	for from := int64(1); from <= people; from += step {
		if err := r.client.Do(ctx, build(from, min(from+step, people+1))).Error(); err != nil {
			return fmt.Errorf("add people of a journey: %w", err)
		}
	}
	return nil
}

// WorkJobs is the design before the fix: workers poll for one job that is due and race
// to remove it. Who removes it reads the person's state, and matches one branch. A lock
// keeps two branches from taking one person. It returns how many people went on.
func (r *Redis) WorkJobs(ctx context.Context, workers int, read Profiles, match Matches) (moved int64, err error) {
	var went atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	for range workers {
		group.Go(func() error {
			for {
				worked, err := r.workJob(ctx, read, match, &went)
				if err != nil || !worked {
					return err
				}
			}
		})
	}
	err = group.Wait()
	return went.Load(), err
}

func (r *Redis) workJob(ctx context.Context, read Profiles, match Matches, went *atomic.Int64) (worked bool, err error) {
	b := r.client.B()
	jobs, err := r.client.Do(ctx, b.Zrangebyscore().Key(jobsKey).Min("-inf").Max("1700000000").Limit(0, 1).Build()).AsStrSlice()
	if err != nil || len(jobs) == 0 {
		return false, err
	}
	removed, err := r.client.Do(ctx, b.Zrem().Key(jobsKey).Member(jobs[0]).Build()).AsInt64()
	if err != nil || removed == 0 {
		return true, err // another worker has it
	}
	var number int64
	var branch int
	if _, err := fmt.Sscanf(jobs[0], "%d:%d", &number, &branch); err != nil {
		return true, fmt.Errorf("read job %q: %w", jobs[0], err)
	}
	profiles, err := read(ctx, []int64{number})
	if err != nil {
		return true, err
	}
	holds, err := match(profiles[0], number)
	if err != nil || holds&(1<<branch) == 0 {
		return true, err
	}
	taken, err := r.take(ctx, number, branch)
	if taken {
		went.Add(1)
	}
	return true, err
}

// take moves a person on by a branch, unless another branch has taken the person.
func (r *Redis) take(ctx context.Context, number int64, branch int) (taken bool, err error) {
	b := r.client.B()
	_, err = r.client.Do(ctx, b.Set().Key(fmt.Sprintf(lockKey, number)).Value("1").Nx().ExSeconds(lockSeconds).Build()).ToString()
	if rueidis.IsRedisNil(err) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, r.client.Do(ctx, b.Sadd().Key(fmt.Sprintf(nextKey, branch)).Member(strconv.FormatInt(number, 10)).Build()).Error()
}

// PopBuffered releases the people of one branch's set, 100 at a time, and does nothing
// with them. It returns how many there were.
func (r *Redis) PopBuffered(ctx context.Context, branch int) (released int64, err error) {
	for {
		some, err := r.pop(ctx, branch)
		if err != nil || len(some) == 0 {
			return released, err
		}
		released += int64(len(some))
	}
}

func (r *Redis) pop(ctx context.Context, branch int) ([]int64, error) {
	some, err := r.client.Do(ctx, r.client.B().Spop().Key(fmt.Sprintf(bufferKey, branch)).Count(popAtOnce).Build()).AsStrSlice()
	numbers := make([]int64, len(some))
	for i := 0; i < len(some) && err == nil; i++ {
		numbers[i], err = strconv.ParseInt(some[i], 10, 64)
	}
	return numbers, err
}

// WorkBuffered is the published fix: jobs of 100 people of a branch, popped from its
// set and read by one SELECT ... IN. It returns how many people went on.
func (r *Redis) WorkBuffered(ctx context.Context, workers, branches int, read Profiles, match Matches) (moved int64, err error) {
	var went, next atomic.Int64
	group, ctx := errgroup.WithContext(ctx)
	for range workers {
		group.Go(func() error {
			for idle := 0; idle < branches; {
				branch := int(next.Add(1)) % branches
				some, err := r.pop(ctx, branch)
				if err != nil {
					return err
				}
				if idle++; len(some) == 0 {
					continue
				}
				idle = 0
				if err := r.workBuffered(ctx, branch, some, read, match, &went); err != nil {
					return err
				}
			}
			return nil
		})
	}
	err = group.Wait()
	return went.Load(), err
}

func (r *Redis) workBuffered(ctx context.Context, branch int, some []int64, read Profiles, match Matches, went *atomic.Int64) error {
	profiles, err := read(ctx, some)
	if err != nil {
		return err
	}
	for i, number := range some {
		holds, err := match(profiles[i], number)
		if err != nil {
			return err
		}
		if holds&(1<<branch) == 0 {
			continue
		}
		taken, err := r.take(ctx, number, branch)
		if err != nil {
			return err
		}
		if taken {
			went.Add(1)
		}
	}
	return nil
}
