INSERT INTO accounts (id, name, role, password, created, updated) VALUES (?, ?, ?, ?, ?, ?)
