package chaos

import (
	"fmt"
	"net/http"
	"time"
)

// haltedJourney is stopped while people are in each of its steps: they come up to the stop,
// and the last mail of most is due long after it.
const haltedJourney = `
id: halted
entry: {when: {event: halts}}
steps:
  - {id: first, message: {from: shop@example.com, content: {subject: first, text: first}, class: transactional}, next: soon}
  - {id: soon, delay: {for: 1s}, next: second}
  - {id: second, message: {from: shop@example.com, content: {subject: second, text: second}}, next: later}
  - {id: later, delay: {for: 15s}, next: third}
  - {id: third, message: {from: shop@example.com, content: {subject: third, text: third}}}
`

const (
	haltedWaves = 6
	haltedWave  = 12 // people
	haltedLate  = 8  // people who come when it is stopped
)

// strikeJourneyStop stops a journey in the middle of its waves, with two processes dying: one at a
// commit that moves people, before the stop or after it, and one as the stop is asked for.
// It returns when it was answered.
func strikeJourneyStop(r *round) (stopped time.Time) {
	order := r.random.Perm(len(r.peers))
	dies, killed, asked := r.peers[order[0]], r.peers[order[1]], r.peers[order[2]]
	r.publishJourney(asked, "halted", haltedJourney)
	dies.kill()
	r.start(dies, fmt.Sprintf("%s=kill,%d", []string{"journey", "journey-moved"}[r.random.IntN(2)], 1+r.random.IntN(9)))
	names := strikeNames("halted", haltedWaves*haltedWave)
	for n := range haltedWaves {
		r.handIn([]*peer{killed, asked}[n%2], "halts", names[n*haltedWave:(n+1)*haltedWave])
		r.rest(0, 700*time.Millisecond)
	}
	r.await("somebody has got a mail", func() bool {
		for _, m := range r.journeyMails("halted") {
			if len(m.taken) > 0 {
				return true
			}
		}
		return false
	})
	r.rest(0, 2*time.Second)
	after := r.between(0, 30*time.Millisecond)
	dead := make(chan struct{})
	go func() { // ends at once
		defer close(dead)
		pause(r.ctx, after)
		killed.kill()
	}()
	r.ask(asked, "/v1/journeys/halted/stop", "", http.StatusOK)
	stopped = time.Now()
	<-dead
	r.start(killed, "")
	r.checks = append(r.checks, func() { r.checkHalted(names, stopped) })
	dies.kill() // if it has not yet
	r.start(dies, "")
	return stopped
}

// comeLate has people come to the stopped journey when all processes know.
func (r *round) comeLate(stopped time.Time) {
	pause(r.ctx, time.Until(stopped.Add(pauseKnown)))
	names := strikeNames("late", haltedLate)
	r.handIn(r.peers[r.random.IntN(len(r.peers))], "halts", names)
	r.checks = append(r.checks, func() {
		for _, m := range r.journeyMails("halted") {
			for _, name := range names {
				if m.who == name {
					r.t.Errorf("%s came to a stopped journey, and its mail of step %s is %s", name, m.step, m.state)
				}
			}
		}
	})
}

// checkHalted wants nobody inside, one way for each, each mail once, and none after the stop.
func (r *round) checkHalted(names []string, stopped time.Time) {
	r.t.Helper()
	r.awaitThrough(names, "halted", false)
	r.drained()
	ways, states := map[string]map[string]int{}, map[string]int{}
	for _, m := range r.journeyMails("halted") {
		if ways[m.who] == nil {
			ways[m.who] = map[string]int{}
		}
		ways[m.who][m.step]++
		states[m.step+" "+m.state]++
		r.checkTaken(m, m.step == "first")
		for _, at := range m.taken {
			if at.After(stopped.Add(pauseKnown)) {
				r.t.Errorf("%s got the mail of step %s %s after the stop:\n%s", m.who, m.step, at.Sub(stopped), m.life)
			}
		}
	}
	for who, steps := range ways {
		if steps["first"] != 1 || steps["second"] > 1 || steps["third"] > min(1, steps["second"]) {
			r.t.Errorf("%s went %v", who, steps)
		}
	}
	exited := int64(0)
	for _, step := range []string{"first", "soon", "second", "later", "third"} {
		in, passed, out := r.counted("halted/"+step+"/entered"), r.counted("halted/"+step+"/passed%"), r.counted("halted/"+step+"/exited")
		if exited += out; in != passed+out {
			r.t.Errorf("%d people came to %s, %d have passed it, %d were taken out", in, step, passed, out)
		}
	}
	if exited == 0 {
		r.t.Error("the stop has taken nobody out: the round shows nothing")
	}
	r.t.Logf("a stop among %d people, of whom %d were let in, took %d out; their mails: %v", len(names), len(ways), exited, states)
}
