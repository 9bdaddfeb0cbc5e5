package ingest

import (
	"context"
	"errors"
	"time"

	"sluice"
	"sluice/store"
)

// How often a session asks whether the database is back, and how long it waits for
// an answer.
const (
	outlastEvery  = 500 * time.Millisecond
	outlastAnswer = 15 * time.Second // longer than any connecting takes
)

// outlast returns failed, the error of a transaction, when the database answers
// again or the session ends. If the database answers now, or failed is nil, it
// returns at once.
//
// Mail gets from the logs into the lanes by the reading half of a session (ahead),
// which needs Redis alone. But a session begins with cursors of the database. A
// session that ended because the database is away would have no successor until the
// database is back, and urgent mail would wait in the logs. So the session stays,
// and its reading half queues what comes, while one transaction waits here. What
// that transaction had done is not known: the next session reads it in the cursors.
//
// The price. If Redis fails too meanwhile, the reading half has ended, and mail waits in
// the logs until the database is back.
func (s *StoreFollower) outlast(fetch context.Context, partition int, failed error) error {
	if failed == nil || errors.Is(failed, sluice.ErrConflict) || errors.Is(failed, store.ErrPublished) {
		return failed // the database has answered
	}
	for told := ""; ; {
		err := s.answers(fetch, partition)
		if err == nil || fetch.Err() != nil {
			return failed
		}
		s.Stats.Failed(StoreRole, errors.Join(failed, err), s.Clock.Now())
		if err.Error() != told {
			told = err.Error()
			s.Log.Warn("the database does not answer: what the logs have waits to be stored, and mail is still queued", "follower", StoreRole, "failed", failed, "error", err)
		}
		if sluice.Pause(fetch, sluice.Rest(time.Now(), outlastEvery)) != nil {
			return failed
		}
	}
}

// answers returns nil if the database reads a cursor, and else why it does not.
func (s *StoreFollower) answers(ctx context.Context, partition int) error {
	ctx, stop := context.WithTimeout(ctx, outlastAnswer)
	defer stop()
	_, err := s.Store.Cursors(ctx, StoreRole, []int{partition})
	return err
}
