package main

import (
	"time"

	"sluice"
	"sluice/config"
	"sluice/dkim"
	"sluice/flow"
	"sluice/route"
	"sluice/spool"
	"sluice/suppress"
	"sluice/template"
)

// This file builds what sends.

// doubtAfter is how long transactional mail in doubt waits for its last attempt:
// the longest that a relay may take to answer (RFC 5321, 4.5.3.2.6), and a lease.
const doubtAfter = 10*time.Minute + 2*flow.LeaseTimeout

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
}

// openSending builds it. Nothing runs yet.
func (e *engine) openSending(partitions []flow.Partition) error {
	s := &sending{stats: &spool.Stats{Health: e.stats}}
	for _, l := range e.logs {
		s.lanes = append(s.lanes, l.Lanes())
	}
	s.intake = &spool.Intake{Writer: e.writer, Bodies: &spool.BodyWriter{Store: e.store}, Partitions: len(e.logs), Clock: e.clock}
	s.queuer = &spool.Queuer{Lanes: s.lanes, Logs: e.logs, Suppress: suppress.Reasons{List: e.suppressions.List}, Clock: e.clock}
	s.canceller = &spool.Canceller{Writer: e.writer, Ledger: e.store, Clock: e.clock}
	e.sending = s
	if !e.config.HasRole(config.RoleSend) {
		return nil
	}
	if err := e.openRoutes(s); err != nil {
		return err
	}
	e.leases.AddPartitions(spool.Role, e.redis, partitions)
	s.sender = &spool.Sender{
		Process: e.leases.ID(), Lanes: s.lanes, Leases: e.leases, Bodies: e.store, Suppress: suppress.Reasons{List: e.suppressions.List},
		Routes: routes{s.router}, Maker: e.mailer(), Clock: e.clock, Log: e.log, Stats: s.stats, DoubtAfter: doubtAfter,
	}
	return nil
}

// mailer returns what makes mails.
func (e *engine) mailer() *spool.Mailer {
	return &spool.Mailer{Templates: template.NewCache(e.store, template.DefaultCacheBytes), Users: e.store, Signers: map[string]*dkim.Signer{}, Clock: e.clock}
}
