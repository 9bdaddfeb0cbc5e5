package baseline

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
)

// MailTable is a spool of mails in a table, as the social network had it. It
// has a row a mail, and workers that take the most urgent one, first in first
// out inside a priority, each exactly one. SKIP LOCKED is kinder to it than
// what there was at the time.
type MailTable struct {
	db *sql.DB

	enqueue, take, hold, done *sql.Stmt
}

// NewMailTable makes the table anew.
func NewMailTable(ctx context.Context, db *sql.DB) (*MailTable, error) {
	t := &MailTable{db: db}
	for _, statement := range []string{
		"DROP TABLE IF EXISTS mail_spool",
		`CREATE TABLE mail_spool (id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY, priority TINYINT NOT NULL, state TINYINT NOT NULL,
			recipient VARCHAR(254) NOT NULL, body MEDIUMBLOB NOT NULL, KEY next (state, priority, id)) ENGINE=InnoDB`,
	} {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return nil, fmt.Errorf("make the table of mails: %w", err)
		}
	}
	var errs [4]error
	t.enqueue, errs[0] = db.PrepareContext(ctx, "INSERT INTO mail_spool (priority, state, recipient, body) VALUES (?, 0, ?, ?)")
	t.take, errs[1] = db.PrepareContext(ctx, "SELECT id, recipient, body FROM mail_spool WHERE state = 0 ORDER BY priority, id LIMIT 1 FOR UPDATE SKIP LOCKED")
	t.hold, errs[2] = db.PrepareContext(ctx, "UPDATE mail_spool SET state = 1 WHERE id = ?")
	t.done, errs[3] = db.PrepareContext(ctx, "DELETE FROM mail_spool WHERE id = ?")
	return t, errors.Join(errs[:]...)
}

// Enqueue stores a mail, durably.
func (t *MailTable) Enqueue(ctx context.Context, priority int, recipient, body string) error {
	_, err := t.enqueue.ExecContext(ctx, priority, recipient, body)
	return err
}

// Fill stores many mails of one priority and body, a thousand a statement.
func (t *MailTable) Fill(ctx context.Context, count, priority int, body string) error {
	const rows = 1000
	for n := 0; n < count; n += rows {
		statement := "INSERT INTO mail_spool (priority, state, recipient, body) VALUES " + strings.Repeat("(?, 0, ?, ?),", rows-1) + "(?, 0, ?, ?)"
		args := make([]any, 0, 3*rows)
		for i := range rows {
			args = append(args, priority, fmt.Sprintf("user%d@example.com", n+i), body)
		}
		if _, err := t.db.ExecContext(ctx, statement, args...); err != nil {
			return fmt.Errorf("fill the table of mails: %w", err)
		}
	}
	return nil
}

// Take takes the most urgent mail, notes that it is being sent, and, as if it
// were, removes it. It reports whether there was one.
func (t *MailTable) Take(ctx context.Context) (took bool, err error) {
	tx, err := t.db.BeginTx(ctx, nil)
	if err != nil {
		return false, err
	}
	defer func() { _ = tx.Rollback() }() // done, or of no use any more
	var id int64
	var recipient string
	var body []byte
	switch err := tx.StmtContext(ctx, t.take).QueryRowContext(ctx).Scan(&id, &recipient, &body); {
	case errors.Is(err, sql.ErrNoRows):
		return false, nil
	case err != nil:
		return false, err
	}
	if _, err := tx.StmtContext(ctx, t.hold).ExecContext(ctx, id); err != nil {
		return false, err
	}
	if err := tx.Commit(); err != nil {
		return false, err
	}
	_, err = t.done.ExecContext(ctx, id)
	return true, err
}
