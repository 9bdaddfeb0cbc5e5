package bench

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"sluice"
	"sluice/flow"
	"sluice/ingest"
	moving "sluice/journey/run"
	"sluice/mail"
	"sluice/mail/spool"
	"sluice/mail/template"
	"sluice/mail/via/smtp"
	"sluice/store"
	"sluice/user"
)

// The part `mails` of `bench journey`: a message step of a journey, whose mails are made
// of a template, marked, sent to smtp-sink and put into the ledger. Beside it, in the same
// run, are as many mails of the same template to the same people that a caller hands in.
// Everybody comes to the message step; when so many mails are sent the others still wait.
const (
	journeyMails, journeyMailsQuick = 300_000, 10_000 // that are sent, at most
	mailsWithin                     = time.Hour
	mailsAhead                      = 200_000 // people behind those whose mails are sent have profiles, too
	mailsMargin                     = 1 << 20 // bytes that the logs keep of what is stored, which is no mail that waits
)

const mailsJourney = `
id: mails
entry: {when: {api: true}}
steps:
  - {id: pause, delay: {for: 1h}, next: mail}
  - {id: mail, message: {template: bench}}
`

// mailsBench is what both have.
type mailsBench struct {
	*spoolRig
	env    *env
	kind   string // of the database
	mails  int64  // that are sent
	people int64  // who come to the step

	before  time.Duration // computed before the first mail was made
	started time.Time
}

// start begins the measurement.
func (b *mailsBench) start() (err error) {
	b.before, err = cpuTimeOf(os.Getpid())
	b.started = time.Now()
	return err
}

// journeyOfMails measures both.
func journeyOfMails(ctx context.Context, e *env, db database, kind string) error {
	r := e.run
	people := int64(pick(r, journeyUsers, journeyUsersQuick))
	if r.users > 0 {
		people = int64(r.users)
	}
	mails := min(people, int64(pick(r, journeyMails, journeyMailsQuick)))
	r.report.Settings["mails"] = fmt.Sprintf("%d are sent, while %d people wait at the step; the logs keep %d bytes of what is stored; with SQLite the computing of the database is in that of Sluice", mails, people, mailsMargin)
	address, stop, err := startSMTPSink(ctx)
	if err != nil {
		return err
	}
	defer stop()
	for _, part := range []struct {
		id, label string
		make      func(*mailsBench, context.Context) (stop func(), err error)
	}{{"mails_sent", "mails of a template, handed in", (*mailsBench).handIn}, {"mails_journey", "mails of a message step", (*mailsBench).move}} {
		r.say("%s", part.label)
		if err := mailsRow(ctx, e, db, address, mails, people, kind+"_"+part.id, kind+", "+part.label, part.make); err != nil {
			return err
		}
	}
	return nil
}

// mailsRow measures one of them: from the first mail that is made to the last that is sent.
// Computing counts until the ledger has all that was sent: what is handed in at once is sent
// ahead of the store, and people at a step wait for the store.
func mailsRow(ctx context.Context, e *env, db database, address string, mails, people int64, id, label string, begin func(*mailsBench, context.Context) (func(), error)) (err error) {
	if err := errors.Join(db.fresh(ctx), e.redis.Clear(ctx)); err != nil {
		return err
	}
	relay, err := smtp.New(smtp.Options{Name: "sink", Address: address, TLS: smtp.TLSNone, Idle: time.Minute})
	if err != nil {
		return err
	}
	mailer := &spool.Mailer{Clock: sluice.SystemClock{}}
	s, err := openSpool(ctx, e, db, relay, mailer, mailsMargin)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close(ctx), relay.Close()) }()
	s.sender.Record, s.sender.StoredBy = s.store, ingest.StoreRole
	mailer.Templates, mailer.Users = template.NewCache(s.store, template.DefaultCacheBytes), s.store
	b := &mailsBench{spoolRig: s, env: e, kind: strings.TrimSuffix(id, "_mails_journey"), mails: mails, people: people}
	if err := b.fillPeople(ctx); err != nil {
		return err
	}
	stop, err := begin(b, ctx)
	if err != nil {
		return err
	}
	defer s.send(ctx)()
	err = until(ctx, mailsWithin, func() bool { return s.stats.Results("sink")[mail.ResultSent] >= mails })
	took := time.Since(b.started)
	var recorded int64
	if err == nil {
		err = until(ctx, mailsWithin, func() bool { recorded = b.recorded(ctx); return recorded >= mails })
	}
	after, cpuErr := cpuTimeOf(os.Getpid())
	stop()
	if err := errors.Join(err, cpuErr); err != nil {
		return fmt.Errorf("%s: %d of %d were sent, %d are in the ledger: %w", label, s.stats.Results("sink")[mail.ResultSent], mails, recorded, err)
	}
	e.run.report.add(id, label, "mails/s", float64(mails)/took.Seconds())
	e.run.report.add(id+"_cpu", label+", until they are in the ledger", "mails/CPU-s", float64(recorded)/(after-b.before).Seconds())
	return nil
}

// ledgerEvery is how often the ledger is asked: that costs computing, too.
const ledgerEvery = 100 * time.Millisecond

// recorded is how many mails the ledger has as sent, a moment later.
func (b *mailsBench) recorded(ctx context.Context) (n int64) {
	if pause(ctx, ledgerEvery) != nil {
		return 0
	}
	totals, err := b.store.SendTotals(ctx)
	if err != nil {
		return 0 // it is asked again, until it is too late
	}
	for i := range totals {
		if totals[i].State == mail.SendSent {
			n += totals[i].Count
		}
	}
	return n
}

// fillPeople stores the people and the template.
func (b *mailsBench) fillPeople(ctx context.Context) error {
	now := time.Now().UnixMilli()
	people := min(b.people, b.mails+mailsAhead)
	for i := int64(0); i < people; {
		changes := &user.Changes{}
		for ; len(changes.Put) < ruleStep && i < people; i++ {
			id := user.ID{Partition: int(i % spoolPartitions), Number: i/spoolPartitions + 1}
			changes.Put = append(changes.Put, user.Row{ID: id, UpdatedMillis: now, Profile: journeyProfile(i)})
			changes.AddKeys = append(changes.AddKeys, user.KeyRow{Key: user.Key{Kind: user.KeyExternal, Name: fmt.Sprintf("user-%d", i)}, ID: id})
			changes.AddAddress = append(changes.AddAddress, user.KeyRow{Key: user.Key{Kind: user.KeyEmail, Name: fmt.Sprintf("user-%d@example.com", i)}, ID: id})
		}
		p, err := b.store.Prepare(&store.Effect{Users: changes})
		if err == nil {
			_, err = b.store.Apply(ctx, p)
		}
		if err != nil {
			return err
		}
	}
	return b.store.AddTemplate(ctx, mail.Template{ID: "bench", Name: "bench", Current: 1, Latest: 1}, mail.TemplateVersion{
		Template: "bench", Version: 1, Class: mail.ClassMarketing, From: "shop@example.com", Subject: "Hello {{${first_name}}}",
		Text: "Dear {{${first_name}}}, your plan is {{custom_attribute.${plan}}}.\n",
	})
}

// handIn hands the mails in.
func (b *mailsBench) handIn(ctx context.Context) (stop func(), err error) {
	content := template.Content{Template: "bench", Version: 1, State: "subscribed"}
	text := content.Append(nil)
	if err := b.start(); err != nil {
		return nil, err
	}
	for n := int64(0); n < b.mails; n += 1000 {
		drafts := make([]mail.Draft, min(1000, b.mails-n))
		for i := range drafts {
			at := n + int64(i)
			drafts[i] = mail.Draft{Priority: mail.PriorityNormal, Class: mail.ClassMarketing, Form: mail.ContentTemplate, From: "shop@example.com",
				To: []string{fmt.Sprintf("user-%d@example.com", at)}, Users: []string{fmt.Sprintf("user-%d", at)}, Content: text}
		}
		for {
			if _, err = b.intake.Submit(ctx, "", drafts); !errors.Is(err, sluice.ErrFull) {
				break
			}
			if err := pause(ctx, 20*time.Millisecond); err != nil {
				return nil, err
			}
		}
		if err != nil {
			return nil, err
		}
	}
	return func() {}, nil
}

// move has everybody come to the message step.
func (b *mailsBench) move(ctx context.Context) (stop func(), err error) {
	loader := &moving.Loader{Journeys: b.store, Templates: b.store, Segments: b.store, Log: slog.Default()}
	number, err := publish(ctx, b.store, mailsJourney, templateEnv{})
	if err != nil {
		return nil, err
	}
	leases := flow.NewLeases(b.redis, b.store, slog.New(slog.DiscardHandler))
	leases.AddPartitions(moving.Role, b.redis, flow.Partitions(spoolPartitions))
	leasing, stopLeases := context.WithCancel(ctx)
	left := make(chan error, 1)
	go func() { left <- leases.Run(leasing) }() // until the returned stop
	logs := make([]*flow.Log, spoolPartitions)
	for i, part := range flow.Partitions(spoolPartitions) {
		logs[i] = flow.NewLog(b.redis, part)
	}
	x := &journeyBench{env: b.env, name: "mails", users: b.people, store: b.store, redis: b.redis, logs: logs, leases: leases}
	unlease := func() { stopLeases(); <-left }
	if err := x.enter(ctx, number, time.Now()); err != nil {
		unlease()
		return nil, err
	}
	full, err := x.usedMB(ctx, "used_memory")
	if err = errors.Join(err, b.start()); err != nil {
		unlease()
		return nil, err
	}
	clock := sluice.SystemClock{}
	gate := moving.NewGate(logs, b.store, loader, clock, slog.New(slog.DiscardHandler))
	looking, stopLooking := context.WithCancel(ctx)
	looked := make(chan struct{})
	go func() { defer close(looked); gate.Run(looking) }() // until stop
	b.sender.Journeys = gate
	f := &moving.Follower{Logs: logs, Leases: leases, Store: b.store, Clock: clock, Log: slog.New(slog.DiscardHandler), Health: &ingest.Stats{}, Loader: loader, StoredBy: ingest.StoreRole, QueuedBy: spool.QueueCursor}
	stopRuns := runs(ctx, f)
	measured, stopMeasuring := context.WithCancel(ctx)
	worst := make(chan float64, 1)
	go func() { worst <- b.watchWaiting(measured, x, f, full) }() // until stop
	return func() {
		stopMeasuring()
		bytes := <-worst
		b.env.run.report.add(b.kind+"_mails_waiting", b.kind+", Redis over the records, for each who waits at the step, at the worst", "bytes", bytes)
		stopRuns()
		stopLooking()
		<-looked
		unlease()
	}, nil
}

// watchWaiting returns the most that Redis had over the records for each person who
// waited, while at least half of all did.
func (b *mailsBench) watchWaiting(ctx context.Context, x *journeyBench, f *moving.Follower, full float64) (worst float64) {
	for pause(ctx, 100*time.Millisecond) == nil {
		used, err := x.usedMB(ctx, "used_memory")
		if wait := b.people - f.Stats.Moved.Load(); err == nil && wait >= b.people/2 {
			worst = max(worst, (used-full)*1e6/float64(wait))
		}
	}
	return worst
}

// templateEnv has the template of the bench.
type templateEnv struct{ noEnv }

func (templateEnv) Template(string, int) (mail.Class, bool, error) {
	return mail.ClassMarketing, true, nil
}
