SELECT COUNT(*) FROM accounts
