package suppress

import (
	"context"
	"log/slog"
	"strings"
	"time"

	"sluice"
	"sluice/flow"
	"sluice/mail"
)

// SetsRole is the role of the process that follows foreign sets: its lease is
// that of partition 0.
const SetsRole = "sets"

// Bounds of following a set.
const (
	setPingEvery = 500 * time.Millisecond // so late a lost connection is seen
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
// committed. Where that note is of another database, or lost, it is made again out
// of the rows, so that members that went meanwhile are found.
type SetFollower struct {
	Set    *flow.Set
	Below  bool // members are domains with all below them
	Reason mail.SuppressReason

	Store      mail.SuppressionStore
	Leases     *flow.Leases
	Deployment string // what Redis and the database are of
	Clock      sluice.Clock
	Log        *slog.Logger
}

// Run follows while this process has the lease, until fetch ends.
func (f *SetFollower) Run(fetch, _ context.Context) {
	for fetch.Err() == nil {
		held, _ := f.Leases.Held(SetsRole)
		if len(held) == 0 {
			f.Leases.WaitForChange(fetch, SetsRole, held)
			continue
		}
		ctx, stop := f.Leases.While(fetch, SetsRole, held)
		if err := f.follow(ctx); err != nil && ctx.Err() == nil {
			f.Log.Warn("a set of suppressions cannot be read; its known members stay in force, and the read is retried", "set", f.Set.Name(), "error", err)
			_ = sluice.Pause(ctx, setAgain)
		}
		stop()
	}
}

// follow works until an error or the end of ctx.
func (f *SetFollower) follow(ctx context.Context) error {
	if err := f.know(ctx); err != nil {
		return err
	}
	ping := time.NewTicker(setPingEvery)
	defer ping.Stop()
	again := time.NewTicker(setPassEvery)
	defer again.Stop()
	for {
		if err := f.Pass(ctx); err != nil {
			return err
		}
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
			}
		}
	}
}

// source is that of the set's rows.
func (f *SetFollower) source() string { return mail.SetSource + f.Set.Name() }

// know makes sure that what is noted as seen is of this database.
func (f *SetFollower) know(ctx context.Context) error {
	known, err := f.Set.Known(ctx)
	if err != nil || known == f.Deployment {
		return err
	}
	if err := f.Set.Forget(ctx); err != nil {
		return err
	}
	q := mail.SuppressionQuery{Limit: setRows}
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
		if err := f.Set.See(ctx, seen, true); err != nil {
			return err
		}
		if len(page) < setRows {
			return f.Set.Know(ctx, f.Deployment)
		}
		q.After = page[len(page)-1].Key()
	}
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
	if _, err := f.Store.Suppress(ctx, changes); err != nil {
		return err
	}
	return f.Set.See(ctx, members, !removed)
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
