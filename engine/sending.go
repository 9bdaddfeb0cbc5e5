package engine

import (
	"context"
	"fmt"
	"strings"
	"time"

	"sluice/config"
	"sluice/flow"
	"sluice/ingest"
	"sluice/journey/run"
	"sluice/mail"
	"sluice/mail/feedback"
	"sluice/mail/route"
	"sluice/mail/schedule"
	"sluice/mail/spool"
	"sluice/mail/template"
	"sluice/mail/via/sinkbox"
)

// This file builds what sends.

// sending is what takes messages in and sends them.
type sending struct {
	lanes     []*flow.Lanes
	intake    *spool.Intake
	queuer    *spool.Queuer
	canceller *spool.Canceller
	decider   *spool.Decider
	operator  *spool.Operator
	sender    *spool.Sender // nil: not the role of this process
	stats     *spool.Stats
	lost      lostSends
	feedback  *feedback.Watch

	router     *route.Router // without that role it only says what could be sent
	transports []mail.Transport
	box        *sinkbox.Box // one of them
}

// openSending builds it. Nothing runs yet.
func (e *core) openSending(partitions []flow.Partition) error {
	if err := e.openDomains(); err != nil {
		return err
	}
	s := &sending{stats: &spool.Stats{Health: e.stats}}
	s.lanes = LanesOf(e.logs)
	bodies := &spool.FreshBodies{Store: e.store}
	s.intake = &spool.Intake{Writer: e.writer, Bodies: &spool.BodyWriter{Store: bodies}, Partitions: len(e.logs), Clock: e.clock, Check: s.check, Accepted: &e.stats.Accepted, Room: e.room(s.lanes), Names: e.names, Moved: e.moved}
	s.queuer = &spool.Queuer{Lanes: s.lanes, Logs: e.logs, Suppress: e.suppressions, Clock: e.clock, Log: e.log}
	s.canceller = &spool.Canceller{Writer: e.writer, Lanes: s.lanes, Ledger: e.store, StoredBy: ingest.StoreRole, Clock: e.clock}
	s.decider = &spool.Decider{Writer: e.writer, Lanes: s.lanes, Ledger: e.store, Clock: e.clock}
	s.operator = &spool.Operator{Redis: e.redis, Kept: e.store, Writer: e.writer, Lanes: s.lanes, Ledger: e.store, Partitions: len(e.logs), Clock: e.clock}
	e.openFeedback(s, partitions)
	e.sending = s
	e.gate = run.NewGate(e.logs, e.store, e.loader(), e.clock, e.log)
	if e.config.HasRole(config.RoleStore) {
		e.leases.AddPartitions(schedule.Role, e.redis, partitions[:1])
	}
	if err := e.openRoutes(s); err != nil {
		return err
	}
	e.openUnlisters()
	if !e.config.HasRole(config.RoleSend) {
		return nil
	}
	mailer, err := e.mailer()
	if err != nil {
		return err
	}
	e.leases.AddPartitions(spool.Role, e.redis, partitions)
	s.sender = &spool.Sender{
		Process: e.leases.ID(), Lanes: s.lanes, Leases: e.leases, Bodies: bodies, Record: e.store, StoredBy: ingest.StoreRole, Suppress: e.suppressions,
		Routes: s.router, Maker: mailer, Journeys: e.gate, Feedback: s.feedback, Clock: e.clock, Log: e.log, Stats: s.stats, DoubtAfter: time.Duration(e.config.InDoubtSeconds) * time.Second,
	}
	return nil
}

// room returns what bounds the mail that waits.
func (e *core) room(lanes []*flow.Lanes) *spool.Room {
	all, key := WaitingBounds(e.config)
	owing := &flow.Owing{Lanes: lanes} // a Room reads once at a time
	return &spool.Room{All: all, Key: key, Clock: e.clock, Log: e.log, Read: func(ctx context.Context) (map[string]mail.Load, error) {
		return owing.Read(ctx, e.clock.Now().UnixMilli())
	}}
}

// boundsUsed is how much is taken of each bound of the mail that waits, and of what is
// remembered of requests for mail.
func (e *core) boundsUsed(ctx context.Context) []spool.Used {
	return append(e.sending.intake.Room.Used(ctx), spool.Used{Setting: "idempotency_names", Share: e.names.Used(ctx)})
}

// nearBoundShare is from which share of a bound on it is warned of: before marketing
// mail is refused, for which a bound of mail that waits is a tenth smaller.
const nearBoundShare = 0.8

// nearBounds says which bounds are nearly reached: beyond them mail is refused.
func (e *core) nearBounds() (warnings []string) {
	ctx, cancel := context.WithTimeout(context.Background(), LookTimeout)
	defer cancel()
	for _, u := range e.boundsUsed(ctx) {
		if u.Share < nearBoundShare {
			continue
		}
		by := ""
		if u.Key != "" {
			by = " by the key " + u.Key
		}
		then := "marketing mail is refused from 90 % on, all mail at 100 %"
		if !strings.HasPrefix(u.Setting, "waiting.") {
			then = "mail beyond it is refused"
		}
		warnings = append(warnings, fmt.Sprintf("%.0f %% of %s is taken%s; %s", 100*u.Share, u.Setting, by, then))
	}
	return warnings
}

// LanesOf are the lanes of logs.
func LanesOf(logs []*flow.Log) (lanes []*flow.Lanes) {
	for _, l := range logs {
		lanes = append(lanes, l.Lanes())
	}
	return lanes
}

// releaser returns what hands in mail that was scheduled.
func (e *core) releaser() *schedule.Releaser {
	return &schedule.Releaser{Store: e.store, Submitter: e.sending.intake, Leases: e.leases, Clock: e.clock, Log: e.log}
}

// check says why a draft can never be sent. What is taken although some of its
// recipients cannot be reached waits for a route to them, or expires.
func (s *sending) check(d *mail.Draft) (err error) {
	unreached := 0
	for _, to := range d.To {
		if e := s.router.Check(to, d.Class, d.Route); e != nil {
			unreached++
			err = fmt.Errorf("to %s: %w", to, e)
		}
	}
	if d.Partly && unreached < len(d.To) {
		return nil
	}
	return err
}

// reaches says why no mail of any class can be sent to an address.
func (s *sending) reaches(to string) error {
	err := s.router.Check(to, mail.ClassTransactional, "")
	if err != nil && s.router.Check(to, mail.ClassMarketing, "") == nil {
		return nil
	}
	return err
}

// mailer returns what makes mails.
func (e *core) mailer() (*spool.Mailer, error) {
	signers, err := e.config.Signers()
	if err != nil {
		return nil, err
	}
	m := &spool.Mailer{Templates: template.NewCache(e.store, template.DefaultCacheBytes), Users: e.store, Links: e.unsubscribes(), UnsubscribeMailto: e.config.UnsubscribeMailto, Signers: signers, Meet: e.meet(), Refused: e.refused(), Clock: e.clock}
	if e.links != nil {
		m.Tracker, m.Untracked = e.tracker(), e.untracked()
	}
	if e.returnPaths != nil && e.config.Bounces.Feedback != "" {
		m.FeedbackID = e.feedbackID
	}
	return m, nil
}
