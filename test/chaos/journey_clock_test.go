package chaos

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// patientJourney has a mail that is never early.
const patientJourney = `
id: patient
entry: {when: {event: waits}}
steps:
  - {id: first, message: {from: shop@example.com, content: {subject: first, text: first}}, next: rest}
  - {id: rest, delay: {for: 5s}, next: second}
  - {id: second, message: {from: shop@example.com, content: {subject: second, text: second}}}
`

const (
	patientLeast  = 4 * time.Second // the entry counts in whole seconds
	patientPeople = 12              // a step of the clock
)

// clockSteps are by how much the clock of a process is wrong while it runs: by nearly as much
// as is tolerated, by more, and at last by nothing.
var clockSteps = []time.Duration{4*time.Minute + 50*time.Second, -4*time.Minute - 50*time.Second, 6 * time.Minute, -6 * time.Minute, 0}

// strikeJourneyClock has the clock of a process that runs step to and fro. Then it has it
// start with clocks that are wrong by nearly as much as is tolerated. So people are due early
// or late for it.
func strikeJourneyClock(r *round) {
	r.publishJourney(r.peers[0], "patient", patientJourney)
	p := r.peers[r.random.IntN(len(r.peers))]
	file := filepath.Join(r.dir, "ahead")
	p.kill()
	r.start(p, "clock=steps:"+file)
	r.await("the process moves people", func() bool {
		n := r.metric(p, `sluice_leases{role="journey"}`)
		return n != "" && n != "0"
	})
	came := map[string]time.Time{}
	for n, by := range clockSteps {
		r.stepClock(p, file, by)
		names := strikeNames(fmt.Sprintf("patient%d-", n), patientPeople)
		for _, name := range names {
			came[name] = time.Now()
		}
		r.handIn(r.peers[n%len(r.peers)], "waits", names)
		r.rest(0, 2*time.Second)
	}
	for _, by := range []string{"4m50s", "-4m50s"} {
		p.kill()
		r.start(p, "clock=ahead:"+by)
		r.rest(time.Second, 2*time.Second)
	}
	p.kill()
	r.start(p, "")
	r.checks = append(r.checks, func() { r.checkPatient(came) })
}

// stepClock sets by how much the clock of a process is wrong, and waits until it says so.
func (r *round) stepClock(p *peer, file string, by time.Duration) {
	r.t.Helper()
	r.do(os.WriteFile(file+".new", []byte(by.String()), 0o600))
	r.do(os.Rename(file+".new", file))
	r.await("the clock of the process is wrong by "+by.String(), func() bool {
		ahead, err := strconv.ParseFloat(r.metric(p, "sluice_clock_ahead_seconds"), 64)
		return err == nil && (time.Duration(ahead*float64(time.Second))-by).Abs() < 2*time.Second
	})
}

// checkPatient wants both mails of each person, once, and the second not before its time.
func (r *round) checkPatient(came map[string]time.Time) {
	r.t.Helper()
	var names []string
	for name := range came {
		names = append(names, name)
	}
	r.awaitThrough(names, "patient", true)
	r.drained()
	ways := map[string]map[string]int{}
	for _, m := range r.journeyMails("patient") {
		if ways[m.who] == nil {
			ways[m.who] = map[string]int{}
		}
		ways[m.who][m.step]++
		r.checkTaken(m, false)
		for _, at := range m.taken {
			if waited := at.Sub(came[m.who]); m.step == "second" && waited < patientLeast {
				r.t.Errorf("%s got the second mail %s after the entry", m.who, waited)
			}
		}
	}
	for _, name := range names {
		if way := ways[name]; len(way) != 2 || way["first"] != 1 || way["second"] != 1 {
			r.t.Errorf("%s went %v", name, way)
		}
	}
	r.t.Logf("the clock of a process has stepped %d times while it ran, with %d people on their way", len(clockSteps), len(names))
}
