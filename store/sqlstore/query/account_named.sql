SELECT id, name, role, password, created, updated FROM accounts WHERE name = ?
