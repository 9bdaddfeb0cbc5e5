INSERT INTO templates (id, name, in_use, latest, created, updated, archived) VALUES (?, ?, 1, 1, ?, ?, NULL)
