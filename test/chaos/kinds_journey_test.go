package chaos

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"time"

	"sluice/flow"
)

// journeyKinds are faults while people are in journeys (journeyLoad), which three
// processes move.
func journeyKinds() []kind {
	return []kind{
		{name: "journey-kill", journey: true, fits: several, strike: strikeJourneyKill},
		{name: "journey-zombie", journey: true, fits: several, strike: strikeJourneyZombie},
		{name: "journey-away", journey: true, fits: several, strike: strikeJourneyAway},
		{name: "journey-accepted", journey: true, fits: several, strike: strikeJourneyAccepted},
		{name: "journey-cut-off", journey: true, fits: several, strike: strikeCutOff},
		{name: "journey-redis-back", journey: true, fits: several, losesRedis: true, strike: strikeJourneyRedisBack},
		{name: "journey-emptied", journey: true, fits: several, losesRedis: true, strike: strikeJourneyEmptied},
		{name: "journey-sql-back", journey: true, fits: several, strike: strikeSQLBack},
		{name: "journey-desk", journey: true, fits: several, strike: strikeJourneyDesk},
		{name: "journey-people", journey: true, fits: several, strike: strikeJourneyPeople},
		{name: "journey-clock", journey: true, fits: several, strike: strikeJourneyClock},
		{name: "journey-points", journey: true, fits: several, faults: len(journeyPoints) + len(savingPoints), strike: strikeJourneyPoints},
	}
}

// strikeJourneyKill kills each process around a commit of journeys, and then any at
// random instants.
func strikeJourneyKill(r *round) {
	for _, point := range []string{"journey", "journey-moved"} {
		r.dieAt(r.peers[r.random.IntN(len(r.peers))], point, 1+r.random.IntN(12), false)
	}
	strikeKill(r)
}

// strikeJourneyZombie stops a process past its leases, at a random instant or at a
// commit of journeys, and lets it go on when others have its partitions. Meanwhile another
// version of a journey is published.
func strikeJourneyZombie(r *round) {
	p := r.peers[r.random.IntN(len(r.peers))]
	e := r.newEdition(p)
	if point := []string{"", "journey", "journey-moved"}[r.random.IntN(3)]; point == "" {
		p.signal(syscall.SIGSTOP)
	} else {
		p.kill()
		r.start(p, fmt.Sprintf("%s=stop,%d", point, 1+r.random.IntN(12)))
	}
	r.await("the process is stopped", p.stopped)
	before := r.leaseNumbers()
	r.await("another process has taken its leases", func() bool {
		return r.number("SELECT COALESCE(SUM(number), 0) FROM leases WHERE role IN ('store', 'send')") > before
	})
	e.publish() // lasts longer than a lease
	r.rest(0, flow.LeaseTimeout)
	p.signal(continued)
	e.goneOn()
}

// strikeJourneyAway takes all of Redis or the database away for four seconds, from all
// processes or from one.
func strikeJourneyAway(r *round) {
	const how = 4 * time.Second
	if r.random.IntN(2) == 0 {
		r.away(r.nodes, how)
		return
	}
	some := r.peers
	if r.random.IntN(2) == 0 {
		some = some[:1]
	}
	r.t.Logf("the database is away from %d processes", len(some))
	for _, p := range some {
		p.base.Refuse(true)
		p.base.Cut()
	}
	pause(r.ctx, how)
	for _, p := range some {
		p.base.Refuse(false)
	}
}

// strikeJourneyRedisBack puts Redis back by up to two seconds, as a failover to a
// replica that lags does.
func strikeJourneyRedisBack(r *round) {
	r.lossFrom = time.Now()
	r.snapshotRedis("snapshot")
	r.rest(500*time.Millisecond, 2*time.Second)
	r.putBackRedis("snapshot")
}

// strikeJourneyEmptied kills all processes and empties Redis. An operator starts them again
// and accepts what is missing: where people are comes from the last checkpoint and the
// facts since.
func strikeJourneyEmptied(r *round) {
	redis, err := flow.Dial(r.ctx, r.nodes[0].URL())
	r.do(err)
	defer redis.Close()
	r.lossFrom = time.Now()
	r.awaitStored(redis)
	for _, p := range r.peers {
		p.kill()
	}
	r.lossTo = time.Now()
	r.noteEnded()
	for _, node := range r.nodes {
		client, err := dialNode(node, false)
		r.do(err)
		err = client.Do(r.ctx, client.B().Flushall().Build()).Error()
		client.Close()
		r.do(err)
	}
	r.environ = []string{"SLUICE_ACCEPT_GAPS=true"}
	for _, p := range r.peers {
		r.start(p, "")
	}
}

// strikeJourneyDesk pauses, resumes and publishes the journey while people come and go. Before
// that it stops another one, with processes dying.
func strikeJourneyDesk(r *round) {
	// Processes die before the first pause. What they had accepted may be stored behind it, and
	// a paused journey lets nobody in.
	r.journeys.pausedFrom = time.Now()
	stopped := strikeJourneyStop(r)
	r.load.progress()
	for range 3 {
		r.rest(0, time.Second)
		switch r.random.IntN(3) {
		case 0:
			r.ask(r.peers[0], "/v1/journeys/tour/publish", "", http.StatusOK)
		default:
			r.ask(r.peers[0], "/v1/journeys/tour/pause", "", http.StatusOK)
			r.rest(0, 1500*time.Millisecond)
			r.ask(r.peers[1], "/v1/journeys/tour/resume?overdue=send", "", http.StatusOK)
		}
	}
	r.journeys.pausedTo = time.Now()
	r.comeLate(stopped)
}

// saidOfJourneys are lines that processes have written about journeys.
func (r *round) saidOfJourneys() (lines []string) {
	for i, p := range r.peers {
		for line := range bytes.Lines(p.logged(r.t.T)) {
			if bytes.Contains(line, []byte("journey")) && len(lines) < 10 {
				lines = append(lines, fmt.Sprintf("%d: %s", i, strings.TrimSpace(string(lastBytes(line, 400)))))
			}
		}
	}
	return lines
}
