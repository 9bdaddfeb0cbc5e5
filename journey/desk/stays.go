package desk

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"sluice"
	"sluice/flow"
	"sluice/journey"
	"sluice/journey/env"
	"sluice/journey/plan"
	"sluice/mail"
	"sluice/store"
)

// Stay is people who are due at a step and do not go on.
type Stay struct {
	Step string

	// People is how many were found; 0: nobody is there yet, and who comes will stay.
	People int64

	SinceMillis int64 // when the first of them was due; 0: nobody is there, or it is not known
	Reason      StayReason
	Why         string // for an operator: what it is, and what to do
}

// StayReason is why people stay.
type StayReason string

// The reasons.
const (
	StayNoMail     StayReason = "no_mail"    // mail of the step cannot be made
	StayUnreadable StayReason = "unreadable" // their version cannot be read
	StayJourney    StayReason = "journey"    // the journey that a step leads to lets nobody in now
	StayPaused     StayReason = "paused"     // the journey is paused
	StayRoom       StayReason = "room"       // as much mail waits to be sent as may
	StayRate       StayReason = "rate"       // limits.per_minute
	StayTurn       StayReason = "turn"       // too much is to be done, or it stands
)

// Stays are those of a journey.
type Stays struct {
	Steps []Stay // those of mail that cannot be made first

	// More: not all records of the journey were looked at, so there may be more people.
	More bool
}

const (
	// staysChunks bounds how many chunks of records are looked through for an answer, 256 KiB
	// each, beside the first one of each partition.
	staysChunks = 32

	// staysAfter is how long somebody is due who stays without a reason that lasts.
	staysAfter = 10 * time.Second
)

// whyStay says to an operator why people stay who could have mail.
var whyStay = map[StayReason]string{
	StayPaused: "the journey is paused; resume it, or stop it",
	StayRoom:   "as many mails as may wait are in their lane, and more are made as they leave: no route takes them, it is stopped, or it is slower than they come",
	StayRate:   "limits.per_minute lets so many mails of the journey go in a minute",
	StayTurn:   "their turn has not come: the store is behind, or nothing moves in their partition; sluice_follower_lag_seconds and the log say why",
}

// stays finds people who are due and do not go on: at any step of a journey that is paused, else
// at messages and steps that lead to a journey. It looks through records only if some such step
// has people by the counts, or something is wrong with the version that people enter.
func (d *Desk) stays(ctx context.Context, j *store.Journey, doc *plan.Document, counts *Counts) (s Stays, err error) {
	s.Steps = []Stay{}
	if j.Status != journey.StatusLive && j.Status != journey.StatusPaused || j.Version == 0 {
		return s, nil
	}
	f := stayFinder{d: d, j: j, versions: d.versions(j), judged: make(map[int]*judgedVersion), now: d.Clock.Now(), found: &s}
	newest, err := f.judge(ctx, j.Version)
	if err != nil {
		return s, err
	}
	if newest.unreadable == "" {
		for at, why := range newest.noMail {
			f.add(Stay{Step: newest.ids[at], Reason: StayNoMail, Why: why})
		}
		for at, why := range newest.closed {
			f.add(Stay{Step: newest.ids[at], Reason: StayJourney, Why: why})
		}
	}
	if d.Page != nil && (newest.unreadable != "" || len(newest.noMail)+len(newest.closed) > 0 || mayStay(j, doc, counts)) {
		err = f.lookThrough(ctx)
	}
	slices.SortStableFunc(s.Steps, func(a, b Stay) int { return stayOrder(counts, a) - stayOrder(counts, b) })
	return s, err
}

// mayStay reports whether people are at a step at which they may stay: it is a message, leads to
// a journey, or is of another version; or the journey is paused.
func mayStay(j *store.Journey, doc *plan.Document, counts *Counts) bool {
	others := make(map[string]bool)
	for i := range doc.Steps {
		others[doc.Steps[i].ID] = j.Status != journey.StatusPaused && doc.Steps[i].Message == nil && doc.Steps[i].Go == nil
	}
	return slices.ContainsFunc(counts.Steps, func(s StepCounts) bool { return s.Waiting > 0 && !others[s.Step] })
}

// stayOrder has what lasts first, and then the order of the steps.
func stayOrder(counts *Counts, s Stay) int {
	at := slices.IndexFunc(counts.Steps, func(c StepCounts) bool { return c.Step == s.Step })
	if s.Reason != StayNoMail && s.Reason != StayUnreadable && s.Reason != StayJourney {
		at += len(counts.Steps) + 1
	}
	return at
}

// stayFinder looks through the records of a journey.
type stayFinder struct {
	d         *Desk
	j         *store.Journey
	versions  *env.Versions
	judged    map[int]*judgedVersion
	now       time.Time
	found     *Stays
	partition int
	lanes     map[string]mail.InLane // of the partition; nil: not read
}

// judgedVersion is what keeps people of a version where they are.
type judgedVersion struct {
	ids        []string
	unreadable string         // why it cannot be read; empty: it can
	noMail     map[int]string // by message step
	closed     map[int]string // by step that leads to a journey which lets nobody in now
	lane       map[int]string // of the mails of others
	tags       map[int]string // of these
	perMinute  int64
}

// judge looks whether a version can be carried out, as templates are now.
func (f *stayFinder) judge(ctx context.Context, number int) (*judgedVersion, error) {
	if x := f.judged[number]; x != nil {
		return x, nil
	}
	v, err := f.d.Database.Journeys.JourneyVersion(ctx, f.j.Number, number)
	if err != nil {
		return nil, err
	}
	x := &judgedVersion{noMail: make(map[int]string), closed: make(map[int]string), lane: make(map[int]string), tags: make(map[int]string)}
	f.judged[number] = x
	if x.ids, err = stepIDs(v.Document); err != nil {
		x.unreadable = err.Error()
		return x, nil
	}
	_, p, err := plan.LoadVersion(v.Document, f.d.Database.Env(ctx))
	if problems, ok := errors.AsType[plan.Problems](err); ok {
		x.unreadable = fmt.Sprintf("version %d cannot be carried out any more: %v", number, problems)
		return x, nil
	}
	if err != nil {
		return nil, err
	}
	x.perMinute = p.PerMinute
	for i := range p.Steps {
		m := p.Steps[i].Message
		if m == nil {
			if err := f.judgeGo(ctx, x, i, p.Steps[i].Journey); err != nil {
				return nil, err
			}
			continue
		}
		send, _, err := f.d.Database.Mailing(ctx, m)
		_, bad := errors.AsType[*env.Unsendable](err)
		e, refused := errors.AsType[*sluice.Error](err)
		switch {
		case err == nil:
			x.lane[i], x.tags[i] = flow.LaneName(send.Priority, send.Class), send.Tags
		case bad, refused && e.Code == sluice.CodeNotFound:
			x.noMail[i] = fmt.Sprintf("its mail cannot be made: %v", err)
		default:
			return nil, err
		}
	}
	return x, nil
}

// judgeGo notes of a step that leads to a journey, by its id, why people stay there. If it was
// stopped, they go on.
func (f *stayFinder) judgeGo(ctx context.Context, x *judgedVersion, at int, id string) error {
	if id == "" {
		return nil
	}
	to, err := f.d.Database.Journeys.Journey(ctx, id)
	if e, ok := errors.AsType[*sluice.Error](err); ok && e.Code == sluice.CodeNotFound {
		to.Status, err = journey.StatusDraft, nil
	}
	switch {
	case err != nil:
		return err
	case to.Status == journey.StatusDraft:
		x.closed[at] = fmt.Sprintf("journey %s, to which they go on, was not published; publish it, or stop this one", id)
	case to.Status == journey.StatusPaused:
		x.closed[at] = fmt.Sprintf("journey %s, to which they go on, is paused; resume it, or stop it", id)
	}
	return nil
}

// lookThrough finds people in the records of all partitions, the first chunk of each and
// staysChunks more in all.
func (f *stayFinder) lookThrough(ctx context.Context) error {
	reads := staysChunks
	for from := 0; from < f.d.Partitions; from += partitionsAtOnce { // what has been read is in memory until it was looked at
		first := make([]stayPage, min(partitionsAtOnce, f.d.Partitions-from))
		err := eachOf(ctx, from, from+len(first), func(ctx context.Context, partition int) (err error) {
			first[partition-from], err = f.page(ctx, partition, 0)
			return err
		})
		for i := 0; i < len(first) && err == nil; i++ {
			err = f.lookFrom(ctx, from+i, first[i], &reads)
		}
		if err != nil {
			return fmt.Errorf("look who stays in journey %s: %w", f.j.ID, err)
		}
	}
	return nil
}

// lookFrom finds people in a partition from its first chunk on, as long as reads are left.
func (f *stayFinder) lookFrom(ctx context.Context, partition int, page stayPage, reads *int) (err error) {
	f.partition, f.lanes = partition, nil
	for err = f.lookAt(ctx, page.due); err == nil && page.next > 0; err = f.lookAt(ctx, page.due) {
		if *reads--; *reads < 0 {
			f.found.More = true
			break
		}
		if page, err = f.page(ctx, partition, page.next); err != nil {
			break
		}
	}
	return err
}

// stayPage is a chunk of records: those of people who are due, or are looked at again soon.
type stayPage struct {
	due  []journey.Record
	next int64 // behind whom the next chunk begins; 0: there is none
}

// page reads a chunk. May be called by several goroutines at once.
func (f *stayFinder) page(ctx context.Context, partition int, after int64) (page stayPage, err error) {
	soon := f.now.Add(journey.LookAgain).Unix()
	page.next, err = f.d.Page(ctx, partition, f.j.Number, after, func(_ int64, raw *flow.Record) bool {
		var r journey.Record
		if r.Decode(raw[:]) == nil && r.Waits() && r.State == journey.StateInside && int64(r.Due) <= soon {
			page.due = append(page.due, r)
		}
		return true
	})
	return page, err
}

// lookAt looks at people of the partition.
func (f *stayFinder) lookAt(ctx context.Context, due []journey.Record) error {
	for i := range due {
		if err := f.look(ctx, &due[i]); err != nil {
			return err
		}
	}
	return nil
}

// look looks at one who is due, or is looked at again soon.
func (f *stayFinder) look(ctx context.Context, r *journey.Record) error {
	number, err := f.versions.Number(ctx, r)
	if err != nil || number == 0 {
		return err // the database has gone back, and has lost it
	}
	v, err := f.judge(ctx, number)
	if err != nil {
		return err
	}
	stay := Stay{People: 1, SinceMillis: int64(r.Due) * 1000}
	if int(r.Step) < len(v.ids) {
		stay.Step = v.ids[r.Step]
	}
	if v.unreadable != "" {
		if int64(r.Due) > f.now.Unix() {
			return nil
		}
		stay.Reason, stay.Why = StayUnreadable, v.unreadable
		f.add(stay)
		return nil
	}
	if why, ok := v.closed[int(r.Step)]; ok {
		if stay.Reason, stay.Why = StayJourney, why; int64(r.Due) > f.now.Unix() { // of a program that looked again each minute
			stay.SinceMillis = 0
		}
		f.add(stay)
		return nil
	}
	if int64(r.Due) > f.now.Unix() {
		return nil
	}
	why, noMail := v.noMail[int(r.Step)]
	lane, message := v.lane[int(r.Step)]
	overdue := stay.SinceMillis <= f.j.SkipUntilMillis // these go on without mail
	switch {
	case noMail && !overdue:
		stay.Reason, stay.Why = StayNoMail, why
		f.add(stay)
		return nil
	case f.j.Status == journey.StatusPaused:
		stay.Reason = StayPaused
	case !noMail && !message:
		return nil // a step that makes no mail
	case stay.SinceMillis > f.now.Add(-staysAfter).UnixMilli():
		return nil
	default:
		if stay.Reason, err = f.waitsFor(ctx, lane, v.tags[int(r.Step)]); err != nil {
			return err
		}
	}
	stay.Why = whyStay[stay.Reason]
	f.add(stay)
	return nil
}

// waitsFor is why somebody is not moved whose mail can be made, in this partition.
func (f *stayFinder) waitsFor(ctx context.Context, lane, tags string) (StayReason, error) {
	if f.lanes == nil && f.d.Lanes != nil {
		waiting, err := f.d.Lanes(ctx, f.partition)
		if err != nil {
			return "", err
		}
		f.lanes = mail.InLanes(waiting)
	}
	switch newest, err := f.judge(ctx, f.j.Version); {
	case err != nil:
		return "", err
	case journey.Crowded(f.lanes[lane], tags):
		return StayRoom, nil
	case newest.perMinute > 0:
		return StayRate, nil
	}
	return StayTurn, nil
}

// add adds people to those who stay at the same step for the same reason.
func (f *stayFinder) add(s Stay) {
	for i := range f.found.Steps {
		if x := &f.found.Steps[i]; x.Step == s.Step && x.Why == s.Why {
			if x.SinceMillis == 0 || s.SinceMillis != 0 && s.SinceMillis < x.SinceMillis {
				x.SinceMillis = s.SinceMillis
			}
			x.People += s.People
			return
		}
	}
	f.found.Steps = append(f.found.Steps, s)
}
