package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"

	"sluice"
	"sluice/store"
)

var _ store.AccountStore = (*Store)(nil)

// lastText is behind all ids of entries, which are ASCII.
const lastText = "~"

// AddAccount implements store.AccountStore. They are counted beside other transactions,
// so the bound is a rough one.
func (s *Store) AddAccount(ctx context.Context, a store.Account) error {
	return s.newAccount(ctx, &a, func(*txn) error { return nil })
}

// AddFirstAccount implements store.AccountStore. Two holders of links at once both delete
// all links, in one order: one waits for the other, and then finds none. Accounts are
// counted behind that wait, so that the count is no older.
func (s *Store) AddFirstAccount(ctx context.Context, hash string, nowMillis int64, a store.Account) error {
	there, err := s.HasSetup(ctx, hash, nowMillis)
	if err != nil {
		return err
	}
	return s.newAccount(ctx, &a, func(tx *txn) error {
		dropped, err := tx.changed(ctx, "setups_drop")
		if err != nil {
			return err
		}
		var many int64
		if err := tx.conn.QueryRowContext(ctx, query(s.d, "account_count")).Scan(&many); err != nil {
			return err
		}
		if !there || dropped == 0 || many > 0 {
			return &sluice.Error{Code: sluice.CodeForbidden, Index: -1, Message: "this link was used, or is older than 15 minutes; restart the program for another, or run `sluice account add`"}
		}
		return nil
	})
}

// newAccount adds an account, after something else in the same transaction.
func (s *Store) newAccount(ctx context.Context, a *store.Account, first func(*txn) error) error {
	err := s.writeSmall(ctx, func(tx *txn) error {
		if err := first(tx); err != nil {
			return err
		}
		if err := tx.below(ctx, store.MaxAccounts, "there are %d accounts, and no more are possible; remove one", "account_count"); err != nil {
			return err
		}
		return tx.exec(ctx, "account_add", a.ID, a.Name, a.Role, a.Password, s.d.millis(a.CreatedMillis), s.d.millis(a.UpdatedMillis))
	})
	if _, refused := s.d.refusal(err); refused {
		if _, there := s.Account(ctx, a.Name); there == nil {
			err = errors.Join(&sluice.Error{Code: sluice.CodeConflict, Index: -1, Message: "there is an account of this name"}, err)
		}
	}
	return s.failed(err, "add account %s in", a.ID)
}

// AddSetup implements store.AccountStore.
func (s *Store) AddSetup(ctx context.Context, hash string, endMillis int64) error {
	return s.failed(s.execSmall(ctx, "setup_add", hash, s.d.millis(endMillis)), "add a link for the first account in")
}

// HasSetup implements store.AccountStore.
func (s *Store) HasSetup(ctx context.Context, hash string, nowMillis int64) (bool, error) {
	n, err := s.count(ctx, "look for a link for the first account in", rawQuery(s.d, "setup_count"), hash, s.d.millis(nowMillis))
	return n > 0, err
}

// Account implements store.AccountStore.
func (s *Store) Account(ctx context.Context, name string) (store.Account, error) {
	return one(ctx, s, s.scanAccount, notFound("there is no account %.100q", name), "an account", "account_named", name)
}

// Accounts implements store.AccountStore.
func (s *Store) Accounts(ctx context.Context) ([]store.Account, error) {
	all, err := list(ctx, s.d, s.reads, s.scanAccount, rawQuery(s.d, "account_list"), store.MaxAccounts)
	return all, s.failed(err, "list accounts in")
}

func (s *Store) scanAccount(scan scanner, a *store.Account) error {
	return scan(&a.ID, &a.Name, &a.Role, &a.Password, s.instant(&a.CreatedMillis), s.instant(&a.UpdatedMillis))
}

// CountAccounts implements store.AccountStore.
func (s *Store) CountAccounts(ctx context.Context) (int64, error) {
	return s.count(ctx, "count accounts in", rawQuery(s.d, "account_count"))
}

// ChangeAccount implements store.AccountStore.
func (s *Store) ChangeAccount(ctx context.Context, c store.AccountChange) error {
	err := s.changeAccount(ctx, c.ID, c.Keep, func(tx *txn) error {
		if c.Role != "" {
			if err := tx.exec(ctx, "account_role", c.Role, s.now(), c.ID); err != nil {
				return err
			}
		}
		if c.Password == "" {
			return nil
		}
		if err := tx.setPassword(ctx, &c); err != nil {
			return err
		}
		return tx.exec(ctx, "sessions_drop", c.ID)
	})
	if err == nil && c.Password != "" {
		err = s.failed(s.endBehind(ctx, c.ID), "end the sessions of account %s, which has its new password, in", c.ID)
	}
	return err
}

// setPassword gives an account its new password. Of an account that is not as it was
// nothing is changed: it may have lost its old password since.
func (t *txn) setPassword(ctx context.Context, c *store.AccountChange) error {
	s := t.store
	if c.Was == nil {
		return t.exec(ctx, "account_password", c.Password, s.now(), c.ID)
	}
	n, err := t.changed(ctx, "account_own_password", c.Password, s.now(), c.ID, c.Was.Password, s.d.millis(c.Was.UpdatedMillis))
	if err == nil && n == 0 {
		err = accountChanged()
	}
	return err
}

// endBehind ends the sessions of an account behind a transaction that has changed the
// account and ended them. A session that another node of a Galera cluster is about to add
// is ordered before that transaction, or fails. In the first case it is there when the
// transaction is committed, which has not seen it: so of two who change a password at once
// neither leaves a session of the other one.
func (s *Store) endBehind(ctx context.Context, account string) error {
	return s.execSmall(ctx, "sessions_drop", account)
}

// DropAccount implements store.AccountStore.
func (s *Store) DropAccount(ctx context.Context, id, keep string) error {
	return s.changeAccount(ctx, id, keep, func(tx *txn) error {
		if err := tx.exec(ctx, "account_drop", id); err != nil {
			return err
		}
		return tx.exec(ctx, "sessions_drop", id)
	})
}

// changeAccount changes an account, and refuses if nobody is left of those who had a role.
// The rows of all of them are changed first, in their times. So of two who demote each
// other one waits for the other, and then counts what that has left. A lock would not do:
// the nodes of a Galera cluster know of each other's changes only.
func (s *Store) changeAccount(ctx context.Context, id, keep string, change func(*txn) error) error {
	err := s.writeSmall(ctx, func(tx *txn) error {
		if keep == "" {
			return change(tx)
		}
		if err := tx.exec(ctx, "accounts_touch", s.now(), keep); err != nil {
			return err
		}
		var had, left int
		having := query(s.d, "accounts_having")
		err := tx.conn.QueryRowContext(ctx, having, keep).Scan(&had)
		if err == nil {
			err = change(tx)
		}
		if err == nil {
			err = tx.conn.QueryRowContext(ctx, having, keep).Scan(&left)
		}
		if err != nil {
			return err
		}
		if had > 0 && left == 0 {
			return sluice.Refuse(sluice.CodeConflict, "this is the last account with the role %s: make another one first", keep)
		}
		return nil
	})
	return s.failed(err, "change account %s in", id)
}

// AddSession implements store.AccountStore. It locks the row of the account: a change
// beside it is over before, and then there is no session, or ends this session.
func (s *Store) AddSession(ctx context.Context, n store.Session) error {
	err := s.writeSmall(ctx, func(tx *txn) error {
		added, err := tx.changed(ctx, "session_add", n.Hash, s.d.millis(n.CreatedMillis), s.d.millis(n.EndMillis), n.Account.ID, n.Account.Password, s.d.millis(n.Account.UpdatedMillis))
		if err == nil && added == 0 {
			err = accountChanged()
		}
		return err
	})
	if err == nil {
		err = s.confirmSession(ctx, n)
	}
	return s.failed(err, "add a session in")
}

func accountChanged() error {
	return &sluice.Error{Code: sluice.CodeConflict, Index: -1, Message: "the account is gone, or was changed"}
}

// confirmSession ends a session that was added behind a change of its account. A node of a
// Galera cluster that has not applied the change yet adds the session all the same: its
// lock says nothing to other nodes. What is read now was changed before the session.
func (s *Store) confirmSession(ctx context.Context, n store.Session) error {
	is, err := s.Account(ctx, n.Account.Name)
	if sluice.IsNotFound(err) {
		err = accountChanged()
	} else if err == nil && (is.ID != n.Account.ID || is.Password != n.Account.Password || is.UpdatedMillis != n.Account.UpdatedMillis) {
		err = accountChanged()
	}
	if err == nil {
		return nil
	}
	return errors.Join(err, s.execSmall(context.WithoutCancel(ctx), "session_drop", n.Hash))
}

// Session implements store.AccountStore.
func (s *Store) Session(ctx context.Context, hash string) (store.Session, error) {
	return one(ctx, s, func(scan scanner, n *store.Session) error {
		n.Hash = hash
		return scan(s.instant(&n.CreatedMillis), s.instant(&n.EndMillis), &n.Account.ID, &n.Account.Name, &n.Account.Role)
	}, notFound("there is no such session"), "a session", "session_get", hash)
}

// DropSession implements store.AccountStore.
func (s *Store) DropSession(ctx context.Context, hash string) error {
	return s.failed(s.execSmall(ctx, "session_drop", hash), "end a session in")
}

// DropSessions implements store.AccountStore. It changes the account: who signs in at this
// moment has read it before, and gets no session.
func (s *Store) DropSessions(ctx context.Context, account string) error {
	err := s.writeSmall(ctx, func(tx *txn) error {
		var updated int64
		err := tx.conn.QueryRowContext(ctx, query(s.d, "account_updated"), account).Scan(s.instant(&updated))
		if errors.Is(err, sql.ErrNoRows) {
			return nil // its sessions went with it
		}
		if err == nil { // another time in any case, also within a millisecond
			err = tx.exec(ctx, "account_touch", s.d.millis(max(updated+1, s.clock.Now().UnixMilli())), account)
		}
		if err != nil {
			return err
		}
		return tx.exec(ctx, "sessions_drop", account)
	})
	if err == nil {
		err = s.endBehind(ctx, account)
	}
	return s.failed(err, "end the sessions of account %s in", account)
}

// AddAudit implements store.AccountStore.
func (s *Store) AddAudit(ctx context.Context, e store.AuditEntry) error {
	return s.failed(s.execSmall(ctx, "audit_add", e.ID, s.d.millis(e.TimeMillis), e.Account, e.Name, e.Method, e.Path, e.Status, e.Detail, e.Before, e.After), "add to the audit log in")
}

// FinishAudit implements store.AccountStore.
func (s *Store) FinishAudit(ctx context.Context, e store.AuditEntry) error {
	return s.failed(s.execSmall(ctx, "audit_finish", e.Status, e.Detail, e.Before, e.After, e.ID), "finish an entry of the audit log in")
}

// Audit implements store.AccountStore.
func (s *Store) Audit(ctx context.Context, before string, limit int) ([]store.AuditEntry, error) {
	all, err := list(ctx, s.d, s.reads, func(scan scanner, e *store.AuditEntry) error {
		return scan(&e.ID, s.instant(&e.TimeMillis), &e.Account, &e.Name, &e.Method, &e.Path, &e.Status, &e.Detail, &e.Before, &e.After)
	}, rawQuery(s.d, "audit_list"), cmp.Or(before, lastText), limit)
	return all, s.failed(err, "list the audit log in")
}

// DropEnded implements store.RetentionStore.
func (s *Store) DropEnded(ctx context.Context, nowMillis int64, auditBefore string) error {
	err := s.writeSmall(ctx, func(tx *txn) error {
		if err := tx.execEach(ctx, []string{"sessions_ended", "setups_ended"}, s.d.millis(nowMillis)); err != nil {
			return err
		}
		return tx.exec(ctx, "audit_drop", auditBefore)
	})
	return s.failed(err, "drop ended sessions in")
}
