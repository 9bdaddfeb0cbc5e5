package chaos

import "time"

// strikeJourneyClock has the clock of a process step to and fro by nearly as much as is
// tolerated, so that people are due early or late for it.
func strikeJourneyClock(r *round) {
	p := r.peers[r.random.IntN(len(r.peers))]
	for _, by := range []string{"4m50s", "-4m50s"} {
		p.kill()
		r.start(p, "clock=ahead:"+by)
		r.rest(time.Second, 3*time.Second)
	}
	p.kill()
	r.start(p, "")
}
