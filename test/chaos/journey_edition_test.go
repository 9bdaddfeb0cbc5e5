package chaos

import (
	"fmt"
	"slices"
	"time"
)

// editionJourney says by the names of its steps of which version it is.
const editionJourney = `
id: edition
entry: {when: {event: reads}}
steps:
  - {id: %[1]s, message: {from: shop@example.com, content: {subject: %[1]s, text: %[1]s}}, next: %[1]s-rest}
  - {id: %[1]s-rest, delay: {for: 2s}, next: %[1]s-last}
  - {id: %[1]s-last, message: {from: shop@example.com, content: {subject: last, text: last}}}
`

// Groups of people of an edition: who is inside before the publish, who comes as it is
// answered, who comes when all that run know of it, and who comes as the process goes on.
const (
	editionBefore = "before"
	editionAt     = "at"
	editionKnown  = "known"
	editionAfter  = "after"
	editionPeople = 12 // of each
)

// edition is a journey of which a version is published while a process is frozen.
type edition struct {
	r      *round
	frozen *peer
	at     time.Time // when the publish was answered
}

// newEdition publishes the first version, and people enter.
func (r *round) newEdition(frozen *peer) *edition {
	r.t.Helper()
	e := &edition{r: r, frozen: frozen}
	r.publishJourney(r.peers[0], "edition", fmt.Sprintf(editionJourney, "one"))
	e.enter(editionBefore, r.peers...)
	return e
}

func (e *edition) enter(group string, by ...*peer) {
	e.r.t.Helper()
	names := strikeNames(group, editionPeople)
	each := len(names) / len(by)
	for n, p := range by {
		e.r.handIn(p, "reads", names[n*each:(n+1)*each])
	}
}

// others are the processes that live.
func (e *edition) others() []*peer {
	return slices.DeleteFunc(slices.Clone(e.r.peers), func(p *peer) bool { return p == e.frozen })
}

// publish has another version when all who came first are inside. It returns when all that run
// know of it, and more have come.
func (e *edition) publish() {
	r := e.r
	r.t.Helper()
	r.await("all are in the first version", func() bool {
		return r.number("SELECT COUNT(*) FROM sends WHERE journey = 'edition' AND step = 'one'") == editionPeople
	})
	r.publishJourney(e.others()[0], "edition", fmt.Sprintf(editionJourney, "two"))
	e.at = time.Now()
	e.enter(editionAt, e.others()...)
	pause(r.ctx, time.Until(e.at.Add(pauseKnown)))
	e.enter(editionKnown, e.others()...)
}

// goneOn is when the process goes on that was frozen: more come, by it first.
func (e *edition) goneOn() {
	e.enter(editionAfter, slices.Insert(e.others(), 0, e.frozen)...)
	e.r.checks = append(e.r.checks, e.check)
}

// check wants of each person the two mails of one version, each once: of the second if all
// that ran knew of it.
func (e *edition) check() {
	r := e.r
	r.t.Helper()
	ways := map[string]map[string]int{}
	groups := []string{editionBefore, editionAt, editionKnown, editionAfter}
	for _, group := range groups {
		r.awaitThrough(strikeNames(group, editionPeople), "edition", true)
	}
	r.drained()
	for _, m := range r.journeyMails("edition") {
		if ways[m.who] == nil {
			ways[m.who] = map[string]int{}
		}
		ways[m.who][m.step]++
		r.checkTaken(m, false)
		if m.state == "cancelled" {
			r.t.Errorf("%s: the mail of step %s is cancelled", m.who, m.step)
		}
	}
	versions := map[string]int{}
	for _, group := range groups {
		for _, name := range strikeNames(group, editionPeople) {
			way, is := ways[name], ""
			for _, v := range []string{"one", "two"} {
				if len(way) == 2 && way[v] == 1 && way[v+"-last"] == 1 {
					is = v
				}
			}
			versions[group+" "+is]++
			if is == "" || is == "two" && group == editionBefore || is == "one" && (group == editionKnown || group == editionAfter) {
				r.t.Errorf("%s went %v", name, way)
			}
		}
	}
	r.t.Logf("people by their version, with a process frozen: %v", versions)
}
