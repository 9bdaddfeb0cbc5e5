package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"sluice/api"
	"sluice/flow"
	"sluice/lib/doctor"
	"sluice/mail"
	"sluice/ops/alert"
	"sluice/store"
)

// looked is what the next look at a ledger finds.
type looked struct {
	check mail.LedgerCheck
	err   error
	looks int
}

func (l *looked) CompareLedger(context.Context) (mail.LedgerCheck, error) {
	l.looks++
	return l.check, l.err
}

// The ledger is looked at now and then; until it was compared again, what was
// known of it stays.
func TestLooksAtTheLedger(t *testing.T) {
	good := mail.LedgerCheck{Complete: true, Sums: []mail.LedgerSum{{Class: mail.ClassMarketing, State: mail.SendSent, Total: 3, Rows: 3}}}
	wrong := mail.LedgerCheck{Complete: true, Sums: []mail.LedgerSum{{Class: mail.ClassMarketing, State: mail.SendSent, Total: 3, Removed: 1, Rows: 1}}}
	many := mail.LedgerCheck{Sums: good.Sums}
	var a ledgerLook
	l, now := &looked{}, time.Unix(1_800_000_000, 0)
	for i, step := range []struct {
		check mail.LedgerCheck
		err   error
		after time.Duration
		told  int
		looks int
	}{
		{check: good, looks: 1},
		{check: wrong, after: ledgerLookEvery - 1, looks: 1},
		{check: wrong, after: 1, told: 1, looks: 2},
		{check: many, after: ledgerLookEvery, told: 1, looks: 3},
		{err: errors.New("away"), after: ledgerLookEvery, told: 1, looks: 4},
		{check: good, after: -time.Hour, looks: 5}, // the clock was set back
		{check: many, after: ledgerLookEvery, looks: 6},
	} {
		l.check, l.err = step.check, step.err
		now = now.Add(step.after)
		if found := a.look(t.Context(), l, now, slog.New(slog.DiscardHandler)); len(found) != step.told || l.looks != step.looks {
			t.Errorf("step %d: looked %d times, want %d; found %+v, want %d", i, l.looks, step.looks, found, step.told)
		}
	}
}

// Until this process has compared the ledger in full, nobody knows whether what another one
// has told of it has ended.
func TestALedgerThatWasNotCompared(t *testing.T) {
	var a ledgerLook
	l, now, log := &looked{err: errors.New("away")}, time.Unix(1_800_000_000, 0), slog.New(slog.DiscardHandler)
	look := func(check mail.LedgerCheck, err error) []alert.Problem {
		l.check, l.err = check, err
		now = now.Add(ledgerLookEvery)
		return a.look(t.Context(), l, now, log)
	}
	unknown := []alert.Problem{{Kind: alert.Ledger, Unknown: true}}
	if found := a.known(); !slices.Equal(found, unknown) {
		t.Errorf("before a look: %+v", found)
	}
	if found := look(mail.LedgerCheck{}, errors.New("away")); !slices.Equal(found, unknown) {
		t.Errorf("without an answer: %+v", found)
	}
	if found := look(mail.LedgerCheck{}, nil); len(found) != 0 {
		t.Errorf("too large to compare: %+v", found)
	}
	wrong := mail.LedgerCheck{Complete: true, Sums: []mail.LedgerSum{{Total: 1}}}
	if found := look(wrong, nil); len(found) != 1 || found[0].Unknown {
		t.Errorf("it does not add up: %+v", found)
	}
	if found := look(mail.LedgerCheck{}, nil); len(found) != 1 || found[0].Unknown {
		t.Errorf("too large to compare, later: %+v", found)
	}
	if found := look(mail.LedgerCheck{Complete: true}, nil); len(found) != 0 {
		t.Errorf("compared: %+v", found)
	}
	if found := look(mail.LedgerCheck{}, errors.New("away")); len(found) != 0 {
		t.Errorf("without an answer later: %+v", found)
	}
}

// A follower is told of once, by what is wrong with it.
func TestProblemsOfFollowers(t *testing.T) {
	followers := []api.Follower{{Name: "store", Partition: 0, LagSeconds: 299}, {Name: "store", Partition: 1, LagSeconds: 400}, {Name: "list:q", LagSeconds: 2}}
	gap := fmt.Errorf("partition 3 stands still: %w", &flow.GapError{What: "log of partition 3"})
	failing := map[string]error{"table:q": errors.New("no such table\nopens"), "store": gap, "list:r": nil}
	found := func(lagSeconds int) string {
		var all []string
		for _, p := range problemsOf(followers, failing, lagSeconds) {
			all = append(all, p.Kind+" "+p.Subject+": "+p.Summary)
		}
		slices.Sort(all)
		return strings.Join(all, "\n")
	}
	rest := "follower table:q: no such table; opens\ngap store: " + doctor.OneLine(gap)
	if got, want := found(300), rest+"\nlag store: store is 400 s behind"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := found(0); got != rest {
		t.Errorf("without a bound on the lag:\n%s", got)
	}
}

// A webhook that gets nothing though somebody wants it to is a problem.
func TestProblemsOfWebhooks(t *testing.T) {
	now := time.UnixMilli(1_780_000_000_000)
	since := now.Add(-webhookFailing).UnixMilli()
	var all []string
	for _, p := range webhookProblems([]store.Webhook{
		{ID: "works", Status: store.WebhookOn}, {ID: "a while", Status: store.WebhookOn, FailingMillis: since + 1}, {ID: "down", Status: store.WebhookOn, FailingMillis: since},
		{ID: "off", Status: store.WebhookOff, FailingMillis: since}, {ID: "failing", Status: store.WebhookFailing, Reason: "r1"}, {ID: "gone", Status: store.WebhookGone, Reason: "r2"},
		{ID: "restored", Status: store.WebhookRestored, Reason: "r3"},
	}, now) {
		all = append(all, p.Kind+" "+p.Subject+": "+p.Summary)
	}
	want := []string{"webhook down: nothing has reached webhook down since 2026-05-28T19:26:40Z; `sluice webhook deliveries` shows why",
		"webhook failing: webhook failing was switched off: r1", "webhook gone: webhook gone was switched off: r2", "webhook restored: webhook restored was switched off: r3"}
	if !slices.Equal(all, want) {
		t.Errorf("got  %q\nwant %q", all, want)
	}
}
