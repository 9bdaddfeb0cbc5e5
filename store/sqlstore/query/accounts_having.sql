SELECT COUNT(*) FROM accounts WHERE role = ?
