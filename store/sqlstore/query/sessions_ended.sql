DELETE FROM account_sessions WHERE ends < ?
