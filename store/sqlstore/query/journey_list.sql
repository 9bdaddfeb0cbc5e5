SELECT number, id, name, status, version, revision, draft, created, updated FROM journeys WHERE id > ? ORDER BY id LIMIT ?
