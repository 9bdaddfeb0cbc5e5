INSERT INTO segments (id, name, definition, created, updated, archived) VALUES (?, ?, ?, ?, ?, ?)
