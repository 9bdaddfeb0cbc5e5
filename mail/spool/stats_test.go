package spool

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"sluice/mail"
)

// Whatever happens to a mail, its stages have all the time from when it came
// into its lane, and no more. That holds too if it was put back, and if its
// transport knows only a part.
func TestStagesHaveAllTheTime(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		entered := time.UnixMilli(1_800_000_000_000)
		now := entered
		it := &item{ready: entered, since: entered}
		for range 1 + r.IntN(20) {
			passed := time.Duration(r.Int64N(int64(time.Second)))
			now = now.Add(passed)
			if r.IntN(2) == 0 {
				it.spend(mail.Stage(r.IntN(int(mail.Stages))), now)
				continue
			}
			var took [mail.Stages]time.Duration
			for stage := mail.StageConnect; stage <= mail.StageWait; stage++ {
				took[stage] = time.Duration(r.Int64N(int64(passed)/3 + 1))
			}
			it.report(&took, now)
		}
		sum := time.Duration(0)
		for _, d := range it.took {
			sum += d
		}
		if sum != now.Sub(entered) {
			t.Fatalf("the stages have %v, it took %v", sum, now.Sub(entered))
		}
	}
}

// attempts is a batch of n attempts by a route, each with a second in the lane and
// some time in each other stage.
func attempts(route string, n int, r *rand.Rand) []finished {
	batch := make([]finished, n)
	for i := range batch {
		it := &item{}
		for stage := range it.took {
			it.took[stage] = time.Duration(r.Int64N(int64(50 * time.Millisecond)))
		}
		it.took[mail.StageLane] = time.Second
		batch[i] = finished{item: it, kind: mail.ResultSent, route: route}
	}
	return batch
}

// Shares of windows that were in flight together add up to 100, with the lane
// and without it. What is older than a minute is in the whole alone.
func TestSharesOfARoute(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	var s Stats
	now := time.Unix(1_800_000_000, 0)
	s.begin(now)
	recorded := 0
	for range 30 { // five minutes
		s.recorded(attempts("relay", 1+r.IntN(64), r), now)
		s.recorded(attempts("other", 1, r), now)
		now = now.Add(10 * time.Second)
	}
	s.recorded([]finished{{item: &item{}}, {item: &item{}, kind: mail.ResultUntried, waits: true}}, now) // no attempts
	for _, p := range s.Routes(now) {
		if p.Route == "relay" {
			recorded = int(p.All.Mails)
		}
		if p.Route == "other" && (p.All.Mails != 30 || p.Recent.Mails != 5 || p.All.Seconds != 300 || p.Recent.Seconds < 55 || p.Recent.Seconds > 60) {
			t.Errorf("%d mails in %v s, %d in the last %v s", p.All.Mails, p.All.Seconds, p.Recent.Mails, p.Recent.Seconds)
		}
		for _, span := range []*StageProfile{&p.All, &p.Recent} {
			all, attempt := span.Shares()
			sums := [2]float64{}
			for i := range all {
				sums[0] += all[i]
				sums[1] += attempt[i]
				if span.Stages[i].Count != uint64(span.Mails) {
					t.Errorf("%s has %d of %d mails", mail.Stage(i), span.Stages[i].Count, span.Mails)
				}
			}
			if math.Abs(sums[0]-100) > 1e-9 || math.Abs(sums[1]-100) > 1e-9 || attempt[mail.StageLane] != 0 || all[mail.StageLane] < 70 {
				t.Errorf("%s: the shares add up to %v; lane %v and %v", p.Route, sums, all[mail.StageLane], attempt[mail.StageLane])
			}
		}
	}
	for _, p := range s.Routes(now.Add(time.Hour)) {
		if p.Recent.Mails != 0 || p.Route == "relay" && int(p.All.Mails) != recorded {
			t.Errorf("an hour later: %d mails in the last minute, %d in all", p.Recent.Mails, p.All.Mails)
		}
		if all, _ := p.Recent.Shares(); all != [mail.Stages]float64{} {
			t.Errorf("shares of nothing: %v", all)
		}
	}
	s.recorded(attempts("relay", 1, r), now.Add(-time.Hour)) // the clock was set back
	if p := s.Routes(now)[1]; int(p.All.Mails) != recorded+1 {
		t.Errorf("after the clock was set back: %d of %d mails", p.All.Mails, recorded+1)
	}
}

// What a mail costs that is counted in all its stages.
func BenchmarkStages(b *testing.B) {
	batch := attempts("relay", recordSends, rand.New(rand.NewPCG(5, 6)))
	now := time.Unix(1_800_000_000, 0)
	var s Stats
	for n := 0; b.Loop(); n++ {
		s.recorded(batch, now.Add(time.Duration(n)*time.Millisecond))
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(batch)), "ns/mail")
}
