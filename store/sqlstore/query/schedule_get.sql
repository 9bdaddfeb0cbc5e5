SELECT id, state, revision, due, request, created, updated FROM schedules WHERE id = ?
