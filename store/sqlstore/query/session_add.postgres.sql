INSERT INTO account_sessions (hash, account, created, ends) SELECT ?, id, ?, ? FROM accounts WHERE id = ? AND password = ? AND updated = ? FOR SHARE
