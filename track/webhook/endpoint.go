package webhook

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"sluice"
	"sluice/lib/faults"
	"sluice/store"
	"sluice/track/feed"
)

// Bounds of an endpoint.
const (
	maxRequests = 4 // at once

	// scanPages bounds what is read for one batch: pages without an event that is wanted.
	// The first page has about as many events as the batch, and the next ones have
	// pageGrowth times more each: where all is wanted little is read in vain, and where
	// little is wanted there are few looks.
	scanPages     = 8
	firstPageRows = 16
	pageGrowth    = 4

	// saveEvery is how often it is written that a lane has passed what is not wanted.
	saveEvery = 30 * time.Second

	// A failure has a pause of retryFirst, which doubles up to retryLast. Half of it is
	// random, so that what has failed together is not tried again together.
	retryFirst = 5 * time.Second
	retryLast  = time.Hour

	// restAfter is after how many failures in a row an endpoint is taken to be down: it
	// is tried by one request at a time then. Each request that fails after the pause
	// doubles the pause. Those under way when the pause began count as one failure.
	restAfter = 4

	troublePause = time.Second // after an error of the database
)

// endpoint posts to one endpoint. Its fields belong to its goroutine, but for those below
// mu, which its requests share.
type endpoint struct {
	s     *Sender
	hook  store.Webhook
	stop  context.CancelFunc
	ended chan struct{}
	lag   atomic.Int64 // milliseconds

	// client has connections of this endpoint alone: what hangs takes none of another's,
	// also on the same host.
	client *http.Client

	secrets *Secrets // set by run

	lanes map[int]*lane

	mu       sync.Mutex
	failing  int64        // as store.Webhook.FailingMillis is to be
	stored   int64        // as it is known to be; unknown: an error left that open
	stuck    map[int]bool // partitions whose batch has failed
	failures int          // in a row
	rest     time.Time
	number   int64 // of the last attempt
	slots    [2]int
	off      *ending // it is to be switched off, and this is not written yet
}

// unknown is no FailingMillis.
const unknown = -1

// lane is a partition of an endpoint.
type lane struct {
	row    store.WebhookLane // as it is stored
	seen   sluice.Place      // up to here nothing is wanted, behind row.At
	saved  time.Time
	behind time.Time // since when it has not caught up; zero: it has
}

// run posts until ctx ends.
func (e *endpoint) run(ctx, posting context.Context) {
	var err error
	if e.secrets, err = e.s.Secrets(ctx); err != nil {
		e.trouble(ctx, err)
		return // it is started again
	}
	if Mark(e.secrets.Of(e.hook.ID, e.hook.Secret)) != e.hook.SecretMark {
		reason := "its secret is not in this database, perhaps because a restore left secrets out: rotate it, and give the receiver the new one"
		if err := e.s.stopped(ctx, &e.hook, &ending{store.WebhookRestored, reason, e.hook.UpdatedMillis}); err != nil {
			e.trouble(ctx, err)
		}
		return
	}
	for ctx.Err() == nil {
		more, err := e.pass(ctx, posting)
		if errors.Is(err, errOff) {
			return
		}
		if errors.Is(err, sluice.ErrConflict) { // somebody else was here, or it was set back
			e.lanes = nil
			err = nil
		}
		switch {
		case err != nil:
			e.trouble(ctx, err)
		case !more:
			_ = sluice.Pause(ctx, feed.Every)
		}
	}
}

func (e *endpoint) trouble(ctx context.Context, err error) {
	if ctx.Err() == nil {
		e.s.Log.Warn("events could not be read for a webhook, or what became of them not be written; it is tried again", "webhook", e.hook.ID, "in", troublePause, "error", err)
		e.lanes = nil // what is in memory may not be what is stored
		_ = sluice.Pause(ctx, troublePause)
	}
}

// load reads how far the endpoint is, since when it fails, and which slots its next
// attempts get. errOff: it was removed.
func (e *endpoint) load(ctx context.Context, heads map[int]sluice.Position) error {
	now, err := e.s.Store.Webhook(ctx, e.hook.ID)
	if sluice.IsNotFound(err) {
		return errOff
	}
	if err != nil {
		return err
	}
	e.failing, e.stored = now.FailingMillis, now.FailingMillis
	rows, err := e.s.Store.WebhookLanes(ctx, e.hook.ID)
	if err != nil {
		return err
	}
	notes, err := e.s.Store.WebhookDeliveries(ctx, e.hook.ID, store.WebhookSuccesses+store.WebhookFailures)
	if err != nil {
		return err
	}
	if len(rows) < len(heads) { // logs that nobody had read when it was added
		err = e.s.Store.FillWebhookLanes(ctx, e.hook.ID, e.s.Heads.Follower)
		if sluice.IsNotFound(err) {
			return errOff
		}
		if err == nil {
			rows, err = e.s.Store.WebhookLanes(ctx, e.hook.ID)
		}
		if err != nil {
			return err
		}
	}
	e.slots, e.number = [2]int{}, 0
	for _, n := range slices.Backward(notes) { // the newest of each kind comes last
		e.number = max(e.number, n.Number)
		if n.Slot < store.WebhookSuccesses {
			e.slots[0] = n.Slot + 1
		} else {
			e.slots[1] = n.Slot - store.WebhookSuccesses + 1
		}
	}
	e.lanes, e.stuck = make(map[int]*lane, len(rows)), make(map[int]bool)
	for part, row := range rows {
		e.lanes[part] = &lane{row: row, seen: row.At, saved: e.s.Clock.Now()}
		if row.SinceMillis != 0 {
			e.stuck[part] = true
		}
	}
	if len(e.stuck) == 0 {
		e.failing = 0 // a replay has set it back, or an older program has left this
	}
	return e.sayLost(ctx, heads, notes)
}

// pass posts a batch of each lane that has something. It loads the lanes first if there
// are none, or if the store has begun logs that had no lane when they were loaded. more:
// another pass may begin at once. errOff: there is nothing left to do.
func (e *endpoint) pass(ctx, posting context.Context) (more bool, err error) {
	if e.off != nil {
		return false, e.switchOff(ctx)
	}
	heads, err := e.s.Heads.Get(ctx)
	if err != nil {
		return false, err
	}
	if e.lanes == nil || len(e.lanes) < len(heads) {
		if err := e.load(ctx, heads); err != nil {
			return false, err
		}
	}
	due, most := e.due(heads)
	var again atomic.Bool
	var group errgroup.Group
	group.SetLimit(most)
	for _, l := range due {
		if ctx.Err() != nil {
			break
		}
		group.Go(func() error {
			if most > 1 && e.down() { // others of this pass have failed
				return nil
			}
			more, err := e.step(ctx, posting, l)
			if more {
				again.Store(true)
			}
			return err
		})
	}
	err = group.Wait()
	return again.Load(), err
}

// down reports whether the endpoint is taken to be down.
func (e *endpoint) down() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.failures >= restAfter
}

// due returns the lanes that have something now, or have passed something, and how many of them may be worked on at
// once. It notes how far behind the furthest one is.
func (e *endpoint) due(heads map[int]sluice.Position) (all []*lane, most int) {
	now := e.s.Clock.Now()
	lag := int64(0)
	for _, part := range slices.Sorted(maps.Keys(heads)) {
		l := e.lanes[part]
		if l == nil {
			continue // the next pass loads it
		}
		marked := l.row.To != sluice.Place{}
		if !marked && !store.EndOf(part, heads[part]).Behind(l.seen) {
			l.behind = time.Time{}
			if l.seen != l.row.At && now.Sub(l.saved) >= saveEvery {
				all = append(all, l) // so that it is known that it has missed nothing
			}
			continue
		}
		if l.behind.IsZero() {
			l.behind = now
		}
		lag = max(lag, now.Sub(l.behind).Milliseconds())
		if !marked || l.row.DueMillis <= now.UnixMilli() {
			all = append(all, l)
		}
	}
	e.lag.Store(lag)
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case now.Before(e.rest):
		return nil, 1
	case e.failures >= restAfter && len(all) > 0: // whether it lives again
		slices.SortFunc(all, func(a, b *lane) int { return cmp.Compare(a.row.DueMillis, b.row.DueMillis) })
		return all[:1], 1
	}
	return all, maxRequests
}

// step marks and posts the next batch of a lane.
func (e *endpoint) step(ctx, posting context.Context, l *lane) (more bool, err error) {
	after, upTo := l.seen, l.row.To
	marked := upTo != sluice.Place{}
	if marked {
		after = l.row.At
	}
	b, err := e.gather(ctx, after, upTo)
	if err != nil {
		return false, err
	}
	if len(b.events) == 0 {
		return b.more, e.passed(ctx, l, b.end, marked)
	}
	if !marked || b.end != upTo {
		next := l.row
		next.At, next.To = after, b.end
		if marked {
			next.Attempts++ // so that the row changes
		}
		if err := e.move(ctx, l, store.WebhookMove{To: next}); err != nil {
			return false, err
		}
	}
	if err := faults.Hit("webhook-marked"); err != nil {
		return false, err
	}
	at := e.s.Clock.Now()
	answer := post(posting, e.client, e.secrets, &e.hook, messageID(e.hook.ID, l.row.At, l.row.To), at, b.body(&e.hook, at))
	if posting.Err() != nil {
		return false, nil // nobody knows; the next holder of the lease posts it again
	}
	if err := faults.Hit("webhook-posted"); err != nil {
		return false, err
	}
	return b.more, e.record(context.WithoutCancel(ctx), l, b, at, answer)
}

// gather reads the next batch behind a place, up to another one unless that is zero.
func (e *endpoint) gather(ctx context.Context, after, upTo sluice.Place) (b batch, err error) {
	filter := feed.Filter{Types: e.hook.Types}
	b.end = after
	most := e.hook.Batch
	if e.hook.Format == FormatBraze {
		most = 1
	}
	rows := max(most, firstPageRows)
	for range scanPages {
		page, err := e.s.Store.FeedPage(ctx, e.s.Heads.Follower, after.Partition, b.end, rows)
		if err != nil {
			return b, err
		}
		rows = min(pageGrowth*rows, store.MaxFeedRows)
		for i := range page.Events {
			ev := &page.Events[i]
			if upTo != (sluice.Place{}) && ev.Place.Behind(upTo) {
				b.end, b.more = upTo, true
				return b, nil
			}
			// Events of one item stay together: a place is all that is kept of them.
			if (len(b.events) >= most || b.size >= maxBodyBytes) && ev.Place != b.end {
				b.more = true
				return b, nil
			}
			b.end = ev.Place
			if filter.Takes(&ev.Event) {
				b.add(&e.hook, &ev.Event)
			}
		}
		b.end, b.more = page.End, page.More
		if upTo != (sluice.Place{}) && !upTo.Behind(page.End) {
			b.end, b.more = upTo, true
			return b, nil
		}
		// A page ends behind all events of a place. One that was marked ends where it did
		// when it was read first: events may have come behind it since.
		if !page.More || upTo == (sluice.Place{}) && (len(b.events) >= most || b.size >= maxBodyBytes) {
			break
		}
	}
	return b, nil
}

// passed notes that nothing is wanted up to a place: at once if it was marked that
// something is, else now and then.
func (e *endpoint) passed(ctx context.Context, l *lane, end sluice.Place, marked bool) error {
	l.seen = end
	if now := e.s.Clock.Now(); marked || now.Sub(l.saved) >= saveEvery && l.row.At != end {
		l.saved = now
		next := store.WebhookLane{Webhook: e.hook.ID, At: end}
		e.mu.Lock()
		e.sticks(&next)
		return e.moveFailing(ctx, l, store.WebhookMove{To: next})
	}
	return nil
}

// move changes a lane as it is stored, and then here.
func (e *endpoint) move(ctx context.Context, l *lane, m store.WebhookMove) error {
	m.From = l.row
	if err := e.s.Store.MoveWebhook(ctx, m); err != nil {
		return err
	}
	l.row = m.To
	return nil
}

// record writes what became of a post that began at a time.
func (e *endpoint) record(ctx context.Context, l *lane, b batch, began time.Time, a answer) error {
	now := e.s.Clock.Now()
	next := l.row
	m := store.WebhookMove{Note: &store.WebhookDelivery{
		Message: messageID(e.hook.ID, l.row.At, l.row.To), AtMillis: now.UnixMilli(), Partition: l.row.At.Partition, Events: len(b.events),
		Attempt: l.row.Attempts + 1, Outcome: store.DeliveryDone, Status: a.status, Error: a.failure, TookMillis: a.took.Milliseconds(),
	}}
	e.mu.Lock()
	if a.failure == "" {
		e.s.Stats.Delivered.Add(1)
		e.s.Stats.Events.Add(int64(len(b.events)))
		e.failing, e.failures, e.rest = 0, 0, time.Time{}
		next = store.WebhookLane{Webhook: e.hook.ID, At: l.row.To}
	} else {
		e.failed(&next, &m, began, now, a.retryAfter)
	}
	e.sticks(&next)
	e.number++
	m.Note.Number, m.Note.Slot = e.number, e.slot(m.Note.Outcome)
	failing := e.failing
	m.To = next
	l.saved = now
	if err := e.moveFailing(ctx, l, m); err != nil {
		return err
	}
	if next.To == (sluice.Place{}) {
		l.seen = next.At
	}
	switch giveUp := time.UnixMilli(failing).Add(e.s.GiveUp); {
	case a.gone:
		return e.ends(ctx, &ending{store.WebhookGone, "it answered 410 Gone: the receiver wants no more", now.UnixMilli()})
	case failing != 0 && !now.Before(giveUp):
		return e.ends(ctx, &ending{store.WebhookFailing, "nothing has reached it for " + e.s.GiveUp.String() + "; the last attempt: " + a.failure, giveUp.UnixMilli()})
	}
	return nil
}

// ends switches the endpoint off, or has the next pass do it. Of several reasons the first
// counts.
func (e *endpoint) ends(ctx context.Context, why *ending) error {
	e.mu.Lock()
	if e.off == nil {
		e.off = why
	}
	e.mu.Unlock()
	return e.switchOff(ctx)
}

func (e *endpoint) switchOff(ctx context.Context) error {
	return cmp.Or(e.s.stopped(ctx, &e.hook, e.off), errOff)
}

// sticks notes whether the batch of a lane that is to be so has failed. Where none has, the
// endpoint does not fail: what has failed was given up, or nothing of it is wanted any more.
func (e *endpoint) sticks(next *store.WebhookLane) {
	if next.SinceMillis != 0 {
		e.stuck[next.At.Partition] = true
	} else if delete(e.stuck, next.At.Partition); len(e.stuck) == 0 {
		e.failing = 0
	}
}

// moveFailing moves a lane, and writes since when the endpoint fails if that is not what is
// stored. It is called with the lock, and gives it back: at once, unless this is written.
// Else two lanes could write it in another order than that in which they found it.
func (e *endpoint) moveFailing(ctx context.Context, l *lane, m store.WebhookMove) error {
	if e.failing == e.stored {
		e.mu.Unlock()
		return e.move(ctx, l, m)
	}
	defer e.mu.Unlock()
	failing := e.failing
	m.Failing, e.stored = &failing, unknown
	err := e.move(ctx, l, m)
	if err == nil {
		e.stored = failing
	}
	return err
}

// errOff says that an endpoint is off: nothing is posted any more.
var errOff = errors.New("the webhook is off")

// failed notes a failure. A batch that has failed for too long is given up, but only
// where others have arrived since: else it is the endpoint that fails. How long is counted
// from the last change by people on, as it is for the endpoint: else one that is switched
// on again, and fails on, would have begun to fail after its batches.
func (e *endpoint) failed(next *store.WebhookLane, m *store.WebhookMove, began, now time.Time, retryAfter time.Duration) {
	e.s.Stats.Failed.Add(1)
	m.Note.Outcome = store.DeliveryFailed
	e.rests(began, now, retryAfter)
	if e.failing == 0 {
		e.failing = now.UnixMilli()
	}
	if next.SinceMillis < e.hook.UpdatedMillis { // the first one, or people have mended something since
		next.SinceMillis = now.UnixMilli()
	}
	next.Attempts++
	next.DueMillis = now.Add(max(retryAfter, pauseAfter(next.Attempts))).UnixMilli()
	if e.failing > next.SinceMillis && now.Sub(time.UnixMilli(next.SinceMillis)) >= e.s.GiveUp {
		e.s.Stats.GivenUp.Add(1)
		e.s.Log.Error("events were given up: a webhook takes others and not these; `sluice webhook deliveries` shows them", "webhook", e.hook.ID, "message", m.Note.Message, "events", m.Note.Events, "error", m.Note.Error)
		m.Note.Outcome = store.DeliveryGivenUp
		*next = store.WebhookLane{Webhook: e.hook.ID, At: next.To}
	}
}

// rests counts the failure of a request that began at a time, and has the endpoint rest
// if there were too many. Requests that were under way together when the rest began say
// the same thing: a short failure of the receiver must not become a long pause.
func (e *endpoint) rests(began, now time.Time, retryAfter time.Duration) {
	pause := retryAfter
	if e.failures < restAfter || !began.Before(e.rest) {
		e.failures++
		pause = max(pause, pauseAfter(max(e.failures-restAfter+1, 1)))
	}
	if rest := now.Add(pause); e.failures >= restAfter && rest.After(e.rest) {
		e.rest = rest
	}
}

// slot returns where the next attempt of an outcome is kept.
func (e *endpoint) slot(outcome string) int {
	if outcome == store.DeliveryDone {
		e.slots[0]++
		return (e.slots[0] - 1) % store.WebhookSuccesses
	}
	e.slots[1]++
	return store.WebhookSuccesses + (e.slots[1]-1)%store.WebhookFailures
}

// pauseAfter is the pause after so many failures in a row.
func pauseAfter(failures int) time.Duration {
	pause := retryLast
	if failures < 16 {
		pause = min(retryFirst<<(failures-1), retryLast)
	}
	return pause/2 + rand.N(pause/2)
}
