package flow

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/redis/rueidis"
)

// Bucket is what tokens come out of: one for each mail that goes by a route, or
// by a route to a domain. All processes that name it share it.
type Bucket struct {
	Domain string // of a route; empty: the route's own

	PerSecond float64 // more than 0
	Size      int     // tokens that are saved up at most, from 1

	// Each slowing halves the rate, once a second at most and not below Least
	// of it. Then it grows by equal parts, the whole within Growth.
	Least  float64
	Growth time.Duration

	// DayLimits are the numbers of tokens of each day, from FirstDay on (days
	// since 1970, UTC). After the last day there are as many as the rate gives.
	FirstDay  int64
	DayLimits string // numbers, separated by commas
}

// PaceAsk is what a process wants of a bucket.
type PaceAsk struct {
	Bucket *Bucket
	Want   int // tokens, 0 to 1,000,000
	Back   int // of earlier ones, which were not used
	Slow   bool

	// Used is the least number of tokens of a day's limit that were used, as
	// far as is known elsewhere. UsedDay is that day (since 1970, UTC; 0: it is
	// not known). Looked says that it has been looked up for this ask.
	Used    int64
	UsedDay int64
	Looked  bool
}

// PaceGrant is what it gets.
type PaceGrant struct {
	Tokens    int
	Wait      time.Duration // until there may be another one
	Share     float64       // of the rate, as it is now
	Day       int64         // today, as Redis has it
	LeftToday int           // -1: there is no limit, or Unknown

	// Unknown says that Redis does not know how many tokens of the day's limit were
	// used: it is new, or was emptied. It gives none until it is told by an ask with
	// Looked.
	Unknown bool
}

// MaxPaceAsks bounds the asks of one call.
const MaxPaceAsks = 500

// Pace asks for tokens of buckets of one route, MaxPaceAsks at most. A call that
// fails may have taken tokens: they are lost, a tenth of a second's worth.
func (r *Redis) Pace(ctx context.Context, route string, asks []PaceAsk) ([]PaceGrant, error) {
	keys := make([]string, len(asks))
	for i := range asks {
		keys[i] = paceKey(route, asks[i].Bucket.Domain)
	}
	return r.pace(ctx, "lease tokens of route "+route, keys, asks)
}

// LeaseMails asks for tokens of a journey, one for each mail that it makes. All processes
// and partitions share its rate; at most a second's worth is saved up.
func (l *Log) LeaseMails(ctx context.Context, journey, perMinute int64, want, back int) (PaceGrant, error) {
	perSecond := float64(perMinute) / 60
	bucket := &Bucket{PerSecond: perSecond, Size: max(1, int(math.Ceil(perSecond))), Least: 1, Growth: time.Second}
	grants, err := l.redis.pace(ctx, fmt.Sprintf("lease mails of journey %d", journey), []string{journeyPaceKey(journey)}, []PaceAsk{{Bucket: bucket, Want: want, Back: back}})
	if err != nil {
		return PaceGrant{}, err
	}
	return grants[0], nil
}

// pace asks for tokens of buckets by their keys, which are in one slot.
func (r *Redis) pace(ctx context.Context, what string, keys []string, asks []PaceAsk) ([]PaceGrant, error) {
	args := make([]string, 0, 12*len(asks))
	for i := range asks {
		a, b := &asks[i], asks[i].Bucket
		slow, looked := "0", "0"
		if a.Slow {
			slow = "1"
		}
		if a.Looked {
			looked = "1"
		}
		args = append(args, strconv.Itoa(a.Want), strconv.Itoa(a.Back), strconv.FormatFloat(b.PerSecond, 'f', -1, 64), strconv.Itoa(b.Size), slow,
			strconv.FormatInt(int64(b.Least*1e6), 10), strconv.FormatInt(b.Growth.Milliseconds(), 10), strconv.FormatInt(b.FirstDay, 10), b.DayLimits,
			strconv.FormatInt(a.Used, 10), strconv.FormatInt(a.UsedDay, 10), looked)
	}
	numbers, err := run(ctx, r, what, "pace", keys, args, rueidis.RedisResult.AsIntSlice)
	if err != nil {
		return nil, err
	}
	if len(numbers) != 5*len(asks) {
		return nil, fmt.Errorf("%s: redis %s: %d numbers for %d buckets", what, r.name, len(numbers), len(asks))
	}
	grants := make([]PaceGrant, len(asks))
	for i := range grants {
		n := numbers[5*i:]
		grants[i] = PaceGrant{Tokens: int(n[0]), Wait: time.Duration(n[1]) * time.Millisecond, Share: float64(n[2]) / 1e6, LeftToday: max(int(n[3]), -1), Unknown: n[3] == -2, Day: n[4]}
	}
	return grants, nil
}
