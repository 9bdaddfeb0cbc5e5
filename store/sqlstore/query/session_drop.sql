DELETE FROM account_sessions WHERE hash = ?
