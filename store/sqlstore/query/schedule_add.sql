INSERT INTO schedules (id, state, revision, due, request, created, updated) VALUES (?, ?, ?, ?, ?, ?, ?)
