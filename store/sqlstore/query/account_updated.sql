SELECT updated FROM accounts WHERE id = ?
