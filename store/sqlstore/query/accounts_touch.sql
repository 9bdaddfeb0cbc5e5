UPDATE accounts SET updated = ? WHERE role = ?
