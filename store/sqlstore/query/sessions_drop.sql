DELETE FROM account_sessions WHERE account = ?
