package spool

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"sluice"
	"sluice/flow"
	"sluice/mail"
	"sluice/mail/route"
)

// Sender attempts what waits in the lanes of the partitions whose lease this
// process holds.
//
// The idea. A worker for each connection that a transport can use asks for a
// window of sends when it is free. It gets the most urgent sends, of one
// partition as far as possible. They are made ready (body, rendering,
// signature), marked in one call for each partition, and written to the wire.
// The result of each goes to the recorder of its partition, which records all
// that arrived while its last call ran.
//
// The invariants. Nothing is written to the wire that is not marked. Each mark
// of this process is in exactly one of three places. It is on its way (flying),
// or with a recorder, or in Redis alone if nobody knows whether marking has
// succeeded. This process then finds such a mark as its own when it reads the
// lanes again, and puts the send back as before, unless Redis has become another
// one since: then it may have forgotten an attempt. A result is recorded even if
// the lease has been lost meanwhile: the mark is the right to do so. What waits
// in memory is at most laneSends and a read for each lane, what flies the
// windows of the workers.
//
// High overtakes at every window; of several workers one of eight takes
// nothing else, so that a transport that hangs does not keep it waiting.
type Sender struct {
	Process    string // this process's name in marks: its lease keeper's
	Lanes      []*flow.Lanes
	Leases     *flow.Leases
	Bodies     Bodies
	Record     Record
	StoredBy   string // the follower whose cursor says what of the log is in the ledger
	Suppress   Suppressor
	Routes     Routes
	Maker      Maker
	Journeys   Journeys // nil: there is no mail of journeys
	Feedback   Feedback // nil: nobody counts results
	Clock      sluice.Clock
	Log        *slog.Logger
	Stats      *Stats
	DoubtAfter time.Duration // how long what is in doubt waits for its last attempt

	comparing chan struct{} // room for so many comparisons
	crews     []*crew       // of each transport; set before anything runs

	takingBack sync.WaitGroup

	mu        sync.Mutex
	parts     []*part        // that are held; its elements are never changed
	turn      int            // which of parts is asked first
	marks     uint64         // how often this process has marked
	flying    map[string]int // by mark: how many of its sends are on their way
	recorders map[int]*recorder
}

// Bodies is where contents are that do not travel inside their sends.
type Bodies interface {
	Bodies(ctx context.Context, messages []string, mostBytes int) (map[string][]byte, error)
}

// Routes says by which transport a send goes.
type Routes interface {
	// Transports are those that have workers.
	Transports() []mail.Transport

	// TransportOf returns that of a route of the settings, also where sending is off or all mail
	// goes elsewhere; nil: there is none of that name.
	TransportOf(route string) mail.Transport

	// Takes says whether a send may go by a transport now. It is asked about each
	// send, often more than once, and takes no more than a microsecond. passed are
	// those that have turned it away in this turn (turn.go).
	Takes(t mail.Transport, s *mail.Send, passed []mail.Transport, now time.Time) Take

	// Elsewhere reports whether a send that those have rejected may be asked of
	// another at once.
	Elsewhere(s *mail.Send, passed []mail.Transport, now time.Time) bool

	// Holds reports whether a send that a transport was given may not go by it any more:
	// it is stopped, or the transport is. It is as quick as Takes.
	Holds(t mail.Transport, s *mail.Send) bool

	// Busy tells that all workers of a transport are at work, so that none asks for
	// mail, or that one is free again.
	Busy(t mail.Transport, busy bool, now time.Time)

	// NotAttempted tells which sends a transport was to take that are not given to it. What
	// Takes took for them is free again. It is told of each once, and Report of the others.
	NotAttempted(t mail.Transport, sends []*mail.Send, now time.Time)

	// Report tells what has become of an attempt, as soon as it is known.
	Report(t mail.Transport, s *mail.Send, r *mail.Result, now time.Time)

	// Ended tells the same of all attempts of a call of Deliver, when it has ended:
	// of those that shared a connection, mostly.
	Ended(t mail.Transport, sends []*mail.Send, results []mail.Result, now time.Time)
}

// Take is an answer of Routes.
type Take = route.Take

// Feedback is told of the result of each attempt. It must not block. A feedback.Watch
// is one.
type Feedback interface {
	Result(s *mail.Send, route string, r *mail.Result)
}

// Maker makes envelopes: contents rendered, complete and signed, for a window at
// once. What cannot be made gets an Err of its own.
type Maker interface {
	Make(ctx context.Context, mails []Mail)
}

// Mail is a send with its content, and what a Maker makes of it.
type Mail struct {
	Send    *mail.Send
	Content []byte

	// Took is for the Maker to say how much of its time was profile, render and
	// sign. It covers the whole window, for the mail that waited for the others
	// of it.
	Took *[mail.Stages]time.Duration

	Envelope mail.Envelope
	Err      error // of this send: ErrNoRoom, ErrNotNow, ErrSlow, ErrParked, ErrUnwanted, or why it fails
}

// bodiesAgain is how long a worker waits that could not read contents.
const bodiesAgain = 1 * time.Second

// Run sends until fetch ends, then waits for what is on its way, and ends with
// work at the latest.
func (s *Sender) Run(fetch, work context.Context) {
	s.mu.Lock()
	s.Stats.begin(s.Clock.Now())
	s.comparing = make(chan struct{}, comparisons)
	s.flying, s.recorders = make(map[string]int), make(map[int]*recorder)
	for i, l := range s.Lanes {
		s.recorders[i] = newRecorder(s, l)
	}
	transports := s.Routes.Transports()
	s.crews = make([]*crew, len(transports))
	for i, t := range transports {
		s.crews[i] = newCrew(t)
	}
	s.mu.Unlock()
	s.Leases.Say(marksWord, s.oldestMark)

	var reading, working, recording sync.WaitGroup
	for i := range s.Lanes {
		recording.Go(func() { s.recorders[i].run(work) })
		reading.Go(func() {
			flow.Follow(fetch, work, Role, s.Log, s.Stats, func(fetch, work context.Context) error { return s.session(fetch, work, i) })
		})
	}
	reading.Go(func() { s.lookThrough(fetch) })
	for _, c := range s.crews {
		for n := range max(1, c.transport.Workers()) {
			working.Go(func() { s.work(fetch, work, c, urgentWorker(n)) })
		}
	}
	reading.Wait()
	// What this process has on the wire keeps nobody from the rest of a partition.
	if err := s.Leases.GiveBack(Role); err != nil {
		s.Log.Warn("leases could not be given back; it is tried again with every beat", "role", Role, "error", err)
	}
	working.Wait()
	s.takingBack.Wait()
	for _, r := range s.recorders {
		close(r.results) // nobody hands anything on any more
	}
	recording.Wait()
}

// session waits for the lease of a partition and reads its lanes while it is
// held.
func (s *Sender) session(fetch, work context.Context, number int) error {
	held, _ := s.Leases.Held(Role)
	lease := held[number]
	if lease == nil {
		s.Leases.WaitForChange(fetch, Role, held)
		return nil
	}
	ctx, stop := context.WithCancel(fetch)
	defer stop()
	go func() { // ends with the session
		defer stop()
		for held[number] == lease && ctx.Err() == nil {
			s.Leases.WaitForChange(ctx, Role, held)
			held, _ = s.Leases.Held(Role)
		}
	}()
	start, err := s.Lanes[number].Begin(work, lease, s.Clock.Now().UnixMilli())
	if err != nil {
		return err
	}
	if !start.Compared {
		err = s.compare(ctx, work, s.Lanes[number], lease, start)
	} else {
		err = s.serve(ctx, newPart(s, number, s.Lanes[number], lease, start, false))
	}
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// serve reads the lanes of a partition and gives workers of them, until the
// context ends, or what was read is not how it is.
func (s *Sender) serve(ctx context.Context, p *part) error {
	s.mu.Lock()
	s.parts = append(s.parts, p)
	s.mu.Unlock()
	defer s.drop(p)
	err := p.read(ctx)
	if ctx.Err() != nil || p.over.Load() {
		return nil
	}
	return err
}

// drop takes a partition out of what workers are given.
func (s *Sender) drop(p *part) {
	p.over.Store(true)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.parts = slices.DeleteFunc(slices.Clone(s.parts), func(q *part) bool { return q == p }) // others read the one before
}

// held returns the partitions that are held. What it returns is never changed.
func (s *Sender) held() []*part {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.parts
}

func (s *Sender) isFlying(it *item) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.flying[it.mark] > 0
}

// fly notes that so many sends more are on their way.
func (s *Sender) fly(mark string, sends int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.flying[mark] += sends; s.flying[mark] <= 0 {
		delete(s.flying, mark)
	}
}

// marksWord is what a process says of its marks with each beat: no mark with a smaller
// number is on its way. That number only rises, since marks get theirs in the step that
// notes them as on their way (newMark). So it stays true whenever it was said, whatever
// Redis has forgotten since, and no clock is asked.
const marksWord = "marks"

// newMark returns the evidence of a new mark on a Redis, and notes that so many sends are on
// their way with it.
func (s *Sender) newMark(route, server string, sends int) string {
	e := evidence{process: s.Process, millis: s.Clock.Now().UnixMilli(), route: route, history: historyOf(server)}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.marks++
	e.number = s.marks
	mark := e.String()
	s.flying[mark] = sends
	return mark
}

// oldestMark is the value of marksWord.
func (s *Sender) oldestMark() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	oldest := s.marks + 1
	for mark := range s.flying {
		e, _ := parseEvidence(mark) // which newMark wrote
		oldest = min(oldest, e.number)
	}
	return strconv.FormatUint(oldest, 10)
}

// landed reports whether the process of a mark says that it is not on its way. An older
// program does not say.
func (s *Sender) landed(e evidence) bool {
	oldest, err := strconv.ParseUint(s.Leases.Said(e.process, marksWord), 10, 64)
	return err == nil && e.number < oldest
}

// attempt makes ready, marks and delivers a window.
func (s *Sender) attempt(ctx context.Context, c *crew, window []*item) {
	t := c.transport
	ready, envelopes, err := s.prepare(ctx, t, window)
	s.giveBack(t, window, ready)
	if err != nil {
		_ = sluice.Pause(ctx, bodiesAgain) // then the database is asked again
		return
	}
	if len(ready) == 0 {
		return
	}
	sends := make([]*mail.Send, len(ready))
	for i, it := range ready {
		sends[i] = &it.send
	}
	results := s.deliver(ctx, c, ready, envelopes)
	s.Routes.Ended(t, sends, results, s.Clock.Now())
}

// giveBack tells the routes which of a window are not attempted: all but those that are ready.
// What cannot be read took nothing (ask).
func (s *Sender) giveBack(t mail.Transport, window, ready []*item) {
	if len(ready) == len(window) {
		return
	}
	attempted := make(map[*item]bool, len(ready))
	for _, it := range ready {
		attempted[it] = true
	}
	var sends []*mail.Send
	for _, it := range window {
		if it.broken == nil && !attempted[it] {
			sends = append(sends, &it.send)
		}
	}
	if len(sends) > 0 {
		s.Routes.NotAttempted(t, sends, s.Clock.Now())
	}
}

// prepare makes a window ready and marks it, and returns what is to be attempted. It has
// decided on the others by then: they wait as before, or the recorder has them. An error
// says that contents or records could not be read.
func (s *Sender) prepare(ctx context.Context, t mail.Transport, window []*item) (ready []*item, envelopes []mail.Envelope, err error) {
	var bodies map[string][]byte
	left, err := s.known(ctx, t.Name(), window)
	if err == nil {
		window = left
		bodies, err = s.bodies(ctx, window)
	}
	spendAll(window, mail.StageProfile, s.Clock.Now())
	if err != nil {
		s.Log.Warn("records or contents of sends could not be read; they wait as before", "sends", len(window), "error", err)
		putBack(window)
		return nil, nil, err
	}
	made := s.make(ctx, window, bodies)
	if window = s.fitting(window, made); len(window) == 0 {
		return nil, nil, nil
	}
	s.askJourneys(ctx, window, made)
	untilMillis := s.beginUntil()
	all := s.markAll(ctx, t.Name(), window)
	s.Suppress.Ready(addressesOf(all))
	now := s.Clock.Now()
	for _, marked := range all { // what was taken back is the recorder's by now
		marked.item.spend(mail.StageMark, now)
		send, v := &marked.item.send, made[marked.item].verdict
		f, over := s.notAttempted(marked)
		switch {
		case over || marked.item.broken != nil:
		case v.outcome != nil || v.again != nil:
			f.verdict = v
		case !s.Suppress.Fresh(send.Class): // this process was stopped meanwhile
			f.waits = true
		default:
			reason, suppressed := s.Suppress.Check(send.To, send.Class, send.App)
			if !suppressed {
				ready = append(ready, marked.item)
				continue
			}
			f.verdict.outcome = suppressedOutcome(send, reason, s.Clock.Now().UnixMilli())
		}
		s.hand(ctx, f)
	}
	envelopes = make([]mail.Envelope, len(ready))
	for i, it := range ready {
		envelopes[i] = made[it].Envelope
		envelopes[i].Go = s.goes(t, &it.send, untilMillis)
	}
	return ready, envelopes, nil
}

// marked is a send with what Mark said of it.
type marked struct {
	item   *item
	letter byte
}

// markAll marks the sends of a window, each partition's by one call, and returns
// those that are marked now. If a call failed, the recorder takes back the marks that
// it may have made, and the partition is read anew.
func (s *Sender) markAll(ctx context.Context, route string, window []*item) []marked {
	byPart := make(map[*part][]*item, 2)
	for _, it := range window {
		byPart[it.part] = append(byPart[it.part], it)
	}
	parts := slices.Collect(maps.Keys(byPart))
	answers := make([][]marked, len(parts))
	var calls sync.WaitGroup
	for i, p := range parts {
		if i == len(parts)-1 { // mostly the only one
			answers[i] = s.mark(ctx, route, p, byPart[p])
			break
		}
		calls.Go(func() { answers[i] = s.mark(ctx, route, p, byPart[p]) })
	}
	calls.Wait()
	return slices.Concat(answers...)
}

func (s *Sender) mark(ctx context.Context, route string, p *part, items []*item) []marked {
	slices.SortStableFunc(items, func(a, b *item) int { return comparePlaces(&a.place, &b.place) })
	e := s.newMark(route, p.start.Server, len(items))
	places, ids := make([]flow.LanePlace, len(items)), make([]string, len(items))
	for i, it := range items {
		places[i], ids[i], it.mark = it.place, it.id(), e
	}
	letters, err := p.lanes.Mark(ctx, p.lease, p.start.Server, e, places, ids)
	if err != nil {
		p.end()
		if ctx.Err() != nil || errors.Is(err, sluice.ErrLeaseLost) {
			s.fly(e, -len(items))
			return nil
		}
		s.Log.Warn("sends could not be marked; their partition is read again", "partition", p.number, "sends", len(items), "error", err)
		s.takeBack(ctx, p, items)
		return nil
	}
	all := make([]marked, 0, len(items))
	for i, it := range items {
		letter := letters[i]
		if letter == flow.Ended && it.send.Doubted {
			letter = flow.Cancelled // that it was in doubt was told after it
		}
		if letter != flow.NotHere {
			all = append(all, marked{it, letter})
		}
	}
	if gone := len(items) - len(all); gone > 0 { // what is in memory is not how it is
		s.fly(e, -gone)
		p.end()
	}
	return all
}

// takeBack has the recorder take back the marks of sends that may have one, as only the answer
// may have been lost. A worker does not wait for that: it has other partitions to see to. Nor
// are they left marked if results fill the recorder meanwhile. If another process gets the
// lease, it waits for what this one says, as long as this one lives. Beyond takenBackSends a
// mark is found when this process reads the partition anew.
func (s *Sender) takeBack(ctx context.Context, p *part, items []*item) {
	r, n := s.recorders[p.number], int64(len(items))
	if r.takenBack.Add(n) > takenBackSends {
		r.takenBack.Add(-n)
		s.fly(items[0].mark, -len(items))
		return
	}
	s.takingBack.Go(func() { // ends with work
		for _, it := range items {
			s.hand(ctx, finished{item: it, waits: true})
			r.takenBack.Add(-1)
		}
	})
}

// addressesOf are the recipients of sends.
func addressesOf(all []marked) []string {
	addresses := make([]string, len(all))
	for i := range all {
		addresses[i] = all[i].item.send.To
	}
	return addresses
}
