SELECT id, state, revision, due, request, created, updated FROM schedules WHERE state = ? AND due < ? ORDER BY due, id LIMIT ?
