package run

import (
	"context"
	"math/rand/v2"
	"time"

	"sluice/journey"
	"sluice/journey/plan"
)

const (
	// rateFor is how long tokens of mails may be used; then they go back.
	rateFor = time.Second

	// rateEvery is how long an ask rests that got too few, ratedPeople how many are asked
	// for at most.
	rateEvery   = 90 * time.Millisecond
	ratedPeople = 2048

	// rateSpread keeps partitions that wait for one token from asking in the same order
	// each time.
	rateSpread = 20 * time.Millisecond
)

// rate is how many mails a journey may make in a partition (limits.per_minute).
//
// The idea. All partitions and processes take tokens from one bucket in Redis, as routes
// do for their pace (flow/lua/pace.lua): what comes in in a tenth of a second at most, so
// that each has its part. In a journey with a rate all people go up to the message step
// and stay there, due at once, and those go on from it for whom there are tokens. So
// nothing else of the journey waits: delays end, choices are made, and who is taken out
// gets no mail. They have an index of their own, because a wave that waits for days would
// else be read again and again to find the few others who are due.
//
// The invariant. In any minute the journey makes as many mails as its rate, and one
// second's worth, and the tokens of a tenth of a second that each partition may have
// kept for rateFor. Who comes by two message steps without a wait between them takes two
// tokens, the second of them in advance.
//
// Without Redis nobody moves anyway. What was dropped: bounding what leaves the lanes
// instead. Mails would wait there, as many as the rate lets in for days.
type rate struct {
	dues   dues // of people at message steps
	tokens int  // below zero: taken in advance
	until  time.Time
	ask    time.Time
}

// due reports whether people wait for tokens, and it is time to ask.
func (r *rate) due(now time.Time) bool {
	return r.dues.next() <= uint32(now.Unix()) && !time.Now().Before(r.ask)
}

// paces reports whether the rate of the journey's mails decides when a person goes on:
// the person is at a message step, and gets the mail of it.
func (in *inside) paces(r *journey.Record) bool {
	if in.perMinute == 0 || in.stopped || in.overdue(r) || in.stays(r) {
		return false
	}
	v := in.versions[r.Version]
	return v != nil && int(r.Step) < len(v.walk.Plan().Steps) && v.walk.Plan().Steps[r.Step].Kind == plan.StepMessage
}

// moveMails moves people on who wait for the rate of mails, few at most, and reports
// whether there were any.
func (p *part) moveMails(ctx context.Context, in *inside, few int) (worked bool, err error) {
	if in.perMinute == 0 || in.stopped || !in.rate.due(p.horizon.at()) {
		return false, nil
	}
	if err := p.takeTokens(ctx, in, min(few, ratedPeople)); err != nil {
		return false, err
	}
	if few = min(few, in.rate.tokens); few <= 0 {
		return false, nil
	}
	firsts := in.rate.dues.take(p.horizon.second, 1)
	_, moved, err := p.moveUnits(ctx, in, firsts[:min(len(firsts), unitsAtOnce)], few, true)
	return moved > 0, err
}

// takeTokens sees to tokens for the journey's mails.
func (p *part) takeTokens(ctx context.Context, in *inside, want int) error {
	r, now := &in.rate, time.Now()
	if r.tokens > 0 && now.Before(r.until) {
		return nil
	}
	back := max(r.tokens, 0)
	r.tokens -= back
	g, err := p.log.LeaseMails(ctx, in.number, in.perMinute, want-r.tokens, back)
	if err != nil {
		return err
	}
	r.tokens += g.Tokens
	r.until, r.ask = now.Add(rateFor), time.Time{}
	if r.tokens <= 0 {
		r.ask = now.Add(max(g.Wait, rateEvery) + rand.N(rateSpread))
	}
	return nil
}
