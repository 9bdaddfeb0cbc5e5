package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"sluice"
	"sluice/api"
	"sluice/config"
	"sluice/flow"
	"sluice/lib/doctor"
	"sluice/mail"
	"sluice/ops/alert"
	"sluice/ops/alertstate"
)

// AlertChannels returns the ways that are set.
func AlertChannels(cfg *config.Config) (all []alert.Channel, err error) {
	a := &cfg.Alerts
	if a.Webhook != "" {
		all = append(all, alert.NewWebhook(a.Webhook.Reveal(), a.Secret.Reveal()))
	}
	if a.Email != "" {
		m, err := alert.NewMail(a.SMTP.Reveal(), a.From, a.Email)
		if err != nil {
			return nil, fmt.Errorf("alerts.email %w", err)
		}
		all = append(all, m)
	}
	return all, nil
}

func HostName() string {
	name, err := os.Hostname()
	if err != nil {
		return "unknown host"
	}
	return name
}

// watcher returns what tells people what is wrong.
func (e *core) watcher() *alert.Watcher {
	a := &e.config.Alerts
	return &alert.Watcher{
		State: &alertstate.State{Redis: e.redis, Key: flow.Partitions(e.config.Partitions)[0].AlertsKey(), Leases: e.leases}, Leases: e.leases,
		Clock: e.clock, Log: e.log, Host: HostName(), Channels: e.channels, Look: e.problems, LookTimeout: lookForProblems,
		Rules: alert.Rules{Hold: time.Duration(a.HoldSeconds) * time.Second, Repeat: time.Duration(a.RepeatHours) * time.Hour},
	}
}

// problems returns what is wrong with this process and, if it tells, with what
// all share; all: everything could be looked at.
func (e *core) problems(ctx context.Context, tells bool) (found []alert.Problem, all bool) {
	a := &e.config.Alerts
	all = e.redis.PingLogs(ctx, e.logs) == nil // without it nobody knows how far a log goes
	found = problemsOf(e.snapshot().Followers, e.stats.Followers(e.clock.Now()), a.LagSeconds)
	host := HostName()
	if free, size, err := FreeBytes(e.config.Data); err == nil && size > 0 && float64(free) < float64(size)*float64(a.DiskFreePercent)/100 {
		found = append(found, alert.Problem{Kind: alert.Disk, Subject: host,
			Summary: fmt.Sprintf("%.1f %% of the disk of the data directory on %s are free (%d MB), less than %d %%", 100*float64(free)/float64(size), host, free>>20, a.DiskFreePercent)})
	}
	found = append(found, e.domainProblems()...)
	if err := e.clockApart(); err != nil {
		found = append(found, alert.Problem{Kind: alert.Clock, Subject: host, Summary: host + ": " + err.Error()})
	}
	found = append(found, e.landingProblems(host)...)
	if tells {
		shared, known := e.sharedProblems(ctx)
		found, all = append(found, shared...), all && known
	} else {
		e.ledgerLook = ledgerLook{} // what another process finds meanwhile is not known here
	}
	return found, all
}

const (
	// askTimeout bounds the questions that are put to the database for alerts, all at
	// once: one that hangs takes no time from the others.
	askTimeout = 20 * time.Second

	// lookForProblems bounds a look: the questions, the ledger, and what asks Redis.
	lookForProblems = askTimeout + ledgerLookTimeout + 30*time.Second
)

// sharedProblems returns what is wrong with what all processes share. A database that
// does not answer is a problem too, as it is for any follower; what Redis knows is told
// all the same.
func (e *core) sharedProblems(ctx context.Context) (found []alert.Problem, all bool) {
	found, err := e.stoppedProblems(ctx)
	known, failed := e.askDatabase(ctx)
	found = append(found, known...)
	if failed != nil && ctx.Err() == nil {
		found = append(found, alert.Problem{Kind: alert.Follower, Subject: "alerts", Summary: "the database does not answer what alerts ask it: " + doctor.OneLine(failed)})
	}
	if failed != nil { // it would not compare the ledger either
		return append(found, e.ledgerLook.known()...), false
	}
	return append(found, e.ledgerLook.look(ctx, e.store, e.clock.Now(), e.log)...), err == nil
}

// askDatabase returns the problems of which the database alone knows. The error says why
// some of them are not known.
func (e *core) askDatabase(ctx context.Context) (found []alert.Problem, err error) {
	questions := []func(context.Context) ([]alert.Problem, error){e.deadProblems, e.doubtProblems, e.endpointProblems, e.heldProblems}
	answers, errs := make([][]alert.Problem, len(questions)), make([]error, len(questions))
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	var asking sync.WaitGroup
	for i, question := range questions {
		asking.Go(func() { answers[i], errs[i] = question(ctx) })
	}
	asking.Wait()
	return slices.Concat(answers...), cmp.Or(errs...)
}

func (e *core) deadProblems(ctx context.Context) ([]alert.Problem, error) {
	limit := e.config.Alerts.DeadLetters
	if limit == 0 {
		return nil, nil
	}
	n, err := e.store.CountDeadLetters(ctx)
	if err != nil || n < int64(limit) {
		return nil, err
	}
	return []alert.Problem{{Kind: alert.DeadLetters, Summary: fmt.Sprintf("%d dead letters wait; `sluice dead list` shows them", n)}}, nil
}

func (e *core) doubtProblems(ctx context.Context) (found []alert.Problem, err error) {
	limit := e.config.Alerts.InDoubt
	if limit == 0 {
		return nil, nil
	}
	mails, err := e.store.OpenDoubts(ctx)
	if err != nil {
		return nil, err
	}
	schedules, err := e.store.CountSchedules(ctx, mail.ScheduleInDoubt)
	if mails >= int64(limit) {
		found = append(found, alert.Problem{Kind: alert.InDoubt, Summary: fmt.Sprintf("%d mails are in doubt: nobody knows whether they arrived; `sluice doubt list` shows them", mails)})
	}
	if err == nil && schedules >= int64(limit) {
		found = append(found, alert.Problem{Kind: alert.InDoubt, Subject: "schedules", Summary: fmt.Sprintf("%d scheduled mails are in doubt, and not sent by themselves; `sluice schedule list` shows them", schedules)})
	}
	return found, err
}

func (e *core) endpointProblems(ctx context.Context) ([]alert.Problem, error) {
	hooks, err := e.store.Webhooks(ctx)
	return webhookProblems(hooks, e.clock.Now()), err
}

const (
	// ledgerLookEvery is how often the ledger is looked at for alerts, ledgerLookTimeout how
	// long a look may take: it may read a million rows.
	ledgerLookEvery   = 10 * time.Minute
	ledgerLookTimeout = 30 * time.Second
)

// ledgerLook is what the process that tells knows of the ledger. One goroutine, that of
// the watcher, uses it.
type ledgerLook struct {
	looked   time.Time
	compared bool // at least once, as far as it can be
	found    []alert.Problem
}

// known returns what was found when it was last compared. Until then it is unknown here,
// and another process may have told that it is wrong.
func (a *ledgerLook) known() []alert.Problem {
	if !a.compared {
		return []alert.Problem{{Kind: alert.Ledger, Unknown: true}}
	}
	return a.found
}

// look returns what is wrong with the ledger, as it was found when it was last
// compared. What was not compared is neither well nor wrong: what was known of it
// before goes on. Where there are too many rows to compare, it goes on in this process
// alone, while this one tells: no later look would ever end it. Another process, or this one
// when it tells again, has the alert end.
func (a *ledgerLook) look(ctx context.Context, store interface {
	CompareLedger(ctx context.Context) (mail.LedgerCheck, error)
}, now time.Time, log *slog.Logger) []alert.Problem {
	if since := now.Sub(a.looked); !a.looked.IsZero() && since >= 0 && since < ledgerLookEvery {
		return a.known()
	}
	a.looked = now
	ctx, cancel := context.WithTimeout(ctx, ledgerLookTimeout)
	defer cancel()
	c, err := store.CompareLedger(ctx)
	switch {
	case err != nil:
		log.Warn("the ledger could not be compared with its rows for the alerts; it is tried again", "in", ledgerLookEvery, "error", err)
	case !c.Complete: // a page, a call and the doctor say so to who asks
		a.compared = true // as far as it can be: a restart, which the remedy asks for, ends an alert, and so does another process that tells
	case c.OffBy() != 0:
		a.compared, a.found = true, []alert.Problem{{Kind: alert.Ledger, Summary: fmt.Sprintf("the ledger of mail does not add up, by %d sends: %s; `sluice doctor` names the remedy", c.OffBy(), strings.Join(c.Differences(), "; "))}}
	default:
		a.compared, a.found = true, nil
	}
	return a.known()
}

// problemsOf tells which followers are behind by lagSeconds (0: that is no
// problem), fail, or stand still at a gap. A follower is one problem of a kind,
// however many partitions it has.
func problemsOf(followers []api.Follower, failing map[string]error, lagSeconds int) (found []alert.Problem) {
	behind := make(map[string]float64) // seconds, by follower
	for _, f := range followers {
		behind[f.Name] = max(behind[f.Name], f.LagSeconds)
	}
	for name, seconds := range behind {
		if lagSeconds > 0 && seconds >= float64(lagSeconds) {
			found = append(found, alert.Problem{Kind: alert.Lag, Subject: name, Summary: fmt.Sprintf("%s is %.0f s behind", name, seconds)})
		}
	}
	for name, err := range failing {
		switch {
		case err == nil:
		case errors.Is(err, sluice.ErrGap):
			found = append(found, alert.Problem{Kind: alert.Gap, Subject: name, Summary: doctor.OneLine(err)})
		default:
			found = append(found, alert.Problem{Kind: alert.Follower, Subject: name, Summary: doctor.OneLine(err)})
		}
	}
	return found
}
