package spool

import (
	"cmp"
	"strings"
	"time"

	"sluice/mail"
)

// The sublane for others holds mail of many domains and routes, of which some take
// nothing and others do. So it is not worked off by its head alone.
//
// The idea. What of it is in memory is looked through in order. Of sends that
// go the same way (to one domain, by one route asked for, of one class) only
// the first is asked about that is not stopped. The others stay behind it, so the
// order of a domain holds. If no send in memory may go, and there is more in Redis, the first
// half goes to the end of the sublane. Then what is behind it is read. When all
// have gone round once, going round rests for roundShare times as long as it
// took. After each further round in which nothing went it rests twice as long.
// The rest is at most a second, or vainShare times as long as the round took:
// each move is a mark and a record. Only there the order of a domain's mail may
// change.
const (
	// scanAgain is after what time a transport looks again that has found nothing: it
	// looks at up to laneSends sends, while all others wait.
	scanAgain = 50 * time.Millisecond

	// roundShare is the rest after a round, as a multiple of the time that it
	// took: at least roundRestLeast, and at most roundRest. After rounds in
	// vain the rest is up to vainShare times, or vainRest where that is longer.
	// So where few sends wait, a domain that takes mail again has its mail
	// within about a second. Where many wait, the rounds of a partition take a
	// seventeenth of the time, and more where a round takes longer than 0.3 s.
	roundShare     = 4
	roundRestLeast = 300 * time.Millisecond
	roundRest      = 5 * time.Second
	vainShare      = 16
	vainRest       = time.Second
)

// way is what sends have in common that may go, or not, together.
type way struct {
	domain, route string
	class         mail.Class
}

func wayOf(s *mail.Send) way {
	return way{domain: s.To[strings.LastIndexByte(s.To, '@')+1:], route: s.Route, class: s.Class}
}

// scan is how far a worker has looked through one of those queues. It also has
// what may not go, with the names of the sublanes in which it belongs.
type scan struct {
	queue   *queue
	at      int
	refused map[way]string
	stopped map[*item]string // those that are; nil: none is
	wait    time.Duration
}

// scan asks for the first send in the sublane for others that may go by a transport.
// at is -1 if that is to go alone, and the window has others; else where it stands
// if take is OK.
func (s *Sender) scan(sc *scan, q *queue, t mail.Transport, others bool, now time.Time) (at int, take Take) {
	if rest := q.scanned[t].Sub(now); rest > 0 {
		return 0, Take{Wait: rest}
	}
	if sc.queue != q {
		*sc = scan{queue: q, refused: make(map[way]string)}
	}
	for ; sc.at < len(q.items); sc.at++ {
		it := q.items[sc.at]
		key := wayOf(&it.send)
		if _, ok := sc.refused[key]; ok && it.broken == nil {
			continue
		}
		if others && alone(&it.send) {
			return -1, Take{}
		}
		take := s.ask(t, it, now)
		if take.OK {
			q.inVain = 0
			return sc.at, take
		}
		sc.refuse(it, key, &take)
		if take.Wait > 0 && (sc.wait == 0 || take.Wait < sc.wait) {
			sc.wait = take.Wait
		}
	}
	if q.scanned == nil {
		q.scanned = make(map[mail.Transport]time.Time)
	}
	q.scanned[t] = now.Add(scanAgain)
	return 0, Take{Wait: max(scanAgain, min(sc.wait, staleAgain))}
}

// refuse notes that a send may not go: what goes the same way may not either, unless it
// is stopped.
func (sc *scan) refuse(it *item, key way, take *Take) {
	if !take.Stopped {
		sc.refused[key] = take.Lane
		return
	}
	if sc.stopped == nil {
		sc.stopped = make(map[*item]string)
	}
	sc.stopped[it] = take.Lane
}

// goRound moves the first sends of the sublane for others to its end, if none
// of it in memory may go and there is more. It reports whether the sublane is
// to be read on.
func (p *part) goRound(q *queue, sc *scan, w *window, now time.Time) (short bool) {
	if sc.queue != q || sc.at < len(q.items) || q.short() || now.Before(q.roundAgain) {
		return false
	}
	if q.round.IsZero() {
		q.round = now
	}
	if !q.items[0].ready.Before(q.round) { // it has gone round already
		rest, more := roundRestOf(now.Sub(q.round), q.inVain)
		q.round, q.roundAgain = time.Time{}, now.Add(rest)
		if more {
			q.inVain++
		}
		return false
	}
	for n := len(q.items) / 2; n > 0 && len(w.aside) < asideSends; n-- {
		name := cmp.Or(sc.stopped[q.items[0]], sc.refused[wayOf(&q.items[0].send)])
		if name == "" {
			break // nothing goes anyway
		}
		it, _ := q.pop(0)
		p.waiting.Add(-1)
		w.aside = append(w.aside, apart{it, name})
		short = true
	}
	return short
}

// roundRestOf returns the rest after a round that took a while, after so many
// others in vain. It also returns whether the rest is longer after one more.
func roundRestOf(took time.Duration, inVain int) (rest time.Duration, more bool) {
	most := min(max(vainShare*took, vainRest), roundRest)
	rest = max(roundShare*took, roundRestLeast) << inVain
	return min(rest, most), rest < most
}
