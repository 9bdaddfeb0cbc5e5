package suppress

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"strings"
	"time"

	"sluice"
	"sluice/flow"
	"sluice/mail"
	"sluice/store"
)

// SetsRole is the role of the process that follows foreign sets: its lease is
// that of partition 0.
const SetsRole = "sets"

// Bounds of following a set.
const (
	setPingEvery = 500 * time.Millisecond // so late a lost connection is seen, or a database that has gone back
	setPassEvery = time.Minute            // it is compared without a hint
	setAgain     = 2 * time.Second        // after an error
	setPassRest  = 100 * time.Millisecond // between two passes, however often it changes

	// setRows are read at once where what is seen of a set has to be found anew.
	setRows = 5_000
)

// SetFollower brings what a foreign set has into the suppressions, and takes out
// again what it has no more. One process does it for all: the rows are followed
// like all others. What somebody else has suppressed, or an operator has removed
// while it is in the set, is left as it is.
//
// What has been taken over is noted beside the set (flow.Set) after it is
// committed. Where that note is of another database or moment, or lost, it is made
// again out of the rows, so that members that came or went meanwhile are found. Members that
// an operator has removed are then taken over again: the rows do not say when they came.
//
// The note names the cursor of the set, a random number that each commit of rows
// changes. So a database that goes back takes the number back with the rows. The
// rest of the note must not outlive them: its members would be mailed, since they
// seem to be taken over. A process that dies between commit and note has the note
// made again, too.
type SetFollower struct {
	Set    *flow.Set
	Below  bool // members are domains with all below them
	Reason mail.SuppressReason

	Store      SetStore
	Leases     *flow.Leases
	Deployment string // what Redis and the database are of
	Clock      sluice.Clock
	Log        *slog.Logger
	Health     flow.Health // is told under source, set:NAME

	at sluice.Position // the cursor; owned by the goroutine that follows
}

// SetStore is the database of a SetFollower: its rows, and the cursor that moves
// with them.
type SetStore interface {
	mail.SuppressionStore
	store.Store
}

// Run follows while this process has the lease, until fetch ends.
func (f *SetFollower) Run(fetch, _ context.Context) {
	for fetch.Err() == nil {
		held, _ := f.Leases.Held(SetsRole)
		if len(held) == 0 {
			f.Health.Fine(f.source()) // the process with the lease says what fails
			f.Leases.WaitForChange(fetch, SetsRole, held)
			continue
		}
		ctx, stop := f.Leases.While(fetch, SetsRole, held)
		if err := f.follow(ctx); err != nil && ctx.Err() == nil {
			f.Health.Failed(f.source(), err, f.Clock.Now())
			f.Log.Warn("a set of suppressions cannot be read; its known members stay in force, and the read is retried", "set", f.Set.Name(), "error", err)
			_ = sluice.Pause(ctx, setAgain)
		}
		stop()
	}
}

// follow works until an error or the end of ctx.
func (f *SetFollower) follow(ctx context.Context) error {
	ping := time.NewTicker(setPingEvery)
	defer ping.Stop()
	again := time.NewTicker(setPassEvery)
	defer again.Stop()
	for {
		if err := f.know(ctx); err != nil {
			return err
		}
		if err := f.Pass(ctx); err != nil {
			return err
		}
		f.Health.Fine(f.source())
		_ = sluice.Pause(ctx, setPassRest)
		for wait := true; wait; {
			select {
			case <-ctx.Done():
				return nil
			case <-f.Set.Changed():
				wait = false
			case <-again.C:
				wait = false
			case <-ping.C:
				if err := f.Set.Ping(ctx); err != nil {
					return err
				}
				// While the database is away nothing is taken over: the next pass says so.
				if at, err := f.cursor(ctx); err == nil && at != f.at {
					wait = false
				}
			}
		}
	}
}

// source is that of the set's rows, and the name of its cursor.
func (f *SetFollower) source() string { return mail.SetSource + f.Set.Name() }

// cursor returns where the database is: at which commit of the set's rows.
func (f *SetFollower) cursor(ctx context.Context) (sluice.Position, error) {
	at, err := f.Store.Cursors(ctx, f.source(), []int{0})
	return at[0], err
}

// owner is what the note beside the set says when it is that of f.at.
func (f *SetFollower) owner() string { return f.Deployment + " " + f.at.String() }

// know makes sure that what is noted as seen is of this database, as it is now.
func (f *SetFollower) know(ctx context.Context) error {
	var err error
	if f.at, err = f.cursor(ctx); err != nil {
		return err
	}
	known, err := f.Set.Known(ctx)
	if err != nil {
		return err
	}
	if f.at.IsZero() { // none yet: it has to be there before the database can go back to it
		if err := f.commit(ctx, nil); err != nil {
			return err
		}
		if known == f.Deployment { // all that older versions noted; nothing says that it is wrong
			return f.Set.Know(ctx, f.owner())
		}
	}
	if known == f.owner() {
		return nil
	}
	if known != "" {
		f.Log.Warn("what was taken over of a set of suppressions is read anew from the database: one of the two has gone back, or a change was broken off",
			"set", f.Set.Name())
	}
	if err := f.Set.Forget(ctx); err != nil {
		return err
	}
	q, found := mail.SuppressionQuery{Limit: setRows}, false
	for {
		page, err := f.Store.Suppressions(ctx, q)
		if err != nil {
			return err
		}
		var seen []string
		for i := range page {
			if page[i].Source == f.source() {
				seen = append(seen, f.member(page[i].Entry))
			}
		}
		found = found || len(seen) > 0
		if err := f.Set.See(ctx, seen, true); err != nil {
			return err
		}
		if len(page) < setRows {
			break
		}
		q.After = page[len(page)-1].Key()
	}
	if found { // without a row of its own, as at first, no member is written otherwise than it
		if err := f.Set.Added(ctx, func(members []string) error { return f.asWritten(ctx, members) }); err != nil {
			return err
		}
	}
	return f.Set.Know(ctx, f.owner())
}

// asWritten notes members as the set has them that are written otherwise than their rows: what
// was noted of these would be taken for gone, unless the set has that too. Members without a row
// are left to be taken over.
func (f *SetFollower) asWritten(ctx context.Context, members []string) error {
	written, entries := make(map[string][]string, len(members)), make([]string, 0, len(members))
	for _, m := range members {
		if entry, ok := f.entry(m); ok {
			written[entry], entries = append(written[entry], m), append(entries, entry)
		}
	}
	rows, err := f.Store.SuppressionsOf(ctx, entries)
	if err != nil {
		return err
	}
	var seen, unseen []string
	for i := range rows {
		if r := &rows[i]; r.Source == f.source() && !r.Removed {
			seen, unseen = append(seen, written[r.Entry]...), append(unseen, f.member(r.Entry))
		}
	}
	if err := f.Set.See(ctx, seen, true); err != nil {
		return err
	}
	if unseen, err = f.Set.Without(ctx, unseen); err != nil {
		return err
	}
	return f.Set.See(ctx, unseen, false)
}

// Pass brings in what has changed since the last one. What has gone is first: the
// same may be there again, written otherwise.
func (f *SetFollower) Pass(ctx context.Context) error {
	if err := f.Set.Gone(ctx, func(members []string) error { return f.take(ctx, members, true) }); err != nil {
		return err
	}
	return f.Set.Added(ctx, func(members []string) error { return f.take(ctx, members, false) })
}

func (f *SetFollower) take(ctx context.Context, members []string, removed bool) error {
	now := f.Clock.Now().UnixMilli()
	changes := make([]mail.Suppression, 0, len(members))
	for _, m := range members {
		entry, ok := f.entry(m)
		if !ok {
			f.Log.Warn("a member of a set of suppressions is neither an address nor a domain", "set", f.Set.Name(), "member", m[:min(len(m), 100)])
			continue
		}
		if err := CheckWidth(entry); err != nil && !removed {
			f.Log.Warn("a member of a set of suppressions covers too much and is ignored; add it by hand with --force if it is intended", "set", f.Set.Name(), "member", m[:min(len(m), 100)])
			continue
		}
		changes = append(changes, mail.Suppression{Entry: entry, Reason: f.Reason, Source: f.source(), TimeMillis: now, Removed: removed})
	}
	if len(changes) == 0 {
		return f.Set.See(ctx, members, !removed)
	}
	if err := f.commit(ctx, changes); err != nil {
		return err
	}
	if err := f.Set.See(ctx, members, !removed); err != nil {
		return err
	}
	return f.Set.Know(ctx, f.owner())
}

// commit changes rows, and moves the cursor with them.
func (f *SetFollower) commit(ctx context.Context, changes []mail.Suppression) error {
	next := sluice.Position{Major: rand.Uint64()>>1 | 1} // not the next number: what was lost has had that
	p, err := f.Store.Prepare(&store.Effect{
		Moves:    []store.Move{{Follower: f.source(), From: f.at, To: next}},
		Suppress: changes,
	})
	if err == nil {
		_, err = f.Store.Apply(ctx, p)
	}
	if err == nil {
		f.at = next
	}
	return err
}

// member is what an entry may be called in the set.
func (f *SetFollower) member(entry string) string {
	if f.Below {
		return strings.TrimPrefix(entry, ".")
	}
	return entry
}

// entry is the entry of a member.
func (f *SetFollower) entry(member string) (string, bool) {
	entry, ok := ParseEntry(member)
	if ok && f.Below && entry[0] != '.' && !strings.Contains(entry, "@") {
		entry = "." + entry
	}
	return entry, ok
}
