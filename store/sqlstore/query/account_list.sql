SELECT id, name, role, password, created, updated FROM accounts ORDER BY name LIMIT ?
