DELETE FROM accounts WHERE id = ?
