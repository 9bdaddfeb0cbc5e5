package chaos

import (
	"fmt"
	"net/http"
	"slices"
	"syscall"
	"time"
)

// journeyPoints are where a process may die on the way of what happens to a person. They lie
// in the transaction that has the fact, and before and behind the commit that moves the
// person. Others are where the mail that this makes is queued.
var journeyPoints = []string{"load", "transaction", "commit", "committed", "journey", "journey-moved", "queue", "queued", "trim"}

// savingPoints are where it may die while it writes where people are, as a process does that
// stops as planned.
var savingPoints = []string{"checkpoint-copied", "checkpoint-put", "checkpoint-finish", "checkpoint-finished"}

// Of the waves of strikeJourneyPoints.
const (
	waveFirst  = 1_000_000 // the number of the first person, beyond those of the load
	wavePeople = 40
)

// savingTries is how often a process is to stop that has nothing to write: nobody of its
// partitions has moved since the last time, or it was not asked for any.
const savingTries = 5

// strikeJourneyPoints has a process die at each point, with a wave of people on their way.
func strikeJourneyPoints(r *round) {
	points := slices.Concat(journeyPoints, savingPoints)
	wave := 0
	for _, i := range r.random.Perm(len(points)) {
		hit, tries := 1+r.random.IntN(6), 1
		saving := slices.Contains(savingPoints, points[i])
		if saving {
			hit, tries = 1, savingTries
		}
		for died := false; !died; tries-- {
			if tries == 0 {
				r.t.Errorf("no process came to %s", points[i])
				break
			}
			r.enterWave(wave)
			wave++
			died = r.dieAt(r.peers[r.random.IntN(len(r.peers))], points[i], hit, saving)
		}
	}
}

// enterWave has people enter the journey all at once.
func (r *round) enterWave(wave int) {
	r.t.Helper()
	client := &http.Client{Timeout: 10 * time.Second}
	defer client.CloseIdleConnections()
	at := time.Now().UTC().Format(time.RFC3339)
	var attributes, begins, who []string
	for i := range wavePeople {
		p := fmt.Sprintf("j%d", waveFirst+wave*wavePeople+i)
		who = append(who, p)
		attributes = append(attributes, fmt.Sprintf(`{"external_id":%q,"email":"%s@example.net","plan":%q}`, p, p, journeyPlan(p)))
		begins = append(begins, fmt.Sprintf(`{"external_id":%q,"name":"begins","time":%q}`, p, at))
	}
	r.load.handInEntries(r.random, client, who, attributes, begins)
}

// dieAt has a process die at the hit-th time that it comes to a point, and starts it again.
// stop: it comes there when it is stopped as planned. It returns whether it did.
func (r *round) dieAt(p *peer, point string, hit int, stop bool) (died bool) {
	r.t.Helper()
	p.kill()
	r.start(p, fmt.Sprintf("%s=kill,%d", point, hit))
	exited := func() bool {
		select {
		case <-p.exited:
			return true
		default:
			return false
		}
	}
	if stop {
		r.await("the process moves people", func() bool {
			n := r.metric(p, `sluice_leases{role="journey"}`)
			return n != "" && n != "0" || exited() // what it found there was due to be written
		})
		p.signal(syscall.SIGTERM)
	}
	r.await("the process has died at "+point, exited)
	how, _ := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	r.start(p, "")
	return how.Signal() == syscall.SIGKILL
}
