UPDATE accounts SET updated = ? WHERE id = ?
