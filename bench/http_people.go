package bench

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// Whom the events of partPeople name.
const (
	peopleNone    = "none"    // an address alone
	peopleUnknown = "unknown" // somebody who does not exist
	peopleKnown   = "known"   // one of trackUsers
)

// httpPeopleRequests is how many requests of httpBatchItems a run has.
const (
	httpPeopleRequests      = 400
	httpPeopleRequestsQuick = 60
)

// peopleSource makes requests of custom events. It differs from run to run in
// whom the events name, and in nothing else.
type peopleSource struct {
	who   string
	taken atomic.Int64 // requests
}

func (s *peopleSource) next(dst []byte) ([]byte, int) {
	first := (s.taken.Add(1) - 1) * httpBatchItems
	dst, patch := openRequest(dst, "/v1/events")
	for n := first; n < first+httpBatchItems; n++ {
		x := at(n)
		dst = strconv.AppendInt(append(dst, `{"event_id":"`...), x.id, 10)
		dst = append(dst, `","event":"opened_article","timestamp":`...)
		dst = strconv.AppendInt(dst, x.timeMillis, 10)
		switch s.who {
		case peopleNone: // as many bytes as the others have
			dst = append(append(dst, `,"session":"`...), trackUser(someUser(n))...)
		case peopleUnknown:
			dst = append(append(dst, `,"user_id":"n`...), trackUser(someUser(n))...)
		case peopleKnown:
			dst = append(append(dst, `,"user_id":"`...), trackUser(someUser(n))...)
		}
		dst = x.appendEmail(append(dst, `","email":"`...))
		dst = append(x.appendRest(append(dst, `",`...)), "}\n"...)
	}
	patch(dst)
	return dst, httpBatchItems
}

// httpPeople sends the same events with and without the person whom they name,
// and notes what each of them costs.
func (e *env) httpPeople(ctx context.Context, n int) error {
	for _, who := range [...][3]string{{peopleNone, peopleUnknown, peopleKnown}, {peopleKnown, peopleUnknown, peopleNone}}[n%2] {
		if err := e.httpPeopleRun(ctx, who, n); err != nil {
			return err
		}
	}
	return nil
}

func (e *env) httpPeopleRun(ctx context.Context, who string, n int) (err error) {
	c, err := e.startTracked(ctx, httpBacklog)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	before, err := e.cpuTimes(c)
	if err != nil {
		return err
	}
	rows, err := c.counter(ctx, storedRows)
	if err != nil {
		return err
	}
	source := &peopleSource{who: who}
	g := generator{address: strings.TrimPrefix(c.base, "http://"), conns: httpBatchConns, span: time.Hour,
		most: int64(pick(e.run, httpPeopleRequests, httpPeopleRequestsQuick)), next: source.next, done: wantStatus(httpEventsAnswer)}
	started := time.Now()
	all, err := g.run(ctx)
	if err != nil {
		return errors.Join(err, c.dead())
	}
	if err := c.awaitStored(ctx, rows+all.items); err != nil {
		return err
	}
	took := time.Since(started)
	after, err := e.cpuTimes(c)
	if err != nil {
		return err
	}
	r := e.run.report
	r.add("people_"+who, "events that name "+who+", from the first request to the last row", "rows/s", float64(all.items)/took.Seconds())
	line := ""
	for name, cpu := range after {
		us := float64((cpu - before[name]).Microseconds()) / float64(all.items)
		r.add("people_"+who+"_cpu_"+strings.ToLower(name), "computing of "+name+" for such an event", "µs", us)
		line += fmt.Sprintf(" %s %.1f µs", name, us)
	}
	e.run.say("events that name %s, run %d: %s rows/s stored,%s", who, n+1, number(float64(all.items)/took.Seconds()), line)
	want := int64(0)
	if who == peopleKnown {
		want = all.items
	}
	return e.checkTracked(ctx, "SELECT COALESCE(SUM(JSON_VALUE(profile, '$.events.opened_article[0]')), 0) FROM users", want)
}
