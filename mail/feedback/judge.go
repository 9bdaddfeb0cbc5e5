package feedback

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"sluice"
	"sluice/flow"
	"sluice/mail"
)

// databaseWithin bounds each question to the database.
const databaseWithin = 5 * time.Second

// Run writes counts and judges them, until fetch ends. What was counted since the last
// write is lost with the process. What asks the database, for reports and for journeys, is
// beside the rest: one that hangs must not delay the stop of a route or a tag.
func (w *Watch) Run(fetch, _ context.Context) {
	if !w.Limits.any() {
		return
	}
	var beside sync.WaitGroup
	beside.Go(func() {
		w.repeat(fetch, "reports of mail could not be looked up, and do not count", w.lookUp, "what became of the mail of journeys could not be judged, it is tried again", w.judgeJourneys)
	})
	w.repeat(fetch, "what became of mail could not be counted, it is tried again", w.flush, "what became of mail could not be judged, it is tried again", w.judgeMail)
	beside.Wait()
}

// step is a part of the work. It is tried again later if it fails.
type step func(context.Context) error

// repeat counts and judges again and again until ctx ends, and logs what has failed.
func (w *Watch) repeat(ctx context.Context, notCounted string, count step, notJudged string, judge step) {
	tick := time.NewTicker(flushEvery)
	defer tick.Stop()
	var judged time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		w.try(ctx, notCounted, count)
		if now := w.Clock.Now(); now.Sub(judged) >= judgeEvery || now.Before(judged) {
			judged = now
			w.try(ctx, notJudged, judge)
		}
	}
}

// try does a step, and says what failed.
func (w *Watch) try(ctx context.Context, failed string, do step) {
	if err := do(ctx); err != nil && ctx.Err() == nil {
		w.Log.Warn(failed, "error", err)
	}
}

// lookUp counts reports, by what the ledger knows of their sends. Those of sends that
// it does not know count for nothing.
func (w *Watch) lookUp(ctx context.Context) error {
	w.mu.Lock()
	reports := w.reports
	w.reports = nil
	w.mu.Unlock()
	for piece := range slices.Chunk(reports, lookAtOnce) {
		keys := make([]mail.SendKey, len(piece))
		for i := range piece {
			keys[i] = mail.SendKey{Message: piece[i].Message, Number: max(0, piece[i].Number)} // all of a message have its tags
		}
		rows, err := w.rows(ctx, keys)
		if err != nil {
			return fmt.Errorf("look up the sends of %d reports: %w", len(reports), err) // they are lost: the ledger is away, or too slow
		}
		byKey := make(map[mail.SendKey]*mail.SendRow, len(rows))
		for i := range rows {
			byKey[rows[i].Key()] = &rows[i]
		}
		for i := range piece {
			row := byKey[keys[i]]
			if row == nil || !w.counts(row.Class, row.Route) {
				continue
			}
			of, bad := whatOf(piece[i].Class)
			if piece[i].Complaint {
				of, bad = complained, true
			}
			if bad {
				w.add(row.Class, row.Route, row.Tags, row.Journey, of)
			}
		}
	}
	return nil
}

// rows is what the ledger knows of sends, if it says so in time.
func (w *Watch) rows(ctx context.Context, keys []mail.SendKey) ([]mail.SendRow, error) {
	ctx, cancel := context.WithTimeout(ctx, databaseWithin)
	defer cancel()
	return w.Ledger.SendRows(ctx, keys)
}

// flush writes what was counted. What Redis does not take is kept: of tags as far as there
// is room.
func (w *Watch) flush(ctx context.Context) error {
	w.mu.Lock()
	cells := w.cells
	w.cells = nil
	w.mu.Unlock()
	if len(cells) == 0 {
		return nil
	}
	counts := make([]flow.FeedbackCount, 0, len(cells))
	for c, n := range cells {
		if field := c.field(); field != "" {
			counts = append(counts, flow.FeedbackCount{Field: field, By: n, Always: c.of != ofTag})
		}
	}
	left, err := w.Redis.AddFeedback(ctx, w.stretch(0), counts, maxFields, 2*w.Limits.Window)
	w.dropped.Add(left)
	if err != nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		for c, n := range cells { // an answer that was lost counts twice: it is a rate, and rare
			if w.cells == nil {
				w.cells = make(map[cell]int64, len(cells))
			}
			if _, known := w.cells[c]; !known && c.of == ofTag && len(w.cells) >= maxCells {
				w.dropped.Add(n)
				continue
			}
			w.cells[c] += n
		}
	}
	return err
}

// stretch is the number of a stretch of time, some before the present one.
func (w *Watch) stretch(before int64) int64 {
	return w.Clock.Now().UnixMilli()/max(1, w.Limits.Window.Milliseconds()/stretches) - before
}

// journeyMark is how the names of journeys begin among those of selections.
const journeyMark = "journey:"

// field names a count: the name of the selection that would be stopped, and what became
// of its mail. Empty: nobody could stop it.
func (c cell) field() string {
	by, class := mail.SelectRoute, ""
	switch c.of {
	case ofTag:
		by = mail.SelectTag
	case ofJourney:
		return journeyMark + c.name + " " + whatWords[c.what]
	}
	if c.class != 0 {
		class = c.class.String()
	}
	s, err := mail.NewSelector(by, c.name)
	if err == nil {
		s, err = s.Of(class)
	}
	if err != nil {
		return ""
	}
	return s.Name() + " " + whatWords[c.what]
}

// judgeMail stops mail that is beyond a limit, and judgeJourneys pauses journeys, each if
// this process has the lease.
func (w *Watch) judgeMail(ctx context.Context) error     { return w.judge(ctx, false) }
func (w *Watch) judgeJourneys(ctx context.Context) error { return w.judge(ctx, true) }

func (w *Watch) judge(ctx context.Context, journeys bool) error {
	if !w.Judges() {
		return nil
	}
	var window []int64
	for i := range int64(stretches) {
		window = append(window, w.stretch(i))
	}
	counts, err := w.Redis.Feedback(ctx, window)
	if err != nil {
		return err
	}
	var beyond []Pause
	for _, field := range slices.Sorted(maps.Keys(counts)) {
		if name, ok := strings.CutSuffix(field, " "+whatWords[answered]); ok {
			if p := w.beyond(name, counts); p != nil && (p.Journey != "") == journeys {
				beyond = append(beyond, *p)
			}
		}
	}
	if len(beyond) == 0 {
		return nil
	}
	return w.stop(ctx, beyond, window)
}

// stop stops what is beyond a limit. Of what stands already because of a limit it does
// what was left undone: Redis went away, or the process, right after it was stopped.
func (w *Watch) stop(ctx context.Context, beyond []Pause, window []int64) error {
	stopped, err := w.Operator.Stopped(ctx)
	if err != nil {
		return err
	}
	var errs []error
	for i := range beyond {
		p := &beyond[i]
		note, err := stopped[p.Name()], error(nil)
		if note == "" {
			note, err = w.carryOut(ctx, p)
		}
		if err == nil {
			err = w.settle(ctx, p, note, window)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// beyond returns what a selection has too much of; nil: nothing.
func (w *Watch) beyond(name string, counts map[string]int64) *Pause {
	mails := counts[name+" "+whatWords[answered]]
	if mails < int64(w.Limits.Mails) {
		return nil
	}
	s, ok := mail.ParseSelector(name)
	journey := ""
	if !ok {
		if journey, ok = strings.CutPrefix(name, journeyMark); !ok || w.PauseJourney == nil {
			return nil
		}
	}
	for of, limit := range [...]int{complained: w.Limits.Complaints, blocked: w.Limits.Blocks, bounced: w.Limits.Bounces} {
		if n := counts[name+" "+whatWords[of]]; limit > 0 && n >= leastCount && n*1000 > mails*int64(limit) {
			return &Pause{Selector: s, Journey: journey, At: w.Clock.Now(), What: whatWords[of], Count: n, Mails: mails, PerMille: limit, Window: w.Limits.Window}
		}
	}
	return nil
}

// settle says that mail was stopped, and forgets what was counted of it: an operator who
// lets it go on knows that. Both may be done again: the note says when it was stopped, so
// that each time the same is said. What stands for another reason stays as it is.
func (w *Watch) settle(ctx context.Context, p *Pause, note string, window []int64) error {
	before, _, itself := strings.Cut(note, NoteMark)
	if !itself {
		return nil
	}
	at, err := time.Parse(time.RFC3339, strings.TrimSpace(before))
	if p.At = at; err == nil && w.Paused != nil { // an older program gave a journey no time, and has told
		if err := w.Paused(ctx, p); err != nil {
			return err // with the counts it would be forgotten for ever
		}
	}
	fields := make([]string, len(whatWords))
	for i, word := range whatWords {
		fields[i] = p.Name() + " " + word
	}
	return w.Redis.ForgetFeedback(ctx, window, fields)
}

// carryOut stops the mail of a selection, or pauses a journey, and returns the note with
// which it stands now. Empty: the journey is not live, and nothing of it leaves.
func (w *Watch) carryOut(ctx context.Context, p *Pause) (note string, err error) {
	fresh, why := true, NoteMark+p.Why()
	if p.Journey != "" {
		within, cancel := context.WithTimeout(ctx, databaseWithin)
		defer cancel()
		note, fresh, err = w.PauseJourney(within, p.Journey, p.At.UTC().Format(time.RFC3339)+" "+why)
	} else {
		err = w.Operator.Stop(ctx, p.Selector, why)
	}
	if errors.Is(err, sluice.ErrFull) {
		w.Log.Error("mail is beyond a limit, and goes on: too much is stopped already", "mail", p.String(), "why", p.Why())
	}
	if err != nil || !fresh {
		return note, err
	}
	w.pauses.Add(1)
	w.Log.Error("mail was stopped, until an operator lets it go on", "mail", p.String(), "why", p.Why())
	if p.Journey == "" {
		var stopped map[string]string
		stopped, err = w.Operator.Stopped(ctx) // the operator has given it its time
		note = stopped[p.Name()]
	}
	return note, err
}

// Name names what was stopped: a selection, or journey:ID.
func (p *Pause) Name() string {
	if p.Journey != "" {
		return journeyMark + p.Journey
	}
	return p.Selector.Name()
}

// String says which mail was stopped.
func (p *Pause) String() string {
	if p.Journey != "" {
		return "the journey " + p.Journey
	}
	return p.Selector.String()
}

// Why says why mail was stopped.
func (p *Pause) Why() string {
	return fmt.Sprintf("%.1f %% of %d mails within %d minutes were %s, the limit is %.1f %%", 100*float64(p.Count)/float64(p.Mails), p.Mails, int(p.Window.Minutes()), p.words(), float64(p.PerMille)/10)
}

// words says what became of mails.
func (p *Pause) words() string {
	switch p.What {
	case whatWords[complained]:
		return "complained of"
	case whatWords[blocked]:
		return "blocked because of their sender"
	}
	return "returned (bounced)"
}
