INSERT INTO journeys (number, id, name, status, version, revision, draft, created, updated) VALUES (?, ?, ?, ?, 0, 0, ?, ?, ?)
