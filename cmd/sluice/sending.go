package main

import (
	"time"

	"sluice"
	"sluice/braze"
	"sluice/config"
	"sluice/flow"
	"sluice/route"
	"sluice/sinkbox"
	"sluice/spool"
	"sluice/suppress"
	"sluice/template"
)

// This file builds what sends.

// sending is what takes messages in and sends them.
type sending struct {
	lanes     []*flow.Lanes
	intake    *spool.Intake
	queuer    *spool.Queuer
	canceller *spool.Canceller
	sender    *spool.Sender // nil: not the role of this process
	stats     *spool.Stats

	router     *route.Router // nil: not the role of this process
	transports []sluice.Transport
	box        *sinkbox.Box // one of them
}

// openSending builds it. Nothing runs yet.
func (e *engine) openSending(partitions []flow.Partition) error {
	if err := e.openDomains(); err != nil {
		return err
	}
	s := &sending{stats: &spool.Stats{Health: e.stats}}
	for _, l := range e.logs {
		s.lanes = append(s.lanes, l.Lanes())
	}
	s.intake = &spool.Intake{Writer: e.writer, Bodies: &spool.BodyWriter{Store: e.store}, Partitions: len(e.logs), Clock: e.clock}
	s.queuer = &spool.Queuer{Lanes: s.lanes, Logs: e.logs, Suppress: suppress.Reasons{List: e.suppressions.List}, Clock: e.clock}
	s.canceller = &spool.Canceller{Writer: e.writer, Ledger: e.store, Clock: e.clock}
	e.sending = s
	if e.config.HasRole(config.RoleStore) {
		e.leases.AddPartitions(braze.ScheduleRole, e.redis, partitions[:1])
	}
	if !e.config.HasRole(config.RoleSend) {
		return nil
	}
	if err := e.openRoutes(s); err != nil {
		return err
	}
	mailer, err := e.mailer()
	if err != nil {
		return err
	}
	e.leases.AddPartitions(spool.Role, e.redis, partitions)
	s.sender = &spool.Sender{
		Process: e.leases.ID(), Lanes: s.lanes, Leases: e.leases, Bodies: e.store, Suppress: suppress.Reasons{List: e.suppressions.List},
		Routes: routes{s.router}, Maker: mailer, Clock: e.clock, Log: e.log, Stats: s.stats, DoubtAfter: time.Duration(e.config.InDoubtSeconds) * time.Second,
	}
	return nil
}

// releaser returns what hands in mail that was scheduled.
func (e *engine) releaser() *braze.Releaser {
	return &braze.Releaser{Store: e.store, Submitter: e.sending.intake, Leases: e.leases, Clock: e.clock, Log: e.log}
}

// mailer returns what makes mails.
func (e *engine) mailer() (*spool.Mailer, error) {
	signers, err := e.config.Signers()
	if err != nil {
		return nil, err
	}
	return &spool.Mailer{Templates: template.NewCache(e.store, template.DefaultCacheBytes), Users: e.store, Signers: signers, Meet: e.meet(), Clock: e.clock}, nil
}
