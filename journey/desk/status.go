package desk

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"sluice"
	"sluice/flow"
	"sluice/journey"
	"sluice/journey/plan"
	"sluice/store"
)

// Change is what can be done with the status of a journey.
type Change string

// The changes. A stopped journey is not taken up again: people who were taken out of it
// would be in a place that nobody can name. Its copy is another journey, which all may
// enter.
const (
	Publish Change = "publish" // people enter, by a new version
	Pause   Change = "pause"   // nobody enters or goes on; triggers still take people out
	Resume  Change = "resume"
	Stop    Change = "stop"    // all who are inside are taken out, for good
	Archive Change = "archive" // it is not listed any more
)

// changes are the statuses that each may be made from, and what comes of it.
var changes = map[Change]struct {
	from []string
	to   string
}{
	Publish: {[]string{journey.StatusDraft, journey.StatusLive, journey.StatusPaused}, journey.StatusLive},
	Pause:   {[]string{journey.StatusLive}, journey.StatusPaused},
	Resume:  {[]string{journey.StatusPaused}, journey.StatusLive},
	Stop:    {[]string{journey.StatusLive, journey.StatusPaused}, journey.StatusStopped},
	Archive: {[]string{journey.StatusDraft, journey.StatusStopped}, journey.StatusArchived},
}

// hints say what to do with a journey of a status.
var hints = map[string]string{
	journey.StatusDraft:    "publish it first",
	journey.StatusLive:     "stop it first",
	journey.StatusPaused:   "stop it first",
	journey.StatusStopped:  "a stopped journey is not taken up again; copy it",
	journey.StatusArchived: "an archived journey is not taken up again; copy it",
}

// allowed reports whether a change is to be made; false and no error: the journey is so
// already.
func allowed(j *store.Journey, c Change) (bool, error) {
	row := changes[c]
	switch {
	case slices.Contains(row.from, j.Status):
		return true, nil
	case j.Status == row.to:
		return false, nil
	}
	return false, sluice.Refuse(sluice.CodeConflict, "journey %s is %s, and %s is for one that is %s: %s", j.ID, j.Status, c, strings.Join(row.from, " or "), hints[j.Status])
}

// SetStatus pauses, resumes, stops or archives a journey. One that is so already stays
// as it is.
func (d *Desk) SetStatus(ctx context.Context, id string, c Change) (store.Journey, error) {
	j, err := d.at(ctx, id, -1)
	if err != nil {
		return j, err
	}
	change, err := allowed(&j, c)
	if err != nil || !change {
		return j, err
	}
	return d.put(ctx, j, c)
}

// Hold pauses a journey that is live, and says why it stands until an operator resumes
// it. paused is false if it is not live, and stays as it is. hold is why it stands then;
// empty: for no such reason. The error has CodeNotFound if there is no such journey.
func (d *Desk) Hold(ctx context.Context, id, why string) (hold string, paused bool, err error) {
	j, err := d.at(ctx, id, -1)
	if err != nil || j.Status != journey.StatusLive {
		return j.Hold, false, err
	}
	j.Hold = why
	_, err = d.put(ctx, j, Pause)
	return why, err == nil, err
}

// put makes a change that is allowed.
func (d *Desk) put(ctx context.Context, j store.Journey, c Change) (store.Journey, error) {
	var err error
	j.Status, j.UpdatedMillis = changes[c].to, d.Clock.Now().UnixMilli()
	if _, err = d.Database.Journeys.PutStatus(ctx, j); err != nil {
		return j, told(&j, err)
	}
	j.Revision++
	if j.Status != journey.StatusPaused {
		j.Hold = ""
	}
	return j, nil
}

// Overdue says what becomes of people whose time has come when a journey is resumed.
type Overdue string

// What it may be.
const (
	OverdueAsk  Overdue = ""     // if there are some, the journey is not resumed
	OverdueSend Overdue = "send" // they go on at once, and get what is not later than latest
	OverdueSkip Overdue = "skip" // they go on at once, past the messages that were due
)

// Resume has a paused journey go on. Without a choice it is refused while people are
// overdue, and the error says how many. While that is not known it has CodeUnavailable.
func (d *Desk) Resume(ctx context.Context, id string, o Overdue) (store.Journey, error) {
	if o != OverdueAsk && o != OverdueSend && o != OverdueSkip {
		return store.Journey{}, sluice.Refuse(sluice.CodeInvalid, "overdue is %.32q, want send or skip", string(o))
	}
	j, err := d.at(ctx, id, -1)
	if err != nil {
		return j, err
	}
	change, err := allowed(&j, Resume)
	if err != nil || !change {
		return j, err
	}
	switch o {
	case OverdueSend:
	case OverdueSkip:
		j.SkipUntilMillis = d.Clock.Now().UnixMilli()
	case OverdueAsk:
		if err := d.askOverdue(ctx, &j); err != nil {
			return j, err
		}
	}
	return d.put(ctx, j, Resume)
}

// askOverdue refuses to resume a journey while people are overdue, or a time of its entry is.
func (d *Desk) askOverdue(ctx context.Context, j *store.Journey) error {
	notes, err := d.knownNotes(ctx, journey.RunsNote(j.Number))
	if err != nil {
		return err
	}
	people, err := d.overdue(ctx, j)
	if err != nil {
		return err
	}
	run, err := d.overdueRun(ctx, j, notes)
	switch {
	case err != nil:
		return err
	case !run.IsZero():
		return sluice.Refuse(sluice.CodeConflict, "people were to enter journey %s at %s, and %d are overdue in it: resume it with overdue send, and those enter now, and all get what is not later than latest; or with skip, and nobody enters by that time, and people go on without the messages that were due", j.ID, run.UTC().Format(time.RFC3339), people)
	case people > 0:
		return sluice.Refuse(sluice.CodeConflict, "people are overdue in journey %s, %d of them: resume it with overdue send, and they get their messages now; or with skip, and they go on without those that were due", j.ID, people)
	}
	return nil
}

// isOverdue reports whether somebody's time has come who is in a step. Who has gone the way to
// its end, and is only watched for a conversion, waits for nothing that a resume decides about.
func isOverdue(r *journey.Record, now int64) bool {
	return r.State == journey.StateInside && r.Waits() && int64(r.Due) <= now
}

// overdueRun is the time at which people were to enter, if some partition has not had them
// all look at it: the first one; zero: there is none. notes are those of RunsNote.
//
// A run that was begun goes on behind the pause whatever was published meanwhile, also if
// nobody enters at times any more. Others are those of tenures.
func (d *Desk) overdueRun(ctx context.Context, j *store.Journey, notes []map[string]string) (first time.Time, err error) {
	if notes == nil || j.Version == 0 {
		return first, nil
	}
	tenures, err := d.tenures(ctx, j)
	if err != nil {
		return first, err
	}
	now, skipUntil := d.Clock.Now(), j.SkipUntilMillis/1000
	for partition, fields := range notes {
		runs, _, err := journey.ReadRuns(flow.NoteIn(fields, journey.RunsNote(j.Number)))
		if err != nil {
			return first, fmt.Errorf("partition %d: %w", partition, err)
		}
		due, ok := time.Unix(runs.Last, 0), true
		if !runs.UnderWay(skipUntil) {
			due, ok = owed(tenures, skipUntil, runs.Last)
		}
		if ok && !due.After(now) && (first.IsZero() || due.Before(first)) {
			first = due
		}
	}
	return first, nil
}

// owed is the first time of some tenures at which somebody may have to enter, as of comesNext.
func owed(tenures []tenure, after, lastRun int64) (first time.Time, ok bool) {
	for _, x := range tenures {
		due, comes := comesNext(x.at, max(x.from, after), lastRun)
		if comes && due.Unix() <= x.until && (!ok || due.Before(first)) {
			first, ok = due, true
		}
	}
	return first, ok
}

// tenure is the time in which a version was the last one, if it lets people in at times:
// behind a second, up to another.
type tenure struct {
	at          *plan.Schedule
	from, until int64
}

// owedFor is how long before a publish a time may have come that is made behind it.
const owedFor = 26 * time.Hour

// tenures are those whose times are made behind a pause: that of the newest version and, if
// the journey was paused behind its publish, what was due by then (package run, timetable).
func (d *Desk) tenures(ctx context.Context, j *store.Journey) (all []tenure, err error) {
	next, err := d.Database.Journeys.JourneyVersion(ctx, j.Number, j.Version)
	if err != nil {
		return nil, err
	}
	at, err := d.schedule(ctx, &next)
	if err != nil {
		return nil, err
	}
	if at != nil {
		all = append(all, tenure{at, next.CreatedMillis / 1000, math.MaxInt64})
	}
	if j.UpdatedMillis <= next.CreatedMillis || j.RestoredMillis != 0 {
		return all, nil
	}
	used, err := d.used(ctx, j)
	if err != nil {
		return nil, err
	}
	begin := (next.CreatedMillis - owedFor.Milliseconds()) / 1000
	for _, v := range slices.Backward(used) { // they are in their order
		until := next.CreatedMillis / 1000
		if v.Version >= j.Version {
			continue
		}
		if until <= begin {
			break
		}
		if v.Version == next.Version-1 { // else the one behind it has ended, and it owes nothing
			if at, err = d.schedule(ctx, &v); err != nil {
				return nil, err
			}
			if at != nil {
				all = append(all, tenure{at, max(v.CreatedMillis/1000, begin), until})
			}
		}
		next = v
	}
	return all, nil
}

// schedule is when a version of a journey lets people in; nil: never at times, or it cannot be
// read any more and lets nobody in.
func (d *Desk) schedule(ctx context.Context, v *store.JourneyVersion) (at *plan.Schedule, err error) {
	_, p, err := plan.LoadVersion(v.Document, d.Database.Env(ctx))
	if _, ok := errors.AsType[plan.Problems](err); ok {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(p.Entry.When, func(on plan.On) bool { return on.Kind == plan.OnSchedule }); i >= 0 {
		at = p.Entry.When[i].At
	}
	return at, nil
}

// comesNext is the first time behind two seconds at which somebody may have to enter; the
// second is that of the last run. A time of each person's zone comes for 26 hours, and
// what came to the east was looked for before. Of it no time counts that comes within an
// hour of that run: while people are in time, one is made as soon as somebody is due, and
// else once an hour.
func comesNext(at *plan.Schedule, after, lastRun int64) (first time.Time, ok bool) {
	if !at.Zone.User {
		return at.Next(time.Unix(max(after, lastRun), 0), time.UTC)
	}
	if lastRun > 0 {
		after = max(after, lastRun+int64(time.Hour/time.Second))
	}
	for minutes := -12 * 60; minutes <= 14*60; minutes += 15 {
		due, comes := at.Next(time.Unix(after, 0), time.FixedZone("", minutes*60))
		if comes && (!ok || due.Before(first)) {
			first, ok = due, true
		}
	}
	return first, ok
}

// overdue counts the people whose time has come. It reads all records of the journey.
func (d *Desk) overdue(ctx context.Context, j *store.Journey) (people int64, err error) {
	now := d.Clock.Now().Unix()
	for partition := range d.Partitions {
		for after := int64(0); ; {
			after, err = d.Page(ctx, partition, j.Number, after, func(_ int64, raw *flow.Record) bool {
				var r journey.Record
				if r.Decode(raw[:]) == nil && isOverdue(&r, now) {
					people++
				}
				return true
			})
			if err != nil {
				return 0, err
			}
			if after == 0 {
				break
			}
		}
	}
	return people, nil
}
