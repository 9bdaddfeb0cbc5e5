package engine

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"sluice/config"
	"sluice/flow"
	"sluice/ingest"
	"sluice/journey/run"
	"sluice/mail/schedule"
	"sluice/mail/spool"
	"sluice/mail/suppress"
	"sluice/ops/retention"
	"sluice/ops/series"
	"sluice/track/webhook"
)

// migrate brings the schema up, and says so first: a large table takes minutes,
// for which the program seems to stand still.
func (e *core) migrate(ctx context.Context) error {
	have, want, from, err := e.store.Pending(ctx)
	if err != nil {
		return err
	}
	e.schema = want
	if e.fresh = have == 0; e.fresh {
		e.log.Info("the tables are made", "version", want)
	} else if have < want {
		if err := e.leaveNobodyBehind(ctx, have, want, from); err != nil {
			return err
		}
		e.log.Info("the tables are brought up; large ones take minutes", "from", have, "to", want)
	}
	return e.store.Migrate(ctx)
}

// leaveNobodyBehind refuses a migration behind which a process that lives could not
// go on.
func (e *core) leaveNobodyBehind(ctx context.Context, have, want, from int) error {
	living, err := flow.Words(ctx, e.redis, flow.SchemaWord)
	if err != nil {
		return err
	}
	behind := 0
	for _, said := range living {
		if knows, err := strconv.Atoi(said); err != nil || knows < from {
			behind++
		}
	}
	if behind > 0 {
		return fmt.Errorf("migrate the database from version %d to %d: %d older processes run that could not use it after that (they would have to know version %d): stop them first", have, want, behind, from)
	}
	return nil
}

// saySchema is up to which version this process knows the schema.
func (e *core) saySchema() string { return strconv.Itoa(e.schema) }

// Replicas are what is waited for before an answer, and before what has been answered
// leaves the place where it was kept.
func Replicas(cfg *config.Config) flow.Replicas {
	return flow.Replicas{Least: cfg.WaitReplicas, Within: time.Duration(cfg.WaitReplicasMS) * time.Millisecond}
}

// needDatabase are the roles of which each step asks the database, or a session's
// beginning does. Who tells people of troubles (ops/alert) does so without it.
var needDatabase = []string{
	ingest.StoreRole, spool.Role, run.Role, schedule.Role, ingest.ListRole, webhook.Role,
	series.MirrorRole, suppress.SetsRole, retention.Role, pausing,
}

// openLeases makes what shares out the work, and what writes to the logs. The process
// says what it reads and knows; if it does not read all that is in use it is refused.
func (e *core) openLeases(ctx context.Context) error {
	e.leases = flow.NewLeases(e.redis, e.store, e.log)
	e.leases.Reach(e.store.Reach, needDatabase...)
	e.leases.Say(flow.SchemaWord, e.saySchema)
	e.forms = &flow.Forms{Redis: e.redis, Leases: e.leases, Schema: e.store.Ping, AllCursors: e.store.AllCursors, Log: e.log}
	e.writer = flow.NewWriter(e.logs, "api:"+e.leases.ID(), e.config.BacklogMB<<20)
	e.writer.Replicas = Replicas(e.config)
	return e.forms.Begin(ctx)
}
